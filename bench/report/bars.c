#include "bench/report/bars.h"

#include "bench/html.h"
#include "bench/svg.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 480, LEFT = 118, RIGHT = 424, ROW = 19, TOP = 6, BASE = 42 };

struct bar *bars_add(struct bars *b)
{
    struct bar *grown = realloc(b->bar, ((size_t)b->n + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    b->bar = grown;
    b->bar[b->n] = (struct bar){.low = NAN, .high = NAN};
    return &b->bar[b->n++];
}

void bars_free(struct bars *b)
{
    for (int32_t i = 0; i < b->n; i++)
        for (int k = 0; k < BARS_PARTS; k++)
            free(b->bar[i].tip[k]);
    free(b->bar);
    *b = (struct bars){0};
}

// What no row says is not drawn.
static double part_of(const struct bar *bar, int part)
{
    return isfinite(bar->part[part]) ? bar->part[part] : 0;
}

static bool used(const struct bars *b, int part)
{
    for (int32_t i = 0; i < b->n; i++)
        if (fabs(part_of(&b->bar[i], part)) >= 0.05)
            return true;
    return false;
}

static struct svg_scale scale_of(const struct bars *b)
{
    struct svg_scale s = svg_scale_empty(false);
    svg_scale_hold(&s, 100);
    for (int32_t i = 0; i < b->n; i++) {
        double above = 0, below = 0;
        for (int k = 0; k < BARS_PARTS; k++)
            *(part_of(&b->bar[i], k) > 0 ? &above : &below) += part_of(&b->bar[i], k);
        svg_scale_hold(&s, above);
        svg_scale_hold(&s, below);
        svg_scale_hold(&s, fmin(b->bar[i].high, 130)); // an interval beyond is cut off
    }
    svg_scale_finish(&s, 0);
    s.from = LEFT;
    s.to = RIGHT;
    return s;
}

static void draw_axis(FILE *f, const struct bars *b, const struct svg_scale *s, double bottom)
{
    double tick[SVG_TICKS];
    int32_t n = svg_ticks(s, tick);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        double x = svg_place(s, tick[i]);
        snprintf(text, sizeof text, "%.10g", tick[i]);
        svg_line(f, "g", x, TOP, x, bottom);
        svg_label(f, "tx", x, bottom + 16, text);
    }
    svg_label(f, "lx", (LEFT + RIGHT) / 2.0, bottom + 34, b->axis);
}

static void draw_part(FILE *f, const struct bars *b, int part, double from, double to, double y, const char *tip)
{
    char classes[16];
    snprintf(classes, sizeof classes, "s %s%d", b->colour, part);
    svg_rect(f, classes, from < to ? from : to, y, fabs(to - from), ROW - 5);
    fputs("><title>", f);
    html_text(f, tip ? tip : "");
    fputs("</title></rect>", f);
}

static void draw_interval(FILE *f, const struct svg_scale *s, const struct bar *bar, double middle)
{
    if (!isfinite(bar->low) || !isfinite(bar->high))
        return;
    double a = svg_place(s, fmax(bar->low, s->low)), b = svg_place(s, fmin(bar->high, s->high));
    fprintf(f, "<path class=\"bi\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6\"/>", a, middle, b, a, middle - 3, b,
            middle - 3);
}

static void draw_bar(FILE *f, const struct bars *b, const struct bar *bar, const struct svg_scale *s, double y)
{
    double above = 0, below = 0, middle = y + (ROW - 5) / 2.0;
    svg_label(f, bar->hollow ? "bl it" : "bl", LEFT - 8, middle + 4, bar->label);
    for (int k = 0; k < BARS_PARTS; k++) {
        double part = part_of(bar, k), *sum = part > 0 ? &above : &below, from = svg_place(s, *sum);
        if (part == 0)
            continue;
        *sum += part;
        draw_part(f, b, k, from, svg_place(s, *sum), y, bar->tip[k]);
    }
    draw_interval(f, s, bar, middle);
    svg_label(f, bar->hollow ? "be it" : "be", RIGHT + 8, middle + 4, bar->end);
}

static void draw_key(FILE *f, const struct bars *b)
{
    fputs("<ul class=\"key\">", f);
    for (int k = 0; k < BARS_PARTS && b->part_name[k]; k++)
        if (used(b, k)) {
            fprintf(f,
                    "<li><svg viewBox=\"0 0 12 12\" class=\"sq\" aria-hidden=\"true\"><path class=\"s %s%d\" d=\"M0 "
                    "0h12v12h-12z\"/></svg>",
                    b->colour, k);
            html_text(f, b->part_name[k]);
            fputs("</li>", f);
        }
    fputs("</ul>", f);
}

void bars_draw(FILE *f, const struct bars *b)
{
    if (!b->n)
        return;
    struct svg_scale s = scale_of(b);
    int32_t gaps = 0;
    for (int32_t i = 0; i < b->n; i++)
        gaps += b->bar[i].gap;
    double bottom = TOP + ROW * (double)b->n + ROW / 2.0 * gaps, y = TOP + 2;
    fputs("<figure><figcaption><h4>", f);
    html_text(f, b->title);
    fputs("</h4><p>", f);
    html_text(f, b->note);
    fputs("</p>", f);
    draw_key(f, b);
    fprintf(f,
            "</figcaption><svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"group\" tabindex=\"0\" "
            "aria-roledescription=\"chart\" aria-label=\"",
            WIDTH, bottom + BASE);
    html_format(f, "%s; arrow keys go from part to part", b->title);
    fputs("\">", f);
    draw_axis(f, b, &s, bottom);
    for (int32_t i = 0; i < b->n; i++, y += ROW) {
        y += b->bar[i].gap ? ROW / 2.0 : 0;
        draw_bar(f, b, &b->bar[i], &s, y);
    }
    if (b->reference)
        svg_line(f, "ref", svg_place(&s, 100), TOP, svg_place(&s, 100), bottom);
    if (s.low < 0)
        svg_line(f, "ax", svg_place(&s, 0), TOP, svg_place(&s, 0), bottom);
    fputs("</svg></figure>\n", f);
}
