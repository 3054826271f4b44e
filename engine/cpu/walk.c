// One step: every member of the team walks the spans in order, does its share of each, and waits for the others.
#include "engine/cpu/walk.h"

#include "engine/base/units.h"

int32_t rows_of(const struct step *s, const struct op *op)
{
    return op->rows == ROWS_OUT ? s->batch->n_out : s->batch->n_tokens;
}

float *in_row(const struct step *s, const struct op *op, int32_t which, int32_t r)
{
    const struct slot *slot = &s->cpu->plan->slot[op->in[which]];
    if (op->rows == ROWS_OUT && slot->rows == ROWS_TOKENS)
        r = s->batch->out_row[r];
    return s->cpu->slots.data[op->in[which]] + (size_t)r * (size_t)slot->width;
}

float *out_row(const struct step *s, const struct op *op, int32_t r)
{
    return s->cpu->slots.data[op->out] + (size_t)r * (size_t)s->cpu->plan->slot[op->out].width;
}

void share_range(const struct share *w, int32_t n, int32_t align, int32_t *first, int32_t *end)
{
    int64_t units = (n + align - 1) / align;
    int64_t from = units * w->member / w->n_members * align, to = units * (w->member + 1) / w->n_members * align;
    *first = (int32_t)(from < n ? from : n);
    *end = (int32_t)(to < n ? to : n);
}

int32_t share_next(const struct share *w, int32_t n)
{
    int32_t i = atomic_fetch_add_explicit(&w->step->next[w->index & 1], 1, memory_order_relaxed);
    return i < n ? i : n;
}

float *member_scratch(const struct share *w)
{
    return w->step->cpu->member_scratch + (uint64_t)w->member * w->step->cpu->member_floats;
}

static void (*const WALK[CPU_SPAN_COUNT])(const struct share *, const struct span *) = {
    [CPU_SPAN_EMBED] = walk_embed,
    [CPU_SPAN_NORM] = walk_norm,
    [CPU_SPAN_LINEAR] = walk_linear,
    [CPU_SPAN_QKV] = walk_linear,
    [CPU_SPAN_LINEAR_ADD] = walk_linear,
    [CPU_SPAN_GATE_UP_ACT] = walk_linear,
    [CPU_SPAN_NORM_LINEAR] = walk_linear,
    [CPU_SPAN_NORM_QKV] = walk_linear,
    [CPU_SPAN_NORM_GATE_UP_ACT] = walk_linear,
    [CPU_SPAN_ROPE] = walk_rope,
    [CPU_SPAN_KV_WRITE] = walk_kv_write,
    [CPU_SPAN_ROPE_KV] = walk_rope_kv,
    [CPU_SPAN_NORM_ROPE_KV] = walk_rope_kv,
    [CPU_SPAN_ATTN] = walk_attn,
    [CPU_SPAN_ACT] = walk_values,
    [CPU_SPAN_ADD] = walk_values,
};

static void walk_spans(void *ctx, int32_t member, int32_t n_members)
{
    struct step *s = ctx;
    int64_t begin = member ? 0 : clock_ns();
    for (int32_t i = 0; i < s->n_spans; i++) {
        const struct span *span = &s->cpu->spans[i];
        struct share w = {.step = s, .member = member, .n_members = n_members, .index = i};
        WALK[span->kernel](&w, span);
        if (!member) // nobody draws from the next span's queue yet: all have left the span before this one
            atomic_store_explicit(&s->next[(i + 1) & 1], 0, memory_order_relaxed);
        team_barrier(s->cpu->team, member);
        if (member || !s->trace)
            continue;
        int64_t end = clock_ns();
        trace_add(s->trace, (struct trace_row){.span = *span, .begin_ns = begin, .end_ns = end});
        begin = end;
    }
}

void walk_step(struct cpu *c, const struct batch *batch, struct trace *trace)
{
    struct step s = {.cpu = c, .batch = batch, .trace = trace, .n_spans = c->n_spans};
    attention_prepare(&s);
    team_run(c->team, walk_spans, &s);
    c->n_out = batch->n_out;
}
