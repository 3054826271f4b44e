// kvbench compare A B: what got slower, what got faster, and what else differs. Reads results, measures nothing.
#include "bench/command.h"
#include "bench/compare.h"
#include "bench/table.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONE_NAMED = 3 };

// "5%" or "0.05".
static bool parse_threshold(const char *text, double *out, struct error *e)
{
    char *end;
    double v = strtod(text, &end);
    bool percent = *end == '%' && !end[1];
    *out = percent ? v / 100 : v;
    if (end != text && (percent || !*end) && *out >= 0 && *out < 1)
        return true;
    return error_set(e, ERROR_USAGE, "'--threshold' is '%.40s', expected a share such as 5%% or 0.05", text);
}

static bool parse_by(const char *text, bool *by_fraction, struct error *e)
{
    *by_fraction = !strcmp(text, "fraction");
    return *by_fraction || !strcmp(text, "time") ||
           error_set(e, ERROR_USAGE, "'--by' is '%.40s', expected time or fraction", text);
}

static void print_settings(const struct comparison *c, bool markdown)
{
    struct table t = {0};
    table_column(&t, "differs", true, false);
    table_column(&t, "A", true, false);
    table_column(&t, "B", true, false);
    for (int32_t i = 0; i < c->n_settings; i++) {
        table_cell(&t, "%.95s", c->setting[i].name);
        table_cell(&t, "%.95s", c->setting[i].a);
        table_cell(&t, "%.95s", c->setting[i].b);
    }
    if (c->n_settings) {
        table_print(stdout, &t, markdown);
        puts("");
    }
    table_free(&t);
}

static void value_cell(struct table *t, bool by_fraction, double ns, double fraction)
{
    char text[24];
    if (by_fraction && isfinite(fraction))
        table_cell(t, "%.0f %%", 100 * fraction);
    else if (!by_fraction && isfinite(ns))
        table_cell(t, "%s", format_ms(ns, text));
    else
        table_cell(t, "-");
}

static void row_cells(struct table *t, const struct comparison *c, const struct compare_row *r)
{
    bool noisy = !strcmp(r->a_verdict, "noisy") || !strcmp(r->b_verdict, "noisy");
    table_cell(t, "%.95s", r->key);
    value_cell(t, c->by_fraction, r->a_ns, r->a_fraction);
    value_cell(t, c->by_fraction, r->b_ns, r->b_fraction);
    if (isfinite(r->ratio))
        table_cell(t, "%.3f", r->ratio);
    else
        table_cell(t, "-");
    if (isfinite(r->ratio))
        table_cell(t, "%.3f-%.3f", r->ratio_low, r->ratio_high);
    else
        table_cell(t, "-");
    table_cell(t, "%.60s%s", r->change, noisy ? ", noisy" : "");
}

// Only what differs; phases as wholes at the end.
static void print_changes(const struct comparison *c, bool markdown)
{
    struct table t = {0};
    table_column(&t, "point", true, false);
    table_column(&t, c->by_fraction ? "A of roof" : "A ms", false, false);
    table_column(&t, c->by_fraction ? "B of roof" : "B ms", false, false);
    table_column(&t, c->by_fraction ? "A / B" : "B / A", false, false);
    table_column(&t, "interval", false, false);
    table_column(&t, "change", true, false);
    for (int32_t i = 0; i < c->n_pairs; i++)
        if (strcmp(c->row[i].change, "same"))
            row_cells(&t, c, &c->row[i]);
    for (int32_t i = 0; i < c->n_groups; i++) {
        struct compare_row row = c->group[i];
        row.a_ns = row.b_ns = row.a_fraction = row.b_fraction = NAN;
        snprintf(row.key, sizeof row.key, "%.60s (%d points)", c->group[i].key, c->group_points[i]);
        row_cells(&t, c, &row);
    }
    if (t.n_cells) {
        table_print(stdout, &t, markdown);
        puts(markdown ? "" : "interval: of the ratio of medians, at 95 % for all points together\n");
    }
    table_free(&t);
}

// "only in A: KEY, KEY, KEY and 19 more"
static void print_lone(const struct comparison *c, const char *change)
{
    int32_t n = 0;
    for (int32_t i = c->n_pairs; i < c->n_rows; i++) {
        if (strcmp(c->row[i].change, change))
            continue;
        if (n++ < LONE_NAMED)
            printf("%s%s", n == 1 ? change : ",", n == 1 ? ": " : " ");
        if (n <= LONE_NAMED)
            fputs(c->row[i].key, stdout);
    }
    if (n > LONE_NAMED)
        printf(" and %d more", n - LONE_NAMED);
    fputs(n ? "\n" : "", stdout);
}

static void print_counts(const struct comparison *c, const struct compare_options *options)
{
    printf("%d points in both: %d the same within %g %%, %d slower, %d faster, %d unsure", c->n_pairs, c->n_same,
           100 * options->threshold, c->n_slower, c->n_faster, c->n_unsure);
    if (c->n_broken)
        printf(", %d failed", c->n_broken);
    int32_t rest = c->n_pairs - c->n_same - c->n_slower - c->n_faster - c->n_unsure - c->n_broken;
    if (rest)
        printf(", %d not measured in one of them", rest);
    puts("");
}

static void print_comparison(const struct comparison *c, const struct compare_options *options, const char *const path[2],
                             bool markdown)
{
    printf("A: %s\nB: %s\n\n", path[0], path[1]);
    print_settings(c, markdown);
    print_changes(c, markdown);
    print_lone(c, "only in A");
    print_lone(c, "only in B");
    print_counts(c, options);
    if (options->by_fraction && !c->by_fraction)
        puts("by time: not every point has probes beside its samples");
}

static bool compare(const struct recorded *a, const struct recorded *b, const struct compare_options *options,
                    enum table_format format, struct error *e)
{
    struct comparison c;
    int32_t n;
    const struct column *column = compare_columns(&n);
    if (!compare_results(a, b, options, &c, e))
        return false;
    if (table_is_data(format))
        table_rows(stdout, format, column, n, c.row, sizeof *c.row, c.n_rows);
    else
        print_comparison(&c, options, (const char *const[2]){a->path, b->path}, format == TABLE_MD);
    bool ok = comparison_verdict(&c, options, e);
    comparison_free(&c);
    return ok;
}

bool cmd_compare(const struct options *o, struct error *e)
{
    struct compare_options options;
    struct recorded a = {0}, b = {0};
    enum table_format format;
    if (!table_format_of(o, &format, e) || !parse_threshold(o->threshold, &options.threshold, e) ||
        !parse_by(o->by, &options.by_fraction, e))
        return false;
    if (o->n_args != 2)
        return error_set(e, ERROR_USAGE, "compare what? expected two results: names below results/, .jsonl or .csv");
    bool ok = recorded_open(&a, "results", o->arg[0], e) && recorded_open(&b, "results", o->arg[1], e) &&
              compare(&a, &b, &options, format, e);
    recorded_free(&a);
    recorded_free(&b);
    return ok;
}
