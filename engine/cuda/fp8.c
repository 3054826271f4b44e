// Products of fp8 with fp8 by cublasLt. Which of its algorithms does a shape is asked once per octave of rows when a plan is
// opened, so that a step asks nothing; descriptors lie on the stack, so that it allocates nothing either.
//
// Each row of x has a scale of its own (cuda_quantize), or rows would depend on the largest value of their neighbours. The
// library applies scales by rows and outputs on sm_90 alone; elsewhere they are left for cuda_finish.
#include "engine/cuda/host.h"

#include <stdlib.h>

struct description {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

struct attribute {
    cublasLtMatmulDescAttributes_t id;
    const void *value;
    size_t bytes;
};

// Row-major y = x w' is column-major y' = w x', w transposed: the one layout that fp8 kernels have.
static cublasStatus_t describe_product(const struct cuda_fp8_product *p, cublasLtMatmulDesc_t out)
{
    const int32_t transposed = CUBLAS_OP_T, by_row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const int8_t fast = p->fast;
    const struct attribute a[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed},
        {CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast},
        {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &by_row, sizeof by_row},
        {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &by_row, sizeof by_row},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->w_scale, sizeof p->w_scale},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p->x_scale, sizeof p->x_scale},
    };
    size_t n = p->x_scale ? sizeof a / sizeof *a : 2;
    cublasStatus_t s = cublasLtMatmulDescInit(out, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    for (size_t i = 0; i < n && !s; i++)
        s = cublasLtMatmulDescSetAttribute(out, a[i].id, a[i].value, a[i].bytes);
    return s;
}

static cublasStatus_t describe(const struct cuda_fp8_product *p, struct description *d)
{
    const uint64_t n_out = (uint64_t)p->n_out, n_in = (uint64_t)p->n_in, rows = (uint64_t)p->rows;
    cublasStatus_t s = describe_product(p, &d->product);
    if (!s)
        s = cublasLtMatrixLayoutInit(&d->w, CUDA_R_8F_E4M3, n_in, n_out, p->n_in);
    if (!s)
        s = cublasLtMatrixLayoutInit(&d->x, CUDA_R_8F_E4M3, n_in, rows, p->n_in);
    if (!s)
        s = cublasLtMatrixLayoutInit(&d->y, p->y_is_f32 ? CUDA_R_32F : CUDA_R_16BF, n_out, rows, p->n_out);
    return s;
}

bool cuda_fp8_open(struct cuda *c, struct error *e)
{
    return c->lt || cuda_blas_failed(cublasLtCreate(&c->lt), "opening cublasLt", e);
}

cublasStatus_t cuda_fp8_choose(const struct cuda *c, const struct cuda_fp8_product *p, cublasLtMatmulAlgo_t *out)
{
    const uint64_t workspace = CUDA_WORKSPACE_BYTES;
    struct description d;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    cublasStatus_t s = describe(p, &d);
    if (!s)
        s = cublasLtMatmulPreferenceInit(&preference);
    if (!s)
        s = cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                 sizeof workspace);
    if (!s)
        s = cublasLtMatmulAlgoGetHeuristic(c->lt, &d.product, &d.w, &d.x, &d.y, &d.y, &preference, 1, &found, &n);
    if (s || n < 1)
        return s ? s : CUBLAS_STATUS_NOT_SUPPORTED;
    *out = found.algo;
    return found.state;
}

cublasStatus_t cuda_fp8_multiply(const struct cuda *c, const struct cuda_fp8_product *p, const cublasLtMatmulAlgo_t *algo)
{
    const float one = 1, zero = 0;
    struct description d;
    cublasStatus_t s = describe(p, &d);
    return s ? s
             : cublasLtMatmul(c->lt, &d.product, &one, p->w, &d.w, p->x, &d.x, &zero, p->y, &d.y, p->y, &d.y, algo,
                              c->workspace, CUDA_WORKSPACE_BYTES, c->stream);
}

static int32_t octave_of(int32_t rows)
{
    int32_t octave = 0;
    while (1 << octave < rows)
        octave++;
    return octave;
}

static struct cuda_fp8_shape *shape_of(const struct cuda *c, int32_t n_out, int32_t n_in, bool y_is_f32)
{
    for (int32_t i = 0; i < c->n_fp8_shapes; i++) {
        struct cuda_fp8_shape *s = &c->fp8_shape[i];
        if (s->n_out == n_out && s->n_in == n_in && s->y_is_f32 == y_is_f32)
            return s;
    }
    return NULL;
}

const struct cuda_fp8_way *cuda_fp8_find(const struct cuda *c, const struct cuda_linear *a, int32_t i)
{
    const struct cuda_matrix *w = &a->w[i];
    const struct cuda_fp8_shape *s = w->type == DTYPE_FP8 ? shape_of(c, w->n_out, w->n_in, a->y_is_f32) : NULL;
    const struct cuda_fp8_way *way = s ? &s->way[octave_of(a->rows)] : NULL;
    return way && way->scales != CUDA_FP8_NONE ? way : NULL;
}

cudaError_t cuda_fp8_linear(const struct cuda *c, const struct cuda_linear *a, int32_t i, const struct cuda_fp8_way *way)
{
    const struct cuda_matrix *w = &a->w[i];
    struct cuda_fp8_product p = {.w = w->data,
                                 .x = c->quantized,
                                 .y = a->y[i],
                                 .n_out = w->n_out,
                                 .n_in = w->n_in,
                                 .rows = a->rows,
                                 .y_is_f32 = a->y_is_f32};
    if (way->scales == CUDA_FP8_BY_ROW)
        p.w_scale = w->scale, p.x_scale = c->row_scale;
    cublasStatus_t s = cuda_fp8_multiply(c, &p, &way->algo);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE)
        s = cuda_fp8_multiply(c, &p, NULL); // what serves 2^n rows need not serve fewer: the library chooses again
    return s ? cudaErrorUnknown : cudaSuccess;
}

// By rows where the chip can, else without scales, else not at all: that octave is widened.
static bool find_way(const struct cuda *c, struct cuda_fp8_product *p, struct cuda_fp8_way *way, struct error *e)
{
    static const enum cuda_fp8_scales TRY[] = {CUDA_FP8_BY_ROW, CUDA_FP8_AFTERWARDS};
    for (int i = c->device.major == 9 ? 0 : 1; i < 2 && way->scales == CUDA_FP8_NONE; i++) {
        bool by_row = TRY[i] == CUDA_FP8_BY_ROW;
        p->x_scale = by_row ? c->row_scale : NULL, p->w_scale = by_row ? c->row_scale : NULL;
        cublasStatus_t s = cuda_fp8_choose(c, p, &way->algo);
        if (!s)
            way->scales = TRY[i];
        else if (s != CUBLAS_STATUS_NOT_SUPPORTED && s != CUBLAS_STATUS_INVALID_VALUE)
            return cuda_blas_failed(s, "choosing fp8 products", e);
    }
    return true;
}

static bool add_shape(struct cuda *c, const struct cuda_fp8_product *like, struct error *e)
{
    struct cuda_fp8_shape *s = &c->fp8_shape[c->n_fp8_shapes++];
    *s = (struct cuda_fp8_shape){.n_out = like->n_out, .n_in = like->n_in, .y_is_f32 = like->y_is_f32};
    for (int32_t octave = octave_of(like->rows); octave >= 0; octave--) {
        struct cuda_fp8_product p = *like;
        p.rows = 1 << octave;
        if (!find_way(c, &p, &s->way[octave], e))
            return false;
    }
    return true;
}

// fp8 tensor cores are there from 8.9 on; their kernels want 16 bytes of everything.
static bool takes(const struct cuda *c, const struct plan *plan, const struct op *op)
{
    return c->device.major * 10 + c->device.minor >= 89 && op->kind == OP_LINEAR && op->compute == DTYPE_FP8 &&
           plan->tensor[op->weight].dtype == DTYPE_FP8 && op->dim[0] % 16 == 0 && op->dim[1] % 16 == 0;
}

int32_t cuda_fp8_widest(const struct cuda *c, const struct plan *plan)
{
    int32_t widest = 0;
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (takes(c, plan, &plan->op[i]) && plan->op[i].dim[0] > widest)
            widest = plan->op[i].dim[0];
    return widest;
}

bool cuda_fp8_choose_all(struct cuda *c, const struct plan *plan, struct error *e)
{
    if (!cuda_fp8_widest(c, plan))
        return true;
    c->fp8_shape = calloc((size_t)plan->n_ops, sizeof *c->fp8_shape);
    if (!c->fp8_shape)
        return error_set(e, ERROR_MEMORY, "no memory for the fp8 products of '%s'", plan->model);
    if (!cuda_fp8_open(c, e))
        return false;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        struct cuda_fp8_product p = {.n_in = op->dim[0], .n_out = op->dim[1], .y_is_f32 = op->out == plan->logits};
        p.rows = op->rows == ROWS_OUT ? c->config.max_out : c->config.max_tokens;
        if (takes(c, plan, op) && !shape_of(c, p.n_out, p.n_in, p.y_is_f32) && !add_shape(c, &p, e))
            return false;
    }
    return true;
}

void cuda_fp8_free(struct cuda *c)
{
    free(c->fp8_shape);
    c->fp8_shape = NULL, c->n_fp8_shapes = 0, c->quantized = NULL, c->row_scale = NULL;
}
