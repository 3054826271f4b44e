// Seeded random numbers (SplitMix64): the same on every machine, and any position of a stream in constant time, so
// that threads can fill parts of one tensor.
#ifndef ENGINE_BASE_RNG_H
#define ENGINE_BASE_RNG_H

#include <stdint.h>

// The i-th value of stream `seed` (Steele, Lea, Flood 2014: golden-ratio increments, then a finalizer).
static inline uint64_t rng_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t rng_next(uint64_t *state)
{
    return rng_at((*state)++, 0);
}

// Uniform in [0, 1), 24 bits.
static inline float rng_uniform(uint64_t bits)
{
    return (float)(bits >> 40) * 0x1p-24f;
}

#endif
