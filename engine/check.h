// What every backend that computes refuses, in the same words: operations none of them has, and whatever would lead beyond
// its memory. `backend` is its name; limits of its own it checks itself.
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

#include "engine/backend.h"

bool check_op(const char *backend, const struct op *op, struct error *e);

// The weights of tensor i are there and of the plan's shape.
bool check_tensor(const char *backend, const struct plan *plan, int32_t i, const struct tensor *t, struct error *e);

// opened: the plan that the backend was opened with, or NULL. asked: the plan of this call.
bool check_opened(const char *backend, const struct plan *opened, const struct plan *asked, struct error *e);

// A step within the sizes that buffers have: rows, sequences, outputs, ids, positions, blocks.
bool check_batch(const struct plan *plan, const struct kv_config *kv, const struct batch *b, struct error *e);

bool check_block(const struct kv_config *kv, int32_t block, struct error *e);
bool check_move(const char *backend, const struct kv_config *kv, const struct kv_move *m, struct error *e);

// n_out: output rows of the last step.
bool check_out_row(int32_t out_row, int32_t n_out, struct error *e);

#endif
