// The kernels a plan is covered with, and how many operations each takes.
#ifndef ENGINE_CPU_COVER_H
#define ENGINE_CPU_COVER_H

#include "engine/cpu/cpu.h"

//    id            name                       what it does
#define CPU_SPANS(X)                                                                                                        \
    X(EMBED, "embed")             /* rows of the embedding table */                                                         \
    X(NORM, "norm")               /* RMSNorm */                                                                             \
    X(LINEAR, "linear")           /* one linear layer */                                                                    \
    X(QKV, "qkv")                 /* three linear layers over one input */                                                  \
    X(LINEAR_ADD, "linear+add")   /* a linear layer and the residual */                                                     \
    X(GATE_UP_ACT, "gate+up+act") /* two linear layers over one input, act(gate) * up */                                    \
    X(NORM_LINEAR, "norm+linear") /* these three behind the norm of their input */                                          \
    X(NORM_QKV, "norm+qkv")                                                                                                 \
    X(NORM_GATE_UP_ACT, "norm+gate+up+act")                                                                                 \
    X(ROPE, "rope")                          /* rotary embedding */                                                         \
    X(KV_WRITE, "kv_write")                  /* K and V into the cache */                                                   \
    X(ROPE_KV, "rope+kv_write")              /* q and k turned, K and V into the cache */                                   \
    X(NORM_ROPE_KV, "qk_norm+rope+kv_write") /* the same behind QK-norm */                                                  \
    X(ATTN, "attn")                          /* paged attention */                                                          \
    X(ACT, "act")                            /* act(gate) * up */                                                           \
    X(ADD, "add")                            /* the residual */

enum cpu_span {
#define X(id, name) CPU_SPAN_##id,
    CPU_SPANS(X)
#undef X
        CPU_SPAN_COUNT,
};

#endif
