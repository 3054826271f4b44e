// kvbench list: what the catalogue and this build contain.
#include "bench/command.h"
#include "engine/backend.h"
#include "engine/base/json.h"
#include "engine/base/names.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *detail;
} BACKEND[] = {
    {"cpu", "computes on this machine's cores"},
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

static bool list_backends(struct catalogue_row **rows, int *n, struct error *e)
{
    int n_names;
    const char *const *names = backend_names(&n_names);
    if (!(*rows = calloc((size_t)n_names + 1, sizeof **rows)))
        return error_set(e, ERROR_MEMORY, "no memory for the list");
    for (*n = 0; *n < n_names; (*n)++)
        describe_backend(names[*n], &(*rows)[*n]);
    struct catalogue_row *roofline = &(*rows)[(*n)++]; // needs no device, and is no choice of --backend
    snprintf(roofline->name, sizeof roofline->name, "roofline");
    snprintf(roofline->detail, sizeof roofline->detail, "%s", backend_detail("roofline"));
    roofline->supported = true;
    return true;
}

static bool print_json(const struct catalogue_row *rows, int n, struct error *e)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;
    for (int i = 0; ok && i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        ok = cJSON_AddStringToObject(row, "name", rows[i].name) &&
             cJSON_AddBoolToObject(row, "supported", rows[i].supported) &&
             cJSON_AddStringToObject(row, "detail", rows[i].detail);
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
    for (int i = 0; i < n; i++)
        printf("%-*s  %-3s  %s\n", width, rows[i].name, rows[i].supported ? "yes" : "no", rows[i].detail);
}

static bool bad_section(const char *given, struct error *e)
{
    static const char *const SECTION[] = {"models", "hardware", "backends"};
    const char *near = given ? names_nearest(given, SECTION, 3) : NULL;
    if (!given)
        return error_set(e, ERROR_USAGE, "list what? expected models, hardware or backends");
    return error_set(e, ERROR_USAGE, "cannot list '%.60s'%s%s%s", given, near ? ", did you mean '" : "", near ? near : "",
                     near ? "'?" : ", expected models, hardware or backends");
}

bool cmd_list(const struct options *o, struct error *e)
{
    struct catalogue_row *rows = NULL;
    int n = 0;
    const char *section = o->n_args == 1 ? o->arg[0] : NULL;
    if (!section || (strcmp(section, "models") && strcmp(section, "hardware") && strcmp(section, "backends")))
        return bad_section(section, e);
    bool ok = strcmp(section, "backends") ? catalogue_list(section, &rows, &n, e) : list_backends(&rows, &n, e);
    if (ok && o->json)
        ok = print_json(rows, n, e);
    else if (ok)
        print_table(rows, n);
    free(rows);
    return ok;
}
