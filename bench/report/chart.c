#include "bench/report/chart.h"

#include "bench/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 480, LEFT = 52, TOP = 20, BASE = 46, MOST_NAMES = 32 };

int chart_ramp(int32_t i, int32_t n)
{
    return n <= 1 ? 0 : (int)lround(5.0 * i / (n - 1));
}

struct chart_line *chart_add_line(struct chart *c, const char *name, enum chart_style style, int colour, int shape)
{
    struct chart_line *grown = realloc(c->line, ((size_t)c->n + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    c->line = grown;
    struct chart_line *l = &c->line[c->n++];
    *l = (struct chart_line){.style = style, .colour = colour, .shape = shape};
    snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

void chart_add_point(struct chart_line *l, struct chart_point p)
{
    if (!l || !isfinite(p.x) || !isfinite(p.y) || p.x <= 0 || p.y <= 0)
        return;
    struct chart_point *grown = realloc(l->point, ((size_t)l->n + 1) * sizeof *grown);
    if (!grown)
        return;
    l->point = grown;
    int32_t at = l->n++;
    for (; at > 0 && l->point[at - 1].x > p.x; at--)
        l->point[at] = l->point[at - 1];
    l->point[at] = p;
}

void chart_free(struct chart *c)
{
    for (int32_t i = 0; i < c->n; i++)
        free(c->line[i].point);
    free(c->line);
    *c = (struct chart){0};
}

static bool has_marks(const struct chart_line *l)
{
    return l->style <= CHART_MARKS;
}

static bool any_style(const struct chart *c, enum chart_style style)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->line[i].style == style && c->line[i].n)
            return true;
    return false;
}

static bool any_hollow(const struct chart *c)
{
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++)
            if (c->line[i].point[k].hollow)
                return true;
    return false;
}

static bool any_interval(const struct chart *c)
{
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++)
            if (isfinite(c->line[i].point[k].low) && isfinite(c->line[i].point[k].high))
                return true;
    return false;
}

// Scales.

static void hold_points(struct chart *c)
{
    c->x.scale = svg_scale_empty(c->x.log);
    c->y.scale = svg_scale_empty(c->y.log);
    svg_scale_hold(&c->x.scale, c->x.least > 0 ? c->x.least : NAN);
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++) {
            const struct chart_point *p = &c->line[i].point[k];
            svg_scale_hold(&c->x.scale, p->x);
            svg_scale_hold(&c->y.scale, p->y);
            svg_scale_hold(&c->y.scale, p->low);
            svg_scale_hold(&c->y.scale, p->high);
        }
    if (c->diagonal) {
        svg_scale_hold(&c->x.scale, c->y.scale.low);
        svg_scale_hold(&c->x.scale, c->y.scale.high);
        svg_scale_hold(&c->y.scale, c->x.scale.low);
        svg_scale_hold(&c->y.scale, c->x.scale.high);
    }
}

static void set_scales(struct chart *c, double right, double height)
{
    hold_points(c);
    svg_scale_finish(&c->x.scale, 1.5);
    svg_scale_finish(&c->y.scale, 4);
    c->x.scale.from = LEFT;
    c->x.scale.to = right;
    c->y.scale.from = height - BASE;
    c->y.scale.to = TOP;
}

// Axes.

static int32_t axis_ticks(const struct chart_axis *a, double tick[SVG_TICKS])
{
    int32_t n = 0;
    if (!a->value)
        return svg_ticks(&a->scale, tick);
    for (; n < a->n_values && n < SVG_TICKS; n++)
        tick[n] = (double)a->value[n];
    return n;
}

static void tick_text(double v, char out[32])
{
    snprintf(out, 32, fabs(v) < 1e6 ? "%.10g" : "%.3g", v);
}

static void draw_x_axis(FILE *f, const struct chart *c, double height)
{
    double tick[SVG_TICKS], last = -1e9;
    int32_t n = axis_ticks(&c->x, tick);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        double x = svg_place(&c->x.scale, tick[i]);
        tick_text(tick[i], text);
        svg_line(f, "g", x, TOP, x, height - BASE);
        if (x - last < 9 * (double)strlen(text)) // labels must not run into each other
            continue;
        svg_label(f, "tx", x, height - BASE + 17, text);
        last = x;
    }
    svg_line(f, "ax", LEFT, height - BASE, c->x.scale.to, height - BASE);
    svg_label(f, "lx", (LEFT + c->x.scale.to) / 2, height - 8, c->x.label);
}

static void draw_y_axis(FILE *f, const struct chart *c)
{
    double tick[SVG_TICKS], last = 1e9;
    int32_t n = axis_ticks(&c->y, tick);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        double y = svg_place(&c->y.scale, tick[i]);
        tick_text(tick[i], text);
        svg_line(f, "g", LEFT, y, c->x.scale.to, y);
        if (last - y < 14)
            continue;
        svg_label(f, "ty", LEFT - 7, y + 4, text);
        last = y;
    }
}

// Lines and marks.

static void draw_path(FILE *f, const struct chart *c, const struct chart_line *l)
{
    static const char *const CLASS[] = {"ln", NULL, "ln roof", "ln bound", "ceil", "ln level"};
    if (!CLASS[l->style] || l->n < 2)
        return;
    fprintf(f, "<path class=\"%s", CLASS[l->style]);
    if (l->colour != CHART_PLAIN)
        fprintf(f, " %c%d", l->style == CHART_CEILING ? 'k' : 'c', l->colour);
    fputs("\" d=\"", f);
    for (int32_t k = 0; k < l->n; k++)
        fprintf(f, "%c%.1f %.1f", k ? 'L' : 'M', svg_place(&c->x.scale, l->point[k].x),
                svg_place(&c->y.scale, l->point[k].y));
    fputs("\"/>", f);
}

static void draw_interval(FILE *f, const struct chart *c, const struct chart_line *l, const struct chart_point *p)
{
    if (!isfinite(p->low) || !isfinite(p->high) || (c->y.log && p->low <= 0))
        return;
    double x = svg_place(&c->x.scale, p->x), a = svg_place(&c->y.scale, p->low), b = svg_place(&c->y.scale, p->high);
    if (fabs(a - b) > 1.5)
        fprintf(f, "<path class=\"iv c%d\" d=\"M%.1f %.1fV%.1fM%.1f %.1fh6M%.1f %.1fh6\"/>", l->colour, x, a, b, x - 3, a,
                x - 3, b);
}

// Series that share an x stand a little apart, so that their intervals do not hide each other.
static void draw_marks(FILE *f, const struct chart *c, const struct chart_line *l)
{
    for (int32_t k = 0; k < l->n; k++)
        draw_interval(f, c, l, &l->point[k]);
    for (int32_t k = 0; k < l->n; k++) {
        const struct chart_point *p = &l->point[k];
        char classes[32];
        snprintf(classes, sizeof classes, "p c%d%s", l->colour, p->hollow ? " n" : "");
        svg_mark(f, classes, l->shape, svg_place(&c->x.scale, p->x), svg_place(&c->y.scale, p->y), p->tip);
    }
}

static void draw_band(FILE *f, const struct chart *c, const char *classes, double part)
{
    const struct svg_scale *x = &c->x.scale, *y = &c->y.scale;
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>", classes, svg_place(x, x->low),
            svg_place(y, x->low * (1 - part)), svg_place(x, x->high), svg_place(y, x->high * (1 - part)),
            svg_place(x, x->high), svg_place(y, x->high * (1 + part)), svg_place(x, x->low),
            svg_place(y, x->low * (1 + part)));
}

// Clipped to the plot: bands leave it in its corners.
static void draw_diagonal(FILE *f, const struct chart *c)
{
    double width = c->x.scale.to - LEFT, height = c->y.scale.from - TOP;
    fprintf(f, "<svg x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%d %d %.0f %.0f\">", LEFT, TOP, width,
            height, LEFT, TOP, width, height);
    draw_band(f, c, "band b25", 0.25);
    draw_band(f, c, "band b10", 0.10);
    svg_line(f, "ceil", c->x.scale.from, c->y.scale.from, c->x.scale.to, c->y.scale.to);
    fputs("</svg>", f);
}

// Names.

struct name_at {
    const struct chart_line *line;
    double y;
};

static int compare_names(const void *a, const void *b)
{
    const struct name_at *x = a, *y = b;
    return x->y != y->y ? (x->y < y->y ? -1 : 1) : (x->line < y->line ? -1 : 1);
}

// Moves names apart that stand closer than `step`, none below the plot.
static void part_names(const struct chart *c, struct name_at *at, int32_t n, double step)
{
    qsort(at, (size_t)n, sizeof *at, compare_names);
    for (int32_t i = 1; i < n; i++)
        at[i].y = at[i].y < at[i - 1].y + step ? at[i - 1].y + step : at[i].y;
    double low = c->y.scale.from - 2;
    for (int32_t i = n - 1; i >= 0 && at[i].y > low; low = at[i].y - step, i--)
        at[i].y = low;
}

// Names at the ends of their lines.
static void draw_names(FILE *f, const struct chart *c)
{
    struct name_at at[MOST_NAMES];
    int32_t n = 0;
    for (int32_t i = 0; i < c->n && n < MOST_NAMES; i++) {
        const struct chart_line *l = &c->line[i];
        if (*l->name && l->n && l->style != CHART_CEILING)
            at[n++] = (struct name_at){l, svg_place(&c->y.scale, l->point[l->n - 1].y)};
    }
    part_names(c, at, n, 15);
    for (int32_t i = 0; i < n; i++) {
        char classes[32];
        snprintf(classes, sizeof classes, "nm c%d", at[i].line->colour);
        svg_label(f, classes, c->x.scale.to + 9, at[i].y + 4, at[i].line->name);
    }
}

// Short names of memory levels left of where their slopes begin; the key has the rates.
static void draw_level_names(FILE *f, const struct chart *c)
{
    struct name_at at[MOST_NAMES];
    int32_t n = 0;
    for (int32_t i = 0; i < c->n && n < MOST_NAMES; i++)
        if (c->line[i].style == CHART_LEVEL && c->line[i].n > 1)
            at[n++] = (struct name_at){&c->line[i], svg_place(&c->y.scale, c->line[i].point[0].y) + 4};
    part_names(c, at, n, 12);
    for (int32_t i = 0; i < n; i++) {
        const struct chart_line *l = at[i].line;
        char classes[32], name[24];
        snprintf(classes, sizeof classes, l->colour == CHART_PLAIN ? "nm lv" : "nm lv c%d", l->colour);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(l->name, ":"), l->name);
        svg_label(f, classes, svg_place(&c->x.scale, l->point[0].x) - 4, at[i].y, name);
    }
}

static void put_key(FILE *f, const char *content, const char *text)
{
    fprintf(f, "<li><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\">%s</svg>", content);
    html_text(f, text);
    fputs("</li>", f);
}

static void put_mark_key(FILE *f, const struct chart_line *l)
{
    char content[96];
    snprintf(content, sizeof content, "<use href=\"#m%d\" class=\"p c%d\" x=\"11\" y=\"6\"/>", l->shape % SVG_SHAPES,
             l->colour);
    put_key(f, content, l->name);
}

static void put_ceiling_key(FILE *f, const struct chart_line *l)
{
    char content[64], colour[16] = "";
    if (l->colour != CHART_PLAIN)
        snprintf(colour, sizeof colour, "%c%d", l->style == CHART_LEVEL ? 'c' : 'k', l->colour);
    snprintf(content, sizeof content, "<path class=\"%s %s\" d=\"M0 6H22\"/>", l->style == CHART_LEVEL ? "ln level" : "ceil",
             colour);
    put_key(f, content, l->name);
}

static void draw_key(FILE *f, const struct chart *c)
{
    fputs("<ul class=\"key\">", f);
    for (int32_t i = 0; c->legend && i < c->n; i++)
        if (has_marks(&c->line[i]) && c->line[i].n)
            put_mark_key(f, &c->line[i]);
    for (int32_t i = 0; i < c->n; i++)
        if (c->line[i].style >= CHART_CEILING && c->line[i].n)
            put_ceiling_key(f, &c->line[i]);
    if (any_interval(c))
        put_key(f, "<path class=\"iv\" d=\"M11 1V11M8 1h6M8 11h6\"/>", "95 % interval");
    if (any_hollow(c))
        put_key(f, "<use href=\"#m0\" class=\"p n\" x=\"11\" y=\"6\"/>", "hollow: not ok");
    if (any_style(c, CHART_ROOF))
        put_key(f, "<path class=\"ln roof\" d=\"M0 6H22\"/>", "roof");
    if (any_style(c, CHART_BOUND))
        put_key(f, "<path class=\"ln bound\" d=\"M0 6H22\"/>", "bound");
    if (c->diagonal) {
        put_key(f, "<path class=\"ceil\" d=\"M0 6H22\"/>", "equal");
        put_key(f, "<path class=\"band b10\" d=\"M2 1H20V11H2z\"/>", "within 10 %");
        put_key(f, "<path class=\"band b25\" d=\"M2 1H20V11H2z\"/>", "within 25 %");
    }
    fputs("</ul>", f);
}

static void begin_figure(FILE *f, const struct chart *c)
{
    fputs("<figure><figcaption><h4>", f);
    html_text(f, c->title);
    fputs("</h4>", f);
    if (*c->note) {
        fputs("<p>", f);
        html_text(f, c->note);
        fputs("</p>", f);
    }
    draw_key(f, c);
    fputs("</figcaption>", f);
}

void chart_draw(FILE *f, struct chart *c)
{
    bool names = false, any = false;
    for (int32_t i = 0; i < c->n; i++) {
        names |= !c->legend && *c->line[i].name && c->line[i].style != CHART_CEILING;
        any |= c->line[i].n > 0;
    }
    if (!any)
        return;
    double right = WIDTH - (names ? 88 : 12), height = 336;
    set_scales(c, right, height);
    begin_figure(f, c);
    fprintf(f,
            "<svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"group\" tabindex=\"0\" aria-roledescription=\"chart\" "
            "aria-label=\"",
            WIDTH, height);
    html_format(f, "%s; arrow keys go from point to point", c->title);
    fputs("\">", f);
    if (c->diagonal)
        draw_diagonal(f, c);
    draw_x_axis(f, c, height);
    draw_y_axis(f, c);
    svg_label(f, "ly", 2, 11, c->y.label);
    for (int32_t i = 0; i < c->n; i++)
        draw_path(f, c, &c->line[i]);
    for (int32_t i = 0; i < c->n; i++)
        if (has_marks(&c->line[i]))
            draw_marks(f, c, &c->line[i]);
    if (names)
        draw_names(f, c);
    draw_level_names(f, c);
    fputs("</svg></figure>\n", f);
}
