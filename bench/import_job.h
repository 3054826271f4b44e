// One row on its way from facts to a result: import_settle.c looks names up, fills gaps and prices; import_row.c writes down
// what came of it.
#ifndef BENCH_IMPORT_JOB_H
#define BENCH_IMPORT_JOB_H

#include "bench/import_price.h"

struct import_job {
    struct import_catalogue *catalogue;
    const struct import_flags *flags;
    struct import_facts f; // the source's, with gaps filled; borrows its samples
    struct result *row;
    const struct model_spec *spec;
    const struct hardware *hw;
    enum dtype kv_k, kv_v, compute;
    bool kv_stated;
    double bits; // of a weight
    enum dtype type;
    struct hardware fast; // where hw is not the catalogue's own
    struct plan plan;
    bool has_plan;
    struct import_work work;
    struct import_price price;
    char lacks[200]; // why there is no roof, or ""
};

// The roof of what the facts describe. False with `lacks` where there is none; what was taken for granted is in the row's
// `assumed`, and f has its gaps filled and its time worked out either way.
bool import_settle(struct import_job *j);

#endif
