// Pictures of points in a plane, each made as a table of series and drawn by chart.c: the roofline, what each operation
// attains below the memory level that serves it, and parity.
#include "bench/report/chart.h"
#include "bench/report/picture.h"

#include "bench/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Colour is the batch, shape the phase.

static int phase_shape(const struct report_point *p)
{
    return report_is(p, "decode") ? 0 : report_is(p, "prefill") ? 1 : 2;
}

static int32_t place_of(const int64_t *list, int32_t n, int64_t v)
{
    int32_t i = 0;
    while (i < n && list[i] != v)
        i++;
    return i;
}

typedef struct chart_point (*place_point)(const struct report_point *p);

static void add_scatter(struct chart *c, const struct picture *p, place_point place)
{
    static const char *const PHASE[] = {"decode", "prefill", "generate"};
    for (int shape = 0; shape < 3; shape++)
        for (int32_t b = 0; b < p->n_any; b++) {
            char name[64];
            snprintf(name, sizeof name, "%s, batch %lld", PHASE[shape], (long long)p->any_batch[b]);
            struct chart_line *l = chart_add_line(c, name, CHART_MARKS, chart_ramp(b, p->n_any), shape);
            for (int32_t i = 0; i < picture_n(p); i++) {
                const struct report_point *point = picture_point(p, i);
                if (point && phase_shape(point) == shape && place_of(p->any_batch, p->n_any, point->batch) == b)
                    chart_add_point(l, place(point));
            }
        }
}

// Arithmetic done over its intensity. What was not measured stands at its roof.
static struct chart_point roofline_point(const struct report_point *p)
{
    const struct result *r = &p->stored->result;
    bool measured = isfinite(r->median_ns);
    return (struct chart_point){.x = r->intensity,
                                .y = r->flops / (measured ? r->median_ns : r->roof_ns),
                                .low = measured ? r->flops / r->median_high_ns : NAN,
                                .high = measured ? r->flops / r->median_low_ns : NAN,
                                .hollow = p->hollow,
                                .tip = p->tip};
}

// Memory levels by number: caches from the innermost, then main memory.

static const char *level_name(const struct hardware *hw, int32_t i)
{
    return i < hw->n_levels ? hw->level[i].name : "memory";
}

static double level_rate(const struct hardware *hw, int32_t i)
{
    return i < hw->n_levels ? hw->level[i].bandwidth.value : hardware_bandwidth(hw, ROOF_ATTAINABLE);
}

// Main memory is the darkest, whatever lies before it.
static int level_colour(const struct hardware *hw, int32_t i)
{
    return chart_ramp(hw->n_levels - i, hw->n_levels + 1);
}

// A slope of bandwidth up to the flat of its arithmetic.
static void add_ceiling(struct chart *c, const struct hardware *hw, enum roof_kind kind, enum dtype type, double left,
                        double right)
{
    double GBps = hardware_bandwidth(hw, kind) / 1e9, GFLOPps = hardware_peak(hw, kind, type) / 1e9;
    char name[96], bytes[32], flops[32];
    if (!(GBps > 0) || !(GFLOPps > 0))
        return;
    const double x[3] = {left, GFLOPps / GBps, right};
    snprintf(name, sizeof name, "%s: %s, %s in %s", roof_kind_name(kind), html_rate(GBps * 1e9, "B/s", bytes),
             html_rate(GFLOPps * 1e9, "FLOP/s", flops), dtype_name(hardware_compute_type(hw, type)));
    struct chart_line *l = chart_add_line(c, name, CHART_CEILING, (int)kind, 0);
    for (int k = 0; k < 3; k++)
        chart_add_point(l, (struct chart_point){.x = x[k], .y = fmin(GBps * x[k], GFLOPps), .low = NAN, .high = NAN});
}

static enum dtype compute_of(const struct result *r)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (!strcmp(dtype_name((enum dtype)t), r->compute))
            return (enum dtype)t;
    return DTYPE_BF16;
}

// A thin slope for each cache that the machine was found to have, and for main memory where they have colours of their own.
static void add_levels(struct chart *c, const struct hardware *hw, enum dtype type, double left, bool coloured)
{
    double GFLOPps = hardware_peak(hw, ROOF_ATTAINABLE, type) / 1e9;
    for (int32_t i = 0; GFLOPps > 0 && i < hw->n_levels + coloured; i++) {
        double GBps = level_rate(hw, i) / 1e9;
        char name[96], bytes[32];
        snprintf(name, sizeof name, "%s: %s", level_name(hw, i), html_rate(GBps * 1e9, "B/s", bytes));
        struct chart_line *l = chart_add_line(c, name, CHART_LEVEL, coloured ? level_colour(hw, i) : CHART_PLAIN, 0);
        chart_add_point(l, (struct chart_point){.x = left, .y = GBps * left, .low = NAN, .high = NAN});
        if (GBps * left < GFLOPps)
            chart_add_point(l, (struct chart_point){.x = GFLOPps / GBps, .y = GFLOPps, .low = NAN, .high = NAN});
    }
}

static void hold_x(const struct chart *c, double *left, double *right)
{
    *left = INFINITY, *right = 0;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++) {
            *left = fmin(*left, c->line[i].point[k].x);
            *right = fmax(*right, c->line[i].point[k].x);
        }
}

static void add_ceilings(struct chart *c, const struct picture *p)
{
    const struct result *first = p->r->slice[p->slice].first;
    const struct hardware *hw = report_hardware(p->r, first);
    double left, right;
    enum dtype type = compute_of(first);
    hold_x(c, &left, &right);
    for (enum roof_kind kind = 0; hw && kind < ROOF_KINDS; kind++)
        if (hardware_bandwidth(hw, kind) > 0)
            right = fmax(right, 4 * hardware_peak(hw, kind, type) / hardware_bandwidth(hw, kind));
    for (int kind = ROOF_KINDS - 1; hw && left < right && kind >= 0; kind--)
        add_ceiling(c, hw, (enum roof_kind)kind, type, left / 2.5, right * 1.3);
    if (hw && left < right)
        add_levels(c, hw, type, left / 1.3, false);
}

// Numbers of a GPU are read in TFLOP/s.
static void use_tera(struct chart *c)
{
    double most = 0;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++)
            most = fmax(most, c->line[i].point[k].y);
    if (most < 2e4)
        return;
    c->y.label = "TFLOP/s";
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++) {
            struct chart_point *p = &c->line[i].point[k];
            p->y /= 1000, p->low /= 1000, p->high /= 1000;
        }
}

void picture_roofline(FILE *f, const struct picture *p)
{
    struct chart c = {.title = "Roofline",
                      .x = {.label = "FLOP per byte of weights and KV", .log = true},
                      .y = {.label = "GFLOP/s", .log = true},
                      .legend = true};
    snprintf(c.note, sizeof c.note, "%s",
             picture_measured(p) ? "what was computed, below what the machine attains"
                                 : "nothing measured: points stand at their roof");
    add_scatter(&c, p, roofline_point);
    add_ceilings(&c, p);
    use_tera(&c);
    chart_draw(f, &c);
    chart_free(&c);
}

// What the operations of some points attain, each under the memory level that serves most of its bytes: all that a step
// streams lies between two uses of any of them.

enum { MOST_DOTS = 96, FAMILIES = 9 };

struct dots { // of one picture
    const struct hardware *hw;
    struct dot {
        int level, shape;
        struct chart_point at;
        char tip[240];
    } dot[MOST_DOTS];
    int32_t n;
};

static double step_bytes(const struct result *r)
{
    return (r->weight_bytes + r->kv_read_bytes + r->kv_write_bytes) / (double)(r->n_gen > 1 ? r->n_gen : 1);
}

// The level that serves most of a stream, and its share.
static int main_level(const struct hardware *hw, double bytes, double *share)
{
    int most = hw->n_levels;
    uint64_t distance = bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0;
    for (int32_t i = 0; i < hw->n_levels; i++)
        most = hardware_served(hw, i, distance) > hardware_served(hw, most, distance) ? i : most;
    *share = distance ? (double)hardware_served(hw, most, distance) / (double)distance : 1;
    return most;
}

static void add_dot(struct dots *d, const struct report_point *p, int family, double ns, double bytes, double flops)
{
    char GBps[32], GFLOPps[32];
    double share;
    if (d->n == MOST_DOTS || !(ns > 0) || !(bytes > 0) || !(flops > 0))
        return;
    struct dot *dot = &d->dot[d->n++];
    dot->level = main_level(d->hw, step_bytes(&p->stored->result), &share);
    dot->shape = family ? 1 : 0; // attention is the first
    dot->at = (struct chart_point){
        .x = flops / bytes, .y = flops / ns, .low = NAN, .high = NAN, .hollow = p->hollow, .tip = dot->tip};
    snprintf(dot->tip, sizeof dot->tip, "%s\n%s, %s\n%.0f %% of its bytes from %s\n%.20s, batch %lld, %lld tokens, KV %.20s",
             picture_family_name(family), html_rate(1e9 * bytes / ns, "B/s", GBps),
             html_rate(1e9 * flops / ns, "FLOP/s", GFLOPps), 100 * share, level_name(d->hw, dot->level),
             p->stored->result.phase, (long long)p->batch, (long long)p->length, p->kv);
}

static void add_dots(struct dots *d, const struct report_point *p)
{
    double ns[FAMILIES] = {0}, bytes[FAMILIES] = {0}, flops[FAMILIES] = {0};
    for (int32_t i = 0; i < p->stored->n_ops; i++) {
        const struct op_result *op = &p->stored->op[i];
        int k = picture_family(op->op);
        ns[k] += op->op_ns;
        bytes[k] += op->weight_bytes + op->kv_read_bytes + op->kv_write_bytes;
        flops[k] += op->flops;
    }
    for (int k = 0; k < FAMILIES; k++)
        add_dot(d, p, k, ns[k], bytes[k], flops[k]);
}

static void add_dot_lines(struct chart *c, const struct dots *d)
{
    static const char *const SHAPE[] = {"attention", "matrix products"};
    for (int32_t level = d->hw->n_levels; level >= 0; level--)
        for (int shape = 0; shape < 2; shape++) {
            char name[96];
            snprintf(name, sizeof name, "%s, from %s", SHAPE[shape], level_name(d->hw, level));
            struct chart_line *l = chart_add_line(c, name, CHART_MARKS, level_colour(d->hw, level), shape);
            for (int32_t i = 0; i < d->n; i++)
                if (d->dot[i].level == level && d->dot[i].shape == shape)
                    chart_add_point(l, d->dot[i].at);
        }
}

static void draw_dots(FILE *f, const struct picture *p, const struct dots *d)
{
    enum dtype type = compute_of(p->r->slice[p->slice].first);
    double left, right, peak = hardware_peak(d->hw, ROOF_ATTAINABLE, type);
    char name[96], flops[32];
    struct chart c = {.title = "Operations below the memory hierarchy",
                      .note = "traced operations of the smallest and largest points; each in the colour of the level that "
                              "serves most of what its step streams",
                      .x = {.label = "FLOP per byte of weights and KV", .log = true},
                      .y = {.label = "GFLOP/s", .log = true},
                      .legend = true};
    add_dot_lines(&c, d);
    hold_x(&c, &left, &right);
    c.x.least = left / 3; // room for the names of levels
    snprintf(name, sizeof name, "arithmetic: %s in %s", html_rate(peak, "FLOP/s", flops),
             dtype_name(hardware_compute_type(d->hw, type)));
    struct chart_line *flat = chart_add_line(&c, name, CHART_CEILING, ROOF_ATTAINABLE, 0);
    double turn = peak / level_rate(d->hw, 0), end = fmax(right, 4 * peak / level_rate(d->hw, d->hw->n_levels)) * 1.3;
    chart_add_point(flat, (struct chart_point){.x = fmax(turn, left / 1.3), .y = peak / 1e9, .low = NAN, .high = NAN});
    chart_add_point(flat, (struct chart_point){.x = end, .y = peak / 1e9, .low = NAN, .high = NAN});
    add_levels(&c, d->hw, type, left / 1.3, true);
    chart_draw(f, &c);
    chart_free(&c);
}

void picture_levels(FILE *f, const struct picture *p)
{
    struct dots *d = calloc(1, sizeof *d);
    if (!d)
        return;
    d->hw = report_hardware(p->r, p->r->slice[p->slice].first);
    bool known = d->hw && d->hw->n_levels && hardware_bandwidth(d->hw, ROOF_ATTAINABLE) > 0;
    for (int32_t i = 0; known && i < picture_n(p); i++)
        if (picture_point(p, i) && picture_corner(p, picture_point(p, i)))
            add_dots(d, picture_point(p, i));
    if (d->n)
        draw_dots(f, p, d);
    free(d);
}

static struct chart_point parity_roof(const struct report_point *p)
{
    return (struct chart_point){
        .x = p->roof, .y = p->ms, .low = p->low, .high = p->high, .hollow = p->hollow, .tip = p->tip};
}

static struct chart_point parity_pred(const struct report_point *p)
{
    struct chart_point at = parity_roof(p);
    at.x = p->pred;
    return at;
}

void picture_parity(FILE *f, const struct picture *p)
{
    bool fitted = false;
    for (int32_t i = 0; i < picture_n(p); i++)
        fitted |= picture_point(p, i) && isfinite(picture_point(p, i)->pred) && isfinite(picture_point(p, i)->ms);
    struct chart c = {.title = fitted ? "Measured against predicted" : "Measured against the roof",
                      .x = {.label = fitted ? "fitted prediction, ms" : "roof, ms", .log = true},
                      .y = {.label = "measured, ms", .log = true},
                      .diagonal = true,
                      .legend = true};
    snprintf(c.note, sizeof c.note, "%s",
             fitted ? "a point on the line is predicted exactly"
                    : "a point above the line is slower than the machine could be");
    add_scatter(&c, p, fitted ? parity_pred : parity_roof);
    chart_draw(f, &c);
    chart_free(&c);
}
