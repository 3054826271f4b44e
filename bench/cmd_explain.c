// kvbench explain: where the time of measured points went. Reads a result, measures nothing.
#include "bench/command.h"
#include "bench/explain.h"
#include "bench/recorded.h"
#include "bench/rows.h"
#include "bench/slope.h"
#include "bench/table.h"
#include "engine/base/units.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { OFFENDERS = 3 };

// A point as a row of numbers, for programs.
#define EXPLAIN_COLUMNS(X)                                                                                                  \
    X(key, text, "", "the point's name in its scenario")                                                                    \
    X(verdict, text, "", "as in the main table")                                                                            \
    X(median_ns, real, "ns", "T6")                                                                                          \
    X(roof_ns, real, "ns", "T2")                                                                                            \
    X(probed_roof_ns, real, "ns", "the roof at the ceilings probed beside the samples: roof_ns + machine_ns")               \
    X(machine_ns, real, "ns", "what the machine was below its best at the time")                                            \
    X(activations_ns, real, "ns", "T3 - T2")                                                                                \
    X(attention_ns, real, "ns", "spans that read KV, beyond their floor at the probed ceilings")                            \
    X(products_ns, real, "ns", "spans that multiply weights, likewise")                                                     \
    X(others_ns, real, "ns", "all other spans, less what spans overlapped")                                                 \
    X(gaps_ns, real, "ns", "T5 - T4")                                                                                       \
    X(observer_ns, real, "ns", "T6 - T5")

struct explain_row {
#define X(field, type, unit, description) result_##type field;
    EXPLAIN_COLUMNS(X)
#undef X
};
static const struct column COLUMN[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct explain_row, field)},
    EXPLAIN_COLUMNS(X)
#undef X
};
enum { N_COLUMNS = sizeof COLUMN / sizeof *COLUMN };

static struct explain_row row_of(const struct stored *point)
{
    struct explanation x = {0};
    struct explain_row row = {.median_ns = point->result.median_ns, .roof_ns = point->result.roof_ns};
    memcpy(row.key, point->result.key, sizeof row.key);
    memcpy(row.verdict, point->result.verdict, sizeof row.verdict);
    bool known = explain_add(&x, point);
    double *const part[PART_COUNT] = {&row.machine_ns, &row.activations_ns, &row.attention_ns, &row.products_ns,
                                      &row.others_ns,  &row.gaps_ns,        &row.observer_ns};
    row.probed_roof_ns = known ? explain_probed_roof_ns(&x) : NAN;
    for (int i = 0; i < PART_COUNT; i++)
        *part[i] = known ? x.part_ns[i] : NAN;
    return row;
}

static cJSON *point_json(const struct stored *point)
{
    struct explain_row row = row_of(point);
    struct explain_time time[EXPLAIN_TIMES];
    char text[EXPLAIN_TEXT];
    int32_t n;
    const struct column *column = op_columns(&n);
    cJSON *json = row_json(COLUMN, N_COLUMNS, &row), *times = cJSON_AddObjectToObject(json, "times_ns");
    explain_sentence(point, text);
    cJSON_AddStringToObject(json, "sentence", text);
    explain_times(&point->result, time);
    for (int i = 0; i < EXPLAIN_TIMES; i++)
        cJSON_AddItemToObject(times, time[i].name,
                              isfinite(time[i].ns) ? cJSON_CreateNumber(time[i].ns) : cJSON_CreateNull());
    cJSON *ops = cJSON_AddArrayToObject(json, "ops");
    for (int32_t i = 0; i < point->n_ops; i++)
        cJSON_AddItemToArray(ops, row_json(column, n, &point->op[i]));
    return json;
}

static void print_data(enum table_format format, const struct stored *row, int32_t n_rows)
{
    if (format == TABLE_CSV) {
        csv_header(stdout, COLUMN, N_COLUMNS);
        for (int32_t i = 0; i < n_rows; i++) {
            struct explain_row line = row_of(&row[i]);
            csv_row(stdout, COLUMN, N_COLUMNS, &line);
        }
        return;
    }
    cJSON *list = cJSON_CreateArray();
    for (int32_t i = 0; i < n_rows; i++)
        cJSON_AddItemToArray(list, point_json(&row[i]));
    table_json(stdout, format, list);
    cJSON_Delete(list);
}

// For people: a number that may be unknown, in ms.
static void ms_cell(struct table *t, double ns)
{
    char text[24];
    if (isfinite(ns))
        table_cell(t, "%s%s", ns < 0 ? "-" : "", format_ms(fabs(ns), text));
    else
        table_cell(t, "-");
}

static void finish_table(struct table *t, bool markdown)
{
    table_print(stdout, t, markdown);
    table_free(t);
    puts("");
}

// One point.

static void print_times(const struct result *r, bool markdown)
{
    struct explain_time time[EXPLAIN_TIMES];
    struct table t = {0};
    explain_times(r, time);
    table_column(&t, "", true, false);
    table_column(&t, "time", true, false);
    table_column(&t, "ms", false, false);
    table_column(&t, "to next ms", false, false);
    table_column(&t, "column", true, false);
    for (int i = 0; i < EXPLAIN_TIMES; i++) {
        table_cell(&t, "%s", time[i].name);
        table_cell(&t, "%s", time[i].what);
        ms_cell(&t, time[i].ns);
        ms_cell(&t, time[i].difference_ns);
        table_cell(&t, "%s", isfinite(time[i].difference_ns) ? time[i].difference_column : "");
    }
    finish_table(&t, markdown);
}

static int by_beyond(const void *x, const void *y)
{
    const struct op_result *a = *(const struct op_result *const *)x, *b = *(const struct op_result *const *)y;
    double p = a->op_ns - a->op_roof_ns, q = b->op_ns - b->op_roof_ns;
    return (p < q) - (p > q);
}

static void rate_cell(struct table *t, const struct op_result *op)
{
    bool compute = !strcmp(op->op_limit, "compute");
    double bytes = op->weight_bytes + op->kv_read_bytes + op->kv_write_bytes;
    table_cell(t, compute ? "%.3g GFLOP/s" : "%.3g GB/s", (compute ? op->flops : bytes) / op->op_ns);
}

static void op_cells(struct table *t, const struct op_result *op, double beyond)
{
    char low[24], high[24];
    table_cell(t, "%s", op->op);
    table_cell(t, "%lld", (long long)op->count);
    ms_cell(t, op->op_roof_ns);
    ms_cell(t, op->op_spans_ns);
    ms_cell(t, op->op_ns);
    if (isfinite(op->op_low_ns))
        table_cell(t, "%s-%s", format_ms(op->op_low_ns, low), format_ms(op->op_high_ns, high));
    else
        table_cell(t, "-");
    ms_cell(t, op->op_ns - op->op_roof_ns);
    table_cell(t, "%.0f %%", 100 * (op->op_ns - op->op_roof_ns) / beyond);
    table_cell(t, "%s", op->op_limit);
    rate_cell(t, op);
}

// A line that is no operation: `ms` of its own, all of it beyond the roof.
static void sum_cells(struct table *t, const char *what, double roof, double spans, double ms, double beyond_ns, double all)
{
    table_cell(t, "%s", what);
    table_cell(t, "%s", "");
    ms_cell(t, roof);
    ms_cell(t, spans);
    ms_cell(t, ms);
    table_cell(t, "%s", "");
    ms_cell(t, beyond_ns);
    table_cell(t, "%.0f %%", 100 * beyond_ns / all);
    table_cell(t, "%s", "");
    table_cell(t, "%s", "");
}

static void op_headings(struct table *t)
{
    static const struct {
        const char *name;
        bool left;
    } HEADING[] = {{"operation", true},    {"count", false},  {"roof ms", false},   {"executed ms", false},
                   {"measured ms", false}, {"range", false},  {"beyond ms", false}, {"of it", false},
                   {"limited by", true},   {"reached", false}};
    for (size_t i = 0; i < sizeof HEADING / sizeof *HEADING; i++)
        table_column(t, HEADING[i].name, HEADING[i].left, false);
}

static bool print_ops(const struct stored *p, bool markdown, struct error *e)
{
    const struct result *r = &p->result;
    const struct op_result **order = malloc(((size_t)p->n_ops + 1) * sizeof *order);
    double all = r->median_ns - r->roof_ns, sum = 0;
    struct table t = {0};
    if (!order)
        return error_set(e, ERROR_MEMORY, "no memory for %d operations", p->n_ops);
    for (int32_t i = 0; i < p->n_ops; i++)
        order[i] = &p->op[i];
    qsort(order, (size_t)p->n_ops, sizeof *order, by_beyond);
    op_headings(&t);
    for (int32_t i = 0; i < p->n_ops; i++) {
        op_cells(&t, order[i], all);
        sum += order[i]->op_ns;
    }
    free(order);
    if (fabs(r->busy_ns - sum) > 0.5)
        sum_cells(&t, "(spans at the same time)", NAN, NAN, r->busy_ns - sum, r->busy_ns - sum, all);
    sum_cells(&t, "(gaps between kernels)", NAN, NAN, r->gaps_ns, r->gaps_ns, all);
    sum_cells(&t, "(median less traced sample)", NAN, NAN, r->observer_ns, r->observer_ns, all);
    sum_cells(&t, "all", r->roof_ns, r->spans_ns, r->median_ns, all, all);
    finish_table(&t, markdown);
    return true;
}

// A prediction by fitted kernels stands beside the measurement where there is one.
static void print_prediction(const struct result *r)
{
    char ms[24];
    if (r->pred_ns > 0)
        printf("predicted by the fitted kernels: %s ms, %+.1f %%\n", format_ms(r->pred_ns, ms),
               100 * (r->pred_ns / r->median_ns - 1));
}

static bool explain_point(const struct stored *p, bool markdown, struct error *e)
{
    const struct result *r = &p->result;
    char text[EXPLAIN_TEXT];
    explain_sentence(p, text);
    printf("%s\n%s\n", r->key, text);
    print_prediction(r);
    if (*r->reason)
        printf("remarks: %s\n", r->reason);
    puts("");
    print_times(r, markdown);
    if (!p->n_ops) {
        puts("no operations are recorded for this point");
        return true;
    }
    if (!print_ops(p, markdown, e))
        return false;
    double machine = r->roof_fraction * r->median_ns - r->roof_ns;
    char ms[24];
    if (fabs(machine) > 0.05 * r->roof_ns)
        printf("beyond: the roof at the machine's best; at the ceiling probed beside the samples the roof is %s ms %s\n",
               format_ms(fabs(machine), ms), machine > 0 ? "more" : "less");
    if (r->n_traced > 0)
        printf("operations as in the traced sample of median wall time, of %d, range over all of these; %d samples were "
               "timed\n",
               (int)r->n_traced, (int)r->n_samples);
    else
        puts("operations as in one traced sample");
    return true;
}

// All points.

static void point_cells(struct table *t, const struct stored *p, int32_t number)
{
    struct explanation x = {0};
    enum explain_part order[PART_COUNT];
    char name[64] = "-", half[16] = "-";
    const struct result *r = &p->result;
    bool known = explain_add(&x, p);
    double beyond = known ? x.time_ns - explain_probed_roof_ns(&x) : NAN, share = NAN;
    double width = 50 * (r->median_high_ns - r->median_low_ns) / r->median_ns;
    if (isfinite(width))
        snprintf(half, sizeof half, "%.0f %%", width);
    if (known) {
        explain_order(&x, order);
        explain_part_name(&x, order[0], name);
        share = 100 * x.part_ns[order[0]] / beyond;
    }
    table_cell(t, "%d", number);
    table_cell(t, "%s", r->key);
    ms_cell(t, r->median_ns);
    table_cell(t, "%s", half);
    table_cell(t, known ? "%.0f %%" : "-", 100 * explain_probed_roof_ns(&x) / x.time_ns);
    ms_cell(t, beyond);
    table_cell(t, known ? "%.0f %%" : "-", share);
    table_cell(t, "%s", name);
    table_cell(t, "%s", r->verdict);
}

static void print_points(const struct recorded *r, bool markdown)
{
    static const struct {
        const char *name;
        bool left;
    } HEADING[] = {{"#", false},         {"point", true},  {"ms", false},    {"+-", false},    {"of roof", false},
                   {"beyond ms", false}, {"of it", false}, {"mostly", true}, {"verdict", true}};
    struct table t = {0};
    for (size_t i = 0; i < sizeof HEADING / sizeof *HEADING; i++)
        table_column(&t, HEADING[i].name, HEADING[i].left, false);
    for (int32_t i = 0; i < r->n_rows; i++)
        point_cells(&t, &r->row[i], i + 1);
    finish_table(&t, markdown);
}

static double fraction_of(const struct stored *p)
{
    struct explanation x = {0};
    return explain_add(&x, p) ? explain_probed_roof_ns(&x) / x.time_ns : INFINITY;
}

// The points furthest from their roofs.
static void print_offenders(const struct recorded *r)
{
    double last = -1;
    char text[EXPLAIN_TEXT];
    for (int32_t n = 0; n < OFFENDERS; n++) {
        const struct stored *worst = NULL;
        for (int32_t i = 0; i < r->n_rows; i++)
            if (fraction_of(&r->row[i]) > last && (!worst || fraction_of(&r->row[i]) < fraction_of(worst)))
                worst = &r->row[i];
        if (!worst || fraction_of(worst) == INFINITY)
            return;
        last = fraction_of(worst);
        explain_sentence(worst, text);
        printf("%s%s\n", n ? "" : "furthest from their roofs:\n", text);
    }
}

static bool print_slopes(const struct recorded *r, bool markdown, struct error *e)
{
    struct slope *slope;
    struct table t = {0};
    int32_t n;
    bool ok = slopes_fit(r->row, r->n_rows, r->hw, r->n_hw, &slope, &n, e);
    if (ok && n) {
        printf("\ntime of a decode step = a + b * context%s", markdown ? "\n\n" : "\n");
        slope_table(&t, slope, n);
        table_print(stdout, &t, markdown);
        table_free(&t);
        puts(SLOPE_LEGEND);
    }
    free(slope);
    return ok;
}

static bool explain_all(const struct recorded *r, bool markdown, struct error *e)
{
    char text[EXPLAIN_TEXT];
    print_points(r, markdown);
    puts("+-: half of the median's 95 % interval; beyond: the roof at the ceiling probed beside the samples, and of it, "
         "mostly");
    if (explain_unchecked(r->row, r->n_rows, text))
        puts(text);
    puts("");
    print_offenders(r);
    if (!print_slopes(r, markdown, e))
        return false;
    printf("\none point in full: kvbench explain %s --point 1 (its number or its key)\n", r->path);
    return true;
}

// Which point: its number, its key, or a part that no other key has.
static const struct stored *choose(const struct recorded *r, const char *point, struct error *e)
{
    char *end;
    long number = strtol(point, &end, 10);
    const struct stored *found = recorded_find(r, point);
    if (*point && !*end && !found) {
        if (number >= 1 && number <= r->n_rows)
            return &r->row[number - 1];
        error_set(e, ERROR_USAGE, "'--point' is %ld, expected 1 to %d or a key", number, r->n_rows);
        return NULL;
    }
    int32_t n = 0;
    for (int32_t i = 0; !recorded_find(r, point) && i < r->n_rows; i++)
        if (strstr(r->row[i].result.key, point)) {
            found = &r->row[i];
            n++;
        }
    if (n > 1)
        error_set(e, ERROR_USAGE, "'--point' is '%.160s', which %d keys contain, expected one such as '%.160s'", point, n,
                  found->result.key);
    else if (!found)
        error_set(e, ERROR_USAGE, "'--point' is '%.160s', no key contains that, expected one such as '%.160s'", point,
                  r->row[0].result.key);
    return n > 1 ? NULL : found;
}

bool cmd_explain(const struct options *o, struct error *e)
{
    struct recorded r;
    enum table_format format;
    if (!table_format_of(o, &format, e))
        return false;
    if (o->n_args != 1)
        return error_set(e, ERROR_USAGE, "explain what? expected one result: a name below results/, a .jsonl or a .csv");
    if (!recorded_open(&r, "results", o->arg[0], e))
        return false;
    const struct stored *point = o->has_point ? choose(&r, o->point, e) : NULL;
    bool ok = point || !o->has_point;
    if (ok && table_is_data(format))
        print_data(format, point ? point : r.row, point ? 1 : r.n_rows);
    else if (ok)
        ok = point ? explain_point(point, format == TABLE_MD, e) : explain_all(&r, format == TABLE_MD, e);
    recorded_free(&r);
    return ok;
}
