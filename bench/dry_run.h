// What a sweep would do: its points, the memory each needs, the time each takes at its roof. Opens no device.
#ifndef BENCH_DRY_RUN_H
#define BENCH_DRY_RUN_H

#include "bench/planner.h"

// hw: the roof's, or NULL where it is not known before measuring. Text or JSON to f.
bool dry_run_print(FILE *f, struct planner *planner, const struct point_list *points, const struct hardware *hw, bool json,
                   struct error *e);

#endif
