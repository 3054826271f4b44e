// Numbers in kernels: conversions, sums over a warp and a block, the values of each storage type.
#ifndef ENGINE_CUDA_VALUES_H
#define ENGINE_CUDA_VALUES_H

#include "engine/cuda/device.h"
#include "engine/cuda/kernels.h"

static __device__ __forceinline__ float from_bf16(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}
static __device__ __forceinline__ uint16_t to_bf16(float f)
{
    __nv_bfloat16 b = __float2bfloat16(f);
    return reinterpret_cast<uint16_t &>(b);
}
// A pair as it lies in memory: the first value in the low half.
static __device__ __forceinline__ uint32_t to_bf16_pair(float first, float second)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second); // one instruction
    return reinterpret_cast<uint32_t &>(pair);
}
static __device__ __forceinline__ float first_of(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}
static __device__ __forceinline__ float second_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}
static __device__ __forceinline__ float from_f16(uint16_t bits)
{
    return __half2float(reinterpret_cast<__half &>(bits));
}
static __device__ __forceinline__ uint16_t to_f16(float f)
{
    __half h = __float2half(f);
    return reinterpret_cast<uint16_t &>(h);
}
static __device__ __forceinline__ float from_fp8(uint8_t bits)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}
static __device__ __forceinline__ uint8_t to_fp8(float f)
{
    return (uint8_t)__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E4M3);
}

static __device__ __forceinline__ float warp_sum(float v)
{
    UNROLL
    for (int step = 16; step; step >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

// Over all threads of the block, the same in each; part: shared, [THREADS / 32], free again after the next __syncthreads.
template <int THREADS> static __device__ __forceinline__ float block_sum(float v, float *part)
{
    float sum = 0;
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    UNROLL
    for (int i = 0; i < THREADS / 32; i++)
        sum += part[i];
    return sum;
}

template <int THREADS> static __device__ __forceinline__ float block_largest(float v, float *part)
{
    UNROLL
    for (int step = 16; step; step >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    UNROLL
    for (int i = 0; i < THREADS / 32; i++)
        v = fmaxf(v, part[i]);
    return v;
}

static __device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + __expf(-x));
}
static __device__ __forceinline__ float gelu_tanh(float x)
{
    return x / (1.0f + __expf(-2.0f * 0.7978845608f * (x + 0.044715f * x * x * x)));
}
static __device__ __forceinline__ float activate(int act, float x)
{
    return act ? gelu_tanh(x) : silu(x); // enum act_kind
}
static __device__ __forceinline__ float capped(float x, float softcap)
{
    return softcap != 0 ? softcap * tanhf(x / softcap) : x;
}

// 16 bytes of a stored type as pairs of bf16: what one lane loads at a time.
//   VALUES        values in 16 bytes
//   widen()       them as VALUES / 2 pairs; scale: of the values' group, as the type has it
template <int TYPE> struct stored;

template <> struct stored<DTYPE_BF16> {
    enum { VALUES = 8 };
    static __device__ __forceinline__ void widen(uint4 raw, float, uint32_t *pair)
    {
        pair[0] = raw.x, pair[1] = raw.y, pair[2] = raw.z, pair[3] = raw.w;
    }
};

static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

template <> struct stored<DTYPE_F16> {
    enum { VALUES = 8 };
    static __device__ __forceinline__ void widen(uint4 raw, float, uint32_t *pair)
    {
        UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t w = word_of(raw, i);
            pair[i] = to_bf16_pair(from_f16((uint16_t)w), from_f16((uint16_t)(w >> 16)));
        }
    }
};

template <> struct stored<DTYPE_FP8> {
    enum { VALUES = 16 };
    static __device__ __forceinline__ void widen(uint4 raw, float scale, uint32_t *pair)
    {
        UNROLL
        for (int i = 0; i < 8; i++) {
            uint32_t w = word_of(raw, i / 2) >> 16 * (i % 2);
            pair[i] = to_bf16_pair(from_fp8((uint8_t)w) * scale, from_fp8((uint8_t)(w >> 8)) * scale);
        }
    }
};

template <> struct stored<DTYPE_INT8> {
    enum { VALUES = 16 };
    static __device__ __forceinline__ void widen(uint4 raw, float scale, uint32_t *pair)
    {
        UNROLL
        for (int i = 0; i < 8; i++) {
            uint32_t w = word_of(raw, i / 2) >> 16 * (i % 2);
            pair[i] = to_bf16_pair((float)(int8_t)w * scale, (float)(int8_t)(w >> 8) * scale);
        }
    }
};

// A block of 32: low nibbles are values 0..15, high nibbles 16..31.
template <> struct stored<DTYPE_Q4_0> {
    enum { VALUES = 32 };
    static __device__ __forceinline__ void widen(uint4 raw, float scale, uint32_t *pair)
    {
        UNROLL
        for (int i = 0; i < 8; i++) {
            uint32_t w = word_of(raw, i / 2) >> 16 * (i % 2);
            pair[i] = to_bf16_pair(((float)(w & 15) - 8) * scale, ((float)(w >> 8 & 15) - 8) * scale);
            pair[8 + i] = to_bf16_pair(((float)(w >> 4 & 15) - 8) * scale, ((float)(w >> 12 & 15) - 8) * scale);
        }
    }
};

// The scale of the values from `k` of row `row` of a matrix, at which data type TYPE (DTYPE_Q8_0 is DTYPE_INT8 by groups).
static __device__ __forceinline__ float scale_at(const struct cuda_matrix &w, int row, int k)
{
    const uint16_t *scale = static_cast<const uint16_t *>(w.scale);
    switch (w.type) {
    case DTYPE_FP8: return static_cast<const float *>(w.scale)[row];
    case DTYPE_INT8: return from_f16(scale[row]);
    case DTYPE_Q8_0:
    case DTYPE_INT4:
    case DTYPE_Q4_0: return from_f16(scale[(size_t)row * (w.n_in / 32) + k / 32]);
    default: return 1;
    }
}

// The type that `stored` knows for a matrix's type.
static inline int stored_type(int type)
{
    return type == DTYPE_Q8_0 ? DTYPE_INT8 : type == DTYPE_INT4 ? DTYPE_Q4_0 : type;
}

#endif
