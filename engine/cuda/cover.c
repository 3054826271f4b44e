#include "engine/cuda/cover.h"

#include "engine/cover.h"

static const struct pattern PATTERN[] = {
    {CUDA_SPAN_NORM_ROPE_KV, 5, {OP_NORM, OP_NORM, OP_ROPE, OP_ROPE, OP_KV_WRITE}, cover_normed_and_turned, false},
    {CUDA_SPAN_ROPE_KV, 3, {OP_ROPE, OP_ROPE, OP_KV_WRITE}, cover_turned, false},
    {CUDA_SPAN_QKV, 3, {OP_LINEAR, OP_LINEAR, OP_LINEAR}, cover_qkv, false},
    {CUDA_SPAN_GATE_UP_ACT, 3, {OP_LINEAR, OP_LINEAR, OP_ACT}, cover_gated, false},
    {CUDA_SPAN_ADD_NORM, 2, {OP_ADD, OP_NORM}, cover_add_norm, false},
    {CUDA_SPAN_EMBED, 1, {OP_EMBED}, NULL, false},
    {CUDA_SPAN_NORM, 1, {OP_NORM}, NULL, false},
    {CUDA_SPAN_LINEAR, 1, {OP_LINEAR}, NULL, false},
    {CUDA_SPAN_ROPE, 1, {OP_ROPE}, NULL, false},
    {CUDA_SPAN_KV_WRITE, 1, {OP_KV_WRITE}, NULL, false},
    {CUDA_SPAN_ATTN, 1, {OP_ATTN}, NULL, false},
    {CUDA_SPAN_ACT, 1, {OP_ACT}, NULL, false},
    {CUDA_SPAN_ADD, 1, {OP_ADD}, NULL, false},
};

static uint16_t strategy_of(const struct op *op, const struct batch_shape *shape)
{
    int32_t rows = op->rows == ROWS_OUT ? shape->n_out : shape->n_tokens;
    if (op->kind == OP_LINEAR)
        return rows > CUDA_OWN_ROWS ? CUDA_STRATEGY_BLAS : CUDA_STRATEGY_OWN;
    return op->kind == OP_ATTN && shape->max_rows > 1 ? CUDA_STRATEGY_PREFILL : CUDA_STRATEGY_OWN;
}

int32_t cuda_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    (void)self;
    int32_t n = cover_by_patterns(PATTERN, sizeof PATTERN / sizeof *PATTERN, CUDA_SPAN_COUNT, plan, spans);
    for (int32_t i = 0; i < n; i++)
        spans[i].strategy = strategy_of(&plan->op[spans[i].first], shape);
    return n;
}

static const char *const NAME[] = {
#define X(id, name) name,
    CUDA_SPANS(X)
#undef X
};

const char *cuda_kernel_name(void *self, uint16_t kernel)
{
    (void)self;
    return kernel < CUDA_SPAN_COUNT ? NAME[kernel] : "none";
}
