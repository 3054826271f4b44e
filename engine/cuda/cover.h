// The kernels a plan is covered with on a CUDA device. Plain C without any CUDA header: kvbench and kvcalc price this cover
// on machines that have neither device nor toolkit.
#ifndef ENGINE_CUDA_COVER_H
#define ENGINE_CUDA_COVER_H

#include "engine/backend.h"

//    id            name                       what it does
#define CUDA_SPANS(X)                                                                                                       \
    X(EMBED, "embed")                        /* rows of the embedding table */                                              \
    X(NORM, "norm")                          /* RMSNorm */                                                                  \
    X(ADD_NORM, "add+norm")                  /* the residual, and RMSNorm of the sum */                                     \
    X(LINEAR, "linear")                      /* one linear layer */                                                         \
    X(QKV, "qkv")                            /* three linear layers over one input */                                       \
    X(GATE_UP_ACT, "gate+up+act")            /* two linear layers over one input, act(gate) * up */                         \
    X(ROPE, "rope")                          /* rotary embedding */                                                         \
    X(KV_WRITE, "kv_write")                  /* K and V into the cache */                                                   \
    X(ROPE_KV, "rope+kv_write")              /* q and k turned, K and V into the cache */                                   \
    X(NORM_ROPE_KV, "qk_norm+rope+kv_write") /* the same behind QK-norm */                                                  \
    X(ATTN, "attn")                          /* paged attention */                                                          \
    X(ACT, "act")                            /* act(gate) * up */                                                           \
    X(ADD, "add")                            /* the residual */

enum cuda_span {
#define X(id, name) CUDA_SPAN_##id,
    CUDA_SPANS(X)
#undef X
        CUDA_SPAN_COUNT,
};

enum cuda_strategy {
    CUDA_STRATEGY_OWN,     // linear: own kernel that reads each weight once for all rows; attention: split over the context
    CUDA_STRATEGY_BLAS,    // linear: cuBLAS
    CUDA_STRATEGY_PREFILL, // attention: tiles of queries on tensor cores
};

enum { CUDA_OWN_ROWS = 16 }; // rows that the own linear kernel takes at most

// self: unused, may be NULL. Same signature as struct backend's.
int32_t cuda_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans);
const char *cuda_kernel_name(void *self, uint16_t kernel);

#endif
