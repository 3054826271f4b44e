#include "tests/cuda/planted.h"

#include "engine/cuda/device.h"

static __global__ void reverse_kernel(int bug, const float *in, float *out)
{
    __shared__ __align__(16) float tile[PLANTED_N];
    const int i = threadIdx.x, last = PLANTED_N - 1;
    if (bug == PLANTED_UNAWAITED_COPY) {
        if (i % 4 == 0)
            copy_async16(tile + i, in + i);
        copy_commit();
    } else if (bug == PLANTED_MISALIGNED) {
        uint4 four = load_stream(in + i / 4 + 1);
        tile[i] = __uint_as_float(four.x);
    } else {
        tile[i] = in[bug == PLANTED_OUT_OF_BOUNDS && i == last ? i + 1 : i];
    }
    if (bug == PLANTED_WRONG_MASK && i % 32 < 16)
        tile[i] += __shfl_xor_sync(0xffffffffu, tile[i], 1);
    if (bug != PLANTED_NO_BARRIER && (bug != PLANTED_SPLIT_BARRIER || i < PLANTED_N / 2))
        __syncthreads();
    out[i] = tile[last - i];
}

enum { TILES = 4, TILE = PLANTED_N / TILES };

static __device__ void copy_tile(float *to, const float *in, int tile)
{
    if (tile < TILES && threadIdx.x % 4 == 0)
        copy_async16(to + threadIdx.x, in + tile * TILE + threadIdx.x);
    copy_commit();
}

static __global__ void pipeline_kernel(int bug, const float *in, float *out)
{
    __shared__ __align__(16) float buffer[2][TILE];
    const int i = threadIdx.x;
    copy_tile(buffer[0], in, 0);
    copy_tile(buffer[1], in, 1);
    for (int t = 0; t < TILES; t++) {
        if (bug == PLANTED_SHORT_WAIT)
            copy_wait<2>();
        else
            copy_wait<1>();
        __syncthreads();
        out[(TILES - 1 - t) * TILE + i] = buffer[t % 2][TILE - 1 - i];
        if (bug != PLANTED_EARLY_REFILL)
            __syncthreads();
        copy_tile(buffer[t % 2], in, t + 2);
    }
    copy_wait<0>();
}

cudaError_t planted_launch(enum planted bug, const float *in, float *out, cudaStream_t stream)
{
    if (bug >= PLANTED_PIPELINE)
        return CUDA_LAUNCH(pipeline_kernel, dim3(1), dim3(TILE), 0, stream, (int)bug, in, out);
    return CUDA_LAUNCH(reverse_kernel, dim3(1), dim3(PLANTED_N), 0, stream, (int)bug, in, out);
}
