// What measuring itself costs: of a step whose time is known because the null backend only waits, and of tracing the cpu
// backend's spans.
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "engine/base/json.h"

#include <stdint.h>
#include <stdio.h>

struct harness_cost {
    char model[128];
    int32_t n;                     // samples of each kind
    double step_ns, sample_ns;     // of the null backend: what it waits, and the median that was measured
    double untraced_ns, traced_ns; // median step of the cpu backend
    double trace_share;            // median over pairs of neighbours of traced / untraced - 1
    double trace_low, trace_high;  // its 95 % interval
    int32_t n_spans;               // in a step
};
double harness_share(const struct harness_cost *c); // sample_ns / step_ns - 1

// model: a name or path whose decode step (batch 1, context 512) is traced.
bool harness_measure(struct harness_cost *out, const char *model, struct error *e);
void harness_print(FILE *f, const struct harness_cost *c);
cJSON *harness_json(const struct harness_cost *c); // the caller frees

#endif
