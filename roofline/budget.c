#include "roofline/budget.h"

#include <stdlib.h>

// The band. Logged budgets of vLLM 0.6 to 0.20 (H100, H200, B200, A100) leave this much beside weights, activations and KV:
// at least a CUDA context; at most that, communication buffers, 2.5 GiB of graphs and 8 more f32 copies of the logits.
static const uint64_t RESERVE_LOW = (uint64_t)(0.1 * 0x1p30), RESERVE_HIGH = (uint64_t)(3.0 * 0x1p30);
enum { SAMPLER_COPIES = 8, SCALE_BLOCK = 128, DEFAULT_TOKENS = 8192, DEFAULT_SEQS = 256 };
static const double REPORTED_SHARE = 0.99; // 0.985 to 0.996 where both numbers were printed

bool budget_keeps_16_bit(enum dtype weights)
{
    return weights == DTYPE_FP8 || weights == DTYPE_INT8 || weights == DTYPE_INT4 || weights == DTYPE_NVFP4 ||
           weights == DTYPE_MXFP4;
}

enum dtype budget_tensor_dtype(void *ctx, const struct tensor_spec *t)
{
    enum dtype weights = *(const enum dtype *)ctx;
    switch ((enum tensor_role)t->role) {
    case TENSOR_TOKEN_EMBD:
    case TENSOR_POSITION_EMBD:
    case TENSOR_OUTPUT:
    case TENSOR_ROUTER:
    case TENSOR_SHARED_GATE:
    case TENSOR_INDEX_WEIGHTS:
    case TENSOR_STATE_CONV:
    case TENSOR_STATE_HEADS: return DTYPE_BF16;
    default: break;
    }
    if (t->rows == 1 || (weights == DTYPE_MXFP4 && t->role != TENSOR_EXPERTS) || t->cols % dtype_block(weights))
        return DTYPE_BF16;
    return weights;
}

// fp8 checkpoints have one f32 scale per 128 x 128 values.
static uint64_t scale_bytes(const struct tensor_spec *t)
{
    if (t->dtype != DTYPE_FP8 || t->rows == 1)
        return 0;
    uint64_t rows = ((uint64_t)t->rows + SCALE_BLOCK - 1) / SCALE_BLOCK;
    return 4 * rows * (((uint64_t)t->cols + SCALE_BLOCK - 1) / SCALE_BLOCK);
}

static uint64_t held_bytes(const struct plan *plan)
{
    uint64_t sum = plan_weight_bytes(plan);
    for (int32_t i = 0; i < plan->n_tensors; i++)
        sum += scale_bytes(&plan->tensor[i]);
    return sum;
}

// vLLM and SGLang keep kv_b a second time in 16 bit, parted in the two matrices of absorbed attention.
static uint64_t absorbed_bytes(const struct plan *plan, enum serving_engine engine)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        if (plan->tensor[i].role == TENSOR_ATTN_KV_B)
            sum += 2 * (uint64_t)plan->tensor[i].rows * (uint64_t)plan->tensor[i].cols;
    return engine == ENGINE_VLLM || engine == ENGINE_SGLANG ? sum : 0;
}

static uint64_t slot_bytes(const struct plan *plan, int32_t slot, int32_t n_tokens, int32_t n_out)
{
    uint64_t rows = (uint64_t)(plan->slot[slot].rows == ROWS_OUT ? n_out : n_tokens);
    enum dtype type = slot == plan->logits ? DTYPE_F32 : plan->act;
    return rows * dtype_row_bytes(type, (uint64_t)plan->slot[slot].width);
}

uint64_t budget_activation_bytes(const struct plan *plan, int32_t n_tokens, int32_t n_out)
{
    int32_t *last = calloc((size_t)plan->n_slots, sizeof *last);
    uint64_t alive = 0, peak = 0;
    if (!last)
        return 0;
    plan_slot_last_use(plan, last);
    if (plan->n_ops && plan->op[0].kind != OP_EMBED) // a later pipeline stage is handed its rows
        alive = slot_bytes(plan, 0, n_tokens, n_out);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        alive += op->out >= 0 ? slot_bytes(plan, op->out, n_tokens, n_out) : 0;
        peak = alive > peak ? alive : peak;
        for (int k = 0; k < 3; k++)
            if (op->in[k] >= 0 && last[op->in[k]] == i) {
                alive -= slot_bytes(plan, op->in[k], n_tokens, n_out);
                last[op->in[k]] = -1; // once, even when an operation reads a slot twice
            }
    }
    free(last);
    return peak;
}

static void count_kv(struct budget *b, enum serving_engine engine, double util)
{
    uint64_t low = b->engine_weight_bytes + b->activation_bytes + b->reserve_low_bytes;
    uint64_t high = b->engine_weight_bytes + b->activation_bytes + b->reserve_high_bytes;
    if (engine == ENGINE_TRTLLM) { // a share of what is free once the weights are loaded
        b->kv_high_bytes = (int64_t)(util * ((double)b->device_bytes - (double)low));
        b->kv_low_bytes = (int64_t)(util * ((double)b->device_bytes - (double)high));
        return;
    }
    b->kv_high_bytes = (int64_t)b->usable_bytes - (int64_t)low;
    b->kv_low_bytes = (int64_t)b->usable_bytes - (int64_t)high;
}

void budget_of(const struct plan *whole, const struct plan *rank, int32_t ranks, const struct hardware *hw,
               const struct budget_query *query, struct budget *out)
{
    int32_t n_tokens = query->max_batched_tokens ? query->max_batched_tokens : DEFAULT_TOKENS;
    int32_t n_out = query->max_seqs ? query->max_seqs : DEFAULT_SEQS;
    *out = (struct budget){.driver_bytes = hw->memory_bytes, .device_derived = !hw->cuda_bytes};
    out->device_bytes = hw->cuda_bytes ? hw->cuda_bytes : (uint64_t)(REPORTED_SHARE * (double)hw->memory_bytes);
    out->usable_bytes = (uint64_t)(query->util * (double)out->device_bytes);
    out->checkpoint_bytes = plan_weight_bytes(whole) / (uint64_t)ranks;
    out->rank_weight_bytes = query->weight_bytes ? query->weight_bytes : held_bytes(rank);
    out->engine_weight_bytes = out->rank_weight_bytes + (query->weight_bytes ? 0 : absorbed_bytes(rank, query->engine));
    out->activation_bytes =
        query->activation_bytes ? query->activation_bytes : budget_activation_bytes(rank, n_tokens, n_out);
    out->reserve_low_bytes = RESERVE_LOW;
    out->reserve_high_bytes = RESERVE_HIGH + 4ull * SAMPLER_COPIES * (uint64_t)n_out * (uint64_t)rank->vocab_size;
    count_kv(out, query->engine, query->util);
}
