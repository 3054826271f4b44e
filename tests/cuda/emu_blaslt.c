// As much of cublasLt as the backend calls: fp8 (e4m3) times fp8, the first transposed, sums in f32. It refuses what the
// library refuses: other layouts and alignments, chips before 8.9, scales by rows elsewhere than on 9.0. An algorithm serves
// the number of rows it was asked for, and fewer in multiples of 8, so that both ways to run one are met.
#include "tests/cuda/emu_runtime.h"

#include "engine/base/dtype.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int opened;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct product {
    cublasComputeType_t compute;
    cudaDataType_t scale_type;
    int32_t transa, mode[2];
    const float *scale[2];
    int8_t fast;
};
struct preference {
    uint64_t workspace;
};
struct algorithm {
    uint64_t rows;
};
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) &&
                   sizeof(struct product) <= sizeof(cublasLtMatmulDescOpaque_t) &&
                   sizeof(struct preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t) &&
                   sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t),
               "what is kept in NVIDIA's opaque structures fits");

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *handle)
{
    if (emu_inject())
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = calloc(1, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, size_t size, cudaDataType type,
                                                              uint64_t rows, uint64_t cols, int64_t ld)
{
    struct layout l = {type, rows, cols, ld};
    memset(out, 0, size);
    memcpy(out->data, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, size_t size,
                                                            cublasComputeType_t compute, cudaDataType_t scale_type)
{
    struct product p = {.compute = compute, .scale_type = scale_type};
    memset(out, 0, size);
    memcpy(out->data, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                                           const void *value, size_t bytes)
{
    struct product p;
    void *to;
    size_t want;
    memcpy(&p, desc->data, sizeof p);
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA: to = &p.transa, want = sizeof p.transa; break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: to = &p.fast, want = sizeof p.fast; break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: to = &p.mode[0], want = sizeof *p.mode; break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: to = &p.mode[1], want = sizeof *p.mode; break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: to = &p.scale[0], want = sizeof *p.scale; break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: to = &p.scale[1], want = sizeof *p.scale; break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (bytes != want)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    memcpy(desc->data, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, size_t size)
{
    memset(out, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                                 cublasLtMatmulPreferenceAttributes_t attr,
                                                                 const void *value, size_t bytes)
{
    if (attr != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || bytes != sizeof(uint64_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(pref->data, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

struct job {
    struct product p;
    struct layout a, b, d;
    const uint8_t *x[2];
    void *y;
};

static void read_job(struct job *j, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t d)
{
    memcpy(&j->p, desc->data, sizeof j->p);
    memcpy(&j->a, a->data, sizeof j->a);
    memcpy(&j->b, b->data, sizeof j->b);
    memcpy(&j->d, d->data, sizeof j->d);
}

static bool is_supported(const struct job *j)
{
    bool by_row = j->p.mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    bool types = j->a.type == CUDA_R_8F_E4M3 && j->b.type == CUDA_R_8F_E4M3 && j->p.compute == CUBLAS_COMPUTE_32F &&
                 j->p.scale_type == CUDA_R_32F && (j->d.type == CUDA_R_16BF || j->d.type == CUDA_R_32F);
    return types && j->p.transa == CUBLAS_OP_T && j->p.mode[0] == j->p.mode[1] && j->a.rows % 16 == 0 &&
           j->a.cols % 16 == 0 && emu_chip() >= 89 && (!by_row || emu_chip() == 90) &&
           (!by_row || (j->p.scale[0] && j->p.scale[1]));
}

static bool shapes_match(const struct job *j)
{
    return j->a.rows == j->b.rows && j->d.rows == j->a.cols && j->d.cols == j->b.cols && j->a.ld >= (int64_t)j->a.rows &&
           j->b.ld >= (int64_t)j->b.rows && j->d.ld >= (int64_t)j->d.rows;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                           cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                           cublasLtMatmulPreference_t preference, int wanted,
                                                           cublasLtMatmulHeuristicResult_t *found, int *n)
{
    struct job j = {0};
    (void)preference, (void)c;
    *n = 0;
    if (!handle || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emu_inject())
        return CUBLAS_STATUS_INTERNAL_ERROR;
    read_job(&j, desc, a, b, d);
    if (!shapes_match(&j))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported(&j))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct algorithm algorithm = {j.d.cols};
    memset(found, 0, sizeof *found);
    memcpy(found->algo.data, &algorithm, sizeof algorithm);
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static float scale_of(const struct job *j, int side, uint64_t i)
{
    const float *s = j->p.scale[side];
    return !s ? 1 : j->p.mode[side] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? s[i] : *s;
}

static void run_product(struct emu_op *op)
{
    struct job j;
    float value[256];
    memcpy(&j, op->args, sizeof j);
    for (int i = 0; i < 256; i++)
        value[i] = e4m3_to_f32((uint8_t)i);
    for (uint64_t row = 0; row < j.d.cols; row++)
        for (uint64_t o = 0; o < j.d.rows; o++) {
            const uint8_t *w = j.x[0] + o * (uint64_t)j.a.ld, *x = j.x[1] + row * (uint64_t)j.b.ld;
            float sum = 0;
            for (uint64_t k = 0; k < j.a.rows; k++)
                sum += value[w[k]] * value[x[k]];
            sum *= scale_of(&j, 0, o) * scale_of(&j, 1, row);
            uint64_t at = row * (uint64_t)j.d.ld + o;
            if (j.d.type == CUDA_R_32F)
                ((float *)j.y)[at] = sum;
            else
                ((uint16_t *)j.y)[at] = f32_to_bf16(sum);
        }
}

static bool is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0 && emu_is_device(p, 1);
}

static bool serves(const cublasLtMatmulAlgo_t *algo, uint64_t rows)
{
    struct algorithm a;
    if (!algo)
        return true;
    memcpy(&a, algo->data, sizeof a);
    return rows == a.rows || (rows < a.rows && rows % 8 == 0);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                                           const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                           cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                           cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                           const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                           cudaStream_t stream)
{
    struct job j = {.x = {a, b}, .y = d};
    float one, zero;
    (void)c_layout;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    read_job(&j, desc, a_layout, b_layout, d_layout);
    if (!handle || c != d || one != 1 || zero != 0 || !shapes_match(&j))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_aligned(a) || !is_aligned(b) || !is_aligned(d) ||
        (workspace_bytes && !emu_is_device(workspace, workspace_bytes)))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int side = 0; side < 2; side++)
        if (j.p.scale[side] && !is_aligned(j.p.scale[side]))
            return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported(&j) || !serves(algo, j.d.cols))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return emu_push(stream, emu_op_make(run_product, &j, sizeof j)) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
