// Results read again: the sample of the repository, both formats of the same rows, and files that are none.
#include "bench/recorded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64] = "/tmp/kvbench-recorded-XXXXXX.csv";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemps(path, 4);
    return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    memcpy(strrchr(path, '.'), ".csv", sizeof ".csv");
    unlink(path);
    return 0;
}

static void write_text(const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void sample_is_read_whole(void **state)
{
    (void)state;
    struct recorded r;
    struct error e = {0};
    assert_true(recorded_read(&r, "tests/golden/sample/cpu", &e) || (print_message("%s\n", e.message), false));
    assert_string_equal(r.name, "cpu");
    assert_int_equal(r.n_rows, 26);
    assert_int_equal(r.n_hw, 1);
    assert_true(r.hw[0].bandwidth[ROOF_ATTAINABLE].value > 1e9);
    const struct stored *row = recorded_find(&r, "decode/b4/c1024/bf16/kv-int8/blk16");
    assert_non_null(row);
    assert_string_equal(row->result.verdict, "noisy");
    assert_int_equal(row->result.samples_ns.n, row->result.n_samples);
    assert_true(isnan(row->result.bound_ns));
    assert_true(row->n_ops > 5);
    assert_string_equal(row->op[0].key, row->result.key);
    recorded_free(&r);
}

// What csv_row writes, recorded_read reads: quotes, commas and line breaks within a text, unknown cells, lists.
static void table_reads_as_it_was_written(void **state)
{
    (void)state;
    struct result row;
    struct recorded r;
    int32_t n;
    const struct column *column = result_columns(&n);
    double sample[] = {1.5, 2e9, 3};
    result_init(&row);
    snprintf(row.key, sizeof row.key, "a,\"b\"\n<c>");
    snprintf(row.phase, sizeof row.phase, "decode");
    row.batch = 8;
    row.median_ns = 1.25e6;
    row.samples_ns = (result_reals){.value = sample, .n = 3};
    FILE *f = fopen(path, "we");
    csv_header(f, column, n);
    csv_row(f, column, n, &row);
    fclose(f);
    assert_true(recorded_read(&r, path, NULL));
    assert_string_equal(r.row[0].result.key, row.key);
    assert_int_equal(r.row[0].result.batch, 8);
    assert_int_equal(r.row[0].result.context, RESULT_UNKNOWN);
    assert_true(r.row[0].result.median_ns == row.median_ns);
    assert_int_equal(r.row[0].result.samples_ns.n, 3);
    assert_true(r.row[0].result.samples_ns.value[1] == 2e9);
    recorded_free(&r);
}

static void expect_refused(const char *text, const char *message)
{
    struct recorded r;
    struct error e = {0};
    write_text(text);
    assert_false(recorded_read(&r, path, &e));
    assert_int_equal(e.kind, ERROR_FILE);
    if (!strstr(e.message, message))
        fail_msg("'%s' lacks '%s'", e.message, message);
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    expect_refused("", "columns key and phase");
    expect_refused("a,b\n1,2\n", "columns key and phase");
    expect_refused("key,phase,batch\nx,decode,many\n", "line 2: 'batch' is 'many', expected a number");
    expect_refused("key,phase,batch\nx,decode,1e999\n", "expected a number");
    expect_refused("key,phase,samples_ns\nx,decode,1 2 three\n", "'samples_ns' is '1 2 three'");
    expect_refused("key,phase\n", "no finished point");
    expect_refused("key,phase\n\"x\"y,decode\n", "is no CSV");
}

static void lines_are_read_until_a_cut_one(void **state)
{
    (void)state;
    struct recorded r;
    memcpy(strrchr(path, '.'), ".jsonl", sizeof ".jsonl");
    write_text("{\"key\":\"a\",\"phase\":\"decode\",\"batch\":1}\n{\"key\":\"a\",\"phase\":\"decode\",\"batch\":2}\n{"
               "\"key\":\"b\"");
    assert_false(recorded_read(&r, "/tmp/kvbench-no-such-result", NULL));
    assert_true(recorded_read(&r, path, NULL));
    assert_int_equal(r.n_rows, 1);
    assert_int_equal(r.row[0].result.batch, 2);
    recorded_free(&r);
    write_text("{\"key\":\"a\",\"batch\":\"two\"}\n");
    assert_false(recorded_read(&r, path, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_read_whole),
        cmocka_unit_test(table_reads_as_it_was_written),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(lines_are_read_until_a_cut_one),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
