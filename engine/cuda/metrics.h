// Which counters of which chip are read. Each set takes a single pass over the work, so nothing is run twice; the test
// asks CUPTI's host side, which needs no device, that the names exist and that one pass is all.
#ifndef ENGINE_CUDA_METRICS_H
#define ENGINE_CUDA_METRICS_H

#include <stdint.h>

// Counts that a metric adds to (of struct device_counts).
enum metric_sum { METRIC_DRAM_BYTES, METRIC_L2_BYTES, METRIC_TENSOR_FLOPS, METRIC_SUMS };

struct cuda_metric {
    const char *name; // as CUPTI has it
    enum metric_sum sum;
};

enum { CUDA_METRICS = 8 };
struct cuda_metric_set {
    const char *chip; // as CUPTI calls it
    int32_t n;
    struct cuda_metric metric[CUDA_METRICS];
};

const struct cuda_metric_set *cuda_metrics_of(const char *chip); // NULL: a chip that nobody has looked at
const struct cuda_metric_set *cuda_metric_sets(int32_t *n);

#endif
