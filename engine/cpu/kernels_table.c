// The table of one instruction set.
#include "engine/cpu/isa.h"

const struct cpu_kernels SYM(cpu_kernels) = {
    .name = SYM_TEXT(ISA),
    .gemm = true,
#define X(name, id) [DTYPE_##id] = SYM(linear_##name),
    .linear = {WEIGHT_TYPES(X)},
#undef X
#define X(name, id) [DTYPE_##id] = SYM(to_f32_##name),
    .to_f32 = {WEIGHT_TYPES(X)},
#undef X
#define X(name, id) [DTYPE_##id] = SYM(kv_store_##name),
    .kv_store = {KV_TYPES(X)},
#undef X
    .attn = SYM(attn),
    .norm = SYM(norm),
    .rope = SYM(rope),
    .act_mul = {[ACT_SILU] = SYM(silu_mul), [ACT_GELU_TANH] = SYM(gelu_tanh_mul)},
    .add = SYM(add),
    .scale = SYM(scale),
    .stream = SYM(stream),
    .move = SYM(move),
};
