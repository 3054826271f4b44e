// What the files of this backend share: the loaded backend, one step of it, and the kernels' drivers. A driver is called by
// every member of the team for one span and does that member's share; a barrier follows each span.
#ifndef ENGINE_CPU_WALK_H
#define ENGINE_CPU_WALK_H

#include "engine/cpu/cover.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/slots.h"
#include "engine/cpu/team.h"

#include <stdatomic.h>

enum {
    CPU_QUERIES = 128,  // queries that attention takes at a time
    CPU_PIECES = 16,    // pieces of work per member that make shares even enough
    CPU_PARTS = 4 << 20 // floats of scratch for attention parts that wait to be joined
};

// Some rows of one sequence: the unit that attention hands out, times KV heads.
struct attn_tile {
    int32_t seq, first_row, n_rows;
};

// Angles of one of the plan's ropes.
struct turns {
    float inv_freq[2][MODEL_MAX_ROTARY / 2]; // [rotary_dim / 2]; [1]: of sequences that rope_is_long
    float *cos, *sin;                        // [max_tokens, rotary_dim / 2], in the scratch memory
};

struct cpu {
    const struct cpu_kernels *kernels;
    struct team *team;
    const struct plan *plan; // NULL: not loaded
    struct kv_config config;
    int32_t n_tensors;
    struct packed *packed; // [n_tensors] matrices
    uint8_t *weights;      // they lie here, one mapping
    uint64_t weight_bytes;
    float **vector; // [n_tensors] norm weights and biases as f32, NULL for matrices
    struct kv_storage kv;
    struct slots slots;
    struct span *spans; // [n_spans]: the cover, the same for every step
    int32_t n_spans;
    int32_t n_out; // of the last step

    // Scratch, one mapping.
    float *scratch;
    uint64_t scratch_bytes;
    struct turns turns[PLAN_MAX_ROPES];
    uint8_t *prepared;          // activations of a linear layer as its kernel wants them: [rows] prepared_stride bytes
    uint64_t prepared_stride;   // of the longest
    int32_t widest;             // input of a linear layer, in whole cache lines of f32
    float *parts;               // [CPU_PARTS]
    float *member_scratch;      // [members, member_floats]
    uint64_t member_floats;     // what linear layers or attention need
    struct attn_tile *tile;     // [max_tokens]
    int32_t n_tiles, tile_rows; // of this step: how many, and rows of the largest
};

struct step {
    struct cpu *cpu;
    const struct batch *batch;
    struct trace *trace;
    int32_t n_spans;
    atomic_int next[2]; // work taken from the shared queue of even and odd spans
};

// The member's place in a span.
struct share {
    struct step *step;
    int32_t member, n_members, index; // index of the span
};

// Rows of an operation in this step.
int32_t rows_of(const struct step *s, const struct op *op);

// Row r of an operation's input slot, and of its output.
float *in_row(const struct step *s, const struct op *op, int32_t which, int32_t r);
float *out_row(const struct step *s, const struct op *op, int32_t r);

// The member's part [*first, *end) of n things, in multiples of `align`.
void share_range(const struct share *w, int32_t n, int32_t align, int32_t *first, int32_t *end);

// The next of n things that nobody has taken yet in this span, or n.
int32_t share_next(const struct share *w, int32_t n);

float *member_scratch(const struct share *w);

// walk.c
void walk_step(struct cpu *c, const struct batch *batch, struct trace *trace);

// weights.c
bool weights_take(struct cpu *c, const struct plan *plan, const struct tensor *weights, struct error *e);
void weights_drop(struct cpu *c); // accepts none

// linear.c
void walk_linear(const struct share *w, const struct span *span);
uint64_t linear_row_bytes(const struct cpu_kernels *k, enum dtype compute, int32_t n); // of n prepared activations
uint64_t linear_scratch_floats(const struct cpu *c); // of a member; prepared_stride and widest are set

// attention.c
void attention_prepare(struct step *s); // cuts the batch into tiles
void walk_attn(const struct share *w, const struct span *span);
uint64_t attention_scratch_floats(const struct plan *plan);

// elementwise.c
void walk_embed(const struct share *w, const struct span *span);
void walk_norm(const struct share *w, const struct span *span);
void walk_rope(const struct share *w, const struct span *span);
void walk_kv_write(const struct share *w, const struct span *span);
void walk_rope_kv(const struct share *w, const struct span *span);
void walk_values(const struct share *w, const struct span *span);

#endif
