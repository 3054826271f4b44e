// What the machine can do at most: arithmetic that never leaves the registers, and reads that do nothing else.
// An empty asm that claims to change a register keeps the compiler from folding or hoisting; it costs no instruction.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

enum { CHAINS = VL == 16 ? 24 : 12 }; // independent sums: more than latency x units, fewer than registers

#define OPAQUE(x) __asm__ volatile("" : "+v"(x))

double SYM(flops_f32)(int64_t n)
{
    vf sum[CHAINS], a = vf_set(0.999f), b = vf_set(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vf_set((float)i);
    OPAQUE(a);
    OPAQUE(b);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            sum[i] = vf_fma(sum[i], a, b);
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(sum[i]);
    return (double)n * CHAINS * VL * 2;
}

#ifdef __AVX512F__

// vdpbf16ps: two multiply-adds per lane.
__attribute__((target("avx512bf16"))) static void dot_bf16(int64_t n)
{
    vf sum[CHAINS];
    vi x = vi_set(0x3f803f80); // pairs of 1
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vf_zero();
    OPAQUE(x);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)x);
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(sum[i]);
}

double SYM(flops_bf16)(int64_t n)
{
    if (!__builtin_cpu_supports("avx512bf16"))
        return 0;
    dot_bf16(n);
    return (double)n * CHAINS * VL * 4;
}

// vpdpbusd: four multiply-adds per lane.
__attribute__((target("avx512vnni"))) static void dot_int8(int64_t n)
{
    vi sum[CHAINS], x = vi_set(0x01010101);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vi_set(i);
    OPAQUE(x);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_dpbusd_epi32(sum[i], x, x);
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(sum[i]);
}

double SYM(flops_int8)(int64_t n)
{
    if (!__builtin_cpu_supports("avx512vnni"))
        return 0;
    dot_int8(n);
    return (double)n * CHAINS * VL * 8;
}

#else

double SYM(flops_bf16)(int64_t n)
{
    (void)n;
    return 0;
}

// vpmaddubsw, vpmaddwd by 1, vpaddd: four multiply-adds per lane.
double SYM(flops_int8)(int64_t n)
{
    vi sum[CHAINS], x = vi_set(0x01010101), one = _mm256_set1_epi16(1);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vi_set(i);
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) {
            OPAQUE(x); // else the product is the same each time and computed once
            vi product = _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), one);
            sum[i] = vi_add(sum[i], product);
        }
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(sum[i]);
    return (double)n * CHAINS * VL * 8;
}

#endif

enum { LINE = 64, LINES = 8 }; // cache lines read per round

SPECIALIZE void stream(const uint8_t *p, uint64_t bytes, int32_t n_streams)
{
    const uint64_t part = bytes / (uint64_t)n_streams;
    vf any[LINES];
    for (int i = 0; i < LINES; i++)
        any[i] = vf_zero();
    for (uint64_t at = 0; at < part; at += (uint64_t)(LINES / n_streams * LINE))
#pragma GCC unroll 8
        for (int32_t i = 0; i < LINES; i++) {
            const uint8_t *line = p + (uint64_t)(i % n_streams) * part + at + (uint64_t)(i / n_streams * LINE);
#pragma GCC unroll 2
            for (int32_t k = 0; k < LINE; k += VL * 4)
                any[i] = vi_bits(vi_or(vf_bits(any[i]), vf_bits(vf_load((const float *)(const void *)(line + k)))));
        }
    for (int i = 0; i < LINES; i++)
        OPAQUE(any[i]);
}

void SYM(stream)(const uint8_t *p, uint64_t bytes, int32_t n_streams)
{
    switch (n_streams) {
    case 2: stream(p, bytes, 2); break;
    case 4: stream(p, bytes, 4); break;
    case 8: stream(p, bytes, 8); break;
    default: stream(p, bytes, 1); break;
    }
}
