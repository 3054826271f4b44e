// What `kvbench sweep` and `kvbench run` share.
#ifndef BENCH_CMD_MEASURE_H
#define BENCH_CMD_MEASURE_H

#include "bench/scenario.h"

// Measures (or lists, with --dry-run) the points of a scenario. folder NULL: rows are printed and not kept.
bool cmd_measure(const struct scenario *s, const struct options *o, const char *folder, struct error *e);

#endif
