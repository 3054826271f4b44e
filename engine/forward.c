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
    int16_t kv_layer[PLAN_MAX_KV_GROUPS]; // next free layer of each group
    bool failed;                          // out of memory or of ids; checked once at the end
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

static int16_t rope(struct builder *b, int32_t layer, int16_t x, int32_t n_heads)
{
    struct op op = new_op(b, OP_ROPE, ROWS_TOKENS, layer);
    int32_t which = b->spec->window[layer] ? b->plan->n_ropes - 1 : 0; // the last is the local one where there are two
    op.in[0] = x;
    op.dim[0] = n_heads, op.dim[1] = b->spec->head_dim, op.dim[2] = b->plan->rope[which].rotary_dim, op.dim[3] = which;
    return add_op(b, op, n_heads * b->spec->head_dim);
}

static int16_t allreduce(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int32_t width)
{
    if (b->plan->tp == 1)
        return x;
    struct op op = new_op(b, OP_ALLREDUCE, rows, layer);
    op.in[0] = x;
    op.dim[0] = width, op.dim[1] = b->plan->tp;
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

static int32_t kv_group_of(struct builder *b, int32_t window, int32_t n_kv)
{
    struct plan *p = b->plan;
    for (int32_t g = 0; g < p->n_kv_groups; g++)
        if (p->kv_group[g].window == window)
            return g;
    if (p->n_kv_groups == PLAN_MAX_KV_GROUPS) {
        b->failed = true;
        return 0;
    }
    p->kv_group[p->n_kv_groups] =
        (struct kv_group){.num_key_value_heads = n_kv, .head_dim = b->spec->head_dim, .window = window};
    return p->n_kv_groups++;
}

// KV_WRITE and ATTN of one layer. Returns the slot of the attention's result.
static int16_t attention_over_kv(struct builder *b, int32_t layer, int16_t q, int16_t k, int16_t v, int32_t n_q,
                                 int32_t n_kv)
{
    const struct model_spec *s = b->spec;
    int32_t group = kv_group_of(b, s->window[layer], n_kv);
    int16_t kv_layer = b->kv_layer[group]++;
    b->plan->kv_group[group].n_layers = b->kv_layer[group];
    struct op write = new_op(b, OP_KV_WRITE, ROWS_TOKENS, layer);
    write.kv_group = (int16_t)group, write.kv_layer = kv_layer;
    write.in[0] = k, write.in[1] = v;
    write.dim[0] = n_kv, write.dim[1] = s->head_dim;
    add_op(b, write, 0);
    struct op attn = new_op(b, OP_ATTN, ROWS_TOKENS, layer);
    attn.kv_group = (int16_t)group, attn.kv_layer = kv_layer;
    attn.in[0] = q;
    attn.dim[0] = n_q, attn.dim[1] = n_kv, attn.dim[2] = s->head_dim, attn.dim[3] = s->window[layer];
    attn.param[0] = factor(s->attention_multiplier, 1 / sqrtf((float)s->head_dim));
    attn.param[1] = s->attn_logit_softcapping;
    if (attn.compute != DTYPE_F32 && attn.compute != DTYPE_F16)
        attn.compute = DTYPE_BF16; // scores and probabilities stay in 16 bit where the linear layers use fewer
    return add_op(b, attn, n_q * s->head_dim);
}

// x with what a block made of it: reduced over ranks, normed where the family does, added.
static int16_t residual(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, int16_t y,
                        enum tensor_role post_norm)
{
    int32_t D = b->spec->hidden_size;
    y = allreduce(b, rows, layer, y, D);
    if (b->spec->norm_place != NORM_BEFORE)
        y = norm(b, rows, layer, y, post_norm, 1, D);
    return add(b, rows, layer, x, y, D);
}

static int16_t pre_norm(struct builder *b, enum op_rows rows, int32_t layer, int16_t x, enum tensor_role role)
{
    return b->spec->norm_place == NORM_AFTER ? x : norm(b, rows, layer, x, role, 1, b->spec->hidden_size);
}

static int16_t qk_norm(struct builder *b, int32_t layer, int16_t x, enum tensor_role role, int32_t n_heads)
{
    int32_t d = b->spec->head_dim;
    bool by_head = b->spec->qk_norm == QK_NORM_HEAD;
    return norm(b, ROWS_TOKENS, layer, x, role, by_head ? n_heads : 1, by_head ? d : n_heads * d);
}

static int16_t attention(struct builder *b, int32_t layer, int16_t x, int32_t n_q, int32_t n_kv, enum op_rows after)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size, d = s->head_dim;
    int16_t h = pre_norm(b, ROWS_TOKENS, layer, x, TENSOR_ATTN_NORM);
    int16_t q = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_Q, D, n_q * d, s->qkv_bias, TENSOR_ATTN_Q_BIAS);
    int16_t k = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_K, D, n_kv * d, s->qkv_bias, TENSOR_ATTN_K_BIAS);
    int16_t v = linear(b, ROWS_TOKENS, layer, h, TENSOR_ATTN_V, D, n_kv * d, s->qkv_bias, TENSOR_ATTN_V_BIAS);
    if (s->qk_norm != QK_NORM_NONE) {
        q = qk_norm(b, layer, q, TENSOR_ATTN_Q_NORM, n_q);
        k = qk_norm(b, layer, k, TENSOR_ATTN_K_NORM, n_kv);
    }
    q = rope(b, layer, q, n_q);
    k = rope(b, layer, k, n_kv);
    int16_t a = attention_over_kv(b, layer, q, k, v, n_q, n_kv);
    int16_t o = linear(b, after, layer, a, TENSOR_ATTN_O, n_q * d, D, s->o_bias, TENSOR_ATTN_O_BIAS);
    return residual(b, after, layer, x, o, TENSOR_ATTN_POST_NORM);
}

static int16_t feed_forward(struct builder *b, int32_t layer, int16_t x, int32_t F, enum op_rows rows)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size;
    int16_t h = pre_norm(b, rows, layer, x, TENSOR_FFN_NORM);
    int16_t gate = linear(b, rows, layer, h, TENSOR_FFN_GATE, D, F, s->mlp_bias, TENSOR_FFN_GATE_BIAS);
    int16_t up = linear(b, rows, layer, h, TENSOR_FFN_UP, D, F, s->mlp_bias, TENSOR_FFN_UP_BIAS);
    struct op act = new_op(b, OP_ACT, rows, layer);
    act.in[0] = gate, act.in[1] = up;
    act.dim[0] = F, act.dim[1] = (int32_t)s->hidden_act;
    int16_t m = add_op(b, act, F);
    int16_t y = linear(b, rows, layer, m, TENSOR_FFN_DOWN, F, D, s->mlp_bias, TENSOR_FFN_DOWN_BIAS);
    return residual(b, rows, layer, x, y, TENSOR_FFN_POST_NORM);
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

static void write_model(struct builder *b, int32_t n_q, int32_t n_kv, int32_t F, int32_t V)
{
    const struct model_spec *s = b->spec;
    int32_t D = s->hidden_size;
    struct op embed = new_op(b, OP_EMBED, ROWS_TOKENS, -1);
    embed.weight = add_tensor(b, TENSOR_TOKEN_EMBD, -1, V, D);
    embed.dim[0] = V, embed.dim[1] = D;
    embed.param[0] = factor(s->embedding_multiplier, 1);
    int16_t x = allreduce(b, ROWS_TOKENS, -1, add_op(b, embed, D), D);
    for (int32_t layer = 0; layer < s->num_hidden_layers; layer++) {
        // After the last attention only rows whose logits are wanted go on.
        enum op_rows after = layer == s->num_hidden_layers - 1 ? ROWS_OUT : ROWS_TOKENS;
        x = attention(b, layer, x, n_q, n_kv, after);
        x = feed_forward(b, layer, x, F, after);
    }
    x = norm(b, ROWS_OUT, -1, x, TENSOR_OUTPUT_NORM, 1, D);
    int32_t weight = s->tie_word_embeddings ? embed.weight : add_tensor(b, TENSOR_OUTPUT, -1, V, D);
    b->plan->logits = head(b, x, weight, V);
}

static bool check_shard(const struct model_spec *s, int32_t tp, struct error *e)
{
    if (tp < 1)
        return error_set(e, ERROR_USAGE, "'tp' is %d, expected 1 or more", tp);
    if (s->num_attention_heads % tp)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d attention heads do not divide by tp %d", s->name,
                         s->num_attention_heads, tp);
    if (s->num_key_value_heads % tp && tp % s->num_key_value_heads)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d KV heads neither divide by tp %d nor divide it", s->name,
                         s->num_key_value_heads, tp);
    if (s->intermediate_size % tp)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': intermediate_size %d does not divide by tp %d", s->name,
                         s->intermediate_size, tp);
    if (tp > 1 && s->qk_norm == QK_NORM_ROW)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': its norm over all heads of a row cannot be split over %d ranks",
                         s->name, tp);
    return true;
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
        if (p->kv_group[g].head_dim % dtype_block(p->kv_k) || p->kv_group[g].head_dim % dtype_block(p->kv_v))
            return error_set(e, ERROR_UNSUPPORTED, "heads of %d values cannot be stored as %s and %s KV",
                             p->kv_group[g].head_dim, dtype_name(p->kv_k), dtype_name(p->kv_v));
    return true;
}

bool plan_make(struct plan *plan, const struct model_spec *spec, const struct plan_options *options, struct error *e)
{
    *plan = (struct plan){.tp = options->tp ? options->tp : 1,
                          .hidden_size = spec->hidden_size,
                          .act = options->act,
                          .kv_k = options->kv_k,
                          .kv_v = options->kv_v,
                          .rope = {spec->rope, spec->rope_local},
                          .n_ropes = spec->rope_local.rotary_dim ? 2 : 1};
    if (!check_shard(spec, plan->tp, e))
        return false;
    memcpy(plan->model, spec->name, sizeof plan->model);
    plan->vocab_size = (spec->vocab_size + plan->tp - 1) / plan->tp; // the last rank pads
    struct builder b = {.plan = plan, .spec = spec, .options = options};
    int32_t n_kv = spec->num_key_value_heads > plan->tp ? spec->num_key_value_heads / plan->tp : 1;
    write_model(&b, spec->num_attention_heads / plan->tp, n_kv, spec->intermediate_size / plan->tp, plan->vocab_size);
    bool ok = b.failed ? error_set(e, ERROR_MEMORY, "'%s': no memory for the plan, or more than %d kinds of KV layers",
                                   spec->name, PLAN_MAX_KV_GROUPS)
                       : check_blocks(plan, e);
    if (!ok)
        plan_free(plan);
    return ok;
}
