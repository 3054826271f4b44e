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

cudaError_t planted_launch(enum planted bug, const float *in, float *out, cudaStream_t stream)
{
    return CUDA_LAUNCH(reverse_kernel, dim3(1), dim3(PLANTED_N), 0, stream, (int)bug, in, out);
}
