// The ceilings of a machine as rows, for the roofline picture: results/NAME.roofs.csv beside the points it belongs to.
#ifndef BENCH_ROOFS_H
#define BENCH_ROOFS_H

#include "bench/results.h"
#include "roofline/hardware.h"

// field, type, unit, description
#define ROOF_COLUMNS(X)                                                                                                     \
    X(hardware, text, "", "name of the machine, as in the main table; cpu-2t: this one with 2 threads")                     \
    X(title, text, "", "the same for people")                                                                               \
    X(kind, text, "", "hard, datasheet or attainable")                                                                      \
    X(resource, text, "", "bandwidth (main memory, read), a cache's name (L3: read from it) or peak")                       \
    X(type, text, "", "peak: type of the arithmetic asked for; else empty")                                                 \
    X(runs_as, text, "", "peak: type the machine does it in, where it has no arithmetic of `type`")                         \
    X(value, real, "B/s or FLOP/s", "the ceiling")                                                                          \
    X(method, text, "", "printed, derived, measured or published")                                                          \
    X(date, text, "", "of the measurement, YYYY-MM-DD")

struct roof_row {
#define X(field, type, unit, description) result_##type field;
    ROOF_COLUMNS(X)
#undef X
};
const struct column *roof_columns(int32_t *n);

// Writes a header and a row per ceiling that is known of hw[n]: one entry per number of threads that was measured.
void roofs_csv(FILE *f, const struct hardware *hw, int32_t n);

#endif
