// Linear layers of many rows by cuBLAS and cublasLt, against formulas: what is quantized, in which arithmetic, by which of
// the ways that a chip has; rows do not know their neighbours.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/cuda/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 96, OUT = 48, ODD = 40, ROWS = 40 };

static float uniform(uint64_t i)
{
    return 2 * rng_uniform(rng_at(5, i)) - 1;
}

// Two linear layers over one input on a device of its own; the second has a number of outputs that fp8 kernels do not take.
struct bench {
    struct cuda cuda;
    struct cuda_linear a;
    struct op op[2];
    struct tensor_spec tensor[2];
    struct plan plan;
    float w[2][OUT * IN], x[ROWS * IN], bias[OUT];
    void *owned[16];
    int n_owned;
};

static void *device(struct bench *b, const void *from, size_t bytes)
{
    void *p;
    assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    if (from)
        assert_int_equal(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return b->owned[b->n_owned++] = p;
}

static void make_weights(struct bench *b, int m, int n_out)
{
    static uint8_t data[OUT * IN];
    float scale[OUT];
    for (int i = 0; i < n_out * IN; i++) {
        scale[i / IN] = 0.5f + (float)(i / IN % 4) / 4;
        data[i] = f32_to_e4m3(uniform((uint64_t)(m * 100000 + i)));
        b->w[m][i] = e4m3_to_f32(data[i]) * scale[i / IN];
    }
    b->a.w[m] = (struct cuda_matrix){device(b, data, sizeof data), device(b, scale, sizeof scale), DTYPE_FP8, n_out, IN};
    b->a.y[m] = device(b, NULL, (size_t)(ROWS * n_out) * sizeof(float));
    b->op[m] = (struct op){.kind = OP_LINEAR, .compute = DTYPE_FP8, .rows = ROWS_TOKENS, .weight = m, .out = 0};
    b->op[m].dim[0] = IN, b->op[m].dim[1] = n_out;
    b->tensor[m].dtype = DTYPE_FP8;
}

// Rows of very different size: one scale for all would lose the small ones.
static void make_input(struct bench *b)
{
    bf16 x[ROWS * IN], bias[OUT];
    for (int i = 0; i < ROWS * IN; i++) {
        x[i] = f32_to_bf16(uniform(900000 + (uint64_t)i) * ldexpf(1, i / IN % 9 * 4 - 16));
        b->x[i] = i / IN == 3 ? 0 : bf16_to_f32(x[i]);
    }
    memset(x + 3 * IN, 0, IN * sizeof *x);
    for (int i = 0; i < OUT; i++)
        bias[i] = f32_to_bf16(uniform(800000 + (uint64_t)i)), b->bias[i] = bf16_to_f32(bias[i]);
    b->a.x = device(b, x, sizeof x), b->a.bias[0] = device(b, bias, sizeof bias);
}

static void bench_open(struct bench *b, const char *chip)
{
    struct error e = {0};
    struct cuda *c = &b->cuda;
    setenv("KVEMU_CHIP", chip, 1);
    *b = (struct bench){.a = {.n = 2, .rows = ROWS, .y_is_f32 = true, .factor = 0.5f}};
    if (!cuda_open_device(c, 0, &e))
        fail_msg("%s", e.message);
    make_weights(b, 0, OUT), make_weights(b, 1, ODD), make_input(b);
    b->plan = (struct plan){.n_ops = 2, .op = b->op, .tensor = b->tensor, .logits = 0};
    c->config = (struct kv_config){.max_tokens = ROWS, .max_out = ROWS};
    c->quantized = device(b, NULL, ROWS * IN), c->row_scale = device(b, NULL, ROWS * sizeof(float));
    c->widened = device(b, NULL, OUT * IN * sizeof(bf16)), c->gathered = device(b, NULL, ROWS * IN * sizeof(bf16));
    if (!cuda_fp8_choose_all(c, &b->plan, &e))
        fail_msg("%s", e.message);
}

static void bench_close(struct bench *b)
{
    unsetenv("KVEMU_CHIP");
    cuda_fp8_free(&b->cuda);
    for (int i = 0; i < b->n_owned; i++)
        assert_int_equal(cudaFree(b->owned[i]), cudaSuccess);
    cuda_close_device(&b->cuda);
}

// y of matrix m by cuda_blas_linear, [rows, n_out].
static void multiply(struct bench *b, enum dtype compute, int m, float *y)
{
    assert_int_equal(cuda_blas_linear(&b->cuda, &b->a, compute), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(b->cuda.stream), cudaSuccess);
    size_t bytes = (size_t)(b->a.rows * b->a.w[m].n_out) * sizeof *y;
    assert_int_equal(cudaMemcpy(y, b->a.y[m], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

// What a row of x is once quantized.
static void quantized(const float *x, double *out)
{
    float largest = 0;
    for (int k = 0; k < IN; k++)
        largest = fmaxf(largest, fabsf(x[k]));
    float scale = largest > 0 ? largest / 448 : 1;
    for (int k = 0; k < IN; k++)
        out[k] = (double)e4m3_to_f32(f32_to_e4m3(x[k] / scale)) * scale;
}

// The largest deviation from the formula, relative to the size of each row's sums.
static double deviation(const struct bench *b, int m, bool in_fp8, const float *y)
{
    int n_out = b->a.w[m].n_out;
    double worst = 0, x[IN];
    for (int r = 0; r < b->a.rows; r++) {
        for (int k = 0; k < IN; k++)
            x[k] = b->x[r * IN + k];
        if (in_fp8)
            quantized(b->x + r * IN, x);
        for (int o = 0; o < n_out; o++) {
            double sum = m ? 0 : b->bias[o], size = fabs(sum);
            for (int k = 0; k < IN; k++) {
                double w = in_fp8 ? b->w[m][o * IN + k] : bf16_to_f32(f32_to_bf16(b->w[m][o * IN + k]));
                sum += w * x[k], size += fabs(w * x[k]);
            }
            worst = fmax(worst, size > 0 ? fabs(sum * 0.5 - y[r * n_out + o]) / size : fabs((double)y[r * n_out + o]));
        }
    }
    return worst;
}

static bool has_fp8(const struct bench *b)
{
    return b->cuda.device.major * 10 + b->cuda.device.minor >= 89;
}

// fp8 tensor cores keep fewer bits of a sum than f32 has; the emulator keeps them all.
static const double TOLERANCE = 3e-4;

static void test_against_formulas(void **state)
{
    (void)state;
    static const char *const CHIP[] = {"80", "89", "90", "100"};
    static float y[ROWS * OUT];
    for (int i = 0; i < 4; i++) {
        struct bench *b = malloc(sizeof *b);
        bench_open(b, CHIP[i]);
        multiply(b, DTYPE_FP8, 0, y);
        assert_true(deviation(b, 0, has_fp8(b), y) < TOLERANCE);
        assert_true(deviation(b, 0, !has_fp8(b), y) > 1e-3); // quantizing shows
        multiply(b, DTYPE_FP8, 1, y);                        // 40 outputs: widened
        assert_true(deviation(b, 1, false, y) < TOLERANCE);
        multiply(b, DTYPE_BF16, 0, y); // whoever asks for bf16
        assert_true(deviation(b, 0, false, y) < TOLERANCE);
        b->a.rows = ROWS - 3; // not what an algorithm was chosen for
        multiply(b, DTYPE_FP8, 0, y);
        assert_true(deviation(b, 0, has_fp8(b), y) < TOLERANCE);
        bench_close(b);
        free(b);
    }
}

// Every second row becomes the one of the largest values: the others keep their bits.
static void test_rows_alone(void **state)
{
    (void)state;
    static const char *const CHIP[] = {"90", "100"};
    static float before[ROWS * OUT], after[ROWS * OUT];
    for (int i = 0; i < 2; i++) {
        struct bench *b = malloc(sizeof *b);
        int32_t pick[ROWS];
        bench_open(b, CHIP[i]);
        multiply(b, DTYPE_FP8, 0, before);
        for (int r = 0; r < ROWS; r++)
            pick[r] = r % 2 ? r : 8;
        b->a.row = device(b, pick, sizeof pick);
        multiply(b, DTYPE_FP8, 0, after);
        for (int r = 0; r < ROWS; r++)
            assert_memory_equal(after + r * OUT, before + pick[r] * OUT, OUT * sizeof *after);
        bench_close(b);
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_formulas), cmocka_unit_test(test_rows_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
