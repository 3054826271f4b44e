// A backend that computes nothing: it witnesses the harness. It checks what it is given (tables, positions, spans),
// counts steps and rows, and can cover a plan at random (adjacent operations grouped by a seed) so that tests see that
// weights, KV and FLOPs do not depend on the cover. Logits are a seeded function of (token, position) of the row, so that
// two runs of one batch agree: it can replay by key.
#ifndef ENGINE_NULL_NULL_H
#define ENGINE_NULL_NULL_H

#include "engine/backend.h"

bool null_backend_open(struct backend *out, const struct backend_options *options, struct error *e);

// seed 0: operation by operation. Otherwise adjacent operations are grouped at random.
void null_backend_set_cover(struct backend *b, uint64_t seed);
// Every run() takes this long (busy wait), so that the harness's own cost can be measured.
void null_backend_set_step_ns(struct backend *b, int64_t ns);
int64_t null_backend_rows(const struct backend *b); // rows run so far

#endif
