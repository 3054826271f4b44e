// What the device attains, by loops and libraries that know nothing of the engine's kernels, and what its counters say of
// work whose size is known.
#include "engine/cuda/ceilings.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/cuda/counters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOMENTS = 5, TIMES = 5, LAUNCHES = 1000, WIDEST = 4 };

struct looker {
    struct cuda cuda; // its stream and cuBLAS; no weights, no plan
    cudaEvent_t begin, end;
    cudaGraphExec_t nothing; // a graph of LAUNCHES empty kernels
    uint8_t *a, *b;          // [bytes] each
    float *sink;
    uint64_t bytes;
    int32_t side; // of the middle one of the products
    // Of the product that is timed.
    int32_t m, n, k;
    cublasLtMatmulAlgo_t algo; // in fp8
};
typedef cudaError_t work(struct looker *l, int32_t which);

static cudaError_t read_all(struct looker *l, int32_t blocks_per_sm)
{
    return cuda_probe_read(l->a, l->bytes, blocks_per_sm * l->cuda.device.multiProcessorCount, l->sink, l->cuda.stream);
}

static cudaError_t copy_all(struct looker *l, int32_t which)
{
    (void)which;
    return cudaMemcpyAsync(l->b, l->a, l->bytes, cudaMemcpyDeviceToDevice, l->cuda.stream);
}

static cudaError_t launch_graph(struct looker *l, int32_t which)
{
    (void)which;
    return cudaGraphLaunch(l->nothing, l->cuda.stream);
}

static cudaError_t launch_each(struct looker *l, int32_t which)
{
    cudaError_t e = cudaSuccess;
    (void)which;
    for (int32_t i = 0; i < LAUNCHES && !e; i++)
        e = cuda_probe_nothing(l->cuda.stream);
    return e;
}

static const struct product {
    enum dtype type;
    cudaDataType_t in, out;
    cublasComputeType_t compute;
} PRODUCT[] = {
    {DTYPE_BF16, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},   {DTYPE_F16, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    {DTYPE_F32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},      {DTYPE_INT8, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I},
    {DTYPE_FP8, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
};
enum { PRODUCTS = sizeof PRODUCT / sizeof *PRODUCT };

// Halves of `side`.
static const int32_t SHAPE[][3] = {{1, 1, 1}, {2, 2, 2}, {4, 2, 2}, {2, 4, 1}};
enum { SHAPES = sizeof SHAPE / sizeof *SHAPE };

// By cublasLt, with the sums of fewer bits that are the chip's fastest.
static struct cuda_fp8_product fp8_product(const struct looker *l)
{
    return (struct cuda_fp8_product){
        .w = l->a, .x = l->a + l->bytes / 2, .y = l->b, .n_out = l->m, .n_in = l->k, .rows = l->n, .fast = true};
}

static cudaError_t multiply_fp8(struct looker *l, int32_t which)
{
    struct cuda_fp8_product p = fp8_product(l);
    (void)which;
    return cuda_fp8_multiply(&l->cuda, &p, &l->algo) ? cudaErrorNotSupported : cudaSuccess;
}

static cudaError_t multiply(struct looker *l, int32_t which)
{
    const struct product *p = &PRODUCT[which];
    const float one = 1, zero = 0;
    const int32_t one_int = 1, zero_int = 0;
    bool ints = p->compute == CUBLAS_COMPUTE_32I;
    cublasStatus_t s =
        cublasGemmEx(l->cuda.blas, CUBLAS_OP_T, CUBLAS_OP_N, l->m, l->n, l->k, ints ? (const void *)&one_int : &one, l->a,
                     p->in, l->k, l->a + l->bytes / 2, p->in, l->k, ints ? (const void *)&zero_int : &zero, l->b, p->out,
                     l->m, p->compute, CUBLAS_GEMM_DEFAULT);
    return s == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

// Of one of `times` runs, back to back; the first run is not timed.
static cudaError_t time_work(struct looker *l, work *w, int32_t which, int32_t times, double *ns)
{
    float ms = 0;
    cudaError_t e = w(l, which);
    if (!e)
        e = cudaEventRecord(l->begin, l->cuda.stream);
    for (int32_t i = 0; i < times && !e; i++)
        e = w(l, which);
    if (!e)
        e = cudaEventRecord(l->end, l->cuda.stream);
    if (!e)
        e = cudaStreamSynchronize(l->cuda.stream);
    if (!e)
        e = cudaEventElapsedTime(&ms, l->begin, l->end);
    *ns = (double)ms * 1e6 / times;
    return e;
}

static struct cuda_rate rate_of(const double *value, int32_t n, bool least)
{
    double median = stats_median(value, n), spread = stats_quantile(value, n, 0.9) - stats_quantile(value, n, 0.1);
    return (struct cuda_rate){stats_quantile(value, n, least ? 0 : 1), median, spread / median, n};
}

// The best of several ways in each moment.
static bool look_at_memory(struct looker *l, struct cuda_ceilings *out, struct error *e)
{
    double read[MOMENTS] = {0}, copy[MOMENTS], ns;
    cudaError_t failed = cudaSuccess;
    for (int32_t i = 0; i < MOMENTS; i++) {
        for (int32_t blocks = 1; blocks <= WIDEST && !failed; blocks *= 2) {
            failed = time_work(l, read_all, blocks, TIMES, &ns);
            read[i] = fmax(read[i], (double)l->bytes / ns * 1e9);
        }
        if (!failed)
            failed = time_work(l, copy_all, 0, TIMES, &ns);
        if (!cuda_failed(failed, "measuring its memory", e))
            return false;
        copy[i] = 2 * (double)l->bytes / ns * 1e9;
    }
    out->read = rate_of(read, MOMENTS, false);
    out->copy = rate_of(copy, MOMENTS, false);
    return true;
}

static void set_shape(struct looker *l, int32_t shape)
{
    const int32_t *s = SHAPE[shape], half = l->side / 2;
    l->m = s[0] * half, l->n = s[1] * half, l->k = s[2] * half;
}

// e4m3 of the random values, over themselves: fp8 is the last type.
static cudaError_t quantize_values(struct looker *l)
{
    enum { WIDTH = 1024 };
    int32_t rows = (int32_t)(l->bytes / sizeof(bf16) / WIDTH);
    uint64_t values = (uint64_t)rows * WIDTH;
    cudaStream_t s = l->cuda.stream;
    float *scale = (float *)(void *)(l->b + values);
    cudaError_t e = cuda_quantize((const bf16 *)(const void *)l->a, NULL, rows, WIDTH, l->b, scale, s);
    for (int half = 0; half < 2 && !e; half++)
        e = cudaMemcpyAsync(l->a + half * (l->bytes / 2), l->b, values, cudaMemcpyDeviceToDevice, s);
    return e;
}

static bool prepare_product(struct looker *l, int32_t which, int32_t shape, bool *has, struct error *e)
{
    set_shape(l, shape);
    *has = true;
    if (PRODUCT[which].type != DTYPE_FP8)
        return true;
    struct cuda_fp8_product p = fp8_product(l);
    *has = cuda_fp8_open(&l->cuda, e) && !cuda_fp8_choose(&l->cuda, &p, &l->algo);
    return l->cuda.lt != NULL;
}

// A type that is not multiplied here is no failure.
static bool look_at_product(struct looker *l, int32_t which, struct cuda_rate *out, struct error *e)
{
    double rate[MOMENTS] = {0}, ns;
    bool has, in_fp8 = PRODUCT[which].type == DTYPE_FP8;
    if (in_fp8 && !cuda_failed(quantize_values(l), "making fp8 values", e))
        return false;
    for (int32_t i = 0; i < MOMENTS; i++)
        for (int32_t shape = 0; shape < SHAPES; shape++) {
            if (!prepare_product(l, which, shape, &has, e))
                return false;
            cudaError_t failed =
                has ? time_work(l, in_fp8 ? multiply_fp8 : multiply, which, TIMES, &ns) : cudaErrorNotSupported;
            if (failed == cudaErrorNotSupported)
                return true;
            if (!cuda_failed(failed, "measuring matrix products", e))
                return false;
            rate[i] = fmax(rate[i], 2.0 * l->m * l->n * l->k / ns * 1e9);
        }
    *out = rate_of(rate, MOMENTS, false);
    return true;
}

static bool look_at_launches(struct looker *l, struct cuda_ceilings *out, struct error *e)
{
    static work *const WAY[] = {launch_each, launch_graph};
    struct cuda_rate *to[] = {&out->launch_ns, &out->graph_node_ns};
    for (int way = 0; way < 2; way++) {
        double ns[MOMENTS];
        for (int32_t i = 0; i < MOMENTS; i++) {
            if (!cuda_failed(time_work(l, WAY[way], 0, 1, &ns[i]), "measuring launches", e))
                return false;
            ns[i] /= LAUNCHES;
        }
        *to[way] = rate_of(ns, MOMENTS, true);
    }
    return true;
}

static bool count(struct looker *l, work *w, int32_t which, struct device_counts *out, struct error *e)
{
    struct cuda_counters *counters;
    if (!cuda_counters_begin(&counters, e))
        return false;
    cudaError_t failed = w(l, which);
    if (!failed)
        failed = cudaStreamSynchronize(l->cuda.stream);
    return cuda_counters_end(counters, out, e) && cuda_failed(failed, "counting", e);
}

// Counters on work whose size is known: bytes read once, and one product.
static void calibrate(struct looker *l, struct cuda_ceilings *out)
{
    struct error why = {0};
    out->counted_read = out->counted_product = (struct device_counts){NAN, NAN, NAN};
    set_shape(l, 1);
    out->known_bytes = (double)l->bytes, out->known_flops = 2.0 * l->m * l->n * l->k;
    if (!count(l, read_all, WIDEST, &out->counted_read, &why) || !count(l, multiply, 0, &out->counted_product, &why))
        snprintf(out->not_counted, sizeof out->not_counted, "%.190s", why.message);
}

// The first launch of a kernel loads it, which a capture may not hold.
static bool make_graph(struct looker *l, struct error *e)
{
    cudaGraph_t graph = NULL;
    if (!cuda_failed(cuda_probe_nothing(l->cuda.stream), "launching", e) ||
        !cuda_failed(cudaStreamSynchronize(l->cuda.stream), "launching", e) ||
        !cuda_failed(cudaStreamBeginCapture(l->cuda.stream, cudaStreamCaptureModeThreadLocal), "capturing launches", e))
        return false;
    cudaError_t failed = launch_each(l, 0), ended = cudaStreamEndCapture(l->cuda.stream, &graph);
    bool ok = cuda_failed(failed ? failed : ended, "capturing launches", e) &&
              cuda_failed(cudaGraphInstantiate(&l->nothing, graph, 0), "making a graph of launches", e);
    if (graph)
        (void)cudaGraphDestroy(graph);
    return ok;
}

// Values of weights: what multiplies zeros draws less power, and runs faster.
static bool fill(struct looker *l, struct error *e)
{
    enum { COLS = 1024 };
    return cuda_failed(
        cuda_random_bf16(1, COLS, 0, (int32_t)(l->bytes / COLS / sizeof(bf16)), (bf16 *)(void *)l->a, l->cuda.stream),
        "filling memory", e);
}

// No more than a quarter of what is free, in whole rows of random values.
static bool choose_sizes(struct looker *l, const struct cuda_ceilings_sizes *sizes, struct error *e)
{
    size_t available, total;
    if (!cuda_failed(cudaMemGetInfo(&available, &total), "asking for memory", e))
        return false;
    uint64_t most = (uint64_t)available / 4 / 2048 * 2048;
    l->bytes = sizes->bytes < most ? sizes->bytes : most;
    for (l->side = sizes->side; l->side > 32 && 16 * (uint64_t)l->side * (uint64_t)l->side > l->bytes;)
        l->side /= 2;
    return true;
}

static bool open_looker(struct looker *l, int32_t device, const struct cuda_ceilings_sizes *sizes, struct error *e)
{
    return cuda_open_device(&l->cuda, device, e) && choose_sizes(l, sizes, e) &&
           cuda_failed(cudaEventCreateWithFlags(&l->begin, cudaEventDefault), "making an event", e) &&
           cuda_failed(cudaEventCreateWithFlags(&l->end, cudaEventDefault), "making an event", e) &&
           cuda_allocate((void **)&l->a, l->bytes, "memory to read", e) &&
           cuda_allocate((void **)&l->b, l->bytes, "memory to write", e) &&
           cuda_allocate((void **)&l->sink, sizeof *l->sink, "a number", e) && make_graph(l, e) && fill(l, e);
}

static void close_looker(struct looker *l)
{
    if (l->cuda.stream)
        (void)cudaStreamSynchronize(l->cuda.stream);
    if (l->nothing)
        (void)cudaGraphExecDestroy(l->nothing);
    if (l->begin)
        (void)cudaEventDestroy(l->begin);
    if (l->end)
        (void)cudaEventDestroy(l->end);
    (void)cudaFree(l->a);
    (void)cudaFree(l->b);
    (void)cudaFree(l->sink);
    cuda_close_device(&l->cuda);
}

static bool look(struct looker *l, struct cuda_ceilings *out, struct error *e)
{
    snprintf(out->device, sizeof out->device, "%s", l->cuda.device.name);
    out->memory_bytes = l->cuda.device.totalGlobalMem;
    out->l2_bytes = (uint64_t)l->cuda.device.l2CacheSize;
    if (!look_at_memory(l, out, e))
        return false;
    for (int32_t i = 0; i < PRODUCTS; i++)
        if (!look_at_product(l, i, &out->product[PRODUCT[i].type], e))
            return false;
    calibrate(l, out);
    return look_at_launches(l, out, e);
}

bool cuda_ceilings_with(int32_t device, const struct cuda_ceilings_sizes *sizes, struct cuda_ceilings *out, struct error *e)
{
    struct looker *l = calloc(1, sizeof *l);
    *out = (struct cuda_ceilings){0};
    if (!l)
        return error_set(e, ERROR_MEMORY, "no memory for measuring the device");
    bool ok = open_looker(l, device, sizes, e) && look(l, out, e);
    close_looker(l);
    free(l);
    return ok;
}

bool cuda_ceilings_measure(int32_t device, struct cuda_ceilings *out, struct error *e)
{
    const struct cuda_ceilings_sizes sizes = {.bytes = (uint64_t)4 << 30, .side = 8192};
    return cuda_ceilings_with(device, &sizes, out, e);
}
