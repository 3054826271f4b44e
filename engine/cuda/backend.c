// struct backend on a CUDA device: load, open, run. Decode steps without a trace are graphs from the second of a shape on;
// others are enqueued span by span, a traced one with an event at every edge.
#include "engine/cuda/instruments.h"

#include "engine/base/rng.h"
#include "engine/base/units.h"
#include "engine/check.h"
#include "engine/cuda/ceilings.h"
#include "engine/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Those that attention is compiled for.
static bool has_head(int32_t head_dim)
{
    return head_dim > 0 && head_dim % 32 == 0 && (head_dim <= 128 || head_dim == 256);
}

static bool supports(void *self, const struct op *op, struct error *e)
{
    (void)self;
    if (op->kind == OP_ATTN && !has_head(op->dim[2]))
        return error_set(e, ERROR_UNSUPPORTED, "the cuda backend has heads of 32, 64, 96, 128 or 256 values, not %d",
                         op->dim[2]);
    return check_op("cuda", op, e);
}

static void drop_plan(struct cuda *c)
{
    if (c->stream)
        (void)cudaStreamSynchronize(c->stream);
    cuda_graphs_free(c);
    for (int32_t i = 0; i < c->n_scratch; i++)
        (void)cudaFree(c->scratch[i]);
    for (int32_t i = 0; c->event && c->plan && i <= c->plan->n_ops; i++)
        if (c->event[i])
            (void)cudaEventDestroy(c->event[i]);
    cuda_numbers_free(c);
    cuda_tokens_free(c);
    cuda_kv_free(c);
    cuda_fp8_free(c);
    free(c->event);
    free(c->spans);
    free(c->slot_offset);
    c->event = NULL, c->spans = NULL, c->slot_offset = NULL, c->plan = NULL, c->activations = NULL;
    c->n_scratch = c->n_out = 0, c->scratch_bytes = c->activation_bytes = 0;
    (void)cudaGetLastError(); // whatever went wrong here must not be taken for the next launch's
}

static bool load(void *self, const struct plan *plan, const struct tensor *weights, struct error *e)
{
    struct cuda *c = self;
    drop_plan(c);
    return cuda_take_weights(c, plan, weights, e);
}

static bool take_scratch(struct cuda *c, void **out, uint64_t bytes, const char *what, struct error *e)
{
    if (!cuda_allocate(out, bytes, what, e))
        return false;
    c->scratch[c->n_scratch++] = *out;
    c->scratch_bytes += bytes;
    return true;
}

static bool take_turns(struct cuda *c, const struct plan *plan, struct error *e)
{
    for (int32_t i = 0; i < plan->n_ropes; i++) {
        const struct rope_spec *rope = &plan->rope[i];
        size_t half = (size_t)rope->rotary_dim / 2;
        uint64_t bytes = (uint64_t)c->config.max_tokens * half * sizeof(float);
        float inv_freq[2][MODEL_MAX_ROTARY / 2];
        rope_inv_freq(rope, false, inv_freq[0]);
        rope_inv_freq(rope, true, inv_freq[1]);
        if (!take_scratch(c, (void **)&c->inv_freq[i], 2 * half * sizeof(float), "rotary frequencies", e) ||
            !take_scratch(c, (void **)&c->cos[i], bytes, "rotary angles", e) ||
            !take_scratch(c, (void **)&c->sin[i], bytes, "rotary angles", e))
            return false;
        for (int l = 0; l < 2; l++)
            if (!cuda_failed(
                    cudaMemcpy(c->inv_freq[i] + (size_t)l * half, inv_freq[l], half * sizeof(float), cudaMemcpyHostToDevice),
                    "copying rotary frequencies", e))
                return false;
    }
    return true;
}

// The widest input of a linear layer, and the largest matrix that cuBLAS cannot read as it is stored.
static void sizes_of_linears(const struct cuda *c, const struct plan *plan, uint64_t *widest, uint64_t *largest)
{
    *widest = *largest = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_LINEAR)
            continue;
        uint64_t n_in = (uint64_t)op->dim[0], values = n_in * (uint64_t)op->dim[1];
        if (n_in > *widest)
            *widest = n_in;
        if (c->matrix[op->weight].type != DTYPE_BF16 && values > *largest)
            *largest = values;
    }
}

// Partial results of split attention: [rows, H, splits, d + 2].
static uint64_t part_floats(const struct cuda *c, const struct plan *plan)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        uint64_t each = op->kind == OP_ATTN ? (uint64_t)op->dim[0] * ((uint64_t)op->dim[2] + 2) : 0;
        if (each > most)
            most = each;
    }
    uint64_t rows = (uint64_t)(c->config.max_seqs > c->config.max_out ? c->config.max_seqs : c->config.max_out);
    return most * rows * CUDA_MAX_SPLITS;
}

// Rows quantized for fp8 products, and what those are done by.
static bool take_fp8(struct cuda *c, const struct plan *plan, struct error *e)
{
    uint64_t widest = (uint64_t)cuda_fp8_widest(c, plan);
    uint64_t rows = (uint64_t)(c->config.max_tokens > c->config.max_out ? c->config.max_tokens : c->config.max_out);
    return !widest || (take_scratch(c, (void **)&c->quantized, rows * widest, "quantized rows", e) &&
                       take_scratch(c, (void **)&c->row_scale, rows * sizeof(float), "their scales", e) &&
                       cuda_fp8_choose_all(c, plan, e));
}

static bool take_buffers(struct cuda *c, const struct plan *plan, struct error *e)
{
    struct batch_shape shape = {.n_tokens = 1, .n_seqs = 1, .n_out = 1, .max_rows = 1, .max_ctx = 1};
    struct slot_layout layout;
    uint64_t widest, largest;
    int32_t n = cuda_cover(NULL, plan, &shape, c->spans); // its spans are the same for every shape
    if (!slot_layout_make(&layout, plan, c->spans, n, &c->config, sizeof(bf16), e))
        return false;
    c->slot_offset = layout.offset, c->activation_bytes = layout.bytes;
    sizes_of_linears(c, plan, &widest, &largest);
    return take_scratch(c, (void **)&c->activations, layout.bytes, "the activations", e) && take_turns(c, plan, e) &&
           take_scratch(c, (void **)&c->parts, part_floats(c, plan) * sizeof(float), "parts of attention", e) &&
           take_scratch(c, (void **)&c->gathered, (uint64_t)c->config.max_out * widest * sizeof(bf16), "output rows", e) &&
           take_scratch(c, (void **)&c->widened, largest * sizeof(bf16), "a widened matrix", e) && take_fp8(c, plan, e);
}

static bool make_events(struct cuda *c, const struct plan *plan, struct error *e)
{
    for (int32_t i = 0; i <= plan->n_ops; i++)
        if (!cuda_failed(cudaEventCreateWithFlags(&c->event[i], cudaEventDefault), "making events", e))
            return false;
    return true;
}

// Kernels load 16 bytes of KV at a time, so the scales behind int8 values must leave what follows them aligned.
static bool check_kv(const struct plan *plan, const struct kv_config *config, struct error *e)
{
    const enum dtype kv[] = {plan->kv_k, plan->kv_v};
    for (int i = 0; i < 2; i++) {
        if (kv[i] != DTYPE_BF16 && kv[i] != DTYPE_F16 && kv[i] != DTYPE_FP8 && kv[i] != DTYPE_INT8)
            return error_set(e, ERROR_UNSUPPORTED, "the cuda backend keeps KV as bf16, f16, fp8 or int8, not %s",
                             dtype_name(kv[i]));
        if (kv[i] == DTYPE_INT8 && config->block_size % 8)
            return error_set(e, ERROR_UNSUPPORTED, "int8 KV takes blocks of a multiple of 8 tokens, not %d",
                             config->block_size);
    }
    return (config->n_blocks > 0 && config->block_size > 0) ||
           error_set(e, ERROR_USAGE, "a KV pool of %d blocks of %d tokens", config->n_blocks, config->block_size);
}

static bool check_plan(struct cuda *c, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (!supports(c, &plan->op[i], e))
            return false;
    if (!check_kv(plan, config, e))
        return false;
    return c->n_tensors == plan->n_tensors ||
           error_set(e, ERROR_USAGE, "the cuda backend has not loaded the weights of '%s'", plan->model);
}

static bool start(void *self, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    struct cuda *c = self;
    drop_plan(c);
    if (!check_plan(c, plan, config, e))
        return false;
    c->config = *config;
    c->plan = plan; // for drop_plan, which frees as many events
    c->spans = calloc((size_t)plan->n_ops, sizeof *c->spans);
    c->event = calloc((size_t)plan->n_ops + 1, sizeof(cudaEvent_t));
    bool ok = (c->spans && c->event) || error_set(e, ERROR_MEMORY, "no memory for the plan of '%s'", plan->model);
    ok = ok && cuda_kv_init(c, plan, config, e) && cuda_numbers_init(c, e) && take_buffers(c, plan, e) && // largest first
         cuda_tokens_init(c, e) && make_events(c, plan, e) &&
         cuda_failed(cudaDeviceSynchronize(), "preparing", e) && // for copies outside c->stream
         cuda_choose_time(c, e);
    if (!ok)
        drop_plan(c);
    return ok;
}

static cudaError_t run_spans(const struct cuda_step *s, int32_t n_spans, bool with_events)
{
    struct cuda *c = s->cuda;
    cudaError_t e = with_events ? cudaEventRecord(c->event[0], c->stream) : cudaSuccess;
    for (int32_t i = 0; i < n_spans && !e; i++) {
        e = cuda_walk_span(s, &c->spans[i]);
        if (!e && with_events)
            e = cudaEventRecord(c->event[i + 1], c->stream);
    }
    return e;
}

// The events' distances, laid end to end from the step's begin.
static bool write_trace(struct cuda *c, int32_t n_spans, int64_t begin_ns, struct trace *trace, struct error *e)
{
    int64_t at = begin_ns;
    for (int32_t i = 0; i < n_spans; i++) {
        float ms;
        if (!cuda_failed(cudaEventElapsedTime(&ms, c->event[0], c->event[i + 1]), "reading an event", e))
            return false;
        int64_t end = begin_ns + (int64_t)((double)ms * 1e6);
        trace_add(trace, (struct trace_row){.span = c->spans[i], .begin_ns = at, .end_ns = end});
        at = end;
    }
    return true;
}

// A decode step whose every row is wanted, or none of a prompt's: its launches depend on n_seqs and splits alone.
static bool is_graph(const struct cuda_step *s)
{
    return s->shape.max_rows == 1 && s->batch->n_out == s->batch->n_tokens;
}

static bool run_step(const struct cuda_step *s, struct trace *trace, struct error *e)
{
    struct cuda *c = s->cuda;
    int32_t n = cuda_choose_cover(c, c->plan, &s->shape, c->spans);
    bool wants_graph = !trace && is_graph(s);
    cudaGraphExec_t graph = wants_graph ? cuda_graph_find(s) : NULL;
    c->n_out = 0;
    if (trace && cuda_records_open(c) && cuda_records_step(s, n, is_graph(s), trace)) {
        c->n_out = s->batch->n_out;
        return true;
    }
    int64_t begin = clock_ns();
    cudaError_t failed = cuda_numbers_send(c, s->batch);
    if (!failed)
        failed = graph ? cudaGraphLaunch(graph, c->stream) : run_spans(s, n, trace != NULL);
    if (!failed)
        failed = cudaStreamSynchronize(c->stream);
    if (!cuda_failed(failed, "a step", e))
        return false;
    if (wants_graph && !graph && !cuda_graph_add(s, n, e))
        return false;
    c->n_out = s->batch->n_out;
    return !trace || write_trace(c, n, begin, trace, e);
}

static int32_t kv_heads(const struct plan *plan)
{
    return plan->n_kv_groups ? plan->kv_group[0].num_key_value_heads : 1;
}

// Blocks per sequence in the tables sent to the device: the fewest that hold the longest, in octaves, so that graphs can be
// shared and a step does not copy what nobody reads.
static int32_t stride_of(const struct cuda *c, int32_t max_ctx)
{
    int32_t blocks = (max_ctx - 1) / c->config.block_size + 1, stride = 32;
    while (stride < blocks)
        stride *= 2;
    return stride < c->config.n_blocks ? stride : c->config.n_blocks;
}

static bool run(void *self, const struct plan *plan, const struct batch *batch, struct trace *trace, struct error *e)
{
    struct cuda *c = self;
    if (!check_opened("cuda", c->plan, plan, e) || !check_batch(plan, &c->config, batch, e))
        return false;
    struct cuda_step step = {.cuda = c, .batch = batch, .shape = batch_shape_of(batch)};
    step.splits = cuda_attn_splits(batch->n_seqs, kv_heads(plan), step.shape.max_ctx, c->device.multiProcessorCount);
    c->table_stride = stride_of(c, step.shape.max_ctx);
    c->steps++;
    cuda_range_push(&step.shape);
    bool ok = run_step(&step, trace, e);
    cuda_range_pop();
    return ok;
}

static bool move(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    struct cuda *c = self;
    cudaError_t failed = cudaSuccess;
    if (!check_opened("cuda", c->plan, c->plan, e))
        return false;
    for (int32_t i = 0; i < n && !failed; i++) {
        const struct kv_move *m = &moves[i];
        if (!check_move("cuda", &c->config, m, e))
            return false;
        for (int32_t g = 0; g < c->plan->n_kv_groups; g++)
            for (int32_t l = 0; l < c->plan->kv_group[g].n_layers && !failed; l++) {
                struct cuda_kv kv = cuda_kv_layer(c, g, l);
                failed = cuda_kv_copy(&kv, m->from_block, m->to_block, c->stream);
            }
    }
    return cuda_failed(failed, "copying KV blocks", e);
}

static bool fill(void *self, int32_t block, uint64_t seed, struct error *e)
{
    struct cuda *c = self;
    cudaError_t failed = cudaSuccess;
    if (!check_opened("cuda", c->plan, c->plan, e) || !check_block(&c->config, block, e))
        return false;
    for (int32_t g = 0; g < c->plan->n_kv_groups; g++)
        for (int32_t l = 0; l < c->plan->kv_group[g].n_layers && !failed; l++) {
            struct cuda_kv kv = cuda_kv_layer(c, g, l);
            failed = cuda_kv_fill(&kv, block, rng_at(seed, (uint64_t)(g * MODEL_MAX_LAYERS + l)), c->stream);
        }
    return cuda_failed(failed, "filling KV blocks", e);
}

static bool read_logits(void *self, int32_t out_row, float *logits, struct error *e)
{
    struct cuda *c = self;
    if (!check_opened("cuda", c->plan, c->plan, e) || !check_out_row(out_row, c->n_out, e))
        return false;
    size_t bytes = (size_t)c->plan->vocab_size * sizeof *logits;
    const uint8_t *from = c->activations + c->slot_offset[c->plan->logits] + (size_t)out_row * bytes;
    return cuda_failed(cudaMemcpy(logits, from, bytes, cudaMemcpyDeviceToHost), "reading logits", e);
}

static int64_t now_ns(void *self)
{
    (void)self;
    return clock_ns();
}

static uint64_t memory_bytes(void *self)
{
    const struct cuda *c = self;
    return c->weight_bytes + c->kv_bytes + c->scratch_bytes + CUDA_WORKSPACE_BYTES;
}

void cuda_close_device(struct cuda *c)
{
    if (c->lt)
        (void)cublasLtDestroy(c->lt);
    if (c->blas)
        (void)cublasDestroy(c->blas);
    if (c->workspace)
        (void)cudaFree(c->workspace);
    if (c->stream)
        (void)cudaStreamDestroy(c->stream);
}

static uint64_t memory_free(void *self)
{
    size_t available, total;
    (void)self;
    return cudaMemGetInfo(&available, &total) ? 0 : available;
}

static void close_backend(void *self)
{
    struct cuda *c = self;
    struct device_counts unwanted;
    if (c->counters)
        (void)cuda_count_end(c, &unwanted, NULL);
    drop_plan(c);
    cuda_drop_weights(c);
    cuda_close_device(c);
    free(c);
}

static bool check_device(struct cuda *c, int32_t device, struct error *e)
{
    int n = 0;
    cudaError_t failed = cudaGetDeviceCount(&n);
    if (failed || n < 1) {
        (void)cudaGetLastError(); // forget it
        return error_set(e, ERROR_DEVICE, "no CUDA device: %s (%s)", failed ? cudaGetErrorString(failed) : "none found",
                         cudaGetErrorName(failed));
    }
    if (device < 0 || device >= n)
        return error_set(e, ERROR_DEVICE, "CUDA device %d is not one of the %d here", device, n);
    if (!cuda_failed(cudaSetDevice(device), "opening the device", e) ||
        !cuda_failed(cudaGetDeviceProperties(&c->device, device), "asking the device", e))
        return false;
    return c->device.major >= 8 || error_set(e, ERROR_DEVICE, "'%s' has compute capability %d.%d, kernels want 8.0 or more",
                                             c->device.name, c->device.major, c->device.minor);
}

// The handle's workspace is ours, so that capturing a graph allocates nothing.
bool cuda_open_device(struct cuda *c, int32_t device, struct error *e)
{
    return check_device(c, device, e) &&
           cuda_failed(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "making a stream", e) &&
           cuda_blas_failed(cublasCreate(&c->blas), "opening cuBLAS", e) &&
           cuda_allocate(&c->workspace, CUDA_WORKSPACE_BYTES, "cuBLAS's workspace", e) &&
           cuda_blas_failed(cublasSetStream(c->blas, c->stream), "opening cuBLAS", e) &&
           cuda_blas_failed(cublasSetWorkspace(c->blas, c->workspace, CUDA_WORKSPACE_BYTES), "opening cuBLAS", e);
}

static bool open_backend(struct backend *out, const struct backend_options *options, struct error *e)
{
    struct cuda *c = calloc(1, sizeof *c);
    *out = (struct backend){.name = "cuda",
                            .self = c,
                            .supports = supports,
                            .cover = cuda_choose_cover,
                            .load = load,
                            .open = start,
                            .run = run,
                            .move = move,
                            .fill = fill,
                            .read = read_logits,
                            .choose = cuda_choose_tokens,
                            .count_begin = cuda_count_begin,
                            .count_end = cuda_count_end,
                            .tracing = cuda_tracing,
                            .now_ns = now_ns,
                            .kernel_name = cuda_kernel_name,
                            .memory_bytes = memory_bytes,
                            .memory_free = memory_free,
                            .close = close_backend};
    if (!c)
        return error_set(e, ERROR_MEMORY, "no memory for the cuda backend");
    if (cuda_choose_by(c, options->isa, e) && cuda_open_device(c, options->device, e)) {
        snprintf(out->device, sizeof out->device, "%.90s", c->device.name);
        return true;
    }
    close_backend(c);
    *out = (struct backend){0};
    return false;
}

__attribute__((visibility("default"))) const struct cuda_plugin *kvbench_cuda_plugin_1(void)
{
    static struct cuda_plugin plugin = {.abi = CUDA_PLUGIN_ABI, .open = open_backend, .ceilings = cuda_ceilings_measure};
    plugin.bytes = cuda_plugin_bytes();
    return &plugin;
}
