// Decode's time as a line in its context, by batch and KV type: what a position costs, and how fast KV is really read.
#include "bench/report/report.h"

#include "bench/html.h"
#include "bench/slope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_cell(FILE *f, double v, double low, double high)
{
    char a[32], b[32], c[32];
    fprintf(f, "<td class=\"r\">%s", html_number(v, a));
    if (isfinite(v) && isfinite(low) && isfinite(high))
        fprintf(f, " <span class=\"dim\">%s to %s</span>", html_number(low, b), html_number(high, c));
    fputs("</td>", f);
}

static void put_slope(FILE *f, const struct slope *s)
{
    bool differ = strcmp(s->type_k, s->type_v);
    fprintf(f, "<tr><td class=\"r\">%lld</td><td>", (long long)s->batch);
    html_format(f, "%.20s%s%.20s", s->type_k, differ ? ":" : "", differ ? s->type_v : "");
    fputs("</td>", f);
    put_cell(f, s->a_ns / 1e6, s->a_low_ns / 1e6, s->a_high_ns / 1e6);
    put_cell(f, s->weights_ns / 1e6, NAN, NAN);
    put_cell(f, s->b_ns / 1e3, s->b_low_ns / 1e3, s->b_high_ns / 1e3);
    put_cell(f, s->kv_GBps, s->kv_low_GBps, s->kv_high_GBps);
    put_cell(f, s->read_GBps, NAN, NAN);
    put_cell(f, s->kv_seen_bytes_per_token / 1024, NAN, NAN);
    put_cell(f, s->kv_bytes_per_token / 1024, NAN, NAN);
    put_cell(f, 100 * s->worst, NAN, NAN);
    fputs("</tr>\n", f);
}

static const char HEADINGS[] =
    "<thead><tr><th scope=\"col\" class=\"r\">batch</th><th scope=\"col\">KV</th>"
    "<th scope=\"col\" class=\"r\">a, ms</th><th scope=\"col\" class=\"r\">weights’ time, ms</th>"
    "<th scope=\"col\" class=\"r\">b, µs per position</th><th scope=\"col\" class=\"r\">KV read at, GB/s</th>"
    "<th scope=\"col\" class=\"r\">ceiling, GB/s</th><th scope=\"col\" class=\"r\">KiB per token seen</th>"
    "<th scope=\"col\" class=\"r\">KiB true</th><th scope=\"col\" class=\"r\">off the line, %</th></tr></thead>\n<tbody>";

static void put_remarks(FILE *f, const struct slope *slope, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (!*slope[i].reason)
            continue;
        fputs("<p class=\"note\">", f);
        html_format(f, "batch %lld, KV %s: %s", (long long)slope[i].batch, slope[i].type_k, slope[i].reason);
        fputs("</p>\n", f);
    }
}

void report_slopes(FILE *f, const struct report_result *r)
{
    struct slope *slope = NULL;
    int32_t n = 0, fitted = 0;
    if (!slopes_fit(r->recorded.row, r->recorded.n_rows, r->hw, r->n_hw, &slope, &n, NULL))
        n = 0;
    for (int32_t i = 0; i < n; i++)
        fitted += isfinite(slope[i].b_ns);
    if (fitted) {
        fputs("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"decode by context\"><table class=\"sort "
              "slopes\">",
              f);
        fputs(HEADINGS, f);
        for (int32_t i = 0; i < n; i++)
            if (isfinite(slope[i].b_ns))
                put_slope(f, &slope[i]);
        fputs("</tbody></table></div>\n", f);
    } else {
        fprintf(f, "<p class=\"none\">No batch was measured at %d contexts or more.</p>\n", SLOPE_MIN_CONTEXTS);
    }
    put_remarks(f, slope, fitted ? n : 0);
    free(slope);
}
