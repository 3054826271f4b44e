// Measures the points of a scenario: opens each model once per weight type, goes through the points in windows that share a
// KV pool, block by block in turn, and hands each finished point to the store.
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include "bench/measure.h"
#include "bench/progress.h"
#include "bench/rows.h"
#include "bench/store.h"

struct runner {
    // The caller's, set before runner_run.
    const struct scenario *scenario;
    const struct point_list *points;
    struct planner *planner;
    struct store *store;
    struct progress *progress;
    struct backend_options device;
    const char *ceilings_folder;       // where this machine's ceilings lie; NULL: measured, not kept
    const volatile sig_atomic_t *stop; // set when interrupted
    unsigned fail_on;                  // set of trust codes with which a point fails the run
    const struct point *trace_point;   // of points, or NULL: also traced into trace_path
    const char *trace_path;

    // What came out.
    int32_t n_measured, n_failed, n_no_memory, n_over_bound, n_distrusted; // no_memory: of the failed
    char first_failed[512], first_over_bound[512], first_distrusted[512];  // key and reason
    struct hardware hardware;                                              // of the roof, used last
    bool has_hardware;

    // While it runs.
    struct ceiling_probe probe;
    bool has_probe;
    struct fitted fitted;                        // of the unit's threads
    struct ceiling_best read, peak[DTYPE_COUNT]; // of the probes beside samples, with these threads
    char raised[160];                            // for the reason of the row that is next: which ceiling, from where
    int64_t began_ns;
    int64_t device_ns; // step time of the null backend (tests)
};

// False with ERROR_INTERRUPTED, or a failure that ends the run (output, device, a broken file). Points that fail become rows
// and do not end it; ask runner_verdict.
bool runner_run(struct runner *r, struct error *e);

// ERROR_OVER_BOUND, ERROR_FAILED or ERROR_DISTRUSTED (a code of fail_on) with one line that says how many and which first;
// ERROR_MEMORY where no point fits; true if there are none.
bool runner_verdict(const struct runner *r, struct error *e);

// What one sample will take, ns: a guess from its roof.
double expected_sample_ns(double roof_ns);
// What one point will take, all blocks, ns (roof 0: unknown). progress.h corrects it by what points really take.
double expected_point_ns(const struct scenario *s, double roof_ns);

#endif
