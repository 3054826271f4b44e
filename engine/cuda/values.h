// Numbers in kernels: conversions, sums over a warp and a block.
#ifndef ENGINE_CUDA_VALUES_H
#define ENGINE_CUDA_VALUES_H

#include "engine/cuda/device.h"

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
    return to_bf16(first) | (uint32_t)to_bf16(second) << 16;
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

#endif
