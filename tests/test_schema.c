// The schemas against the program: what one refuses the other refuses, and the published files are what is made here.
#include "bench/results.h"
#include "bench/scenario.h"
#include "bench/schema.h"
#include "bench/slope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const cJSON *get(const cJSON *json, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(json, key);
}

static void test_published(void **state)
{
    (void)state;
    for (int i = 0; schema_name(i); i++) {
        char path[64];
        struct error e = {0};
        cJSON *published, *made = schema_make(schema_name(i));
        snprintf(path, sizeof path, "configs/schema/%s.json", schema_name(i));
        if (!json_load(path, &published, &e))
            fail_msg("%s", e.message);
        char *a = cJSON_PrintUnformatted(published), *b = cJSON_PrintUnformatted(made);
        if (strcmp(a, b))
            fail_msg("%s is not what 'kvbench list schema-%s' prints", path, schema_name(i));
        free(a);
        free(b);
        cJSON_Delete(published);
        cJSON_Delete(made);
    }
    assert_null(schema_make("other"));
}

// A scenario with one key set to `value`, which this takes over.
static bool parses(const struct scenario_key *key, cJSON *value)
{
    struct scenario s;
    struct error e = {0};
    cJSON *json = cJSON_CreateObject(), *in = json;
    if (strcmp(key->name, "model"))
        cJSON_AddStringToObject(json, "model", "m");
    if (*key->section)
        in = cJSON_AddObjectToObject(json, key->section);
    cJSON_AddItemToObject(in, key->name, value);
    bool ok = scenario_parse(&s, json, "test", &e);
    cJSON_Delete(json);
    return ok;
}

static cJSON *list_of(double value, int n)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(value));
    return list;
}

// The parser takes what the table says and nothing next to it.
static void test_ranges(void **state)
{
    int32_t n;
    const struct scenario_key *key = scenario_keys(&n);
    (void)state;
    for (int32_t i = 0; i < n; i++) {
        bool real = key[i].kind == KEY_real, list = key[i].kind == KEY_counts;
        if (!real && !list && key[i].kind != KEY_count)
            continue;
        double step = real ? 1e-4 : 1;
        bool ok = parses(&key[i], cJSON_CreateNumber(key[i].min)) && parses(&key[i], cJSON_CreateNumber(key[i].max)) &&
                  !parses(&key[i], cJSON_CreateNumber(key[i].min - step)) &&
                  !parses(&key[i], cJSON_CreateNumber(key[i].max + 1)) && !parses(&key[i], cJSON_CreateString("1")) &&
                  (real || !parses(&key[i], cJSON_CreateNumber(key[i].min + 0.5))) &&
                  parses(&key[i], list_of(key[i].max, SCENARIO_MAX_LIST)) == list &&
                  !parses(&key[i], list_of(key[i].max, SCENARIO_MAX_LIST + 1)) && !parses(&key[i], cJSON_CreateArray());
        if (!ok)
            fail_msg("'%s.%s' is not read as its table says", key[i].section, key[i].name);
    }
}

static void test_words(void **state)
{
    int32_t n;
    const struct scenario_key *key = scenario_keys(&n);
    (void)state;
    for (int32_t i = 0; i < n; i++) {
        bool type = key[i].kind == KEY_type || key[i].kind == KEY_types || key[i].kind == KEY_kv_types;
        bool text = key[i].kind == KEY_text || key[i].kind == KEY_models || key[i].kind == KEY_backend;
        bool ok = parses(&key[i], cJSON_CreateString("bf16")) == (type || text) &&
                  parses(&key[i], cJSON_CreateString("int8:bf16")) ==
                      (key[i].kind == KEY_kv_types || (text && strcmp(key[i].name, "name"))) &&
                  parses(&key[i], cJSON_CreateTrue()) == (key[i].kind == KEY_flags) &&
                  !parses(&key[i], cJSON_CreateString("")) &&
                  parses(&key[i], cJSON_CreateObject()) == (key[i].kind == KEY_section);
        if (!ok)
            fail_msg("'%s.%s' is not read as its table says", key[i].section, key[i].name);
    }
    const struct scenario_key unknown = {.section = "", .name = "contxt"};
    assert_false(parses(&unknown, cJSON_CreateNumber(1)));
}

// Every column is in the schema with the type that its cells are written with.
static void check_columns(const cJSON *schema, const struct column *column, int32_t n, const cJSON *row)
{
    static const char *const TYPE[] = {"string", "integer", "number", "array"};
    assert_int_equal(cJSON_GetArraySize(get(schema, "required")), n);
    for (int32_t i = 0; i < n; i++) {
        const cJSON *property = get(get(schema, "properties"), column[i].name), *cell = get(row, column[i].name);
        assert_non_null(property);
        assert_string_equal(cJSON_GetArrayItem(get(property, "type"), 0)->valuestring, TYPE[column[i].type]);
        assert_string_equal(get(property, "description")->valuestring, column[i].description);
        assert_true(column[i].type == COLUMN_text    ? cJSON_IsString(cell)
                    : column[i].type == COLUMN_reals ? cJSON_IsArray(cell)
                                                     : cJSON_IsNumber(cell));
    }
}

static void test_columns(void **state)
{
    struct result r;
    struct op_result o;
    int32_t n, n_op;
    const struct column *column = result_columns(&n), *op = op_columns(&n_op);
    (void)state;
    result_init(&r);
    op_result_init(&o);
    for (int32_t i = 0; i < n; i++)
        assert_true(cell_from_text(&column[i], column[i].type == COLUMN_reals ? "1 2" : "1", &r));
    for (int32_t i = 0; i < n_op; i++)
        assert_true(cell_from_text(&op[i], "1", &o));
    cJSON *row = row_json(column, n, &r), *op_row = row_json(op, n_op, &o), *schema = schema_make("result");
    check_columns(schema, column, n, row);
    check_columns(get(get(get(schema, "properties"), "ops"), "items"), op, n_op, op_row);
    cJSON_Delete(row);
    cJSON_Delete(op_row);
    cJSON_Delete(schema);
    result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
