// What decode and prefill attention share: KV rows as bf16 pairs, softmax while scores come.
#ifndef ENGINE_CUDA_ATTN_H
#define ENGINE_CUDA_ATTN_H

#include "engine/cuda/values.h"

enum { PAD = 8 }; // bf16 behind each row in shared memory, so that eight rows lie in different banks

// Two bytes as bf16. Conversions of integers run at a quarter of the speed of others, so a byte becomes the low bits of a
// float between 2^23 and 2^24 instead: exact, and an addition away from its value.
static __device__ __forceinline__ uint32_t int8_pair(uint32_t two)
{
    const float zero = 8388608.0f + 128.0f;
    uint32_t x = two ^ 0x8080u;
    return to_bf16_pair(__uint_as_float(0x4b000000u | (x & 0xff)) - zero,
                        __uint_as_float(0x4b000000u | (x >> 8 & 0xff)) - zero);
}
static __device__ __forceinline__ uint32_t fp8_pair(uint32_t two)
{
    __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)two, __NV_E4M3);
    return to_bf16_pair(from_f16(h.x), from_f16(h.y));
}

// Eight values of a KV row, unscaled.
static __device__ __forceinline__ uint4 load8(int type, const uint8_t *row, int at)
{
    uint4 v;
    if (type == DTYPE_BF16)
        return *reinterpret_cast<const uint4 *>(row + 2 * at);
    if (type == DTYPE_F16) {
        stored<DTYPE_F16>::widen(*reinterpret_cast<const uint4 *>(row + 2 * at), 1, &v.x);
        return v;
    }
    uint2 raw = *reinterpret_cast<const uint2 *>(row + at);
    uint32_t *pair = &v.x;
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t w = (i < 2 ? raw.x : raw.y) >> 16 * (i % 2);
        pair[i] = type == DTYPE_INT8 ? int8_pair(w) : fp8_pair(w);
    }
    return v;
}

static __device__ __forceinline__ int kv_value_bytes(int type)
{
    return type == DTYPE_FP8 || type == DTYPE_INT8 ? 1 : 2;
}

// One head of one sequence.
struct head_kv {
    const struct cuda_kv *kv;
    const int32_t *table;
    int head;

    __device__ __forceinline__ const uint8_t *run(int side, int position) const
    {
        size_t v = side ? kv->head_bytes[0] * (size_t)kv->n_heads : 0;
        return kv->base + (size_t)table[position / kv->block_size] * kv->block_bytes + v +
               (size_t)head * kv->head_bytes[side];
    }
    __device__ __forceinline__ const uint8_t *row(int side, int position) const
    {
        return run(side, position) + (size_t)(position % kv->block_size) * kv->head_dim * kv_value_bytes(kv->type[side]);
    }
    // What a row's values are multiplied by.
    __device__ __forceinline__ float scale(int side, int position) const
    {
        if (kv->type[side] == DTYPE_INT8) {
            const uint8_t *scales = run(side, position) + (size_t)kv->block_size * kv->head_dim;
            return from_f16(reinterpret_cast<const uint16_t *>(scales)[position % kv->block_size]);
        }
        return kv->type[side] == DTYPE_FP8 ? kv->scale[side] : 1;
    }
};

// Two rows of scores per lane: (g, columns 2q, 2q + 1 of each tile of 8) and the same of row g + 8. The sums are this
// lane's share: quad_sum() of them is the row's.
struct softmax_state {
    float max[2], sum[2];
};

static __device__ __forceinline__ float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
static __device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

// Scores (base 2) of TILES tiles become probabilities relative to the largest so far; what was summed shrinks to match.
// Nothing seen yet and nothing seen now: everything stays 0.
template <int TILES, int COLUMNS>
static __device__ __forceinline__ void soften(float (&s)[TILES][4], struct softmax_state &state, float (&o)[COLUMNS][4])
{
    float shrink[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
        float high = state.max[h], sum = 0;
        UNROLL
        for (int t = 0; t < TILES; t++)
            high = fmaxf(high, fmaxf(s[t][2 * h], s[t][2 * h + 1]));
        high = quad_max(high);
        float base = high == -INFINITY ? 0 : high;
        shrink[h] = power_of_two(state.max[h] - base);
        UNROLL
        for (int t = 0; t < TILES; t++)
            UNROLL
        for (int i = 2 * h; i < 2 * h + 2; i++)
            s[t][i] = power_of_two(s[t][i] - base), sum += s[t][i];
        state.max[h] = high;
        state.sum[h] = state.sum[h] * shrink[h] + sum;
    }
    if (!__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) // the largest is seldom new
        return;
    UNROLL
    for (int c = 0; c < COLUMNS; c++)
        UNROLL
    for (int i = 0; i < 4; i++)
        o[c][i] *= shrink[i / 2];
}

#define LOG2_E 1.4426950408889634f

#endif
