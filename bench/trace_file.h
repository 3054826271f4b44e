// Steps of one point as a Chrome trace (chrome://tracing, Perfetto): a slice per step, in it one per layer, in that one per
// span with what it moved and computed. Made of samples of their own that are not timed.
#ifndef BENCH_TRACE_FILE_H
#define BENCH_TRACE_FILE_H

#include "roofline/roofline.h"

#include <stdio.h>

struct trace_file {
    FILE *f; // into text
    char *text;
    size_t size;
    int32_t n_steps, n_events;
    int64_t origin_ns; // when the first step began
};

// title: what the trace is of, such as a point's key.
bool trace_file_open(struct trace_file *t, const char *title, struct error *e);
void trace_file_close(struct trace_file *t); // accepts zeroed

// One traced step between begin and end. hw: of the roof that slices state; NULL: none.
bool trace_file_add(struct trace_file *t, const struct backend *backend, const struct plan *plan, const struct batch *batch,
                    const struct trace *trace, const struct hardware *hw, int64_t begin_ns, int64_t end_ns, struct error *e);

// Ends the trace and writes it. Nothing may be added after that.
bool trace_file_write(struct trace_file *t, const char *path, struct error *e);

#endif
