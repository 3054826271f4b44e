#include "engine/cpu/cpu.h"

#include "engine/base/units.h"
#include "engine/check.h"
#include "engine/cpu/walk.h"

#include <stdlib.h>
#include <string.h>

static bool cpu_supports(void *self, const struct op *op, struct error *e)
{
    (void)self;
    if (op->kind == OP_ATTN && (op->dim[2] > CPU_MAX_HEAD_DIM || op->dim[2] % 2))
        return error_set(e, ERROR_UNSUPPORTED, "the cpu backend has heads of an even number of values up to %d, not %d",
                         CPU_MAX_HEAD_DIM, op->dim[2]);
    return check_op("cpu", op, e);
}

static bool check_kv_types(const struct cpu *c, const struct plan *plan, struct error *e)
{
    const enum dtype kv[] = {plan->kv_k, plan->kv_v};
    for (int i = 0; i < 2; i++)
        if (!c->kernels->kv_store[kv[i]])
            return error_set(e, ERROR_UNSUPPORTED, "the cpu backend keeps KV as f32, bf16, f16 or int8, not %s",
                             dtype_name(kv[i]));
    return true;
}

static bool check_weights(const struct plan *plan, const struct tensor *weights, struct error *e)
{
    static const struct tensor NONE;
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        struct packed p;
        const struct tensor *t = weights ? &weights[i] : &NONE;
        if (!check_tensor("cpu", plan, i, t, e))
            return false;
        if (!pack_init(&p, t->dtype, t->rows, t->cols))
            return error_set(e, ERROR_UNSUPPORTED, "the cpu backend has no kernel for %s, the type of '%s'",
                             dtype_name(t->dtype), tensor_role_name((enum tensor_role)plan->tensor[i].role));
    }
    return true;
}

static bool check_compute(const struct cpu *c, const struct plan *plan, const struct op *op, struct error *e)
{
    enum dtype weights = c->packed[op->weight].type, own = cpu_compute_of(weights);
    return cpu_can_compute(weights, (enum dtype)op->compute) ||
           error_set(e, ERROR_UNSUPPORTED, "the cpu backend multiplies '%s' of type %s in %s, not in %s", op_label(plan, op),
                     dtype_name(weights),
                     own == DTYPE_F32    ? "f32"
                     : own == DTYPE_BF16 ? "f32 or bf16"
                                         : "f32 or int8",
                     dtype_name((enum dtype)op->compute));
}

static bool check_config(const struct kv_config *k, struct error *e)
{
    if (k->n_blocks < 1 || k->block_size < 1 || k->max_tokens < 1 || k->max_seqs < 1 || k->max_out < 1)
        return error_set(e, ERROR_USAGE, "%d blocks of %d tokens for %d rows, %d sequences and %d outputs make no KV cache",
                         k->n_blocks, k->block_size, k->max_tokens, k->max_seqs, k->max_out);
    return true;
}

static uint64_t to_line(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

static uint64_t turn_floats(const struct plan *plan, int32_t which, const struct kv_config *config)
{
    return to_line((uint64_t)config->max_tokens * (uint64_t)(plan->rope[which].rotary_dim / 2));
}

// What linear layers want prepared: the longest row of any.
static void measure_rows(struct cpu *c, const struct plan *plan)
{
    c->widest = 0, c->prepared_stride = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_LINEAR)
            continue;
        uint64_t bytes = linear_row_bytes(c->kernels, (enum dtype)op->compute, op->dim[0]);
        c->prepared_stride = bytes > c->prepared_stride ? bytes : c->prepared_stride;
        c->widest = op->dim[0] > c->widest ? op->dim[0] : c->widest;
    }
    c->widest = (int32_t)to_line((uint64_t)c->widest);
}

// One mapping, cut up.
static bool take_scratch(struct cpu *c, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    uint64_t turns = 0;
    measure_rows(c, plan);
    for (int32_t i = 0; i < plan->n_ropes; i++)
        turns += 2 * turn_floats(plan, i, config);
    int32_t rows = config->max_tokens > config->max_out ? config->max_tokens : config->max_out;
    uint64_t prepared = (uint64_t)rows * c->prepared_stride / sizeof(float);
    uint64_t linear = linear_scratch_floats(c), attention = attention_scratch_floats(plan);
    c->member_floats = to_line(linear > attention ? linear : attention);
    uint64_t members = c->member_floats * (uint64_t)team_size(c->team);
    c->scratch_bytes = (turns + prepared + CPU_PARTS + members) * sizeof(float);
    c->scratch = memory_map(c->scratch_bytes, "scratch memory", e);
    c->tile = malloc((size_t)config->max_tokens * sizeof *c->tile);
    if (!c->scratch)
        return false;
    if (!c->tile)
        return error_set(e, ERROR_MEMORY, "no memory for the tiles of %d rows", config->max_tokens);
    c->prepared = (uint8_t *)(c->scratch + turns);
    c->parts = c->scratch + turns + prepared;
    c->member_scratch = c->parts + CPU_PARTS;
    float *at = c->scratch;
    for (int32_t i = 0; i < plan->n_ropes; i++) {
        c->turns[i].cos = at, at += turn_floats(plan, i, config);
        c->turns[i].sin = at, at += turn_floats(plan, i, config);
    }
    return true;
}

static void drop_plan(struct cpu *c)
{
    free(c->spans);
    free(c->tile);
    memory_unmap(c->scratch, c->scratch_bytes);
    slots_free(&c->slots);
    kv_storage_free(&c->kv);
    c->spans = NULL, c->tile = NULL, c->scratch = NULL, c->plan = NULL;
    c->scratch_bytes = 0, c->n_out = 0;
}

static void unload(struct cpu *c)
{
    drop_plan(c);
    weights_drop(c);
}

static bool cpu_load(void *self, const struct plan *plan, const struct tensor *weights, struct error *e)
{
    struct cpu *c = self;
    unload(c);
    if (check_weights(plan, weights, e) && weights_take(c, plan, weights, e))
        return true;
    unload(c);
    return false;
}

static bool check_plan(struct cpu *c, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (!cpu_supports(c, &plan->op[i], e))
            return false;
    if (!check_kv_types(c, plan, e) || !check_config(config, e))
        return false;
    bool same = c->n_tensors == plan->n_tensors;
    for (int32_t i = 0; same && i < plan->n_tensors; i++)
        if (plan->tensor[i].rows > 1)
            same = c->packed[i].rows == plan->tensor[i].rows && c->packed[i].cols == plan->tensor[i].cols;
    if (!same)
        return error_set(e, ERROR_USAGE, "the cpu backend has not loaded the weights of '%s'", plan->model);
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == OP_LINEAR && !check_compute(c, plan, &plan->op[i], e))
            return false;
    return true;
}

static bool cpu_start(void *self, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    struct cpu *c = self;
    drop_plan(c);
    if (!check_plan(c, plan, config, e))
        return false;
    c->config = *config;
    for (int32_t i = 0; i < plan->n_ropes; i++)
        for (int is_long = 0; is_long < 2; is_long++)
            rope_inv_freq(&plan->rope[i], is_long, c->turns[i].inv_freq[is_long]);
    struct batch_shape shape = {.n_tokens = 1, .n_seqs = 1, .n_out = 1, .max_rows = 1, .max_ctx = 1};
    c->spans = calloc((size_t)plan->n_ops, sizeof *c->spans);
    if (!c->spans)
        return error_set(e, ERROR_MEMORY, "no memory for the plan of '%s'", plan->model);
    c->n_spans = cpu_cover(NULL, plan, &shape, c->spans);
    bool ok = slots_init(&c->slots, plan, c->spans, c->n_spans, config, e) && take_scratch(c, plan, config, e) &&
              kv_storage_init(&c->kv, plan, config, e);
    if (ok)
        c->plan = plan;
    else
        drop_plan(c);
    return ok;
}

static bool cpu_run(void *self, const struct plan *plan, const struct batch *batch, struct trace *trace, struct error *e)
{
    struct cpu *c = self;
    if (!check_opened("cpu", c->plan, plan, e) || !check_batch(plan, &c->config, batch, e))
        return false;
    walk_step(c, batch, trace);
    return true;
}

static bool cpu_move(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    struct cpu *c = self;
    if (!check_opened("cpu", c->plan, c->plan, e))
        return false;
    for (int32_t i = 0; i < n; i++) {
        if (!check_move("cpu", &c->config, &moves[i], e))
            return false;
        kv_storage_copy(&c->kv, moves[i].from_block, moves[i].to_block);
    }
    return true;
}

static bool cpu_fill(void *self, int32_t block, uint64_t seed, struct error *e)
{
    struct cpu *c = self;
    if (!check_opened("cpu", c->plan, c->plan, e) || !check_block(&c->config, block, e))
        return false;
    kv_storage_fill(&c->kv, block, seed);
    return true;
}

static bool cpu_read(void *self, int32_t out_row, float *logits, struct error *e)
{
    struct cpu *c = self;
    if (!check_opened("cpu", c->plan, c->plan, e) || !check_out_row(out_row, c->n_out, e))
        return false;
    size_t width = (size_t)c->plan->vocab_size;
    memcpy(logits, c->slots.data[c->plan->logits] + (size_t)out_row * width, width * sizeof *logits);
    return true;
}

static int64_t cpu_now_ns(void *self)
{
    (void)self;
    return clock_ns();
}

static uint64_t cpu_memory_bytes(void *self)
{
    const struct cpu *c = self;
    return c->weight_bytes + c->kv.bytes + c->slots.bytes + c->scratch_bytes;
}

static void cpu_close(void *self)
{
    struct cpu *c = self;
    unload(c);
    team_close(c->team);
    free(c);
}

bool cpu_backend_open(struct backend *out, const struct backend_options *options, struct error *e)
{
    struct cpu *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, ERROR_MEMORY, "no memory for the cpu backend");
    c->kernels = cpu_kernels_select(options->isa, e);
    if (!c->kernels || !team_open(&c->team, options->threads, options->cpu_list, e)) {
        team_close(c->team);
        free(c);
        return false;
    }
    *out = (struct backend){.name = "cpu",
                            .self = c,
                            .supports = cpu_supports,
                            .cover = cpu_cover,
                            .load = cpu_load,
                            .open = cpu_start,
                            .run = cpu_run,
                            .move = cpu_move,
                            .fill = cpu_fill,
                            .read = cpu_read,
                            .now_ns = cpu_now_ns,
                            .kernel_name = cpu_kernel_name,
                            .memory_bytes = cpu_memory_bytes,
                            .close = cpu_close};
    return true;
}

bool cpu_can_multiply(const struct backend *cpu, enum dtype type)
{
    struct packed p;
    (void)cpu; // every table has every form
    return pack_init(&p, type, 1, 1);
}

bool cpu_can_keep(const struct backend *cpu, enum dtype type)
{
    return ((const struct cpu *)cpu->self)->kernels->kv_store[type] != NULL;
}

const char *cpu_isa_selected(const struct backend *cpu)
{
    return ((const struct cpu *)cpu->self)->kernels->name;
}
