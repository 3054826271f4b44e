// Residual and RMSNorm.
#include "engine/cuda/device.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/values.h"

enum { THREADS = 256 };

// One block per (row, group); each thread keeps its values between the two passes in registers' stead: it reads again what
// it wrote itself, from L1.
static __global__ void __launch_bounds__(THREADS) add_norm_kernel(struct cuda_add_norm a)
{
    __shared__ float part[THREADS / 32];
    int row = blockIdx.x, width = a.n_groups * a.size;
    size_t at = (size_t)blockIdx.y * a.size;
    const bf16 *x = a.a + (size_t)(a.row_a ? a.row_a[row] : row) * width + at;
    const bf16 *y = a.b ? a.b + (size_t)(a.row_b ? a.row_b[row] : row) * width + at : nullptr;
    bf16 *sum_out = a.sum_out ? a.sum_out + (size_t)row * width + at : nullptr;
    float squares = 0;
    for (int i = threadIdx.x; i < a.size; i += THREADS) {
        float v = from_bf16(x[i]);
        if (y)
            v = from_bf16(to_bf16(v + a.factor * from_bf16(y[i])));
        if (sum_out)
            sum_out[i] = to_bf16(v);
        squares = fmaf(v, v, squares);
    }
    if (!a.weight)
        return;
    float scale = rsqrtf(block_sum<THREADS>(squares, part) / a.size + a.eps);
    bf16 *out = a.y + (size_t)row * width + at;
    for (int i = threadIdx.x; i < a.size; i += THREADS) {
        float v = from_bf16(x[i]);
        if (y)
            v = from_bf16(to_bf16(v + a.factor * from_bf16(y[i])));
        out[i] = to_bf16(v * scale * from_bf16(a.weight[i]));
    }
}

cudaError_t cuda_add_norm(const struct cuda_add_norm *a, cudaStream_t stream)
{
    return CUDA_LAUNCH(add_norm_kernel, dim3(a->rows, a->n_groups), dim3(THREADS), 0, stream, *a);
}
