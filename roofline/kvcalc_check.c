// kvcalc check CASES.csv: every row of a table of engine logs, recomputed.
#include "engine/base/json.h"
#include "roofline/cases.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MUST_AGREE = 0.97;

struct tally {
    int rows, computable, agree, exact, not_computable;
    int lines, exact_lines; // of concurrency
    double worst;           // error among those that agree
};

static const char *verdict_name(enum case_verdict v)
{
    static const char *const NAME[] = {"agrees", "differs", "not computable"};
    return NAME[v];
}

static void count(struct tally *t, const struct case_result *r)
{
    t->rows++;
    if (r->verdict == CASE_NOT_COMPUTABLE) {
        t->not_computable++;
        return;
    }
    t->computable++;
    t->agree += r->verdict == CASE_AGREES;
    t->exact += r->verdict == CASE_AGREES && r->exact;
    t->lines += r->has_concurrency;
    t->exact_lines += r->has_concurrency && r->concurrency_exact;
    if (r->verdict == CASE_AGREES && r->has_size)
        t->worst = fmax(t->worst, fabs(r->error));
}

static bool passes(const struct tally *t)
{
    return t->agree >= MUST_AGREE * t->computable;
}

static void print_value(double value, const char *unit)
{
    if (!strcmp(unit, "GiB"))
        printf(" %14.5f", value);
    else
        printf(" %14.0f", value);
}

static void print_row(const struct kv_case *c, const struct case_result *r)
{
    printf("%-6.12s %-12.12s %-34.34s", c->id, c->engine, c->model);
    if (r->verdict == CASE_NOT_COMPUTABLE) {
        printf(" %s: %s\n", verdict_name(r->verdict), r->reason);
        return;
    }
    if (r->has_size) {
        print_value(r->reported, r->unit);
        print_value(r->computed, r->unit);
        printf(" %-6s %+8.3f %%%s", r->unit, 100 * r->error, r->exact ? " exact" : "");
    }
    if (r->has_concurrency)
        printf("  %.2fx %s %.2fx", r->computed_concurrency, r->concurrency_exact ? "=" : "is not", r->reported_concurrency);
    if (r->verdict == CASE_DIFFERS)
        printf("  differs: %s", r->reason);
    if (*r->assumption)
        printf("  (assumed: %s)", r->assumption);
    printf("\n");
}

static void print_summary(const struct tally *t)
{
    double share = t->computable ? 100.0 * t->agree / t->computable : 100;
    printf(
        "%d rows: %d lack facts; of %d computable %d agree (%.1f %%, %d of them within the rounding of what was printed); "
        "%d of %d concurrency lines exact\n",
        t->rows, t->not_computable, t->computable, t->agree, share, t->exact, t->exact_lines, t->lines);
}

static void add_if(cJSON *row, bool known, const char *key, double value)
{
    if (known)
        cJSON_AddNumberToObject(row, key, value);
    else
        cJSON_AddNullToObject(row, key);
}

static cJSON *row_json(const struct kv_case *c, const struct case_result *r)
{
    cJSON *row = cJSON_CreateObject();
    bool size = r->verdict != CASE_NOT_COMPUTABLE && r->has_size;
    bool line = r->verdict != CASE_NOT_COMPUTABLE && r->has_concurrency;
    cJSON_AddStringToObject(row, "id", c->id);
    cJSON_AddStringToObject(row, "engine", c->engine);
    cJSON_AddStringToObject(row, "model", c->model);
    cJSON_AddStringToObject(row, "verdict", verdict_name(r->verdict));
    cJSON_AddStringToObject(row, "unit", r->unit);
    add_if(row, size, "reported", r->reported);
    add_if(row, size, "computed", r->computed);
    add_if(row, size, "error", r->error);
    cJSON_AddBoolToObject(row, "exact", r->exact);
    add_if(row, line, "reported_concurrency", r->reported_concurrency);
    add_if(row, line, "computed_concurrency", r->computed_concurrency);
    if (line)
        cJSON_AddBoolToObject(row, "concurrency_exact", r->concurrency_exact);
    add_if(row, r->bytes_per_token > 0, "kv_bytes_per_token", (double)r->bytes_per_token);
    cJSON_AddStringToObject(row, "geometry", r->model);
    cJSON_AddStringToObject(row, "assumed", r->assumption);
    cJSON_AddStringToObject(row, "reason", r->reason);
    return row;
}

static bool print_json(cJSON *rows, const struct tally *t)
{
    cJSON *json = cJSON_CreateObject(), *summary = cJSON_AddObjectToObject(json, "summary");
    cJSON_AddNumberToObject(summary, "rows", t->rows);
    cJSON_AddNumberToObject(summary, "not_computable", t->not_computable);
    cJSON_AddNumberToObject(summary, "computable", t->computable);
    cJSON_AddNumberToObject(summary, "agree", t->agree);
    cJSON_AddNumberToObject(summary, "exact", t->exact);
    cJSON_AddNumberToObject(summary, "concurrency_lines", t->lines);
    cJSON_AddNumberToObject(summary, "concurrency_exact", t->exact_lines);
    cJSON_AddNumberToObject(summary, "largest_error", t->worst);
    cJSON_AddBoolToObject(summary, "passes", passes(t));
    cJSON_AddItemToObject(json, "rows", rows);
    char *text = cJSON_Print(json);
    bool ok = text && puts(text) >= 0;
    free(text);
    cJSON_Delete(json);
    return ok;
}

bool kvcalc_check(const struct options *o, int *exit_code, struct error *e)
{
    struct kv_cases cases;
    struct catalogue_name *names;
    struct tally tally = {0};
    int n_names;
    if (o->n_args != 1)
        return error_set(e, ERROR_USAGE, "expected one table: kvcalc check CASES.csv");
    if (!kv_cases_load(&cases, o->arg[0], e))
        return false;
    bool ok = catalogue_names("models", &names, &n_names, e);
    cJSON *rows = cJSON_CreateArray();
    for (int i = 0; ok && i < cases.n; i++) {
        struct case_result r;
        kv_case_compute(&cases.row[i], names, n_names, &r);
        count(&tally, &r);
        if (o->json)
            cJSON_AddItemToArray(rows, row_json(&cases.row[i], &r));
        else
            print_row(&cases.row[i], &r);
    }
    if (ok && o->json)
        ok = print_json(rows, &tally) || error_set(e, ERROR_MEMORY, "no memory to print");
    else
        cJSON_Delete(rows);
    if (ok && !o->json)
        print_summary(&tally);
    if (ok)
        *exit_code = passes(&tally) ? 0 : 1, free(names);
    kv_cases_free(&cases);
    return ok;
}
