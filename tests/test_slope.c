// Lines through rows with a known intercept and slope.
#include "bench/slope.h"
#include "tests/synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 5, PER_TOKEN = 114688 };
static const int64_t CONTEXT[N] = {64, 512, 1024, 4096, 16384};
static const double A = 20e6, B = 3000, WEIGHT_BYTES = 1.2e9;

static void make_row(struct stored *row, int64_t batch, int64_t context, double ns, struct synthetic_noise *noise)
{
    *row = (struct stored){.result = synthetic_point(batch, context, ns, noise)};
    row->result.kv_read_bytes = (double)(batch * context * PER_TOKEN);
    row->result.kv_write_bytes = (double)(batch * PER_TOKEN);
    row->result.weight_bytes = WEIGHT_BYTES;
    row->result.roof_ns = (WEIGHT_BYTES + row->result.kv_read_bytes + row->result.kv_write_bytes) / 80;
}

static void make_rows(struct stored row[N], int64_t batch, struct synthetic_noise *noise)
{
    for (int i = 0; i < N; i++)
        make_row(&row[i], batch, CONTEXT[i], A + B * (double)CONTEXT[i], noise);
}

static void free_rows(struct stored *row, int n)
{
    for (int i = 0; i < n; i++)
        stored_free(&row[i]);
}

static struct slope only(const struct stored *row, int32_t n)
{
    struct slope *s, first;
    struct error e = {0};
    int32_t n_slopes;
    assert_true(slopes_fit(row, n, NULL, 0, &s, &n_slopes, &e));
    assert_int_equal(n_slopes, 1);
    first = s[0];
    free(s);
    return first;
}

static bool near(double x, double y, double share)
{
    return fabs(x - y) <= share * fabs(y);
}

static void test_exact(void **state)
{
    struct stored row[N];
    (void)state;
    make_rows(row, 2, NULL);
    struct slope s = only(row, N);
    assert_true(near(s.a_ns, A, 1e-9) && near(s.b_ns, B, 1e-9) && s.worst < 1e-9);
    assert_true(near(s.b_low_ns, B, 1e-6) && near(s.b_high_ns, B, 1e-6));
    assert_true(s.n_contexts == N && s.context_low == 64 && s.context_high == 16384 && s.batch == 2);
    assert_true(near(s.kv_bytes_per_token, PER_TOKEN, 1e-9));
    assert_true(near(s.kv_GBps, 2 * PER_TOKEN / B, 1e-9)); // B/ns
    assert_true(near(s.read_GBps, 80, 1e-9));              // what the roofs imply
    assert_true(near(s.weights_ns, WEIGHT_BYTES / 80, 1e-9));
    assert_true(near(s.kv_seen_bytes_per_token, B * 80 / 2, 1e-9));
    assert_string_equal(s.reason, "");
    free_rows(row, N);
}

static void test_recorded_ceiling(void **state)
{
    struct stored row[N];
    struct slope *s;
    struct error e = {0};
    int32_t n;
    struct hardware hw[2] = {{.name = "other"}, {.name = "box"}};
    (void)state;
    hw[0].bandwidth[ROOF_ATTAINABLE].value = 1e9;
    hw[1].bandwidth[ROOF_ATTAINABLE].value = 90e9;
    make_rows(row, 1, NULL);
    assert_true(slopes_fit(row, N, hw, 2, &s, &n, &e));
    assert_true(near(s[0].read_GBps, 90, 1e-9));
    free(s);
    free_rows(row, N);
}

// One context measured at a bad moment moves the line little; least squares it would move by half.
static void test_outlier(void **state)
{
    struct stored row[N];
    (void)state;
    make_rows(row, 1, NULL);
    stored_free(&row[3]);
    make_row(&row[3], 1, CONTEXT[3], 2 * (A + B * (double)CONTEXT[3]), NULL);
    struct slope s = only(row, N);
    assert_true(near(s.a_ns, A, 0.02) && near(s.b_ns, B, 0.02));
    assert_true(s.worst > 0.4 && strstr(s.reason, "away from the line"));
    free_rows(row, N);
}

// The 95 % intervals hold what they should, nearly always: noise of samples and of whole blocks.
static void test_intervals(void **state)
{
    enum { TRIALS = 300 };
    int in_a = 0, in_b = 0;
    double width = 0;
    (void)state;
    for (int t = 0; t < TRIALS; t++) {
        struct stored row[N];
        struct synthetic_noise noise = {.sample = 0.02, .block = 0.02, .rng = (uint64_t)t << 32};
        make_rows(row, 4, &noise);
        struct slope s = only(row, N);
        in_a += s.a_low_ns <= A && A <= s.a_high_ns;
        in_b += s.b_low_ns <= B && B <= s.b_high_ns;
        width += (s.b_high_ns - s.b_low_ns) / B / TRIALS;
        assert_true(near(s.b_ns, B, 0.15) && near(s.a_ns, A, 0.15));
        free_rows(row, N);
    }
    print_message("a in %d, b in %d of %d intervals; b's are %.0f %% wide\n", in_a, in_b, TRIALS, 100 * width);
    assert_true(in_a >= 0.90 * TRIALS && in_b >= 0.90 * TRIALS);
    assert_true(width > 0.01 && width < 0.3); // neither nothing nor everything
}

static void test_groups(void **state)
{
    struct stored row[3 * N + 2];
    struct slope *s;
    struct error e = {0};
    int32_t n;
    (void)state;
    make_rows(row, 1, NULL);
    make_rows(row + N, 8, NULL);
    make_rows(row + 2 * N, 1, NULL);
    for (int i = 0; i < N; i++)
        snprintf(row[2 * N + i].result.type_v, sizeof row->result.type_v, "int8");
    make_row(&row[3 * N], 2, 64, A, NULL); // two contexts
    make_row(&row[3 * N + 1], 2, 128, A, NULL);
    snprintf(row[3].result.verdict, sizeof row->result.verdict, "failed");
    snprintf(row[4].result.phase, sizeof row->result.phase, "prefill");
    assert_true(slopes_fit(row, 3 * N + 2, NULL, 0, &s, &n, &e));
    assert_int_equal(n, 4);
    assert_true(s[0].n_contexts == N - 2 && s[1].batch == 8 && !strcmp(s[2].type_v, "int8"));
    assert_true(isnan(s[3].b_ns) && strstr(s[3].reason, "2 contexts"));
    char text[512];
    slope_sentence(&s[1], text);
    assert_non_null(strstr(text, "decode at batch 8, KV bf16: 20 ms + 3 us per position"));
    slope_sentence(&s[3], text);
    assert_non_null(strstr(text, "no line, 2 contexts, a line needs 3"));
    free(s);
    free_rows(row, 3 * N + 2);
}

// Windowed layers read no more from some context on: a line would say nothing true.
static void test_windows(void **state)
{
    struct stored row[N];
    (void)state;
    make_rows(row, 1, NULL);
    for (int i = 2; i < N; i++)
        row[i].result.kv_read_bytes = 600 * PER_TOKEN;
    struct slope s = only(row, N);
    assert_true(isnan(s.b_ns) && strstr(s.reason, "windowed"));
    free_rows(row, N);
}

static void test_line(void **state)
{
    const double x[3] = {1, 1, 1}, y[3] = {1, 2, 3};
    double a, b;
    (void)state;
    assert_false(slope_line(x, y, 3, &a, &b));
    assert_true(slope_line((double[]){1, 3}, (double[]){2, 6}, 2, &a, &b) && near(b, 2, 1e-12) && fabs(a) < 1e-12);
    assert_true(isnan(slope_half_interval(y, 1)));
    assert_true(near(slope_half_interval(y, 3), 4.303 / sqrt(3), 1e-3)); // deviation 1, two degrees of freedom
    double many[41];
    for (int i = 0; i < 41; i++)
        many[i] = i % 2 ? 1 : -1;
    assert_true(near(slope_half_interval(many, 41), 2.0211 * stats_stddev(many, 41) / sqrt(41), 1e-4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),      cmocka_unit_test(test_exact),  cmocka_unit_test(test_recorded_ceiling),
        cmocka_unit_test(test_outlier),   cmocka_unit_test(test_groups), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_intervals),
    };
    return cmocka_run_group_tests_name("slope", tests, NULL, NULL);
}
