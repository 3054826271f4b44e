#include "bench/summary.h"

#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_CELLS = 10, CELL = 64 };
typedef char cells[N_CELLS][CELL];

static void put_ns(char out[CELL], double ns)
{
    char text[24];
    snprintf(out, CELL, "%s", isfinite(ns) ? format_ns(ns, text) : "-");
}

static void put_shape(char out[CELL], const struct result *r)
{
    if (!strcmp(r->phase, "decode"))
        snprintf(out, CELL, r->n_gen == 1 ? "context %d" : "context %d, %d steps", (int)r->context, (int)r->n_gen);
    else if (!strcmp(r->phase, "prefill"))
        snprintf(out, CELL, r->n_depth ? "%d tokens after %d" : "%d tokens", (int)r->n_prompt, (int)r->n_depth);
    else
        snprintf(out, CELL, "%d + %d tokens%s", (int)r->n_prompt, (int)r->n_gen, r->cache ? "" : ", no cache");
}

// "+-" is half of the median's 95 % interval.
static void put_cells(cells c, const struct result *r)
{
    snprintf(c[0], CELL, "%.20s", r->phase);
    snprintf(c[1], CELL, "%d", (int)r->batch);
    put_shape(c[2], r);
    snprintf(c[3], CELL, "%.20s", r->weights);
    snprintf(c[4], CELL, strcmp(r->type_k, r->type_v) ? "%.16s:%.16s" : "%.16s", r->type_k, r->type_v);
    put_ns(c[5], r->median_ns);
    snprintf(c[6], CELL, isfinite(r->median_ns) ? "%.0f %%" : "-",
             50 * (r->median_high_ns - r->median_low_ns) / r->median_ns);
    snprintf(c[7], CELL, isfinite(r->tokens_per_s) ? "%.1f" : "-", r->tokens_per_s);
    snprintf(c[8], CELL, isfinite(r->roof_fraction) ? "%.0f %%" : "-", 100 * r->roof_fraction);
    snprintf(c[9], CELL, "%.20s", r->verdict);
}

static void print_row(FILE *f, cells c, const int width[N_CELLS])
{
    static const bool LEFT[N_CELLS] = {true, false, true, true, true, false, false, false, false, true};
    for (int i = 0; i < N_CELLS; i++)
        fprintf(f, LEFT[i] ? "%s%-*s" : "%s%*s", i ? "  " : "", i == N_CELLS - 1 ? 0 : width[i], c[i]);
    fputs("\n", f);
}

static void widen(int width[N_CELLS], cells c)
{
    for (int i = 0; i < N_CELLS; i++)
        width[i] = (int)strlen(c[i]) > width[i] ? (int)strlen(c[i]) : width[i];
}

static void print_table(FILE *f, const struct store *s)
{
    cells head = {"phase", "batch", "shape", "weights", "KV", "time", "+-", "tokens/s", "of roof", "verdict"}, c;
    int width[N_CELLS] = {0};
    const char *model = "";
    widen(width, head);
    for (int32_t i = 0; i < s->n_rows; i++) {
        put_cells(c, &s->row[i].result);
        widen(width, c);
    }
    for (int32_t i = 0; i < s->n_rows; i++) {
        const struct result *r = &s->row[i].result;
        if (strcmp(model, r->model)) {
            fprintf(f, "%s%s on %s%s%s\n", i ? "\n" : "", r->model, r->backend, *r->isa ? ", " : "", r->isa);
            print_row(f, head, width);
        }
        model = r->model;
        put_cells(c, r);
        print_row(f, c, width);
        if (*r->reason && strcmp(r->verdict, "noisy")) // how noisy stands under "+-"
            fprintf(f, "    %s\n", r->reason);
    }
}

// "decode at 43 to 71 % of the roof (median 60 %)"
static bool print_phase(FILE *f, const struct store *s, const char *phase, bool first)
{
    double *fraction = malloc(((size_t)s->n_rows + 1) * sizeof *fraction);
    int32_t n = 0;
    for (int32_t i = 0; fraction && i < s->n_rows; i++)
        if (!strcmp(s->row[i].result.phase, phase) && isfinite(s->row[i].result.roof_fraction))
            fraction[n++] = 100 * s->row[i].result.roof_fraction;
    if (n == 1)
        fprintf(f, "%s%s at %.0f %% of its roof", first ? ": " : ", ", phase, fraction[0]);
    if (n > 1)
        fprintf(f, "%s%s at %.0f to %.0f %% of its roof (median %.0f %%)", first ? ": " : ", ", phase,
                stats_quantile(fraction, n, 0), stats_quantile(fraction, n, 1), stats_median(fraction, n));
    free(fraction);
    return n > 0;
}

static void print_sentence(FILE *f, const struct store *s)
{
    int32_t ok = 0;
    for (int32_t i = 0; i < s->n_rows; i++)
        ok += !strcmp(s->row[i].result.verdict, "ok");
    fprintf(f, "%d of %d points ok", ok, s->n_rows);
    bool any = false;
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++)
        any |= print_phase(f, s, phase_name(phase), !any);
    fputs("\n", f);
}

void summary_print(FILE *f, const struct store *s)
{
    print_table(f, s);
    fputs("\n", f);
    if (s->on_disk)
        fprintf(f, "results: %s/%s.csv, .ops.csv, %s.jsonl, .meta.json (columns: bench/README.md)\n", s->folder, s->name,
                json_member(s->meta, "ceilings") ? ".roofs.csv, " : "");
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
