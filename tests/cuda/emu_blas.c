// As much of cuBLAS as the backend calls: column-major GemmEx, sums in f32.
#include "tests/cuda/emu_runtime.h"

#include <cublas_v2.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cublasContext {
    cudaStream_t stream;
    bool started; // has multiplied: what that loads is not for a capture
};

struct gemm {
    int m, n, k, lda, ldb, ldc;
    bool a_transposed, b_transposed;
    cudaDataType a_type, b_type, c_type;
    float alpha, beta; // of f32
    const void *a, *b;
    void *c;
};

cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t *handle)
{
    if (emu_inject())
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = calloc(1, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return emu_inject() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    (void)handle;
    if (emu_inject())
        return CUBLAS_STATUS_INTERNAL_ERROR;
    return bytes && !emu_is_device(workspace, bytes) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

const char *CUBLASWINAPI cublasGetStatusString(cublasStatus_t status)
{
    return status ? "an emulated cuBLAS error" : "success";
}

static float load(const void *p, cudaDataType type, size_t i)
{
    float f;
    uint32_t bits;
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    bits = ((const uint16_t *)p)[i];
    if (type == CUDA_R_16BF) {
        bits <<= 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    f = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent     ? ldexpf((float)(1024 + mantissa), exponent - 25)
                       : ldexpf((float)mantissa, -24);
    return bits >> 15 ? -f : f;
}

static void store(void *p, cudaDataType type, size_t i, float f)
{
    uint32_t bits;
    if (type == CUDA_R_32F) {
        ((float *)p)[i] = f;
        return;
    }
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)p)[i] = (uint16_t)(f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// s8 to s32, alpha 1 and beta 0.
static void run_gemm_int8(const struct gemm *g)
{
    const int8_t *a = g->a, *b = g->b;
    for (size_t j = 0; j < (size_t)g->n; j++)
        for (size_t i = 0; i < (size_t)g->m; i++) {
            int32_t sum = 0;
            for (size_t k = 0; k < (size_t)g->k; k++)
                sum += a[i * (size_t)g->lda + k] * b[j * (size_t)g->ldb + k];
            ((int32_t *)g->c)[j * (size_t)g->ldc + i] = sum;
        }
}

static void run_gemm(struct emu_op *op)
{
    struct gemm g;
    memcpy(&g, op->args, sizeof g);
    if (g.a_type == CUDA_R_8I) {
        run_gemm_int8(&g);
        return;
    }
    for (size_t j = 0; j < (size_t)g.n; j++)
        for (size_t i = 0; i < (size_t)g.m; i++) {
            float sum = 0;
            for (size_t k = 0; k < (size_t)g.k; k++)
                sum += load(g.a, g.a_type, g.a_transposed ? i * (size_t)g.lda + k : k * (size_t)g.lda + i) *
                       load(g.b, g.b_type, g.b_transposed ? k * (size_t)g.ldb + j : j * (size_t)g.ldb + k);
            size_t at = j * (size_t)g.ldc + i;
            store(g.c, g.c_type, at, g.alpha * sum + (g.beta != 0 ? g.beta * load(g.c, g.c_type, at) : 0));
        }
}

// Integers: transposed times not, all of it in fours.
static bool is_int8(const struct gemm *g, cublasComputeType_t compute, const int32_t *alpha, const int32_t *beta)
{
    return g->a_type == CUDA_R_8I && g->b_type == CUDA_R_8I && g->c_type == CUDA_R_32I && compute == CUBLAS_COMPUTE_32I &&
           g->a_transposed && !g->b_transposed && !((g->m | g->k | g->lda | g->ldb) & 3) && *alpha == 1 && *beta == 0;
}

static bool right_types(const struct gemm *g, cublasComputeType_t compute)
{
    bool input = g->a_type == g->b_type && (g->a_type == CUDA_R_16BF || g->a_type == CUDA_R_16F || g->a_type == CUDA_R_32F);
    return input && compute == CUBLAS_COMPUTE_32F && (g->c_type == CUDA_R_32F || g->c_type == CUDA_R_16BF);
}

cublasStatus_t CUBLASWINAPI cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                         int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                         const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                                         cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)algo;
    struct gemm g = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .a = a, .b = b, .c = c};
    g.a_transposed = transa != CUBLAS_OP_N, g.b_transposed = transb != CUBLAS_OP_N;
    g.a_type = a_type, g.b_type = b_type, g.c_type = c_type;
    memcpy(&g.alpha, alpha, sizeof g.alpha);
    memcpy(&g.beta, beta, sizeof g.beta);
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0 || lda < (g.a_transposed ? k : m) || ldb < (g.b_transposed ? n : k) || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!right_types(&g, compute) && !is_int8(&g, compute, alpha, beta))
        return CUBLAS_STATUS_NOT_SUPPORTED; // fp8 is cublasLtMatmul's
    if (!emu_is_device(a, 1) || !emu_is_device(b, 1) || !emu_is_device(c, 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!handle->started && emu_in_capture(handle->stream))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    handle->started = true;
    struct emu_op *op = emu_op_make(run_gemm, &g, sizeof g);
    op->computes = op->by_driver = true; // as cuBLAS launches some of its kernels
    return emu_push(handle->stream, op) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
