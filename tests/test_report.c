// The page that kvbench report writes: scales and ticks by hand, text from hostile files, well-formed markup, nothing from
// the network, the same page twice, modest in size.
#include "bench/html.h"
#include "bench/report/report.h"
#include "bench/svg.h"
#include "tests/files.h"

#include <math.h>

static char folder[64];

static int make_folder_for_tests(void **state)
{
    (void)state;
    scratch_make(folder);
    return 0;
}

static int remove_folder_of_tests(void **state)
{
    (void)state;
    scratch_remove(folder, "h<b>.jsonl", "h<b>.meta.json", "second.jsonl", "poor.jsonl", "negative.jsonl", "many.jsonl",
                   "levels.jsonl", "levels.meta.json", NULL);
    return 0;
}

static char *escaped(const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    html_text(f, text);
    fclose(f);
    return out;
}

static void expect_escaped(const char *text, const char *expected)
{
    char *out = escaped(text);
    assert_string_equal(out, expected);
    free(out);
}

static void text_is_escaped(void **state)
{
    (void)state;
    expect_escaped("a<b>&\"c\"'d'", "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
    expect_escaped("caf\xc3\xa9", "caf\xc3\xa9");
    expect_escaped("\xff\xc3(\x01", "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd");
    expect_escaped("</script><!--", "&lt;/script&gt;&lt;!--");
}

static void numbers_have_three_digits(void **state)
{
    static const struct {
        double v;
        const char *text;
    } CASE[] = {{0, "0"},         {0.0123, "0.0123"}, {4.5649, "4.56"},  {78.96, "79.0"}, {99.96, "100"},
                {12345, "12345"}, {-4.5, "-4.50"},    {INFINITY, ""},    {NAN, ""},       {1e18, "1e+18"},
                {1e-7, "1e-07"},  {9.996, "10.0"},    {0.999999, "1.00"}};
    char out[32];
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++)
        assert_string_equal(html_number(CASE[i].v, out), CASE[i].text);
    assert_string_equal(html_rate(81.998e9, "B/s", out), "82.0 GB/s");
    assert_string_equal(html_rate(1.0657e12, "FLOP/s", out), "1.07 TFLOP/s");
}

static void scales_place_values(void **state)
{
    (void)state;
    struct svg_scale even = {.low = 0, .high = 10, .from = 100, .to = 200};
    struct svg_scale decades = {.log = true, .low = 1, .high = 100, .from = 300, .to = 100}; // upwards
    assert_true(fabs(svg_place(&even, 2.5) - 125) < 1e-9);
    assert_true(fabs(svg_place(&decades, 10) - 200) < 1e-9);
    struct svg_scale empty = svg_scale_empty(true);
    svg_scale_hold(&empty, NAN);
    svg_scale_hold(&empty, 0); // has no place on a log scale
    svg_scale_finish(&empty, 4);
    assert_true(empty.low > 0 && empty.high > empty.low);
    struct svg_scale narrow = svg_scale_empty(true);
    svg_scale_hold(&narrow, 10);
    svg_scale_finish(&narrow, 4);
    assert_true(fabs(narrow.high / narrow.low - 4) < 1e-9);
}

static void expect_ticks(struct svg_scale s, const double *expected, int32_t n)
{
    double tick[SVG_TICKS];
    assert_int_equal(svg_ticks(&s, tick), n);
    for (int32_t i = 0; i < n; i++)
        assert_true(fabs(tick[i] - expected[i]) < 1e-9 * (1 + fabs(expected[i])));
}

static void ticks_are_round(void **state)
{
    (void)state;
    expect_ticks((struct svg_scale){.low = 0, .high = 100}, (double[]){0, 20, 40, 60, 80, 100}, 6);
    expect_ticks((struct svg_scale){.low = -12, .high = 101}, (double[]){0, 20, 40, 60, 80, 100}, 6);
    expect_ticks((struct svg_scale){.log = true, .low = 0.9, .high = 60}, (double[]){1, 2, 5, 10, 20, 50}, 6);
    expect_ticks((struct svg_scale){.log = true, .low = 0.5, .high = 5e6}, (double[]){1, 10, 100, 1e3, 1e4, 1e5, 1e6}, 7);
    double tick[SVG_TICKS]; // as many as there is room for, however wide
    assert_true(svg_ticks(&(struct svg_scale){.log = true, .low = 1e-300, .high = 1e300}, tick) <= SVG_TICKS);
}

static char *page_of(const char *const *path, int32_t n)
{
    struct report r;
    struct error e = {0};
    static char *page; // static: gcc 12 takes what open_memstream made for a dangling local
    size_t size;
    if (!report_open(&r, path, n, &e))
        fail_msg("%s", e.message);
    FILE *f = open_memstream(&page, &size);
    report_write(f, &r);
    fclose(f);
    report_close(&r);
    return page;
}

static int32_t count(const char *text, const char *part)
{
    int32_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

// Every element that is opened is closed in order, but for the few of HTML that never are. Scripts and styles are skipped.
static void assert_well_formed(const char *page)
{
    static const char *const VOID[] = {"meta", "link", "input", "br"};
    char open[64][16];
    int depth = 0;
    for (const char *at = page; (at = strchr(at, '<')); at++) {
        char name[16] = "";
        if (at[1] == '!')
            continue;
        bool closes = at[1] == '/', is_void = false;
        sscanf(at + 1 + closes, "%15[a-z0-9]", name);
        const char *end = strchr(at, '>');
        assert_non_null(end);
        assert_true(*name);
        for (size_t i = 0; i < sizeof VOID / sizeof *VOID; i++)
            is_void |= !strcmp(name, VOID[i]);
        if (closes) {
            assert_true(depth > 0);
            if (strcmp(open[--depth], name))
                fail_msg("</%s> closes <%s>: %.80s", name, open[depth], at - 40);
        } else if (!is_void && end[-1] != '/') {
            assert_true(depth < 64);
            snprintf(open[depth++], 16, "%s", name);
        }
        if (!closes && (!strcmp(name, "script") || !strcmp(name, "style"))) {
            end = strstr(at, !strcmp(name, "script") ? "</script>" : "</style>");
            assert_non_null(end);
            end--;
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

static void sample_makes_a_whole_page(void **state)
{
    static const char *const PATH[] = {"tests/golden/sample/cpu.csv"};
    static const char *const PICTURE[] = {"Roofline",
                                          "Measured against the roof",
                                          "Decode step by batch",
                                          "Decode throughput by batch",
                                          "Decode step by context",
                                          "Decode step by KV type",
                                          "Time by operation",
                                          "From the roof to the measured time"};
    (void)state;
    char *page = page_of(PATH, 1), *again = page_of(PATH, 1);
    assert_string_equal(page, again);
    assert_well_formed(page);
    for (size_t i = 0; i < sizeof PICTURE / sizeof *PICTURE; i++)
        assert_int_equal(count(page, PICTURE[i]) > 0, 1);
    assert_int_equal(count(page, "<figure>"), 8);
    assert_int_equal(count(page, "<details class=\"point\""), 26);
    assert_int_equal(count(page, "<tr class=\"noisy\">"), 5);
    assert_non_null(strstr(page, "29.0 to 30.8")); // the interval of the first point, when it is pointed at
    assert_non_null(strstr(page, "read ceiling of cpu-2t raised from 55.3 to 82 GB/s"));
    assert_non_null(strstr(page, "NO_AFFINITY Haswell")); // the environment
    assert_null(strstr(page, "{{"));
    free(page);
    free(again);
}

static void page_asks_nothing_of_the_network(void **state)
{
    static const char *const PATH[] = {"tests/golden/sample/cpu.csv"};
    static const char *const BANNED[] = {"http:",  "https:",         " src=",   "url(",    "@import",
                                         "fetch(", "XMLHttpRequest", "<iframe", "href=\"/"};
    (void)state;
    char *page = page_of(PATH, 1);
    for (size_t i = 0; i < sizeof BANNED / sizeof *BANNED; i++)
        if (strstr(page, BANNED[i]))
            fail_msg("the page has '%s'", BANNED[i]);
    assert_non_null(strstr(page, "default-src 'none'"));
    free(page);
}

// Every text of a row and of its record tries to become markup.
static const char *const HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{script}}</title></style>";

static void write_hostile(const char *name)
{
    int32_t n, n_ops;
    char path[256];
    const struct column *column = result_columns(&n), *op_column = op_columns(&n_ops);
    struct result r;
    struct op_result op;
    result_init(&r);
    op_result_init(&op);
    for (int32_t i = 0; i < n; i++)
        if (column[i].type == COLUMN_text)
            snprintf((char *)&r + column[i].offset, sizeof(result_text), "%s", HOSTILE);
    for (int32_t i = 0; i < n_ops; i++)
        if (op_column[i].type == COLUMN_text)
            snprintf((char *)&op + op_column[i].offset, sizeof(result_text), "%s", HOSTILE);
    r.batch = 1, r.context = 64, r.n_gen = 1;
    r.median_ns = 1e6, r.roof_ns = 5e5, op.op_ns = 1e5;
    cJSON *json = row_json(column, n, &r), *ops = cJSON_AddArrayToObject(json, "ops");
    cJSON_AddItemToArray(ops, row_json(op_column, n_ops, &op));
    char *text = cJSON_PrintUnformatted(json);
    FILE *f = fopen(scratch_path(folder, name, path), "we");
    fprintf(f, "%s\n", text);
    fclose(f);
    free(text);
    cJSON_Delete(json);
}

static void write_hostile_meta(const char *name)
{
    char path[256];
    cJSON *meta = cJSON_CreateObject();
    cJSON *environment = cJSON_AddObjectToObject(meta, "environment");
    cJSON_AddStringToObject(environment, HOSTILE, HOSTILE);
    cJSON_AddItemToObject(environment, "list", cJSON_CreateStringArray(&HOSTILE, 1));
    cJSON_AddStringToObject(meta, "started", HOSTILE);
    cJSON_AddItemToObject(meta, "notes", cJSON_CreateStringArray(&HOSTILE, 1));
    cJSON_AddStringToObject(cJSON_AddObjectToObject(meta, "scenario"), "name", HOSTILE);
    char *text = cJSON_Print(meta);
    FILE *f = fopen(scratch_path(folder, name, path), "we");
    fputs(text, f);
    fclose(f);
    free(text);
    cJSON_Delete(meta);
}

static void hostile_texts_stay_texts(void **state)
{
    char path[256], other[256];
    (void)state;
    write_hostile("h<b>.jsonl");
    write_hostile_meta("h<b>.meta.json");
    write_hostile("second.jsonl");
    const char *paths[] = {scratch_path(folder, "h<b>.jsonl", path), scratch_path(folder, "second.jsonl", other)};
    for (int32_t n = 1; n <= 2; n++) {
        char *page = page_of(paths, n);
        assert_well_formed(page);
        assert_int_equal(count(page, "<script>"), 1);
        assert_int_equal(count(page, "</style>"), 1);
        assert_null(strstr(page, "<img"));
        assert_null(strstr(page, "<b>.jsonl"));
        assert_true(count(page, "&lt;script&gt;alert(1)") > 10); // it is there, as text
        free(page);
    }
}

// A row that knows nothing but its key, and one whose numbers are absurd.
static void poor_rows_make_a_page(void **state)
{
    char path[256];
    (void)state;
    static const char ROWS[] =
        "{\"key\":\"a\",\"phase\":\"decode\"}\n{\"key\":\"b\"}\n"
        "{\"key\":\"c\",\"phase\":\"prefill\",\"median_ns\":0,\"roof_ns\":0,\"flops\":0,\"batch\":-5,\"n_prompt\":9e15}\n"
        "{\"key\":\"d\",\"phase\":\"decode\",\"context\":1,\"n_gen\":1,\"median_ns\":1e300,\"median_low_ns\":-1e300,"
        "\"median_high_ns\":1e300,\"roof_ns\":1e-300,\"samples_ns\":[1e300,1,-1],\"samples_block\":[0,1e9,-3]}\n"
        "{\"key\":\"f\",\"phase\":\"decode\",\"batch\":1,\"context\":9,\"n_gen\":1,\"median_ns\":9,\"roof_ns\":5,\"spans_"
        "ns\":6,"
        "\"busy_ns\":7,\"traced_ns\":8,\"ops\":[{\"op\":\"attn\"},{\"op\":\"ffn_up\",\"op_ns\":3}]}\n"
        "{\"key\":\"e\",\"phase\":\"decode\",\"samples_ns\":[5],\"verdict\":\"failed\",\"reason\":\"no memory\"}\n";
    scratch_write(folder, "poor.jsonl", ROWS, sizeof ROWS - 1);
    const char *paths[] = {scratch_path(folder, "poor.jsonl", path)};
    char *page = page_of(paths, 1);
    assert_well_formed(page);
    assert_null(strstr(page, "=\"nan"));
    assert_null(strstr(page, "=\"inf"));
    assert_null(strstr(page, "Mnan"));
    assert_null(strstr(page, "-inf"));
    assert_non_null(strstr(page, "no memory"));
    free(page);
}

// Differences to the left of 0: with a roof of 120, kernels that took -30, and 10 of the rest.
static void negative_differences_lie_left_of_zero(void **state)
{
    char path[256];
    (void)state;
    static const char ROW[] =
        "{\"key\":\"a\",\"phase\":\"decode\",\"batch\":1,\"context\":64,\"n_gen\":1,\"verdict\":\"ok\","
        "\"median_ns\":100e6,\"roof_ns\":120e6,\"executed_ns\":5e6,\"shortfall_ns\":-30e6,\"gaps_ns\":5e6,"
        "\"observer_ns\":0,\"spans_ns\":125e6,\"busy_ns\":95e6,\"traced_ns\":100e6}\n";
    scratch_write(folder, "negative.jsonl", ROW, sizeof ROW - 1);
    const char *paths[] = {scratch_path(folder, "negative.jsonl", path)};
    char *page = page_of(paths, 1), *part = strstr(page, "class=\"s d5\" x=");
    double x = 0, width = 0, y, zero = 0;
    assert_non_null(part);
    assert_int_equal(sscanf(part, "class=\"s d5\" x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y, &width), 3);
    part = strstr(page, "class=\"s d0\" x=");
    assert_int_equal(sscanf(part, "class=\"s d0\" x=\"%lf\"", &zero), 1);
    assert_true(fabs(x + width - zero) < 0.2 && width > 1);
    assert_non_null(strstr(page, "-30.0 ms"));
    free(page);
}

// A step of 400 kB that a cache of 1 MB serves, and one of 40 MB from main memory.
static void operations_stand_below_their_level(void **state)
{
    char path[256];
    (void)state;
    static const char ROWS[] =
        "{\"key\":\"a\",\"phase\":\"decode\",\"batch\":1,\"context\":64,\"n_gen\":1,\"verdict\":\"ok\",\"hardware\":\"m\","
        "\"compute\":\"f32\",\"type_k\":\"f32\",\"type_v\":\"f32\",\"median_ns\":9e4,\"flops\":2e5,\"intensity\":0.5,\"roof_"
        "ns\":5e4,\"weight_bytes\":3e5,"
        "\"kv_read_bytes\":1e5,\"kv_write_bytes\":0,\"ops\":[{\"op\":\"attn\",\"op_ns\":1e4,\"flops\":2e5,\"weight_bytes\":"
        "0,"
        "\"kv_read_bytes\":1e5,\"kv_write_bytes\":0}]}\n"
        "{\"key\":\"b\",\"phase\":\"decode\",\"batch\":1,\"context\":128,\"n_gen\":1,\"verdict\":\"ok\",\"hardware\":\"m\","
        "\"compute\":\"f32\",\"type_k\":\"f32\",\"type_v\":\"f32\",\"median_ns\":9e6,\"flops\":6e7,\"intensity\":1.5,\"roof_"
        "ns\":5e6,\"weight_bytes\":3e7,"
        "\"kv_read_bytes\":1e7,\"kv_write_bytes\":0,\"ops\":[{\"op\":\"ffn_up\",\"op_ns\":4e6,\"flops\":6e7,"
        "\"weight_bytes\":3e7,\"kv_read_bytes\":0,\"kv_write_bytes\":0},{\"op\":\"norm\",\"op_ns\":10,\"flops\":0,"
        "\"weight_bytes\":64,\"kv_read_bytes\":0,\"kv_write_bytes\":0}]}\n";
    static const char META[] =
        "{\"ceilings\":[{\"name\":\"m\",\"title\":\"M\",\"kind\":\"cpu\",\"attainable\":{\"bandwidth_GBps\":10,\"peak_"
        "TFLOPS\":"
        "{\"f32\":0.5},\"levels\":[{\"name\":\"L2\",\"capacity_MiB\":1,\"fade_MiB\":2,\"read_GBps\":100}]}}]}";
    scratch_text(folder, "levels.jsonl", ROWS);
    scratch_text(folder, "levels.meta.json", META);
    const char *paths[] = {scratch_path(folder, "levels.jsonl", path)};
    char *page = page_of(paths, 1);
    assert_well_formed(page);
    assert_int_equal(count(page, "Operations below the memory hierarchy</h4>"), 1);
    assert_non_null(strstr(page, "attention, from L2<"));
    assert_null(strstr(page, "attention, from memory<"));
    assert_non_null(strstr(page, "matrix products, from memory<"));
    assert_null(strstr(page, "matrix products, from L2<"));
    assert_non_null(strstr(page, "20.0 GFLOP/s\n100 % of its bytes from L2\ndecode, batch 1, 64 tokens"));
    assert_non_null(strstr(page, "15.0 GFLOP/s\n100 % of its bytes from memory\ndecode, batch 1, 128 tokens"));
    assert_int_equal(count(page, ">L2: 100 GB/s<"), 2); // in the key of the roofline, too
    free(page);
}

// 104 points: the sample four times, as other threads.
static void hundred_points_stay_below_a_megabyte(void **state)
{
    char path[256];
    struct recorded r;
    int32_t n, n_ops;
    const struct column *column = result_columns(&n), *op_column = op_columns(&n_ops);
    (void)state;
    assert_true(recorded_read(&r, "tests/golden/sample/cpu.csv", NULL));
    FILE *f = fopen(scratch_path(folder, "many.jsonl", path), "we");
    for (int copy = 0; copy < 4; copy++)
        for (int32_t i = 0; i < r.n_rows; i++) {
            struct result *row = &r.row[i].result;
            row->threads = copy + 1;
            snprintf(row->key, sizeof row->key, "%d/%d", copy, (int)i);
            cJSON *json = row_json(column, n, row), *ops = cJSON_AddArrayToObject(json, "ops");
            for (int32_t k = 0; k < r.row[i].n_ops; k++)
                cJSON_AddItemToArray(ops, row_json(op_column, n_ops, &r.row[i].op[k]));
            char *text = cJSON_PrintUnformatted(json);
            fprintf(f, "%s\n", text);
            free(text);
            cJSON_Delete(json);
        }
    fclose(f);
    recorded_free(&r);
    const char *paths[] = {path};
    char *page = page_of(paths, 1);
    assert_int_equal(count(page, "<details class=\"point\""), 104);
    print_message("%zu bytes for 104 points\n", strlen(page));
    assert_true(strlen(page) < 1000000);
    free(page);
}

static void results_stand_side_by_side(void **state)
{
    static const char *const PATH[] = {"tests/golden/sample/cpu.csv", "tests/golden/sample/cpu.csv"};
    (void)state;
    char *page = page_of(PATH, 2);
    assert_well_formed(page);
    assert_non_null(strstr(page, "26 shapes of work occur in more than one result"));
    assert_int_equal(count(page, "<td class=\"r\">1.00</td></tr>\n"), 26); // each as fast as itself
    assert_int_equal(count(page, "<article id="), 2);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(numbers_have_three_digits),
        cmocka_unit_test(scales_place_values),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(sample_makes_a_whole_page),
        cmocka_unit_test(page_asks_nothing_of_the_network),
        cmocka_unit_test(hostile_texts_stay_texts),
        cmocka_unit_test(poor_rows_make_a_page),
        cmocka_unit_test(negative_differences_lie_left_of_zero),
        cmocka_unit_test(operations_stand_below_their_level),
        cmocka_unit_test(hundred_points_stay_below_a_megabyte),
        cmocka_unit_test(results_stand_side_by_side),
    };
    return cmocka_run_group_tests(tests, make_folder_for_tests, remove_folder_of_tests);
}
