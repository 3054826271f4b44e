// Covering a plan by a table of patterns: a backend lists which runs of operations its kernels take, longest first.
#ifndef ENGINE_COVER_H
#define ENGINE_COVER_H

#include "engine/backend.h"

enum { PATTERN_LONGEST = 6 };

struct pattern {
    uint16_t kernel; // the backend's number
    int32_t count;   // operations
    uint8_t kind[PATTERN_LONGEST];
    bool (*fits)(const struct op *op); // op[0 .. count-1] are of those kinds; NULL: that is enough
    bool keeps_first;                  // what op[0] makes never leaves the kernel: no operation behind it may read that
};

// First match wins. An operation that no pattern takes becomes a span of its own with kernel `none`. strategy 0.
int32_t cover_by_patterns(const struct pattern *pattern, int32_t n_patterns, uint16_t none, const struct plan *plan,
                          struct span *spans);

// What patterns ask for.
bool cover_qkv(const struct op *op);               // LINEAR x 3 over one input
bool cover_residual(const struct op *op);          // LINEAR, ADD of its result
bool cover_gated(const struct op *op);             // LINEAR, LINEAR, ACT: gate, up over one input
bool cover_turned(const struct op *op);            // ROPE q, ROPE k, KV_WRITE of that k
bool cover_normed_and_turned(const struct op *op); // NORM q, NORM k by heads, then the same
bool cover_add_norm(const struct op *op);          // ADD, NORM of the sum

#endif
