// Every kernel of every instruction set this machine has against the reference kernels, and those against formulas written
// here. Sums may differ in their order: errors are measured against the sum of magnitudes. Conversions are exact.
#include "engine/base/rng.h"
#include "tests/cpu_isas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float uniform(uint64_t *seed)
{
    return rng_uniform(rng_next(seed)) * 2 - 1;
}

static float *random_floats(int32_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int32_t i = 0; i < n; i++)
        x[i] = uniform(&seed);
    return x;
}

static const enum dtype WEIGHT_TYPE[] = {
#define X(name, id) DTYPE_##id,
    WEIGHT_TYPES(X)
#undef X
};
enum { N_WEIGHT_TYPES = sizeof WEIGHT_TYPE / sizeof *WEIGHT_TYPE };

// The f16 scale of a block, and the minimum behind it where the format has one.
static void random_scales(enum dtype type, uint8_t *b, uint64_t *seed)
{
    uint16_t d = f32_to_f16(uniform(seed) * 0.02f), m = f32_to_f16(uniform(seed) * 0.1f);
    bool with_min =
        type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q2_K || type == DTYPE_Q4_K || type == DTYPE_Q5_K;
    int32_t at = type == DTYPE_Q2_K ? 80 : type == DTYPE_Q3_K ? 108 : type == DTYPE_Q6_K ? 208 : 0;
    memcpy(b + at, &d, sizeof d);
    if (with_min)
        memcpy(b + at + 2, &m, sizeof m);
}

// Random blocks: any bytes are valid but for the f16 numbers among them, which must be of sane size.
static void random_block(enum dtype type, uint8_t *b, uint64_t *seed)
{
    int32_t bytes = (int32_t)dtype_row_bytes(type, (uint64_t)dtype_block(type));
    for (int32_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)rng_next(seed);
    if (type == DTYPE_MXFP4)
        b[0] = (uint8_t)(110 + b[0] % 10); // its only number is a power of two
    else
        random_scales(type, b, seed);
}

static uint8_t *random_weights(enum dtype type, int32_t rows, int32_t cols, uint64_t seed)
{
    uint64_t row_bytes = dtype_row_bytes(type, (uint64_t)cols), block = (uint64_t)dtype_block(type);
    uint8_t *w = malloc(row_bytes * (uint64_t)rows);
    assert_non_null(w);
    if (block > 1) {
        for (uint64_t i = 0; i < row_bytes * (uint64_t)rows; i += dtype_row_bytes(type, block))
            random_block(type, w + i, &seed);
        return w;
    }
    float *x = random_floats(rows * cols, seed);
    for (int32_t r = 0; r < rows; r++)
        dtype_from_f32(type, x + (size_t)r * (size_t)cols, w + (uint64_t)r * row_bytes, (size_t)cols);
    free(x);
    return w;
}

// A linear layer with its inputs, and the sum of magnitudes behind each output.
struct layer {
    struct tensor w;
    float *x, *bias, *y, *magnitude; // x [16, cols], y and magnitude [16, rows]
};

static struct layer make_layer(enum dtype type, int32_t n_in, int32_t n_out)
{
    struct layer l = {.w = {random_weights(type, n_out, n_in, (uint64_t)n_in + type), type, n_out, n_in},
                      .x = random_floats(CPU_ROWS * n_in, 2),
                      .bias = random_floats(n_out, 3),
                      .y = calloc((size_t)(CPU_ROWS * n_out), sizeof(float)),
                      .magnitude = calloc((size_t)(CPU_ROWS * n_out), sizeof(float))};
    float *row = malloc((size_t)n_in * sizeof *row);
    for (int32_t o = 0; o < n_out; o++) {
        dtype_to_f32(type, (const uint8_t *)l.w.data + (uint64_t)o * dtype_row_bytes(type, (uint64_t)n_in), row,
                     (size_t)n_in);
        for (int32_t r = 0; r < CPU_ROWS; r++)
            for (int32_t k = 0; k < n_in; k++)
                l.magnitude[r * n_out + o] += fabsf(row[k] * l.x[r * n_in + k]);
    }
    free(row);
    return l;
}

static void free_layer(struct layer *l)
{
    free((void *)l->w.data);
    free(l->x);
    free(l->bias);
    free(l->y);
    free(l->magnitude);
}

// Rows row .. row+n-1 of the layer, outputs first .. end-1, into y [16, n_out].
static void run_layer(const struct cpu_kernels *k, const struct layer *l, int32_t row, int32_t n, int32_t first, int32_t end,
                      bool bias, float *y)
{
    const float *x[CPU_ROWS];
    float *out[CPU_ROWS];
    for (int32_t r = 0; r < n; r++) {
        x[r] = l->x + (size_t)(row + r) * (size_t)l->w.cols;
        out[r] = y + (size_t)(row + r) * (size_t)l->w.rows;
    }
    struct linear_rows a = {.w = &l->w, .bias = bias ? l->bias : NULL, .x = x, .y = out, .n_rows = n};
    k->linear[l->w.dtype](&a, first, end);
}

// Largest error against the reference in units of the sum of magnitudes.
static float layer_error(const struct cpu_kernels *k, const struct layer *l, int32_t n_rows)
{
    float *expected = calloc((size_t)(CPU_ROWS * l->w.rows), sizeof(float)), worst = 0;
    run_layer(&cpu_kernels_ref, l, 0, n_rows, 0, l->w.rows, true, expected);
    run_layer(k, l, 0, n_rows, 0, l->w.rows, true, l->y);
    for (int32_t i = 0; i < n_rows * l->w.rows; i++)
        worst = fmaxf(worst, fabsf(l->y[i] - expected[i]) / (l->magnitude[i] + 1));
    free(expected);
    return worst;
}

static const float TOLERANCE = 2e-6f;

static void test_linear_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int32_t plain[] = {1, 7, 15, 16, 31, 33, 64, 100, 257}, blocks[] = {32, 64, 96, 256, 768};
    for (int i = 1; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < N_WEIGHT_TYPES; t++) {
            enum dtype type = WEIGHT_TYPE[t];
            const int32_t *size = dtype_block(type) > 1 ? blocks : plain;
            for (int s = 0; s < (dtype_block(type) > 1 ? 5 : 9); s++) {
                if (size[s] % dtype_block(type))
                    continue;
                struct layer l = make_layer(type, size[s], 1 + size[s] % 11);
                for (int32_t n = 1; n <= CPU_ROWS; n++)
                    assert_true(layer_error(ISA_TABLE[i], &l, n) < TOLERANCE);
                free_layer(&l);
            }
        }
}

static void test_linear_notices_a_wrong_kernel(void **state)
{
    (void)state;
    struct cpu_kernels wrong = cpu_kernels_ref;
    wrong.linear[DTYPE_F16] = cpu_kernels_avx2.linear[DTYPE_BF16];
    if (!isa_runs(1))
        skip();
    struct layer l = make_layer(DTYPE_F16, 64, 5);
    assert_true(layer_error(&cpu_kernels_avx2, &l, 3) < TOLERANCE);
    assert_true(layer_error(&wrong, &l, 3) > 100 * TOLERANCE);
    free_layer(&l);
}

// A row's result is the same bits whoever its neighbours are, and however the outputs are cut.
static void test_linear_rows_do_not_see_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < N_WEIGHT_TYPES; t++) {
            struct layer l = make_layer(WEIGHT_TYPE[t], 256 + (dtype_block(WEIGHT_TYPE[t]) > 1 ? 0 : 5), 11);
            float *alone = calloc(CPU_ROWS * 11, sizeof *alone);
            for (int32_t r = 0; r < CPU_ROWS; r++) {
                run_layer(ISA_TABLE[i], &l, r, 1, 0, 6, true, alone);
                run_layer(ISA_TABLE[i], &l, r, 1, 6, 11, true, alone);
            }
            for (int32_t n = 1; n <= CPU_ROWS; n++) {
                memset(l.y, 0, (size_t)(CPU_ROWS * 11) * sizeof *l.y);
                run_layer(ISA_TABLE[i], &l, 0, n, 0, 11, true, l.y);
                assert_memory_equal(l.y, alone, (size_t)(n * 11) * sizeof *alone);
            }
            free(alone);
            free_layer(&l);
        }
}

static void test_linear_writes_its_outputs_only(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++) {
        if (!isa_runs(i))
            continue;
        struct layer l = make_layer(DTYPE_BF16, 40, 11);
        for (int32_t k = 0; k < CPU_ROWS * 11; k++)
            l.y[k] = 77;
        run_layer(ISA_TABLE[i], &l, 1, 2, 3, 8, false, l.y);
        for (int32_t r = 0; r < CPU_ROWS; r++)
            for (int32_t o = 0; o < 11; o++)
                assert_int_equal(l.y[r * 11 + o] == 77, !(r >= 1 && r < 3 && o >= 3 && o < 8));
        free_layer(&l);
    }
}

static void test_widening_is_exact(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < N_WEIGHT_TYPES; t++) {
            int32_t n = dtype_block(WEIGHT_TYPE[t]) > 1 ? 512 : 77;
            float expected[512], got[512];
            uint8_t *w = random_weights(WEIGHT_TYPE[t], 1, n, 9);
            dtype_to_f32(WEIGHT_TYPE[t], w, expected, (size_t)n);
            ISA_TABLE[i]->to_f32[WEIGHT_TYPE[t]](w, got, n);
            assert_memory_equal(got, expected, (size_t)n * sizeof *got);
            free(w);
        }
}

static const enum dtype KV_TYPE[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_INT8};

static void test_kv_rounds_as_the_conversion_does(void **state)
{
    (void)state;
    static const int32_t size[] = {2, 8, 20, 64, 128};
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 4; t++)
            for (int s = 0; s < 5; s++) {
                int32_t n = size[s];
                float *x = random_floats(n, (uint64_t)n);
                uint8_t expected[4 * 128 + 2] = {0}, got[4 * 128] = {0};
                uint16_t scale = 0;
                dtype_from_f32(KV_TYPE[t], x, expected, (size_t)n);
                ISA_TABLE[i]->kv_store[KV_TYPE[t]](x, got, &scale, n);
                uint64_t bytes = dtype_row_bytes(KV_TYPE[t], (uint64_t)n) - (KV_TYPE[t] == DTYPE_INT8 ? 2 : 0);
                assert_memory_equal(got, expected, bytes);
                if (KV_TYPE[t] == DTYPE_INT8)
                    assert_memory_equal(&scale, expected + bytes, sizeof scale);
                free(x);
            }
}

// All-zero rows have scale 0 and stay zero.
static void test_int8_of_zeros(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++) {
        float x[24] = {0};
        int8_t q[24] = {1};
        uint16_t scale = 1;
        if (!isa_runs(i))
            continue;
        ISA_TABLE[i]->kv_store[DTYPE_INT8](x, q, &scale, 24);
        assert_int_equal(scale, 0);
        for (int k = 0; k < 24; k++)
            assert_int_equal(q[k], 0);
    }
}

static void assert_near(const float *a, const float *b, int32_t n, float tolerance)
{
    for (int32_t i = 0; i < n; i++)
        assert_true(fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(b[i])));
}

static void check_scale(const struct cpu_kernels *k, const float *x, int32_t n, float softcap)
{
    float expected[258], got[258];
    memcpy(expected, x, (size_t)n * sizeof *x);
    memcpy(got, x, (size_t)n * sizeof *x);
    cpu_kernels_ref.scale(expected, 0.3f, softcap, n);
    k->scale(got, 0.3f, softcap, n);
    assert_near(got, expected, n, 1e-6f);
    for (int32_t i = 0; i < n; i++)
        assert_near(&got[i], &(float){softcap != 0 ? softcap * tanhf(0.3f * x[i] / softcap) : 0.3f * x[i]}, 1, 1e-6f);
}

static void test_elementwise_agree_with_the_reference(void **state)
{
    (void)state;
    static const int32_t size[] = {2, 6, 16, 30, 34, 64, 100, 258};
    const struct cpu_kernels *ref = &cpu_kernels_ref;
    for (int i = 1; i < N_ISAS; i++)
        for (int s = 0; isa_runs(i) && s < 8; s++) {
            int32_t n = size[s];
            const struct cpu_kernels *k = ISA_TABLE[i];
            float *a = random_floats(n, 4), *b = random_floats(n, 5), expected[258], got[258];
            ref->norm(a, b, 1e-6f, expected, n);
            k->norm(a, b, 1e-6f, got, n);
            assert_near(got, expected, n, 2e-6f);
            ref->rope(a, b, b + n / 2, expected, n, n);
            k->rope(a, b, b + n / 2, got, n, n);
            assert_near(got, expected, n, 1e-7f);
            int32_t part = n / 4 * 2; // only some of a head turns
            ref->rope(a, b, b + n / 2, expected, n, part);
            k->rope(a, b, b + n / 2, got, n, part);
            assert_near(got, expected, n, 1e-7f);
            for (int32_t j = 0; j < n; j++)
                a[j] *= 20;
            for (int act = 0; act < ACT_KIND_COUNT; act++) {
                ref->act_mul[act](a, b, expected, n);
                k->act_mul[act](a, b, got, n);
                assert_near(got, expected, n, 1e-6f);
            }
            ref->add(a, b, 1, expected, n);
            k->add(a, b, 1, got, n);
            assert_memory_equal(got, expected, (size_t)n * sizeof *got);
            ref->add(a, b, 0.22f, expected, n);
            k->add(a, b, 0.22f, got, n);
            assert_near(got, expected, n, 1e-6f);
            check_scale(k, a, n, 0);
            check_scale(k, a, n, 5);
            free(a);
            free(b);
        }
}

static void test_activations_at_the_ends(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++) {
        float gate[20] = {0, -0.0f, 100, -100, 1000, -1000, 1e-30f, NAN}, up[20], y[20];
        if (!isa_runs(i))
            continue;
        for (int k = 0; k < 20; k++)
            up[k] = 1;
        ISA_TABLE[i]->act_mul[ACT_SILU](gate, up, y, 20);
        assert_true(y[0] == 0 && y[1] == 0 && y[2] == 100 && fabsf(y[3]) < 1e-30f && y[4] == 1000 && fabsf(y[5]) < 1e-30f);
        assert_true(y[6] == 5e-31f && isnan(y[7]) && y[19] == 0);
        ISA_TABLE[i]->act_mul[ACT_GELU_TANH](gate, up, y, 20);
        assert_true(y[0] == 0 && y[1] == 0 && y[2] == 100 && fabsf(y[3]) < 1e-30f && y[4] == 1000 && fabsf(y[5]) < 1e-30f);
        assert_true(y[6] == 5e-31f && isnan(y[7]) && y[19] == 0);
    }
}

// Attention. The KV of one sequence lies in shuffled blocks; beside it stands a contiguous f32 copy of the values as
// rounded, over which the formula is evaluated in double.
struct cache {
    struct kv_layer layer;
    uint8_t *memory;
    int32_t table[1024];
    float *k, *v; // [n, heads, d]
    int32_t n;
};

static struct cache make_cache(enum dtype k_type, enum dtype v_type, int32_t heads, int32_t d, int32_t block_size, int32_t n)
{
    struct kv_config config = {.n_blocks = (n + block_size - 1) / block_size, .block_size = block_size};
    struct plan plan = {.kv_k = k_type, .kv_v = v_type, .n_kv_groups = 1, .kv_group = {{1, heads, d, 0}}};
    struct kv_storage s;
    assert_true(kv_storage_init(&s, &plan, &config, NULL));
    struct cache c = {.layer = kv_storage_layer(&s, 0, 0), .n = n};
    c.memory = malloc(s.bytes);
    c.layer.base = c.memory;
    memset(c.memory, 0xff, s.bytes); // NaN: what is not written must not be read
    c.k = random_floats(n * heads * d, 21), c.v = random_floats(n * heads * d, 22);
    for (int32_t i = 0; i < config.n_blocks; i++)
        c.table[i] = (i * 7 + 3) % config.n_blocks;
    if (config.n_blocks % 7 == 0)
        for (int32_t i = 0; i < config.n_blocks; i++)
            c.table[i] = config.n_blocks - 1 - i;
    for (int32_t p = 0; p < n; p++)
        for (int side = KV_K; side <= KV_V; side++)
            for (int32_t h = 0; h < heads; h++) {
                float *x = (side == KV_K ? c.k : c.v) + (size_t)(p * heads + h) * (size_t)d;
                uint8_t *values = kv_values(&c.layer, side, c.table[p / block_size], h), row[4 * 128 + 2];
                cpu_kernels_ref.kv_store[c.layer.type[side]](x,
                                                             values + (uint64_t)(p % block_size) * c.layer.row_bytes[side],
                                                             kv_scales(&c.layer, side, values) + p % block_size, d);
                dtype_from_f32(c.layer.type[side], x, row, (size_t)d);
                dtype_to_f32(c.layer.type[side], row, x, (size_t)d);
            }
    kv_storage_free(&s);
    return c;
}

static void free_cache(struct cache *c)
{
    free(c->memory);
    free(c->k);
    free(c->v);
}

// softmax(cap(scale q K^T)) V over [begin, end) of one head.
static void naive(const struct cache *c, const float *q, int32_t begin, int32_t end, const struct attn_query *a, double *out)
{
    int32_t d = c->layer.head_dim, heads = c->layer.n_heads, head = a->head;
    double sum = 0, high = -INFINITY, *p = malloc((size_t)c->n * sizeof *p);
    for (int32_t t = begin; t < end; t++) {
        p[t] = 0;
        for (int32_t i = 0; i < d; i++)
            p[t] += (double)q[i] * (double)c->k[(t * heads + head) * d + i] * (double)a->scale;
        if (a->softcap != 0)
            p[t] = (double)a->softcap * tanh(p[t] / (double)a->softcap);
        high = fmax(high, p[t]);
    }
    for (int32_t i = 0; i < d; i++)
        out[i] = 0;
    for (int32_t t = begin; t < end; t++) {
        double w = exp(p[t] - high);
        sum += w;
        for (int32_t i = 0; i < d; i++)
            out[i] += w * (double)c->v[(t * heads + head) * d + i];
    }
    for (int32_t i = 0; i < d; i++)
        out[i] /= sum;
    free(p);
}

enum { MAX_QUERIES = 40 };

// Rows at the last n_rows positions, `group` heads each, over the part [first, end); window 0: none. Returns the largest
// error; `shift` moves what the kernel sees, for the negative control.
static float attention_error(const struct cpu_kernels *k, const struct cache *c, int32_t n_rows, int32_t group,
                             int32_t first, int32_t end, int32_t window, float softcap, int32_t shift)
{
    int32_t d = c->layer.head_dim, n = n_rows * group, begin_of[MAX_QUERIES], end_of[MAX_QUERIES];
    const float *q[MAX_QUERIES];
    float max[MAX_QUERIES], sum[MAX_QUERIES], *acc = malloc((size_t)(n * d) * sizeof *acc), worst = 0;
    float *x = random_floats(n * d, 31), *scratch = malloc(attn_scratch_floats(n, d) * sizeof *scratch);
    double expected[128];
    for (int32_t i = 0; i < n; i++) {
        int32_t pos = c->n - n_rows + i / group;
        q[i] = x + (size_t)i * (size_t)d;
        end_of[i] = pos + 1;
        begin_of[i] = window && pos >= window ? pos - window + 1 + shift : 0;
    }
    struct attn_query a = {.kv = &c->layer,
                           .table = c->table,
                           .head = c->layer.n_heads - 1,
                           .n = n,
                           .q = q,
                           .begin = begin_of,
                           .end = end_of,
                           .scale = 0.7f,
                           .softcap = softcap};
    k->attn(&a, first, end, &(struct attn_part){max, sum, acc}, scratch);
    for (int32_t i = 0; i < n; i++) {
        int32_t from = begin_of[i] - (begin_of[i] ? shift : 0), to = end_of[i] < end ? end_of[i] : end;
        from = from > first ? from : first;
        if (from >= to) {
            assert_true(sum[i] == 0 && max[i] == -INFINITY);
            continue;
        }
        naive(c, q[i], from, to, &a, expected);
        for (int32_t j = 0; j < d; j++)
            worst = fmaxf(worst, fabsf(acc[i * d + j] / sum[i] - (float)expected[j]));
    }
    free(acc);
    free(x);
    free(scratch);
    return worst;
}

static void test_attention_agrees_with_the_formula(void **state)
{
    (void)state;
    static const int32_t block[] = {1, 8, 16, 32, 300}, dims[] = {2, 12, 64, 128};
    static const struct {
        int32_t rows, group, n, first, end, window;
    } shape[] = {{1, 1, 1, 0, 1, 0},      {1, 2, 31, 0, 31, 0},       {1, 7, 257, 256, 257, 0}, {4, 3, 255, 0, 255, 0},
                 {20, 2, 70, 0, 70, 0},   {40, 1, 40, 0, 40, 0},      {9, 4, 100, 0, 100, 5},   {1, 4, 290, 256, 290, 20},
                 {30, 1, 270, 0, 256, 3}, {33, 1, 288, 256, 288, 40}, {3, 1, 64, 0, 64, 64},    {2, 2, 65, 32, 64, 33}};
    for (int i = 0; i < N_ISAS; i++)
        for (size_t s = 0; isa_runs(i) && s < sizeof shape / sizeof *shape; s++)
            for (int t = 0; t < 4; t++) {
                int32_t bs = block[(s + (size_t)t) % 5], d = dims[(s + (size_t)t) % 4];
                struct cache c = make_cache(KV_TYPE[t], KV_TYPE[(t + s) % 4], 1 + (int32_t)s % 3, d, bs, shape[s].n);
                float error = attention_error(ISA_TABLE[i], &c, shape[s].rows, shape[s].group, shape[s].first, shape[s].end,
                                              shape[s].window, t % 2 ? 0 : 3, 0);
                if (!(error < 5e-6f))
                    fail_msg("%s, shape %zu, %s KV: error %g", ISA_TABLE[i]->name, s, dtype_name(KV_TYPE[t]), (double)error);
                free_cache(&c);
            }
}

static void test_attention_notices_a_window_off_by_one(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++) {
        if (!isa_runs(i))
            continue;
        struct cache c = make_cache(DTYPE_BF16, DTYPE_BF16, 2, 64, 16, 50);
        assert_true(attention_error(ISA_TABLE[i], &c, 6, 2, 0, 50, 8, 0, 0) < 5e-6f);
        assert_true(attention_error(ISA_TABLE[i], &c, 6, 2, 0, 50, 8, 0, 1) > 1e-3f);
        assert_true(attention_error(ISA_TABLE[i], &c, 6, 2, 0, 50, 8, 0, -1) > 1e-3f);
        free_cache(&c);
    }
}

static void test_unknown_instruction_sets_are_refused(void **state)
{
    (void)state;
    struct error e = {0};
    assert_null(cpu_kernels_select("avx3", &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_non_null(strstr(e.message, "avx2"));
    assert_ptr_equal(cpu_kernels_select("ref", &e), &cpu_kernels_ref);
    for (int i = 0; i < N_ISAS; i++)
        if (!isa_runs(i)) {
            assert_null(cpu_kernels_select(ISA_TABLE[i]->name, &e));
            assert_int_equal(e.kind, ERROR_DEVICE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_agrees_with_the_reference),
        cmocka_unit_test(test_linear_notices_a_wrong_kernel),
        cmocka_unit_test(test_linear_rows_do_not_see_each_other),
        cmocka_unit_test(test_linear_writes_its_outputs_only),
        cmocka_unit_test(test_widening_is_exact),
        cmocka_unit_test(test_kv_rounds_as_the_conversion_does),
        cmocka_unit_test(test_int8_of_zeros),
        cmocka_unit_test(test_elementwise_agree_with_the_reference),
        cmocka_unit_test(test_activations_at_the_ends),
        cmocka_unit_test(test_attention_agrees_with_the_formula),
        cmocka_unit_test(test_attention_notices_a_window_off_by_one),
        cmocka_unit_test(test_unknown_instruction_sets_are_refused),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
