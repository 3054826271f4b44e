// The roofline backend: walks plans like any other, computes nothing, and advances a simulated clock.
#include "roofline/roofline.h"

#include <stdlib.h>
#include <string.h>

struct simulator {
    const struct hardware *hw;   // the caller's
    struct roofline_cover cover; // NULL members: none
    const struct plan *plan;
    struct kv_config kv;
    struct cost_walk walk;
    struct op_price *ops; // [n_ops]
    struct span *spans;   // [n_ops]
    double now_ns;
};

static bool sim_supports(void *self, const struct op *op, struct error *e)
{
    (void)self, (void)op, (void)e;
    return true;
}

static int32_t sim_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    struct simulator *s = self;
    if (s->cover.cover)
        return s->cover.cover(s->cover.self, plan, shape, spans);
    for (int32_t i = 0; i < plan->n_ops; i++)
        spans[i] = (struct span){.first = i, .count = 1};
    return plan->n_ops;
}

static void sim_unload(struct simulator *s)
{
    cost_walk_free(&s->walk);
    free(s->ops);
    free(s->spans);
    s->ops = NULL, s->spans = NULL, s->plan = NULL;
}

static bool sim_start(void *self, const struct plan *plan, const struct kv_config *kv, struct error *e)
{
    struct simulator *s = self;
    sim_unload(s);
    s->ops = calloc((size_t)plan->n_ops, sizeof *s->ops);
    s->spans = calloc((size_t)plan->n_ops, sizeof *s->spans);
    if (!s->ops || !s->spans)
        return error_set(e, ERROR_MEMORY, "no memory to simulate '%s'", plan->model);
    if (!cost_walk_init(&s->walk, plan, e))
        return false;
    s->plan = plan;
    s->kv = *kv;
    return true;
}

static bool sim_run(void *self, const struct plan *plan, const struct batch *batch, struct trace *trace, struct error *e)
{
    struct simulator *s = self;
    struct batch_shape shape = batch_shape_of(batch);
    int32_t n = sim_cover(s, plan, &shape, s->spans);
    if (!roofline_price_walk(&s->walk, batch, s->hw, s->spans, n, s->ops, e))
        return false;
    for (int32_t i = 0; i < n; i++) {
        struct span span = s->spans[i];
        int64_t begin = (int64_t)s->now_ns;
        for (int32_t k = span.first; k < span.first + span.count; k++)
            s->now_ns += s->ops[k].span_ns;
        if (!(s->now_ns < 0x1p62))
            return error_set(e, ERROR_UNSUPPORTED, "on '%s' this takes longer than the simulated clock can count",
                             s->hw->name);
        trace_add(trace, (struct trace_row){.span = span, .begin_ns = begin, .end_ns = (int64_t)s->now_ns});
    }
    return true;
}

// Each block is read once and written once.
static bool sim_move(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    struct simulator *s = self;
    (void)moves, (void)e;
    double bytes = 2.0 * n * s->kv.block_size * (double)plan_kv_bytes_per_token(s->plan);
    s->now_ns += bytes / hardware_bandwidth(s->hw, roofline_bandwidth_kind(s->hw)) * 1e9;
    return true;
}

static bool sim_fill(void *self, int32_t block, uint64_t seed, struct error *e)
{
    (void)self, (void)block, (void)seed, (void)e;
    return true;
}

static bool sim_read(void *self, int32_t out_row, float *logits, struct error *e)
{
    struct simulator *s = self;
    (void)out_row, (void)e;
    memset(logits, 0, (size_t)s->plan->vocab_size * sizeof *logits);
    return true;
}

static int64_t sim_now_ns(void *self)
{
    return (int64_t)((struct simulator *)self)->now_ns;
}

static const char *sim_kernel_name(void *self, uint16_t kernel)
{
    const struct simulator *s = self;
    return s->cover.kernel_name ? s->cover.kernel_name(s->cover.self, kernel) : "priced";
}

// What a device would hold.
static uint64_t sim_memory_bytes(void *self)
{
    struct simulator *s = self;
    if (!s->plan)
        return 0;
    return plan_weight_bytes(s->plan) +
           (uint64_t)s->kv.n_blocks * (uint64_t)s->kv.block_size * plan_kv_bytes_per_token(s->plan);
}

static void sim_close(void *self)
{
    sim_unload(self);
    free(self);
}

bool roofline_backend_open(struct backend *out, const struct hardware *hw, const struct roofline_cover *cover,
                           struct error *e)
{
    *out = (struct backend){0};
    struct simulator *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, ERROR_MEMORY, "no memory for the roofline backend");
    *s = (struct simulator){.hw = hw, .cover = cover ? *cover : (struct roofline_cover){0}};
    *out = (struct backend){.name = "roofline",
                            .weightless = true,
                            .self = s,
                            .supports = sim_supports,
                            .cover = sim_cover,
                            .open = sim_start,
                            .run = sim_run,
                            .move = sim_move,
                            .fill = sim_fill,
                            .read = sim_read,
                            .now_ns = sim_now_ns,
                            .kernel_name = sim_kernel_name,
                            .memory_bytes = sim_memory_bytes,
                            .close = sim_close};
    return true;
}
