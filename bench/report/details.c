// Each point on demand: its samples one by one, the seven times, its operations, and every column of its row.
#include "bench/report/report.h"

#include "bench/explain.h"
#include "bench/html.h"
#include "bench/svg.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { WIDTH = 480, LEFT = 60, RIGHT = 470 };

// Samples: a row per block, so that what changes between moments shows.

static int block_of(const struct result *r, int32_t i)
{
    return i < r->samples_block.n ? (int)r->samples_block.value[i] : 0;
}

static int blocks_of(const struct result *r)
{
    int n = 1;
    for (int32_t i = 0; i < r->samples_ns.n; i++)
        n = block_of(r, i) + 1 > n && block_of(r, i) < 16 ? block_of(r, i) + 1 : n;
    return n;
}

static struct svg_scale sample_scale(const struct result *r)
{
    struct svg_scale s = {.low = INFINITY, .high = -INFINITY, .from = LEFT, .to = RIGHT};
    for (int32_t i = 0; i < r->samples_ns.n; i++)
        svg_scale_hold(&s, r->samples_ns.value[i] / 1e6);
    svg_scale_hold(&s, r->median_low_ns / 1e6);
    svg_scale_hold(&s, r->median_high_ns / 1e6);
    double room = s.high > s.low ? 0.06 * (s.high - s.low) : 0.05 * s.high + 1e-9;
    s.low -= room;
    s.high += room;
    return s;
}

static void draw_sample_axis(FILE *f, const struct svg_scale *s, double bottom)
{
    double tick[SVG_TICKS];
    int32_t n = svg_ticks(s, tick);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.6g", tick[i]);
        svg_line(f, "g", svg_place(s, tick[i]), 4, svg_place(s, tick[i]), bottom);
        svg_label(f, "tx", svg_place(s, tick[i]), bottom + 15, text);
    }
    svg_label(f, "bl", LEFT - 8, bottom + 15, "ms");
}

static void draw_median(FILE *f, const struct svg_scale *s, const struct result *r, double bottom)
{
    double low = svg_place(s, r->median_low_ns / 1e6), high = svg_place(s, r->median_high_ns / 1e6);
    if (isfinite(low) && isfinite(high)) {
        svg_rect(f, "band b25", low, 4, high - low, bottom - 4);
        fputs("/>", f);
    }
    if (isfinite(r->median_ns))
        svg_line(f, "ref", svg_place(s, r->median_ns / 1e6), 4, svg_place(s, r->median_ns / 1e6), bottom);
}

static void draw_samples(FILE *f, const struct result *r)
{
    struct svg_scale s = sample_scale(r);
    int blocks = blocks_of(r);
    double bottom = 8 + 16.0 * blocks;
    fprintf(f, "<svg class=\"chart strip\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"samples by block\">", WIDTH,
            bottom + 20);
    draw_median(f, &s, r, bottom);
    draw_sample_axis(f, &s, bottom);
    for (int b = 0; b < blocks; b++) {
        char name[24];
        snprintf(name, sizeof name, "block %d", b + 1);
        svg_label(f, "bl", LEFT - 8, 16 + 16 * b + 4, name);
    }
    for (int32_t i = 0; i < r->samples_ns.n; i++) {
        int b = block_of(r, i);
        svg_mark(f, "p c1", 0, svg_place(&s, r->samples_ns.value[i] / 1e6), 16 + 16 * (b < blocks ? b : 0), NULL);
    }
    fputs("</svg>\n<p class=\"raw\">", f);
    for (int32_t i = 0; i < r->samples_ns.n; i++)
        fprintf(f, "%s%.6g", !i ? "" : block_of(r, i) == block_of(r, i - 1) ? " " : " | ", r->samples_ns.value[i] / 1e6);
    fputs(" ms</p>\n", f);
}

// T0 to T6 with what lies between them.

static const char TIMES_HEAD[] =
    "<table class=\"times\"><thead><tr><th scope=\"col\">time</th><th></th><th scope=\"col\">ms</th>"
    "<th scope=\"col\">to the next, ms</th><th scope=\"col\">%</th></tr></thead><tbody>";

static void put_time(FILE *f, const struct explain_time *t, double median_ns)
{
    char ms[32], between[32];
    fprintf(f, "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>", t->name, t->what, html_number(t->ns / 1e6, ms),
            html_number(t->difference_ns / 1e6, between));
    if (isfinite(t->difference_ns) && median_ns > 0)
        fprintf(f, "%+.1f", 100 * t->difference_ns / median_ns);
    fputs("</td></tr>", f);
}

static void put_times(FILE *f, const struct result *r)
{
    struct explain_time time[EXPLAIN_TIMES];
    if (!isfinite(r->busy_ns))
        return;
    explain_times(r, time);
    fputs(TIMES_HEAD, f);
    for (int k = 0; k < EXPLAIN_TIMES; k++)
        if (isfinite(time[k].ns) || isfinite(time[k].difference_ns))
            put_time(f, &time[k], r->median_ns);
    fputs("</tbody></table>\n", f);
}

static void put_op(FILE *f, const struct op_result *op)
{
    char ms[32], low[32], high[32], range[80] = "", roof[32], share[32] = "", GBps[32];
    double bytes = op->weight_bytes + op->kv_read_bytes + op->kv_write_bytes;
    if (isfinite(op->op_roof_ns) && op->op_ns > 0)
        snprintf(share, sizeof share, "%.0f", 100 * op->op_roof_ns / op->op_ns);
    fputs("<tr><td>", f);
    html_text(f, op->op);
    fputs("</td><td>", f);
    html_text(f, op->kernel);
    fputs("</td><td>", f);
    if (op->count != RESULT_UNKNOWN)
        fprintf(f, "%lld", (long long)op->count);
    if (isfinite(op->op_low_ns) && isfinite(op->op_high_ns))
        snprintf(range, sizeof range, "%s to %s", html_number(op->op_low_ns / 1e6, low),
                 html_number(op->op_high_ns / 1e6, high));
    fprintf(f, "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>", html_number(op->op_ns / 1e6, ms), range,
            html_number(op->op_roof_ns / 1e6, roof), share, html_number(bytes / op->op_ns, GBps));
}

static const char OPS_HEAD[] =
    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"operations\"><table class=\"sort ops\"><thead><tr>"
    "<th scope=\"col\">operation</th><th scope=\"col\">kernel</th><th scope=\"col\">spans</th><th scope=\"col\">ms</th>"
    "<th scope=\"col\">fastest to slowest</th><th scope=\"col\">roof ms</th><th scope=\"col\">% of roof</th>"
    "<th scope=\"col\">GB/s</th></tr></thead><tbody>";

static void put_ops(FILE *f, const struct stored *s)
{
    if (!s->n_ops)
        return;
    fputs(OPS_HEAD, f);
    for (int32_t i = 0; i < s->n_ops; i++)
        put_op(f, &s->op[i]);
    fputs("</tbody></table></div>\n", f);
}

// A value as the CSV file has it; lists stand above, unknown ones are left out.
static void put_value(FILE *f, const struct column *column, const struct result *r)
{
    const void *at = (const char *)r + column->offset;
    char text[sizeof(result_text)] = "";
    if (column->type == COLUMN_text)
        snprintf(text, sizeof text, "%s", (const char *)at);
    else if (column->type == COLUMN_count && *(const result_count *)at != RESULT_UNKNOWN)
        snprintf(text, sizeof text, "%lld", (long long)*(const result_count *)at);
    else if (column->type == COLUMN_real && isfinite(*(const double *)at))
        snprintf(text, sizeof text, "%.9g", *(const double *)at);
    if (!*text)
        return;
    fprintf(f, "%s: ", column->name);
    html_text(f, text);
    fprintf(f, "%s%s\n", *column->unit ? " " : "", column->unit);
}

static void put_row(FILE *f, const struct result *r)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    fputs("<details class=\"row\"><summary>every column</summary><pre>", f);
    for (int32_t i = 0; i < n; i++)
        put_value(f, &column[i], r);
    fputs("</pre></details>\n", f);
}

static void put_summary(FILE *f, const struct report_result *r, const struct report_point *p)
{
    const struct result *row = &p->stored->result;
    char number[32];
    fprintf(f, "<details class=\"point\" id=\"%s%d\"><summary><span class=\"code\">", r->letter, p->id);
    html_text(f, row->key);
    fputs("</span> ", f);
    if (isfinite(row->median_ns))
        html_format(f, "%s ms ", html_number(row->median_ns / 1e6, number));
    fputs("<span class=\"dim\">", f);
    html_text(f, row->verdict);
    fputs("</span></summary>\n", f);
    if (*row->reason) {
        fputs("<p class=\"note\">", f);
        html_text(f, row->reason);
        fputs("</p>\n", f);
    }
}

static void put_sentence(FILE *f, const struct stored *s)
{
    char sentence[EXPLAIN_TEXT];
    if (!isfinite(s->result.median_ns))
        return;
    explain_sentence(s, sentence);
    fputs("<p class=\"how\">", f);
    html_text(f, sentence);
    fputs("</p>\n", f);
}

void report_details(FILE *f, const struct report_result *r)
{
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct report_point *p = &r->point[i];
        put_summary(f, r, p);
        if (p->stored->result.samples_ns.n)
            draw_samples(f, &p->stored->result);
        put_sentence(f, p->stored);
        put_times(f, &p->stored->result);
        put_ops(f, p->stored);
        put_row(f, &p->stored->result);
        fputs("</details>\n", f);
    }
}
