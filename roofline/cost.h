// Bytes and FLOPs of operations: the only place where a cost is computed. Weights, KV and FLOPs are the same under every
// cover; only activations depend on it (slots that cross a span's edge; inner slots are free).
#ifndef ROOFLINE_COST_H
#define ROOFLINE_COST_H

#include "engine/backend.h"

struct cost {
    uint64_t weight_bytes;  // read; each tensor once per step; embedding: the rows looked up
    uint64_t kv_read_bytes; // tokens attended by the rows of each sequence, each once, scales included
    uint64_t kv_write_bytes;
    uint64_t act_bytes;          // slots read and written across the span's edge
    uint64_t link_bytes;         // moved per rank: 2(n-1)/n of an all-reduce
    uint64_t flops[DTYPE_COUNT]; // by compute type; a multiply-add is 2
};

void cost_add(struct cost *sum, const struct cost *c);
uint64_t cost_flops(const struct cost *c); // all types
uint64_t cost_bytes(const struct cost *c); // weights + KV read + KV written (what `bound` and `roof` count)

// One span of a step. Adds to nothing: *out is overwritten. `charged` [plan->n_tensors] marks tensors already charged in
// this step (zeroed by the caller at the start of a step).
void cost_of_span(const struct plan *plan, const struct batch *batch, const struct span *span, uint8_t *charged,
                  struct cost *out);

// The whole step, activations those of the given cover (n_spans spans).
bool cost_of_step(const struct plan *plan, const struct batch *batch, const struct span *spans, int32_t n_spans,
                  struct cost *out, struct error *e);

#endif
