// The device's counters over whatever runs between two calls, by CUPTI's range profiler.
#ifndef ENGINE_CUDA_COUNTERS_H
#define ENGINE_CUDA_COUNTERS_H

#include "engine/backend.h"
#include "engine/cuda/metrics.h"

struct cuda_counters; // opened by begin, closed by end: while nothing is counted the profiler is not there

// Of the current context's device. *out is NULL after a failure.
bool cuda_counters_begin(struct cuda_counters **out, struct error *e);
bool cuda_counters_end(struct cuda_counters *c, struct device_counts *out, struct error *e); // frees c

// Adds values[set->n] to the counts they belong to; a count without a metric is NaN.
void cuda_counters_add(const struct cuda_metric_set *set, const double *values, struct device_counts *out);

// How many passes a set takes, asked of CUPTI's host side alone: no driver is needed.
bool cuda_counters_passes(const struct cuda_metric_set *set, size_t *passes, struct error *e);

#endif
