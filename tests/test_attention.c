// Attention of every instruction set this machine has, against the formula evaluated in double; what may not change a bit of
// it; and how far rounded arithmetic stands from the exact.
#include "engine/base/rng.h"
#include "tests/cpu_isas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *random_floats(int32_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int32_t i = 0; i < n; i++)
        x[i] = rng_uniform(rng_next(&seed)) * 2 - 1;
    return x;
}

static const enum dtype KV_TYPE[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_INT8};

// The KV of one sequence in shuffled blocks; beside it a contiguous f32 copy of the values as rounded.
struct cache {
    struct kv_layer layer;
    struct kv_storage storage;
    int32_t table[1024];
    float *k, *v; // [n, heads, d]
    int32_t n;
};

static struct cache make_cache(enum dtype k_type, enum dtype v_type, int32_t heads, int32_t d, int32_t block_size, int32_t n)
{
    struct kv_config config = {.n_blocks = (n + block_size - 1) / block_size, .block_size = block_size};
    struct plan plan = {.kv_k = k_type, .kv_v = v_type, .n_kv_groups = 1, .kv_group = {{1, heads, d, 0}}};
    struct cache c = {.n = n};
    assert_true(kv_storage_init(&c.storage, &plan, &config, NULL));
    c.layer = kv_storage_layer(&c.storage, 0, 0);
    memset(c.storage.memory, 0xff, c.storage.bytes); // NaN: what is not written must not be read
    c.k = random_floats(n * heads * d, 21), c.v = random_floats(n * heads * d, 22);
    for (int32_t i = 0; i < config.n_blocks; i++)
        c.table[i] = config.n_blocks % 7 ? (i * 7 + 3) % config.n_blocks : config.n_blocks - 1 - i;
    for (int32_t p = 0; p < n; p++)
        for (int side = KV_K; side <= KV_V; side++)
            for (int32_t h = 0; h < heads; h++) {
                float *x = (side == KV_K ? c.k : c.v) + (size_t)(p * heads + h) * (size_t)d;
                uint8_t *values = kv_values(&c.layer, side, c.table[p / block_size], h), row[4 * CPU_MAX_HEAD_DIM + 2];
                cpu_kernels_ref.kv_store[c.layer.type[side]](x,
                                                             values + (uint64_t)(p % block_size) * c.layer.row_bytes[side],
                                                             kv_scales(&c.layer, side, values) + p % block_size, d);
                dtype_from_f32(c.layer.type[side], x, row, (size_t)d);
                dtype_to_f32(c.layer.type[side], row, x, (size_t)d);
            }
    return c;
}

static void free_cache(struct cache *c)
{
    kv_storage_free(&c->storage);
    free(c->k);
    free(c->v);
}

// Rows at the last n_rows positions, `group` query heads per KV head; how they are computed.
struct ask {
    const struct cpu_kernels *kernels;
    enum dtype compute;
    int32_t n_rows, group, window;
    float softcap, scale;
    int32_t rows_at_once, heads_at_once; // the bits may not depend on these
    int32_t shift;                       // moves the window that the kernel sees, for the negative control
};

static int32_t begin_of(const struct ask *a, int32_t pos)
{
    return a->window && pos >= a->window ? pos - a->window + 1 : 0;
}

// q of (row, query head), the same for every way of asking.
static const float *q_of(const float *q, const struct cache *c, const struct ask *a, int32_t row, int32_t query_head)
{
    return q + (size_t)((row * c->layer.n_heads * a->group + query_head) * c->layer.head_dim);
}

// Some rows and some KV heads, part by part.
static void attend_piece(const struct cache *c, const struct ask *a, const float *q, int32_t row, int32_t n_rows,
                         int32_t head, int32_t n_heads, float *out)
{
    int32_t d = c->layer.head_dim, n = n_rows * a->group, all = n * n_heads, width = (int32_t)attn_width(d);
    int32_t *begin = malloc((size_t)n * sizeof *begin), *end = malloc((size_t)n * sizeof *end);
    const float **rows = malloc((size_t)all * sizeof *rows);
    float *memory = malloc((size_t)(2 * all * (width + 2)) * sizeof *memory);
    float *scratch = malloc(attn_scratch_floats(all, d) * sizeof *scratch);
    struct attn_part part = {memory, memory + all, memory + 2 * all}, total = part;
    total.max += all * (width + 2), total.sum += all * (width + 2), total.acc += all * (width + 2);
    for (int32_t i = 0; i < n; i++) {
        int32_t pos = c->n - a->n_rows + row + i / a->group;
        begin[i] = begin_of(a, pos) + (begin_of(a, pos) ? a->shift : 0), end[i] = pos + 1;
        for (int32_t h = 0; h < n_heads; h++)
            rows[h * n + i] = q_of(q, c, a, row + i / a->group, (head + h) * a->group + i % a->group);
    }
    for (int32_t i = 0; i < all; i++)
        total.max[i] = -INFINITY, total.sum[i] = 0;
    memset(total.acc, 0, (size_t)(all * width) * sizeof *total.acc);
    struct attn_query query = {.kv = &c->layer,
                               .compute = a->compute,
                               .n_heads = n_heads,
                               .n = n,
                               .q = rows,
                               .begin = begin,
                               .end = end,
                               .scale = a->scale,
                               .softcap = a->softcap};
    for (int32_t first = begin[0] / CPU_SPLIT * CPU_SPLIT; first < end[n - 1]; first += CPU_SPLIT) {
        struct attn_rows r = {c->table, head, first, first + CPU_SPLIT < end[n - 1] ? first + CPU_SPLIT : end[n - 1]};
        a->kernels->attn(&query, &r, &r, &part, scratch);
        for (int32_t i = 0; i < all; i++)
            assert_true((part.sum[i] == 0) == (part.max[i] == -INFINITY));
        a->kernels->attn_join(&total, &part, all, d);
    }
    for (int32_t i = 0; i < all; i++) {
        int32_t query_head = (head + i / n) * a->group + i % n % a->group, r = row + i % n / a->group;
        a->kernels->attn_end(&query, &total, i, out + (q_of(q, c, a, r, query_head) - q));
    }
    free(begin), free(end), free(rows), free(memory), free(scratch);
}

static int32_t values_of(const struct cache *c, const struct ask *a)
{
    return a->n_rows * c->layer.n_heads * a->group * c->layer.head_dim;
}

// All rows and heads: [n_rows, query heads, d].
static float *attend(const struct cache *c, const struct ask *a)
{
    float *q = random_floats(values_of(c, a), 31), *out = malloc((size_t)values_of(c, a) * sizeof *out);
    for (int32_t r = 0; r < a->n_rows; r += a->rows_at_once)
        for (int32_t h = 0; h < c->layer.n_heads; h += a->heads_at_once)
            attend_piece(c, a, q, r, a->n_rows - r < a->rows_at_once ? a->n_rows - r : a->rows_at_once, h,
                         c->layer.n_heads - h < a->heads_at_once ? c->layer.n_heads - h : a->heads_at_once, out);
    free(q);
    return out;
}

// softmax(cap(scale q K^T)) V over what a row at `pos` sees.
static void formula(const struct cache *c, const struct ask *a, const float *q, int32_t head, int32_t pos, double *out)
{
    int32_t d = c->layer.head_dim, heads = c->layer.n_heads;
    double sum = 0, high = -INFINITY, *p = malloc((size_t)c->n * sizeof *p);
    for (int32_t t = begin_of(a, pos); t <= pos; t++) {
        p[t] = 0;
        for (int32_t i = 0; i < d; i++)
            p[t] += (double)q[i] * (double)c->k[(t * heads + head) * d + i] * (double)a->scale;
        if (a->softcap != 0)
            p[t] = (double)a->softcap * tanh(p[t] / (double)a->softcap);
        high = fmax(high, p[t]);
    }
    memset(out, 0, (size_t)d * sizeof *out);
    for (int32_t t = begin_of(a, pos); t <= pos; t++) {
        double w = exp(p[t] - high);
        sum += w;
        for (int32_t i = 0; i < d; i++)
            out[i] += w * (double)c->v[(t * heads + head) * d + i];
    }
    for (int32_t i = 0; i < d; i++)
        out[i] /= sum;
    free(p);
}

// Largest and root mean square error.
static float error_of(const struct cache *c, const struct ask *a, double *rms)
{
    int32_t d = c->layer.head_dim, heads = c->layer.n_heads * a->group;
    float *q = random_floats(values_of(c, a), 31), *got = attend(c, a), worst = 0;
    double expected[CPU_MAX_HEAD_DIM], squares = 0;
    for (int32_t r = 0; r < a->n_rows; r++)
        for (int32_t h = 0; h < heads; h++) {
            const float *row = q_of(q, c, a, r, h);
            formula(c, a, row, h / a->group, c->n - a->n_rows + r, expected);
            for (int32_t i = 0; i < d; i++) {
                double e = fabs((double)got[row - q + i] - expected[i]);
                worst = isnan(e) ? INFINITY : fmaxf(worst, (float)e);
                squares += e * e;
            }
        }
    if (rms)
        *rms = sqrt(squares / values_of(c, a));
    free(q);
    free(got);
    return worst;
}

static const struct {
    int32_t n, heads, rows, group, window;
} SHAPE[] = {{1, 1, 1, 1, 0},   {31, 3, 1, 2, 0},   {257, 2, 1, 7, 0},   {255, 1, 4, 3, 0},  {70, 2, 20, 2, 0},
             {40, 1, 40, 1, 0}, {100, 2, 9, 4, 5},  {290, 3, 1, 4, 20},  {270, 2, 30, 1, 3}, {288, 1, 33, 1, 40},
             {64, 2, 3, 1, 64}, {65, 5, 2, 2, 33},  {700, 2, 2, 1, 300}, {600, 4, 1, 16, 0}, {33, 1, 1, 33, 0},
             {530, 8, 1, 1, 0}, {270, 1, 14, 5, 0}, {520, 1, 64, 1, 7}};
enum { N_SHAPES = sizeof SHAPE / sizeof *SHAPE };
static const int32_t BLOCK[] = {1, 8, 16, 32, 300, 5}, DIM[] = {2, 12, 64, 128, 96, 80, 256, 32, 38};

static struct cache cache_number(int s, int t)
{
    return make_cache(KV_TYPE[t], KV_TYPE[(t + s) % 4], SHAPE[s].heads, DIM[(s + t) % 9], BLOCK[(s + t) % 6], SHAPE[s].n);
}

static struct ask ask_number(int s, int t, const struct cpu_kernels *k, enum dtype compute)
{
    return (struct ask){.kernels = k,
                        .compute = compute,
                        .n_rows = SHAPE[s].rows,
                        .group = SHAPE[s].group,
                        .window = SHAPE[s].window,
                        .softcap = t % 2 ? 0 : 3,
                        .scale = 0.3f,
                        .rows_at_once = SHAPE[s].rows,
                        .heads_at_once = SHAPE[s].heads};
}

// Rounding to bf16 leaves 2^-9 of q, and so of a score, and of each weight; the scores here stay below 4.
static const float EXACT = 5e-6f, ROUNDED = 2e-2f;

static void test_agrees_with_the_formula(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int s = 0; isa_runs(i) && s < N_SHAPES; s++)
            for (int t = 0; t < 4; t++) {
                struct cache c = cache_number(s, t);
                struct ask exact = ask_number(s, t, ISA_TABLE[i], DTYPE_F32), rounded = exact;
                rounded.compute = DTYPE_BF16;
                float error = error_of(&c, &exact, NULL), more = error_of(&c, &rounded, NULL);
                if (!(error < EXACT && more < ROUNDED))
                    fail_msg("%s, shape %d, %s and %s KV of %d: error %g, rounded %g", ISA_TABLE[i]->name, s,
                             dtype_name(c.layer.type[KV_K]), dtype_name(c.layer.type[KV_V]), c.layer.head_dim, (double)error,
                             (double)more);
                free_cache(&c);
            }
}

// What is worth reporting: heads of 128, a context of 1000, scores as in a model.
static void test_error_of_rounded_arithmetic(void **state)
{
    (void)state;
    for (int i = 1; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 4; t++) {
            struct cache c = make_cache(KV_TYPE[t], KV_TYPE[t], 2, 128, 16, 1000);
            struct ask a = {.kernels = ISA_TABLE[i],
                            .compute = DTYPE_BF16,
                            .n_rows = 3,
                            .group = 2,
                            .scale = 0.3f,
                            .rows_at_once = 3,
                            .heads_at_once = 2};
            double rms = 0, exact = 0;
            float worst = error_of(&c, &a, &rms);
            a.compute = DTYPE_F32;
            assert_true(error_of(&c, &a, &exact) < EXACT);
            print_message("# %s, %s KV: largest error %.1e, rms %.1e (in f32 %.1e)\n", ISA_TABLE[i]->name,
                          dtype_name(KV_TYPE[t]), (double)worst, rms, exact);
            // f32 and f16 KV are computed in f32 anyway; int8 has 14 bits of q and of the weights
            double bound = KV_TYPE[t] == DTYPE_BF16 ? 1e-3 : KV_TYPE[t] == DTYPE_INT8 ? 3e-5 : 1e-6;
            assert_true(rms < bound && (KV_TYPE[t] != DTYPE_BF16 || rms > exact));
            free_cache(&c);
        }
}

static void expect_same_bits(const struct cache *c, const struct ask *a, const struct ask *b)
{
    float *x = attend(c, a), *y = attend(c, b);
    int32_t n = values_of(c, a);
    for (int32_t i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof *x))
            fail_msg("%s, %s and %s KV of %d: %d rows and %d heads at once differ in value %d: %g, %g", a->kernels->name,
                     dtype_name(c->layer.type[KV_K]), dtype_name(c->layer.type[KV_V]), c->layer.head_dim, b->rows_at_once,
                     b->heads_at_once, i, (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

static void test_bits_do_not_depend_on_company(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int s = 0; isa_runs(i) && s < N_SHAPES; s++)
            for (int t = 0; t < 8; t++) {
                struct cache c = cache_number(s, t % 4);
                struct ask a = ask_number(s, t, ISA_TABLE[i], t < 4 ? DTYPE_F32 : DTYPE_BF16), b = a;
                b.rows_at_once = b.heads_at_once = 1;
                expect_same_bits(&c, &a, &b);
                b.rows_at_once = 1 + a.n_rows / 2, b.heads_at_once = 2;
                expect_same_bits(&c, &a, &b);
                free_cache(&c);
            }
}

static void test_bits_do_not_depend_on_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 8; t++) {
            struct ask a = {.kernels = ISA_TABLE[i],
                            .compute = t < 4 ? DTYPE_F32 : DTYPE_BF16,
                            .n_rows = 2,
                            .group = 3,
                            .scale = 0.3f,
                            .rows_at_once = 2,
                            .heads_at_once = 2};
            float *first = NULL;
            for (int b = 0; b < 6; b++) {
                struct cache c = make_cache(KV_TYPE[t % 4], KV_TYPE[t % 4], 2, 64, BLOCK[b], 300);
                float *got = attend(&c, &a);
                if (first)
                    assert_memory_equal(got, first, (size_t)values_of(&c, &a) * sizeof *got);
                free(b ? got : NULL);
                first = b ? first : got;
                free_cache(&c);
            }
            free(first);
        }
}

static void test_notices_a_window_off_by_one(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++) {
        if (!isa_runs(i))
            continue;
        struct cache c = make_cache(DTYPE_BF16, DTYPE_BF16, 2, 64, 16, 50);
        struct ask a = {.kernels = ISA_TABLE[i],
                        .compute = DTYPE_F32,
                        .n_rows = 6,
                        .group = 2,
                        .window = 8,
                        .scale = 0.3f,
                        .rows_at_once = 6,
                        .heads_at_once = 2};
        assert_true(error_of(&c, &a, NULL) < EXACT);
        a.shift = 1;
        assert_true(error_of(&c, &a, NULL) > 2 * ROUNDED);
        a.shift = -1;
        assert_true(error_of(&c, &a, NULL) > 2 * ROUNDED);
        free_cache(&c);
    }
}

// One weight of almost 1 beside many that are tiny but add up: what a scale for all of them must not lose.
static void test_small_weights_add_up(void **state)
{
    (void)state;
    for (int i = 1; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 4; t++) {
            struct cache c = make_cache(KV_TYPE[t], KV_TYPE[t], 1, 64, 16, 2000);
            struct ask a = {.kernels = ISA_TABLE[i],
                            .compute = DTYPE_BF16,
                            .n_rows = 1,
                            .group = 1,
                            .scale = 3,
                            .rows_at_once = 1,
                            .heads_at_once = 1};
            float error = error_of(&c, &a, NULL);
            if (!(error < 2 * ROUNDED))
                fail_msg("%s, %s KV: error %g", ISA_TABLE[i]->name, dtype_name(KV_TYPE[t]), (double)error);
            free_cache(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_formula),       cmocka_unit_test(test_error_of_rounded_arithmetic),
        cmocka_unit_test(test_bits_do_not_depend_on_company), cmocka_unit_test(test_bits_do_not_depend_on_blocks),
        cmocka_unit_test(test_notices_a_window_off_by_one),   cmocka_unit_test(test_small_weights_add_up),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
