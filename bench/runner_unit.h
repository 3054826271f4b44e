// What points of one model, weights and threads share while they are measured: the engine, the hardware of their roofs with
// the probe beside samples, and what watches and counts. runner.c goes through the points.
#ifndef BENCH_RUNNER_UNIT_H
#define BENCH_RUNNER_UNIT_H

#include "bench/open.h"
#include "bench/runner.h"

struct unit { // of points->point[first .. first + count - 1]
    int32_t first, count;
    struct runner *runner;
    struct opened opened;
    struct row_context context;
    struct watch watch;
    struct counters counters;
    struct energy energy;
};

// Loads the model, finds the ceilings (measured where nobody has), opens what watches; tells progress what the points from
// here on will take. unit_close is due in any case.
bool unit_open(struct unit *u, struct error *e);
void unit_close(struct unit *u);

// The best probe of the samples from `from` on is one moment of the ceiling they probe. A ceiling that two moments have
// beaten is none: it is raised, for all points that finish from now on and for whoever reads its file.
bool unit_raise_ceiling(struct unit *u, const struct subject *s, int32_t from, struct error *e);

#endif
