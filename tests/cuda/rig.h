// A tiny model on two backends: the CPU's, and the CUDA backend's host code and kernels on the emulator.
#ifndef TESTS_CUDA_RIG_H
#define TESTS_CUDA_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/cpu/cover.h"
#include "engine/cpu/walk.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/host.h"
#include "tests/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct cuda_plugin *kvbench_cuda_plugin_1(void);

enum { VOCAB = 320, MAX_SEQS = 3, MAX_LENGTH = 48, BLOCK = 8 };

struct shape {
    struct model_spec spec;
    enum dtype weights, kv_k, kv_v;
    int32_t length[MAX_SEQS]; // 0: no such sequence
    uint64_t seed;
    bool in_fp8; // linear layers of fp8 multiply in fp8, not in bf16
};

static inline struct shape make_shape(int32_t n_q, int32_t n_kv, int32_t head_dim, enum dtype weights, enum dtype kv)
{
    struct shape s = {tiny_spec(), weights, kv, kv, {17, 40, 6}, 0, false};
    s.spec.num_attention_heads = n_q, s.spec.num_key_value_heads = n_kv;
    s.spec.head_dim = head_dim, s.spec.rope.rotary_dim = head_dim;
    return s;
}

// On which backend: the CPU computes in f32, on the same values as the device's, or in bf16, on the same weights.
enum place { ON_CPU_F32, ON_CPU_BF16, ON_CUDA };

struct rig {
    struct backend backend;
    struct plan plan;
    struct tensor *w;
    int32_t block_size, stride;
};

// Rows in `stored`, or the values they stand for as f32.
static inline void make_row(enum dtype stored, bool as_f32, float *x, uint8_t *row, size_t n)
{
    uint8_t exact[4 * n + 2];
    if (stored == DTYPE_FP8)
        for (size_t i = 0; i < n; i++)
            exact[i] = f32_to_e4m3(x[i]);
    else
        assert_true(dtype_from_f32(stored, x, exact, n));
    if (!as_f32) {
        memcpy(row, exact, dtype_row_bytes(stored, n));
        return;
    }
    if (stored == DTYPE_FP8)
        for (size_t i = 0; i < n; i++)
            x[i] = e4m3_to_f32(exact[i]);
    else
        assert_true(dtype_to_f32(stored, exact, x, n));
    memcpy(row, x, n * sizeof *x);
}

static inline enum dtype vector_type(enum dtype weights)
{
    return weights == DTYPE_F32 || weights == DTYPE_F16 ? weights : DTYPE_BF16;
}

// Matrices of unit gain, norms around 1, small biases.
static inline struct tensor *random_model(const struct plan *plan, const struct shape *shape, bool as_f32)
{
    struct tensor *w = calloc((size_t)plan->n_tensors, sizeof *w);
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        const struct tensor_spec *t = &plan->tensor[i];
        size_t cols = (size_t)t->cols;
        enum dtype stored = t->rows == 1 ? vector_type(shape->weights) : shape->weights;
        uint64_t row_bytes = dtype_row_bytes((enum dtype)t->dtype, cols);
        uint8_t *data = malloc(row_bytes * (uint64_t)t->rows);
        float x[cols], limit = t->rows > 1 ? sqrtf(3 / (float)cols) : 0.5f;
        bool norm = t->rows == 1 && !strstr(tensor_role_name((enum tensor_role)t->role), "_bias");
        for (int32_t r = 0; r < t->rows; r++) {
            for (size_t k = 0; k < cols; k++)
                x[k] =
                    norm + limit * (2 * rng_uniform(rng_at(shape->seed * 1000 + (uint64_t)i, (uint64_t)r * cols + k)) - 1);
            make_row(stored, as_f32, x, data + (uint64_t)r * row_bytes, cols);
        }
        w[i] = (struct tensor){.data = data, .dtype = (enum dtype)t->dtype, .rows = t->rows, .cols = t->cols};
    }
    return w;
}

static inline void rig_open_sized(struct rig *r, const struct shape *shape, enum place place, const struct kv_config *config)
{
    struct error e = {0};
    bool as_f32 = place == ON_CPU_F32;
    struct plan_options o = plan_options_default(as_f32 ? DTYPE_F32 : shape->weights);
    struct backend_options b = {.threads = 1};
    if (place == ON_CUDA)
        b.isa = "fixed"; // times mean nothing on the emulator
    else if (shape->kv_k == DTYPE_FP8)
        b.isa = "ref"; // which alone has it
    o.kv_k = shape->kv_k, o.kv_v = shape->kv_v;
    if (o.compute == DTYPE_FP8 && !shape->in_fp8)
        o.compute = DTYPE_BF16;
    if (place == ON_CPU_BF16)
        o.compute_of = cpu_compute_of;
    assert_true(plan_make(&r->plan, &shape->spec, &o, &e));
    r->w = random_model(&r->plan, shape, as_f32);
    r->block_size = config->block_size;
    r->stride = config->n_blocks / config->max_seqs;
    bool ok =
        place == ON_CUDA ? kvbench_cuda_plugin_1()->open(&r->backend, &b, &e) : backend_open(&r->backend, "cpu", &b, &e);
    if (!ok || !r->backend.load(r->backend.self, &r->plan, r->w, &e) ||
        !r->backend.open(r->backend.self, &r->plan, config, &e))
        fail_msg("%s", e.message);
}

static inline void rig_open(struct rig *r, const struct shape *shape, enum place place)
{
    const struct kv_config config = {MAX_SEQS * MAX_LENGTH / BLOCK, BLOCK, MAX_SEQS * MAX_LENGTH, MAX_SEQS,
                                     MAX_SEQS * MAX_LENGTH};
    rig_open_sized(r, shape, place, &config);
}

static inline void free_model(struct tensor *w, const struct plan *plan)
{
    for (int32_t i = 0; i < plan->n_tensors; i++)
        free((void *)(uintptr_t)w[i].data);
    free(w);
}

static inline void rig_close(struct rig *r)
{
    backend_close(&r->backend);
    free_model(r->w, &r->plan);
    plan_free(&r->plan);
}

static inline struct cuda *cuda_of(const struct rig *r)
{
    return r->backend.self;
}

// One batch under construction.
enum { STEP_ROWS = 512, STEP_SEQS = 80 };
struct draft {
    struct batch b;
    int32_t token[STEP_ROWS], pos[STEP_ROWS], out_row[STEP_ROWS], seq_first[STEP_SEQS + 1], ctx_len[STEP_SEQS];
    int32_t seq[STEP_SEQS], *table;
};

static inline void step_begin(struct draft *s, const struct rig *r)
{
    free(s->table);
    s->table = calloc((size_t)(STEP_SEQS * r->stride), sizeof *s->table);
    s->seq_first[0] = 0;
    s->b = (struct batch){.block_size = r->block_size,
                          .table_stride = r->stride,
                          .token = s->token,
                          .pos = s->pos,
                          .seq_first = s->seq_first,
                          .ctx_len = s->ctx_len,
                          .out_row = s->out_row,
                          .table = s->table};
}

static inline int32_t token_of(int32_t seq, int32_t pos)
{
    return (seq * 131 + pos * 37 + pos * pos) % VOCAB;
}

// Appends rows first .. first+n-1 of a sequence, all of them wanted; its blocks lie backwards, among those of others.
static inline void step_add(struct draft *s, const struct rig *r, int32_t seq, int32_t first, int32_t n, int32_t n_seqs)
{
    int32_t i = s->b.n_seqs++;
    for (int32_t p = first; p < first + n; p++) {
        s->token[s->b.n_tokens] = token_of(seq, p);
        s->pos[s->b.n_tokens] = p;
        s->out_row[s->b.n_tokens] = s->b.n_tokens;
        s->b.n_tokens++;
    }
    s->b.n_out = s->b.n_tokens;
    s->seq[i] = seq, s->seq_first[i + 1] = s->b.n_tokens, s->ctx_len[i] = first + n;
    for (int32_t k = 0; k < r->stride; k++)
        s->table[i * r->stride + k] = (r->stride - 1 - k) * n_seqs + seq;
}

static inline void step_run(const struct draft *s, struct rig *r, struct trace *trace)
{
    struct error e = {0};
    if (!r->backend.run(r->backend.self, &r->plan, &s->b, trace, &e))
        fail_msg("%s", e.message);
}

static inline void read_row(const struct rig *r, int32_t row, float *logits)
{
    struct error e = {0};
    if (!r->backend.read(r->backend.self, row, logits, &e))
        fail_msg("%s", e.message);
}

// How far b is from a, relative to the largest value of a.
static inline float difference(const float *a, const float *b, size_t n)
{
    float high = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        high = fmaxf(high, fabsf(a[i]));
        worst = fmaxf(worst, isfinite(b[i]) ? fabsf(a[i] - b[i]) : INFINITY);
    }
    assert_true(high > 0.1f);
    return worst / high;
}

#endif
