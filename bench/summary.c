#include "bench/summary.h"

#include "bench/rows.h"

#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 64 };
typedef char cell[CELL];

static void put_ms(cell out, double ns)
{
    char text[24];
    snprintf(out, CELL, "%s", isfinite(ns) ? format_ms(ns, text) : "-");
}

static void put_phase(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.20s", r->phase);
}

static void put_batch(cell out, const struct result *r)
{
    snprintf(out, CELL, "%d", (int)r->batch);
}

static void put_shape(cell out, const struct result *r)
{
    row_shape(r, out);
}

static void put_weights(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.20s", r->weights);
}

static void put_kv(cell out, const struct result *r)
{
    row_kv(r, out);
}

static void put_count(cell out, int64_t n)
{
    snprintf(out, CELL, n == RESULT_UNKNOWN ? "-" : "%d", (int)n);
}

static void put_block(cell out, const struct result *r)
{
    put_count(out, r->block);
}

static void put_threads(cell out, const struct result *r)
{
    put_count(out, r->threads);
}

static void put_time(cell out, const struct result *r)
{
    put_ms(out, r->median_ns);
}

// Half of the median's 95 % interval.
static void put_interval(cell out, const struct result *r)
{
    double half = 50 * (r->median_high_ns - r->median_low_ns) / r->median_ns;
    snprintf(out, CELL, isfinite(half) ? "%.0f %%" : "-", half);
}

static void put_rate(cell out, const struct result *r)
{
    snprintf(out, CELL, isfinite(r->tokens_per_s) ? "%.1f" : "-", r->tokens_per_s);
}

static void put_fraction(cell out, const struct result *r)
{
    snprintf(out, CELL, isfinite(r->roof_fraction) ? "%.0f %%" : "-", 100 * r->roof_fraction);
}

static void put_verdict(cell out, const struct result *r)
{
    snprintf(out, CELL, "%.20s", r->verdict);
}

static const struct heading {
    const char *name;
    bool left, optional; // optional: shown where its values differ
    void (*put)(cell out, const struct result *r);
} COLUMN[] = {
    {"phase", true, false, put_phase},
    {"batch", false, false, put_batch},
    {"shape", true, false, put_shape},
    {"weights", true, false, put_weights},
    {"KV", true, false, put_kv},
    {"block", false, true, put_block},
    {"threads", false, true, put_threads},
    {"ms", false, false, put_time},
    {"+-", false, false, put_interval},
    {"tokens/s", false, false, put_rate},
    {"of roof", false, false, put_fraction},
    {"verdict", true, false, put_verdict},
};
enum { N_COLUMNS = sizeof COLUMN / sizeof *COLUMN };

// Columns' widths, 0 for those that are left out.
static void set_widths(const struct store *s, int width[N_COLUMNS])
{
    for (int c = 0; c < N_COLUMNS; c++) {
        cell first = "", text;
        bool differ = false;
        width[c] = (int)strlen(COLUMN[c].name);
        for (int32_t i = 0; i < s->n_rows; i++) {
            COLUMN[c].put(text, &s->row[i].result);
            width[c] = (int)strlen(text) > width[c] ? (int)strlen(text) : width[c];
            differ |= i && strcmp(text, first);
            memcpy(first, text, sizeof first);
        }
        if (COLUMN[c].optional && !differ)
            width[c] = 0;
    }
}

// How noisy a point is stands under "+-" already.
static const char *remarks(const struct result *r)
{
    const char *rest = strcmp(r->verdict, "noisy") ? r->reason : strstr(r->reason, "; ");
    return !rest ? "" : rest == r->reason ? rest : rest + 2;
}

// r NULL: the headings.
static void print_row(FILE *f, const struct result *r, const int width[N_COLUMNS])
{
    for (int c = 0; c < N_COLUMNS; c++) {
        cell text;
        if (!width[c])
            continue;
        if (r)
            COLUMN[c].put(text, r);
        else
            snprintf(text, CELL, "%s", COLUMN[c].name);
        fprintf(f, COLUMN[c].left ? "%s%-*s" : "%s%*s", c ? "  " : "", c == N_COLUMNS - 1 ? 0 : width[c], text);
    }
    fputs("\n", f);
}

static void print_table(FILE *f, const struct store *s)
{
    int width[N_COLUMNS];
    const char *model = "";
    set_widths(s, width);
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (strcmp(model, r->model)) {
            fprintf(f, "%s%s%s%s%s%s\n", i ? "\n" : "", r->model, *r->backend ? " on " : "", r->backend, *r->isa ? ", " : "",
                    r->isa);
            print_row(f, NULL, width);
        }
        model = r->model;
        print_row(f, r, width);
        if (*remarks(r))
            fprintf(f, "    %s\n", remarks(r));
    }
}

// "decode at 43 to 71 % of its roof (median 60 %)", of the points whose verdict is ok.
static bool print_phase(FILE *f, const struct store *s, const char *phase, bool first)
{
    double *fraction = malloc(((size_t)s->n_rows + 1) * sizeof *fraction);
    int32_t n = 0;
    for (int32_t i = 0; fraction && i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (!strcmp(r->phase, phase) && !strcmp(r->verdict, "ok") && isfinite(r->roof_fraction))
            fraction[n++] = 100 * r->roof_fraction;
    }
    double low = stats_quantile(fraction, n, 0), high = stats_quantile(fraction, n, 1);
    bool wide = high - low >= 1;
    if (n && !wide)
        fprintf(f, "%s%s at %.0f %% of its roof", first ? ": " : ", ", phase, stats_median(fraction, n));
    if (n && wide)
        fprintf(f, "%s%s at %.0f to %.0f %% of its roof (median %.0f %%)", first ? ": " : ", ", phase, low, high,
                stats_median(fraction, n));
    free(fraction);
    return n > 0;
}

static void print_sentence(FILE *f, const struct store *s)
{
    int32_t ok = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        ok += !strcmp(s->row[i].result.verdict, "ok");
    fprintf(f, "%d of %d point%s ok", ok, s->n_rows, s->n_rows == 1 ? "" : "s");
    bool any = false;
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++)
        any |= print_phase(f, s, phase_name(phase), !any);
    fputs("\n", f);
}

// What "of roof" is: paired with a probe on this machine, by the catalogue's ceilings elsewhere.
static void explain_fraction(FILE *f, const struct store *s)
{
    bool any = false, probed = false;
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        any |= isfinite(r->roof_fraction);
        probed |= isfinite(r->probe_GBps) || isfinite(r->probe_GFLOPps);
    }
    if (any)
        fprintf(f, "of roof: the roof%s over each sample, median (column roof_fraction)\n",
                probed ? " at the ceiling probed beside it" : "");
}

void summary_print(FILE *f, const struct store *s)
{
    print_table(f, s);
    fputs("\n", f);
    explain_fraction(f, s);
    const cJSON *notes = json_member(s->meta, "notes");
    for (const cJSON *m = notes ? notes->child : NULL; m; m = m->next)
        fprintf(f, "note: %s\n", m->valuestring);
    if (s->on_disk)
        fprintf(f, "results: %s/%s.csv, .ops.csv, %s.jsonl, .meta.json (columns: bench/README.md)\n", s->folder, s->name,
                s->n_hw ? ".roofs.csv, " : "");
    if (*s->moved_to)
        fprintf(f, "an older result is now %s.*\n", s->moved_to);
    print_sentence(f, s);
}

void summary_json(FILE *f, const struct store *s)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    cJSON *list = cJSON_CreateArray();
    for (int32_t i = 0; i < s->n_rows; i++)
        cJSON_AddItemToArray(list, row_json(column, n, &s->row[i].result));
    char *text = cJSON_Print(list);
    fprintf(f, "%s\n", text ? text : "[]");
    free(text);
    cJSON_Delete(list);
}
