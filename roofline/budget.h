// Where the memory of one rank goes: what the device reports, what may be used of it, weights as an engine holds them,
// activations, and an explicit band for what nothing here can derive.
#ifndef ROOFLINE_BUDGET_H
#define ROOFLINE_BUDGET_H

#include "roofline/hardware.h"
#include "roofline/serving.h"

struct budget_query {
    enum serving_engine engine;
    double util;                // share of the device that may be used
    int32_t max_batched_tokens; // rows of the largest step; 0: 8192
    int32_t max_seqs;           // rows of it whose logits are wanted; 0: 256
    uint64_t weight_bytes;      // of one rank, when they are known; 0: by tensor
    uint64_t activation_bytes;  // likewise; 0: from the plan
};

// Field names are kvcalc's JSON keys.
struct budget {
    uint64_t driver_bytes;        // as nvidia-smi and its like print it; 0: unknown, and so is all that follows from it
    uint64_t device_bytes;        // as CUDA reports it to a process: less by what the driver keeps
    bool device_derived;          // device_bytes is 99 % of driver_bytes, because nobody printed it
    uint64_t usable_bytes;        // device_bytes x util
    uint64_t checkpoint_bytes;    // all tensors of the model over the ranks: what an even split would be
    uint64_t rank_weight_bytes;   // by tensor: what does not divide is whole on each rank; scales included
    uint64_t engine_weight_bytes; // with what the engine adds: MLA's unfolding matrices once more, in 16 bit
    uint64_t activation_bytes;    // largest sum of activation slots alive at once, and one f32 copy of the logits
    uint64_t reserve_low_bytes, reserve_high_bytes; // CUDA context, communication, sampler, graphs
    int64_t kv_low_bytes, kv_high_bytes;            // what is left for KV; negative: so much is lacking
};

// The type that a checkpoint stores a tensor in: with fp8, int8, int4 and nvfp4 weights embedding, head, routers and vectors
// stay in 16 bit; with mxfp4 all but the experts do. For plan_options.tensor_dtype; ctx: an enum dtype, the weights' type.
enum dtype budget_tensor_dtype(void *weights, const struct tensor_spec *t);
bool budget_keeps_16_bit(enum dtype weights); // whether it makes a difference

// whole: the plan of one device, rank: of one of the tp x pp ranks.
void budget_of(const struct plan *whole, const struct plan *rank, int32_t ranks, const struct hardware *hw,
               const struct budget_query *query, struct budget *out);

// Bytes of activation slots alive at once in a step of n_tokens rows, n_out of them with logits.
uint64_t budget_activation_bytes(const struct plan *plan, int32_t n_tokens, int32_t n_out);

#endif
