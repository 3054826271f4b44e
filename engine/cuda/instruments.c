#include "engine/cuda/instruments.h"

#include "engine/base/units.h"
#include "engine/cuda/activity.h"
#include "engine/cuda/counters.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static void refuse(struct cuda *c, const struct error *why)
{
    snprintf(c->tracing, sizeof c->tracing, "launches one by one, by events: %.150s", why->message);
}

bool cuda_records_open(struct cuda *c)
{
    struct error why = {0};
    struct activity *a = *c->tracing ? NULL : malloc(sizeof *a); // once refused, always refused
    if (!a)
        return false;
    if (activity_open(a, &why)) {
        c->records = a;
        return true;
    }
    refuse(c, &why);
    free(a);
    return false;
}

static void close_records(struct cuda *c)
{
    activity_close(c->records);
    free(c->records);
    c->records = NULL;
}

void cuda_records_span(struct cuda *c, int32_t span)
{
    if (c->records)
        activity_span(c->records, span);
}

// A span that ran nothing has no length; it lies where the one before it ended. Spans of a stream follow one another: where
// the device's clock says otherwise, by its tolerance, the later one begins at the end of the earlier.
static void write_rows(const struct cuda *c, const struct activity_time *t, int32_t n_spans, int64_t zero_ns,
                       struct trace *trace)
{
    int64_t at = zero_ns;
    for (int32_t i = 0; i < n_spans; i++) {
        bool ran = t[i].begin_ns != UINT64_MAX;
        int64_t begin = ran ? zero_ns + (int64_t)t[i].begin_ns : at, end = ran ? zero_ns + (int64_t)t[i].end_ns : at;
        begin = begin > at ? begin : at, end = end > begin ? end : begin;
        trace_add(trace, (struct trace_row){.span = c->spans[i], .begin_ns = begin, .end_ns = end});
        at = end;
    }
}

// The work itself; its wall time goes into the trace, since opening and reading records takes far longer.
static bool run_recorded(const struct cuda_step *s, int32_t n_spans, cudaGraphExec_t graph, struct trace *trace,
                         struct error *e)
{
    struct cuda *c = s->cuda;
    cudaError_t failed = graph ? cudaGraphUpload(graph, c->stream) : cudaSuccess; // as it is for steps but the first
    if (!failed)
        failed = cudaStreamSynchronize(c->stream);
    int64_t begin = clock_ns();
    if (!failed)
        failed = cuda_numbers_send(c, s->batch);
    if (!failed)
        failed = graph ? cudaGraphLaunch(graph, c->stream) : cuda_enqueue(s, n_spans);
    if (!failed)
        failed = cudaStreamSynchronize(c->stream);
    trace->wall_ns = clock_ns() - begin;
    return cuda_failed(failed, "a recorded step", e);
}

bool cuda_records_step(const struct cuda_step *s, int32_t n_spans, bool as_graph, struct trace *trace)
{
    struct cuda *c = s->cuda;
    struct error why = {0};
    int64_t zero = clock_ns(); // just after activity_open looked at CUPTI's clock
    cudaGraphExec_t graph = NULL;
    struct activity_time *t = calloc((size_t)n_spans, sizeof *t);
    bool ok = t || error_set(&why, ERROR_MEMORY, "no memory for the times of %d spans", n_spans);
    ok = ok && (!as_graph || cuda_graph_capture(s, n_spans, &graph, &why)) && run_recorded(s, n_spans, graph, trace, &why) &&
         activity_times(c->records, n_spans, t, &why);
    if (ok)
        write_rows(c, t, n_spans, zero, trace);
    else
        refuse(c, &why), trace->wall_ns = 0;
    if (graph)
        (void)cudaGraphExecDestroy(graph);
    close_records(c);
    free(t);
    return ok;
}

const char *cuda_tracing(void *self)
{
    const struct cuda *c = self;
    return c->tracing;
}

bool cuda_count_begin(void *self, struct error *e)
{
    struct cuda *c = self;
    return !c->counters ? cuda_counters_begin(&c->counters, e)
                        : error_set(e, ERROR_USAGE, "the device's counters are counting already");
}

bool cuda_count_end(void *self, struct device_counts *out, struct error *e)
{
    struct cuda *c = self;
    struct cuda_counters *counters = c->counters;
    c->counters = NULL;
    return counters ? cuda_counters_end(counters, out, e) : error_set(e, ERROR_USAGE, "nothing is being counted");
}

void cuda_range_push(const struct batch_shape *shape)
{
    nvtxRangePushA(shape->max_rows > 1 ? "prefill" : "decode");
}

void cuda_range_pop(void)
{
    nvtxRangePop();
}
