// The pictures of one slice of a result, each made as a table of series and drawn by chart.c or bars.c: those that plots/
// draws, and where the time went.
#include "bench/report/bars.h"
#include "bench/report/chart.h"
#include "bench/report/picture.h"

#include "bench/explain.h"
#include "bench/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 6, MOST_BARS = 40 };

const struct report_point *picture_point(const struct picture *p, int32_t i)
{
    const struct report_point *point = &p->r->point[i];
    return point->shown && point->slice == p->slice ? point : NULL;
}

int32_t picture_n(const struct picture *p)
{
    return p->r->recorded.n_rows;
}

static bool is_end(const int64_t *list, int32_t n, int64_t v)
{
    return n && (v == list[0] || v == list[n - 1]);
}

bool picture_corner(const struct picture *p, const struct report_point *point)
{
    int64_t length[PICTURE_VALUES];
    const char *phase = point->stored->result.phase;
    int32_t n = report_values(p->r, p->slice, phase, REPORT_LENGTH, length, PICTURE_VALUES);
    return point->main && !report_is(point, "generate") && is_end(length, n, point->length) &&
           is_end(p->any_batch, p->n_any, point->batch);
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

bool picture_measured(const struct picture *p)
{
    for (int32_t i = 0; i < picture_n(p); i++)
        if (picture_point(p, i) && isfinite(picture_point(p, i)->ms))
            return true;
    return false;
}

static void add_decode_line(struct chart *c, const struct picture *p, const struct decode_picture *d, int64_t value,
                            int colour, int shape)
{
    char name[64];
    bool measured = picture_measured(p);
    snprintf(name, sizeof name, "%s %lld", d->line_name, (long long)value);
    chart_add_line(c, measured ? "" : name, CHART_ROOF, colour, shape);
    chart_add_line(c, "", CHART_BOUND, colour, shape);
    chart_add_line(c, name, CHART_MEASURED, colour, shape);
    for (int32_t i = 0; c->n >= 3 && i < picture_n(p); i++) {
        const struct report_point *point = picture_point(p, i);
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
    for (int32_t i = 0; i < picture_n(p); i++)
        if (picture_point(p, i) && picture_point(p, i)->main && report_is(picture_point(p, i), "decode"))
            return picture_point(p, i)->kv;
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
    for (int32_t i = 0; i < picture_n(p); i++) {
        const struct report_point *point = picture_point(p, i);
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
        for (int32_t i = 0; i < picture_n(p); i++)
            n +=
                picture_point(p, i) && report_is(picture_point(p, i), "decode") && picture_point(p, i)->batch == p->batch[b];
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
        chart_add_line(&c, picture_measured(p) ? "" : name, CHART_ROOF, chart_ramp(k, n), k);
        chart_add_line(&c, name, CHART_MEASURED, chart_ramp(k, n), k);
        for (int32_t i = 0; c.n >= 2 && i < picture_n(p); i++) {
            const struct report_point *point = picture_point(p, i);
            if (!point || !report_is(point, "decode") || point->batch != batch || strcmp(point->kv, kv[k]))
                continue;
            chart_add_point(&c.line[c.n - 2], model_point(&d, point, point->roof));
            chart_add_point(&c.line[c.n - 1], measured_point(&d, point));
        }
    }
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

int picture_family(const char *ops)
{
    for (int k = 0; k < BARS_PARTS; k++)
        for (int i = 0; i < 4 && FAMILY[k].ops[i]; i++)
            if (has_op(ops, FAMILY[k].ops[i]))
                return k;
    return strstr(ops, "norm") ? 7 : 8;
}

const char *picture_family_name(int family)
{
    return FAMILY[family].name;
}

// A family's traced time and roof, in percent of the untraced median.
static void fill_ops(struct bar *bar, const struct report_point *p)
{
    double ns[BARS_PARTS] = {0}, roof[BARS_PARTS] = {0}, whole = p->stored->result.median_ns;
    for (int32_t i = 0; i < p->stored->n_ops; i++) {
        const struct op_result *op = &p->stored->op[i];
        int k = picture_family(op->op);
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
    bool many = picture_n(p) > MOST_BARS;
    for (int32_t i = 0; i < picture_n(p); i++) {
        const struct report_point *point = picture_point(p, i);
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
    p.n_batches = report_values(r, slice, "decode", REPORT_BATCH, p.batch, PICTURE_VALUES);
    p.n_lengths = report_values(r, slice, "decode", REPORT_LENGTH, p.length, PICTURE_VALUES);
    p.n_any = report_values(r, slice, NULL, REPORT_BATCH, p.any_batch, PICTURE_VALUES);
    fputs("<div class=\"pictures\">\n", f);
    picture_roofline(f, &p);
    picture_levels(f, &p);
    picture_parity(f, &p);
    for (size_t i = 0; i < sizeof DECODE / sizeof *DECODE; i++)
        decode_chart(f, &p, &DECODE[i]);
    kv_chart(f, &p);
    ops_bars(f, &p);
    attribution_bars(f, &p);
    fputs("</div>\n", f);
}
