// Names of the kernels of one instruction set. The Makefile compiles kernels_*.c once per instruction set with -DISA=NAME;
// SYM(x) is then x_NAME.
#ifndef ENGINE_CPU_ISA_H
#define ENGINE_CPU_ISA_H

#include "engine/cpu/kernels.h"

#define SYM_JOIN(name, isa) name##_##isa
#define SYM_OF(name, isa) SYM_JOIN(name, isa)
#define SYM(name) SYM_OF(name, ISA)
#define SYM_TEXT_OF(isa) #isa
#define SYM_TEXT(isa) SYM_TEXT_OF(isa)

#define KV_TYPES(X)                                                                                                         \
    X(f32, F32)                                                                                                             \
    X(f16, F16)                                                                                                             \
    X(bf16, BF16)                                                                                                           \
    X(int8, INT8)

// kernels_linear.c, kernels_codes.c
#define X(name, form) void SYM(linear_f32_##name)(const struct linear_panel *a);
F32_KERNELS(X)
#undef X
#define X(name, form) void SYM(linear_int8_##name)(const struct linear_panel *a);
INT8_KERNELS(X)
#undef X
void SYM(linear_bf16)(const struct linear_panel *a);
void SYM(prepare_f32)(const float *x, int32_t n, void *row);
void SYM(prepare_bf16)(const float *x, int32_t n, void *row);
void SYM(prepare_int8)(const float *x, int32_t n, void *row);

// kernels_attn.c
void SYM(attn)(const struct attn_query *a, const struct attn_rows *rows, const struct attn_rows *after,
               const struct attn_part *out, float *scratch);
void SYM(attn_join)(const struct attn_part *total, const struct attn_part *part, int32_t n, int32_t head_dim);
void SYM(attn_end)(const struct attn_query *a, const struct attn_part *total, int32_t i, float *out);

// kernels_kv.c
#define X(name, id) void SYM(kv_store_##name)(const float *in, void *values, uint16_t *scale, int32_t n);
KV_TYPES(X)
#undef X

// kernels_elementwise.c
void SYM(norm)(const float *x, const float *weight, float eps, float *y, int32_t n);
void SYM(rope)(const float *x, const float *cos, const float *sin, float *y, int32_t n, int32_t rotary_dim);
void SYM(silu_mul)(const float *gate, const float *up, float *y, int32_t n);
void SYM(gelu_tanh_mul)(const float *gate, const float *up, float *y, int32_t n);
void SYM(add)(const float *a, const float *b, float factor, float *y, int32_t n);
void SYM(scale)(float *x, float factor, float softcap, int32_t n);

// kernels_probe.c
void SYM(stream)(const uint8_t *p, uint64_t bytes, int32_t n_streams);
void SYM(move)(float *to, const float *a, const float *b, uint64_t n, bool past_cache);

#endif
