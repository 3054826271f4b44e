// kvbench list: what the catalogue and this build contain.
#include "bench/command.h"
#include "bench/import.h"
#include "bench/schema.h"
#include "engine/backend.h"
#include "engine/base/json.h"
#include "engine/base/names.h"
#include "engine/load/tokenizer.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *detail;
} BACKEND[] = {
    {"cpu", "computes on this machine's cores"},
    {"cuda", "computes on an NVIDIA GPU"},
    {"null", "computes nothing: a test of the harness itself"},
    {"roofline", "computes nothing: prices each step for any hardware of the catalogue (kvbench predict)"},
};
enum { N_BACKENDS = sizeof BACKEND / sizeof *BACKEND };

static const char *backend_detail(const char *name)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (!strcmp(BACKEND[i].name, name))
            return BACKEND[i].detail;
    return "";
}

// A backend is supported when it opens here and now; else the row says why not.
static void describe_backend(const char *name, struct catalogue_row *row)
{
    struct backend backend;
    struct error e = {0};
    snprintf(row->name, sizeof row->name, "%s", name);
    row->supported = backend_open(&backend, name, &(struct backend_options){0}, &e);
    snprintf(row->detail, sizeof row->detail, "%.159s", row->supported ? backend_detail(name) : e.message);
    if (row->supported)
        backend_close(&backend);
}

static bool new_rows(struct catalogue_row **rows, int n, struct error *e)
{
    *rows = calloc((size_t)n + 1, sizeof **rows);
    return *rows || error_set(e, ERROR_MEMORY, "no memory for the list");
}

static bool list_backends(struct catalogue_row **rows, int *n, struct error *e)
{
    int n_names;
    const char *const *names = backend_names(&n_names);
    if (!new_rows(rows, n_names + 1, e))
        return false;
    for (*n = 0; *n < n_names; (*n)++)
        describe_backend(names[*n], &(*rows)[*n]);
    struct catalogue_row *roofline = &(*rows)[(*n)++]; // needs no device, and is no choice of --backend
    snprintf(roofline->name, sizeof roofline->name, "roofline");
    snprintf(roofline->detail, sizeof roofline->detail, "%s", backend_detail("roofline"));
    roofline->supported = true;
    return true;
}

// What a model may be: the table that config.json and GGUF metadata are read by.
static bool list_families(struct catalogue_row **rows, int *n, struct error *e)
{
    char detail[sizeof(*rows)->detail];
    const char *name;
    while (model_describe_family(*n, &name, detail, sizeof detail))
        ++*n;
    if (!new_rows(rows, *n, e))
        return false;
    for (int i = 0; i < *n; i++) {
        struct catalogue_row *row = &(*rows)[i];
        row->supported = model_describe_family(i, &name, row->detail, sizeof row->detail);
        snprintf(row->name, sizeof row->name, "%s", name);
    }
    return true;
}

// What weights may be stored as.
static bool list_formats(struct catalogue_row **rows, int *n, struct error *e)
{
    if (!new_rows(rows, DTYPE_COUNT, e))
        return false;
    for (*n = 0; *n < DTYPE_COUNT; ++*n) {
        struct catalogue_row *row = &(*rows)[*n];
        row->supported = model_describe_type((enum dtype) * n, row->detail, sizeof row->detail);
        snprintf(row->name, sizeof row->name, "%s", dtype_name((enum dtype) * n));
    }
    return true;
}

static bool list_chats(struct catalogue_row **rows, int *n, struct error *e)
{
    const char *name, *models;
    while (chat_describe(*n, &name, &models))
        ++*n;
    if (!new_rows(rows, *n, e))
        return false;
    for (int i = 0; i < *n; i++) {
        struct catalogue_row *row = &(*rows)[i];
        row->supported = chat_describe(i, &name, &models);
        snprintf(row->name, sizeof row->name, "%s", name);
        snprintf(row->detail, sizeof row->detail, "%s", models);
    }
    return true;
}

// Whose results `kvbench import` reads.
static bool list_imports(struct catalogue_row **rows, int *n, struct error *e)
{
    while (import_format(*n))
        ++*n;
    if (!new_rows(rows, *n, e))
        return false;
    for (int i = 0; i < *n; i++) {
        struct catalogue_row *row = &(*rows)[i];
        row->supported = true;
        snprintf(row->name, sizeof row->name, "%s", import_format(i)->name);
        snprintf(row->detail, sizeof row->detail, "%s", import_format(i)->title);
    }
    return true;
}

static bool list_models(struct catalogue_row **rows, int *n, struct error *e)
{
    return catalogue_list("models", rows, n, e);
}

static bool list_hardware(struct catalogue_row **rows, int *n, struct error *e)
{
    return catalogue_list("hardware", rows, n, e);
}

static const struct {
    const char *name;
    bool (*list)(struct catalogue_row **rows, int *n, struct error *e);
} SECTION[] = {{"models", list_models},     {"hardware", list_hardware}, {"backends", list_backends},
               {"families", list_families}, {"formats", list_formats},   {"chats", list_chats},
               {"imports", list_imports}};
enum { N_SECTIONS = sizeof SECTION / sizeof *SECTION };

static bool print_json(const struct catalogue_row *rows, int n, struct error *e)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;
    for (int i = 0; ok && i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        ok = cJSON_AddStringToObject(row, "name", rows[i].name) &&
             cJSON_AddBoolToObject(row, "supported", rows[i].supported) &&
             cJSON_AddStringToObject(row, "detail", rows[i].detail);
        for (const struct catalogue_fact *f = rows[i].fact; ok && f->name; f++)
            ok = cJSON_AddNumberToObject(row, f->name, f->value);
        cJSON_AddItemToArray(list, row);
    }
    char *text = ok ? cJSON_Print(list) : NULL;
    if (text)
        puts(text);
    free(text);
    cJSON_Delete(list);
    return text || error_set(e, ERROR_MEMORY, "no memory for the list");
}

static void print_table(const struct catalogue_row *rows, int n)
{
    int width = 4;
    for (int i = 0; i < n; i++)
        width = (int)strlen(rows[i].name) > width ? (int)strlen(rows[i].name) : width;
    printf("%-*s  ok   what\n", width, "name");
    for (int i = 0; i < n; i++)
        printf("%-*s  %-3s  %s\n", width, rows[i].name, rows[i].supported ? "yes" : "no", rows[i].detail);
}

// What can be used comes first, or alone; the order is otherwise the list's own. Returns how many are left.
static int sort_usable(struct catalogue_row *rows, int n, bool alone)
{
    struct catalogue_row *rest = malloc(((size_t)n + 1) * sizeof *rest);
    int usable = 0, others = 0;
    if (!rest)
        return n;
    for (int i = 0; i < n; i++)
        if (rows[i].supported)
            rows[usable++] = rows[i];
        else
            rest[others++] = rows[i];
    memcpy(rows + usable, rest, (size_t)others * sizeof *rest);
    free(rest);
    return alone ? usable : n;
}

static bool bad_section(const char *given, struct error *e)
{
    static const char EXPECTED[] =
        "expected models, hardware, backends, families, formats, chats, imports or schema-scenario, -result, -meta";
    const char *names[N_SECTIONS];
    for (int i = 0; i < N_SECTIONS; i++)
        names[i] = SECTION[i].name;
    const char *near = given ? names_nearest(given, names, N_SECTIONS) : NULL;
    if (!given)
        return error_set(e, ERROR_USAGE, "list what? %s", EXPECTED);
    if (!near)
        return error_set(e, ERROR_USAGE, "cannot list '%.60s', %s", given, EXPECTED);
    return error_set(e, ERROR_USAGE, "cannot list '%.60s', did you mean '%s'?", given, near);
}

static bool print_schema(const char *name, struct error *e)
{
    cJSON *schema = schema_make(name);
    char *text = schema ? cJSON_Print(schema) : NULL;
    if (text)
        puts(text);
    free(text);
    cJSON_Delete(schema);
    return text ||
           error_set(e, ERROR_USAGE, "no schema '%.60s', expected schema-scenario, schema-result or schema-meta", name);
}

bool cmd_list(const struct options *o, struct error *e)
{
    struct catalogue_row *rows = NULL;
    int n = 0, section = 0;
    const char *name = o->n_args == 1 ? o->arg[0] : NULL;
    if (name && !strncmp(name, "schema-", 7))
        return print_schema(name + 7, e);
    while (name && section < N_SECTIONS && strcmp(name, SECTION[section].name))
        section++;
    if (!name || section == N_SECTIONS)
        return bad_section(name, e);
    bool ok = SECTION[section].list(&rows, &n, e);
    if (ok)
        n = sort_usable(rows, n, o->supported);
    if (ok && o->json)
        ok = print_json(rows, n, e);
    else if (ok)
        print_table(rows, n);
    free(rows);
    return ok;
}
