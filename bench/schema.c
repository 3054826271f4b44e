#include "bench/schema.h"

#include "bench/accuracy.h"
#include "bench/results.h"
#include "bench/scenario.h"
#include "bench/slope.h"

#include <string.h>

static const char *const NAME[] = {"scenario", "result", "meta"};
enum { N_NAMES = sizeof NAME / sizeof *NAME };

const char *schema_name(int i)
{
    return i >= 0 && i < N_NAMES ? NAME[i] : NULL;
}

static cJSON *typed(const char *type)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "type", type);
    return json;
}

static cJSON *nullable(const char *type)
{
    const char *const both[2] = {type, "null"};
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "type", cJSON_CreateStringArray(both, 2));
    return json;
}

static cJSON *head(const char *name, const char *description)
{
    cJSON *json = typed("object");
    char title[64];
    snprintf(title, sizeof title, "kvbench %s", name);
    cJSON_AddStringToObject(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    cJSON_AddStringToObject(json, "title", title);
    cJSON_AddStringToObject(json, "description", description);
    return json;
}

static cJSON *array_of(cJSON *items)
{
    cJSON *json = typed("array");
    cJSON_AddItemToObject(json, "items", items);
    return json;
}

// A scenario.

static cJSON *range(const char *type, double min, double max)
{
    cJSON *json = typed(type);
    cJSON_AddNumberToObject(json, "minimum", min);
    cJSON_AddNumberToObject(json, "maximum", max);
    return json;
}

// Names as `kvbench list formats` writes them; the program also takes other cases and aliases.
static cJSON *type_names(void)
{
    cJSON *json = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(json, "enum");
    for (int i = 0; i < DTYPE_COUNT; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(dtype_name((enum dtype)i)));
    return json;
}

static cJSON *kv_names(void)
{
    char names[512] = "", pattern[1100];
    for (int i = 0; i < DTYPE_COUNT; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "", dtype_name((enum dtype)i));
    snprintf(pattern, sizeof pattern, "^(%s)(:(%s))?$", names, names);
    cJSON *json = typed("string");
    cJSON_AddStringToObject(json, "pattern", pattern);
    return json;
}

static cJSON *backend_names(void)
{
    int32_t n;
    const char *const *name = scenario_backends(&n);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "enum", cJSON_CreateStringArray(name, n));
    return json;
}

static cJSON *some_text(void)
{
    cJSON *json = typed("string");
    cJSON_AddNumberToObject(json, "minLength", 1);
    return json;
}

// One value, or a list of some.
static cJSON *one_or_several(cJSON *item, int most)
{
    cJSON *json = cJSON_CreateObject(), *any = cJSON_AddArrayToObject(json, "anyOf");
    cJSON *list = array_of(cJSON_Duplicate(item, true));
    cJSON_AddNumberToObject(list, "minItems", 1);
    cJSON_AddNumberToObject(list, "maxItems", most);
    cJSON_AddItemToArray(any, item);
    cJSON_AddItemToArray(any, list);
    return json;
}

static cJSON *section_schema(const char *section);

static cJSON *key_schema(const struct scenario_key *key)
{
    switch (key->kind) {
    case KEY_text: return some_text();
    case KEY_backend: return backend_names();
    case KEY_type: return type_names();
    case KEY_models: return one_or_several(some_text(), SCENARIO_MAX_MODELS);
    case KEY_types: return one_or_several(type_names(), SCENARIO_MAX_LIST);
    case KEY_kv_types: return one_or_several(kv_names(), SCENARIO_MAX_LIST);
    case KEY_counts: return one_or_several(range("integer", key->min, key->max), SCENARIO_MAX_LIST);
    case KEY_flags: return one_or_several(typed("boolean"), SCENARIO_MAX_LIST);
    case KEY_count: return range("integer", key->min, key->max);
    case KEY_real: return range("number", key->min, key->max);
    case KEY_section: return section_schema(key->name);
    }
    return NULL;
}

// Adds the properties of a section to *json, which is an object's schema. Every key may be null, which is as if absent.
static void add_keys(cJSON *json, const char *section)
{
    int32_t n;
    const struct scenario_key *key = scenario_keys(&n);
    cJSON *properties = cJSON_AddObjectToObject(json, "properties");
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(key[i].section, section))
            continue;
        cJSON *value = key_schema(&key[i]);
        cJSON_AddStringToObject(value, "description", key[i].description);
        cJSON_AddItemToObject(properties, key[i].name, value);
    }
    cJSON_AddItemToObject(properties, "_comment", cJSON_CreateTrue());
    cJSON_AddFalseToObject(json, "additionalProperties");
}

static cJSON *section_schema(const char *section)
{
    cJSON *json = typed("object");
    add_keys(json, section);
    return json;
}

static cJSON *scenario_schema(void)
{
    static const char *const required[] = {"model"};
    cJSON *json = head("scenario", "what `kvbench sweep` measures and `kvbench predict` prices");
    cJSON_AddItemToObject(json, "required", cJSON_CreateStringArray(required, 1));
    add_keys(json, "");
    return json;
}

// Rows.

static cJSON *column_schema(const struct column *column)
{
    cJSON *json = NULL;
    switch (column->type) {
    case COLUMN_text: json = nullable("string"); break;
    case COLUMN_count: json = nullable("integer"); break;
    case COLUMN_real: json = nullable("number"); break;
    case COLUMN_reals:
        json = nullable("array");
        cJSON_AddItemToObject(json, "items", typed("number"));
        break;
    }
    cJSON_AddStringToObject(json, "description", column->description);
    if (*column->unit)
        cJSON_AddStringToObject(json, "x-unit", column->unit);
    return json;
}

// Columns are only ever added, so others may be there; all that this version knows are written.
static void add_columns(cJSON *json, const struct column *column, int32_t n)
{
    cJSON *properties = cJSON_AddObjectToObject(json, "properties"), *required = cJSON_AddArrayToObject(json, "required");
    for (int32_t i = 0; i < n; i++) {
        cJSON_AddItemToObject(properties, column[i].name, column_schema(&column[i]));
        cJSON_AddItemToArray(required, cJSON_CreateString(column[i].name));
    }
}

static cJSON *row_schema(const struct column *column, int32_t n)
{
    cJSON *json = typed("object");
    add_columns(json, column, n);
    return json;
}

static cJSON *result_schema(void)
{
    int32_t n, n_op;
    const struct column *column = result_columns(&n), *op = op_columns(&n_op);
    cJSON *json = head("result", "a line of NAME.jsonl: a point and its operations");
    add_columns(json, column, n);
    cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(json, "properties"), "ops", array_of(row_schema(op, n_op)));
    return json;
}

// Meta.

static void add_property(cJSON *json, const char *name, cJSON *schema, const char *description)
{
    cJSON_AddStringToObject(schema, "description", description);
    cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(json, "properties"), name, schema);
}

static cJSON *tool_schema(void)
{
    cJSON *json = typed("object");
    cJSON_AddObjectToObject(json, "properties");
    add_property(json, "name", typed("string"), "kvbench");
    add_property(json, "version", typed("string"), "of the build, as git describes it");
    add_property(json, "dirty", typed("boolean"), "files had changed since that version");
    return json;
}

static cJSON *slopes_schema(void)
{
    int32_t n;
    const struct column *column = slope_columns(&n);
    return array_of(row_schema(column, n));
}

static cJSON *accuracy_schema(void)
{
    int32_t n;
    const struct column *column = accuracy_columns(&n);
    return array_of(row_schema(column, n));
}

static cJSON *version_schema(void)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "const", RESULT_SCHEMA_VERSION);
    return json;
}

static cJSON *hash_schema(void)
{
    cJSON *json = typed("string");
    cJSON_AddStringToObject(json, "pattern", "^[0-9a-f]{16}$");
    return json;
}

static cJSON *meta_schema(void)
{
    static const char *const required[] = {"schema_version", "tool",          "started",     "finished",
                                           "scenario",       "scenario_hash", "environment", "ceilings"};
    cJSON *json = head("meta", "NAME.meta.json: what a result was measured with"), *ceilings = nullable("array");
    cJSON_AddItemToObject(json, "required", cJSON_CreateStringArray(required, (int)(sizeof required / sizeof *required)));
    cJSON_AddObjectToObject(json, "properties");
    cJSON_AddItemToObject(ceilings, "items", typed("object"));
    add_property(json, "schema_version", version_schema(), "1 since the first version: columns are only ever added");
    add_property(json, "tool", tool_schema(), "which build");
    add_property(json, "started", typed("string"), "RFC 3339, UTC");
    add_property(json, "finished", nullable("string"), "null: interrupted");
    add_property(json, "scenario", typed("object"), "with every default written out");
    add_property(json, "scenario_hash", hash_schema(), "of that text: --resume goes by it");
    add_property(json, "environment", typed("object"), "the machine; null where not known");
    add_property(json, "ceilings", ceilings, "as configs/hardware/*.json, one for each number of threads");
    add_property(json, "notes", array_of(typed("string")), "what a reader should know");
    add_property(json, "slopes", slopes_schema(), "the time of decode steps as lines in the context");
    add_property(json, "accuracy", accuracy_schema(), "how far roof and pred were off, by phase and types");
    return json;
}

cJSON *schema_make(const char *name)
{
    if (!strcmp(name, "scenario"))
        return scenario_schema();
    if (!strcmp(name, "result"))
        return result_schema();
    return strcmp(name, "meta") ? NULL : meta_schema();
}
