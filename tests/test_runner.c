// Whole sweeps, mostly on the null backend: order, resuming after a kill, interruption, verdicts.
#include "bench/output_file.h"
#include "bench/runner.h"
#include "bench/trust.h"
#include "engine/base/file.h"
#include "tests/synthetic.h"
#include "tests/tree.h"

#include <sys/wait.h>

enum { FAST = 0, SLOW_NS = 4 * 1000 * 1000 };

// A scenario over the tiny model that lies beside the tests.
static struct scenario scenario_of(const char *rest)
{
    struct scenario s = {0};
    struct error e = {0};
    cJSON *json;
    char text[1024];
    snprintf(text, sizeof text, "{\"name\": \"t\", \"model\": \"tests/golden/qwen3\", %s}", rest);
    if (!json_parse(text, strlen(text), "test", &json, &e) || !scenario_parse(&s, json, "test", &e))
        fail_msg("%s", e.message);
    cJSON_Delete(json);
    return s;
}

static struct scenario null_scenario(void)
{
    return scenario_of("\"backend\": \"null\", \"decode\": {\"batch\": [1, 3], \"context\": [5, 33, 64], \"kv\": [\"f32\", "
                       "\"int8\"]}, \"prefill\": {\"tokens\": [7, 20]},"
                       "\"generate\": {\"prompt\": 9, \"tokens\": 3, \"cache\": [true, false]}");
}

struct sweep {
    struct runner runner;
    struct store store;
    struct planner planner;
    struct point_list points;
    struct progress progress;
};

static void open_sweep(struct sweep *w, const struct scenario *s, const char *folder, bool resume, int64_t step_ns)
{
    struct error e = {0};
    *w = (struct sweep){0};
    if (!point_list_make(&w->points, s, NULL, NULL, &e) || !store_open(&w->store, folder, s, resume, synthetic_meta(s), &e))
        fail_msg("%s", e.message);
    planner_init(&w->planner, s);
    progress_begin(&w->progress, NULL, w->points.n, 0);
    w->runner = (struct runner){.scenario = s,
                                .points = &w->points,
                                .planner = &w->planner,
                                .store = &w->store,
                                .progress = &w->progress,
                                .device_ns = step_ns};
}

static void close_sweep(struct sweep *w)
{
    planner_free(&w->planner);
    point_list_free(&w->points);
    store_close(&w->store);
}

static void must_run(struct sweep *w)
{
    struct error e = {0};
    if (!runner_run(&w->runner, &e))
        fail_msg("%s", e.message);
}

static const struct result *row_of(const struct sweep *w, const char *key)
{
    const struct stored *s = store_find(&w->store, key);
    if (!s)
        fail_msg("no row '%s'", key);
    return &s->result;
}

static void test_every_point_becomes_a_row(void **state)
{
    (void)state;
    struct scenario s = null_scenario();
    struct sweep w;
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    assert_int_equal(w.store.n_rows, w.points.n);
    assert_int_equal(w.points.n, 2 * 2 * 3 + 2 + 2);
    for (int32_t i = 0; i < w.points.n; i++) {
        const struct result *r = row_of(&w, w.points.point[i].key);
        assert_string_not_equal(r->verdict, "failed");
        assert_int_equal(r->n_samples, 7);
        assert_int_equal(r->n_blocks, 3);
        assert_true(r->samples_ns.n == 7 && r->samples_block.value[6] == 2);
        assert_true(r->min_ns <= r->median_ns && r->median_low_ns <= r->median_ns && r->median_ns <= r->median_high_ns);
        assert_true(isnan(r->roof_ns) && isnan(r->roof_fraction)); // the null backend has no roof of its own
        assert_true(isnan(r->page_faults) && strstr(r->absent, "context_switches")); // absent with the reason, never 0
        assert_true(r->involuntary_switches >= 0 && (r->waited_share >= 0 || strstr(r->absent, "waited_share")));
        assert_int_equal(strlen(r->test_time), 20);
    }
    const struct result *r = row_of(&w, "decode/b3/c33/auto/kv-int8/blk16");
    assert_true(r->batch == 3 && r->context == 33 && r->n_depth == 32 && r->n_gen == 1 && r->n_prompt == 0);
    assert_string_equal(r->type_k, "int8");
    assert_string_equal(r->weights, "f32");
    assert_true(runner_verdict(&w.runner, NULL));
    close_sweep(&w);
}

// The null backend takes a known time for each step, so the sample of a point is its steps.
static void test_samples_are_steps(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"samples\": 3, \"decode\": {\"context\": [8]},"
                                    "\"generate\": {\"prompt\": 4, \"tokens\": 3}");
    struct sweep w;
    open_sweep(&w, &s, NULL, false, SLOW_NS);
    must_run(&w);
    double step = row_of(&w, "decode/b1/c8/auto/kv-auto/blk16")->min_ns;
    double whole = row_of(&w, "generate/b1/p4/n3/auto/kv-auto/blk16")->min_ns;
    assert_true(step >= SLOW_NS && whole >= 4.0 * SLOW_NS);
    close_sweep(&w);
}

static int count_lines(const char *path, bool *whole)
{
    struct file f;
    int n = 0;
    *whole = true;
    if (!file_open(&f, path, NULL))
        return 0;
    for (size_t i = 0; i < f.size; i++)
        n += ((const char *)f.data)[i] == '\n';
    *whole = f.size == 0 || ((const char *)f.data)[f.size - 1] == '\n';
    file_close(&f);
    return n;
}

static void check_lines(const char *path, int n)
{
    struct file f;
    struct error e = {0};
    assert_true(file_open(&f, path, &e));
    const char *at = f.data;
    for (int i = 0; i < n; i++) {
        cJSON *json;
        const char *newline = memchr(at, '\n', f.size);
        if (!json_parse(at, (size_t)(newline - at), path, &json, &e))
            fail_msg("%s", e.message);
        assert_non_null(json_member(json, "median_ns"));
        cJSON_Delete(json);
        at = newline + 1;
    }
    file_close(&f);
}

// A child sweeps slowly and is killed once some points are finished: those must be there, and --resume does the rest.
static void test_kill_and_resume(void **state)
{
    const char *folder = *state;
    struct scenario s = null_scenario();
    struct sweep w;
    char rows[128], blocks[128];
    bool whole;
    int n = 0, status;
    snprintf(rows, sizeof rows, "%s/t.jsonl", folder);
    snprintf(blocks, sizeof blocks, "%s/t.blocks.jsonl", folder);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        open_sweep(&w, &s, folder, false, SLOW_NS);
        must_run(&w);
        _exit(0);
    }
    for (int i = 0; i < 3000 && n < 8; i++) { // a window is finished and the next one under way
        usleep(10 * 1000);
        n = count_lines(rows, &whole);
    }
    usleep(100 * 1000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); // it had not ended by itself
    n = count_lines(rows, &whole);
    assert_in_range(n, 6, 15);
    check_lines(rows, n);
    int n_blocks = count_lines(blocks, &whole);
    assert_true(n_blocks >= 3 * n); // every block of a finished point, and those of points that were not

    open_sweep(&w, &s, folder, true, FAST);
    assert_int_equal(w.store.n_rows, n);
    assert_true(w.store.n_blocks >= 3 * n);
    must_run(&w);
    assert_int_equal(w.store.n_rows, w.points.n);
    struct error e = {0};
    assert_true(store_finish(&w.store, true, &e));
    // Samples from before the kill are among those of the points it hit: they took SLOW_NS, the others next to nothing.
    int mixed = 0;
    for (int32_t i = n; i < w.store.n_rows; i++) {
        const struct result *r = &w.store.row[i].result;
        mixed += r->samples_ns.value[0] >= SLOW_NS && r->samples_ns.value[r->n_samples - 1] < SLOW_NS;
    }
    assert_int_equal(mixed > 0, n_blocks > 3 * n);
    close_sweep(&w);
    assert_int_equal(count_lines(rows, &whole), 16);
    assert_false(file_exists(blocks));
}

// Blocks as a killed sweep leaves them: two of a point, in which a thread waited for half of the time and the clock fell,
// unless nothing was seen beside them.
static void leave_blocks(const struct scenario *s, const char *folder, const char *key, bool seen)
{
    struct sweep w;
    struct error e = {0};
    double ns[3] = {1e6, 1.01e6, 1.02e6}, none[3] = {0};
    open_sweep(&w, s, folder, false, FAST);
    struct sample_block b = {.n = 3, .sample_ns = ns, .probe = none, .test_time = "2026-01-31T00:00:00Z"};
    snprintf(b.key, sizeof b.key, "%s", key);
    surroundings_init(&b.beside);
    for (b.block = 0; b.block < 2; b.block++) {
        int64_t blocks = b.block + 1, second = 1000000000;
        if (seen)
            b.beside.disturbance = (struct disturbance){
                .wall_ns = blocks * second, .waited_ns = blocks * second / 2, .first_kHz = 3e6, .last_kHz = 2e6};
        assert_true(store_add_block(&w.store, &b, &e));
    }
    close_sweep(&w);
}

// A point that is taken over has the verdict and the reason of all its blocks, not of the last one alone.
static void test_resumed_point_keeps_its_verdict(void **state)
{
    struct scenario s = scenario_of("\"backend\": \"null\", \"decode\": {\"context\": 5}");
    for (int seen = 1; seen >= 0; seen--) {
        struct sweep w;
        char key[160], folder[128];
        snprintf(folder, sizeof folder, "%s/%d", (const char *)*state, seen);
        open_sweep(&w, &s, NULL, false, FAST);
        snprintf(key, sizeof key, "%s", w.points.point[0].key);
        close_sweep(&w);
        leave_blocks(&s, folder, key, seen);
        open_sweep(&w, &s, folder, true, FAST);
        must_run(&w);
        const struct result *r = row_of(&w, key);
        assert_int_equal(r->n_blocks, 3);
        assert_true(r->samples_ns.value[3] == 1e6);
        assert_int_equal(strstr(r->codes, "contended throttled") != NULL, seen);
        assert_int_equal(strstr(r->reason, "of the time for a CPU that others had") != NULL, seen);
        assert_int_equal(strstr(r->reason, "the clock fell to 67 % of what it was") != NULL, seen);
        if (seen)
            assert_true(r->waited_share > 0.45 && r->waited_share < 0.55);
        close_sweep(&w);
    }
}

static void test_interrupt(void **state)
{
    struct scenario s = null_scenario();
    struct sweep w;
    struct error e = {0};
    volatile sig_atomic_t stop = 1;
    open_sweep(&w, &s, *state, false, FAST);
    w.runner.stop = &stop;
    assert_false(runner_run(&w.runner, &e));
    assert_int_equal(error_exit_code(e.kind), 130);
    close_sweep(&w);
}

static void write_text(const char *path, const char *text)
{
    struct error e = {0};
    assert_true(write_file(path, text, &e));
}

// A hardware file whose hard peaks are absurdly low: everything beats it.
static void test_over_bound(void **state)
{
    struct scenario s = scenario_of("\"backend\": \"cpu\", \"samples\": 3, \"decode\": {\"context\": [8]}");
    struct sweep w;
    struct error e = {0};
    snprintf(s.hardware, sizeof s.hardware, "%s/slow.json", (const char *)*state);
    write_text(s.hardware, "{\"name\": \"slow\", \"kind\": \"cpu\", \"hard\": {\"bandwidth_GBps\": 1e-6, \"peak_TFLOPS\":"
                           "{\"f32\": 1e-6, \"bf16\": 1e-6}}}");
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    const struct result *r = row_of(&w, "decode/b1/c8/auto/kv-auto/blk16");
    assert_string_equal(r->verdict, "over-bound");
    assert_true(r->median_ns < r->bound_ns);
    assert_string_equal(r->roof_source, "hard");
    assert_false(runner_verdict(&w.runner, &e));
    assert_int_equal(error_exit_code(e.kind), 4);
    close_sweep(&w);
}

// What a row says of where its time went adds up, and operations add up to the traced time.
static void test_differences(void **state)
{
    struct scenario s = scenario_of("\"backend\": \"cpu\", \"samples\": 4, \"decode\": {\"batch\": [2], \"context\": [20]},"
                                    "\"generate\": {\"prompt\": 5, \"tokens\": 2, \"cache\": [true, false]}");
    struct sweep w;
    snprintf(s.hardware, sizeof s.hardware, "%s/fast.json", (const char *)*state);
    write_text(s.hardware, "{\"name\": \"fast\", \"kind\": \"cpu\","
                           "\"hard\": {\"bandwidth_GBps\": 1e6, \"peak_TFLOPS\": {\"f32\": 1e6, \"bf16\": 1e6}},"
                           "\"attainable\": {\"bandwidth_GBps\": 9e5, \"peak_TFLOPS\": {\"f32\": 8e5, \"bf16\": 8e5}}}");
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    assert_int_equal(w.store.n_rows, 3);
    for (int32_t i = 0; i < w.store.n_rows; i++) {
        const struct result *r = &w.store.row[i].result;
        double sum = r->serialization_ns + r->ceiling_ns + r->executed_ns + r->shortfall_ns + r->gaps_ns + r->observer_ns;
        assert_true(strcmp(r->verdict, "failed") && strcmp(r->verdict, "over-bound"));
        assert_true(sum == r->median_ns - r->bound_ns);
        assert_true(r->bound_ns <= r->floor_ns && r->roof_ns <= r->spans_ns);
        double slowest = 0; // the median of ratios is not the ratio of medians; a row's roof is in whole ns
        for (int32_t k = 0; k < r->samples_ns.n; k++)
            slowest = fmax(slowest, r->samples_ns.value[k]);
        assert_true(r->roof_fraction <= (r->roof_ns + 0.6) / r->min_ns && r->roof_fraction >= (r->roof_ns - 0.6) / slowest);
        double ops = 0;
        for (int32_t k = 0; k < w.store.row[i].n_ops; k++)
            ops += w.store.row[i].op[k].op_ns;
        assert_true(w.store.row[i].n_ops > 5 && ops <= r->traced_ns && ops >= 0.999 * r->busy_ns);
    }
    close_sweep(&w);
}

static void test_points_that_cannot_fit(void **state)
{
    (void)state;
    struct scenario s =
        scenario_of("\"backend\": \"cpu\", \"samples\": 3,"
                    "\"decode\": {\"batch\": [65536], \"context\": [16777216]}, \"prefill\": {\"tokens\": 8}");
    struct sweep w;
    struct error e = {0};
    snprintf(s.hardware, sizeof s.hardware, "h100-sxm");
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    assert_int_equal(w.store.n_rows, 2);
    assert_string_not_equal(row_of(&w, "prefill/b1/p8/auto/kv-auto/blk16")->verdict, "failed");
    const struct result *r = row_of(&w, "decode/b65536/c16777216/auto/kv-auto/blk16");
    assert_string_equal(r->verdict, "failed");
    assert_non_null(strstr(r->reason, "available"));
    assert_true(isnan(r->median_ns) && r->n_samples == RESULT_UNKNOWN);
    assert_false(runner_verdict(&w.runner, &e));
    assert_int_equal(error_exit_code(e.kind), 1);
    assert_non_null(strstr(e.message, "of 2 points failed"));
    close_sweep(&w);
}

static void test_timeout(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"timeout_s\": 0.01, \"decode\": {\"context\": [8]}");
    struct sweep w;
    open_sweep(&w, &s, NULL, false, 5 * SLOW_NS);
    must_run(&w);
    const struct result *r = row_of(&w, "decode/b1/c8/auto/kv-auto/blk16");
    assert_string_equal(r->verdict, "failed");
    assert_non_null(strstr(r->reason, "--timeout"));
    close_sweep(&w);
}

// Long points get fewer samples, but each block gets one.
static void test_time_budget(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"seconds\": 0.001, \"decode\": {\"context\": [8]}");
    struct sweep w;
    open_sweep(&w, &s, NULL, false, SLOW_NS);
    must_run(&w);
    const struct result *r = row_of(&w, "decode/b1/c8/auto/kv-auto/blk16");
    assert_true(r->n_samples == 3 && r->n_blocks == 3);
    assert_string_not_equal(r->verdict, "undersampled");
    close_sweep(&w);
}

static const char *first_note(const struct sweep *w)
{
    const cJSON *notes = json_member(w->store.meta, "notes");
    return notes && notes->child ? notes->child->valuestring : "";
}

// Codes that the caller does not accept fail the run; others do not.
static void test_fail_on(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"decode\": {\"context\": [8]}");
    struct sweep w;
    struct error e = {0};
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    struct result *r = &w.store.row[0].result;
    unsigned codes;
    assert_true(trust_codes_parse(r->codes, &codes, &e));
    assert_string_equal(r->verdict, trust_verdict(codes));
    close_sweep(&w);
    s = scenario_of("\"backend\": \"null\", \"timeout_s\": 0.01, \"decode\": {\"context\": [8]}");
    open_sweep(&w, &s, NULL, false, 5 * SLOW_NS);
    w.runner.fail_on = 1u << TRUST_OVER_BOUND;
    must_run(&w);
    assert_int_equal(w.runner.n_distrusted, 0);
    close_sweep(&w);
    open_sweep(&w, &s, NULL, false, 5 * SLOW_NS);
    w.runner.fail_on = 1u << TRUST_FAILED;
    must_run(&w);
    assert_int_equal(w.runner.n_distrusted, 1);
    assert_string_equal(w.store.row[0].result.codes, "failed");
    assert_false(runner_verdict(&w.runner, &e));
    close_sweep(&w);
}

// A sweep that would take longer than its budget leaves samples out, never points or blocks, and says so.
static void test_sweep_budget(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"samples\": 200, \"budget_s\": 0.7, "
                                    "\"decode\": {\"context\": [8, 9, 10]}");
    struct sweep w;
    open_sweep(&w, &s, NULL, false, SLOW_NS);
    must_run(&w);
    assert_int_equal(w.store.n_rows, 3);
    for (int32_t i = 0; i < w.store.n_rows; i++) {
        const struct result *r = &w.store.row[i].result;
        assert_true(r->n_samples >= 3 && r->n_samples < 200 && r->n_blocks == 3);
    }
    assert_non_null(strstr(first_note(&w), "budget_s"));
    close_sweep(&w);
}

// What a much too small budget cannot hold is given up, with the reason.
static void test_hopeless_budget(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"null\", \"budget_s\": 0.01, \"decode\": {\"context\": [8, 9]}");
    struct sweep w;
    open_sweep(&w, &s, NULL, false, 10 * SLOW_NS);
    must_run(&w);
    assert_int_equal(w.store.n_rows, 2);
    assert_non_null(strstr(w.store.row[1].result.reason, "budget_s"));
    assert_int_equal(w.runner.n_failed, 2);
    close_sweep(&w);
}

// A run whose only point does not fit is the machine's fault, not the point's.
static void test_nothing_fits(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"cpu\", \"decode\": {\"batch\": [65536], \"context\": [16777216]}");
    struct sweep w;
    struct error e = {0};
    snprintf(s.hardware, sizeof s.hardware, "h100-sxm");
    open_sweep(&w, &s, NULL, false, FAST);
    must_run(&w);
    assert_false(runner_verdict(&w.runner, &e));
    assert_int_equal(error_exit_code(e.kind), 3);
    close_sweep(&w);
}

// Ceilings that were measured on a busy machine are raised by the probes, in the result and for the next sweep.
static void test_low_ceilings_are_raised(void **state)
{
    struct scenario s =
        scenario_of("\"backend\": \"cpu\", \"samples\": 3, \"threads\": 1, \"decode\": {\"context\": [8, 9]}");
    const struct ceilings_options options = {.threads = 1, .repetitions = 3, .pause_s = 0.01};
    struct sweep w;
    struct hardware hw, after;
    struct error e = {0};
    char path[640];
    ceilings_path(*state, 1, path);
    assert_true(ceilings_measure(&hw, &options, &e));
    for (int t = 0; t < DTYPE_COUNT; t++)
        hw.peak[ROOF_ATTAINABLE][t].value /= 50;
    hw.bandwidth[ROOF_ATTAINABLE].value /= 50;
    assert_true(hardware_save(&hw, path, &e));
    open_sweep(&w, &s, NULL, false, FAST);
    w.runner.ceilings_folder = *state;
    must_run(&w);
    assert_true(hardware_load(&after, path, &e));
    bool read = after.bandwidth[ROOF_ATTAINABLE].value > 5 * hw.bandwidth[ROOF_ATTAINABLE].value;
    bool f32 = after.peak[ROOF_ATTAINABLE][DTYPE_F32].value > 5 * hw.peak[ROOF_ATTAINABLE][DTYPE_F32].value;
    bool bf16 = after.peak[ROOF_ATTAINABLE][DTYPE_BF16].value > 5 * hw.peak[ROOF_ATTAINABLE][DTYPE_BF16].value;
    assert_true(read || f32 || bf16); // whichever limits the points
    assert_non_null(strstr(w.store.row[0].result.reason, "raised from"));
    assert_true(*first_note(&w));
    close_sweep(&w);
}

static void test_unknown_backend_ends_the_run(void **state)
{
    (void)state;
    struct scenario s = scenario_of("\"backend\": \"cuda\"");
    struct sweep w;
    struct error e = {0};
    if (file_exists("/dev/nvidia0"))
        skip();
    open_sweep(&w, &s, NULL, false, FAST);
    assert_false(runner_run(&w.runner, &e));
    assert_int_equal(error_exit_code(e.kind), 3);
    close_sweep(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_point_becomes_a_row),
        cmocka_unit_test(test_samples_are_steps),
        WITH_FOLDER(test_kill_and_resume),
        WITH_FOLDER(test_resumed_point_keeps_its_verdict),
        WITH_FOLDER(test_interrupt),
        WITH_FOLDER(test_over_bound),
        WITH_FOLDER(test_differences),
        cmocka_unit_test(test_points_that_cannot_fit),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_time_budget),
        cmocka_unit_test(test_fail_on),
        cmocka_unit_test(test_sweep_budget),
        cmocka_unit_test(test_hopeless_budget),
        cmocka_unit_test(test_nothing_fits),
        WITH_FOLDER(test_low_ceilings_are_raised),
        cmocka_unit_test(test_unknown_backend_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
