// What looks at a step of the backend beside the clock: records of its kernels for a trace, the device's counters, ranges
// for who watches with Nsight. All of it may be absent; each absence is a line for the result.
#ifndef ENGINE_CUDA_INSTRUMENTS_H
#define ENGINE_CUDA_INSTRUMENTS_H

#include "engine/cuda/host.h"

// A step whose spans' times come from CUPTI's records: a decode step as the graph it is when it is timed, captured anew so
// that its nodes are known. Opened first: false where there are no records here (c->tracing says why), and events must do;
// so they must, for good, after a step whose records made no sense.
bool cuda_records_open(struct cuda *c);
bool cuda_records_step(const struct cuda_step *s, int32_t n_spans, bool as_graph, struct trace *trace);

// What is launched or captured from here on is of this span, where records are taken.
void cuda_records_span(struct cuda *c, int32_t span);

// Of struct backend.
bool cuda_count_begin(void *self, struct error *e);
bool cuda_count_end(void *self, struct device_counts *out, struct error *e);
const char *cuda_tracing(void *self);

// A range with the phase's name around a step, as NVTX has them.
void cuda_range_push(const struct batch_shape *shape);
void cuda_range_pop(void);

#endif
