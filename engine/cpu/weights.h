// VL weights of each storage type as f32, exactly as dtype_to_f32 has them: those from position k + j of a row, where k is
// a multiple of GROUP (any k for plain types) and j a constant below GROUP.
#ifndef ENGINE_CPU_WEIGHTS_H
#define ENGINE_CPU_WEIGHTS_H

#include "engine/cpu/simd.h"

enum { GROUP = 32 }; // values of the smallest block

typedef vf (*load_weights)(const uint8_t *row, uint32_t k, uint32_t j);

SPECIALIZE vf scale_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return vf_set(_cvtsh_ss(h));
}
SPECIALIZE vf weights_f32(const uint8_t *row, uint32_t k, uint32_t j)
{
    return vf_load((const float *)(const void *)row + k + j);
}
SPECIALIZE vf weights_f16(const uint8_t *row, uint32_t k, uint32_t j)
{
    return vf_load_f16(row + 2 * (size_t)(k + j));
}
SPECIALIZE vf weights_bf16(const uint8_t *row, uint32_t k, uint32_t j)
{
    return vf_load_bf16(row + 2 * (size_t)(k + j));
}

// f16 d, 32 x i8 q; d * q
SPECIALIZE vf weights_q8_0(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 34;
    return vf_mul(scale_f16(b), vi_to_vf(vi_load_i8(b + 2 + j)));
}

// 16 bytes: low nibbles are values 0..15, high nibbles 16..31
SPECIALIZE vi nibbles(const uint8_t *q, uint32_t j)
{
    vi bytes = vi_load_u8(q + j % 16);
    return j < 16 ? vi_and(bytes, vi_set(15)) : vi_right(bytes, 4);
}

// f16 d, nibbles; d * (q - 8)
SPECIALIZE vf weights_q4_0(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 18;
    return vf_mul(scale_f16(b), vi_to_vf(vi_sub(nibbles(b + 2, j), vi_set(8))));
}

// f16 d, f16 m, nibbles; d * q + m
SPECIALIZE vf weights_q4_1(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 20;
    return vf_fma(scale_f16(b), vi_to_vf(nibbles(b + 4, j)), scale_f16(b + 2)); // the product is exact: one rounding
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 x i8 scales, f16 d; d * scale * (q - 32). Each half of 128 values has
// four runs of 32: run i takes nibble i / 2 of bytes 32 * (i % 2) .. and bit pair i.
SPECIALIZE vf weights_q6_k(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 210;
    uint32_t half = k / 128 % 2, i = k / 32 % 4;
    const uint8_t *low = b + 64 * half + 32 * (i & 1) + j, *high = b + 128 + 32 * half + j;
    float scale = (float)(int8_t)b[192 + 8 * half + 2 * i + j / 16];
    vi q = vi_and(vi_right(vi_load_u8(low), (int)(4 * (i >> 1))), vi_set(15));
    q = vi_or(q, vi_left(vi_and(vi_right(vi_load_u8(high), (int)(2 * i)), vi_set(3)), 4));
    return vf_mul(vf_mul(scale_f16(b + 208), vf_set(scale)), vi_to_vf(vi_sub(q, vi_set(32))));
}

#endif
