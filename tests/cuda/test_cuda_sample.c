// Tokens chosen on the device are those that engine/sampler.c chooses, and random weights those of engine/load/random.c, bit
// for bit.
#include "engine/base/rng.h"
#include "engine/cuda/host.h"
#include "engine/load/files.h"
#include "engine/token_source.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/device_data.h"

enum { ROWS = 3, WIDTH = 777 };

static uint64_t random_state = 7;

static float normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += rng_uniform(rng_next(&random_state));
    return sum - 6;
}

static void fill(float *x, float scale)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = normal() * scale;
}

// One choice for each row of x [ROWS, n], the last row first, as the backend asks for them.
static void choose(const float *x, int32_t n, const struct choice choice[ROWS], int32_t id[ROWS])
{
    float *on_device = device_copy(x, (size_t)(ROWS * n) * sizeof *x);
    struct choice *asked = device_copy(choice, ROWS * sizeof *choice);
    int32_t *out = device_copy(NULL, ROWS * sizeof *out);
    void *scratch = device_copy(NULL, (size_t)ROWS * CUDA_ARGMAX_PARTS * 8);
    ok(cuda_argmax(on_device, n, asked, ROWS, out, scratch, NULL));
    ok(cuda_sample(on_device, n, asked, ROWS, out, NULL));
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(id, out, ROWS * sizeof *id, cudaMemcpyDeviceToHost));
    ok(cudaFree(on_device)), ok(cudaFree(asked)), ok(cudaFree(out)), ok(cudaFree(scratch));
}

static void check_argmax(const float *x, int32_t n)
{
    struct choice choice[ROWS];
    int32_t id[ROWS];
    for (int r = 0; r < ROWS; r++)
        choice[r] = (struct choice){.out_row = ROWS - 1 - r, .top_p = 1};
    choose(x, n, choice, id);
    for (int r = 0; r < ROWS; r++)
        assert_int_equal(id[r], logits_argmax(x + choice[r].out_row * n, n));
}

static void test_argmax(void **state)
{
    (void)state;
    static float x[ROWS * WIDTH];
    fill(x, 1);
    check_argmax(x, WIDTH);
    check_argmax(x, 1);
    check_argmax(x, 33);
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = roundf(x[i]); // many equals: the first wins
    check_argmax(x, WIDTH);
    x[0] = NAN, x[WIDTH + 5] = INFINITY, x[WIDTH + 700] = INFINITY;
    for (int i = 2 * WIDTH; i < 3 * WIDTH; i++)
        x[i] = NAN;
    check_argmax(x, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        x[i] = -INFINITY;
    check_argmax(x, WIDTH);
}

struct rule {
    float temperature;
    int32_t top_k;
    float top_p;
};

// What sampler.c chooses of row r of x, and the same asked of the device.
static int32_t host_sample(const float *x, int32_t r, const struct rule *rule, uint64_t seed, struct choice *choice)
{
    struct sampler s;
    float logits[WIDTH];
    assert_true(sampler_init(&s, rule->temperature, rule->top_k, rule->top_p, seed, NULL));
    memcpy(logits, x + r * WIDTH, sizeof logits);
    struct token_source source = sampler_source(&s);
    int32_t id = source.next(source.self, logits, WIDTH, 10 + r);
    *choice = sampler_choice(source.sampler, r, 10 + r);
    sampler_free(&s);
    return id;
}

// Row r by rule r of as many.
static void check_sample(const float *x, const struct rule rule[ROWS], uint64_t seed)
{
    struct choice choice[ROWS];
    int32_t id[ROWS], expected[ROWS];
    for (int i = 0; i < ROWS; i++)
        expected[i] = host_sample(x, ROWS - 1 - i, &rule[i], seed, &choice[i]);
    choose(x, WIDTH, choice, id);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(id[i], expected[i]);
}

static void test_sample(void **state)
{
    (void)state;
    static const struct rule RULE[] = {{0, 0, 1}, {1, 0, 1},         {0.7f, 20, 1}, {1.2f, 0, 0.9f}, {0.9f, 40, 0.8f},
                                       {1, 1, 1}, {2, 5000, 0.999f}, {0, 5, 0.5f},  {1, 3, 1}};
    static float x[ROWS * WIDTH];
    fill(x, 2);
    for (int i = 0; i < WIDTH; i++)
        x[i] = roundf(x[i]); // equals
    x[2 * WIDTH + 3] = NAN;
    for (size_t i = 0; i + ROWS <= sizeof RULE / sizeof *RULE; i++)
        check_sample(x, RULE + i, 100 + i);
}

// Where nothing can be drawn, argmax decides; what no launch could run is refused.
static void test_sample_edges(void **state)
{
    (void)state;
    static float x[ROWS * WIDTH];
    fill(x, 1);
    x[5] = INFINITY;
    for (int i = WIDTH; i < 2 * WIDTH; i++)
        x[i] = NAN;
    check_sample(x, (const struct rule[]){{1, 10, 0.5f}, {1, 10, 0.5f}, {1, 10, 0.5f}}, 3);
    assert_int_equal(cuda_sample(x, 1 << 24, NULL, 1, NULL, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_argmax(x, WIDTH, NULL, 0, NULL, NULL, NULL), cudaErrorInvalidValue);
}

static void test_random_weights(void **state)
{
    (void)state;
    static const int32_t COLS[] = {32, 96, 1000, 2049};
    for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++) {
        int32_t rows = 5, cols = COLS[c], id = 17 + (int32_t)c;
        size_t bytes = (size_t)(rows * cols) * sizeof(bf16);
        const struct tensor_spec t = {.dtype = DTYPE_BF16, .rows = rows, .cols = cols};
        bf16 *expected = malloc(bytes), *got = malloc(bytes), *made = device_copy(NULL, bytes);
        random_fill(&t, id, 42, 0, rows, expected);
        ok(cuda_random_bf16(random_stream(42, id), cols, 0, 2, made, NULL)); // in two parts
        ok(cuda_random_bf16(random_stream(42, id), cols, 2, rows - 2, made + 2 * cols, NULL));
        ok(cudaDeviceSynchronize());
        ok(cudaMemcpy(got, made, bytes, cudaMemcpyDeviceToHost));
        assert_memory_equal(got, expected, bytes);
        ok(cudaFree(made));
        free(expected), free(got);
    }
}

static bool never_read(void *ctx, int32_t first, int32_t count, void *out, struct error *e)
{
    (void)ctx, (void)first, (void)count, (void)out;
    return error_set(e, ERROR_FAILED, "a random tensor was read");
}

// The backend makes such weights where they are wanted; nobody makes them on the host.
static void test_weights_made_on_the_device(void **state)
{
    (void)state;
    enum { ROW_COUNT = 7, COLS = 96 };
    struct tensor_spec spec = {.dtype = DTYPE_BF16, .rows = ROW_COUNT, .cols = COLS};
    struct plan plan = {.n_tensors = 1, .tensor = &spec};
    struct tensor tensor = {.dtype = DTYPE_BF16,
                            .rows = ROW_COUNT,
                            .cols = COLS,
                            .read = never_read,
                            .is_random = true,
                            .random_stream = random_stream(9, 0)};
    struct cuda cuda = {0};
    struct error e = {0};
    bf16 expected[ROW_COUNT * COLS], got[ROW_COUNT * COLS];
    if (!cuda_take_weights(&cuda, &plan, &tensor, &e))
        fail_msg("%s", e.message);
    ok(cudaMemcpy(got, cuda.matrix[0].data, sizeof got, cudaMemcpyDeviceToHost));
    random_fill(&spec, 0, 9, 0, ROW_COUNT, expected);
    assert_memory_equal(got, expected, sizeof got);
    cuda_drop_weights(&cuda);
    tensor.dtype = DTYPE_F16, spec.dtype = DTYPE_F16; // only bf16 is made there
    assert_false(cuda_take_weights(&cuda, &plan, &tensor, &e));
    assert_string_equal(e.message, "a random tensor was read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_sample_edges),
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_weights_made_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
