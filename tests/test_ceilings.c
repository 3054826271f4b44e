// The machine's ceilings: plausible, kept, found again; and the record of the environment.
#include "bench/ceilings.h"
#include "bench/environment.h"
#include "bench/survey.h"
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

// A measurement that a neighbour has lowered does not undo a better one, and says so; within noise it renews it.
static void test_keeps_what_was_better(void **state)
{
    (void)state;
    struct hardware before = {.title = "here", .n_levels = 2}, now = {.title = "here", .n_levels = 2};
    char text[512];
    before.bandwidth[ROOF_ATTAINABLE] = (struct hw_value){.value = 52.8e9, .n = 7, .spread = 0.3, .date = "2026-01-01"};
    before.peak[ROOF_ATTAINABLE][DTYPE_F32].value = 100e9;
    before.level[0] = (struct hw_level){"L2", 1 << 20, 2 << 20, {.value = 500e9}};
    before.level[1] = (struct hw_level){"L3", 30 << 20, 90 << 20, {.value = 200e9}};
    now.bandwidth[ROOF_ATTAINABLE] = (struct hw_value){.value = 41e9, .n = 7, .date = "2026-02-02"};
    now.peak[ROOF_ATTAINABLE][DTYPE_F32].value = 103e9;
    now.level[0] = (struct hw_level){"L2", 2 << 20, 3 << 20, {.value = 490e9, .date = "2026-02-02"}};
    now.level[1] = (struct hw_level){"L3", 28 << 20, 95 << 20, {.value = 220e9}};
    ceilings_keep_best(&now, &before, text);
    assert_string_equal(text, "read 52.8 (now 41)");
    assert_string_equal(now.bandwidth[ROOF_ATTAINABLE].date, "2026-01-01");
    assert_true(now.peak[ROOF_ATTAINABLE][DTYPE_F32].value == 103e9);
    assert_true(now.level[0].bandwidth.value == 500e9 && now.level[0].bytes == 2 << 20); // the value alone
    assert_string_equal(now.level[0].bandwidth.date, "2026-02-02");
    assert_true(now.level[1].bandwidth.value == 220e9 && now.level[1].bytes == 30 << 20);
    struct hardware fewer = {.title = "here", .n_levels = 1}, other = {.title = "there"};
    ceilings_keep_best(&fewer, &before, text);
    assert_int_equal(fewer.n_levels, 2);
    ceilings_keep_best(&other, &before, text); // another machine's say nothing
    assert_string_equal(text, "");
    assert_true(other.bandwidth[ROOF_ATTAINABLE].value == 0 && other.n_levels == 0);
}

static void test_catalogued_processors(void **state)
{
    (void)state;
    struct hardware hw;
    assert_true(ceilings_catalogued("AMD EPYC 9654 96-Core Processor", &hw));
    assert_string_equal(hw.name, "epyc-9654");
    assert_false(ceilings_catalogued("AMD EPYC", &hw)); // what virtual machines say
    assert_false(ceilings_catalogued("AMD EPYC 96541", &hw));
    assert_false(ceilings_catalogued("NVIDIA T4 inside", &hw)); // no processor
    assert_false(ceilings_catalogued("", &hw));
}

static void test_levels_are_ordered(void **state)
{
    const struct hardware *hw = *state;
    for (int32_t i = 0; i < hw->n_levels; i++) {
        const struct hw_level *l = &hw->level[i];
        assert_true(*l->name && l->bytes > 0 && l->fade_bytes >= l->bytes && l->bandwidth.n == 3);
        assert_true(l->bandwidth.value >= hw->bandwidth[ROOF_ATTAINABLE].value);
        assert_true(!i || (l->bytes > l[-1].bytes && l->bandwidth.value <= l[-1].bandwidth.value));
    }
}

static const struct survey_row *find_row(const struct survey *s, const char *quantity, const char *what, const char *how)
{
    for (int32_t i = 0; i < s->n; i++) {
        const struct survey_row *r = &s->series[i].row;
        if (!strcmp(r->quantity, quantity) && (!what || !strcmp(r->what, what)) && strstr(r->how, how))
            return r;
    }
    fail_msg("no row %s %s %s", quantity, what ? what : "", how);
    return NULL;
}

// One round of everything: each row has a value or says why not, and a file of rows keeps what was there.
static void test_survey(void **state)
{
    struct progress progress;
    struct survey s = {.progress = &progress};
    struct error e = {0};
    char path[] = "/tmp/kvbench-ceilings-XXXXXX";
    struct survey_options options = {.threads = 1, .folder = "/tmp", .rounds = 1};
    if (getenv("KVBENCH_SANITIZED")) { // a minute of kernels that test_cpu_kernels and test_probe run there
        print_message("a survey takes too long under sanitizers\n");
        skip();
    }
    progress_begin(&progress, NULL, 0, 0);
    if (!survey_run(&s, &options, &e) || !survey_ceilings(&s, *state, 1, &e))
        fail_msg("%s", e.message);
    for (int32_t i = 0; i < s.n; i++) {
        const struct survey_row *r = &s.series[i].row;
        assert_true(*r->note ||
                    (r->value > 0 && r->median > 0 && r->n > 0 && r->value >= r->median && *r->unit && *r->date));
    }
    assert_true(find_row(&s, "memory", "read", "4 streams")->set_bytes > 0);
    assert_string_equal(find_row(&s, "memory", "triad", "past the cache")->unit, "B/s");
    assert_true(find_row(&s, "arithmetic", "f32", "sse")->bits == 128);
    assert_string_equal(find_row(&s, "gemm", "f32", "kvbench")->unit, "FLOP/s");
    assert_true(find_row(&s, "team", "fork+join", "")->value > 0);
    assert_true(find_row(&s, "ceiling", "memory", "measured")->value > 0);
    find_row(&s, "file", NULL, ""); // measured, or why not
    cJSON *rows = survey_json(&s);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && hardware_save_survey(*state, rows, path, &e));
    close(fd);
    assert_true(hardware_save(*state, path, &e)); // as when a ceiling is raised
    cJSON *json;
    assert_true(json_load(path, &json, &e));
    assert_int_equal(cJSON_GetArraySize(json_member(json, "survey")), s.n);
    cJSON_Delete(json);
    cJSON_Delete(rows);
    unlink(path);
    survey_free(&s);
}

// A folder that cannot hold a file makes a row that says so.
static void test_files_nowhere(void **state)
{
    (void)state;
    struct survey s = {0};
    struct error e = {0};
    assert_true(survey_files(&s, "/proc", &e));
    assert_int_equal(s.n, 1);
    assert_true(strlen(s.series[0].row.note) > 0);
    survey_free(&s);
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
        cmocka_unit_test(test_plausible),
        cmocka_unit_test(test_kept_and_found),
        cmocka_unit_test(test_highest_repeatable),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_bad_cpu_list),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_keeps_what_was_better),
        cmocka_unit_test(test_catalogued_processors),
        cmocka_unit_test(test_levels_are_ordered),
        cmocka_unit_test(test_survey),
        cmocka_unit_test(test_files_nowhere),
    };
    return cmocka_run_group_tests(tests, measure, release);
}
