// What can be asked of a plan once it is written.
#include "engine/op.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const KIND_NAME[] = {
#define X(id, name) name,
    OP_KINDS(X)
#undef X
};

static const struct {
    const char *name, *hf, *gguf;
} ROLE[] = {
#define X(id, name, hf, gguf) {name, hf, gguf},
    TENSOR_ROLES(X)
#undef X
};

void plan_free(struct plan *plan)
{
    free(plan->op);
    free(plan->slot);
    free(plan->tensor);
    *plan = (struct plan){0};
}

struct plan_options plan_options_default(enum dtype weights)
{
    enum dtype compute = weights == DTYPE_F32 || weights == DTYPE_F16 || weights == DTYPE_FP8 ? weights : DTYPE_BF16;
    enum dtype stored = compute == DTYPE_FP8 ? DTYPE_BF16 : compute;
    return (struct plan_options){
        .tp = 1, .weights = weights, .kv_k = stored, .kv_v = stored, .compute = compute, .act = stored};
}

const char *op_kind_name(enum op_kind kind)
{
    return KIND_NAME[kind];
}

const char *tensor_role_name(enum tensor_role role)
{
    return ROLE[role].name;
}

const char *op_label(const struct plan *plan, const struct op *op)
{
    if (op->kind == OP_LINEAR && op->weight >= 0 && op->out == plan->logits)
        return tensor_role_name(TENSOR_OUTPUT); // a tied head is the embedding table, doing the head's work
    if (op->weight >= 0 && op->kind != OP_EMBED)
        return tensor_role_name((enum tensor_role)plan->tensor[op->weight].role);
    return op_kind_name((enum op_kind)op->kind);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static bool name_of(const char *format, int32_t layer, char *out, int size)
{
    int n = snprintf(out, (size_t)size, format, layer);
    return n >= 0 && n < size;
}

bool tensor_name_hf(enum tensor_role role, int32_t layer, char *out, int size)
{
    return name_of(ROLE[role].hf, layer, out, size);
}

bool tensor_name_gguf(enum tensor_role role, int32_t layer, char *out, int size)
{
    return name_of(ROLE[role].gguf, layer, out, size);
}

uint64_t tensor_bytes(const struct tensor_spec *t)
{
    return (uint64_t)t->rows * dtype_row_bytes((enum dtype)t->dtype, (uint64_t)t->cols);
}

void plan_stage_layers(int32_t n_layers, int32_t pp, int32_t stage, int32_t *first, int32_t *count)
{
    int32_t each = n_layers / pp, rest = n_layers % pp;
    *first = 0;
    for (int32_t s = 0; s <= stage; s++) {
        bool more = s < pp - 1 ? s >= pp - 1 - rest : rest >= pp; // the last one has the head to hold
        *first += s ? *count : 0;
        *count = each + more;
    }
}

uint64_t kv_group_index_bytes(const struct kv_group *group)
{
    return (uint64_t)group->index_dim + 4 * (((uint64_t)group->index_dim + 127) / 128);
}

uint64_t kv_group_token_bytes(const struct plan *plan, const struct kv_group *group)
{
    if (group->state_bytes)
        return 0;
    uint64_t k = dtype_row_bytes(plan->kv_k, (uint64_t)group->head_dim);
    if (group->latent)
        return k + kv_group_index_bytes(group);
    return (uint64_t)group->num_key_value_heads * (k + dtype_row_bytes(plan->kv_v, (uint64_t)group->head_dim));
}

uint64_t plan_kv_bytes_per_token(const struct plan *plan)
{
    uint64_t sum = 0;
    for (int32_t g = 0; g < plan->n_kv_groups; g++)
        sum += (uint64_t)plan->kv_group[g].n_layers * kv_group_token_bytes(plan, &plan->kv_group[g]);
    return sum;
}

uint64_t plan_weight_bytes(const struct plan *plan)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        sum += tensor_bytes(&plan->tensor[i]);
    return sum;
}

enum dtype plan_weight_type(const struct plan *plan)
{
    uint64_t bytes[DTYPE_COUNT] = {0};
    int most = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        bytes[plan->tensor[i].dtype] += tensor_bytes(&plan->tensor[i]);
    for (int t = 1; t < DTYPE_COUNT; t++)
        most = bytes[t] > bytes[most] ? t : most;
    return (enum dtype)most;
}

enum dtype plan_compute_type(const struct plan *plan)
{
    double work[DTYPE_COUNT] = {0};
    int most = 0;
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == OP_LINEAR)
            work[plan->op[i].compute] += (double)plan->op[i].dim[0] * (double)plan->op[i].dim[1];
    for (int t = 1; t < DTYPE_COUNT; t++)
        most = work[t] > work[most] ? t : most;
    return (enum dtype)most;
}

void plan_slot_last_use(const struct plan *plan, int32_t *last)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        for (int k = 0; k < 3; k++)
            if (op->in[k] >= 0)
                last[op->in[k]] = i;
        if (op->out >= 0)
            last[op->out] = i;
    }
    last[plan->logits] = plan->n_ops; // read after the step
}
