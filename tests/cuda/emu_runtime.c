// Streams, events, graphs, copies and launches of the fake runtime. Streams run as late as CUDA allows.
#include "tests/cuda/emu_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct list {
    struct emu_op *head, **tail;
};
struct CUgraph_st {
    struct list ops;
};
struct CUgraphExec_st {
    struct list ops;
};
struct CUstream_st {
    struct CUstream_st *next;
    struct list ops;
    uint64_t pushed, ran;
    struct CUgraph_st *capture;
};
struct CUevent_st {
    struct CUstream_st *stream;
    uint64_t position; // in the stream, once recorded
    bool done;
    double ms;
    struct CUgraph_st *capture;
};

const struct emu_observer *emu_observer;

static struct CUstream_st default_stream, *streams = &default_stream;
static cudaError_t last_error;

cudaError_t emu_error(cudaError_t e)
{
    if (e)
        last_error = e;
    return e;
}

static bool fired;

// Calls are counted from where KVEMU_FAIL got its value.
bool emu_inject(void)
{
    static unsigned long call, last;
    const char *which = getenv("KVEMU_FAIL");
    unsigned long n = which ? strtoul(which, NULL, 0) : 0;
    if (n != last)
        call = 0, last = n, fired = false;
    bool fails = n && ++call == n;
    fired |= fails;
    return fails;
}

bool emu_injected(void)
{
    return fired;
}

static struct CUstream_st *stream_of(cudaStream_t s)
{
    return s && s != cudaStreamLegacy && s != cudaStreamPerThread ? s : &default_stream;
}

static void append(struct list *l, struct emu_op *op)
{
    if (!l->head)
        l->tail = &l->head;
    op->next = NULL;
    *l->tail = op;
    l->tail = &op->next;
}

struct emu_op *emu_op_make(void (*run)(struct emu_op *), const void *args, size_t n_args)
{
    struct emu_op *op = calloc(1, sizeof *op + n_args);
    op->run = run, op->n_args = n_args;
    if (n_args)
        memcpy(op->args, args, n_args);
    return op;
}

static struct emu_op *copy_of(const struct emu_op *op)
{
    size_t bytes = sizeof *op + op->n_args;
    return memcpy(malloc(bytes), op, bytes);
}

uint64_t emu_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_op(struct emu_op *op)
{
    uint64_t begin = emu_clock_ns();
    op->run(op);
    if (emu_observer && op->computes)
        emu_observer->kernel(op->node, op->correlation, begin, emu_clock_ns());
}

static void drain(struct CUstream_st *s, uint64_t to)
{
    if (s->ran >= to || !s->ops.head)
        return;
    emu_memory_open();
    while (s->ran < to && s->ops.head) {
        struct emu_op *op = s->ops.head;
        s->ops.head = op->next;
        s->ran++;
        run_op(op);
        free(op);
    }
    emu_memory_close();
}

bool emu_in_capture(cudaStream_t s)
{
    return stream_of(s)->capture != NULL;
}

bool emu_capturing(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture)
            return true;
    return false;
}

void emu_drain_all(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        drain(s, UINT64_MAX);
}

cudaError_t emu_push(cudaStream_t stream, struct emu_op *op)
{
    struct CUstream_st *s = stream_of(stream);
    const char *how = getenv("KVEMU_STREAMS");
    if (emu_inject()) {
        free(op);
        return emu_error(cudaErrorLaunchFailure);
    }
    if (s->capture) {
        append(&s->capture->ops, op);
        if (emu_observer)
            emu_observer->node(op, NULL);
        return cudaSuccess;
    }
    static uint32_t calls;
    op->correlation = ++calls;
    if (emu_observer)
        emu_observer->call(calls, op->by_driver);
    append(&s->ops, op);
    s->pushed++;
    if (how && !strcmp(how, "eager"))
        drain(s, UINT64_MAX);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    if (emu_inject())
        return emu_error(cudaErrorMemoryAllocation);
    *out = calloc(1, sizeof **out);
    (*out)->next = streams->next;
    streams->next = *out;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, 0);
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t s)
{
    drain(s, UINT64_MAX);
    for (struct CUstream_st *p = streams; p; p = p->next)
        if (p->next == s) {
            p->next = s->next;
            break;
        }
    free(s);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t s)
{
    if (stream_of(s)->capture)
        return emu_error(cudaErrorStreamCaptureUnsupported);
    if (emu_inject())
        return emu_error(cudaErrorLaunchFailure);
    drain(stream_of(s), UINT64_MAX);
    return last_error;
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    if (emu_capturing())
        return emu_error(cudaErrorStreamCaptureUnsupported);
    if (emu_inject())
        return emu_error(cudaErrorLaunchFailure);
    emu_drain_all();
    return last_error;
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    if (emu_inject())
        return emu_error(cudaErrorMemoryAllocation);
    *e = calloc(1, sizeof **e);
    (*e)->done = true;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

static void run_record(struct emu_op *op)
{
    op->event->done = true;
    op->event->ms = (double)emu_clock_ns() * 1e-6;
}

static void run_wait(struct emu_op *op)
{
    drain(op->other, op->position);
}

// In a capture an event is an edge: the order of the captured list says as much.
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    struct CUstream_st *s = stream_of(stream);
    e->capture = s->capture;
    if (s->capture)
        return cudaSuccess;
    struct emu_op *op = emu_op_make(run_record, NULL, 0);
    op->event = e;
    e->stream = s, e->position = s->pushed + 1, e->done = false;
    return emu_push(stream, op);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags)
{
    (void)flags;
    if (e->capture) {
        stream_of(stream)->capture = e->capture; // the stream joins
        return cudaSuccess;
    }
    struct emu_op *op = emu_op_make(run_wait, NULL, 0);
    op->other = e->stream ? e->stream : &default_stream, op->position = e->position;
    return emu_push(stream, op);
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t e)
{
    if (e->stream)
        drain(e->stream, e->position);
    return last_error;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t e)
{
    return e->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    if (!begin->done || !end->done)
        return emu_error(cudaErrorNotReady);
    *ms = (float)(end->ms - begin->ms);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct CUstream_st *s = stream_of(stream);
    (void)mode;
    if (s->capture || emu_inject())
        return emu_error(cudaErrorIllegalState);
    s->capture = calloc(1, sizeof *s->capture);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    struct CUgraph_st *graph = stream_of(stream)->capture;
    if (!graph)
        return emu_error(cudaErrorIllegalState);
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture == graph)
            s->capture = NULL;
    *out = graph;
    return cudaSuccess;
}

static void copy_list(struct list *to, const struct list *from)
{
    for (struct emu_op *op = from->head; op; op = op->next) {
        struct emu_op *copy = copy_of(op);
        append(to, copy);
        if (emu_observer)
            emu_observer->node(copy, op);
    }
}

static void free_list(struct list *l)
{
    for (struct emu_op *op = l->head, *next; op; op = next) {
        next = op->next;
        free(op);
    }
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    if (emu_inject())
        return emu_error(cudaErrorMemoryAllocation);
    *out = calloc(1, sizeof **out);
    copy_list(&(*out)->ops, &graph->ops);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph, (void)stream;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    for (struct emu_op *op = graph->ops.head; op && !e; op = op->next) {
        struct emu_op *run = copy_of(op);
        run->node = op;
        e = emu_push(stream, run);
    }
    return e;
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph)
{
    free_list(&graph->ops);
    free(graph);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    free_list(&graph->ops);
    free(graph);
    return cudaSuccess;
}

static void run_copy(struct emu_op *op)
{
    memmove(op->to, op->from, op->bytes);
}

static void run_set(struct emu_op *op)
{
    memset(op->to, op->value, op->bytes);
}

static bool fits_kind(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return !bytes || kind == cudaMemcpyDefault ||
           (emu_is_device(to, bytes) == to_device && emu_is_device(from, bytes) == from_device);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    if (!fits_kind(to, from, bytes, kind))
        return emu_error(cudaErrorInvalidValue);
    struct emu_op *op = emu_op_make(run_copy, NULL, 0);
    op->to = to, op->from = from, op->bytes = bytes;
    return emu_push(s, op);
}

cudaError_t CUDARTAPI cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (emu_capturing())
        return emu_error(cudaErrorStreamCaptureImplicit);
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    emu_drain_all();
    return e;
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    if (!emu_is_device(to, bytes))
        return emu_error(cudaErrorInvalidValue);
    struct emu_op *op = emu_op_make(run_set, NULL, 0);
    op->to = to, op->value = value, op->bytes = bytes;
    return emu_push(s, op);
}

cudaError_t CUDARTAPI cudaMemset(void *to, int value, size_t bytes)
{
    cudaError_t e = cudaMemsetAsync(to, value, bytes, NULL);
    emu_drain_all();
    return e;
}

// Kernels that may have more dynamic shared memory than 48 KiB.
static struct {
    const void *kernel;
    int bytes;
} raised[256];
static int n_raised;

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute what, int value)
{
    if (emu_inject())
        return emu_error(cudaErrorInvalidValue);
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    int i = 0;
    while (i < n_raised && raised[i].kernel != kernel)
        i++;
    if (value > EMU_SHARED_BYTES || i == sizeof raised / sizeof *raised)
        return emu_error(cudaErrorInvalidValue);
    raised[i].kernel = kernel, raised[i].bytes = value;
    n_raised += i == n_raised;
    return cudaSuccess;
}

static size_t shared_limit(const void *kernel)
{
    int limit = 48 << 10;
    for (int i = 0; i < n_raised; i++)
        if (raised[i].kernel == kernel)
            limit = raised[i].bytes;
    return (size_t)limit;
}

// Kernels are loaded by their first launch (CUDA_MODULE_LOADING=LAZY, the default), which a capture may not hold. That is
// stricter than CUDA promises to be.
static bool is_loaded(const void *kernel, bool loads)
{
    static const void *loaded[512];
    static int n_loaded;
    for (int i = 0; i < n_loaded; i++)
        if (loaded[i] == kernel)
            return true;
    if (loads && n_loaded < (int)(sizeof loaded / sizeof *loaded))
        loaded[n_loaded++] = kernel;
    return loads;
}

static void run_kernel(struct emu_op *op)
{
    emu_run_grid(op->grid, op->block, (unsigned)op->bytes, op->kernel, op->args, op->name);
}

int emu_launch(struct emu_dim3 grid, struct emu_dim3 block, size_t dynamic_bytes, void *stream, emu_thunk kernel,
               const void *args, size_t n_args, const void *symbol, const char *name)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!threads || threads > EMU_MAX_THREADS || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 ||
        dynamic_bytes > shared_limit(symbol))
        return emu_error(cudaErrorInvalidConfiguration);
    if (!is_loaded(symbol, !emu_in_capture(stream)))
        return emu_error(cudaErrorStreamCaptureUnsupported);
    struct emu_op *op = emu_op_make(run_kernel, args, n_args);
    op->grid = grid, op->block = block, op->bytes = dynamic_bytes, op->kernel = kernel, op->name = name;
    op->computes = true;
    return emu_push(stream, op);
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return last_error;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t e)
{
    switch (e) {
#define X(id)                                                                                                               \
    case id: return #id;
        X(cudaSuccess)
        X(cudaErrorInvalidValue)
        X(cudaErrorMemoryAllocation)
        X(cudaErrorInvalidConfiguration)
        X(cudaErrorInvalidDevice)
        X(cudaErrorNoDevice)
        X(cudaErrorLaunchFailure)
        X(cudaErrorIllegalState)
        X(cudaErrorNotReady)
        X(cudaErrorStreamCaptureUnsupported)
        X(cudaErrorStreamCaptureImplicit)
#undef X
    default: return "cudaErrorUnknown";
    }
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory" : e ? "an emulated error" : "no error";
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *n)
{
    if (emu_inject())
        return emu_error(cudaErrorNoDevice);
    *n = 1;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    return device || emu_inject() ? emu_error(cudaErrorInvalidDevice) : cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

int emu_chip(void)
{
    const char *chip = getenv("KVEMU_CHIP");
    return chip ? (int)strtol(chip, NULL, 10) : 90;
}

// An H100's proportions.
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void)device;
    if (emu_inject())
        return emu_error(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated GPU");
    p->major = emu_chip() / 10, p->minor = emu_chip() % 10;
    p->multiProcessorCount = 132, p->l2CacheSize = 50 << 20;
    p->totalGlobalMem = (size_t)8 << 30, p->sharedMemPerBlockOptin = EMU_SHARED_BYTES;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    struct cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    switch (what) {
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = EMU_SHARED_BYTES; break;
    default: *value = 0; break;
    }
    return e;
}
