// Results on disk: NAME.jsonl (one flushed line per finished point), NAME.blocks.jsonl (samples of points not finished yet),
// NAME.csv and NAME.ops.csv (made from the rows), NAME.roofs.csv (the ceilings), NAME.meta.json. Never overwrites what
// another sweep has measured.
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include "bench/results.h"
#include "bench/sample_block.h"
#include "bench/scenario.h"
#include "roofline/hardware.h"

// A finished point.
struct stored {
    struct result result;
    struct op_result *op; // [n_ops]
    int32_t n_ops;
};
// A line of NAME.jsonl. The caller frees *row, success or not.
bool stored_from_json(struct stored *row, const cJSON *json, const char *where, struct error *e);
void stored_free(struct stored *row);

struct store {
    bool on_disk; // false: rows are only kept in memory
    char folder[512], name[64];
    FILE *rows, *blocks; // appended to
    struct stored *row;  // [n_rows]
    int32_t n_rows, capacity;
    struct sample_block *block; // [n_blocks] of an interrupted sweep, or held back while it waits
    int32_t n_blocks, blocks_capacity;
    struct hardware *hw; // [n_hw] whose ceilings the roofs use, one per number of threads
    int32_t n_hw;
    cJSON *meta;        // owned
    bool waits;         // an older result lies there, until the first point is finished: nothing is written yet
    char moved_to[640]; // where the older result went, or ""
};

// folder NULL: in memory only. Otherwise makes the folder, and with `resume` reads what is there (which must come from the
// same scenario; failed points are forgotten, to be tried again), without it an older result moves to old/ with its date
// once the first point is finished. Takes over meta. A folder that cannot be written is found before anything is measured.
bool store_open(struct store *s, const char *folder, const struct scenario *scenario, bool resume, cJSON *meta,
                struct error *e);
// Only the finished rows of an interrupted sweep, to look at; there may be none.
bool store_peek(struct store *s, const char *folder, const struct scenario *scenario, struct error *e);
void store_close(struct store *s); // accepts zeroed; what was added is on disk already

const struct stored *store_find(const struct store *s, const char *key); // NULL: not finished

// Takes over the row's lists and op[n_ops] (malloc'ed), success or not.
bool store_add(struct store *s, struct result *row, struct op_result *op, int32_t n_ops, struct error *e);
bool store_add_block(struct store *s, const struct sample_block *block, struct error *e);

// What a reader of the result should know beside its rows: into meta as "notes", each once; summaries print them.
void store_note(struct store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A machine whose ceilings the roof uses (again, when they are raised): into meta's "ceilings" and NAME.roofs.csv.
bool store_hardware(struct store *s, const struct hardware *hw, struct error *e);

// The CSV files, and meta with `finished` set (a date), or null when interrupted. A complete result drops its journal.
bool store_finish(struct store *s, bool complete, struct error *e);

// "2025-01-31T12:34:56Z"
void utc_now(char out[32]);

#endif
