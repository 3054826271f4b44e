#include "bench/import_print.h"

#include "bench/rows.h"
#include "bench/table.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 96 };
typedef char cell[CELL];

static void put_key(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.40s", r->key);
}

static void put_model(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.28s", *r->model ? r->model : "-");
}

static void put_hardware(cell out, const struct result *r)
{
    char times[16] = "";
    if (r->tp > 1)
        snprintf(times, sizeof times, "%dx ", (int)r->tp);
    snprintf(out, CELL, "%s%.28s", times, *r->hardware ? r->hardware : "-");
}

static void put_phase(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.12s", r->phase);
}

static void put_shape(cell out, const struct result *r)
{
    size_t n = 0;
    *out = 0;
    if (r->batch != RESULT_UNKNOWN)
        n += (size_t)snprintf(out + n, CELL - n, "%lld x ", (long long)r->batch);
    if (r->n_prompt > 0)
        n += (size_t)snprintf(out + n, CELL - n, "%lld", (long long)r->n_prompt);
    if (r->n_gen > 0)
        n += (size_t)snprintf(out + n, CELL - n, "+%lld", (long long)r->n_gen);
    if (r->n_depth > 0)
        snprintf(out + n, CELL - n, " at %lld", (long long)r->n_depth);
}

static void put_weights(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.14s", r->weights);
}

// A rate where the row is one, else milliseconds.
static void put_time(cell out, const struct result *r)
{
    char ms[24];
    if (!strcmp(r->phase, "peak"))
        snprintf(out, CELL, "%.4g TFLOP/s", r->effective_GFLOPps / 1e3);
    else if (!strcmp(r->phase, "bandwidth") || !strcmp(r->phase, "link"))
        snprintf(out, CELL, "%.4g GB/s", r->effective_GBps);
    else
        snprintf(out, CELL, "%s%s", isfinite(r->median_ns) ? format_ms(r->median_ns, ms) : "-",
                 isfinite(r->median_ns) ? " ms" : "");
}

static void put_rate(cell out, const struct result *r)
{
    snprintf(out, CELL, isfinite(r->tokens_per_s) ? "%.5g" : "-", r->tokens_per_s);
}

static void put_share(cell out, double ns, const struct result *r)
{
    double share = 100 * ns / r->median_ns;
    snprintf(out, CELL, !isfinite(share) ? "-" : share < 9.95 ? "%.1f %%" : "%.0f %%", share);
}

static void put_bound(cell out, const struct result *r)
{
    put_share(out, r->bound_ns, r);
}

static void put_printed(cell out, const struct result *r)
{
    put_share(out, r->datasheet_ns, r);
}

static void put_roof(cell out, const struct result *r)
{
    put_share(out, r->roof_ns, r);
}

static void put_verdict(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.20s", r->verdict);
}

static const struct heading {
    const char *name;
    bool left;
    void (*put)(cell out, const struct result *r);
} COLUMN[] = {
    {"row", true, put_key},
    {"model", true, put_model},
    {"hardware", true, put_hardware},
    {"phase", true, put_phase},
    {"shape", true, put_shape},
    {"weights", true, put_weights},
    {"time or rate", false, put_time},
    {"tokens/s", false, put_rate},
    {"of bound", false, put_bound},
    {"of print", false, put_printed},
    {"of roof", false, put_roof},
    {"verdict", true, put_verdict},
};
enum { N_COLUMNS = sizeof COLUMN / sizeof *COLUMN };

void import_print_table(FILE *f, const struct store *s, bool markdown)
{
    struct table t = {.n_columns = 0};
    for (int c = 0; c < N_COLUMNS; c++)
        table_column(&t, COLUMN[c].name, COLUMN[c].left, false);
    for (int32_t i = 0; i < s->n_rows; i++) {
        for (int c = 0; c < N_COLUMNS; c++) {
            cell text;
            COLUMN[c].put(text, &s->row[i].result);
            table_cell(&t, "%s", text);
        }
        table_note(&t, s->row[i].result.reason);
    }
    table_print(f, &t, markdown);
    table_free(&t);
}

// "decode: 80 rows at 9 to 97 % of the roof, median 58 %": and how far off the roof is where it is taken for a forecast.
static void print_phase(FILE *f, const struct store *s, const char *phase)
{
    double *fraction = malloc(((size_t)s->n_rows + 1) * sizeof *fraction), error = 0;
    int32_t n = 0;
    for (int32_t i = 0; fraction && i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (strcmp(r->phase, phase) || !isfinite(r->roof_fraction) || !strcmp(r->verdict, "over-bound"))
            continue;
        fraction[n++] = 100 * r->roof_fraction;
        error += 100 * fabs(r->roof_fraction - 1);
    }
    if (n)
        fprintf(f,
                "%-9s  %4d row%s  %3.0f to %3.0f %% of the roof, median %3.0f %%; as a forecast the roof is %.0f %% off "
                "(MAPE)\n",
                phase, n, n == 1 ? " " : "s", stats_quantile(fraction, n, 0), stats_quantile(fraction, n, 1),
                stats_median(fraction, n), error / n);
    free(fraction);
}

// Each clause of the rows' `assumed`, with how many rows have it.
static void print_assumed(FILE *f, const struct store *s)
{
    enum { MOST = 64 };
    char clause[MOST][160];
    int count[MOST] = {0}, n = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        for (const char *at = s->row[i].result.assumed; *at;) {
            const char *end = strstr(at, "; ");
            char text[160];
            int k = 0;
            snprintf(text, sizeof text, "%.*s", (int)(end ? end - at : (long)strlen(at)), at);
            while (k < n && strcmp(clause[k], text))
                k++;
            if (k == n && n < MOST)
                snprintf(clause[n++], sizeof clause[0], "%s", text);
            if (k < n)
                count[k]++;
            at = end ? end + 2 : at + strlen(at);
        }
    for (int k = 0; k < n; k++)
        fprintf(f, "%s%s (%d row%s)", k ? ", " : "assumed: ", clause[k], count[k], count[k] == 1 ? "" : "s");
    fputs(n ? "\n" : "", f);
}

// The rows for which `which` holds, by name.
static void print_named(FILE *f, const struct store *s, const char *what, bool (*which)(const struct result *))
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        if (which(&s->row[i].result))
            fprintf(f, "%s%s", n++ ? ", " : what, s->row[i].result.key);
    fputs(n ? "\n" : "", f);
}

static bool is_over_bound(const struct result *r)
{
    return !strcmp(r->verdict, "over-bound");
}

static bool beats_print(const struct result *r)
{
    return !is_over_bound(r) && strstr(r->reason, "times the printed datasheet");
}

static bool lacks_roof(const struct result *r)
{
    return !isfinite(r->roof_ns);
}

void import_print_summary(FILE *f, const struct store *s)
{
    static const char *const PHASE[] = {"decode", "prefill", "generate", "tokens", "bandwidth", "peak", "link"};
    int32_t roofs = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        roofs += !lacks_roof(&s->row[i].result);
    fputs("\n", f);
    for (size_t i = 0; i < sizeof PHASE / sizeof *PHASE; i++)
        print_phase(f, s, PHASE[i]);
    print_assumed(f, s);
    print_named(f, s, "faster than printed: ", beats_print);
    print_named(f, s, "over-bound: ", is_over_bound);
    print_named(f, s, "no roof: ", lacks_roof);
    if (s->on_disk)
        fprintf(f, "results: %s/%s.csv, .jsonl, .meta.json%s (columns: bench/README.md)\n", s->folder, s->name,
                s->n_hw ? ", .roofs.csv" : "");
    if (*s->moved_to)
        fprintf(f, "an older result is now %s.*\n", s->moved_to);
    fprintf(f, "%d row%s, %d with a roof\n", s->n_rows, s->n_rows == 1 ? "" : "s", roofs);
}
