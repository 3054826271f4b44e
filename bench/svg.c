#include "bench/svg.h"

#include "bench/html.h"

#include <math.h>

double svg_place(const struct svg_scale *s, double v)
{
    double part = s->log ? (log(v) - log(s->low)) / (log(s->high) - log(s->low)) : (v - s->low) / (s->high - s->low);
    return s->from + (s->to - s->from) * part;
}

struct svg_scale svg_scale_empty(bool log)
{
    return (struct svg_scale){.log = log, .low = INFINITY, .high = -INFINITY};
}

void svg_scale_hold(struct svg_scale *s, double v)
{
    if (!isfinite(v) || (s->log && v <= 0))
        return;
    s->low = v < s->low ? v : s->low;
    s->high = v > s->high ? v : s->high;
}

void svg_scale_finish(struct svg_scale *s, double least)
{
    if (s->low > s->high)
        s->low = s->log ? 1 : 0, s->high = 10;
    if (s->log) {
        double span = s->high / s->low;
        double room = pow(span, 0.05) * (span < least ? sqrt(least / span) : 1);
        s->low = fmax(s->low / room, 1e-300);
        s->high = fmin(s->high * room, 1e300);
        return;
    }
    s->low = s->low > 0 ? 0 : s->low;
    s->high = s->high < 0 ? 0 : s->high;
    s->high = s->high == s->low ? s->low + 1 : s->high;
}

static int32_t log_ticks(const struct svg_scale *s, double tick[SVG_TICKS])
{
    static const double FEW[] = {1}, SOME[] = {1, 2, 5}, MORE[] = {1, 2, 3, 5, 7}, MANY[] = {1, 1.5, 2, 3, 4, 5, 6, 8};
    double span = s->high / s->low;
    const double *digit = span > 2e3 ? FEW : span > 25 ? SOME : span > 8 ? MORE : MANY;
    int n_digits = span > 2e3 ? 1 : span > 25 ? 3 : span > 8 ? 5 : 8;
    double decades = log10(s->high) - log10(s->low);
    int step = decades > 10 ? (int)(decades / 8) : 1;
    int32_t n = 0;
    for (int d = (int)floor(log10(s->low)); d <= (int)ceil(log10(s->high)); d += step)
        for (int i = 0; i < n_digits && n < SVG_TICKS; i++) {
            double v = digit[i] * pow(10, d);
            if (v >= s->low && v <= s->high)
                tick[n++] = v;
        }
    return n;
}

static int32_t even_ticks(const struct svg_scale *s, double tick[SVG_TICKS])
{
    double rough = (s->high - s->low) / 5, decade = pow(10, floor(log10(rough)));
    double step = decade * (rough / decade < 1.5 ? 1 : rough / decade < 3.5 ? 2 : rough / decade < 7.5 ? 5 : 10);
    int32_t n = 0;
    for (double k = ceil(s->low / step - 1e-9); k * step <= s->high + 1e-9 * step && n < SVG_TICKS; k++)
        tick[n++] = k == 0 ? 0 : k * step; // no -0
    return n;
}

int32_t svg_ticks(const struct svg_scale *s, double tick[SVG_TICKS])
{
    return s->log ? log_ticks(s, tick) : even_ticks(s, tick);
}

void svg_line(FILE *f, const char *classes, double x1, double y1, double x2, double y2)
{
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>", classes, x1, y1, x2, y2);
}

void svg_rect(FILE *f, const char *classes, double x, double y, double width, double height)
{
    fprintf(f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", classes, x, y, width, height);
}

void svg_label(FILE *f, const char *classes, double x, double y, const char *text)
{
    fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", classes, x, y);
    html_text(f, text);
    fputs("</text>", f);
}

// Circle, square, triangle, diamond, triangle on its head, plus: of about the same area.
void svg_shapes(FILE *f)
{
    static const char *const SHAPE[SVG_SHAPES] = {
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "M-3.5-3.5h7v7h-7z",
        "M0-4.8L4.6 3.4H-4.6z",
        "M0-5L5 0L0 5L-5 0z",
        "M0 4.8L4.6-3.4H-4.6z",
        "M-1.7-4.6h3.4v2.9h2.9v3.4h-2.9v2.9h-3.4v-2.9h-2.9v-3.4h2.9z",
    };
    fputs("<svg class=\"defs\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>", f);
    for (int i = 0; i < SVG_SHAPES; i++)
        fprintf(f, "<path id=\"m%d\" d=\"%s\"/>", i, SHAPE[i]);
    fputs("</defs></svg>\n", f);
}

void svg_mark(FILE *f, const char *classes, int shape, double x, double y, const char *tip)
{
    fprintf(f, "<use href=\"#m%d\" class=\"%s\" x=\"%.1f\" y=\"%.1f\"", shape % SVG_SHAPES, classes, x, y);
    if (!tip) {
        fputs("/>", f);
        return;
    }
    fputs("><title>", f);
    html_text(f, tip);
    fputs("</title></use>", f);
}
