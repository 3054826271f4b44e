// VL weights of each storage type as f32, exactly as dtype_to_f32 has them. Positions are multiples of VL.
#ifndef ENGINE_CPU_WEIGHTS_H
#define ENGINE_CPU_WEIGHTS_H

#include "engine/cpu/simd.h"

typedef vf (*load_weights)(const uint8_t *row, int32_t k);

SPECIALIZE vf scale_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return vf_set(_cvtsh_ss(h));
}
SPECIALIZE vf weights_f32(const uint8_t *row, int32_t k)
{
    return vf_load((const float *)(const void *)row + k);
}
SPECIALIZE vf weights_f16(const uint8_t *row, int32_t k)
{
    return vf_load_f16(row + 2 * (size_t)k);
}
SPECIALIZE vf weights_bf16(const uint8_t *row, int32_t k)
{
    return vf_load_bf16(row + 2 * (size_t)k);
}

// f16 d, 32 x i8 q; d * q
SPECIALIZE vf weights_q8_0(const uint8_t *row, int32_t k)
{
    const uint8_t *b = row + (size_t)(k / 32) * 34;
    return vf_mul(scale_f16(b), vi_to_vf(vi_load_i8(b + 2 + k % 32)));
}

// 16 bytes: low nibbles are values 0..15, high nibbles 16..31
SPECIALIZE vi nibbles(const uint8_t *q, int32_t i)
{
    return vi_and(vi_right(vi_load_u8(q + i % 16), i / 16 * 4), vi_set(15));
}

// f16 d, nibbles; d * (q - 8)
SPECIALIZE vf weights_q4_0(const uint8_t *row, int32_t k)
{
    const uint8_t *b = row + (size_t)(k / 32) * 18;
    return vf_mul(scale_f16(b), vi_to_vf(vi_sub(nibbles(b + 2, k % 32), vi_set(8))));
}

// f16 d, f16 m, nibbles; d * q + m
SPECIALIZE vf weights_q4_1(const uint8_t *row, int32_t k)
{
    const uint8_t *b = row + (size_t)(k / 32) * 20;
    return vf_add(vf_mul(scale_f16(b), vi_to_vf(nibbles(b + 4, k % 32))), scale_f16(b + 2));
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 x i8 scales, f16 d; d * scale * (q - 32). Each half of 128 values has
// four runs of 32: run j takes nibble j / 2 of bytes 32 * (j % 2) .. and bit pair j.
SPECIALIZE vf weights_q6_k(const uint8_t *row, int32_t k)
{
    const uint8_t *b = row + (size_t)(k / 256) * 210;
    int32_t half = k % 256 / 128, j = k % 128 / 32, i = k % 32;
    const uint8_t *low = b + 64 * half + 32 * (j & 1) + i, *high = b + 128 + 32 * half + i;
    float scale = (float)(int8_t)b[192 + 8 * half + 2 * j + i / 16];
    vi q = vi_and(vi_right(vi_load_u8(low), 4 * (j >> 1)), vi_set(15));
    q = vi_or(q, vi_left(vi_and(vi_right(vi_load_u8(high), 2 * j), vi_set(3)), 4));
    return vf_mul(vf_mul(scale_f16(b + 208), vf_set(scale)), vi_to_vf(vi_sub(q, vi_set(32))));
}

#endif
