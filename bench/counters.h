// Hardware and kernel counters of this process's threads through perf_event_open. What a machine does not count is absent
// with the reason, never 0. Counters run around a sample of their own, never around timed ones.
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include "engine/base/error.h"

#include <stdint.h>

// id, name, perf type, perf config. Hardware events count user space only.
#define COUNTERS(X)                                                                                                         \
    X(CYCLES, "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)                                                       \
    X(INSTRUCTIONS, "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)                                         \
    X(LLC_MISSES, "llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES)                                             \
    X(PAGE_FAULTS, "page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS)                                            \
    X(CONTEXT_SWITCHES, "context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES)

enum counter {
#define X(id, name, type, config) COUNTER_##id,
    COUNTERS(X)
#undef X
        COUNTER_COUNT,
};
const char *counter_name(enum counter c);

struct counters {
    int (*fd)[COUNTER_COUNT]; // [n_threads] -1: absent
    int32_t n_threads;
    bool has[COUNTER_COUNT]; // counted on every thread
    char absent[160];        // "cycles instructions: No such file or directory (perf_event_open)", or ""
};

// Opens what there is on every thread that this process has now. Fails only without memory.
bool counters_open(struct counters *c, struct error *e);
void counters_close(struct counters *c); // accepts zeroed

// Counts between start and stop; stop adds to value[], which is NaN where a counter is absent.
void counters_start(struct counters *c);
void counters_stop(struct counters *c, double value[COUNTER_COUNT]);

#endif
