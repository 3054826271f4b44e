// What the machine can move at most: reads that do nothing else, copies, and copies with a multiply-add.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

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
        __asm__ volatile("" : : "x"(any[i])); // somebody might look at it
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

// Stores that leave no copy in the caches, so that the line they replace need not be read.
SPECIALIZE void store(float *p, vf x, bool past_cache)
{
    if (!past_cache)
        vf_store(p, x);
    else
#ifdef __AVX512F__
        _mm512_stream_ps(p, x);
#else
        _mm256_stream_ps(p, x);
#endif
}

SPECIALIZE void combine(float *to, const float *a, const float *b, uint64_t n, bool triad, bool past_cache)
{
    const vf factor = vf_set(0.5f);
    for (uint64_t i = 0; i < n; i += 8 * VL)
#pragma GCC unroll 8
        for (uint64_t k = i; k < i + 8 * VL; k += VL)
            store(to + k, triad ? vf_fma(vf_load(b + k), factor, vf_load(a + k)) : vf_load(a + k), past_cache);
    if (past_cache)
        _mm_sfence();
}

void SYM(move)(float *to, const float *a, const float *b, uint64_t n, bool past_cache)
{
    if (b && past_cache)
        combine(to, a, b, n, true, true);
    else if (b)
        combine(to, a, b, n, true, false);
    else if (past_cache)
        combine(to, a, b, n, false, true);
    else
        combine(to, a, b, n, false, false);
}
