// Bytes and FLOPs of operations: the only place where a cost is computed. Weights, KV and FLOPs are the same under every
// cover; only activations depend on it (slots that cross a span's edge; inner slots are free).
//
// Conventions (roofline/README.md): only matrix products count FLOPs: LINEAR (2 x in x out per row), ATTN (4 x heads x
// head_dim per attended pair of row and key), MLA (the cheaper of unfolded and absorbed), INDEX, STATE, ROUTE, EXPERTS. An
// embedding look-up reads its rows of the table; a tied head reads what is left of it.
#ifndef ROOFLINE_COST_H
#define ROOFLINE_COST_H

#include "engine/backend.h"

struct cost {
    uint64_t weight_bytes;        // read; each tensor once per step; embedding: the rows looked up; experts: those
                                  // that rows choosing at random touch, E (1 - (1 - k/E)^rows) of them
    uint64_t expert_spread_bytes; // of weight_bytes: what would not be read if all rows chose the same experts
    uint64_t kv_read_bytes;       // positions attended by the rows of each sequence, each once, scales included; states
    uint64_t kv_write_bytes;      // one position per row; states
    uint64_t act_bytes;           // slots read and written across the span's edge
    uint64_t act_distance;        // of one operation: bytes moved since the longest-waiting of those it reads was written,
                                  // itself included; sums keep the largest
    uint64_t link_bytes;          // moved per rank: 2(n-1)/n of an all-reduce
    uint64_t flops[DTYPE_COUNT];  // by compute type; a multiply-add is 2
};

// Sums stay at UINT64_MAX once they get there: cost_countable tells.
void cost_add(struct cost *sum, const struct cost *c);
uint64_t cost_flops(const struct cost *c); // all types
uint64_t cost_bytes(const struct cost *c); // weights + KV read + KV written (what `bound` and `roof` count)
bool cost_countable(const struct cost *c); // false: more than 64 bits hold, as attention over millions of tokens may be

// A walk over the operations of one step, in order: it remembers which tensors and slots have been paid for. Made once
// per plan, begun anew for each step; begin takes O(slots + sequences), next O(1), and neither allocates.
struct cost_walk {
    const struct plan *plan; // the caller's, as are batch and spans
    const struct batch *batch;
    const struct span *spans;
    int32_t op, span;             // next operation, and the span it is in
    int32_t *last_use, *writer;   // [n_slots] operation that last reads it, that writes it
    int32_t *read_by, *read_rows; // [n_slots] span (its first operation) that last paid for reading it, and how many rows
    uint64_t moved;               // bytes of the operations so far
    uint64_t *written_at;         // [n_slots] `moved` when it was written
    uint64_t *charged;            // [n_tensors] bytes already charged in this step
    uint64_t pairs[PLAN_MAX_KV_GROUPS];     // (row, key) pairs attended in one layer of the group
    uint64_t positions[PLAN_MAX_KV_GROUPS]; // KV positions read in one layer of the group
    uint64_t scored_pairs, scored;          // the same for an indexer, which looks at every position
};

bool cost_walk_init(struct cost_walk *w, const struct plan *plan, struct error *e);
void cost_walk_free(struct cost_walk *w); // accepts zeroed

// spans: a cover of the plan; NULL: operation by operation. Fails if it is no cover.
bool cost_walk_begin(struct cost_walk *w, const struct batch *batch, const struct span *spans, int32_t n_spans,
                     struct error *e);
// The cost of the next operation (*out is overwritten); false after the last.
bool cost_walk_next(struct cost_walk *w, struct cost *out);

// The whole step at once.
bool cost_of_step(const struct plan *plan, const struct batch *batch, const struct span *spans, int32_t n_spans,
                  struct cost *out, struct error *e);

#endif
