// The table of one instruction set.
#include "engine/cpu/isa.h"
#include "engine/cpu/tile.h"

const struct cpu_kernels SYM(cpu_kernels) = {
    .name = SYM_TEXT(ISA),
    .linear = {[DTYPE_F32] =
                   {
#define X(name, form) [form] = SYM(linear_f32_##name),
                       F32_KERNELS(X)
#undef X
                   },
               [DTYPE_BF16] = {[PACK_BF16] = SYM(linear_bf16)},
               [DTYPE_INT8] =
                   {
#define X(name, form) [form] = SYM(linear_int8_##name),
                       INT8_KERNELS(X)
#undef X
                   }},
    .prepare = {[DTYPE_F32] = SYM(prepare_f32), [DTYPE_BF16] = SYM(prepare_bf16), [DTYPE_INT8] = SYM(prepare_int8)},
    .row_bytes = {[DTYPE_F32] = 4, [DTYPE_BF16] = PAIR_BYTES / 2, [DTYPE_INT8] = 2},
#define X(name, id) [DTYPE_##id] = SYM(kv_store_##name),
    .kv_store = {KV_TYPES(X)},
#undef X
    .attn = SYM(attn),
    .attn_join = SYM(attn_join),
    .attn_end = SYM(attn_end),
    .norm = SYM(norm),
    .rope = SYM(rope),
    .act_mul = {[ACT_SILU] = SYM(silu_mul), [ACT_GELU_TANH] = SYM(gelu_tanh_mul)},
    .add = SYM(add),
    .scale = SYM(scale),
    .stream = SYM(stream),
    .move = SYM(move),
};
