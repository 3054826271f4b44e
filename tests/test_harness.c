// The command that measures what measuring costs. Speed is not asserted here: `kvbench doctor --harness` shows it.
#include "bench/harness.h"

#include "tests/files.h"

#include <math.h>

static void test_costs_are_measured(void **state)
{
    (void)state;
    struct harness_cost c;
    struct error e = {0};
    if (!harness_measure(&c, "tests/golden/qwen3", &e))
        fail_msg("%s", e.message);
    assert_true(c.step_ns == 1e6 && c.sample_ns >= c.step_ns && c.n == 300);
    assert_true(fabs(harness_share(&c) - (c.sample_ns / 1e6 - 1)) < 1e-12 && harness_share(&c) >= 0);
    assert_true(c.n_spans > 10 && c.traced_ns > 0 && c.untraced_ns > 0);
    assert_true(c.trace_low <= c.trace_share && c.trace_share <= c.trace_high);
    cJSON *json = harness_json(&c);
    assert_true(cJSON_GetObjectItem(json, "harness_share")->valuedouble == harness_share(&c));
    cJSON_Delete(json);
}

static void test_a_model_that_is_not_there(void **state)
{
    (void)state;
    struct harness_cost c;
    struct error e = {0};
    assert_false(harness_measure(&c, "no-such-model", &e));
    assert_non_null(strstr(e.message, "no-such-model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_are_measured),
        cmocka_unit_test(test_a_model_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
