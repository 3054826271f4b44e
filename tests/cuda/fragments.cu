#include "tests/cuda/fragments.h"

#include "engine/cuda/device.h"

static __global__ void mma_kernel(const uint32_t *a, const uint32_t *b, const float *c, float *d)
{
    uint32_t fa[4], fb[2];
    float sum[4];
    for (int i = 0; i < 4; i++)
        fa[i] = a[threadIdx.x * 4 + i], sum[i] = c[threadIdx.x * 4 + i];
    for (int i = 0; i < 2; i++)
        fb[i] = b[threadIdx.x * 2 + i];
    mma_bf16(sum, fa, fb);
    for (int i = 0; i < 4; i++)
        d[threadIdx.x * 4 + i] = sum[i];
}

static __global__ void load_kernel(const uint16_t *m, int transposed, uint32_t *r)
{
    __shared__ __align__(16) uint16_t rows[32][8];
    uint32_t f[4];
    for (int i = 0; i < 8; i++)
        rows[threadIdx.x][i] = m[threadIdx.x * 8 + i];
    __syncthreads();
    if (transposed)
        load_matrices_transposed(f, rows[threadIdx.x]);
    else
        load_matrices(f, rows[threadIdx.x]);
    for (int i = 0; i < 4; i++)
        r[threadIdx.x * 4 + i] = f[i];
}

cudaError_t fragments_mma(const uint32_t *a, const uint32_t *b, const float *c, float *d, cudaStream_t stream)
{
    return CUDA_LAUNCH(mma_kernel, dim3(1), dim3(32), 0, stream, a, b, c, d);
}

cudaError_t fragments_load(const uint16_t *m, bool transposed, uint32_t *r, cudaStream_t stream)
{
    return CUDA_LAUNCH(load_kernel, dim3(1), dim3(32), 0, stream, m, (int)transposed, r);
}
