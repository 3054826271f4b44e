// The machine's ceilings: plausible, kept, found again; and the record of the environment.
#include "bench/ceilings.h"
#include "bench/environment.h"
#include "engine/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct ceilings_options ONE = {.threads = 1, .repetitions = 3, .pause_s = 0.01};

// Measured once for all tests.
static int measure(void **state)
{
    struct hardware *hw = calloc(1, sizeof *hw);
    struct error e = {0};
    *state = hw;
    if (!hw || !ceilings_measure(hw, &ONE, &e)) {
        print_error("%s\n", e.message);
        return 1;
    }
    return 0;
}

static int release(void **state)
{
    free(*state);
    return 0;
}

static void test_plausible(void **state)
{
    const struct hardware *hw = *state;
    const struct hw_value *read = &hw->bandwidth[ROOF_ATTAINABLE], *f32 = &hw->peak[ROOF_ATTAINABLE][DTYPE_F32];
    assert_true(read->value > 1e8 && read->value < 1e13);
    assert_true(f32->value > 1e8 && f32->value < 1e14);
    assert_true(read->n == 3 && read->spread >= 0);
    assert_string_equal(read->method, "measured");
    assert_int_equal(strlen(read->date), 10);
    assert_non_null(strstr(hw->title, "1 thread"));
    assert_non_null(strstr(hw->note, "read probe: "));
    for (int t = 0; t < DTYPE_COUNT; t++) // nobody knows the hard peaks of a machine it only measures
        assert_true(hw->peak[ROOF_HARD][t].value == 0);
}

static void test_kept_and_found(void **state)
{
    const struct hardware *measured = *state;
    char path[] = "/tmp/kvbench-ceilings-XXXXXX";
    struct hardware hw;
    struct error e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_false(ceilings_find(&hw, NULL, &ONE));
    assert_false(ceilings_find(&hw, path, &ONE)); // empty
    assert_true(hardware_save(measured, path, &e));
    assert_true(ceilings_find(&hw, path, &ONE));
    assert_string_equal(hw.title, measured->title);
    assert_string_equal(hw.note, measured->note);
    struct hardware other = *measured; // of another machine: not believed
    snprintf(other.title, sizeof other.title, "another machine, 1 thread");
    assert_true(hardware_save(&other, path, &e));
    assert_false(ceilings_find(&hw, path, &ONE));
    unlink(path);
}

// What one moment alone has shown is no ceiling; what two have is, however the others were disturbed.
static void test_highest_repeatable(void **state)
{
    (void)state;
    struct ceiling_best best = {0};
    struct hw_value ceiling = {.value = 10};
    ceiling_best_add(&best, 14);
    assert_false(ceiling_raise(&ceiling, &best));
    ceiling_best_add(&best, 3);
    assert_false(ceiling_raise(&ceiling, &best));
    ceiling_best_add(&best, 10.4); // within what probes differ by
    assert_false(ceiling_raise(&ceiling, &best));
    ceiling_best_add(&best, 13);
    assert_true(ceiling_raise(&ceiling, &best));
    assert_true(best.was == 10 && ceiling.value == 13);
    assert_int_equal(strlen(ceiling.date), 10);
    struct hw_value unknown = {0};
    assert_false(ceiling_raise(&unknown, &best));
}

static void test_warning(void **state)
{
    struct hardware hw = *(const struct hardware *)*state;
    char text[160];
    hw.bandwidth[ROOF_ATTAINABLE].spread = 0.6;
    ceilings_warning(&hw, text);
    assert_non_null(strstr(text, "read spread over 60 %"));
    hw.bandwidth[ROOF_ATTAINABLE].spread = 0.02;
    for (int t = 0; t < DTYPE_COUNT; t++)
        hw.peak[ROOF_ATTAINABLE][t].spread = 0;
    ceilings_warning(&hw, text);
    assert_string_equal(text, "");
}

static void test_probe(void **state)
{
    struct ceiling_probe p;
    struct error e = {0};
    assert_true(ceiling_probe_open(&p, *state, &ONE, &e));
    assert_true(ceiling_probe_read(&p, 0) > 1e8);
    assert_true(ceiling_probe_flops(&p, DTYPE_F32) > 1e8);
    ceiling_probe_close(&p);
    ceiling_probe_close(&p);
}

static void test_bad_cpu_list(void **state)
{
    (void)state;
    struct hardware hw;
    struct error e = {0};
    struct ceilings_options options = {.cpu_list = "99999"};
    assert_false(ceilings_measure(&hw, &options, &e));
    assert_true(strlen(e.message) > 0);
}

static void test_environment(void **state)
{
    (void)state;
    static const char *const KEY[] = {"cpu",
                                      "cpu_flags",
                                      "isa",
                                      "cpus",
                                      "numa_nodes",
                                      "cgroup_cpu_quota",
                                      "governor",
                                      "kernel",
                                      "compiler",
                                      "openblas",
                                      "OPENBLAS_CORETYPE",
                                      "transparent_huge_pages",
                                      "memory_total_bytes",
                                      "load_average"};
    cJSON *json = environment_json("avx2", "0-1");
    for (size_t i = 0; i < sizeof KEY / sizeof *KEY; i++)
        assert_non_null(cJSON_GetObjectItem(json, KEY[i])); // null where it is not known
    assert_string_equal(cJSON_GetObjectItem(json, "isa")->valuestring, "avx2");
    assert_true(environment_memory_total() > 1 << 20);
    assert_true(environment_peak_memory() > 1 << 20);
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plausible),   cmocka_unit_test(test_kept_and_found), cmocka_unit_test(test_highest_repeatable),
        cmocka_unit_test(test_warning),     cmocka_unit_test(test_probe),          cmocka_unit_test(test_bad_cpu_list),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, measure, release);
}
