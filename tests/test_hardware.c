// Every row of the hardware table is in the catalogue with the same numbers; files are read strictly and written back.
#include "engine/base/file.h"
#include "roofline/catalogue.h"
#include "roofline/hardware.h"

#include <csv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_ROWS = 100, MAX_COLUMNS = 48, MAX_CELL = 512 };

struct table {
    char cell[MAX_ROWS][MAX_COLUMNS][MAX_CELL];
    int row, column;
};

static void add_cell(void *text, size_t size, void *context)
{
    struct table *t = context;
    assert_true(t->row < MAX_ROWS && t->column < MAX_COLUMNS);
    snprintf(t->cell[t->row][t->column++], MAX_CELL, "%.*s", (int)size, (const char *)text);
}

static void end_row(int terminator, void *context)
{
    struct table *t = context;
    (void)terminator;
    t->row++;
    t->column = 0;
}

static struct table *read_table(const char *path)
{
    struct table *t = calloc(1, sizeof *t);
    struct csv_parser parser;
    struct file file;
    struct error e = {0};
    if (!file_open(&file, path, &e))
        fail_msg("%s", e.message);
    assert_int_equal(csv_init(&parser, 0), 0);
    assert_int_equal(csv_parse(&parser, file.data, file.size, add_cell, end_row, t), file.size);
    csv_fini(&parser, add_cell, end_row, t);
    csv_free(&parser);
    file_close(&file);
    return t;
}

static const char *text_at(const struct table *t, int row, const char *column)
{
    for (int i = 0; i < MAX_COLUMNS; i++)
        if (!strcmp(t->cell[0][i], column))
            return t->cell[row][i];
    fail_msg("no column '%s'", column);
    return "";
}

static double number_at(const struct table *t, int row, const char *column)
{
    return strtod(text_at(t, row, column), NULL);
}

static struct hardware load(const char *name)
{
    struct hardware hw;
    struct error e = {0};
    if (!hardware_load(&hw, name, &e))
        fail_msg("%s", e.message);
    return hw;
}

static void assert_near(const char *what, double a, double b)
{
    if (!(fabs(a - b) <= 1e-5 * fabs(b)))
        fail_msg("%s: %.9g, expected %.9g", what, a, b);
}

static const struct {
    const char *column;
    enum dtype type;
} PEAK[] = {{"fp32_TFLOPS", DTYPE_F32},
            {"fp16_TFLOPS", DTYPE_F16},
            {"bf16_TFLOPS", DTYPE_BF16},
            {"fp8_TFLOPS", DTYPE_FP8},
            {"int8_TOPS", DTYPE_INT8}};

// What vendors print of processors is a base clock: their datasheet peak is what that clock gives.
static void check_datasheet(const struct table *t, int row, const struct hardware *hw)
{
    double clock = strcmp(hw->kind, "cpu") ? 1 : number_at(t, row, "boost_MHz_spec") / number_at(t, row, "max_MHz");
    assert_near(hw->name, hw->bandwidth[ROOF_DATASHEET].value, number_at(t, row, "bandwidth_GBps") * 1e9);
    for (size_t i = 0; i < sizeof PEAK / sizeof *PEAK; i++)
        assert_near(hw->name, hw->peak[ROOF_DATASHEET][PEAK[i].type].value,
                    number_at(t, row, PEAK[i].column) * 1e12 * clock);
}

// The larger of the printed value and the derived one, for each quantity.
static void check_hard(const struct table *t, int row, const struct hardware *hw)
{
    double printed = number_at(t, row, "bandwidth_GBps"), clock = number_at(t, row, "bandwidth_from_clock_GBps");
    double f16 = number_at(t, row, "fp16_hard_TFLOPS_at_max_MHz"), f16_printed = number_at(t, row, "fp16_TFLOPS");
    double twice = number_at(t, row, "fast_accumulate_mult_fp16_fp8");
    assert_near(hw->name, hw->bandwidth[ROOF_HARD].value, fmax(printed, clock) * 1e9);
    if (f16 > 0)
        assert_near(hw->name, hw->peak[ROOF_HARD][DTYPE_F16].value, fmax(f16, f16_printed) * twice * 1e12);
    for (size_t i = 0; i < sizeof PEAK / sizeof *PEAK; i++)
        assert_true(hw->peak[ROOF_HARD][PEAK[i].type].value >= number_at(t, row, PEAK[i].column) * 1e12 * (1 - 1e-9));
}

// Nothing attained or printed is above the hard value, and each value says where it is from.
static void check_order(const struct hardware *hw)
{
    for (int k = ROOF_DATASHEET; k < ROOF_KINDS; k++) {
        assert_true(hw->bandwidth[k].value <= hw->bandwidth[ROOF_HARD].value);
        for (int t = 0; t < DTYPE_COUNT; t++)
            assert_true(hw->peak[k][t].value <= hw->peak[ROOF_HARD][t].value);
    }
    for (int k = 0; k < ROOF_KINDS; k++)
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (hw->peak[k][t].value > 0)
                assert_true(*hw->peak[k][t].source && *hw->peak[k][t].method);
    assert_true(*hw->source && *hw->bandwidth[ROOF_HARD].source);
}

static void test_every_row(void **state)
{
    struct table *t = read_table("tests/golden/hardware.csv");
    (void)state;
    assert_int_equal(t->row, 62); // a header and 61 devices
    for (int row = 1; row < t->row; row++) {
        struct hardware hw = load(text_at(t, row, "name"));
        assert_string_equal(hw.title, text_at(t, row, "name"));
        assert_string_equal(hw.kind, text_at(t, row, "kind"));
        if (*text_at(t, row, "reported_MiB"))
            assert_int_equal(hw.memory_bytes, (uint64_t)number_at(t, row, "reported_MiB") << 20);
        assert_near(hw.name, hw.link_bytes_per_s_bidir, number_at(t, row, "link_GBps_bidir") * 1e9);
        check_datasheet(t, row, &hw);
        check_hard(t, row, &hw);
        check_order(&hw);
    }
    free(t);
}

static void test_names(void **state)
{
    static const char *const SAME[] = {"h100-sxm", "H100-SXM", "h100", "H100 SXM", "h100 sxm5", "NVIDIA H100 80GB HBM3"};
    struct hardware hw;
    struct error e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++)
        assert_string_equal(load(SAME[i]).name, "h100-sxm");
    assert_false(hardware_load(&hw, "h100-sxn", &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_non_null(strstr(e.message, "h100-sxm"));
}

static void test_h100(void **state)
{
    struct hardware hw = load("h100");
    (void)state;
    assert_int_equal(hw.memory_bytes, 81559ull << 20);
    assert_near("bandwidth", hardware_bandwidth(&hw, ROOF_HARD), 3352.3e9);
    assert_near("attainable", hardware_bandwidth(&hw, ROOF_ATTAINABLE), 3180e9);
    assert_near("peak", hardware_peak(&hw, ROOF_HARD, DTYPE_BF16), 1070.5e12);
    assert_near("attainable", hardware_peak(&hw, ROOF_ATTAINABLE, DTYPE_BF16), 794e12);
    assert_near("link", hardware_link(&hw), 450e9);
}

// Twice the rate where a card accumulates 16-bit products in 16 bit.
static void test_fast_accumulation(void **state)
{
    struct hardware hw = load("rtx-4090");
    (void)state;
    assert_near("bf16", hardware_peak(&hw, ROOF_HARD, DTYPE_BF16), 203.5e12);
    assert_near("f16", hardware_peak(&hw, ROOF_HARD, DTYPE_F16), 407e12);
    assert_near("fp8", hardware_peak(&hw, ROOF_HARD, DTYPE_FP8), 2 * 330.3e12 * 203.5 / 165.2);
    assert_near("link", hardware_link(&hw), 31.5e9); // PCIe
}

// The type a device computes in where it has no units for the one asked for.
static void test_compute_type(void **state)
{
    struct hardware v100 = load("v100"), a100 = load("a100"), epyc = load("epyc-9654");
    (void)state;
    assert_int_equal(hardware_compute_type(&v100, DTYPE_BF16), DTYPE_F32);
    assert_int_equal(hardware_compute_type(&v100, DTYPE_FP8), DTYPE_F16);
    assert_int_equal(hardware_compute_type(&a100, DTYPE_FP8), DTYPE_BF16);
    assert_int_equal(hardware_compute_type(&a100, DTYPE_INT8), DTYPE_INT8);
    assert_int_equal(hardware_compute_type(&epyc, DTYPE_F16), DTYPE_F32);
    assert_near("widened", hardware_peak(&v100, ROOF_DATASHEET, DTYPE_BF16), 15.7e12);
}

static const char *write_file(const char *text)
{
    static char path[] = "/tmp/kvbench-hardware-XXXXXX.json";
    memcpy(strstr(path, "hardware-") + 9, "XXXXXX", 6);
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void test_save_and_load(void **state)
{
    struct hardware hw = {.name = "here",
                          .title = "This machine",
                          .vendor = "x",
                          .kind = "cpu",
                          .arch = "y",
                          .memory_bytes = 12345678 * 1024ull,
                          .cache_bytes = 33 << 20,
                          .pcie_bytes_per_s = 31.5e9},
                    back;
    struct error e = {0};
    (void)state;
    hw.bandwidth[ROOF_ATTAINABLE] = (struct hw_value){.value = 12.3456789e9,
                                                      .method = "measured",
                                                      .n = 7,
                                                      .median = 12e9,
                                                      .spread = 0.0123,
                                                      .date = "2025-01-31",
                                                      .source = "read"};
    hw.peak[ROOF_ATTAINABLE][DTYPE_INT8] = (struct hw_value){.value = 1.5e12, .method = "measured"};
    hw.level[0] = (struct hw_level){"L2", 1 << 20, 1 << 20, {.value = 200e9, .method = "measured"}};
    hw.level[1] = (struct hw_level){"L3", 24 << 20, 96 << 20, {.value = 100e9, .spread = 0.1}};
    hw.n_levels = 2;
    const char *path = write_file("");
    assert_true(hardware_save(&hw, path, &e));
    assert_true(hardware_load(&back, path, &e));
    remove(path);
    assert_int_equal(back.memory_bytes, hw.memory_bytes);
    assert_int_equal(back.cache_bytes, hw.cache_bytes);
    assert_near("bandwidth", back.bandwidth[ROOF_ATTAINABLE].value, 12.3456789e9);
    assert_int_equal(back.bandwidth[ROOF_ATTAINABLE].n, 7);
    assert_string_equal(back.bandwidth[ROOF_ATTAINABLE].date, "2025-01-31");
    assert_near("median", back.bandwidth[ROOF_ATTAINABLE].median, 12e9);
    assert_int_equal(back.n_levels, 2);
    assert_string_equal(back.level[1].name, "L3");
    assert_true(back.level[1].bytes == 24 << 20 && back.level[1].fade_bytes == 96 << 20);
    assert_near("level", back.level[0].bandwidth.value, 200e9);
    assert_string_equal(back.level[0].bandwidth.method, "measured");
    assert_near("peak", back.peak[ROOF_ATTAINABLE][DTYPE_INT8].value, 1.5e12);
    assert_string_equal(back.title, "This machine");
    assert_true(back.bandwidth[ROOF_HARD].value == 0);
    assert_false(hardware_save(&hw, "/nonexistent/folder/x.json", &e));
    assert_int_equal(e.kind, ERROR_OUTPUT);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *message;
    } BAD[] = {
        {"", "JSON"},
        {"[]", "object"},
        {"{\"nam\": \"x\"}", "did you mean 'name'"},
        {"{\"hard\": {\"bandwith_GBps\": 1}}", "did you mean 'bandwidth_GBps'"},
        {"{\"hard\": {\"peak_TFLOPS\": {\"bf15\": 1}}}", "did you mean 'bf16'"},
        {"{\"hard\": {\"bandwidth_GBps\": {\"valu\": 1}}}", "did you mean 'value'"},
        {"{\"hard\": {\"bandwidth_GBps\": {\"method\": \"printed\"}}}", "no positive 'value'"},
        {"{\"hard\": {\"bandwidth_GBps\": \"fast\"}}", "not a number"},
        {"{\"hard\": {\"bandwidth_GBps\": -1}}", "expected 0"},
        {"{\"hard\": 7}", "object"},
        {"{\"hard\": {\"levels\": []}}", "levels"},
        {"{\"attainable\": {\"levels\": 1}}", "not a list"},
        {"{\"attainable\": {\"levels\": [{\"name\": \"L2\", \"capacity_MiB\": 1}]}}", "'read_GBps'"},
        {"{\"attainable\": {\"levels\": [{\"capacity\": 1}]}}", "did you mean 'capacity_MiB'"},
        {"{\"attainable\": {\"levels\": [{\"capacity_MiB\": 2, \"read_GBps\": 9}, {\"capacity_MiB\": 1, \"read_GBps\": "
         "8}]}}",
         "in order of size"},
        {"{\"attainable\": {\"levels\": [{\"capacity_MiB\": 1, \"read_GBps\": 8}, {\"capacity_MiB\": 2, \"read_GBps\": "
         "9}]}}",
         "slower"},
        {"{\"name\": 7}", "not a string"},
        {"{\"memory_MiB\": -1}", "expected 0"},
        {"{\"hard\": {\"bandwidth_GBps\": 1, \"peak_TFLOPS\": {\"bf16\": 1}}}", "no 'name'"},
        {"{\"name\": \"x\", \"hard\": {\"bandwidth_GBps\": 1}}", "a bandwidth and a peak"},
        {"{\"name\": \"123456789 123456789 123456789 123456789 123456789 123456789 123456789\"}", "longer than 63"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct hardware hw;
        struct error e = {0};
        const char *path = write_file(BAD[i].text);
        bool ok = hardware_load(&hw, path, &e);
        remove(path);
        if (ok || !strstr(e.message, BAD[i].message) || error_exit_code(e.kind) != 2)
            fail_msg("'%s': '%s', expected '%s'", BAD[i].text, ok ? "accepted" : e.message, BAD[i].message);
    }
}

static void test_missing_file(void **state)
{
    struct hardware hw;
    struct error e = {0};
    (void)state;
    assert_false(hardware_load(&hw, "no/such/file.json", &e));
    assert_int_equal(error_exit_code(e.kind), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),         cmocka_unit_test(test_names),        cmocka_unit_test(test_h100),
        cmocka_unit_test(test_fast_accumulation), cmocka_unit_test(test_compute_type), cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_bad_files),         cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests_name("hardware", tests, NULL, NULL);
}
