// What decode and prefill attention share: KV rows as bf16 pairs, scores and weighted sums on tensor cores.
//
// As in linear.cu, A and B of S = Q K' may take k (here: the values of a head) in any common order, so lane (g, q) takes 8
// adjacent values of its row at c * 32 + q * 8 and hands its four pairs to two mma. P V needs its own order: V goes through
// shared memory.
#ifndef ENGINE_CUDA_ATTN_H
#define ENGINE_CUDA_ATTN_H

#include "engine/cuda/values.h"

enum { PAD = 8 }; // bf16 behind each row in shared memory, so that eight rows lie in different banks

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
        pair[i] = type == DTYPE_INT8 ? to_bf16_pair((float)(int8_t)w, (float)(int8_t)(w >> 8))
                                     : to_bf16_pair(from_fp8((uint8_t)w), from_fp8((uint8_t)(w >> 8)));
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

// Two rows of scores per lane: (g, columns 2q, 2q + 1 of each tile of 8) and the same of row g + 8.
struct softmax_state {
    float max[2], sum[2];
};

// s += q k' for one tile of 8 positions. q: shared, [16, CHUNKS * 32 + PAD]; k: this lane's position (row g of the tile).
template <int CHUNKS>
static __device__ __forceinline__ void score_tile(const uint16_t *q, const uint4 (&k)[CHUNKS], float (&s)[4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, at = lane % 4 * 8;
    UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        const int width = CHUNKS * 32 + PAD;
        uint4 low = *reinterpret_cast<const uint4 *>(q + g * width + c * 32 + at);
        uint4 high = *reinterpret_cast<const uint4 *>(q + (g + 8) * width + c * 32 + at);
        const uint32_t a0[4] = {low.x, high.x, low.y, high.y}, a1[4] = {low.z, high.z, low.w, high.w};
        const uint32_t b0[2] = {k[c].x, k[c].y}, b1[2] = {k[c].z, k[c].w};
        mma_bf16(s, a0, b0);
        mma_bf16(s, a1, b1);
    }
}

// o += p v for 16 positions: s holds the probabilities of two tiles of 8; v: shared, [16, CHUNKS * 32 + PAD].
template <int CHUNKS>
static __device__ __forceinline__ void weigh_tile(const float (&s)[2][4], const uint16_t *v, float (&o)[CHUNKS * 4][4])
{
    const int lane = threadIdx.x % 32, width = CHUNKS * 32 + PAD;
    const uint32_t p[4] = {to_bf16_pair(s[0][0], s[0][1]), to_bf16_pair(s[0][2], s[0][3]), to_bf16_pair(s[1][0], s[1][1]),
                           to_bf16_pair(s[1][2], s[1][3])};
    UNROLL
    for (int n = 0; n < CHUNKS * 2; n++) { // 16 values of the head at a time
        uint32_t r[4];
        load_matrices_transposed(r, v + (lane % 16) * width + n * 16 + lane / 16 * 8);
        const uint32_t b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
        mma_bf16(o[2 * n], p, b0);
        mma_bf16(o[2 * n + 1], p, b1);
    }
}

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
    UNROLL
    for (int h = 0; h < 2; h++) {
        float high = state.max[h], sum = 0;
        UNROLL
        for (int t = 0; t < TILES; t++)
            high = fmaxf(high, fmaxf(s[t][2 * h], s[t][2 * h + 1]));
        high = quad_max(high);
        float base = high == -INFINITY ? 0 : high, shrink = exp2f(state.max[h] - base);
        UNROLL
        for (int t = 0; t < TILES; t++)
            UNROLL
        for (int i = 2 * h; i < 2 * h + 2; i++)
            s[t][i] = exp2f(s[t][i] - base), sum += s[t][i];
        state.max[h] = high;
        state.sum[h] = state.sum[h] * shrink + quad_sum(sum);
        UNROLL
        for (int c = 0; c < COLUMNS; c++)
            o[c][2 * h] *= shrink, o[c][2 * h + 1] *= shrink;
    }
}

#define LOG2_E 1.4426950408889634f

// A score as softmax wants it: scaled, capped, base 2; -infinity outside first .. last.
static __device__ __forceinline__ float masked(float s, float scale, float softcap, int position, int first, int last)
{
    return position >= first && position <= last ? capped(s * scale, softcap) * LOG2_E : -INFINITY;
}

#endif
