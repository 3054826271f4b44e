// Which kernel takes which operations. Plain C: prices a plan without a CPU or weights.
#include "engine/cpu/cover.h"

#include "engine/cover.h"

static bool normed(const struct op *op)
{
    return op[0].dim[0] == 1 && op[1].in[0] == op[0].out && op[1].rows == op[0].rows;
}

static bool normed_qkv(const struct op *op)
{
    return normed(op) && cover_qkv(op + 1);
}

static bool normed_gated(const struct op *op)
{
    return normed(op) && cover_gated(op + 1);
}

// First match wins. Every kind stands alone too, so that any plan is covered.
static const struct pattern PATTERN[] = {
    {CPU_SPAN_NORM_ROPE_KV, 5, {OP_NORM, OP_NORM, OP_ROPE, OP_ROPE, OP_KV_WRITE}, cover_normed_and_turned, false},
    {CPU_SPAN_ROPE_KV, 3, {OP_ROPE, OP_ROPE, OP_KV_WRITE}, cover_turned, false},
    {CPU_SPAN_NORM_QKV, 4, {OP_NORM, OP_LINEAR, OP_LINEAR, OP_LINEAR}, normed_qkv, true},
    {CPU_SPAN_NORM_GATE_UP_ACT, 4, {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ACT}, normed_gated, true},
    {CPU_SPAN_NORM_LINEAR, 2, {OP_NORM, OP_LINEAR}, normed, true},
    {CPU_SPAN_QKV, 3, {OP_LINEAR, OP_LINEAR, OP_LINEAR}, cover_qkv, false},
    {CPU_SPAN_GATE_UP_ACT, 3, {OP_LINEAR, OP_LINEAR, OP_ACT}, cover_gated, false},
    {CPU_SPAN_LINEAR_ADD, 2, {OP_LINEAR, OP_ADD}, cover_residual, false},
    {CPU_SPAN_EMBED, 1, {OP_EMBED}, NULL, false},
    {CPU_SPAN_NORM, 1, {OP_NORM}, NULL, false},
    {CPU_SPAN_LINEAR, 1, {OP_LINEAR}, NULL, false},
    {CPU_SPAN_ROPE, 1, {OP_ROPE}, NULL, false},
    {CPU_SPAN_KV_WRITE, 1, {OP_KV_WRITE}, NULL, false},
    {CPU_SPAN_ATTN, 1, {OP_ATTN}, NULL, false},
    {CPU_SPAN_ACT, 1, {OP_ACT}, NULL, false},
    {CPU_SPAN_ADD, 1, {OP_ADD}, NULL, false},
};

// The same for every shape: slots share buffers by it. ALLREDUCE is nobody's: priced, refused by supports().
int32_t cpu_cover(void *unused, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    (void)unused, (void)shape;
    return cover_by_patterns(PATTERN, sizeof PATTERN / sizeof *PATTERN, CPU_SPAN_COUNT, plan, spans);
}

enum dtype cpu_compute_of(enum dtype weights)
{
    if (weights == DTYPE_F32 || weights == DTYPE_F16 || weights == DTYPE_FP8)
        return DTYPE_F32;
    return weights == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_INT8;
}

bool cpu_can_compute(enum dtype weights, enum dtype compute)
{
    return compute == DTYPE_F32 || compute == cpu_compute_of(weights);
}

static const char *const NAME[] = {
#define X(id, name) name,
    CPU_SPANS(X)
#undef X
};

const char *cpu_kernel_name(void *unused, uint16_t kernel)
{
    (void)unused;
    return kernel < CPU_SPAN_COUNT ? NAME[kernel] : "none";
}
