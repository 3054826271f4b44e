#include "engine/cuda/activity.h"

#include <stdlib.h>

enum { BUFFER_BYTES = 1 << 20, FIRST_ROOM = 1024 };

static struct activity *current; // whose records CUPTI delivers

static bool make_room(void **list, size_t *room, size_t n, size_t each)
{
    if (n < *room)
        return true;
    size_t more = *room ? 2 * *room : FIRST_ROOM;
    void *grown = realloc(*list, more * each);
    if (!grown)
        return false;
    *list = grown, *room = more;
    return true;
}

static bool add_kernel(struct activity *a, const CUpti_ActivityKernel10 *k)
{
    if (!make_room((void **)&a->kernel, &a->room_kernels, a->n_kernels, sizeof *a->kernel))
        return false;
    a->kernel[a->n_kernels++] = (struct activity_kernel){k->start, k->end, k->graphNodeId, k->correlationId};
    return true;
}

static bool add_launch(struct activity *a, const CUpti_ActivityExternalCorrelation *x)
{
    if (!make_room((void **)&a->launch, &a->room_launches, a->n_launches, sizeof *a->launch))
        return false;
    a->launch[a->n_launches++] = (struct activity_launch){x->correlationId, (int32_t)x->externalId};
    return true;
}

bool activity_note_node(struct activity *a, uint64_t node, int32_t span)
{
    if (!make_room((void **)&a->node, &a->room_nodes, a->n_nodes, sizeof *a->node))
        return false;
    a->node[a->n_nodes++] = (struct activity_node){node, span};
    return true;
}

bool activity_clone_node(struct activity *a, uint64_t node, uint64_t original)
{
    for (size_t i = 0; i < a->n_nodes; i++)
        if (a->node[i].node == original)
            return activity_note_node(a, node, a->node[i].span);
    return true; // of a graph that is not ours
}

static bool add_record(struct activity *a, const CUpti_Activity *record)
{
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return add_kernel(a, (const CUpti_ActivityKernel10 *)(const void *)record);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return add_launch(a, (const CUpti_ActivityExternalCorrelation *)(const void *)record);
    default: return true;
    }
}

bool activity_parse(struct activity *a, uint8_t *buffer, size_t bytes, struct error *e)
{
    CUpti_Activity *record = NULL;
    CUptiResult r;
    while (!(r = a->cupti->cuptiActivityGetNextRecord(buffer, bytes, &record)))
        if (!add_record(a, record))
            return error_set(e, ERROR_MEMORY, "no memory for the records of %zu kernels", a->n_kernels);
    return r == CUPTI_ERROR_MAX_LIMIT_REACHED || cupti_failed(a->cupti, r, "reading records", e);
}

// What CUPTI calls.

static void want_buffer(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
    *max_records = 0;
    *buffer = aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    struct activity *a = current;
    size_t dropped = 0;
    (void)bytes;
    if (a) {
        if (valid && !activity_parse(a, buffer, valid, NULL))
            a->no_memory = true;
        (void)a->cupti->cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
        a->n_dropped += dropped;
    }
    free(buffer);
}

// Nodes while a step is captured, and their copies while the graph is made executable, which are what runs.
static void CUPTIAPI on_resource(void *self, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    struct activity *a = self;
    const CUpti_ResourceData *resource = data;
    const CUpti_GraphData *graph = resource->resourceDescriptor;
    uint64_t node = 0, original = 0;
    bool ok = true;
    (void)domain;
    if (a->cupti->cuptiGetGraphNodeId(graph->node, &node))
        return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && a->span >= 0)
        ok = activity_note_node(a, node, a->span);
    else if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED && !a->cupti->cuptiGetGraphNodeId(graph->originalNode, &original))
        ok = activity_clone_node(a, node, original);
    a->no_memory |= !ok;
}

// External ids hang on records of calls, so those are wanted, too: of the runtime, which launches our kernels, and of the
// driver, by which cuBLAS launches some of its own.
static const CUpti_ActivityKind KIND[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME,
                                          CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
enum { KINDS = sizeof KIND / sizeof *KIND };

static bool subscribe(struct activity *a, struct error *e)
{
    const struct cupti *t = a->cupti;
    static const CUpti_CallbackId ID[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};
    if (!cupti_failed(t, t->cuptiSubscribe(&a->subscriber, on_resource, a), "subscribing", e)) {
        a->subscriber = NULL;
        return false;
    }
    for (size_t i = 0; i < sizeof ID / sizeof *ID; i++)
        if (!cupti_failed(t, t->cuptiEnableCallback(1, a->subscriber, CUPTI_CB_DOMAIN_RESOURCE, ID[i]), "subscribing", e))
            return false;
    return true;
}

static bool enable(struct activity *a, struct error *e)
{
    const struct cupti *t = a->cupti;
    if (!cupti_failed(t, t->cuptiActivityRegisterCallbacks(want_buffer, take_buffer), "opening records", e))
        return false;
    for (int i = 0; i < KINDS; i++)
        if (!cupti_failed(t, t->cuptiActivityEnable(KIND[i]), "opening records", e))
            return false;
    return cupti_failed(t, t->cuptiGetTimestamp(&a->zero_ns), "opening records", e);
}

bool activity_open(struct activity *a, struct error *e)
{
    *a = (struct activity){.span = -1};
    if (current)
        return error_set(e, ERROR_UNSUPPORTED, "another trace is being taken");
    a->cupti = cupti_load(e);
    if (!a->cupti)
        return false;
    current = a;
    if (subscribe(a, e) && enable(a, e))
        return true;
    activity_close(a);
    return false;
}

void activity_span(struct activity *a, int32_t span)
{
    uint64_t before;
    if (a->span >= 0)
        (void)a->cupti->cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &before);
    a->span = span;
    if (span >= 0)
        (void)a->cupti->cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, (uint64_t)span);
}

void activity_close(struct activity *a)
{
    if (current == a) {
        for (int i = 0; i < KINDS; i++)
            (void)a->cupti->cuptiActivityDisable(KIND[i]);
        (void)a->cupti->cuptiActivityFlushAll(1);
        current = NULL;
    }
    if (a->subscriber)
        (void)a->cupti->cuptiUnsubscribe(a->subscriber);
    free(a->kernel);
    free(a->node);
    free(a->launch);
    *a = (struct activity){.span = -1};
}

// From records to spans.

static int by_node(const void *a, const void *b)
{
    uint64_t x = ((const struct activity_node *)a)->node, y = ((const struct activity_node *)b)->node;
    return (x > y) - (x < y);
}

static int by_correlation(const void *a, const void *b)
{
    uint32_t x = ((const struct activity_launch *)a)->correlation, y = ((const struct activity_launch *)b)->correlation;
    return (x > y) - (x < y);
}

static int32_t span_of(const struct activity *a, const struct activity_kernel *k)
{
    if (k->node) {
        const struct activity_node key = {.node = k->node},
                                   *found = a->n_nodes ? bsearch(&key, a->node, a->n_nodes, sizeof key, by_node) : NULL;
        return found ? found->span : -1;
    }
    const struct activity_launch key = {.correlation = k->correlation},
                                 *found = a->n_launches ? bsearch(&key, a->launch, a->n_launches, sizeof key, by_correlation)
                                                        : NULL;
    return found ? found->span : -1;
}

static void widen(struct activity_time *t, uint64_t begin_ns, uint64_t end_ns)
{
    if (t->begin_ns == UINT64_MAX || begin_ns < t->begin_ns)
        t->begin_ns = begin_ns;
    if (end_ns > t->end_ns)
        t->end_ns = end_ns;
}

// The device's clock and the host's are matched to some microseconds: what seems to have begun before the trace began with
// it.
static uint64_t since(const struct activity *a, uint64_t ns)
{
    return ns > a->zero_ns ? ns - a->zero_ns : 0;
}

bool activity_join(struct activity *a, int32_t n_spans, struct activity_time *out, struct error *e)
{
    if (a->n_nodes)
        qsort(a->node, a->n_nodes, sizeof *a->node, by_node);
    if (a->n_launches)
        qsort(a->launch, a->n_launches, sizeof *a->launch, by_correlation);
    for (int32_t i = 0; i < n_spans; i++)
        out[i] = (struct activity_time){.begin_ns = UINT64_MAX};
    for (size_t i = 0; i < a->n_kernels; i++) {
        const struct activity_kernel *k = &a->kernel[i];
        int32_t span = span_of(a, k);
        if (span < 0 || span >= n_spans)
            return error_set(e, ERROR_DEVICE, "CUPTI tells of a kernel that belongs to no span");
        if (!k->begin_ns || k->end_ns < k->begin_ns)
            return error_set(e, ERROR_DEVICE, "CUPTI does not say when a kernel ran");
        widen(&out[span], since(a, k->begin_ns), since(a, k->end_ns));
    }
    return a->n_kernels || error_set(e, ERROR_DEVICE, "CUPTI tells of no kernel");
}

bool activity_times(struct activity *a, int32_t n_spans, struct activity_time *out, struct error *e)
{
    const struct cupti *t = a->cupti;
    // First what is complete; then all, so that a record that is still incomplete is seen rather than missed.
    if (!cupti_failed(t, t->cuptiActivityFlushAll(0), "reading records", e) ||
        !cupti_failed(t, t->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "reading records", e))
        return false;
    if (a->no_memory || a->n_dropped)
        return error_set(e, ERROR_DEVICE, "CUPTI has dropped %zu records", a->n_dropped);
    return activity_join(a, n_spans, out, e);
}
