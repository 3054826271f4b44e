// The kernels of one instruction set behind one table. ref.c is the plain reading of the formulas; kernels_*.c are compiled
// once per instruction set. Weights and KV are used exactly as stored.
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include "engine/backend.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/storage.h"

enum {
    LINEAR_SCRATCH_BYTES = 32 << 10, // a piece of a panel unpacked
    CPU_MAX_HEAD_DIM = 512,
    CPU_SPLIT = 256, // context positions of one part of attention: fixed, so that results depend on nothing else
    ATTN_STEP = 16,  // positions that attention visits at a time for few queries, one KV head after the other,
    ATTN_GROUP = 64, // and for many; both divide CPU_SPLIT
    ATTN_FEW = 16,   // queries per KV head
};

// Forms of packed weights and the kernels that multiply them: in f32 all, the others in the arithmetic of their own.
#define F32_KERNELS(X)                                                                                                      \
    X(f32, PACK_F32)                                                                                                        \
    X(f16, PACK_F16)                                                                                                        \
    X(bf16, PACK_BF16)                                                                                                      \
    X(int8, PACK_INT8)                                                                                                      \
    X(q8, PACK_Q8)                                                                                                          \
    X(q4, PACK_Q4)                                                                                                          \
    X(q8x, PACK_Q8X)                                                                                                        \
    X(q4x, PACK_Q4X)
#define INT8_KERNELS(X)                                                                                                     \
    X(int8, PACK_INT8)                                                                                                      \
    X(q8, PACK_Q8)                                                                                                          \
    X(q4, PACK_Q4)                                                                                                          \
    X(q8x, PACK_Q8X)                                                                                                        \
    X(q4x, PACK_Q4X)

// sum[r][o] = over all columns k, in order: w[panel * PANEL + o][k] * x[r][k], x as prepared.
struct linear_panel {
    const struct packed *w;
    int32_t panel;
    const uint8_t *x; // [n_rows] prepared rows
    uint64_t x_stride;
    int32_t n_rows;
    float *sum;           // [n_rows][PANEL]
    const uint8_t *ahead; // memory that will be read next, or NULL: its first part is fetched meanwhile
    float *scratch;       // LINEAR_SCRATCH_BYTES
};

// Positions of some KV heads of one sequence.
struct attn_rows {
    const int32_t *table;     // blocks of the sequence
    int32_t head, first, end; // from this KV head on; part of the context
};

// Query vectors of some rows of one sequence: for each of some KV heads, the heads of its group.
struct attn_query {
    const struct kv_layer *kv;
    enum dtype compute;    // f32: everything in it. bf16: KV in bf16 or int8 as ref.c says
    int32_t n_heads, n;    // KV heads; queries of each
    const float *const *q; // [n_heads, n] rows of head_dim values
    const int32_t *begin;  // [n] positions begin[i] .. end[i] - 1 are seen; both ascend
    const int32_t *end;
    float scale, softcap; // scores times scale, then soft-capped; 0: not capped
};

// A softmax that is not divided yet: max of the scores, sum of exp(score - max), and the sum of V weighted alike.
// Nothing seen: max = -infinity, sum and acc 0.
struct attn_part {
    float *max, *sum; // [n_heads, n]
    float *acc;       // [n_heads, n, attn_width], dimensions in an order of the kernels' own
};

struct cpu_kernels {
    const char *name;

    // One panel of a linear layer, by arithmetic and form of the weights; NULL: no such kernel.
    void (*linear[DTYPE_COUNT][PACK_FORMS])(const struct linear_panel *a);
    // n activations as that arithmetic wants them, in row_bytes bytes per value (of n rounded up to a GROUP).
    void (*prepare[DTYPE_COUNT])(const float *x, int32_t n, void *row);
    uint8_t row_bytes[DTYPE_COUNT];
    // A KV row of n values to and from storage; scale: int8's, unused otherwise.
    void (*kv_store[DTYPE_COUNT])(const float *in, void *values, uint16_t *scale, int32_t n);
    // Attention over some rows (at most CPU_SPLIT), from a multiple of ATTN_TILE. `after`: what will most likely be wanted
    // next (of the same layer). scratch: attn_scratch_floats().
    void (*attn)(const struct attn_query *a, const struct attn_rows *rows, const struct attn_rows *after,
                 const struct attn_part *out, float *scratch);
    void (*attn_join)(const struct attn_part *total, const struct attn_part *part, int32_t n, int32_t head_dim);
    void (*attn_end)(const struct attn_query *a, const struct attn_part *total, int32_t query, float *out); // [head_dim]

    void (*norm)(const float *x, const float *weight, float eps, float *y, int32_t n);
    void (*rope)(const float *x, const float *cos, const float *sin, float *y, int32_t n, int32_t rotary_dim);
    void (*act_mul[ACT_KIND_COUNT])(const float *gate, const float *up, float *y, int32_t n); // y may be gate or up
    void (*add)(const float *a, const float *b, float factor, float *y, int32_t n);           // y = a + factor * b
    void (*scale)(float *x, float factor, float softcap, int32_t n); // in place: times factor, then soft-capped if not 0

    // For probe.c. Reads memory once as n_streams (1, 2, 4 or 8) adjacent parts side by side; bytes: a multiple of 64 * 8.
    void (*stream)(const uint8_t *p, uint64_t bytes, int32_t n_streams);
    // to = a, or a + 0.5 b where b is given; n: a multiple of 128. past_cache: with stores that go around the caches.
    void (*move)(float *to, const float *a, const float *b, uint64_t n, bool past_cache);
};

// Floats of one query's row of acc: whole vectors of every type.
static inline uint64_t attn_width(int32_t head_dim)
{
    return ((uint64_t)head_dim + 63) / 64 * 64;
}

// Floats of scratch that `attn` needs for n queries of all heads: themselves, scores, three numbers each; two groups of
// rows; room to align them.
static inline uint64_t attn_scratch_floats(int32_t n, int32_t head_dim)
{
    return (uint64_t)n * (attn_width(head_dim) + CPU_SPLIT + 3) + 2 * ATTN_GROUP * attn_width(head_dim) + 7 * 16;
}

extern const struct cpu_kernels cpu_kernels_ref, cpu_kernels_avx2, cpu_kernels_avx2vnni, cpu_kernels_avx512,
    cpu_kernels_avx512vnni, cpu_kernels_avx512bf16;

// The table called `isa` ("auto" or NULL: the environment's KVBENCH_ISA, else the best this CPU runs).
const struct cpu_kernels *cpu_kernels_select(const char *isa, struct error *e);
const struct cpu_kernels *cpu_kernels_best(void);
bool cpu_kernels_runnable(const struct cpu_kernels *k); // has this CPU the instructions

#endif
