// The only place that knows how a transformer is put together: model_spec in, plan out.
#include "engine/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct plan *plan;
    const struct model_spec *spec;
    const struct plan_options *options;
    int32_t ops_capacity, slots_capacity, tensors_capacity;
    int32_t heads, attention_ranks; // query heads of this rank, and how many ranks share attention
    bool gathered;                  // operations from here on run on the rows of all ranks
    bool failed;                    // out of memory or of ids; checked once at the end
};

static void *grow(struct builder *b, void *array, int32_t n, int32_t *capacity, size_t size)
{
    if (n < *capacity)
        return array;
    void *bigger = n < INT16_MAX ? realloc(array, (size_t)(*capacity ? *capacity * 2 : 64) * size) : NULL;
    if (!bigger) {
        b->failed = true;
        return array;
    }
    *capacity = *capacity ? *capacity * 2 : 64;
    return bigger;
}

static int16_t add_slot(struct builder *b, int32_t width, enum op_rows rows)
{
    struct plan *p = b->plan;
    p->slot = grow(b, p->slot, p->n_slots, &b->slots_capacity, sizeof *p->slot);
    if (b->failed)
        return -1;
    p->slot[p->n_slots] = (struct slot){.width = width, .rows = (uint8_t)rows};
    return (int16_t)p->n_slots++;
}

static enum dtype stored_type(const struct builder *b, const struct tensor_spec *t)
{
    enum dtype w = b->options->weights;
    if (b->options->tensor_dtype)
        return b->options->tensor_dtype(b->options->ctx, t);
    if (t->rows > 1 || w == DTYPE_F32 || w == DTYPE_F16 || w == DTYPE_BF16)
        return w;
    return DTYPE_BF16;
}

static int32_t add_tensor(struct builder *b, enum tensor_role role, int32_t layer, int32_t rows, int32_t cols)
{
    struct plan *p = b->plan;
    p->tensor = grow(b, p->tensor, p->n_tensors, &b->tensors_capacity, sizeof *p->tensor);
    if (b->failed)
        return -1;
    struct tensor_spec t = {.role = (uint8_t)role, .layer = (int16_t)layer, .rows = rows, .cols = cols};
    t.dtype = (uint8_t)stored_type(b, &t);
    p->tensor[p->n_tensors] = t;
    return p->n_tensors++;
}

// Every operation starts here: no slots, no tensors, no KV.
static struct op new_op(const struct builder *b, enum op_kind kind, enum op_rows rows, int32_t layer)
{
    return (struct op){.kind = (uint8_t)kind,
                       .compute = (uint8_t)b->options->compute,
                       .rows = (uint8_t)rows,
                       .gathered = b->gathered,
                       .layer = (int16_t)layer,
                       .kv_group = -1,
                       .kv_layer = -1,
                       .in = {-1, -1, -1},
                       .out = -1,
                       .weight = -1,
                       .bias = -1};
}

static int16_t add_op(struct builder *b, struct op op, int32_t out_width)
{
    struct plan *p = b->plan;
    if (out_width)
        op.out = add_slot(b, out_width, op.rows);
    p->op = grow(b, p->op, p->n_ops, &b->ops_capacity, sizeof *p->op);
    if (!b->failed)
        p->op[p->n_ops++] = op;
    return op.out;
}

static int16_t norm(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, enum tensor_role role, int32_t groups,
                    int32_t size)
{
    struct op op = new_op(b, OP_NORM, rows, layer);
    op.in[0] = x;
    op.weight = add_tensor(b, role, layer, 1, size);
    op.dim[0] = groups, op.dim[1] = size;
    op.param[0] = b->spec->rms_norm_eps;
    return add_op(b, op, groups * size);
}

// The norm of a whole row: RMSNorm, or LayerNorm with its bias.
static int16_t row_norm(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, enum tensor_role role,
                        enum tensor_role bias_role)
{
    int32_t D = b->spec->hidden_size;
    if (!b->spec->layer_norm)
        return norm(b, rows, layer, x, role, 1, D);
    struct op op = new_op(b, OP_LAYER_NORM, rows, layer);
    op.in[0] = x;
    op.weight = add_tensor(b, role, layer, 1, D);
    op.bias = add_tensor(b, bias_role, layer, 1, D);
    op.dim[0] = 1, op.dim[1] = D;
    op.param[0] = b->spec->rms_norm_eps;
    return add_op(b, op, D);
}

// A factor of the specification, where 0 stands for the usual one.
static float factor(float value, float usual)
{
    return value != 0 ? value : usual;
}

static int16_t linear_with(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int32_t weight, int32_t bias,
                           int32_t n_in, int32_t n_out)
{
    struct op op = new_op(b, OP_LINEAR, rows, layer);
    op.in[0] = x;
    op.weight = weight, op.bias = bias;
    if (b->options->compute_of && weight >= 0)
        op.compute = (uint8_t)b->options->compute_of((enum dtype)b->plan->tensor[weight].dtype);
    op.dim[0] = n_in, op.dim[1] = n_out;
    op.param[0] = 1;
    return add_op(b, op, n_out);
}

static int16_t linear(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, enum tensor_role role, int32_t n_in,
                      int32_t n_out, bool has_bias, enum tensor_role bias_role)
{
    int32_t weight = add_tensor(b, role, layer, n_out, n_in);
    int32_t bias = has_bias ? add_tensor(b, bias_role, layer, 1, n_out) : -1;
    return linear_with(b, rows, layer, x, weight, bias, n_in, n_out);
}

static int16_t rope(struct builder *b, int32_t layer, int16_t x, int32_t n_heads, int32_t d)
{
    if (b->spec->no_rope[layer])
        return x;
    struct op op = new_op(b, OP_ROPE, ROWS_TOKENS, layer);
    int32_t which = b->spec->window[layer] ? b->plan->n_ropes - 1 : 0; // the last is the local one where there are two
    op.in[0] = x;
    op.dim[0] = n_heads, op.dim[1] = d, op.dim[2] = b->plan->rope[which].rotary_dim, op.dim[3] = which;
    return add_op(b, op, n_heads * d);
}

static int16_t allreduce(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int32_t width, int32_t ranks)
{
    if (ranks == 1)
        return x;
    struct op op = new_op(b, OP_ALLREDUCE, rows, layer);
    op.in[0] = x;
    op.dim[0] = width, op.dim[1] = ranks;
    return add_op(b, op, width);
}

static int16_t add(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int16_t y, int32_t width)
{
    struct op op = new_op(b, OP_ADD, rows, layer);
    op.in[0] = x, op.in[1] = y;
    op.dim[0] = width;
    op.param[0] = factor(b->spec->residual_multiplier, 1);
    return add_op(b, op, width);
}

// The group whose layers look like this one, made anew if there is none. Counts the layer and says which it is of its group.
static int32_t join_kv_group(struct builder *b, struct kv_group like, int16_t *kv_layer)
{
    struct plan *p = b->plan;
    int32_t g = 0;
    for (; g < p->n_kv_groups; g++) {
        const struct kv_group *k = &p->kv_group[g];
        if (k->window == like.window && k->head_dim == like.head_dim && k->state_bytes == like.state_bytes &&
            k->num_key_value_heads == like.num_key_value_heads)
            break;
    }
    if (g == PLAN_MAX_KV_GROUPS) {
        b->failed = true;
        g = 0;
    } else if (g == p->n_kv_groups) {
        p->kv_group[p->n_kv_groups++] = like;
    }
    *kv_layer = (int16_t)p->kv_group[g].n_layers++;
    return g;
}

// Scores and probabilities stay in 16 bit where the linear layers use fewer.
static uint8_t attention_compute(const struct builder *b)
{
    enum dtype c = b->options->compute;
    return c == DTYPE_F32 || c == DTYPE_F16 ? (uint8_t)c : DTYPE_BF16;
}

// KV_WRITE and ATTN of one layer. Returns the slot of the attention's result.
static int16_t attention_over_kv(struct builder *b, int32_t layer, int16_t q, int16_t k, int16_t v, int32_t n_kv, int32_t d)
{
    const struct model_spec *s = b->spec;
    struct op write = new_op(b, OP_KV_WRITE, ROWS_TOKENS, layer);
    struct kv_group like = {
        .num_key_value_heads = n_kv, .head_dim = d, .window = s->window[layer], .chunked = s->window[layer] && s->chunked};
    write.kv_group = (int16_t)join_kv_group(b, like, &write.kv_layer);
    write.in[0] = k, write.in[1] = v;
    write.dim[0] = n_kv, write.dim[1] = d;
    add_op(b, write, 0);
    struct op attn = new_op(b, OP_ATTN, ROWS_TOKENS, layer);
    attn.kv_group = write.kv_group, attn.kv_layer = write.kv_layer;
    attn.in[0] = q;
    attn.weight = s->attention_sinks ? add_tensor(b, TENSOR_ATTN_SINKS, layer, 1, b->heads) : -1;
    attn.dim[0] = b->heads, attn.dim[1] = n_kv, attn.dim[2] = d, attn.dim[3] = s->window[layer];
    attn.param[0] = factor(s->attention_multiplier, 1 / sqrtf((float)d));
    attn.param[1] = s->attn_logit_softcapping;
    attn.compute = attention_compute(b);
    return add_op(b, attn, b->heads * d);
}

// x with what a block made of it: reduced over ranks, normed where the family does, added.
static int16_t residual(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int16_t y, int32_t ranks,
                        enum tensor_role post_norm)
{
    int32_t D = b->spec->hidden_size;
    y = allreduce(b, rows, layer, y, D, ranks);
    if (b->spec->norm_place != NORM_BEFORE)
        y = norm(b, rows, layer, y, post_norm, 1, D);
    return add(b, rows, layer, x, y, D);
}

static int16_t pre_norm(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, enum tensor_role role,
                        enum tensor_role bias_role)
{
    return b->spec->norm_place == NORM_AFTER ? x : row_norm(b, rows, layer, x, role, bias_role);
}

static int16_t qk_norm(struct builder *b, int32_t layer, int16_t x, enum tensor_role role, int32_t n_heads, int32_t d)
{
    bool by_head = b->spec->qk_norm == QK_NORM_HEAD;
    return norm(b, ROWS_TOKENS, layer, x, role, by_head ? n_heads : 1, by_head ? d : n_heads * d);
}

// KV heads of this rank: fewer than ranks are replicated.
static int32_t kv_heads_of(const struct builder *b, int32_t layer)
{
    int32_t n = b->spec->layer_kv_heads[layer] ? b->spec->layer_kv_heads[layer] : b->spec->num_key_value_heads;
    return n > b->attention_ranks ? n / b->attention_ranks : 1;
}

static int16_t multi_head_attention(struct builder *b, int32_t layer, int16_t h, enum op_rows after)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size, d = s->layer_head_dim[layer] ? s->layer_head_dim[layer] : s->head_dim;
    int32_t n_q = b->heads, n_kv = kv_heads_of(b, layer), q_width = n_q * d * (s->attention_gate ? 2 : 1);
    int16_t q = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_Q, D, q_width, s->qkv_bias, TENSOR_ATTN_Q_BIAS);
    int16_t k = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_K, D, n_kv * d, s->qkv_bias, TENSOR_ATTN_K_BIAS);
    int16_t v = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_V, D, n_kv * d, s->qkv_bias, TENSOR_ATTN_V_BIAS);
    if (s->qk_norm != QK_NORM_NONE) {
        q = qk_norm(b, layer, q, TENSOR_ATTN_Q_NORM, n_q, d);
        k = qk_norm(b, layer, k, TENSOR_ATTN_K_NORM, n_kv, d);
    }
    if (!s->n_positions) {
        q = rope(b, layer, q, n_q, d);
        k = rope(b, layer, k, n_kv, d);
    }
    int16_t a = attention_over_kv(b, layer, q, k, v, n_kv, d);
    return linear(b, after, layer, a, TENSOR_ATTN_O, n_q * d, D, s->o_bias, TENSOR_ATTN_O_BIAS);
}

// The indexer of sparse attention: small queries, one small key per position, a weight per index head. Not sharded.
static void index_positions(struct builder *b, int32_t layer, int16_t h, int16_t q_a, const struct op *attention)
{
    const struct mla_spec *m = &b->spec->mla;
    int32_t D = b->spec->hidden_size, width = m->index_n_heads * m->index_head_dim;
    int16_t q = linear(b, ROWS_TOKENS, layer, q_a, TENSOR_INDEX_Q, m->q_lora_rank, width, false, 0);
    int16_t k = linear(b, ROWS_TOKENS, layer, h, TENSOR_INDEX_K, D, m->index_head_dim, false, 0);
    struct op norm_op = new_op(b, OP_LAYER_NORM, ROWS_TOKENS, layer);
    norm_op.in[0] = k;
    norm_op.weight = add_tensor(b, TENSOR_INDEX_K_NORM, layer, 1, m->index_head_dim);
    norm_op.bias = add_tensor(b, TENSOR_INDEX_K_NORM_BIAS, layer, 1, m->index_head_dim);
    norm_op.dim[0] = 1, norm_op.dim[1] = m->index_head_dim;
    k = add_op(b, norm_op, m->index_head_dim);
    int16_t w = linear(b, ROWS_TOKENS, layer, h, TENSOR_INDEX_WEIGHTS, D, m->index_n_heads, false, 0);
    struct op index = new_op(b, OP_INDEX, ROWS_TOKENS, layer);
    index.in[0] = q, index.in[1] = k, index.in[2] = w;
    index.kv_group = attention->kv_group, index.kv_layer = attention->kv_layer;
    index.dim[0] = m->index_n_heads, index.dim[1] = m->index_head_dim;
    add_op(b, index, 0);
}

static int16_t latent_attention(struct builder *b, int32_t layer, int16_t h, enum op_rows after)
{
    const struct model_spec *s = b->spec;
    const struct mla_spec *m = &s->mla;
    int32_t D = s->hidden_size, H = b->heads, R = m->kv_lora_rank, r = m->qk_rope_head_dim, n = m->qk_nope_head_dim;
    int16_t q = h;
    if (m->q_lora_rank) {
        q = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_Q_A, D, m->q_lora_rank, false, 0);
        q = norm(b, ROWS_TOKENS, layer, q, TENSOR_ATTN_Q_A_NORM, 1, m->q_lora_rank);
    }
    struct op op = new_op(b, OP_MLA, ROWS_TOKENS, layer);
    struct kv_group like = {.num_key_value_heads = 1,
                            .head_dim = R + r,
                            .latent = true,
                            .index_dim = m->index_n_heads ? m->index_head_dim : 0,
                            .topk = m->index_n_heads ? m->index_topk : 0};
    op.kv_group = (int16_t)join_kv_group(b, like, &op.kv_layer);
    if (like.index_dim)
        index_positions(b, layer, h, q, &op);
    q = m->q_lora_rank ? linear(b, ROWS_TOKENS, layer, q, TENSOR_ATTN_Q_B, m->q_lora_rank, H * (n + r), false, 0)
                       : linear(b, ROWS_TOKENS, layer, q, TENSOR_ATTN_Q, D, H * (n + r), false, 0);
    int16_t kv = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_KV_A, D, R + r, false, 0);
    add_tensor(b, TENSOR_ATTN_KV_A_NORM, layer, 1, R); // of the latent's first R values; part of MLA
    op.in[0] = q, op.in[1] = kv;
    op.bias = b->plan->n_tensors - 1;
    op.weight = add_tensor(b, TENSOR_ATTN_KV_B, layer, H * (n + m->v_head_dim), R);
    op.dim[0] = H, op.dim[1] = R, op.dim[2] = n, op.dim[3] = r, op.dim[4] = m->v_head_dim, op.dim[5] = like.topk;
    op.compute = attention_compute(b);
    int16_t a = add_op(b, op, H * m->v_head_dim);
    return linear(b, after, layer, a, TENSOR_ATTN_O, H * m->v_head_dim, D, s->o_bias, TENSOR_ATTN_O_BIAS);
}

// Gated DeltaNet: q, k, v, an output gate and two numbers per head. Mamba-2: gate, x, B, C and one number per head.
static int16_t state_mixer(struct builder *b, int32_t layer, int16_t h, enum op_rows after)
{
    const struct model_spec *s = b->spec;
    const struct state_spec *t = &s->state;
    int32_t D = s->hidden_size, H = t->num_v_heads / b->attention_ranks, inner = H * t->v_head_dim;
    int32_t G = t->num_k_heads > b->attention_ranks ? t->num_k_heads / b->attention_ranks : 1;
    int32_t channels = inner + 2 * G * t->k_head_dim, per_head = t->mamba ? 1 : 2;
    uint64_t column = (uint64_t)channels * (s->dtype == DTYPE_F32 ? 4 : 2);
    struct op op = new_op(b, OP_STATE, ROWS_TOKENS, layer);
    op.in[0] = linear(b, ROWS_TOKENS, layer, h, TENSOR_STATE_IN, D, channels + inner + per_head * H, false, 0);
    op.weight = add_tensor(b, TENSOR_STATE_CONV, layer, channels, t->conv_kernel + (t->mamba ? 1 : 0)); // Mamba-2: a bias
    op.bias = add_tensor(b, TENSOR_STATE_HEADS, layer, t->mamba ? 3 : 2, H);
    op.dim[0] = H, op.dim[1] = t->k_head_dim, op.dim[2] = t->v_head_dim, op.dim[3] = t->conv_kernel - 1;
    op.dim[4] = channels, op.dim[5] = t->mamba;
    op.compute = attention_compute(b);
    struct kv_group like = {.conv_bytes = column};
    like.state_bytes =
        dtype_row_bytes(t->dtype, (uint64_t)inner * (uint64_t)t->k_head_dim) + column * (uint64_t)(t->conv_kernel - 1);
    op.kv_group = (int16_t)join_kv_group(b, like, &op.kv_layer);
    int16_t y = add_op(b, op, inner);
    y = norm(b, ROWS_TOKENS, layer, y, TENSOR_STATE_NORM, t->mamba ? 1 : H, t->mamba ? inner : t->v_head_dim);
    return linear(b, after, layer, y, TENSOR_STATE_OUT, inner, D, false, 0);
}

static int16_t mix_positions(struct builder *b, int32_t layer, int16_t h, enum op_rows after)
{
    if (b->spec->mixer[layer] == MIXER_STATE)
        return state_mixer(b, layer, h, after);
    return b->spec->mla.kv_lora_rank ? latent_attention(b, layer, h, after) : multi_head_attention(b, layer, h, after);
}

static int16_t activate(struct builder *b, enum op_rows rows, int32_t layer, int16_t gate, int16_t up, int32_t F)
{
    struct op act = new_op(b, OP_ACT, rows, layer);
    act.in[0] = gate, act.in[1] = up;
    act.dim[0] = F, act.dim[1] = (int32_t)b->spec->hidden_act;
    return add_op(b, act, F);
}

// down(f(gate) * up), or down(f(up)) where there is no gate.
static int16_t dense(struct builder *b, enum op_rows rows, int32_t layer, int16_t h, int32_t F)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size;
    int16_t gate = -1, up;
    if (s->ffn[layer] == FFN_GATED)
        gate = linear(b, rows, layer, h, TENSOR_FFN_GATE, D, F, s->mlp_bias, TENSOR_FFN_GATE_BIAS);
    up = linear(b, rows, layer, h, TENSOR_FFN_UP, D, F, s->mlp_bias, TENSOR_FFN_UP_BIAS);
    int16_t m = gate >= 0 ? activate(b, rows, layer, gate, up, F) : activate(b, rows, layer, up, -1, F);
    return linear(b, rows, layer, m, TENSOR_FFN_DOWN, F, D, s->mlp_bias, TENSOR_FFN_DOWN_BIAS);
}

// What every token goes through beside its experts.
static int16_t shared_expert(struct builder *b, enum op_rows rows, int32_t layer, int16_t h)
{
    const struct experts_spec *x = &b->spec->experts;
    int32_t D = b->spec->hidden_size, F = x->shared_intermediate_size / b->plan->tp;
    int16_t up = linear(b, rows, layer, h, TENSOR_SHARED_UP, D, F, false, 0), gate = up, other = -1;
    if (x->gated) {
        gate = linear(b, rows, layer, h, TENSOR_SHARED_GATE_PROJ, D, F, false, 0);
        other = up;
    }
    int16_t y = linear(b, rows, layer, activate(b, rows, layer, gate, other, F), TENSOR_SHARED_DOWN, F, D, false, 0);
    if (!x->shared_gate)
        return y;
    struct op weigh = new_op(b, OP_ACT, rows, layer);
    weigh.in[0] = linear(b, rows, layer, h, TENSOR_SHARED_GATE, D, 1, false, 0), weigh.in[1] = y;
    weigh.dim[0] = D, weigh.dim[1] = ACT_SILU;
    return add_op(b, weigh, D);
}

// The router is whole on every rank; each rank holds its slice of every expert.
static int16_t routed(struct builder *b, enum op_rows rows, int32_t layer, int16_t h)
{
    const struct experts_spec *x = &b->spec->experts;
    int32_t D = b->spec->hidden_size, E = x->num_experts, F = x->moe_intermediate_size / b->plan->tp;
    int32_t matrices = x->gated ? 3 : 2, W = x->latent_size ? x->latent_size : D;
    struct op route = new_op(b, OP_ROUTE, rows, layer);
    route.in[0] = h;
    route.weight = add_tensor(b, TENSOR_ROUTER, layer, E, D);
    route.bias = x->router_bias ? add_tensor(b, TENSOR_ROUTER_BIAS, layer, 1, E) : -1;
    route.dim[0] = D, route.dim[1] = E, route.dim[2] = x->num_experts_per_tok;
    struct op op = new_op(b, OP_EXPERTS, rows, layer);
    op.in[0] = W == D ? h : linear(b, rows, layer, h, TENSOR_EXPERTS_IN, D, W, false, 0);
    op.in[1] = add_op(b, route, x->num_experts_per_tok);
    op.weight = add_tensor(b, TENSOR_EXPERTS, layer, E * matrices * F, W);
    op.bias = x->bias ? add_tensor(b, TENSOR_EXPERTS_BIAS, layer, E, (matrices - 1) * F + W) : -1;
    op.dim[0] = W, op.dim[1] = F, op.dim[2] = E, op.dim[3] = x->num_experts_per_tok, op.dim[4] = matrices;
    int16_t y = add_op(b, op, W);
    if (W != D)
        y = linear(b, rows, layer, y, TENSOR_EXPERTS_OUT, W, D, false, 0);
    return x->shared_intermediate_size ? add(b, rows, layer, y, shared_expert(b, rows, layer, h), D) : y;
}

static int16_t feed_forward(struct builder *b, int32_t layer, int16_t h, enum op_rows rows)
{
    if (b->spec->ffn[layer] == FFN_EXPERTS)
        return routed(b, rows, layer, h);
    return dense(b, rows, layer, h, b->spec->intermediate_size / b->plan->tp);
}

// One layer: mixing of positions, then the feed-forward, each with its norm and residual; either may be missing.
static int16_t write_layer(struct builder *b, int32_t layer, int16_t x, enum op_rows before, enum op_rows after)
{
    const struct model_spec *s = b->spec;
    if (s->mixer[layer] != MIXER_NONE) {
        int16_t h = pre_norm(b, before, layer, x, TENSOR_ATTN_NORM, TENSOR_ATTN_NORM_BIAS);
        int16_t y = mix_positions(b, layer, h, after);
        if (s->parallel_residual)
            y = add(b, after, layer, y, feed_forward(b, layer, h, after), s->hidden_size);
        x = residual(b, after, layer, x, y, b->attention_ranks, TENSOR_ATTN_POST_NORM);
    }
    if (s->ffn[layer] == FFN_NONE || s->parallel_residual)
        return x;
    b->gathered = b->plan->dp > 1;
    int16_t h = pre_norm(b, after, layer, x, TENSOR_FFN_NORM, TENSOR_FFN_NORM_BIAS);
    x = residual(b, after, layer, x, feed_forward(b, layer, h, after), b->plan->tp, TENSOR_FFN_POST_NORM);
    b->gathered = false;
    return x;
}

// The head: scaled and capped logits. A rank keeps its slice of them.
static int16_t head(struct builder *b, int16_t x, int32_t weight, int32_t V)
{
    const struct model_spec *s = b->spec;
    int16_t logits = linear_with(b, ROWS_OUT, -1, x, weight, -1, s->hidden_size, V);
    if (b->failed)
        return logits;
    struct op *op = &b->plan->op[b->plan->n_ops - 1];
    op->param[0] = 1 / factor(s->logits_scaling, 1);
    op->param[1] = s->final_logit_softcapping;
    return logits;
}

static int16_t embed(struct builder *b, int32_t V, int32_t *table)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size;
    struct op op = new_op(b, OP_EMBED, ROWS_TOKENS, -1);
    op.weight = *table = add_tensor(b, TENSOR_TOKEN_EMBD, -1, V, D);
    op.dim[0] = V, op.dim[1] = D;
    op.param[0] = factor(s->embedding_multiplier, 1);
    int16_t x = allreduce(b, ROWS_TOKENS, -1, add_op(b, op, D), D, b->plan->tp);
    if (!s->n_positions)
        return x;
    struct op position = new_op(b, OP_POSITION, ROWS_TOKENS, -1);
    position.in[0] = x;
    position.weight = add_tensor(b, TENSOR_POSITION_EMBD, -1, s->n_positions, D);
    position.dim[0] = s->n_positions, position.dim[1] = D;
    return add_op(b, position, D);
}

// The last layer that looks at other positions: behind it only rows whose logits are wanted go on.
static int32_t last_mixer(const struct model_spec *s)
{
    int32_t layer = s->num_hidden_layers - 1;
    while (layer > 0 && s->mixer[layer] == MIXER_NONE)
        layer--;
    return layer;
}

// The layers of this rank's pipeline stage; the first stage embeds, the last one has the head.
static void write_model(struct builder *b, int32_t V)
{
    const struct model_spec *s = b->spec;
    int32_t pp = b->options->pp > 1 ? b->options->pp : 1, first, count, table = -1, last = last_mixer(s);
    plan_stage_layers(s->num_hidden_layers, pp, b->options->stage, &first, &count);
    int16_t x = first ? add_slot(b, s->hidden_size, ROWS_TOKENS) : embed(b, V, &table);
    for (int32_t layer = first; layer < first + count; layer++)
        x = write_layer(b, layer, x, layer > last ? ROWS_OUT : ROWS_TOKENS, layer >= last ? ROWS_OUT : ROWS_TOKENS);
    b->plan->logits = x;
    if (first + count < s->num_hidden_layers)
        return;
    x = row_norm(b, ROWS_OUT, -1, x, TENSOR_OUTPUT_NORM, TENSOR_OUTPUT_NORM_BIAS);
    bool tied = s->tie_word_embeddings && table >= 0;
    b->plan->logits = head(b, x, tied ? table : add_tensor(b, TENSOR_OUTPUT, -1, V, s->hidden_size), V);
}

static bool check_divides(const struct model_spec *s, const char *what, int32_t n, int32_t tp, struct error *e)
{
    return n % tp == 0 || error_set(e, ERROR_UNSUPPORTED, "'%s': %s %d does not divide by tp %d", s->name, what, n, tp);
}

// Feed-forwards that the model has must be sliced evenly.
static bool check_feed_forwards(const struct model_spec *s, int32_t tp, struct error *e)
{
    bool dense = false, experts = false;
    for (int32_t i = 0; i < s->num_hidden_layers; i++) {
        dense |= s->ffn[i] == FFN_GATED || s->ffn[i] == FFN_PLAIN;
        experts |= s->ffn[i] == FFN_EXPERTS;
    }
    return (!dense || check_divides(s, "intermediate_size", s->intermediate_size, tp, e)) &&
           (!experts || (check_divides(s, "moe_intermediate_size", s->experts.moe_intermediate_size, tp, e) &&
                         check_divides(s, "shared_intermediate_size", s->experts.shared_intermediate_size, tp, e)));
}

static bool check_heads(const struct model_spec *s, int32_t tp, struct error *e)
{
    if (s->num_attention_heads % tp)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d attention heads do not divide by tp %d", s->name,
                         s->num_attention_heads, tp);
    for (int32_t i = 0; i < s->num_hidden_layers && !s->mla.kv_lora_rank; i++) {
        int32_t n = s->layer_kv_heads[i] ? s->layer_kv_heads[i] : s->num_key_value_heads;
        if (n % tp && tp % n)
            return error_set(e, ERROR_UNSUPPORTED, "'%s': %d KV heads neither divide by tp %d nor divide it", s->name, n,
                             tp);
    }
    if (s->state.num_v_heads && s->state.num_v_heads % tp)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d heads of its state do not divide by tp %d", s->name,
                         s->state.num_v_heads, tp);
    return true;
}

static bool check_shard(const struct model_spec *s, const struct plan_options *o, int32_t tp, struct error *e)
{
    int32_t pp = o->pp > 1 ? o->pp : 1;
    if (tp < 1)
        return error_set(e, ERROR_USAGE, "'tp' is %d, expected 1 or more", tp);
    if (pp > s->num_hidden_layers || o->stage < 0 || o->stage >= pp)
        return error_set(e, ERROR_USAGE, "stage %d of %d does not exist: '%s' has %d layers", o->stage, pp, s->name,
                         s->num_hidden_layers);
    if (!o->dp_attention && !check_heads(s, tp, e))
        return false;
    if (!check_feed_forwards(s, tp, e))
        return false;
    if (tp > 1 && s->qk_norm == QK_NORM_ROW)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': its norm over all heads of a row cannot be split over %d ranks",
                         s->name, tp);
    return true;
}

static bool check_kv_blocks(const struct plan *p, const struct kv_group *g, struct error *e)
{
    if (g->state_bytes ||
        (g->head_dim % dtype_block(p->kv_k) == 0 && (g->latent || g->head_dim % dtype_block(p->kv_v) == 0)))
        return true;
    return error_set(e, ERROR_UNSUPPORTED, "heads of %d values cannot be stored as %s and %s KV", g->head_dim,
                     dtype_name(p->kv_k), dtype_name(p->kv_v));
}

// A row of weights must be whole blocks of its type.
static bool check_blocks(const struct plan *p, struct error *e)
{
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const struct tensor_spec *t = &p->tensor[i];
        if (t->cols % dtype_block((enum dtype)t->dtype))
            return error_set(e, ERROR_UNSUPPORTED, "'%s': rows of %d values cannot be stored as %s (blocks of %d)",
                             tensor_role_name((enum tensor_role)t->role), t->cols, dtype_name((enum dtype)t->dtype),
                             dtype_block((enum dtype)t->dtype));
    }
    for (int32_t g = 0; g < p->n_kv_groups; g++)
        if (!check_kv_blocks(p, &p->kv_group[g], e))
            return false;
    return true;
}

bool plan_make(struct plan *plan, const struct model_spec *spec, const struct plan_options *options, struct error *e)
{
    *plan = (struct plan){.tp = options->tp ? options->tp : 1,
                          .dp = 1,
                          .hidden_size = spec->hidden_size,
                          .act = options->act,
                          .kv_k = options->kv_k,
                          .kv_v = options->kv_v,
                          .rope = {spec->rope, spec->rope_local},
                          .n_ropes = spec->rope_local.rotary_dim ? 2 : 1};
    if (!check_shard(spec, options, plan->tp, e))
        return false;
    memcpy(plan->model, spec->name, sizeof plan->model);
    plan->dp = options->dp_attention ? plan->tp : 1;
    plan->vocab_size = (spec->vocab_size + plan->tp - 1) / plan->tp; // the last rank pads
    struct builder b = {.plan = plan, .spec = spec, .options = options, .attention_ranks = plan->tp / plan->dp};
    b.heads = spec->num_attention_heads / b.attention_ranks;
    write_model(&b, plan->vocab_size);
    bool ok = b.failed ? error_set(e, ERROR_MEMORY, "'%s': no memory for the plan, or more than %d kinds of KV layers",
                                   spec->name, PLAN_MAX_KV_GROUPS)
                       : check_blocks(plan, e);
    if (!ok)
        plan_free(plan);
    return ok;
}
