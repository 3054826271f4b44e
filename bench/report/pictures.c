// The pictures of one slice of a result, each made as a table of series and drawn by chart.c or bars.c: those that plots/
// draws, and where the time went.
#include "bench/report/bars.h"
#include "bench/report/chart.h"
#include "bench/report/report.h"

#include "bench/explain.h"
#include "bench/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 24, MOST_LINES = 6, MOST_BARS = 40 };

struct picture {
    const struct report_result *r;
    int32_t slice;
    int64_t batch[MOST_VALUES], length[MOST_VALUES],
        any_batch[MOST_VALUES]; // any_batch: of all phases, the others of decode
    int32_t n_batches, n_lengths, n_any;
};

static const struct report_point *point_at(const struct picture *p, int32_t i)
{
    const struct report_point *point = &p->r->point[i];
    return point->shown && point->slice == p->slice ? point : NULL;
}

static int32_t n_points(const struct picture *p)
{
    return p->r->recorded.n_rows;
}

// Of more series than this every second one and the last are drawn: more lines than that hide each other.
static bool among_few(int32_t i, int32_t n)
{
    return n <= MOST_LINES || i % 2 == 0 || i == n - 1;
}

// What a decode picture has on its axes, and how its lines are told apart.
struct decode_picture {
    const char *title, *x, *y, *line_name;
    enum report_axis along; // x; a line per value of the other
    bool rate;              // tokens per second instead of milliseconds
};

static double value_of(const struct decode_picture *d, const struct report_point *p, double ms)
{
    return d->rate ? 1000 * p->tokens / ms : ms;
}

static struct chart_point measured_point(const struct decode_picture *d, const struct report_point *p)
{
    double low = value_of(d, p, d->rate ? p->high : p->low), high = value_of(d, p, d->rate ? p->low : p->high);
    return (struct chart_point){.x = (double)(d->along == REPORT_BATCH ? p->batch : p->length),
                                .y = value_of(d, p, p->ms),
                                .low = low,
                                .high = high,
                                .hollow = p->hollow,
                                .tip = p->tip};
}

static struct chart_point model_point(const struct decode_picture *d, const struct report_point *p, double ms)
{
    return (struct chart_point){
        .x = (double)(d->along == REPORT_BATCH ? p->batch : p->length), .y = value_of(d, p, ms), .low = NAN, .high = NAN};
}

static bool any_measured(const struct picture *p)
{
    for (int32_t i = 0; i < n_points(p); i++)
        if (point_at(p, i) && isfinite(point_at(p, i)->ms))
            return true;
    return false;
}

static void add_decode_line(struct chart *c, const struct picture *p, const struct decode_picture *d, int64_t value,
                            int colour, int shape)
{
    char name[64];
    bool measured = any_measured(p);
    snprintf(name, sizeof name, "%s %lld", d->line_name, (long long)value);
    chart_add_line(c, measured ? "" : name, CHART_ROOF, colour, shape);
    chart_add_line(c, "", CHART_BOUND, colour, shape);
    chart_add_line(c, name, CHART_MEASURED, colour, shape);
    for (int32_t i = 0; c->n >= 3 && i < n_points(p); i++) {
        const struct report_point *point = point_at(p, i);
        if (!point || !point->main || !report_is(point, "decode") ||
            (d->along == REPORT_BATCH ? point->length : point->batch) != value)
            continue;
        chart_add_point(&c->line[c->n - 3], model_point(d, point, point->roof));
        chart_add_point(&c->line[c->n - 2], model_point(d, point, point->bound));
        chart_add_point(&c->line[c->n - 1], measured_point(d, point));
    }
}

static const char *main_kv(const struct picture *p)
{
    for (int32_t i = 0; i < n_points(p); i++)
        if (point_at(p, i) && point_at(p, i)->main && report_is(point_at(p, i), "decode"))
            return point_at(p, i)->kv;
    return "";
}

static void decode_chart(FILE *f, const struct picture *p, const struct decode_picture *d)
{
    bool by_batch = d->along == REPORT_BATCH;
    const int64_t *x = by_batch ? p->batch : p->length, *series = by_batch ? p->length : p->batch;
    int32_t n_x = by_batch ? p->n_batches : p->n_lengths, n = by_batch ? p->n_lengths : p->n_batches;
    struct chart c = {.title = d->title,
                      .x = {.label = d->x, .log = true, .value = x, .n_values = n_x},
                      .y = {.label = d->y, .log = true}};
    if (n_x < 2)
        return;
    snprintf(c.note, sizeof c.note, "%s%s%s", *main_kv(p) ? "KV " : "", main_kv(p),
             n > MOST_LINES ? "; every second line is drawn" : "");
    for (int32_t i = 0; i < n; i++)
        if (among_few(i, n))
            add_decode_line(&c, p, d, series[i], chart_ramp(i, n), i);
    chart_draw(f, &c);
    chart_free(&c);
}

static const struct decode_picture DECODE[] = {
    {"Decode step by batch", "sequences per step", "ms per step", "ctx", REPORT_BATCH, false},
    {"Decode throughput by batch", "sequences per step", "tokens/s, all sequences", "ctx", REPORT_BATCH, true},
    {"Decode step by context", "tokens attended", "ms per step", "batch", REPORT_LENGTH, false},
};

// KV types of decode, a line each, at the batch that has most points of them; the largest of several.

static int32_t kinds_of_kv(const struct picture *p, const char *phase, const char *kv[MOST_LINES])
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_points(p); i++) {
        const struct report_point *point = point_at(p, i);
        int32_t k = 0;
        if (!point || !report_is(point, phase))
            continue;
        while (k < n && strcmp(kv[k], point->kv))
            k++;
        if (k == n && n < MOST_LINES)
            kv[n++] = point->kv;
    }
    return n;
}

static int64_t fullest_batch(const struct picture *p)
{
    int64_t best = 0;
    int32_t most = 0;
    for (int32_t b = 0; b < p->n_batches; b++) {
        int32_t n = 0;
        for (int32_t i = 0; i < n_points(p); i++)
            n += point_at(p, i) && report_is(point_at(p, i), "decode") && point_at(p, i)->batch == p->batch[b];
        if (n >= most)
            most = n, best = p->batch[b];
    }
    return best;
}

static void kv_chart(FILE *f, const struct picture *p)
{
    const char *kv[MOST_LINES];
    int32_t n = kinds_of_kv(p, "decode", kv);
    int64_t batch = fullest_batch(p);
    const struct decode_picture d = {.along = REPORT_LENGTH};
    struct chart c = {.title = "Decode step by KV type",
                      .x = {.label = "tokens attended", .log = true, .value = p->length, .n_values = p->n_lengths},
                      .y = {.label = "ms per step", .log = true}};
    snprintf(c.note, sizeof c.note, "batch %lld", (long long)batch);
    for (int32_t k = 0; k < n && n > 1 && p->n_lengths > 1; k++) {
        char name[80];
        snprintf(name, sizeof name, "KV %.60s", kv[k]);
        chart_add_line(&c, any_measured(p) ? "" : name, CHART_ROOF, chart_ramp(k, n), k);
        chart_add_line(&c, name, CHART_MEASURED, chart_ramp(k, n), k);
        for (int32_t i = 0; c.n >= 2 && i < n_points(p); i++) {
            const struct report_point *point = point_at(p, i);
            if (!point || !report_is(point, "decode") || point->batch != batch || strcmp(point->kv, kv[k]))
                continue;
            chart_add_point(&c.line[c.n - 2], model_point(&d, point, point->roof));
            chart_add_point(&c.line[c.n - 1], measured_point(&d, point));
        }
    }
    chart_draw(f, &c);
    chart_free(&c);
}

// Scatter pictures: colour is the batch, shape the phase.

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
            for (int32_t i = 0; i < n_points(p); i++) {
                const struct report_point *point = point_at(p, i);
                if (point && phase_shape(point) == shape && place_of(p->any_batch, p->n_any, point->batch) == b)
                    chart_add_point(l, place(point));
            }
        }
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

static void parity_chart(FILE *f, const struct picture *p)
{
    bool fitted = false;
    for (int32_t i = 0; i < n_points(p); i++)
        fitted |= point_at(p, i) && isfinite(point_at(p, i)->pred) && isfinite(point_at(p, i)->ms);
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

static void add_ceilings(struct chart *c, const struct picture *p)
{
    const struct result *first = p->r->slice[p->slice].first;
    const struct hardware *hw = report_hardware(p->r, first);
    double left = INFINITY, right = 0;
    enum dtype type = compute_of(first);
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->line[i].n; k++) {
            left = fmin(left, c->line[i].point[k].x);
            right = fmax(right, c->line[i].point[k].x);
        }
    for (enum roof_kind kind = 0; hw && kind < ROOF_KINDS; kind++)
        if (hardware_bandwidth(hw, kind) > 0)
            right = fmax(right, 4 * hardware_peak(hw, kind, type) / hardware_bandwidth(hw, kind));
    for (int kind = ROOF_KINDS - 1; hw && left < right && kind >= 0; kind--)
        add_ceiling(c, hw, (enum roof_kind)kind, type, left / 2.5, right * 1.3);
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

static void roofline_chart(FILE *f, const struct picture *p)
{
    struct chart c = {.title = "Roofline",
                      .x = {.label = "FLOP per byte of weights and KV", .log = true},
                      .y = {.label = "GFLOP/s", .log = true},
                      .legend = true};
    snprintf(c.note, sizeof c.note, "%s",
             any_measured(p) ? "what was computed, below what the machine attains"
                             : "nothing measured: points stand at their roof");
    add_scatter(&c, p, roofline_point);
    add_ceilings(&c, p);
    use_tera(&c);
    chart_draw(f, &c);
    chart_free(&c);
}

// Bars.

static void label_bar(struct bar *bar, const struct report_point *p)
{
    char number[32];
    snprintf(bar->label, sizeof bar->label, "%.3s b%lld %s%lld", p->stored->result.phase, (long long)p->batch,
             report_is(p, "decode") ? "c" : "p", (long long)p->length);
    snprintf(bar->end, sizeof bar->end, "%s ms", html_number(p->ms, number));
    bar->hollow = p->hollow;
}

static char *make_tip(const char *what, const struct report_point *p, double ns, double whole_ns, double roof_ns)
{
    char *tip = malloc(480), number[32], roof[32];
    if (!tip)
        return NULL;
    int n =
        snprintf(tip, 480, "%.60s\n%s ms, %.1f %% of the median", what, html_number(ns / 1e6, number), 100 * ns / whole_ns);
    if (isfinite(roof_ns))
        n += snprintf(tip + n, 480 - (size_t)n, "\nroof %s ms", html_number(roof_ns / 1e6, roof));
    snprintf(tip + n, 480 - (size_t)n, "\n%s, batch %lld, %lld tokens", p->stored->result.phase, (long long)p->batch,
             (long long)p->length);
    return tip;
}

// Families of operations, as in the pictures of plots/. A span of several belongs to the first family that one of them is
// of.
static const struct family {
    const char *name, *ops[4];
} FAMILY[BARS_PARTS] = {
    {"attention", {"attn"}},
    {"Q, K, V", {"attn_q", "attn_k", "attn_v", "attn_qkv"}},
    {"output proj.", {"attn_o"}},
    {"FFN gate, up", {"ffn_gate", "ffn_up", "ffn_gate_up"}},
    {"FFN down", {"ffn_down"}},
    {"vocabulary", {"output"}},
    {"RoPE, KV write", {"rope", "kv_write"}},
    {"norms", {NULL}},
    {"others", {NULL}},
};

static bool has_op(const char *ops, const char *op)
{
    size_t n = strlen(op);
    for (const char *at = ops; (at = strstr(at, op)); at++)
        if ((at == ops || at[-1] == '+') && (!at[n] || at[n] == '+'))
            return true;
    return false;
}

static int family_of(const char *ops)
{
    for (int k = 0; k < BARS_PARTS; k++)
        for (int i = 0; i < 4 && FAMILY[k].ops[i]; i++)
            if (has_op(ops, FAMILY[k].ops[i]))
                return k;
    return strstr(ops, "norm") ? 7 : 8;
}

// A family's traced time and roof, in percent of the untraced median.
static void fill_ops(struct bar *bar, const struct report_point *p)
{
    double ns[BARS_PARTS] = {0}, roof[BARS_PARTS] = {0}, whole = p->stored->result.median_ns;
    for (int32_t i = 0; i < p->stored->n_ops; i++) {
        const struct op_result *op = &p->stored->op[i];
        int k = family_of(op->op);
        ns[k] += isfinite(op->op_ns) ? op->op_ns : 0;
        roof[k] += op->op_roof_ns;
    }
    for (int k = 0; k < BARS_PARTS; k++)
        if (ns[k] > 0) {
            bar->part[k] = 100 * ns[k] / whole;
            bar->tip[k] = make_tip(FAMILY[k].name, p, ns[k], whole, roof[k]);
        }
    bar->low = 100 * p->low / p->ms;
    bar->high = 100 * p->high / p->ms;
}

// The roof, and the signed parts between it and the untraced median.
static const char *const PART[PART_COUNT] = {
    [PART_MACHINE] = "ceilings of that moment",
    [PART_ACTIVATIONS] = "activations",
    [PART_ATTENTION] = "attention",
    [PART_PRODUCTS] = "matrix products",
    [PART_OTHERS] = "other kernels",
    [PART_GAPS] = "gaps",
    [PART_OBSERVER] = "observer",
};

static bool has_attribution(const struct report_point *p)
{
    struct explanation x = {0};
    return isfinite(p->ms) && explain_add(&x, p->stored);
}

static void fill_attribution(struct bar *bar, const struct report_point *p)
{
    struct explanation x = {0};
    if (!explain_add(&x, p->stored))
        return;
    bar->part[0] = 100 * x.roof_ns / x.time_ns;
    bar->tip[0] = make_tip("roof", p, x.roof_ns, x.time_ns, NAN);
    for (int k = 0; k < PART_COUNT; k++) {
        bar->part[k + 1] = 100 * x.part_ns[k] / x.time_ns;
        bar->tip[k + 1] = make_tip(PART[k], p, x.part_ns[k], x.time_ns, NAN);
    }
}

static bool has_ops(const struct report_point *p)
{
    return isfinite(p->ms) && p->stored->n_ops > 0;
}

// A bar per point of the main KV type; of very many, those of the smallest and the largest batch.
static void fill_bars(struct bars *b, const struct picture *p, bool (*has)(const struct report_point *),
                      void (*fill)(struct bar *, const struct report_point *))
{
    const char *phase = NULL;
    bool many = n_points(p) > MOST_BARS;
    for (int32_t i = 0; i < n_points(p); i++) {
        const struct report_point *point = point_at(p, i);
        bool inner =
            many && point && p->n_any > 2 && point->batch != p->any_batch[0] && point->batch != p->any_batch[p->n_any - 1];
        struct bar *bar = point && point->main && !inner && has(point) ? bars_add(b) : NULL;
        if (!bar)
            continue;
        label_bar(bar, point);
        fill(bar, point);
        bar->gap = phase && strcmp(phase, point->stored->result.phase);
        phase = point->stored->result.phase;
    }
}

static void ops_bars(FILE *f, const struct picture *p)
{
    struct bars b = {.title = "Time by operation",
                     .note =
                         "a traced sample in percent of the untraced median; the bracket about 100 is the interval of that",
                     .axis = "% of the median",
                     .colour = "f",
                     .reference = true};
    for (int k = 0; k < BARS_PARTS; k++)
        b.part_name[k] = FAMILY[k].name;
    fill_bars(&b, p, has_ops, fill_ops);
    bars_draw(f, &b);
    bars_free(&b);
}

static void attribution_bars(FILE *f, const struct picture *p)
{
    struct bars b = {.title = "From the roof to the measured time",
                     .note = "the roof, what the machine did not give at that moment, and what the engine did not reach; "
                             "signed, so that what made up for others is left of 0",
                     .axis = "% of the median",
                     .colour = "d",
                     .reference = true};
    b.part_name[0] = "roof";
    for (int k = 0; k < PART_COUNT; k++)
        b.part_name[k + 1] = PART[k];
    fill_bars(&b, p, has_attribution, fill_attribution);
    bars_draw(f, &b);
    bars_free(&b);
}

void report_pictures(FILE *f, const struct report_result *r, int32_t slice)
{
    struct picture p = {.r = r, .slice = slice};
    p.n_batches = report_values(r, slice, "decode", REPORT_BATCH, p.batch, MOST_VALUES);
    p.n_lengths = report_values(r, slice, "decode", REPORT_LENGTH, p.length, MOST_VALUES);
    p.n_any = report_values(r, slice, NULL, REPORT_BATCH, p.any_batch, MOST_VALUES);
    fputs("<div class=\"pictures\">\n", f);
    roofline_chart(f, &p);
    parity_chart(f, &p);
    for (size_t i = 0; i < sizeof DECODE / sizeof *DECODE; i++)
        decode_chart(f, &p, &DECODE[i]);
    kv_chart(f, &p);
    ops_bars(f, &p);
    attribution_bars(f, &p);
    fputs("</div>\n", f);
}
