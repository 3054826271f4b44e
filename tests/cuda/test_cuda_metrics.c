// The counters' tables against CUPTI's host side, which needs no device: every name exists on its chip, and one pass over
// the work is enough.
#include "engine/cuda/counters.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void skip_without_cupti(const struct error *e)
{
    if (strncmp(e->message, "no CUPTI", 8))
        return;
    print_message("skipped: %s\n", e->message);
    skip();
}

// CUPTI opens its host side in a way that the address sanitizer does not survive.
static void skip_sanitized(void)
{
    if (!getenv("KVBENCH_SANITIZED"))
        return;
    print_message("skipped: CUPTI's host side cannot be opened under the address sanitizer\n");
    skip();
}

static void test_one_pass(void **state)
{
    (void)state;
    skip_sanitized();
    int32_t n;
    const struct cuda_metric_set *set = cuda_metric_sets(&n);
    assert_int_equal(n, 3);
    for (int32_t i = 0; i < n; i++) {
        struct error e = {0};
        size_t passes = 0;
        if (!cuda_counters_passes(&set[i], &passes, &e)) {
            skip_without_cupti(&e);
            fail_msg("%s: %s", set[i].chip, e.message);
        }
        assert_int_equal(passes, 1);
    }
}

// A name that no chip has is refused, so the test above says something.
static void test_wrong_name(void **state)
{
    (void)state;
    skip_sanitized();
    const struct cuda_metric_set wrong = {"GH100", 1, {{"dram__bytes_red.sum", METRIC_DRAM_BYTES}}};
    struct error e = {0};
    size_t passes;
    assert_false(cuda_counters_passes(&wrong, &passes, &e));
    skip_without_cupti(&e);
    assert_non_null(strstr(e.message, "choosing counters"));
}

static void test_chips(void **state)
{
    (void)state;
    assert_string_equal(cuda_metrics_of("GH100")->chip, "GH100");
    assert_null(cuda_metrics_of("GB202"));
}

static void test_sums(void **state)
{
    (void)state;
    const struct cuda_metric_set *set = cuda_metrics_of("GH100");
    const double value[] = {100, 20, 300, 1000, 7};
    struct device_counts counts;
    assert_int_equal(set->n, 5);
    cuda_counters_add(set, value, &counts);
    assert_true(counts.dram_bytes == 120 && counts.l2_bytes == 300 && counts.tensor_flops == 1007);
    const struct cuda_metric_set less = {"X", 1, {{"lts__t_bytes.sum", METRIC_L2_BYTES}}};
    cuda_counters_add(&less, value, &counts);
    assert_true(isnan(counts.dram_bytes) && counts.l2_bytes == 100 && isnan(counts.tensor_flops));
}

// Where no device is, counting says so and leaves nothing behind.
static void test_no_device(void **state)
{
    (void)state;
    struct error e = {0};
    struct cuda_counters *c;
    if (cuda_counters_begin(&c, &e)) {
        struct device_counts counts;
        (void)cuda_counters_end(c, &counts, &e);
        print_message("skipped: this machine counts\n");
        skip();
    }
    assert_null(c);
    assert_true(*e.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_pass), cmocka_unit_test(test_wrong_name), cmocka_unit_test(test_chips),
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
