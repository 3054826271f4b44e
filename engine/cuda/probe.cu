// Ceilings: bytes read once, and launches of nothing.
#include "engine/cuda/values.h"

enum { THREADS = 512, AHEAD = 8 };

// What is read is folded into a sum that is written only where it is a value that memory never has: the reads stay.
static __global__ void __launch_bounds__(THREADS) read_kernel(const uint4 *p, uint64_t n, float *sink)
{
    uint32_t sum = 0;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += AHEAD * step) {
        uint4 v[AHEAD];
        UNROLL
        for (int k = 0; k < AHEAD; k++)
            v[k] = i + k * step < n ? load_stream(p + i + k * step) : make_uint4(0, 0, 0, 0);
        UNROLL
        for (int k = 0; k < AHEAD; k++)
            sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (sum == 0x7fedcba9)
        *sink = 1;
}

cudaError_t cuda_probe_read(const void *p, uint64_t bytes, int32_t n_blocks, float *sink, cudaStream_t stream)
{
    return CUDA_LAUNCH(read_kernel, dim3(n_blocks), dim3(THREADS), 0, stream, static_cast<const uint4 *>(p), bytes / 16,
                       sink);
}

static __global__ void nothing_kernel(int)
{
}

cudaError_t cuda_probe_nothing(cudaStream_t stream)
{
    return CUDA_LAUNCH(nothing_kernel, dim3(1), dim3(32), 0, stream, 0);
}
