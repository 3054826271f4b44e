// A span as launches: which buffers, which kernel, which rows.
#include "engine/cuda/host.h"

static void *slot(const struct cuda_step *s, int16_t id)
{
    return s->cuda->activations + s->cuda->slot_offset[id];
}

static int32_t rows_of(const struct cuda_step *s, const struct op *op)
{
    return op->rows == ROWS_OUT ? s->batch->n_out : s->batch->n_tokens;
}

// Which row of its input is row i of the operation: NULL where they are the same.
static const int32_t *row_map(const struct cuda_step *s, const struct op *op, int32_t which)
{
    bool picks = op->rows == ROWS_OUT && s->cuda->plan->slot[op->in[which]].rows == ROWS_TOKENS;
    return picks ? s->cuda->numbers.out_row : NULL;
}

// Context beyond which a sequence turns by the second set of frequencies; 0: none does.
static int32_t long_from(const struct rope_spec *rope)
{
    return rope->kind == ROPE_LONG ? rope->original_max_position_embeddings : 0;
}

static cudaError_t walk_embed(const struct cuda_step *s, const struct op *op)
{
    struct cuda *c = s->cuda;
    cudaError_t e = cudaSuccess;
    for (int32_t i = 0; i < c->plan->n_ropes && !e; i++) {
        const struct rope_spec *rope = &c->plan->rope[i];
        e = cuda_turns(c->inv_freq[i], rope->rotary_dim, long_from(rope), rope->magnitude != 0 ? rope->magnitude : 1,
                       c->numbers.pos, c->numbers.seq, c->numbers.ctx_len, s->batch->n_tokens, c->cos[i], c->sin[i],
                       c->stream);
    }
    return e ? e
             : cuda_embed(&c->matrix[op->weight], c->numbers.token, s->batch->n_tokens, op->param[0], slot(s, op->out),
                          c->stream);
}

static cudaError_t walk_add_norm(const struct cuda_step *s, const struct op *add, const struct op *norm)
{
    struct cuda_add_norm a = {.rows = rows_of(s, add ? add : norm)};
    const struct op *first = add ? add : norm;
    a.a = slot(s, first->in[0]), a.row_a = row_map(s, first, 0);
    if (add) {
        a.b = slot(s, add->in[1]), a.row_b = row_map(s, add, 1);
        a.sum_out = slot(s, add->out), a.factor = add->param[0];
        a.n_groups = 1, a.size = add->dim[0];
    }
    if (norm) {
        a.weight = s->cuda->vector[norm->weight], a.y = slot(s, norm->out), a.eps = norm->param[0];
        a.n_groups = norm->dim[0], a.size = norm->dim[1];
    }
    return cuda_add_norm(&a, s->cuda->stream);
}

static struct cuda_linear linear_of(const struct cuda_step *s, const struct op *op, int32_t n)
{
    const struct cuda *c = s->cuda;
    struct cuda_linear a = {.n = n, .x = slot(s, op->in[0]), .row = row_map(s, op, 0), .rows = rows_of(s, op)};
    for (int32_t i = 0; i < n; i++) {
        a.w[i] = c->matrix[op[i].weight];
        a.bias[i] = op[i].bias >= 0 ? c->vector[op[i].bias] : NULL;
        a.y[i] = slot(s, op[i].out);
    }
    a.y_is_f32 = op->out == c->plan->logits;
    a.factor = op->param[0], a.softcap = op->param[1];
    return a;
}

static cudaError_t linear(const struct cuda_step *s, const struct cuda_linear *a, const struct op *op, uint16_t strategy)
{
    return strategy == CUDA_STRATEGY_OWN ? cuda_linear(a, s->cuda->stream)
                                         : cuda_blas_linear(s->cuda, a, (enum dtype)op->compute);
}

static cudaError_t walk_gate_up_act(const struct cuda_step *s, const struct op *op, uint16_t strategy)
{
    struct cuda_linear a = linear_of(s, op, 2);
    a.act = op[2].dim[1] + 1, a.act_out = slot(s, op[2].out);
    return linear(s, &a, op, strategy);
}

static cudaError_t walk_rope_kv(const struct cuda_step *s, const struct op *norm, const struct op *op)
{
    struct cuda *c = s->cuda;
    const struct op *q = &op[0], *k = &op[1], *write = &op[2];
    struct cuda_kv kv = cuda_kv_layer(c, write->kv_group, write->kv_layer);
    struct cuda_rope_kv a = {.q = slot(s, norm ? norm[0].in[0] : q->in[0]),
                             .k = slot(s, norm ? norm[1].in[0] : k->in[0]),
                             .v = slot(s, write->in[1]),
                             .q_out = slot(s, q->out),
                             .cos = c->cos[q->dim[3]],
                             .sin = c->sin[q->dim[3]],
                             .rotary_dim = q->dim[2],
                             .n_q_heads = q->dim[0],
                             .n_kv_heads = k->dim[0],
                             .head_dim = q->dim[1],
                             .rows = s->batch->n_tokens,
                             .pos = c->numbers.pos,
                             .seq = c->numbers.seq,
                             .table = c->numbers.table,
                             .table_stride = c->table_stride,
                             .kv = &kv};
    if (norm) {
        a.q_weight = c->vector[norm[0].weight], a.k_weight = c->vector[norm[1].weight];
        a.eps = norm[0].param[0];
    }
    return cuda_rope_kv(&a, c->stream);
}

// One of ROPE and KV_WRITE where a pattern did not fit: the same kernel with less to do.
static cudaError_t walk_rope(const struct cuda_step *s, const struct op *op)
{
    struct cuda *c = s->cuda;
    struct cuda_rope_kv a = {.q = slot(s, op->in[0]),
                             .q_out = slot(s, op->out),
                             .cos = c->cos[op->dim[3]],
                             .sin = c->sin[op->dim[3]],
                             .rotary_dim = op->dim[2],
                             .n_q_heads = op->dim[0],
                             .head_dim = op->dim[1],
                             .rows = s->batch->n_tokens,
                             .pos = c->numbers.pos,
                             .seq = c->numbers.seq};
    return cuda_rope_kv(&a, c->stream);
}

static cudaError_t walk_kv_write(const struct cuda_step *s, const struct op *op)
{
    struct cuda *c = s->cuda;
    struct cuda_kv kv = cuda_kv_layer(c, op->kv_group, op->kv_layer);
    struct cuda_rope_kv a = {.k = slot(s, op->in[0]),
                             .v = slot(s, op->in[1]),
                             .n_kv_heads = op->dim[0],
                             .head_dim = op->dim[1],
                             .rows = s->batch->n_tokens,
                             .pos = c->numbers.pos,
                             .seq = c->numbers.seq,
                             .table = c->numbers.table,
                             .table_stride = c->table_stride,
                             .kv = &kv};
    return cuda_rope_kv(&a, c->stream);
}

static cudaError_t walk_attn(const struct cuda_step *s, const struct op *op, uint16_t strategy)
{
    struct cuda *c = s->cuda;
    struct cuda_kv kv = cuda_kv_layer(c, op->kv_group, op->kv_layer);
    struct cuda_attn a = {.q = slot(s, op->in[0]),
                          .out = slot(s, op->out),
                          .row = row_map(s, op, 0),
                          .kv = &kv,
                          .pos = c->numbers.pos,
                          .seq = c->numbers.seq,
                          .table = c->numbers.table,
                          .seq_first = c->numbers.seq_first,
                          .table_stride = c->table_stride,
                          .rows = rows_of(s, op),
                          .n_seqs = s->batch->n_seqs,
                          .n_q_heads = op->dim[0],
                          .window = op->dim[3],
                          .max_ctx = s->shape.max_ctx,
                          .max_rows = s->shape.max_rows,
                          .scale = op->param[0],
                          .softcap = op->param[1],
                          .parts = c->parts,
                          .splits = s->splits};
    // Few rows of long prompts: each of them is a row of its own to the decode kernel.
    return strategy == CUDA_STRATEGY_PREFILL && !a.row ? cuda_attn_prefill(&a, c->stream) : cuda_attn_decode(&a, c->stream);
}

cudaError_t cuda_walk_span(const struct cuda_step *s, const struct span *span)
{
    const struct op *op = &s->cuda->plan->op[span->first];
    if (!rows_of(s, op)) // no output is wanted of this step
        return cudaSuccess;
    switch ((enum cuda_span)span->kernel) {
    case CUDA_SPAN_EMBED: return walk_embed(s, op);
    case CUDA_SPAN_NORM: return walk_add_norm(s, NULL, op);
    case CUDA_SPAN_ADD: return walk_add_norm(s, op, NULL);
    case CUDA_SPAN_ADD_NORM: return walk_add_norm(s, op, op + 1);
    case CUDA_SPAN_LINEAR:
    case CUDA_SPAN_QKV: {
        struct cuda_linear a = linear_of(s, op, span->count);
        return linear(s, &a, op, span->strategy);
    }
    case CUDA_SPAN_GATE_UP_ACT: return walk_gate_up_act(s, op, span->strategy);
    case CUDA_SPAN_ROPE: return walk_rope(s, op);
    case CUDA_SPAN_KV_WRITE: return walk_kv_write(s, op);
    case CUDA_SPAN_ROPE_KV: return walk_rope_kv(s, NULL, op);
    case CUDA_SPAN_NORM_ROPE_KV: return walk_rope_kv(s, op, op + 2);
    case CUDA_SPAN_ATTN: return walk_attn(s, op, span->strategy);
    case CUDA_SPAN_ACT:
        return cuda_act(slot(s, op->in[0]), slot(s, op->in[1]), rows_of(s, op), op->dim[0], op->dim[1], slot(s, op->out),
                        s->cuda->stream);
    default: return cudaErrorInvalidValue;
    }
}
