// Every kernel of every instruction set this machine has against the reference kernels, and those against formulas written
// here. Sums may differ in their order: errors are measured against the sum of magnitudes. Conversions are exact.
#include "engine/base/rng.h"
#include "engine/cpu/cpu.h"
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

static const enum dtype WEIGHT_TYPE[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_INT8,   DTYPE_INT4,   DTYPE_Q8_0,
                                         DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,   DTYPE_Q2_K,   DTYPE_Q3_K,
                                         DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS, DTYPE_MXFP4};
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

// A linear layer with its inputs: as stored and packed.
struct layer {
    uint8_t *stored;
    struct packed w;
    float *x;
    int32_t n_rows;
};

static struct packed pack(enum dtype type, const void *stored, int32_t n_out, int32_t n_in)
{
    struct packed p;
    assert_true(pack_init(&p, type, n_out, n_in));
    p.data = aligned_alloc(64, pack_bytes(&p));
    assert_non_null(p.data);
    memset(p.data, 0xff, pack_bytes(&p)); // NaN: what is not written must not be read
    for (int32_t i = 0; i < pack_panels(&p); i++)
        pack_panel(&p, (const uint8_t *)stored + (uint64_t)(i * PANEL) * dtype_row_bytes(type, (uint64_t)n_in), i);
    return p;
}

static struct layer make_layer(enum dtype type, int32_t n_in, int32_t n_out, int32_t n_rows)
{
    struct layer l = {.stored = random_weights(type, n_out, n_in, (uint64_t)n_in + type),
                      .x = random_floats(n_rows * n_in, 2),
                      .n_rows = n_rows};
    l.w = pack(type, l.stored, n_out, n_in);
    return l;
}

static void free_layer(struct layer *l)
{
    free(l->stored);
    free(l->w.data);
    free(l->x);
}

// Rows row .. row+n-1 through the layer: [n, n_out], the caller frees.
static float *run_layer(const struct cpu_kernels *k, const struct layer *l, enum dtype compute, int32_t row, int32_t n)
{
    int32_t n_in = l->w.cols, n_out = l->w.rows, padded = (n_in + GROUP - 1) / GROUP * GROUP;
    uint64_t stride = ((uint64_t)padded * k->row_bytes[compute] + 63) / 64 * 64;
    uint8_t *x = aligned_alloc(64, stride * (uint64_t)n);
    float *sum = aligned_alloc(64, (size_t)(n * PANEL) * sizeof *sum), *scratch = aligned_alloc(64, LINEAR_SCRATCH_BYTES);
    float *y = malloc((size_t)(n * n_out) * sizeof *y);
    memset(x, 0xff, stride * (uint64_t)n);
    for (int32_t r = 0; r < n; r++)
        k->prepare[compute](l->x + (size_t)(row + r) * (size_t)n_in, n_in, x + (uint64_t)r * stride);
    for (int32_t p = 0; p < pack_panels(&l->w); p++) {
        int32_t width = n_out - p * PANEL < PANEL ? n_out - p * PANEL : PANEL;
        const uint8_t *ahead = p + 1 < pack_panels(&l->w) ? l->w.data + (uint64_t)(p + 1) * l->w.panel_bytes : NULL;
        k->linear[compute][l->w.form](&(struct linear_panel){&l->w, p, x, stride, n, sum, ahead, scratch});
        for (int32_t r = 0; r < n; r++) {
            memcpy(y + r * n_out + p * PANEL, sum + r * PANEL, (size_t)width * sizeof *y);
            for (int32_t o = width; o < PANEL; o++)
                assert_true(sum[r * PANEL + o] == 0); // outputs beyond the last row
        }
    }
    free(x);
    free(sum);
    free(scratch);
    return y;
}

// Activations rounded as the arithmetic says, by the conversions' own code or by the formula.
static void round_row(enum dtype compute, const float *x, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float max = 0;
        for (int32_t k = i / 32 * 32; compute == DTYPE_INT8 && k < n && k < i / 32 * 32 + 32; k++)
            max = fmaxf(max, fabsf(x[k]));
        out[i] = compute == DTYPE_F32    ? x[i]
                 : compute == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x[i]))
                 : max > 0               ? rintf(x[i] * (127 / max)) * (max / 127)
                                         : 0;
    }
}

// Largest error against the formula in units of the sum of magnitudes.
static float layer_error(const struct cpu_kernels *k, const struct layer *l, enum dtype compute, int32_t n)
{
    int32_t n_in = l->w.cols, n_out = l->w.rows;
    float *y = run_layer(k, l, compute, 0, n), worst = 0, *w = malloc((size_t)n_in * sizeof *w);
    float *x = malloc((size_t)(n * n_in) * sizeof *x);
    for (int32_t r = 0; r < n; r++)
        round_row(compute, l->x + r * n_in, x + r * n_in, n_in);
    for (int32_t o = 0; o < n_out; o++) {
        dtype_to_f32(l->w.type, l->stored + (uint64_t)o * dtype_row_bytes(l->w.type, (uint64_t)n_in), w, (size_t)n_in);
        for (int32_t r = 0; r < n; r++) {
            double sum = 0, magnitude = 0;
            for (int32_t i = 0; i < n_in; i++) {
                sum += (double)w[i] * (double)x[r * n_in + i];
                magnitude += fabs((double)w[i] * (double)x[r * n_in + i]);
            }
            worst = fmaxf(worst, (float)(fabs((double)y[r * n_out + o] - sum) / (magnitude + 1e-3)));
        }
    }
    free(y);
    free(w);
    free(x);
    return worst;
}

static const float TOLERANCE = 2e-6f;

enum { N_SIZES = 8 };
static const int32_t PLAIN_SIZE[N_SIZES] = {1, 7, 31, 33, 64, 127, 257, 700},
                     BLOCK_SIZE[N_SIZES] = {32, 64, 96, 256, 512, 768, 1024, 1280};

static const int32_t *sizes_for(enum dtype type)
{
    return dtype_block(type) > 1 ? BLOCK_SIZE : PLAIN_SIZE;
}

static void test_linear_agrees_with_the_formula(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < N_WEIGHT_TYPES; t++)
            for (int s = 0; s < N_SIZES; s++) {
                enum dtype type = WEIGHT_TYPE[t], own = cpu_compute_of(type);
                int32_t n_in = sizes_for(type)[s], n_rows = 1 + (s * 7 + t) % 17;
                if (n_in % dtype_block(type))
                    continue;
                struct layer l = make_layer(type, n_in, s % 2 ? 11 : 75, n_rows);
                float exact = layer_error(ISA_TABLE[i], &l, DTYPE_F32, n_rows);
                float rounded = layer_error(ISA_TABLE[i], &l, own, n_rows);
                if (!(exact < TOLERANCE && rounded < TOLERANCE))
                    fail_msg("%s, %s, %d in, %d rows: error %g, in %s %g", ISA_TABLE[i]->name, dtype_name(type), n_in,
                             n_rows, (double)exact, dtype_name(own), (double)rounded);
                free_layer(&l);
            }
}

static void test_linear_notices_a_wrong_kernel(void **state)
{
    (void)state;
    struct layer l = make_layer(DTYPE_Q8_0, 64, 5, 3);
    assert_true(layer_error(&cpu_kernels_ref, &l, DTYPE_INT8, 3) < TOLERANCE);
    struct cpu_kernels wrong = cpu_kernels_ref; // activations in f32 where int8 was asked for
    wrong.prepare[DTYPE_INT8] = wrong.prepare[DTYPE_F32];
    assert_true(layer_error(&wrong, &l, DTYPE_INT8, 3) > 100 * TOLERANCE);
    l.w.data[PANEL * 2 + 1] ^= 4; // one code of 320
    assert_true(layer_error(&cpu_kernels_ref, &l, DTYPE_INT8, 3) > 100 * TOLERANCE);
    free_layer(&l);
}

// A row's result is the same bits whoever its neighbours are.
static void test_linear_rows_do_not_see_each_other(void **state)
{
    (void)state;
    enum { ROWS = 2048, OUT = 70 };
    static const int32_t batch[] = {2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 400, ROWS};
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 2 * N_WEIGHT_TYPES; t++) {
            enum dtype type = WEIGHT_TYPE[t / 2], compute = t % 2 ? cpu_compute_of(type) : DTYPE_F32;
            int32_t block = dtype_block(type), n_in = block > 32 ? block : block > 1 ? 160 : 165;
            int32_t most = i == ISA_REF || block > 32 ? 31 : ROWS, step = most / 31;
            struct layer l = make_layer(type, n_in, OUT, most);
            float *alone = malloc((size_t)(most * OUT) * sizeof *alone);
            for (int32_t r = 0; r < most; r += step) {
                float *y = run_layer(ISA_TABLE[i], &l, compute, r, 1);
                memcpy(alone + r * OUT, y, OUT * sizeof *y);
                free(y);
            }
            for (size_t b = 0; b < sizeof batch / sizeof *batch && batch[b] <= most; b++) {
                float *y = run_layer(ISA_TABLE[i], &l, compute, 0, batch[b]);
                for (int32_t r = 0; r < batch[b]; r += step)
                    if (memcmp(y + r * OUT, alone + r * OUT, OUT * sizeof *y))
                        fail_msg("%s, %s in %s: row %d of %d differs", ISA_TABLE[i]->name, dtype_name(type),
                                 dtype_name(compute), r, batch[b]);
                free(y);
            }
            free(alone);
            free_layer(&l);
        }
}

// In f32 only the values count, not how they are stored: the same bits as from those values in f32.
static void test_linear_in_f32_sees_values_only(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < N_WEIGHT_TYPES; t++) {
            enum dtype type = WEIGHT_TYPE[t];
            int32_t n_in = dtype_block(type) > 1 ? 256 : 135, n_out = 67;
            struct layer l = make_layer(type, n_in, n_out, 4), wide = l;
            float *values = malloc((size_t)(n_in * n_out) * sizeof *values);
            for (int32_t o = 0; o < n_out; o++)
                dtype_to_f32(type, l.stored + (uint64_t)o * dtype_row_bytes(type, (uint64_t)n_in), values + o * n_in,
                             (size_t)n_in);
            wide.w = pack(DTYPE_F32, values, n_out, n_in);
            float *a = run_layer(ISA_TABLE[i], &l, DTYPE_F32, 0, 4), *b = run_layer(ISA_TABLE[i], &wide, DTYPE_F32, 0, 4);
            assert_memory_equal(a, b, (size_t)(4 * n_out) * sizeof *a);
            free(a);
            free(b);
            free(values);
            free(wide.w.data);
            free_layer(&l);
        }
}

static void test_packing_keeps_every_value(void **state)
{
    (void)state;
    for (int t = 0; t < N_WEIGHT_TYPES; t++)
        for (int s = 0; s < N_SIZES; s++) {
            enum dtype type = WEIGHT_TYPE[t];
            int32_t n = sizes_for(type)[s], rows = s % 2 ? 130 : 5;
            if (n % dtype_block(type))
                continue;
            uint8_t *stored = random_weights(type, rows, n, 9);
            struct packed p = pack(type, stored, rows, n);
            float *expected = malloc((size_t)n * sizeof *expected), *got = malloc((size_t)n * sizeof *got);
            for (int32_t r = 0; r < rows; r++) {
                dtype_to_f32(type, stored + (uint64_t)r * dtype_row_bytes(type, (uint64_t)n), expected, (size_t)n);
                pack_read(&p, r, 0, n, got);
                for (int32_t k = 0; k < n; k++)
                    assert_true(got[k] == expected[k]);
                pack_read(&p, r, n / 64 * 32, n - n / 64 * 32, got);
                assert_true(got[0] == expected[n / 64 * 32]);
            }
            free(expected);
            free(got);
            free(stored);
            free(p.data);
        }
    struct packed p;
    assert_false(pack_init(&p, DTYPE_FP8, 4, 64));
    assert_false(pack_init(&p, DTYPE_NVFP4, 4, 64));
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
        cmocka_unit_test(test_packing_keeps_every_value),
        cmocka_unit_test(test_linear_agrees_with_the_formula),
        cmocka_unit_test(test_linear_notices_a_wrong_kernel),
        cmocka_unit_test(test_linear_rows_do_not_see_each_other),
        cmocka_unit_test(test_linear_in_f32_sees_values_only),
        cmocka_unit_test(test_kv_rounds_as_the_conversion_does),
        cmocka_unit_test(test_int8_of_zeros),
        cmocka_unit_test(test_elementwise_agree_with_the_reference),
        cmocka_unit_test(test_activations_at_the_ends),
        cmocka_unit_test(test_unknown_instruction_sets_are_refused),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
