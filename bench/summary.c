#include "bench/summary.h"

#include "bench/explain.h"
#include "bench/rows.h"
#include "bench/slope.h"
#include "bench/trust.h"

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

// The reason without how noisy a point is, which stands under "+-" already.
static void remarks(const struct result *r, result_text out)
{
    static const char NOISE[] = "the median's interval spans ";
    const char *noise = strstr(r->reason, NOISE), *rest = noise ? strstr(noise, "; ") : NULL;
    if (!noise) {
        snprintf(out, sizeof(result_text), "%s", r->reason);
        return;
    }
    int before = (int)(noise - r->reason); // with its "; "
    snprintf(out, sizeof(result_text), "%.*s%s", rest || before < 2 ? before : before - 2, r->reason, rest ? rest + 2 : "");
}

static void table_of(struct table *t, const struct store *s, int32_t first, int32_t end)
{
    cell text;
    result_text note;
    for (int c = 0; c < N_COLUMNS; c++)
        table_column(t, COLUMN[c].name, COLUMN[c].left, COLUMN[c].optional);
    for (int32_t i = first; i < end; i++) {
        for (int c = 0; c < N_COLUMNS; c++) {
            COLUMN[c].put(text, &s->row[i].result);
            table_cell(t, "%s", text);
        }
        remarks(&s->row[i].result, note);
        table_note(t, note);
    }
}

// What stands above a table: what all of its rows share.
static void heading_of(const struct result *r, char out[800])
{
    snprintf(out, 800, "%s%s%s%s%s", r->model, *r->backend ? " on " : "", r->backend, *r->isa ? ", " : "", r->isa);
}

// A table for each run of rows with one heading.
static void print_tables(FILE *f, const struct store *s, bool markdown)
{
    char heading[800], next[800];
    for (int32_t first = 0, end; first < s->n_rows; first = end) {
        struct table t = {0};
        heading_of(&s->row[first].result, heading);
        for (end = first + 1; end < s->n_rows; end++) {
            heading_of(&s->row[end].result, next);
            if (strcmp(heading, next))
                break;
        }
        table_of(&t, s, first, end);
        fprintf(f, markdown ? "%s**%s**\n\n" : "%s%s\n", first ? "\n" : "", heading);
        table_print(f, &t, markdown);
        table_free(&t);
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

// "; 3 contended, 1 noisy": verdicts other than ok, the worst first.
static void print_verdicts(FILE *f, const struct store *s)
{
    bool any = false;
    for (int code = 0; code < TRUST_CODE_COUNT; code++) {
        int32_t n = 0;
        for (int32_t i = 0; i < s->n_rows; i++)
            n += !strcmp(s->row[i].result.verdict, trust_code_name((enum trust_code)code));
        if (n)
            fprintf(f, "%s%d %s", any ? ", " : " (", n, trust_code_name((enum trust_code)code));
        any |= n > 0;
    }
    fputs(any ? ")" : "", f);
}

static void print_sentence(FILE *f, const struct store *s)
{
    int32_t ok = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        ok += !strcmp(s->row[i].result.verdict, "ok");
    fprintf(f, "%d of %d point%s ok", ok, s->n_rows, s->n_rows == 1 ? "" : "s");
    print_verdicts(f, s);
    bool any = false;
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++)
        any |= print_phase(f, s, phase_name(phase), !any);
    fputs("\n", f);
}

// What "+-" and "of roof" are: paired with a probe on this machine, by the catalogue's ceilings elsewhere.
static void explain_fraction(FILE *f, const struct store *s)
{
    bool any = false, probed = false;
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        any |= isfinite(r->roof_fraction);
        probed |= isfinite(r->probe_GBps) || isfinite(r->probe_GFLOPps);
    }
    if (any)
        fprintf(f, "+-: half of the median's 95 %% interval; of roof: median of roof / sample%s (roof_fraction)\n",
                probed ? ", each roof at the ceiling probed beside its sample" : "");
}

// How far predictions were off, of the points that are ok: their size and their sign.
static void print_prediction(FILE *f, const struct store *s, const char *phase)
{
    double size = 0, sign = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (strcmp(r->phase, phase) || strcmp(r->verdict, "ok") || !(r->pred_ns > 0))
            continue;
        double off = (r->pred_fraction > 0 ? r->pred_fraction : r->pred_ns / r->median_ns) - 1;
        size += fabs(off);
        sign += off;
        n++;
    }
    if (n)
        fprintf(f, "pred of %s was %.1f %% off on average (bias %+.1f %%) over %d point%s\n", phase, 100 * size / n,
                100 * sign / n, n, n == 1 ? "" : "s");
}

// Where the time of a phase goes, at its smallest and its largest batch.
static void print_where(FILE *f, const struct store *s, const char *phase)
{
    int64_t low = INT64_MAX, high = 0;
    char text[EXPLAIN_TEXT];
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (strcmp(r->phase, phase) || strcmp(r->verdict, "ok"))
            continue;
        low = r->batch < low ? r->batch : low;
        high = r->batch > high ? r->batch : high;
    }
    if (high && explain_group_sentence(s->row, s->n_rows, phase, low, text))
        fprintf(f, "%s\n", text);
    if (high > low && explain_group_sentence(s->row, s->n_rows, phase, high, text))
        fprintf(f, "%s\n", text);
}

static void print_slopes(FILE *f, const struct store *s, bool markdown)
{
    struct slope *slope;
    struct table t = {0};
    int32_t n;
    if (json_member(s->meta, "slopes") && slopes_fit(s->row, s->n_rows, s->hw, s->n_hw, &slope, &n, NULL)) {
        fprintf(f, "\ntime of a decode step = a + b * context%s", markdown ? "\n\n" : "\n");
        slope_table(&t, slope, n);
        table_print(f, &t, markdown);
        table_free(&t);
        fprintf(f, "%s\n", SLOPE_LEGEND);
        free(slope);
    }
}

void summary_print(FILE *f, const struct store *s, bool markdown)
{
    print_tables(f, s, markdown);
    print_slopes(f, s, markdown);
    char text[EXPLAIN_TEXT];
    fputs("\n", f);
    explain_fraction(f, s);
    if (explain_unchecked(s->row, s->n_rows, text))
        fprintf(f, "%s\n", text);
    const cJSON *notes = json_member(s->meta, "notes");
    for (const cJSON *m = notes ? notes->child : NULL; m; m = m->next)
        fprintf(f, "note: %s\n", m->valuestring);
    if (s->on_disk)
        fprintf(f, "results: %s/%s.csv, .ops.csv, %s.jsonl, .meta.json (columns: bench/README.md; kvbench explain %s/%s)\n",
                s->folder, s->name, s->n_hw ? ".roofs.csv, " : "", s->folder, s->name);
    if (*s->moved_to)
        fprintf(f, "an older result is now %s.* (kvbench compare)\n", s->moved_to);
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++)
        print_prediction(f, s, phase_name(phase));
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++)
        print_where(f, s, phase_name(phase));
    print_sentence(f, s);
}

void summary_rows(FILE *f, enum table_format format, const struct store *s)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    table_rows(f, format, column, n, &s->row->result, sizeof *s->row, s->n_rows);
}
