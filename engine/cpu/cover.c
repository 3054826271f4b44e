// Which kernel takes which operations. Plain C: prices a plan without a CPU or weights.
#include "engine/cpu/cover.h"

static bool share_input(const struct op *op)
{
    return op[1].in[0] == op[0].in[0] && op[2].in[0] == op[0].in[0] && op[1].rows == op[0].rows && op[2].rows == op[0].rows;
}

static bool residual(const struct op *op)
{
    return (op[1].in[0] == op[0].out || op[1].in[1] == op[0].out) && op[1].rows == op[0].rows;
}

static bool gated(const struct op *op)
{
    return op[1].in[0] == op[0].in[0] && op[2].in[0] == op[0].out && op[2].in[1] == op[1].out && op[1].rows == op[0].rows &&
           op[2].rows == op[0].rows;
}

static bool share_normed(const struct op *op)
{
    return share_input(op + 1);
}

static bool gated_normed(const struct op *op)
{
    return gated(op + 1);
}

// ROPE q, ROPE k, KV_WRITE of that k.
static bool turned(const struct op *op)
{
    return op[2].in[0] == op[1].out && op[0].rows == ROWS_TOKENS;
}

static bool normed_and_turned(const struct op *op)
{
    bool by_head = op[0].dim[0] == op[2].dim[0] && op[1].dim[0] == op[3].dim[0];
    return by_head && op[2].in[0] == op[0].out && op[3].in[0] == op[1].out && turned(op + 2);
}

enum { LONGEST = 5 };

// First match wins. Every kind stands alone too, so that any plan is covered.
static const struct pattern {
    enum cpu_span span;
    int32_t count;
    uint8_t kind[LONGEST];
    bool (*fits)(const struct op *op);
} PATTERN[] = {
    {CPU_SPAN_NORM_ROPE_KV, 5, {OP_NORM, OP_NORM, OP_ROPE, OP_ROPE, OP_KV_WRITE}, normed_and_turned},
    {CPU_SPAN_ROPE_KV, 3, {OP_ROPE, OP_ROPE, OP_KV_WRITE}, turned},
    {CPU_SPAN_NORM_QKV, 4, {OP_NORM, OP_LINEAR, OP_LINEAR, OP_LINEAR}, share_normed},
    {CPU_SPAN_NORM_GATE_UP_ACT, 4, {OP_NORM, OP_LINEAR, OP_LINEAR, OP_ACT}, gated_normed},
    {CPU_SPAN_NORM_LINEAR, 2, {OP_NORM, OP_LINEAR}, NULL},
    {CPU_SPAN_QKV, 3, {OP_LINEAR, OP_LINEAR, OP_LINEAR}, share_input},
    {CPU_SPAN_GATE_UP_ACT, 3, {OP_LINEAR, OP_LINEAR, OP_ACT}, gated},
    {CPU_SPAN_LINEAR_ADD, 2, {OP_LINEAR, OP_ADD}, residual},
    {CPU_SPAN_EMBED, 1, {OP_EMBED}, NULL},
    {CPU_SPAN_NORM, 1, {OP_NORM}, NULL},
    {CPU_SPAN_LINEAR, 1, {OP_LINEAR}, NULL},
    {CPU_SPAN_ROPE, 1, {OP_ROPE}, NULL},
    {CPU_SPAN_KV_WRITE, 1, {OP_KV_WRITE}, NULL},
    {CPU_SPAN_ATTN, 1, {OP_ATTN}, NULL},
    {CPU_SPAN_ACT, 1, {OP_ACT}, NULL},
    {CPU_SPAN_ADD, 1, {OP_ADD}, NULL},
};

// A norm whose output is read by the linear layers behind it and nobody after them.
static bool normed_for(const struct plan *plan, int32_t first, int32_t end)
{
    const struct op *norm = &plan->op[first];
    for (int32_t i = end; i < plan->n_ops; i++)
        for (int k = 0; k < 3; k++)
            if (plan->op[i].in[k] == norm->out)
                return false;
    return norm->dim[0] == 1 && norm[1].in[0] == norm->out && norm[1].rows == norm->rows;
}

static bool matches(const struct pattern *p, const struct plan *plan, int32_t first)
{
    const struct op *op = &plan->op[first];
    if (p->count > plan->n_ops - first)
        return false;
    for (int32_t i = 0; i < p->count; i++)
        if (op[i].kind != p->kind[i])
            return false;
    if (p->kind[0] == OP_NORM && p->kind[1] == OP_LINEAR && !normed_for(plan, first, first + p->count))
        return false;
    return !p->fits || p->fits(op);
}

static struct span span_at(const struct plan *plan, int32_t first)
{
    for (size_t i = 0; i < sizeof PATTERN / sizeof *PATTERN; i++)
        if (matches(&PATTERN[i], plan, first))
            return (struct span){first, PATTERN[i].count, (uint16_t)PATTERN[i].span, 0};
    return (struct span){first, 1, CPU_SPAN_COUNT, 0}; // ALLREDUCE: priced as nobody's, refused by supports()
}

// The same for every shape: slots share buffers by it.
int32_t cpu_cover(void *unused, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    (void)unused, (void)shape;
    int32_t n = 0;
    for (int32_t first = 0; first < plan->n_ops; first += spans[n++].count)
        spans[n] = span_at(plan, first);
    return n;
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
