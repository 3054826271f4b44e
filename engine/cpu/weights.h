// VL weights of each storage type as f32, exactly as dtype_to_f32 has them: those from position k + j of a row, where k is
// a multiple of GROUP (any k for plain types) and j a constant below GROUP.
#ifndef ENGINE_CPU_WEIGHTS_H
#define ENGINE_CPU_WEIGHTS_H

#include "engine/base/dtype_blocks.h"
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

// VL of the fifth bits of a block of 32, from bit j
SPECIALIZE vi fifth_bits(const uint8_t *high, uint32_t j)
{
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    return vi_left(vi_spread(bits >> j), 4);
}

// f16 d, fifth bits, nibbles; d * (q - 16)
SPECIALIZE vf weights_q5_0(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 22;
    vi q = vi_or(nibbles(b + 6, j), fifth_bits(b + 2, j));
    return vf_mul(scale_f16(b), vi_to_vf(vi_sub(q, vi_set(16))));
}

// f16 d, f16 m, fifth bits, nibbles; d * q + m
SPECIALIZE vf weights_q5_1(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 24;
    vi q = vi_or(nibbles(b + 8, j), fifth_bits(b + 4, j));
    return vf_fma(scale_f16(b), vi_to_vf(q), scale_f16(b + 2));
}

// The K types have 256 values in 8 runs of 32; how scales of 6 bits are packed is told in engine/base/dtype_blocks.c.

// The bit pairs of one run, four runs to 32 bytes
SPECIALIZE vi bit_pairs(const uint8_t *q, uint32_t run, uint32_t j)
{
    return vi_and(vi_right(vi_load_u8(q + 32 * (run / 4) + j), (int)(2 * (run % 4))), vi_set(3));
}

// d * scale * q - dmin * min, exact up to the difference
SPECIALIZE vf scaled_minus_min(const uint8_t *d, int32_t scale, int32_t min, vi q)
{
    vf m = vf_mul(scale_f16(d + 2), vf_set((float)-min));
    return vf_fma(vf_mul(scale_f16(d), vf_set((float)scale)), vi_to_vf(q), m);
}

SPECIALIZE vf weights_q2_k(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 84;
    uint32_t run = k / 32 % 8, scale = b[2 * run + j / 16];
    return scaled_minus_min(b + 80, (int32_t)(scale & 15), (int32_t)(scale >> 4), bit_pairs(b + 16, run, j));
}

SPECIALIZE vf weights_q3_k(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 110, *s = b + 96;
    uint32_t run = k / 32 % 8, i = 2 * run + j / 16;
    int32_t scale = (s[i % 8] >> 4 * (i / 8) & 15) | (s[8 + i % 4] >> 2 * (i / 4) & 3) << 4;
    vi third = vi_left(vi_and(vi_right(vi_load_u8(b + j), (int)run), vi_set(1)), 2);
    vi q = vi_sub(vi_or(bit_pairs(b + 32, run, j), third), vi_set(4));
    return vf_mul(vf_mul(scale_f16(b + 108), vf_set((float)(scale - 32))), vi_to_vf(q));
}

SPECIALIZE int32_t k4_scale(const uint8_t *p, uint32_t run)
{
    return run < 4 ? p[run] & 63 : (p[run + 4] & 15) | p[run - 4] >> 6 << 4;
}

SPECIALIZE int32_t k4_min(const uint8_t *p, uint32_t run)
{
    return run < 4 ? p[run + 4] & 63 : p[run + 4] >> 4 | p[run] >> 6 << 4;
}

// Two runs share 32 bytes: low nibbles, high nibbles
SPECIALIZE vi run_nibbles(const uint8_t *q, uint32_t run, uint32_t j)
{
    return vi_and(vi_right(vi_load_u8(q + 32 * (run / 2) + j), (int)(4 * (run % 2))), vi_set(15));
}

SPECIALIZE vf weights_q4_k(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 144;
    uint32_t run = k / 32 % 8;
    return scaled_minus_min(b, k4_scale(b + 4, run), k4_min(b + 4, run), run_nibbles(b + 16, run, j));
}

SPECIALIZE vf weights_q5_k(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 176;
    uint32_t run = k / 32 % 8;
    vi fifth = vi_left(vi_and(vi_right(vi_load_u8(b + 16 + j), (int)run), vi_set(1)), 4);
    return scaled_minus_min(b, k4_scale(b + 4, run), k4_min(b + 4, run), vi_or(run_nibbles(b + 48, run, j), fifth));
}

// level[nibble], for nibbles as in Q4_0
SPECIALIZE vf levels(const int8_t level[16], const uint8_t *q, uint32_t j)
{
    __m128i bytes = load_lane_bytes(q + j % 16);
    bytes = _mm_and_si128(j < 16 ? bytes : _mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    return vi_to_vf(vi_from_i8(_mm_shuffle_epi8(_mm_loadu_si128((const void *)level), bytes)));
}

// f16 d, nibbles; d * level[q]
SPECIALIZE vf weights_iq4_nl(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 18;
    return vf_mul(scale_f16(b), levels(dtype_iq4_level, b + 2, j));
}

// f16 d, high pairs and low nibbles of 8 scales, nibbles; d * (scale - 32) * level[q]
SPECIALIZE vf weights_iq4_xs(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 256) * 136;
    uint32_t run = k / 32 % 8;
    int32_t scale = (b[4 + run / 2] >> 4 * (run % 2) & 15) | (dtype_load_u16(b + 2) >> 2 * run & 3) << 4;
    return vf_mul(vf_mul(scale_f16(b), vf_set((float)(scale - 32))), levels(dtype_iq4_level, b + 8 + 16 * run, j));
}

// An exponent, nibbles; 2^(e - 128) * level[q]
SPECIALIZE vf weights_mxfp4(const uint8_t *row, uint32_t k, uint32_t j)
{
    const uint8_t *b = row + (size_t)(k / 32) * 17;
    return vf_mul(vf_set(dtype_e8m0_half(b[0])), levels(dtype_mxfp4_level, b + 1, j));
}

#endif
