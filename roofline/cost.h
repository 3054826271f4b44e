// Bytes and FLOPs of operations: the only place where a cost is computed. Weights, KV and FLOPs are the same under every
// cover; only activations depend on it (slots that cross a span's edge; inner slots are free).
//
// Conventions (roofline/README.md): only LINEAR (2 x in x out per row) and ATTN (4 x heads x head_dim per attended pair
// of row and key) count FLOPs. An embedding look-up reads its rows of the table; a tied head reads what is left of it.
#ifndef ROOFLINE_COST_H
#define ROOFLINE_COST_H

#include "engine/backend.h"

struct cost {
    uint64_t weight_bytes;       // read; each tensor once per step; embedding: the rows looked up
    uint64_t kv_read_bytes;      // positions attended by the rows of each sequence, each once, scales included
    uint64_t kv_write_bytes;     // one position per row
    uint64_t act_bytes;          // slots read and written across the span's edge
    uint64_t link_bytes;         // moved per rank: 2(n-1)/n of an all-reduce
    uint64_t flops[DTYPE_COUNT]; // by compute type; a multiply-add is 2
};

void cost_add(struct cost *sum, const struct cost *c);
uint64_t cost_flops(const struct cost *c); // all types
uint64_t cost_bytes(const struct cost *c); // weights + KV read + KV written (what `bound` and `roof` count)

// A walk over the operations of one step, in order: it remembers which tensors and slots have been paid for. Made once
// per plan, begun anew for each step; begin and op allocate nothing and take O(sequences) and O(1).
struct cost_walk {
    const struct plan *plan; // the caller's
    const struct batch *batch;
    int32_t *last_use, *writer, *read_by; // [n_slots] last reader; writer; span (its first operation) that last paid a read
    uint64_t *charged;                    // [n_tensors] bytes already charged in this step
    uint64_t pairs[PLAN_MAX_KV_GROUPS];   // (row, key) pairs attended in one layer of the group
    uint64_t positions[PLAN_MAX_KV_GROUPS]; // KV positions read in one layer of the group
};

bool cost_walk_init(struct cost_walk *w, const struct plan *plan, struct error *e);
void cost_walk_begin(struct cost_walk *w, const struct batch *batch);
void cost_walk_free(struct cost_walk *w); // accepts zeroed

// Cost of operation `i`, run as part of `span`; *out is overwritten. Each operation once per step, in order.
void cost_walk_op(struct cost_walk *w, int32_t i, const struct span *span, struct cost *out);

// The whole step under a cover (operation by operation when spans is NULL).
bool cost_of_step(const struct plan *plan, const struct batch *batch, const struct span *spans, int32_t n_spans,
                  struct cost *out, struct error *e);

// Fails unless the spans are a cover: every operation exactly once, in order.
bool cover_check(const struct plan *plan, const struct span *spans, int32_t n_spans, struct error *e);

#endif
