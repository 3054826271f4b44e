// The page: two templates, page.html and result.html, whose {{names}} are filled in by the functions of a table.
#include "bench/report/report.h"

#include "bench/explain.h"
#include "bench/html.h"
#include "bench/svg.h"
#include "engine/base/stats.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The Makefile turns text files into string literals.
static const char PAGE[] =
#include "bench/report/page.html.inc"
    ;
static const char RESULT[] =
#include "bench/report/result.html.inc"
    ;
static const char STYLE[] =
#include "bench/report/page.css.inc"
    ;
static const char SCRIPT[] =
#include "bench/report/page.js.inc"
    ;

// What a slot needs; result: NULL outside of one.
struct context {
    const struct report *report;
    const struct report_result *result;
};

struct slot {
    const char *name;
    void (*put)(FILE *f, const struct context *c);
};

static const struct slot *find_slot(const struct slot *slot, const char *name, size_t size)
{
    while (slot->name && (strlen(slot->name) != size || memcmp(slot->name, name, size)))
        slot++;
    return slot;
}

static void fill_template(FILE *f, const char *text, const struct slot *slot, const struct context *c)
{
    const char *open, *close;
    while ((open = strstr(text, "{{")) && (close = strstr(open, "}}"))) {
        fwrite(text, 1, (size_t)(open - text), f);
        const struct slot *s = find_slot(slot, open + 2, (size_t)(close - open - 2));
        if (s->name)
            s->put(f, c);
        text = close + 2;
    }
    fputs(text, f);
}

// The answer: one sentence per phase, of points whose verdict is ok, or of all where none is.

static int32_t fractions(const struct report_result *r, const char *phase, bool ok_only, double *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct result *row = &r->recorded.row[i].result;
        if (!strcmp(row->phase, phase) && isfinite(report_of_roof(row)) &&
            (!ok_only || !strcmp(row->verdict, "ok") || !strcmp(row->verdict, "reported")))
            out[n++] = 100 * report_of_roof(row);
    }
    return n;
}

// "Decode runs at 26 to 85 % of the roof (median 70 %)".
static bool put_phase(FILE *f, const struct report_result *r, const char *phase, bool first)
{
    double *share = malloc(((size_t)r->recorded.n_rows + 1) * sizeof *share);
    int32_t n = share ? fractions(r, phase, true, share) : 0;
    n = share && !n ? fractions(r, phase, false, share) : n;
    char lead[32];
    snprintf(lead, sizeof lead, "%s%s runs at ", first ? "" : ", ", phase);
    if (first)
        lead[0] = (char)toupper((unsigned char)lead[0]);
    double low = stats_quantile(share, n, 0), high = stats_quantile(share, n, 1);
    if (n && high - low < 1)
        fprintf(f, "%s<b>%.0f\u00a0%%</b> of the roof", lead, low);
    else if (n)
        fprintf(f, "%s<b>%.0f to %.0f\u00a0%%</b> of the roof", lead, low, high);
    free(share);
    return n > 0;
}

static int32_t count_measured(const struct report_result *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        n += isfinite(r->point[i].ms);
    return n;
}

// Points that have a verdict: measured with samples.
static int32_t count_judged(const struct report_result *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        n += isfinite(r->point[i].ms) && strcmp(r->recorded.row[i].result.verdict, "reported");
    return n;
}

static int32_t count_ok(const struct report_result *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        n += !strcmp(r->recorded.row[i].result.verdict, "ok");
    return n;
}

static void put_sentence(FILE *f, const struct report_result *r)
{
    static const char *const PHASE[] = {"decode", "prefill", "generate"};
    bool any = false;
    for (int k = 0; k < 3; k++)
        any |= put_phase(f, r, PHASE[k], !any);
    if (!any)
        fprintf(f, count_measured(r) ? "No roof is known for its %d points" : "%d points are predicted, none is measured",
                r->recorded.n_rows);
    fputs(count_judged(r) == count_measured(r) && count_measured(r) && !count_ok(r) ? "; the verdict of no point is ok."
                                                                                    : ".",
          f);
}

// What the time is made of: of decode at the smallest and at the largest batch, and of prefill.
static void put_reasons(FILE *f, const struct report_result *r)
{
    static const char *const PHASE[] = {"decode", "prefill"};
    fputs("<ul class=\"why\">", f);
    for (int k = 0; k < 2; k++) {
        int64_t batch[64];
        int32_t n = report_values(r, 0, PHASE[k], REPORT_BATCH, batch, 64);
        for (int32_t b = 0; b<n; b += n> 1 ? n - 1 : 1) {
            char sentence[EXPLAIN_TEXT];
            if (!explain_group_sentence(r->recorded.row, r->recorded.n_rows, PHASE[k], batch[b], sentence))
                continue;
            fputs("<li>", f);
            html_text(f, sentence);
            fputs("</li>\n", f);
        }
    }
    fputs("</ul>\n", f);
}

static void put_letter_title(FILE *f, const struct report_result *r)
{
    fprintf(f, "<a href=\"#%s\">%s · ", r->letter, r->letter);
    html_format(f, "%s, %s", r->title, r->recorded.name);
    fputs("</a><br>", f);
}

static void put_answer(FILE *f, const struct context *c)
{
    fputs(c->report->n > 1 ? "<div class=\"several\">\n" : "<div>\n", f);
    for (int32_t k = 0; k < c->report->n; k++) {
        fputs("<p class=\"answer\">", f);
        if (c->report->n > 1)
            put_letter_title(f, &c->report->result[k]);
        put_sentence(f, &c->report->result[k]);
        fputs("</p>\n", f);
        put_reasons(f, &c->report->result[k]);
    }
    fputs("</div>\n", f);
}

// A few figures in large.

static void put_figure(FILE *f, const char *value, const char *unit, const char *what)
{
    fputs("<div><dt>", f);
    html_text(f, what);
    fputs("</dt><dd>", f);
    html_text(f, value);
    fprintf(f, " <span>%s</span></dd></div>\n", unit);
}

static const struct report_point *fastest(const struct report_result *r, const char *phase, int64_t batch)
{
    const struct report_point *best = NULL;
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct report_point *p = &r->point[i];
        if (report_is(p, phase) && isfinite(p->ms) && (!batch || p->batch == batch) &&
            (!best || p->stored->result.tokens_per_s > best->stored->result.tokens_per_s))
            best = p;
    }
    return best;
}

static void put_fastest(FILE *f, const struct report_result *r, const char *phase, int64_t batch)
{
    const struct report_point *p = fastest(r, phase, batch);
    char number[32], what[160];
    if (!p || !isfinite(p->stored->result.tokens_per_s))
        return;
    snprintf(what, sizeof what, "fastest %s%s%s", phase, batch ? " of one sequence" : "", p->hollow ? " (not ok)" : "");
    put_figure(f, html_number(p->stored->result.tokens_per_s, number), "tokens/s", what);
}

static void put_figures(FILE *f, const struct context *c)
{
    const struct report_result *r = c->result;
    const struct hardware *hw = r->n_hw == 1 ? report_hardware(r, r->slice[0].first) : NULL;
    char number[32];
    fputs("<dl class=\"figures\">", f);
    put_fastest(f, r, "decode", 1);
    put_fastest(f, r, "decode", 0);
    put_fastest(f, r, "prefill", 0);
    for (int kind = ROOF_ATTAINABLE; hw && kind >= 0; kind--)
        if (hw->bandwidth[kind].value > 0) {
            put_figure(f, html_number(hw->bandwidth[kind].value / 1e9, number), "GB/s",
                       kind == ROOF_ATTAINABLE ? "what the machine reads at most" : "its datasheet says");
            break;
        }
    snprintf(number, sizeof number, "%d", count_ok(r));
    char of[48];
    snprintf(of, sizeof of, "of %d points", r->recorded.n_rows);
    if (count_judged(r) && count_judged(r) == count_measured(r))
        put_figure(f, number, of, "verdict ok");
    fputs("</dl>\n", f);
}

// Slots of a result.

static void put_letter(FILE *f, const struct context *c)
{
    fputs(c->result->letter, f);
}

// The title of the only result is the page's.
static void put_heading(FILE *f, const struct context *c)
{
    fputs(c->report->n > 1 ? "<h2>" : "<h2 class=\"hidden\">", f);
    if (c->report->n > 1)
        fprintf(f, "%s · ", c->result->letter);
    html_text(f, c->result->title);
    fputs("</h2>", f);
}

static void put_subtitle(FILE *f, const struct context *c)
{
    const struct report_result *r = c->result;
    const char *date = "";
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        date = strcmp(r->recorded.row[i].result.test_time, date) > 0 ? r->recorded.row[i].result.test_time : date;
    html_format(f, "%s, %d point%s%s%.10s", r->recorded.name, r->recorded.n_rows, r->recorded.n_rows == 1 ? "" : "s",
                *date ? ", " : "", date);
}

// More groups than this stand behind one heading.
enum { MANY_SLICES = 6 };

static void put_pictures(FILE *f, const struct context *c)
{
    const struct report_result *r = c->result;
    bool many = r->n_slices > MANY_SLICES;
    for (int32_t s = 0; s < r->n_slices; s++) {
        if (many && s == 1)
            fprintf(
                f,
                "<details class=\"slice\"><summary>%d more groups of points, each of one model on one machine</summary>\n",
                r->n_slices - 1);
        fputs(s ? "<details class=\"slice\"><summary>" : "<p class=\"slice\">", f);
        html_text(f, r->slice[s].name);
        fputs(s ? "</summary>\n" : "</p>\n", f);
        report_pictures(f, r, s);
        fputs(s ? "</details>\n" : "", f);
    }
    fputs(many ? "</details>\n" : "", f);
}

static void put_points(FILE *f, const struct context *c)
{
    report_points(f, c->result);
}

static void put_slopes(FILE *f, const struct context *c)
{
    report_slopes(f, c->result);
}

static void put_verdicts(FILE *f, const struct context *c)
{
    report_verdicts(f, c->result);
}

static void put_ceilings(FILE *f, const struct context *c)
{
    report_ceilings(f, c->result);
}

static void put_machine(FILE *f, const struct context *c)
{
    report_machine(f, c->result);
}

static void put_details(FILE *f, const struct context *c)
{
    report_details(f, c->result);
}

static const struct slot RESULT_SLOT[] = {
    {"letter", put_letter},     {"heading", put_heading}, {"subtitle", put_subtitle}, {"figures", put_figures},
    {"pictures", put_pictures}, {"points", put_points},   {"verdicts", put_verdicts}, {"ceilings", put_ceilings},
    {"machine", put_machine},   {"details", put_details}, {"slopes", put_slopes},     {NULL, NULL},
};

// Slots of the page.

static void put_style(FILE *f, const struct context *c)
{
    (void)c;
    fputs(STYLE, f);
}

static void put_script(FILE *f, const struct context *c)
{
    (void)c;
    fputs(SCRIPT, f);
}

static void put_shapes(FILE *f, const struct context *c)
{
    (void)c;
    svg_shapes(f);
}

static void put_title(FILE *f, const struct context *c)
{
    if (c->report->n > 1)
        fprintf(f, "%d results side by side", c->report->n);
    else
        html_text(f, c->report->result[0].title);
}

static void put_compare(FILE *f, const struct context *c)
{
    report_compare(f, c->report);
}

static void put_results(FILE *f, const struct context *c)
{
    for (int32_t k = 0; k < c->report->n; k++) {
        struct context one = {.report = c->report, .result = &c->report->result[k]};
        fill_template(f, RESULT, RESULT_SLOT, &one);
    }
}

static void put_columns(FILE *f, const struct context *c)
{
    (void)c;
    report_columns(f);
}

static void put_navigation(FILE *f, const struct context *c)
{
    if (c->report->n > 1)
        fputs("<a href=\"#compare\">Side by side</a>", f);
    for (int32_t k = 0; k < c->report->n; k++)
        if (c->report->n > 1)
            fprintf(f, "<a href=\"#%s\">%s</a>", c->report->result[k].letter, c->report->result[k].letter);
        else
            fputs("<a href=\"#A-pictures\">Pictures</a><a href=\"#A-points\">Points</a><a href=\"#A-trust\">Trust</a>"
                  "<a href=\"#A-machine\">Machine</a><a href=\"#A-details\">Samples</a>",
                  f);
}

static const struct slot PAGE_SLOT[] = {
    {"style", put_style},           {"script", put_script},
    {"shapes", put_shapes},         {"title", put_title},
    {"answer", put_answer},         {"compare", put_compare},
    {"results", put_results},       {"columns", put_columns},
    {"navigation", put_navigation}, {NULL, NULL},
};

void report_write(FILE *f, const struct report *r)
{
    struct context c = {.report = r};
    fill_template(f, PAGE, PAGE_SLOT, &c);
}
