// The KV cache of one rank as serving engines see it: kinds of layers, bytes of a position, windows, constant states. Made
// from a plan, or from facts that a table of cases states. Refuses to know: models, memory, engines.
#ifndef ROOFLINE_KV_LAYOUT_H
#define ROOFLINE_KV_LAYOUT_H

#include "engine/op.h"

enum kv_layers_kind {
    KV_FULL,   // every position is kept
    KV_WINDOW, // the last `window` positions
    KV_CHUNK,  // the positions since the last multiple of `window`
    KV_STATE,  // a constant number of bytes per sequence
};

// Layers of one kind and one geometry.
struct kv_layers {
    enum kv_layers_kind kind;
    int32_t n_layers;
    bool latent;          // MLA: one row for all heads, the whole of it on every rank
    uint64_t token_bytes; // of one position in one layer, scales and index keys included; 0 for states
    int32_t window;       // KV_WINDOW and KV_CHUNK
    uint64_t state_bytes; // of one sequence in one layer; 0 but for states
    uint64_t conv_bytes;  // of state_bytes, what one column of the convolution takes (a drafted token adds one)
};

enum { KV_LAYOUT_MAX = PLAN_MAX_KV_GROUPS + 2 };

struct kv_layout {
    struct kv_layers layers[KV_LAYOUT_MAX];
    int32_t n;
};

struct kv_layout kv_layout_of_plan(const struct plan *plan);

// One kind of layers only; for geometries that are stated, not read from a model.
struct kv_layout kv_layout_uniform(int32_t n_layers, uint64_t token_bytes, bool latent);

// What one more position costs before any window is full.
uint64_t kv_layout_token_bytes(const struct kv_layout *l);

// What a sequence holds however short it is.
uint64_t kv_layout_state_bytes(const struct kv_layout *l);

// Positions of a sequence of n that layers of this kind keep.
int32_t kv_layers_kept(const struct kv_layers *l, int32_t n);

// Bytes of a sequence of n positions, counted exactly.
uint64_t kv_layout_request_bytes(const struct kv_layout *l, int32_t n);

// Sliding, chunked or constant layers beside full ones: engines part them in groups.
bool kv_layout_is_hybrid(const struct kv_layout *l);

#endif
