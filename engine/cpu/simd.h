// Vectors as the kernels see them: VL lanes of f32, of i32 (or four bytes each), or of bf16 pairs, whatever the instruction
// set. Included by kernels_*.c, which the Makefile compiles once per instruction set.
#ifndef ENGINE_CPU_SIMD_H
#define ENGINE_CPU_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Kernels are written for any type or tile and specialized by inlining them with constant arguments.
#define SPECIALIZE static inline __attribute__((always_inline))

#ifdef __AVX512F__
#include "engine/cpu/simd_avx512.h"
#else
#include "engine/cpu/simd_avx2.h"
#endif

// Bytes per lane: vi_dot4(c, u, s) is c plus the sum of four products, u unsigned (at most 128 unless the instruction set
// has VNNI), s signed and not -128. vi_dot4_i8 takes for u signed bytes ^ 0x80; its sum begins at dot4_start(sum of s),
// which takes back what that adds.
#if defined __AVX512VNNI__ || defined __AVXVNNI__
SPECIALIZE vi vi_dot4_i8(vi c, vi u, vi s)
{
    return vi_dot4(c, u, s);
}
SPECIALIZE int32_t dot4_start(int32_t sum)
{
    return -128 * sum;
}
#else
SPECIALIZE vi vi_dot4_i8(vi c, vi u, vi s)
{
    vi a = vi_xor(u, vi_set((int32_t)0x80808080));
    return vi_dot4(c, vi_abs8(a), vi_sign8(s, a));
}
SPECIALIZE int32_t dot4_start(int32_t sum)
{
    return 0 * sum;
}
#endif

// bf16 pairs, the first in the low half of a lane: vf_dot2(c, a, b) is c plus the sum of two products, in f32.
#ifndef __AVX512BF16__
typedef struct {
    vf low, high;
} vp;

SPECIALIZE vp vp_from(vi pairs)
{
    return (vp){vi_low_bf16(pairs), vi_high_bf16(pairs)};
}
SPECIALIZE vp vp_load(const void *p)
{
    return vp_from(vi_load(p));
}
SPECIALIZE vp vp_set(uint32_t pair)
{
    return vp_from(vi_set((int32_t)pair));
}
SPECIALIZE vf vf_dot2(vf c, vp a, vp b)
{
    return vf_fma(a.high, b.high, vf_fma(a.low, b.low, c));
}
#endif

// To nearest even: add half of the last place kept, less one where it is even. (The NaN that arithmetic makes stays one.)
SPECIALIZE void vf_store_bf16(void *p, vf x)
{
    vi bits = vf_bits(x), odd = vi_and(vi_right(bits, 16), vi_set(1));
    vi_store_u16(p, vi_right(vi_add(bits, vi_add(vi_set(0x7fff), odd)), 16));
}

// The same where no value is denormal (those become 0 where the CPU has an instruction for it).
SPECIALIZE void vf_store_bf16_normal(void *p, vf x)
{
#ifdef __AVX512BF16__
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
#else
    vf_store_bf16(p, x);
#endif
}

// The first n < VL values; the other lanes are 0.
SPECIALIZE vf vf_load_n(const float *p, int32_t n)
{
    float all[VL] = {0};
    memcpy(all, p, (size_t)n * sizeof *all);
    return vf_load(all);
}
SPECIALIZE void vf_store_n(float *p, vf x, int32_t n)
{
    float all[VL];
    vf_store(all, x);
    memcpy(p, all, (size_t)n * sizeof *all);
}

// e^x to about 1 ulp; 0 below -87, where f32 runs out. Range reduction by ln 2 in two parts (Cody, Waite), then the Taylor
// polynomial of degree 7 on |r| <= ln(2) / 2, whose remainder there is below 2^-26. e^0 = 1 exactly.
SPECIALIZE vf vf_exp(vf x)
{
    vf lowest = vf_set(-87), clipped = vf_min(vf_set(88), vf_max(lowest, x)); // in this order NaN stays NaN
    vf n = vf_round(vf_mul(clipped, vf_set(1.44269504f)));
    vf r = vf_fma(n, vf_set(-0.693359375f), clipped);
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    vf p = vf_set(1.0f / 5040);
    p = vf_fma(p, r, vf_set(1.0f / 720));
    p = vf_fma(p, r, vf_set(1.0f / 120));
    p = vf_fma(p, r, vf_set(1.0f / 24));
    p = vf_fma(p, r, vf_set(1.0f / 6));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    vf power = vi_bits(vi_left(vi_add(vf_to_vi(n), vi_set(127)), 23));
    return vf_zero_below(x, lowest, vf_mul(p, power));
}

// 2^x to 5e-7; 0 from -150 down. For weights that are rounded to fewer bits afterwards: a polynomial of degree 5 on
// |x - round(x)| <= 1/2, coefficients by Remez's exchange for the least relative error among those with 2^0 = 1 exactly.
SPECIALIZE vf vf_exp2_short(vf x)
{
    x = vf_max(vf_set(-150), x); // in this order NaN stays NaN
    vf n = vf_round(x), r = vf_sub(x, n);
    vf p = vf_set(0.00111255096f);
    p = vf_fma(p, r, vf_set(0.00966628268f));
    p = vf_fma(p, r, vf_set(0.0555740036f));
    p = vf_fma(p, r, vf_set(0.240223512f));
    p = vf_fma(p, r, vf_set(0.693142831f));
    p = vf_fma(p, r, vf_set(1));
    return vf_times_exp2(p, n);
}

// cap * tanh(x / cap) = cap - 2 cap / (exp(2 x / cap) + 1)
SPECIALIZE vf vf_softcap(vf x, float cap)
{
    vf e = vf_exp(vf_mul(x, vf_set(2 / cap)));
    return vf_sub(vf_set(cap), vf_div(vf_set(2 * cap), vf_add(e, vf_set(1))));
}

#endif
