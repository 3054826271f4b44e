// The kernels of one instruction set behind one table. ref.c is the plain reading of the formulas; kernels_*.c are compiled
// once per instruction set. Everything computes in f32; weights and KV are used exactly as stored.
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include "engine/backend.h"
#include "engine/cpu/storage.h"

enum {
    CPU_ROWS = 16, // rows a row kernel takes at once: the weights are read once for all of them
    // More rows than this go through OpenBLAS. It packs both sides first, which few rows do not repay: on a Zen 5 (one core,
    // k = 1024) sgemm of 0.3.21 does 47 GFLOP/s with 17 rows, 95 with 64, 110 with 128 as Haswell and 37, 103, 145 as
    // SkylakeX; the bf16 row kernel does 216 with 16.
    CPU_GEMM_ROWS = 128,
    CPU_MAX_HEAD_DIM = 512,
    CPU_SPLIT = 256, // context positions of one part of attention: fixed, so that results depend on nothing else
    ATTN_TILE = 32,  // positions widened to f32 at a time; divides CPU_SPLIT
};

// What every table multiplies.
#define WEIGHT_TYPES(X)                                                                                                     \
    X(f32, F32)                                                                                                             \
    X(f16, F16)                                                                                                             \
    X(bf16, BF16)                                                                                                           \
    X(q8_0, Q8_0)                                                                                                           \
    X(q4_0, Q4_0)                                                                                                           \
    X(q4_1, Q4_1)                                                                                                           \
    X(q5_0, Q5_0)                                                                                                           \
    X(q5_1, Q5_1)                                                                                                           \
    X(q2_k, Q2_K)                                                                                                           \
    X(q3_k, Q3_K)                                                                                                           \
    X(q4_k, Q4_K)                                                                                                           \
    X(q5_k, Q5_K)                                                                                                           \
    X(q6_k, Q6_K)                                                                                                           \
    X(iq4_nl, IQ4_NL)                                                                                                       \
    X(iq4_xs, IQ4_XS)                                                                                                       \
    X(mxfp4, MXFP4)

// y[r][o] = bias[o] + sum over k of w[o][k] * x[r][k]. Each y is summed over k in one order that n_rows does not change.
struct linear_rows {
    const struct tensor *w; // [n_out, n_in]
    const float *bias;      // [n_out] or NULL
    const float *const *x;  // [n_rows] rows of n_in values
    float *const *y;        // [n_rows] rows of n_out values
    int32_t n_rows;         // 1..CPU_ROWS
};

// Query vectors that share one KV head of one sequence: the heads of its group, for some rows.
struct attn_query {
    const struct kv_layer *kv;
    const int32_t *table;  // blocks of the sequence
    int32_t head;          // KV head
    int32_t n;             // queries
    const float *const *q; // [n] rows of head_dim values
    const int32_t *begin;  // [n] positions begin[i] .. end[i] - 1 are seen
    const int32_t *end;
    float scale, softcap; // scores times scale, then soft-capped; 0: not capped
};

// A softmax that is not divided yet: max of the scores, sum of exp(score - max), and the sum of V weighted alike.
// Nothing seen: max = -infinity, sum and acc 0.
struct attn_part {
    float *max, *sum; // [n]
    float *acc;       // [n, head_dim]
};

struct cpu_kernels {
    const char *name;
    bool gemm; // more than CPU_GEMM_ROWS rows go through OpenBLAS

    // Outputs first .. end-1 of a linear layer, by type of the weights; NULL: no such kernel.
    void (*linear[DTYPE_COUNT])(const struct linear_rows *a, int32_t first, int32_t end);
    // A row of n weights as f32.
    void (*to_f32[DTYPE_COUNT])(const void *row, float *out, int32_t n);
    // A KV row of n values to and from storage; scale: int8's, unused otherwise.
    void (*kv_store[DTYPE_COUNT])(const float *in, void *values, uint16_t *scale, int32_t n);
    // Attention over the positions first .. end-1 (at most CPU_SPLIT). scratch: attn_scratch_floats().
    void (*attn)(const struct attn_query *a, int32_t first, int32_t end, const struct attn_part *out, float *scratch);

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

// Floats of scratch that `attn` needs for n queries: K and V of a tile, scores, corrections.
static inline uint64_t attn_scratch_floats(int32_t n, int32_t head_dim)
{
    uint64_t width = ((uint64_t)head_dim + 15) / 16 * 16;
    return (2 * width + (uint64_t)n) * ATTN_TILE + (uint64_t)n;
}

extern const struct cpu_kernels cpu_kernels_ref, cpu_kernels_avx2, cpu_kernels_avx2vnni, cpu_kernels_avx512,
    cpu_kernels_avx512vnni, cpu_kernels_avx512bf16;

// The table called `isa` ("auto" or NULL: the environment's KVBENCH_ISA, else the best this CPU runs).
const struct cpu_kernels *cpu_kernels_select(const char *isa, struct error *e);
const struct cpu_kernels *cpu_kernels_best(void);
bool cpu_kernels_runnable(const struct cpu_kernels *k); // has this CPU the instructions

#endif
