// Linear layers of many rows by libraries: bf16 by cuBLAS, other types widened to it first, fp8 by cublasLt where the plan
// multiplies in fp8 and the device can. What a library leaves to do, cuda_finish does.
#include "engine/cuda/host.h"

// What cuBLAS reads: bf16 as it lies, other types widened first.
static cudaError_t blas_operand(const struct cuda *c, const struct cuda_matrix *w, const bf16 **out)
{
    *out = w->data;
    if (w->type == DTYPE_BF16)
        return cudaSuccess;
    *out = c->widened;
    return cuda_widen(w, 0, w->n_out, c->widened, c->stream);
}

// Row-major y = x w' is column-major y' = w x': cuBLAS sees w transposed and x as they lie.
static cudaError_t multiply(const struct cuda *c, const struct cuda_matrix *w, const bf16 *x, int32_t rows, void *y,
                            bool f32)
{
    const float one = 1, zero = 0;
    const bf16 *operand;
    cudaError_t e = blas_operand(c, w, &operand);
    if (e)
        return e;
    return cublasGemmEx(c->blas, CUBLAS_OP_T, CUBLAS_OP_N, w->n_out, rows, w->n_in, &one, operand, CUDA_R_16BF, w->n_in, x,
                        CUDA_R_16BF, w->n_in, &zero, y, f32 ? CUDA_R_32F : CUDA_R_16BF, w->n_out, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT)
               ? cudaErrorUnknown
               : cudaSuccess;
}

// x as each of the libraries wants it: quantized for some matrices, its rows adjacent for the others.
static cudaError_t prepare(const struct cuda *c, const struct cuda_linear *a, int32_t n_fp8, const bf16 **x)
{
    cudaError_t e = cudaSuccess;
    *x = a->x;
    if (n_fp8)
        e = cuda_quantize(a->x, a->row, a->rows, a->w[0].n_in, c->quantized, c->row_scale, c->stream);
    if (e || n_fp8 == a->n || !a->row)
        return e;
    *x = c->gathered;
    return cuda_gather(a->x, a->row, a->rows, a->w[0].n_in, c->gathered, c->stream);
}

cudaError_t cuda_blas_linear(const struct cuda *c, const struct cuda_linear *a, enum dtype compute)
{
    const struct cuda_fp8_way *way[3] = {NULL};
    struct cuda_linear rest = *a;
    const bf16 *x;
    int32_t n_fp8 = 0;
    for (int32_t i = 0; i < a->n && compute == DTYPE_FP8; i++) {
        way[i] = cuda_fp8_find(c, a, i);
        n_fp8 += way[i] != NULL;
        rest.row_scale[i] = way[i] && way[i]->scales == CUDA_FP8_AFTERWARDS ? c->row_scale : NULL;
    }
    cudaError_t e = prepare(c, a, n_fp8, &x);
    for (int32_t i = 0; i < a->n && !e; i++)
        e = way[i] ? cuda_fp8_linear(c, a, i, way[i]) : multiply(c, &a->w[i], x, a->rows, a->y[i], a->y_is_f32);
    return e ? e : cuda_finish(&rest, c->stream);
}
