// Weights to the device, in the order its kernels read: values of a row adjacent, scales apart (kernels.h). Rows come from
// whoever has them, some at a time, into two pinned buffers by turns, so that one is filled while the other is copied.
#include "engine/base/units.h"
#include "engine/check.h"
#include "engine/cuda/host.h"

#include <stdlib.h>
#include <string.h>

enum { STAGE_BYTES = 8 << 20 };

struct stage {
    uint8_t *pinned; // values, then scales
    cudaEvent_t copied;
};

struct upload {
    struct cuda *cuda;
    const struct tensor *from;
    uint8_t *rows; // as they come
    struct stage stage[2];
};

// Bytes of one row of values and of its scales.
static uint64_t value_bytes(const struct tensor *t)
{
    uint64_t n = (uint64_t)t->cols;
    switch (t->dtype) {
    case DTYPE_INT8:
    case DTYPE_Q8_0:
    case DTYPE_FP8: return n;
    case DTYPE_INT4:
    case DTYPE_Q4_0: return n / 2;
    default: return 2 * n;
    }
}

static uint64_t scale_bytes(const struct tensor *t)
{
    switch (t->dtype) {
    case DTYPE_INT8: return 2;
    case DTYPE_Q8_0:
    case DTYPE_INT4:
    case DTYPE_Q4_0: return 2 * ((uint64_t)t->cols / 32);
    default: return 0;
    }
}

static bool can_take(const struct tensor *t)
{
    switch (t->dtype) {
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_FP8:
    case DTYPE_INT8:
    case DTYPE_Q8_0:
    case DTYPE_INT4:
    case DTYPE_Q4_0: return true;
    default: return false;
    }
}

// f32 has no kernel: rounded to bf16, the type of activations.
static enum dtype stored_as(enum dtype type)
{
    return type == DTYPE_F32 ? DTYPE_BF16 : type;
}

// Blocks of 32 values with an f16 scale in front, taken apart.
static void split_blocks(const uint8_t *row, uint64_t bytes, uint64_t block_bytes, uint8_t *values, uint8_t *scales)
{
    for (uint64_t at = 0; at < bytes; at += block_bytes, scales += 2, values += block_bytes - 2) {
        memcpy(scales, row + at, 2);
        memcpy(values, row + at + 2, block_bytes - 2);
    }
}

static void arrange_row(const struct tensor *t, const uint8_t *row, uint8_t *values, uint8_t *scales)
{
    uint64_t n = (uint64_t)t->cols, bytes = dtype_row_bytes(t->dtype, n);
    switch (t->dtype) {
    case DTYPE_F32:
        for (uint64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, row + 4 * i, sizeof x);
            uint16_t h = f32_to_bf16(x);
            memcpy(values + 2 * i, &h, sizeof h);
        }
        break;
    case DTYPE_INT8:
        memcpy(values, row, n);
        memcpy(scales, row + n, 2);
        break;
    case DTYPE_Q8_0: split_blocks(row, bytes, 34, values, scales); break;
    case DTYPE_INT4:
    case DTYPE_Q4_0: split_blocks(row, bytes, 18, values, scales); break;
    default: memcpy(values, row, bytes); break;
    }
}

static bool send_rows(struct upload *u, struct cuda_matrix *to, int32_t first, int32_t count, struct stage *stage,
                      struct error *e)
{
    const struct tensor *t = u->from;
    uint64_t row = dtype_row_bytes(t->dtype, (uint64_t)t->cols), values = value_bytes(t), scales = scale_bytes(t);
    cudaStream_t stream = u->cuda->stream;
    uint8_t *scale_stage = stage->pinned + values * (uint64_t)count;
    if (!cuda_failed(cudaEventSynchronize(stage->copied), "loading weights", e) || !tensor_read(t, first, count, u->rows, e))
        return false;
    for (int32_t i = 0; i < count; i++)
        arrange_row(t, u->rows + (uint64_t)i * row, stage->pinned + (uint64_t)i * values,
                    scale_stage + (uint64_t)i * scales);
    cudaError_t failed = cudaMemcpyAsync((uint8_t *)(uintptr_t)to->data + (uint64_t)first * values, stage->pinned,
                                         values * (uint64_t)count, cudaMemcpyHostToDevice, stream);
    if (!failed && scales)
        failed = cudaMemcpyAsync((uint8_t *)(uintptr_t)to->scale + (uint64_t)first * scales, scale_stage,
                                 scales * (uint64_t)count, cudaMemcpyHostToDevice, stream);
    if (!failed)
        failed = cudaEventRecord(stage->copied, stream);
    return cuda_failed(failed, "loading weights", e);
}

static int32_t rows_at_once(const struct tensor *t)
{
    uint64_t row = dtype_row_bytes(t->dtype, (uint64_t)t->cols), stored = value_bytes(t) + scale_bytes(t);
    uint64_t rows = STAGE_BYTES / (row > stored ? row : stored);
    return rows < 1 ? 0 : rows > (uint64_t)t->rows ? t->rows : (int32_t)rows;
}

static bool send_matrix(struct upload *u, struct cuda_matrix *to, struct error *e)
{
    const struct tensor *t = u->from;
    if (t->is_random && t->dtype == DTYPE_BF16) // made where it is wanted, the same bits
        return cuda_failed(
            cuda_random_bf16(t->random_stream, t->cols, 0, t->rows, (bf16 *)(uintptr_t)to->data, u->cuda->stream),
            "making random weights", e);
    int32_t step = rows_at_once(t);
    if (!step)
        return error_set(e, ERROR_UNSUPPORTED, "rows of %d values are longer than the cuda backend takes", t->cols);
    for (int32_t first = 0, turn = 0; first < t->rows; first += step, turn ^= 1)
        if (!send_rows(u, to, first, t->rows - first < step ? t->rows - first : step, &u->stage[turn], e))
            return false;
    return true;
}

static void *own(struct cuda *c, void *p)
{
    if (p)
        c->owned[c->n_owned++] = p;
    return p;
}

// fp8 of files comes without scales; cuBLAS wants one per output.
static bool send_ones(void *to, int32_t n, struct error *e)
{
    float *one = malloc((size_t)n * sizeof *one);
    if (!one)
        return error_set(e, ERROR_MEMORY, "no memory for %d scales", n);
    for (int32_t i = 0; i < n; i++)
        one[i] = 1;
    bool ok = cuda_failed(cudaMemcpy(to, one, (size_t)n * sizeof *one, cudaMemcpyHostToDevice), "loading weights", e);
    free(one);
    return ok;
}

static bool take_matrix(struct upload *u, struct cuda_matrix *to, struct error *e)
{
    struct cuda *c = u->cuda;
    const struct tensor *t = u->from;
    uint64_t values = value_bytes(t) * (uint64_t)t->rows, scales = scale_bytes(t) * (uint64_t)t->rows;
    void *data, *scale = NULL;
    if (t->dtype == DTYPE_FP8)
        scales = sizeof(float) * (uint64_t)t->rows;
    if (!cuda_allocate(&data, values, "a matrix", e) || !own(c, data))
        return false;
    if (scales && (!cuda_allocate(&scale, scales, "the scales of a matrix", e) || !own(c, scale)))
        return false;
    *to = (struct cuda_matrix){data, scale, (int32_t)stored_as(t->dtype), t->rows, t->cols};
    c->weight_bytes += values + scales;
    return (t->dtype != DTYPE_FP8 || send_ones(scale, t->rows, e)) && send_matrix(u, to, e);
}

// Norm weights and biases as bf16.
static bool take_vector(struct upload *u, bf16 **to, struct error *e)
{
    const struct tensor *t = u->from;
    size_t n = (size_t)t->cols;
    float *wide = malloc(n * sizeof *wide);
    bf16 *narrow = malloc(n * sizeof *narrow);
    void *data;
    bool ok = wide && narrow ? tensor_read(t, 0, 1, u->rows, e) && cuda_allocate(&data, n * sizeof **to, "a vector", e)
                             : error_set(e, ERROR_MEMORY, "no memory for a vector of %d values", t->cols);
    if (ok) {
        *to = own(u->cuda, data);
        dtype_to_f32(t->dtype, u->rows, wide, n);
        for (size_t i = 0; i < n; i++)
            narrow[i] = f32_to_bf16(wide[i]);
        ok = cuda_failed(cudaMemcpy(*to, narrow, n * sizeof *narrow, cudaMemcpyHostToDevice), "loading weights", e);
        u->cuda->weight_bytes += n * sizeof *narrow;
    }
    free(wide);
    free(narrow);
    return ok;
}

static bool check_matrix(const struct plan *plan, int32_t i, const struct tensor *t, struct error *e)
{
    const char *name = tensor_role_name((enum tensor_role)plan->tensor[i].role);
    if (!check_tensor("cuda", plan, i, t, e))
        return false;
    if (!can_take(t))
        return error_set(e, ERROR_UNSUPPORTED, "the cuda backend has no kernel for %s, the type of '%s'",
                         dtype_name(t->dtype), name);
    return t->rows == 1 || t->cols % 32 == 0 ||
           error_set(e, ERROR_UNSUPPORTED, "the cuda backend multiplies rows of a multiple of 32 values, '%s' has %d", name,
                     t->cols);
}

static bool open_upload(struct upload *u, struct error *e)
{
    u->rows = malloc(STAGE_BYTES);
    if (!u->rows)
        return error_set(e, ERROR_MEMORY, "no memory for loading weights");
    for (int i = 0; i < 2; i++)
        if (!cuda_failed(cudaHostAlloc((void **)&u->stage[i].pinned, STAGE_BYTES + (STAGE_BYTES >> 1), 0), "pinning memory",
                         e) ||
            !cuda_failed(cudaEventCreateWithFlags(&u->stage[i].copied, cudaEventDisableTiming), "making an event", e))
            return false;
    return true;
}

static void close_upload(struct upload *u)
{
    (void)cudaStreamSynchronize(u->cuda->stream);
    for (int i = 0; i < 2; i++) {
        if (u->stage[i].copied)
            (void)cudaEventDestroy(u->stage[i].copied);
        if (u->stage[i].pinned)
            (void)cudaFreeHost(u->stage[i].pinned);
    }
    free(u->rows);
    (void)cudaGetLastError(); // not the next launch's
}

static bool take_all(struct upload *u, const struct plan *plan, const struct tensor *weights, struct error *e)
{
    struct cuda *c = u->cuda;
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        u->from = &weights[i];
        if (!check_matrix(plan, i, u->from, e) ||
            !(u->from->rows > 1 ? take_matrix(u, &c->matrix[i], e) : take_vector(u, &c->vector[i], e)))
            return false;
    }
    return cuda_failed(cudaDeviceSynchronize(), "loading weights", e); // of every stream: cudaMemcpy used another
}

bool cuda_take_weights(struct cuda *c, const struct plan *plan, const struct tensor *weights, struct error *e)
{
    size_t n = (size_t)plan->n_tensors;
    struct upload u = {.cuda = c};
    cuda_drop_weights(c);
    c->matrix = calloc(n, sizeof *c->matrix);
    c->vector = calloc(n, sizeof *c->vector);
    c->owned = calloc(2 * n, sizeof *c->owned);
    c->n_tensors = plan->n_tensors;
    if (!c->matrix || !c->vector || !c->owned)
        return error_set(e, ERROR_MEMORY, "no memory for the tensors of '%s'", plan->model);
    bool ok = open_upload(&u, e) && take_all(&u, plan, weights, e);
    close_upload(&u);
    if (!ok)
        cuda_drop_weights(c);
    return ok;
}

void cuda_drop_weights(struct cuda *c)
{
    for (int32_t i = 0; i < c->n_owned; i++)
        (void)cudaFree(c->owned[i]);
    free(c->owned);
    free(c->vector);
    free(c->matrix);
    c->owned = NULL, c->vector = NULL, c->matrix = NULL;
    c->n_owned = c->n_tensors = c->n_choices = 0, c->weight_bytes = 0;
}
