// The column table and what is made of it, and the files of a sweep.
#include "bench/store.h"
#include "engine/base/file.h"
#include "tests/synthetic.h"
#include "tests/tree.h"

#include <csv.h>
#include <signal.h>
#include <sys/resource.h>

// A folder of its own for each test.
static const char *path_in(void **state, const char *name)
{
    static char path[8][600];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", (const char *)*state, name);
    return path[next];
}

static struct scenario scenario_named(const char *name)
{
    struct scenario s;
    scenario_init(&s, "test", name);
    s.n_models = 1;
    snprintf(s.model[0], sizeof s.model[0], "m");
    return s;
}

static void open_store(struct store *store, void **state, const struct scenario *s, bool resume)
{
    struct error e = {0};
    if (!store_open(store, *state, s, resume, synthetic_meta(s), &e))
        fail_msg("%s", e.message);
}

static void add(struct store *store, const char *key, const char *verdict)
{
    struct result r;
    struct error e = {0};
    struct op_result *op = calloc(1, sizeof *op);
    result_init(&r);
    op_result_init(op);
    snprintf(r.key, sizeof r.key, "%s", key);
    snprintf(r.verdict, sizeof r.verdict, "%s", verdict);
    snprintf(op->key, sizeof op->key, "%s", key);
    op->op_ns = 12;
    r.median_ns = 1.5;
    assert_true(store_add(store, &r, op, 1, &e));
}

static void finish(struct store *store, bool complete)
{
    struct error e = {0};
    assert_true(store_finish(store, complete, &e));
    store_close(store);
}

static int count_lines(const char *path)
{
    struct file f;
    struct error e;
    int n = 0;
    assert_true(file_open(&f, path, &e));
    for (size_t i = 0; i < f.size; i++)
        n += ((const char *)f.data)[i] == '\n';
    file_close(&f);
    return n;
}

static void test_columns(void **state)
{
    (void)state;
    int32_t n[2];
    const struct column *tables[2] = {result_columns(&n[0]), op_columns(&n[1])};
    for (int t = 0; t < 2; t++)
        for (int32_t i = 0; i < n[t]; i++) {
            const struct column *c = &tables[t][i];
            assert_true(strlen(c->description) > 5);
            const char *unit = strrchr(c->name, '_');
            if (unit && !strcmp(unit, "_ns"))
                assert_string_equal(c->unit, "ns");
            if (unit && !strcmp(unit, "_bytes"))
                assert_string_equal(c->unit, "B");
            for (int32_t k = 0; k < i; k++)
                assert_string_not_equal(c->name, tables[t][k].name);
        }
}

// llama-bench's names, for those who have scripts.
static void test_names_of_others(void **state)
{
    (void)state;
    static const char *const NAME[] = {"n_prompt", "n_gen",     "n_depth",    "type_k",   "type_v",
                                       "avg_ns",   "stddev_ns", "samples_ns", "test_time"};
    int32_t n;
    const struct column *column = result_columns(&n);
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++) {
        int32_t k = 0;
        while (k < n && strcmp(column[k].name, NAME[i]))
            k++;
        assert_true(k < n);
    }
}

// bench/README.md holds one line per column, as made here.
static void check_documented(const char *text, const struct column *column, int32_t n)
{
    static const char *const TYPE[] = {"text", "count", "real", "reals"};
    for (int32_t i = 0; i < n; i++) {
        char line[512];
        const struct column *c = &column[i];
        snprintf(line, sizeof line, "| `%s` | %s | %s | %s |\n", c->name, TYPE[c->type], c->unit, c->description);
        if (!strstr(text, line))
            fail_msg("bench/README.md lacks: %s", line);
    }
}

static void test_documentation(void **state)
{
    (void)state;
    struct file f;
    struct error e;
    int32_t n, n_op;
    const struct column *column = result_columns(&n), *op_column = op_columns(&n_op);
    assert_true(file_open(&f, "bench/README.md", &e));
    char *text = strndup(f.data, f.size);
    check_documented(text, column, n);
    check_documented(text, op_column, n_op);
    free(text);
    file_close(&f);
}

static struct result full_row(void)
{
    struct result r;
    result_init(&r);
    snprintf(r.key, sizeof r.key, "decode/\"quoted\",\n2 lines");
    r.batch = 8;
    r.median_ns = 1234567.25;
    r.flops = 9007199254740991.0;
    r.samples_ns.value = calloc(2, sizeof(double));
    r.samples_ns.n = 2;
    r.samples_ns.value[0] = 1.5, r.samples_ns.value[1] = 3e9;
    return r;
}

static void test_json_and_back(void **state)
{
    (void)state;
    int32_t n;
    const struct column *column = result_columns(&n);
    struct result r = full_row(), back;
    struct error e = {0};
    cJSON *json = row_json(column, n, &r);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "bound_ns"))); // unknown
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "threads")));
    result_init(&back);
    assert_true(row_from_json(column, n, json, "x", &back, &e));
    assert_string_equal(back.key, r.key);
    assert_true(back.batch == 8 && back.threads == RESULT_UNKNOWN && isnan(back.bound_ns));
    assert_true(back.median_ns == r.median_ns && back.flops == r.flops);
    assert_true(back.samples_ns.n == 2 && back.samples_ns.value[1] == 3e9);
    cJSON *infinite = cJSON_Parse("[1, 2e999]"); // could not be written again
    assert_non_null(infinite);
    cJSON_ReplaceItemInObject(json, "samples_ns", infinite);
    assert_false(row_from_json(column, n, json, "file:3", &back, &e));
    cJSON_ReplaceItemInObject(json, "samples_ns", cJSON_Parse("[1, 2]"));
    cJSON_ReplaceItemInObject(json, "batch", cJSON_CreateString("eight"));
    assert_false(row_from_json(column, n, json, "file:3", &back, &e));
    assert_string_equal(e.message, "'file:3': 'batch' has the wrong type");
    cJSON_Delete(json);
    result_free(&r);
    result_free(&back);
}

struct csv_seen {
    int fields, rows;
    char key[64], median[64], bound[64], samples[64];
};

static void on_field(void *text, size_t size, void *ctx)
{
    struct csv_seen *seen = ctx;
    int32_t n;
    const struct column *column = result_columns(&n);
    char *to = NULL;
    if (seen->rows == 1 && seen->fields < n) {
        const char *name = column[seen->fields].name;
        to = !strcmp(name, "key")          ? seen->key
             : !strcmp(name, "median_ns")  ? seen->median
             : !strcmp(name, "bound_ns")   ? seen->bound
             : !strcmp(name, "samples_ns") ? seen->samples
                                           : NULL;
    }
    if (to)
        snprintf(to, 64, "%.*s", (int)size, (const char *)text);
    seen->fields++;
}

static void on_row(int end, void *ctx)
{
    struct csv_seen *seen = ctx;
    int32_t n;
    (void)end;
    result_columns(&n);
    assert_int_equal(seen->fields, n);
    seen->fields = 0;
    seen->rows++;
}

static void test_csv(void **state)
{
    (void)state;
    int32_t n;
    const struct column *column = result_columns(&n);
    struct result r = full_row();
    struct csv_parser parser;
    struct csv_seen seen = {0};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    csv_header(f, column, n);
    csv_row(f, column, n, &r);
    fclose(f);
    assert_int_equal(csv_init(&parser, CSV_STRICT), 0);
    assert_int_equal(csv_parse(&parser, text, size, on_field, on_row, &seen), size);
    csv_fini(&parser, on_field, on_row, &seen);
    csv_free(&parser);
    assert_int_equal(seen.rows, 2);
    assert_string_equal(seen.key, r.key);
    assert_string_equal(seen.median, "1234567.25");
    assert_string_equal(seen.bound, "");
    assert_string_equal(seen.samples, "1.5 3000000000");
    free(text);
    result_free(&r);
}

static void test_files(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 1); // there before the sweep ends
    add(&store, "p2", "noisy");
    assert_non_null(store_find(&store, "p2"));
    assert_null(store_find(&store, "p3"));
    finish(&store, true);
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 2);
    assert_int_equal(count_lines(path_in(state, "a.csv")), 3);
    assert_int_equal(count_lines(path_in(state, "a.ops.csv")), 3);
    assert_true(file_exists(path_in(state, "a.meta.json")));
    assert_false(file_exists(path_in(state, "a.blocks.jsonl")));
}

static void test_older_results_are_kept(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    char moved[3][640];
    for (int i = 0; i < 3; i++) {
        open_store(&store, state, &s, false);
        add(&store, "p1", "ok");
        snprintf(moved[i], sizeof moved[i], "%s", store.moved_to);
        finish(&store, true);
    }
    assert_string_equal(moved[0], "");
    assert_string_not_equal(moved[1], moved[2]); // within one second, too
    for (int i = 1; i < 3; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s.csv", moved[i]);
        assert_int_equal(count_lines(path), 2);
        assert_non_null(strstr(path, "/old/a-20"));
    }
}

// A table that somebody kept without its other files is a result, too.
static void test_lone_table_is_kept(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    char path[700];
    FILE *f = fopen(path_in(state, "a.csv"), "w");
    fputs("mine\n", f);
    fclose(f);
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    snprintf(path, sizeof path, "%s.csv", store.moved_to);
    finish(&store, true);
    assert_int_equal(count_lines(path), 1);
}

// A sweep that is given up before it has a result leaves the one that was there.
static void test_nothing_measured_moves_nothing(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    double numbers[2] = {5, 6};
    struct sample_block block = {.key = "p2", .n = 2, .sample_ns = numbers, .probe = numbers, .test_time = "t"};
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    finish(&store, true);
    open_store(&store, state, &s, false);
    assert_true(store_add_block(&store, &block, &e));
    finish(&store, false);
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 1);
    assert_false(file_exists(path_in(state, "a.blocks.jsonl")));
    assert_false(file_exists(path_in(state, "old")));
    open_store(&store, state, &s, false); // the blocks that were held back reach the journal with the first point
    assert_true(store_add_block(&store, &block, &e));
    add(&store, "p1", "ok");
    finish(&store, false);
    assert_int_equal(count_lines(path_in(state, "a.blocks.jsonl")), 1);
    assert_true(file_exists(path_in(state, "old")));
}

// Each number of threads has its own ceilings, also those of the sweep that is resumed.
static void test_ceilings_of_all_threads(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    struct hardware hw = {.name = "cpu-1t"};
    hw.bandwidth[ROOF_ATTAINABLE].value = 1e10;
    hw.peak[ROOF_ATTAINABLE][DTYPE_F32].value = 1e11;
    open_store(&store, state, &s, false);
    assert_true(store_hardware(&store, &hw, &e));
    add(&store, "p1", "ok");
    store_close(&store);
    open_store(&store, state, &s, true);
    assert_int_equal(store.n_hw, 1);
    snprintf(hw.name, sizeof hw.name, "cpu-2t");
    assert_true(store_hardware(&store, &hw, &e));
    hw.bandwidth[ROOF_ATTAINABLE].value = 2e10; // raised
    assert_true(store_hardware(&store, &hw, &e));
    assert_true(store.n_hw == 2 && store.hw[1].bandwidth[ROOF_ATTAINABLE].value == 2e10);
    finish(&store, true);
    int lines = count_lines(path_in(state, "a.roofs.csv"));
    assert_true(lines > 3 && lines % 2 == 1); // a header, and as many rows for each
    struct store peek;
    assert_true(store_peek(&peek, *state, &s, &e));
    assert_non_null(store_find(&peek, "p1"));
    store_close(&peek);
}

static void assert_beside(const struct surroundings *a, const struct surroundings *b)
{
    const struct disturbance *x = &a->disturbance, *y = &b->disturbance;
    assert_true(x->wall_ns == y->wall_ns && x->waited_ns == y->waited_ns && x->other_cpu_ns == y->other_cpu_ns);
    assert_true(x->steal_ns == y->steal_ns && x->involuntary == y->involuntary);
    assert_true(x->first_kHz == y->first_kHz && x->last_kHz == y->last_kHz && x->affinity_changed == y->affinity_changed);
    assert_int_equal(a->n_edges, b->n_edges);
    assert_memory_equal(a->edge_flops, b->edge_flops, sizeof a->edge_flops);
    assert_memory_equal(a->edge_read, b->edge_read, sizeof a->edge_read);
    assert_true(isnan(a->gpu.clock_MHz) && a->gpu.limits == b->gpu.limits);
}

static void test_resume(void **state)
{
    struct scenario s = scenario_named("a"), other = scenario_named("a");
    struct store store;
    struct error e = {0};
    double numbers[2] = {5, 6};
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    add(&store, "p2", "failed");
    struct sample_block block = {.key = "p3", .block = 0, .n = 2, .sample_ns = numbers, .probe = numbers, .test_time = "t"};
    surroundings_init(&block.beside);
    block.beside.disturbance =
        (struct disturbance){1, 2, -1, 4, 5, .first_kHz = 3e6, .last_kHz = 2e6, .affinity_changed = true}; // -1: not told
    block.beside.n_edges = 2;
    block.beside.edge_flops[1] = 1.25e12;
    block.beside.gpu.limits = 0x24;
    assert_true(store_add_block(&store, &block, &e));
    store_close(&store); // as if killed: nothing is finished
    FILE *f = fopen(path_in(state, "a.jsonl"), "a");
    fputs("{\"key\": \"half a li", f);
    fclose(f);

    open_store(&store, state, &s, true);
    assert_int_equal(store.n_rows, 1); // failed points are tried again, half a line is dropped
    assert_non_null(store_find(&store, "p1"));
    assert_true(store.row[0].n_ops == 1 && store.row[0].op[0].op_ns == 12);
    assert_true(store.n_blocks == 1 && store.block[0].n == 2 && store.block[0].sample_ns[1] == 6);
    assert_beside(&store.block[0].beside, &block.beside);
    add(&store, "p2", "ok");
    finish(&store, true);
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 2);

    other.samples++;
    assert_false(store_open(&store, *state, &other, true, synthetic_meta(&other), &e));
    assert_int_equal(error_exit_code(e.kind), 2);
    assert_non_null(strstr(e.message, "another scenario"));
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 2); // untouched
}

// Numbers that no machine tells are as if they were not there (found by fuzzing).
static void test_absurd_surroundings(void **state)
{
    static const char LINE[] = "{\"key\":\"k\",\"block\":0,\"test_time\":\"t\",\"samples_ns\":[1],\"samples_probe\":[1e999],"
                               "\"beside\":{\"gpu_limits\":-6,\"waited_ns\":-7,\"wall_ns\":1e30,\"first_kHz\":-1,"
                               "\"edge_flops\":[1,2,3,4,5,6,7,8],\"edge_read\":[1,\"x\"]}}";
    struct sample_block b;
    struct error e = {0};
    cJSON *json;
    (void)state;
    assert_true(json_parse(LINE, sizeof LINE - 1, "line", &json, &e) && sample_block_parse(&b, json, "line", &e));
    assert_true(!b.beside.gpu.limits && !b.beside.disturbance.waited_ns && !b.beside.disturbance.wall_ns);
    assert_true(b.sample_ns[0] == 1 && b.probe[0] == 0);
    assert_true(b.beside.disturbance.first_kHz == 0 && b.beside.n_edges == 2 && b.beside.edge_read[1] == 0);
    free(b.sample_ns);
    cJSON_Delete(json);
}

static void test_corrupt_rows(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    store_close(&store);
    FILE *f = fopen(path_in(state, "a.jsonl"), "a");
    fputs("not JSON\n", f);
    fclose(f);
    assert_false(store_open(&store, *state, &s, true, synthetic_meta(&s), &e));
    assert_non_null(strstr(e.message, "a.jsonl:2"));
    assert_int_equal(error_exit_code(e.kind), 2);
}

static void test_unwritable(void **state)
{
    (void)state;
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    assert_false(store_open(&store, "/dev/null/results", &s, false, synthetic_meta(&s), &e));
    assert_int_equal(error_exit_code(e.kind), 1);
    assert_non_null(strstr(e.message, "/dev/null"));
}

// What a full disk looks like to us: a write that fails. The file size limit stands in for it.
static void test_full_disk(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    struct rlimit old, small = {.rlim_cur = 16};
    open_store(&store, state, &s, false);
    struct result r;
    result_init(&r);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    bool added = store_add(&store, &r, NULL, 0, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(added);
    assert_int_equal(error_exit_code(e.kind), 1);
    assert_non_null(strstr(e.message, "a.jsonl"));
    store_close(&store);
}

// A line copied by hand is one point all the same.
static void test_repeated_rows(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    add(&store, "p1", "ok");
    store_close(&store);
    open_store(&store, state, &s, true);
    assert_int_equal(store.n_rows, 1);
    store_close(&store);
}

// The second is refused before it moves or overwrites what the first is writing.
static void test_two_at_once(void **state)
{
    struct scenario s = scenario_named("a");
    struct store first, second;
    struct error e = {0};
    open_store(&first, state, &s, false);
    add(&first, "p1", "ok");
    for (int resume = 0; resume < 2; resume++) {
        assert_false(store_open(&second, *state, &s, resume, synthetic_meta(&s), &e));
        assert_int_equal(error_exit_code(e.kind), 1);
        assert_non_null(strstr(e.message, "another kvbench"));
    }
    add(&first, "p2", "ok");
    finish(&first, true);
    assert_int_equal(count_lines(path_in(state, "a.jsonl")), 2);
    open_store(&second, state, &s, true);
    store_close(&second);
}

// Rows written to a file without a name would be lost: the sweep must end, and say so.
static void test_removed_while_running(void **state)
{
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    struct result r;
    open_store(&store, state, &s, false);
    add(&store, "p1", "ok");
    assert_int_equal(remove(path_in(state, "a.jsonl")), 0);
    result_init(&r);
    assert_false(store_add(&store, &r, NULL, 0, &e));
    assert_int_equal(error_exit_code(e.kind), 1);
    assert_non_null(strstr(e.message, "a.jsonl"));
    store_close(&store);
}

static void test_folder_names(void **state)
{
    (void)state;
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    char name[700];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    assert_false(store_open(&store, name, &s, false, synthetic_meta(&s), &e));
    assert_int_equal(error_exit_code(e.kind), 2);
    assert_false(store_open(&store, "", &s, false, synthetic_meta(&s), &e));
    assert_int_equal(error_exit_code(e.kind), 2);
}

static void test_memory_only(void **state)
{
    (void)state;
    struct scenario s = scenario_named("a");
    struct store store;
    struct error e = {0};
    assert_true(store_open(&store, NULL, &s, false, synthetic_meta(&s), &e));
    add(&store, "p1", "ok");
    assert_non_null(store_find(&store, "p1"));
    finish(&store, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_names_of_others),
        cmocka_unit_test(test_documentation),
        cmocka_unit_test(test_json_and_back),
        cmocka_unit_test(test_csv),
        WITH_FOLDER(test_files),
        WITH_FOLDER(test_older_results_are_kept),
        WITH_FOLDER(test_lone_table_is_kept),
        WITH_FOLDER(test_nothing_measured_moves_nothing),
        WITH_FOLDER(test_ceilings_of_all_threads),
        WITH_FOLDER(test_resume),
        WITH_FOLDER(test_repeated_rows),
        WITH_FOLDER(test_two_at_once),
        WITH_FOLDER(test_removed_while_running),
        cmocka_unit_test(test_folder_names),
        cmocka_unit_test(test_absurd_surroundings),
        WITH_FOLDER(test_corrupt_rows),
        cmocka_unit_test(test_unwritable),
        WITH_FOLDER(test_full_disk),
        cmocka_unit_test(test_memory_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
