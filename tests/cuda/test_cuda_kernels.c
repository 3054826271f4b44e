// Each CUDA kernel, run on the CPU by the emulator, against its formula in double precision on the same rounded inputs.
// KVEMU_ORDER permutes threads and blocks: the results must not depend on it.
#include "engine/base/rng.h"
#include "engine/cuda/kernels.h"
#include "engine/model_spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/device_data.h"

static uint64_t random_state = 1;

static float uniform(void) // -1 .. 1
{
    return rng_uniform(rng_next(&random_state)) * 2 - 1;
}

// Device copies, freed by free_all.
static void *allocated[64];
static int n_allocated;

static void *device(const void *host, size_t bytes)
{
    return allocated[n_allocated++] = device_copy(host, bytes);
}

static void fetch(void *host, const void *from, size_t bytes)
{
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost));
}

static void free_all(void)
{
    while (n_allocated)
        ok(cudaFree(allocated[--n_allocated]));
}

static bf16 *random_bf16(size_t n, float scale)
{
    bf16 *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = f32_to_bf16(uniform() * scale);
    return x;
}

struct deviation {
    double error, norm;
};

static void add(struct deviation *d, double expected, double got)
{
    d->error += (expected - got) * (expected - got);
    d->norm += expected * expected;
}

static void assert_close(struct deviation d, double tolerance)
{
    double relative = sqrt(d.error / (d.norm > 0 ? d.norm : 1));
    if (!(relative <= tolerance))
        fail_msg("relative error %g, allowed %g", relative, tolerance);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void test_add_norm(void **state)
{
    (void)state;
    static const int CASE[][3] = {{3, 1, 96}, {2, 4, 32}, {1, 1, 1024}, {5, 2, 64}};
    for (size_t c = 0; c < sizeof CASE / sizeof *CASE; c++) {
        int rows = CASE[c][0], groups = CASE[c][1], size = CASE[c][2], width = groups * size;
        bf16 *x = random_bf16((size_t)(rows * width), 1), *r = random_bf16((size_t)(rows * width), 1),
             *w = random_bf16((size_t)size, 1), y[rows * width], s[rows * width];
        struct cuda_add_norm a = {.a = device(x, sizeof y),
                                  .b = device(r, sizeof y),
                                  .weight = device(w, (size_t)size * 2),
                                  .sum_out = device(NULL, sizeof y),
                                  .y = device(NULL, sizeof y),
                                  .rows = rows,
                                  .n_groups = groups,
                                  .size = size,
                                  .factor = 0.5f,
                                  .eps = 1e-5f};
        ok(cuda_add_norm(&a, NULL));
        fetch(y, a.y, sizeof y);
        fetch(s, a.sum_out, sizeof s);
        struct deviation d = {0};
        for (int g = 0; g < rows * groups; g++) {
            double squares = 0, v[size];
            for (int i = 0; i < size; i++) {
                int at = g * size + i;
                v[i] = bf16_to_f32(f32_to_bf16(bf16_to_f32(x[at]) + 0.5f * bf16_to_f32(r[at])));
                assert_true(bf16_to_f32(s[at]) == (float)v[i]);
                squares += v[i] * v[i];
            }
            for (int i = 0; i < size; i++)
                add(&d, v[i] / sqrt(squares / size + 1e-5) * bf16_to_f32(w[i]), bf16_to_f32(y[g * size + i]));
        }
        assert_close(d, 3e-3);
        free(x), free(r), free(w);
        free_all();
    }
}

// A random matrix as stored, on the device, and its values.
static struct cuda_matrix random_matrix(enum dtype type, int n_out, int n_in, float *values)
{
    size_t n = (size_t)n_out * (size_t)n_in, groups = n / 32;
    uint8_t *data = malloc(2 * n);
    uint16_t *scale = malloc((groups + (size_t)n_out) * sizeof *scale);
    float *wide = malloc((size_t)n_out * sizeof *wide); // fp8's scales
    for (int i = 0; i < n_out; i++)
        wide[i] = 0.25f + fabsf(uniform());
    for (size_t i = 0; i < groups + (size_t)n_out; i++)
        scale[i] = f32_to_f16(0.01f + 0.02f * fabsf(uniform()));
    for (size_t i = 0; i < n; i++) {
        size_t row = i / (size_t)n_in;
        uint8_t byte = (uint8_t)(int8_t)lrintf(uniform() * 127);
        switch (type) {
        case DTYPE_BF16:
            ((uint16_t *)data)[i] = f32_to_bf16(uniform()), values[i] = bf16_to_f32(((uint16_t *)data)[i]);
            break;
        case DTYPE_F16: ((uint16_t *)data)[i] = f32_to_f16(uniform()), values[i] = f16_to_f32(((uint16_t *)data)[i]); break;
        case DTYPE_INT8: data[i] = byte, values[i] = (float)(int8_t)byte * f16_to_f32(scale[row]); break;
        case DTYPE_Q8_0: data[i] = byte, values[i] = (float)(int8_t)byte * f16_to_f32(scale[i / 32]); break;
        case DTYPE_FP8: data[i] = byte & 0xb7, values[i] = e4m3_to_f32(data[i]) * wide[row]; break;
        default: { // q4_0: byte j of a block holds values j and j + 16
            size_t j = i % 32, at = i / 32 * 16 + j % 16;
            if (j < 16)
                data[at] = byte;
            int nibble = j < 16 ? data[at] & 15 : data[at] >> 4;
            values[i] = (float)(nibble - 8) * f16_to_f32(scale[i / 32]);
        }
        }
    }
    const void *scales = type == DTYPE_FP8 ? device(wide, (size_t)n_out * sizeof *wide)
                                           : device(scale, (groups + (size_t)n_out) * sizeof *scale);
    struct cuda_matrix m = {device(data, 2 * n), scales, (int32_t)type, n_out, n_in};
    free(data), free(scale), free(wide);
    return m;
}

static const enum dtype TYPE[] = {DTYPE_BF16, DTYPE_F16, DTYPE_FP8, DTYPE_INT8, DTYPE_Q8_0, DTYPE_Q4_0};

static void check_linear(enum dtype type, int rows, int n_in, int act)
{
    enum { OUT = 40 };
    static const int N_OUT[] = {OUT, 16, 24};
    int n = act ? 2 : 3;
    float *w[3];
    bf16 *x = random_bf16((size_t)(rows * 2 * n_in), 1), *bias = random_bf16(OUT, 1);
    int32_t pick[CUDA_LINEAR_MAX_ROWS];
    for (int r = 0; r < rows; r++)
        pick[r] = 2 * r + 1;
    struct cuda_linear a = {.n = n, .x = device(x, (size_t)(rows * 2 * n_in) * 2), .row = device(pick, sizeof pick)};
    a.rows = rows, a.factor = act ? 1 : 0.25f, a.softcap = act ? 0 : 3, a.act = act;
    for (int m = 0; m < n; m++) {
        int n_out = act ? OUT : N_OUT[m];
        w[m] = malloc((size_t)(n_out * n_in) * sizeof(float));
        a.w[m] = random_matrix(type, n_out, n_in, w[m]);
        a.y[m] = device(NULL, (size_t)(rows * n_out) * sizeof(float));
    }
    a.bias[0] = device(bias, OUT * 2), a.act_out = device(NULL, (size_t)(rows * OUT) * 2), a.y_is_f32 = !act;
    ok(cuda_linear(&a, NULL));
    struct deviation d = {0};
    double y[2][CUDA_LINEAR_MAX_ROWS][OUT];
    for (int m = 0; m < n; m++) {
        int n_out = a.w[m].n_out;
        float got[rows * n_out];
        if (!act)
            fetch(got, a.y[m], sizeof got);
        for (int r = 0; r < rows; r++)
            for (int o = 0; o < n_out; o++) {
                double sum = m ? 0 : bf16_to_f32(bias[o]);
                for (int k = 0; k < n_in; k++)
                    sum += (double)w[m][o * n_in + k] * bf16_to_f32(x[pick[r] * n_in + k]);
                if (act)
                    y[m][r][o] = sum;
                else
                    add(&d, 3 * tanh(sum * 0.25 / 3), got[r * n_out + o]);
            }
    }
    bf16 acted[rows * OUT];
    fetch(acted, a.act_out, sizeof acted);
    for (int i = 0; act && i < rows * OUT; i++)
        add(&d, silu(y[0][i / OUT][i % OUT]) * y[1][i / OUT][i % OUT], bf16_to_f32(acted[i]));
    assert_close(d, act ? 6e-3 : 4e-3);
    for (int m = 0; m < n; m++)
        free(w[m]);
    free(x), free(bias);
    free_all();
}

static void test_linear(void **state)
{
    (void)state;
    static const int ROWS[] = {1, 2, 8, 9, 16, 17, 33, CUDA_LINEAR_MAX_ROWS}, IN[] = {32, 96, 512, 1056};
    for (size_t t = 0; t < sizeof TYPE / sizeof *TYPE; t++)
        for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
            check_linear(TYPE[t], ROWS[i], IN[i % 4], 0);
            check_linear(TYPE[t], ROWS[i], IN[(i + 2) % 4], ACT_SILU + 1);
        }
}

// A row's result may not depend on its neighbours.
static void test_rows_alone(void **state)
{
    (void)state;
    enum { IN = 256, OUT = 48, ROWS = 40 };
    float *w = malloc(OUT * IN * sizeof *w), together[ROWS][OUT], alone[OUT];
    bf16 *x = random_bf16(ROWS * IN, 1), *dx = device(x, ROWS * IN * 2);
    struct cuda_linear a = {.n = 1, .x = dx, .rows = ROWS, .y_is_f32 = true, .factor = 1};
    a.w[0] = random_matrix(DTYPE_Q8_0, OUT, IN, w), a.y[0] = device(NULL, sizeof together);
    ok(cuda_linear(&a, NULL));
    fetch(together, a.y[0], sizeof together);
    for (int r = 0; r < ROWS; r++) {
        a.x = dx + r * IN, a.rows = 1;
        ok(cuda_linear(&a, NULL));
        fetch(alone, a.y[0], sizeof alone);
        assert_memory_equal(alone, together[r], sizeof alone);
    }
    free(w), free(x);
    free_all();
}

static void test_widen_and_embed(void **state)
{
    (void)state;
    enum { IN = 64, OUT = 24 };
    for (size_t t = 0; t < sizeof TYPE / sizeof *TYPE; t++) {
        float w[OUT * IN];
        bf16 all[OUT * IN], rows[3 * IN];
        const int32_t token[] = {5, 23, 0};
        struct cuda_matrix m = random_matrix(TYPE[t], OUT, IN, w);
        bf16 *out = device(NULL, sizeof all), *embedded = device(NULL, sizeof rows);
        ok(cuda_widen(&m, 0, OUT, out, NULL));
        ok(cuda_embed(&m, device(token, sizeof token), 3, 2, embedded, NULL));
        fetch(all, out, sizeof all);
        fetch(rows, embedded, sizeof rows);
        for (int i = 0; i < OUT * IN; i++)
            assert_int_equal(all[i], f32_to_bf16(w[i]));
        for (int i = 0; i < 3 * IN; i++)
            assert_int_equal(rows[i], f32_to_bf16(2 * bf16_to_f32(f32_to_bf16(w[token[i / IN] * IN + i % IN]))));
        free_all();
    }
}

// Sequences with paged KV, filled by the fill kernel and read back, so that the reference sees what is stored.
enum { SEQS = 3, BLOCKS = 40 };

struct cache {
    struct cuda_kv kv;
    size_t bytes;
    uint8_t *host;
    int32_t table[SEQS][BLOCKS];
};

static void make_cache(struct cache *c, enum dtype k, enum dtype v, int heads, int d, int block_size, const int *ctx)
{
    static const int PERMUTE = 7; // shares no factor with BLOCKS
    *c = (struct cache){.kv = {.type = {(int32_t)k, (int32_t)v}, .scale = {0.5f, 0.25f}, .n_heads = heads, .head_dim = d}};
    c->kv.block_size = block_size;
    for (int side = 0; side < 2; side++)
        c->kv.head_bytes[side] = dtype_row_bytes((enum dtype)c->kv.type[side], (uint64_t)d) * (uint64_t)block_size;
    c->kv.block_bytes = (c->kv.head_bytes[0] + c->kv.head_bytes[1]) * (uint64_t)heads;
    c->bytes = BLOCKS * c->kv.block_bytes;
    c->kv.base = device(NULL, c->bytes);
    int next = 0;
    for (int s = 0; s < SEQS; s++)
        for (int b = 0; b < BLOCKS; b++) {
            bool used = b * block_size < ctx[s];
            c->table[s][b] = used ? next++ * PERMUTE % BLOCKS : 0x7fffffff; // what is unused must never be read
            if (used)
                ok(cuda_kv_fill(&c->kv, c->table[s][b], (uint64_t)b + 1, NULL));
        }
    assert_true(next <= BLOCKS);
    c->host = malloc(c->bytes);
    fetch(c->host, c->kv.base, c->bytes);
}

static void kv_row(const struct cache *c, int side, int seq, int head, int position, float *out)
{
    const struct cuda_kv *kv = &c->kv;
    int d = kv->head_dim, in_block = position % kv->block_size,
        wide = kv->type[side] == DTYPE_BF16 || kv->type[side] == DTYPE_F16;
    const uint8_t *run = c->host + (size_t)c->table[seq][position / kv->block_size] * kv->block_bytes +
                         (side ? kv->head_bytes[0] * (size_t)kv->n_heads : 0) + (size_t)head * kv->head_bytes[side];
    const uint8_t *row = run + (size_t)(in_block * d * (wide ? 2 : 1));
    if (kv->type[side] == DTYPE_INT8) {
        uint16_t h;
        memcpy(&h, run + (size_t)(kv->block_size * d + 2 * in_block), sizeof h);
        for (int i = 0; i < d; i++)
            out[i] = (float)(int8_t)row[i] * f16_to_f32(h);
        return;
    }
    for (int i = 0; i < d && kv->type[side] == DTYPE_FP8; i++)
        out[i] = e4m3_to_f32(row[i]) * kv->scale[side];
    if (kv->type[side] != DTYPE_FP8)
        dtype_to_f32((enum dtype)kv->type[side], row, out, (size_t)d);
}

static void attend(const struct cache *c, int seq, int head, int pos, int window, float scale, float softcap, const float *q,
                   double *out)
{
    int d = c->kv.head_dim, first = window && pos >= window ? pos - window + 1 : 0;
    double high = -INFINITY, total = 0, score[pos + 1];
    float row[d];
    for (int p = first; p <= pos; p++) {
        kv_row(c, 0, seq, head, p, row);
        score[p] = 0;
        for (int i = 0; i < d; i++)
            score[p] += (double)q[i] * row[i];
        score[p] *= scale;
        if (softcap != 0)
            score[p] = softcap * tanh(score[p] / softcap);
        high = fmax(high, score[p]);
    }
    memset(out, 0, (size_t)d * sizeof *out);
    for (int p = first; p <= pos; p++) {
        double weight = exp(score[p] - high);
        total += weight;
        kv_row(c, 1, seq, head, p, row);
        for (int i = 0; i < d; i++)
            out[i] += weight * row[i];
    }
    for (int i = 0; i < d; i++)
        out[i] /= total;
}

struct attn_case {
    enum dtype k, v;
    int group, kv_heads, d, block_size, window, splits;
    float softcap;
    int ctx[SEQS], rows[SEQS];
};

static void check_attn(const struct attn_case *t, bool prefill)
{
    struct cache c;
    make_cache(&c, t->k, t->v, t->kv_heads, t->d, t->block_size, t->ctx);
    int heads = t->group * t->kv_heads, rows = 0, max_ctx = 0, max_rows = 0, width = heads * t->d;
    int32_t pos[256], seq[256], first[SEQS + 1] = {0};
    for (int s = 0; s < SEQS; s++) {
        for (int r = 0; r < t->rows[s]; r++, rows++)
            pos[rows] = t->ctx[s] - t->rows[s] + r, seq[rows] = s;
        first[s + 1] = rows;
        max_ctx = t->ctx[s] > max_ctx ? t->ctx[s] : max_ctx, max_rows = t->rows[s] > max_rows ? t->rows[s] : max_rows;
    }
    bf16 *q = random_bf16((size_t)(rows * width), 2), *got = malloc((size_t)(rows * width) * sizeof *got);
    struct cuda_attn a = {.q = device(q, (size_t)(rows * width) * 2),
                          .out = device(NULL, (size_t)(rows * width) * 2),
                          .kv = &c.kv,
                          .pos = device(pos, sizeof pos),
                          .seq = device(seq, sizeof seq),
                          .table = device(c.table, sizeof c.table),
                          .seq_first = device(first, sizeof first),
                          .table_stride = BLOCKS,
                          .rows = rows,
                          .n_seqs = SEQS,
                          .n_q_heads = heads,
                          .window = t->window,
                          .max_ctx = max_ctx,
                          .max_rows = max_rows,
                          .scale = 0.1f,
                          .softcap = t->softcap,
                          .splits = t->splits};
    a.parts = device(NULL, (size_t)(rows * heads * t->splits * (t->d + 2)) * sizeof(float));
    ok(prefill ? cuda_attn_prefill(&a, NULL) : cuda_attn_decode(&a, NULL));
    fetch(got, a.out, (size_t)(rows * width) * 2);
    struct deviation d = {0};
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < heads; h++) {
            float query[t->d];
            double out[t->d];
            size_t at = (size_t)(r * width + h * t->d);
            dtype_to_f32(DTYPE_BF16, q + at, query, (size_t)t->d);
            attend(&c, seq[r], h / t->group, pos[r], t->window, a.scale, t->softcap, query, out);
            for (int i = 0; i < t->d; i++)
                add(&d, out[i], bf16_to_f32(got[at + (size_t)i]));
        }
    assert_close(d, t->k == DTYPE_F16 || t->v == DTYPE_F16 ? 1e-2 : 6e-3);
    free(q), free(got), free(c.host);
    free_all();
}

static const struct attn_case DECODE[] = {
    {DTYPE_BF16, DTYPE_BF16, 2, 2, 128, 16, 0, 1, 0, {1, 17, 200}, {1, 1, 1}},
    {DTYPE_BF16, DTYPE_BF16, 4, 1, 64, 8, 0, 5, 0, {16, 33, 150}, {1, 1, 1}},
    {DTYPE_FP8, DTYPE_FP8, 8, 1, 128, 16, 0, 3, 0, {5, 64, 129}, {1, 1, 1}},
    {DTYPE_INT8, DTYPE_INT8, 1, 3, 96, 16, 0, 2, 0, {2, 31, 97}, {1, 1, 1}},
    {DTYPE_INT8, DTYPE_BF16, 2, 1, 32, 16, 40, 4, 5, {3, 90, 200}, {1, 1, 1}},
    {DTYPE_F16, DTYPE_F16, 20, 1, 64, 32, 0, 2, 0, {1, 70, 200}, {1, 1, 1}},
    {DTYPE_BF16, DTYPE_BF16, 2, 1, 256, 16, 30, 1, 20, {9, 45, 60}, {1, 1, 1}},
    {DTYPE_INT8, DTYPE_FP8, 16, 1, 256, 16, 0, 3, 0, {9, 145, 260}, {1, 1, 1}},
};
static const struct attn_case PREFILL[] = {
    {DTYPE_BF16, DTYPE_BF16, 2, 2, 128, 16, 0, 1, 0, {40, 17, 70}, {40, 5, 33}},
    {DTYPE_FP8, DTYPE_FP8, 4, 1, 64, 8, 0, 1, 0, {16, 33, 100}, {16, 1, 20}},
    {DTYPE_INT8, DTYPE_INT8, 1, 2, 96, 16, 20, 1, 4, {70, 31, 8}, {70, 30, 8}},
    {DTYPE_F16, DTYPE_BF16, 3, 1, 32, 16, 0, 1, 0, {3, 90, 40}, {3, 66, 7}},
    {DTYPE_BF16, DTYPE_BF16, 2, 1, 256, 16, 0, 1, 0, {9, 45, 33}, {9, 12, 33}},
    // Several blocks of rows, tiles that only some warps see, tiles before the window.
    {DTYPE_BF16, DTYPE_BF16, 4, 1, 128, 16, 0, 1, 0, {300, 64, 70}, {80, 64, 1}},
    {DTYPE_BF16, DTYPE_BF16, 1, 2, 64, 16, 24, 1, 0, {200, 140, 40}, {20, 140, 40}},
    {DTYPE_INT8, DTYPE_INT8, 1, 1, 128, 16, 24, 1, 0, {200, 140, 40}, {20, 140, 40}},
    {DTYPE_FP8, DTYPE_BF16, 8, 1, 128, 16, 50, 1, 0, {150, 33, 90}, {20, 33, 9}},
    {DTYPE_INT8, DTYPE_F16, 2, 1, 256, 8, 0, 1, 0, {70, 3, 90}, {40, 3, 9}},
};

static void test_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof DECODE / sizeof *DECODE; i++)
        check_attn(&DECODE[i], false);
}

static void test_prefill(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof PREFILL / sizeof *PREFILL; i++)
        check_attn(&PREFILL[i], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_norm),        cmocka_unit_test(test_linear), cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_widen_and_embed), cmocka_unit_test(test_decode), cmocka_unit_test(test_prefill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
