// Comparisons of results whose differences are known.
#include "bench/compare.h"
#include "tests/synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 8 };
static const struct compare_options BY_TIME = {.threshold = 0.05}, BY_FRACTION = {.threshold = 0.05, .by_fraction = true};

// Eight decode points, `times` as long as they should be.
static struct recorded make(double times, struct synthetic_noise *noise)
{
    struct recorded r = {.row = calloc(N + 1, sizeof *r.row), .n_rows = N};
    snprintf(r.path, sizeof r.path, "synthetic");
    for (int i = 0; i < N; i++) {
        r.row[i].result = synthetic_point(1 << i % 4, 64 << i, (10 + i) * 1e6 * times, noise);
        r.row[i].result.roof_fraction = 0.5 / times;
    }
    return r;
}

static void remake(struct recorded *r, int i, double times, struct synthetic_noise *noise)
{
    result_free(&r->row[i].result);
    r->row[i].result = synthetic_point(1 << i % 4, 64 << i, (10 + i) * 1e6 * times, noise);
}

static void drop(struct recorded *r)
{
    for (int i = 0; i < r->n_rows; i++)
        result_free(&r->row[i].result);
    free(r->row);
    cJSON_Delete(r->meta);
}

static struct comparison compared(const struct recorded *a, const struct recorded *b, const struct compare_options *options)
{
    struct comparison c;
    struct error e = {0};
    if (!compare_results(a, b, options, &c, &e))
        fail_msg("%s", e.message);
    return c;
}

static int exit_code(const struct comparison *c)
{
    struct error e = {0};
    return comparison_verdict(c, &BY_TIME, &e) ? 0 : error_exit_code(e.kind);
}

static void test_no_difference(void **state)
{
    struct synthetic_noise noise = {.sample = 0.02, .block = 0.02, .rng = 1};
    struct recorded a = make(1, &noise);
    (void)state;
    struct comparison c = compared(&a, &a, &BY_TIME);
    assert_true(c.n_pairs == N && c.n_same == N && !c.n_settings && c.n_rows == N && c.n_groups == 1);
    for (int i = 0; i < N; i++)
        assert_true(c.row[i].ratio == 1 && c.row[i].ratio_low <= 1 && c.row[i].ratio_high >= 1);
    assert_int_equal(exit_code(&c), 0);
    comparison_free(&c);
    drop(&a);
}

// Two measurements of one thing: nothing is called slower or faster, whatever the noise, but very seldom.
static void test_noise_only(void **state)
{
    enum { TRIALS = 40 };
    int alarms = 0;
    (void)state;
    for (uint64_t t = 0; t < TRIALS; t++) {
        struct synthetic_noise noise = {.sample = 0.03, .block = t % 2 ? 0.01 : 0.04, .rng = t << 32};
        struct recorded a = make(1, &noise), b = make(1, &noise);
        struct comparison c = compared(&a, &b, &BY_TIME);
        alarms += exit_code(&c) != 0;
        comparison_free(&c);
        drop(&a);
        drop(&b);
    }
    print_message("%d false alarms in %d comparisons of %d points\n", alarms, TRIALS, N);
    assert_true(alarms <= 1);
}

static void test_regression(void **state)
{
    int found = 0, all = 0;
    (void)state;
    for (uint64_t t = 0; t < 20; t++) { // one point of eight is 10 % slower: that one, and only that
        struct synthetic_noise noise = {.sample = 0.01, .block = 0.005, .rng = t << 32};
        struct recorded a = make(1, &noise), b = make(1, &noise);
        remake(&b, 3, 1.10, &noise);
        struct comparison c = compared(&a, &b, &BY_TIME);
        found += c.n_slower == 1 && !strcmp(c.row[3].change, "slower") && exit_code(&c) == 4;
        assert_true(fabs(c.row[3].ratio - 1.10) < 0.05);
        comparison_free(&c);
        drop(&b);
        b = make(1.10, &noise); // all are
        c = compared(&a, &b, &BY_TIME);
        all += !strcmp(c.group[0].change, "slower") && exit_code(&c) == 4;
        comparison_free(&c);
        drop(&a);
        drop(&b);
    }
    print_message("found %d of 20 single points, %d of 20 whole phases\n", found, all);
    assert_true(found >= 18 && all == 20);
}

// Points too noisy to tell one by one are told together.
static void test_phase(void **state)
{
    struct synthetic_noise noise = {.sample = 0.05, .block = 0.03, .rng = 5};
    struct recorded a = make(1, &noise), b = make(1.12, &noise);
    (void)state;
    struct comparison c = compared(&a, &b, &BY_TIME);
    assert_true(c.n_slower < N && c.n_unsure > 0);
    assert_string_equal(c.group[0].change, "slower");
    assert_int_equal(exit_code(&c), 4);
    comparison_free(&c);
    drop(&a);
    drop(&b);
}

static void test_improvement(void **state)
{
    struct synthetic_noise noise = {.sample = 0.01, .block = 0.005, .rng = 9};
    struct recorded a = make(1, &noise), b = make(1 / 1.3, &noise);
    (void)state;
    struct comparison c = compared(&a, &b, &BY_TIME);
    assert_true(c.n_faster == N && exit_code(&c) == 0);
    comparison_free(&c);
    c = compared(&b, &a, &BY_TIME); // the other way round it is none
    assert_true(c.n_slower == N && exit_code(&c) == 4);
    comparison_free(&c);
    drop(&a);
    drop(&b);
}

// The whole machine was slower, and its probes say so: by time a regression, by fraction none.
static void test_by_fraction(void **state)
{
    struct recorded a = make(1, NULL), b = make(1.5, NULL);
    (void)state;
    for (int i = 0; i < N; i++) {
        b.row[i].result.roof_fraction = 0.5;
        for (int k = 0; k < 9; k++)
            b.row[i].result.samples_probe.value[k] /= 1.5;
    }
    struct comparison c = compared(&a, &b, &BY_TIME);
    assert_true(exit_code(&c) == 4 && !c.by_fraction);
    comparison_free(&c);
    c = compared(&a, &b, &BY_FRACTION);
    assert_true(c.by_fraction && c.n_same == N && exit_code(&c) == 0 && fabs(c.row[0].ratio - 1) < 1e-9);
    comparison_free(&c);
    b.row[0].result.roof_fraction = 0.4; // further from its roof than before
    c = compared(&a, &b, &BY_FRACTION);
    assert_true(c.n_slower == 1 && fabs(c.row[0].ratio - 1.25) < 1e-9);
    comparison_free(&c);
    b.row[1].result.samples_probe.n = 0; // without probes there is only time
    c = compared(&a, &b, &BY_FRACTION);
    assert_false(c.by_fraction);
    comparison_free(&c);
    drop(&a);
    drop(&b);
}

static void test_failed_and_lone(void **state)
{
    struct recorded a = make(1, NULL), b = make(1, NULL);
    (void)state;
    b.row[2].result.median_ns = NAN;
    snprintf(b.row[2].result.verdict, sizeof b.row->result.verdict, "failed");
    b.row[5].result.context++;
    snprintf(b.row[5].result.key, sizeof b.row->result.key, "another");
    struct comparison c = compared(&a, &b, &BY_TIME);
    assert_true(c.n_broken == 1 && c.n_pairs == N - 1 && c.n_rows == N + 1);
    assert_string_equal(c.row[2].change, "failed");
    assert_string_equal(c.row[N - 1].change, "only in A");
    assert_string_equal(c.row[N].change, "only in B");
    assert_int_equal(exit_code(&c), 4);
    comparison_free(&c);
    c = compared(&b, &a, &BY_TIME);
    assert_string_equal(c.row[2].change, "mended");
    assert_int_equal(exit_code(&c), 0);
    comparison_free(&c);
    drop(&a);
    drop(&b);
}

static const struct compare_setting *setting(const struct comparison *c, const char *name)
{
    for (int i = 0; i < c->n_settings; i++)
        if (!strcmp(c->setting[i].name, name))
            return &c->setting[i];
    return NULL;
}

// What a whole result has otherwise is no reason not to compare it, but is said; what varies within one is.
static void test_settings(void **state)
{
    struct recorded a = make(1, NULL), b = make(1, NULL);
    (void)state;
    a.meta =
        cJSON_Parse("{\"started\": \"x\", \"tool\": {\"version\": \"1\"}, \"environment\": {\"cpu_flags\": "
                    "\"fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse avx\", "
                    "\"governor\": null, \"load_average\": [1]}}");
    b.meta = cJSON_Parse(
        "{\"started\": \"y\", \"tool\": {\"version\": \"2\"}, \"environment\": {\"cpu_flags\": "
        "\"fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse ssse3\", "
        "\"governor\": \"powersave\", \"load_average\": [2]}}");
    for (int i = 0; i < N; i++) {
        b.row[i].result.threads = 4;
        snprintf(b.row[i].result.key, sizeof b.row->result.key, "other/%d", i);
    }
    struct comparison c = compared(&a, &b, &BY_TIME);
    assert_int_equal(c.n_pairs, N);
    assert_int_equal(c.n_settings, 4);
    assert_string_equal(setting(&c, "threads")->b, "4");
    assert_string_equal(setting(&c, "tool.version")->a, "1");
    assert_string_equal(setting(&c, "environment.governor")->a, "-");
    assert_string_equal(setting(&c, "environment.cpu_flags")->a, "only: avx");
    assert_string_equal(setting(&c, "environment.cpu_flags")->b, "only: ssse3");
    comparison_free(&c);
    b.row[0].result.threads = 8; // now it varies: 4 or 8 is another point than 2
    struct error e = {0};
    assert_false(compare_results(&a, &b, &BY_TIME, &c, &e));
    assert_int_equal(error_exit_code(e.kind), 2);
    drop(&a);
    drop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_difference),   cmocka_unit_test(test_noise_only),  cmocka_unit_test(test_regression),
        cmocka_unit_test(test_phase),           cmocka_unit_test(test_improvement), cmocka_unit_test(test_by_fraction),
        cmocka_unit_test(test_failed_and_lone), cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
