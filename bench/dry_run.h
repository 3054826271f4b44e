// What a sweep would do: its points, the memory each needs, the time each takes at its roof. Opens no device.
#ifndef BENCH_DRY_RUN_H
#define BENCH_DRY_RUN_H

#include "bench/planner.h"
#include "bench/store.h"

struct dry_run {
    struct planner *planner;
    const struct point_list *points;
    const struct store *done; // points with a row here are left out; or NULL
    // The roof's hardware for a point's number of threads, or NULL where it is not known before measuring.
    const struct hardware *(*roof)(void *ctx, const struct point *p);
    void *ctx;
};

// Text or JSON to f.
bool dry_run_print(FILE *f, const struct dry_run *d, bool json, struct error *e);

#endif
