// A backend that computes nothing: it witnesses the harness. It checks all it is given (rows, positions, output rows,
// tables, its own spans), counts rows, can cover a plan at random, and can replay recorded times.
//
// In place of K and V it keeps one tag per position: a hash of the whole sequence up to there, read through the block table
// as attention would. So it notices a table entry that is wrong or a copy that was not made, and its logits, a function of
// the row's tag alone, are equal when and only when the history is.
#ifndef ENGINE_NULL_NULL_H
#define ENGINE_NULL_NULL_H

#include "engine/backend.h"

bool null_backend_open(struct backend *out, const struct backend_options *options, struct error *e);

// seed 0: operation by operation. Otherwise adjacent operations are grouped at random.
void null_backend_set_cover(struct backend *b, uint64_t seed);
// Every run() takes this long (busy wait), so that the harness's own cost can be measured.
void null_backend_set_step_ns(struct backend *b, int64_t ns);
int64_t null_backend_rows(const struct backend *b); // rows run so far

// Replay by key: a step's shape is the key. From here on now_ns() is a simulated clock that each run() advances by the time
// recorded for its shape; a shape without a record fails. rows[n] are the caller's and must outlive the backend.
struct null_record {
    struct batch_shape shape;
    int64_t ns;
};
void null_backend_set_replay(struct backend *b, const struct null_record *rows, int32_t n);

#endif
