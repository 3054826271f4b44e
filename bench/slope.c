#include "bench/slope.h"

#include "bench/rows.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "roofline/roofline.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// KV bytes further from a line than this share are no line: windowed layers.
#define STRAIGHT 0.01
// Time further from it is worth a remark.
#define BENT 0.10

static const struct column SLOPE[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct slope, field)},
    SLOPE_COLUMNS(X)
#undef X
};

const struct column *slope_columns(int32_t *n)
{
    *n = (int32_t)(sizeof SLOPE / sizeof *SLOPE);
    return SLOPE;
}

// The line.

struct weighted {
    double value, weight;
};

static int by_value(const void *x, const void *y)
{
    const struct weighted *a = x, *b = y;
    return (a->value > b->value) - (a->value < b->value);
}

// Where half of the weight lies on either side; between two values where the half falls exactly there.
static double weighted_median(struct weighted *w, int32_t n)
{
    double half = 0, sum = 0;
    qsort(w, (size_t)n, sizeof *w, by_value);
    for (int32_t i = 0; i < n; i++)
        half += w[i].weight / 2;
    for (int32_t i = 0; i < n; i++) {
        sum += w[i].weight;
        if (sum > half * (1 + 1e-12))
            return w[i].value;
        if (sum >= half * (1 - 1e-12))
            return i + 1 < n ? (w[i].value + w[i + 1].value) / 2 : w[i].value;
    }
    return NAN;
}

// Theil-Sen: the median of the slopes of all pairs, then of the intercepts. A time has an error in proportion to itself, so
// the slope of a pair has one of about sqrt(y_i^2 + y_j^2) / |x_i - x_j|, and an intercept one of y_i: weights are their
// inverses (Sievers 1978 weights pairs for the same reason).
bool slope_line(const double *x, const double *y, int32_t n, double *a, double *b)
{
    struct weighted *w = malloc(((size_t)n * (size_t)n + 1) * sizeof *w);
    int32_t pairs = 0;
    for (int32_t i = 0; w && i < n; i++)
        for (int32_t k = 0; k < i; k++)
            if (x[i] != x[k])
                w[pairs++] = (struct weighted){.value = (y[i] - y[k]) / (x[i] - x[k]),
                                               .weight = fabs(x[i] - x[k]) / hypot(y[i], y[k])};
    if (!pairs) {
        free(w);
        return false;
    }
    *b = weighted_median(w, pairs);
    for (int32_t i = 0; i < n; i++)
        w[i] = (struct weighted){.value = y[i] - *b * x[i], .weight = 1 / fabs(y[i])};
    *a = weighted_median(w, n);
    free(w);
    return isfinite(*a) && isfinite(*b);
}

// Upper 97.5 % point of Student's t; beyond ten degrees the first terms of its expansion around the normal's
// (Abramowitz and Stegun 26.7.5).
static double student(int32_t degrees)
{
    static const double T[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    double z = 1.959964, v = degrees;
    if (degrees <= 10)
        return T[degrees - 1];
    return z + (pow(z, 3) + z) / (4 * v) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * v * v);
}

double slope_half_interval(const double *x, int32_t n)
{
    return n > 1 ? student(n - 1) * stats_stddev(x, n) / sqrt(n) : NAN;
}

// Groups of points.

struct group {
    const struct result **point; // [n]
    double *x, *y;               // [n] contexts, and what is fitted against them
    int32_t n;
};

static bool is_decode_step(const struct result *r)
{
    return !strcmp(r->phase, "decode") && r->n_gen == 1 && r->cache != 0 && r->median_ns > 0 && r->context > 0 &&
           strcmp(r->verdict, "failed");
}

static bool same_group(const struct result *a, const struct result *b)
{
    return a->batch == b->batch && a->block == b->block && a->threads == b->threads && a->tp == b->tp &&
           !strcmp(a->model, b->model) && !strcmp(a->backend, b->backend) && !strcmp(a->isa, b->isa) &&
           !strcmp(a->hardware, b->hardware) && !strcmp(a->weights, b->weights) && !strcmp(a->type_k, b->type_k) &&
           !strcmp(a->type_v, b->type_v);
}

static bool is_first(const struct stored *row, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (is_decode_step(&row[k].result) && same_group(&row[k].result, &row[i].result))
            return false;
    return true;
}

static void describe(struct slope *s, const struct result *r)
{
    int32_t n;
    const struct column *column = slope_columns(&n);
    for (int32_t i = 0; i < n; i++) {
        void *at = (char *)s + column[i].offset;
        if (column[i].type == COLUMN_count)
            *(result_count *)at = RESULT_UNKNOWN;
        else if (column[i].type == COLUMN_real)
            *(result_real *)at = NAN;
    }
    memcpy(s->model, r->model, sizeof s->model);
    memcpy(s->backend, r->backend, sizeof s->backend);
    memcpy(s->isa, r->isa, sizeof s->isa);
    memcpy(s->hardware, r->hardware, sizeof s->hardware);
    memcpy(s->weights, r->weights, sizeof s->weights);
    memcpy(s->type_k, r->type_k, sizeof s->type_k);
    memcpy(s->type_v, r->type_v, sizeof s->type_v);
    s->batch = r->batch, s->block = r->block, s->threads = r->threads, s->tp = r->tp;
}

static double time_in_all(const struct result *r, int32_t block)
{
    (void)block;
    return r->median_ns;
}

static double kv_of_one(const struct result *r, int32_t block)
{
    (void)block;
    return r->kv_read_bytes / (double)r->batch;
}

// The median of the samples of one block; 0: it has none.
static double time_in_block(const struct result *r, int32_t block)
{
    double *x = malloc(((size_t)r->samples_ns.n + 1) * sizeof *x);
    int32_t n = 0;
    for (int32_t i = 0; x && i < r->samples_ns.n && i < r->samples_block.n; i++)
        if (r->samples_block.value[i] == block)
            x[n++] = r->samples_ns.value[i];
    double median = stats_median(x, n);
    free(x);
    return median;
}

static bool fit_group(const struct group *g, double (*value)(const struct result *r, int32_t block), int32_t block,
                      double *a, double *b)
{
    for (int32_t i = 0; i < g->n; i++) {
        g->x[i] = (double)g->point[i]->context;
        g->y[i] = value(g->point[i], block);
        if (!(g->y[i] > 0))
            return false;
    }
    return slope_line(g->x, g->y, g->n, a, b);
}

// The largest distance from the line of what was fitted last, as a share.
static double worst_of(const struct group *g, double a, double b)
{
    double worst = 0;
    for (int32_t i = 0; i < g->n; i++)
        worst = fmax(worst, fabs(a + b * g->x[i] - g->y[i]) / g->y[i]);
    return worst;
}

static int32_t count_contexts(const struct group *g)
{
    int32_t count = 0;
    for (int32_t i = 0; i < g->n; i++) {
        int32_t k = 0;
        while (k < i && g->point[k]->context != g->point[i]->context)
            k++;
        count += k == i;
    }
    return count;
}

// Blocks that every point has.
static int32_t count_blocks(const struct group *g)
{
    int64_t n = INT32_MAX;
    for (int32_t i = 0; i < g->n; i++)
        n = g->point[i]->n_blocks < n ? g->point[i]->n_blocks : n;
    return n > 0 ? (int32_t)n : 0;
}

enum { MAX_BLOCKS = 64 };

// Each block was measured at another moment: their fits are independent, and how far they are apart says how sure the fit
// is.
static void put_intervals(struct slope *s, const struct group *g)
{
    double a[MAX_BLOCKS], b[MAX_BLOCKS];
    int32_t n = 0, n_blocks = count_blocks(g);
    for (int32_t k = 0; k < n_blocks && k < MAX_BLOCKS; k++)
        n += fit_group(g, time_in_block, k, &a[n], &b[n]);
    double half_a = slope_half_interval(a, n), half_b = slope_half_interval(b, n);
    s->a_low_ns = s->a_ns - half_a, s->a_high_ns = s->a_ns + half_a;
    s->b_low_ns = s->b_ns - half_b, s->b_high_ns = s->b_ns + half_b;
}

// The ceiling the roofs were made of: as recorded, else as the roofs of bandwidth-limited points imply.
static double read_ceiling(const struct group *g, const struct hardware *hw, int32_t n_hw)
{
    double best = 0;
    for (int32_t i = 0; i < n_hw; i++)
        if (!strcmp(hw[i].name, g->point[0]->hardware))
            return hw[i].bandwidth[roofline_bandwidth_kind(&hw[i])].value / 1e9;
    for (int32_t i = 0; i < g->n; i++) {
        const struct result *r = g->point[i];
        if (!strcmp(r->limit, "bandwidth"))
            best = fmax(best, (r->weight_bytes + r->kv_read_bytes + r->kv_write_bytes) / r->roof_ns);
    }
    return best > 0 ? best : NAN;
}

static void put_rates(struct slope *s, const struct group *g, const struct hardware *hw, int32_t n_hw)
{
    double all = s->kv_bytes_per_token * (double)s->batch;
    s->read_GBps = read_ceiling(g, hw, n_hw);
    s->weights_ns = g->point[0]->weight_bytes / s->read_GBps;
    s->kv_GBps = s->b_ns > 0 ? all / s->b_ns : NAN;
    s->kv_low_GBps = s->b_high_ns > 0 ? all / s->b_high_ns : NAN;
    s->kv_high_GBps = s->b_low_ns > 0 ? all / s->b_low_ns : NAN;
    s->kv_seen_bytes_per_token = s->b_ns * s->read_GBps / (double)s->batch;
}

static void put_reason(struct slope *s, const char *format, double a, double b)
{
    snprintf(s->reason, sizeof s->reason, format, a, b);
}

static void fit(struct slope *s, const struct group *g, const struct hardware *hw, int32_t n_hw)
{
    double start, per_token;
    s->n_contexts = count_contexts(g);
    s->context_low = s->context_high = g->point[0]->context;
    for (int32_t i = 1; i < g->n; i++) {
        int64_t c = g->point[i]->context;
        s->context_low = c < s->context_low ? c : s->context_low;
        s->context_high = c > s->context_high ? c : s->context_high;
    }
    if (s->n_contexts < SLOPE_MIN_CONTEXTS) {
        put_reason(s, "%.0f contexts, a line needs %.0f", (double)s->n_contexts, SLOPE_MIN_CONTEXTS);
        return;
    }
    if (fit_group(g, kv_of_one, 0, &start, &per_token)) { // unknown in tables of others: then only a and b
        double away = worst_of(g, start, per_token);
        if (away > STRAIGHT) {
            put_reason(s, "the KV that is read is up to %.0f %% away from a line in the context: windowed layers",
                       100 * away, 0);
            return;
        }
        s->kv_bytes_per_token = per_token;
    }
    if (!fit_group(g, time_in_all, 0, &s->a_ns, &s->b_ns)) {
        put_reason(s, "no line fits", 0, 0);
        return;
    }
    s->worst = worst_of(g, s->a_ns, s->b_ns);
    put_intervals(s, g);
    put_rates(s, g, hw, n_hw);
    if (s->worst > BENT)
        put_reason(s, "a point is %.0f %% away from the line", 100 * s->worst, 0);
}

bool slopes_fit(const struct stored *row, int32_t n, const struct hardware *hw, int32_t n_hw, struct slope **slopes,
                int32_t *n_slopes, struct error *e)
{
    size_t size = (size_t)n + 1;
    struct group g = {malloc(size * sizeof *g.point), malloc(size * sizeof *g.x), malloc(size * sizeof *g.y), 0};
    *slopes = calloc(size, sizeof **slopes);
    *n_slopes = 0;
    bool ok = (*slopes && g.point && g.x && g.y) || error_set(e, ERROR_MEMORY, "no memory for the lines of %d points", n);
    for (int32_t i = 0; ok && i < n; i++) {
        const struct result *first = &row[i].result;
        if (!is_decode_step(first) || !is_first(row, i))
            continue;
        g.n = 0;
        for (int32_t k = i; k < n; k++)
            if (is_decode_step(&row[k].result) && same_group(first, &row[k].result))
                g.point[g.n++] = &row[k].result;
        describe(&(*slopes)[*n_slopes], first);
        fit(&(*slopes)[(*n_slopes)++], &g, hw, n_hw);
    }
    free(g.point);
    free(g.x);
    free(g.y);
    return ok;
}

static bool any_line(const struct slope *slope, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (isfinite(slope[i].b_ns))
            return true;
    return false;
}

bool slopes_record(struct store *s, struct error *e)
{
    struct slope *slope;
    int32_t n, n_columns;
    const struct column *column = slope_columns(&n_columns);
    bool ok = slopes_fit(s->row, s->n_rows, s->hw, s->n_hw, &slope, &n, e);
    cJSON_DeleteItemFromObject(s->meta, "slopes");
    cJSON *list = ok && any_line(slope, n) ? cJSON_AddArrayToObject(s->meta, "slopes") : NULL;
    for (int32_t i = 0; list && i < n; i++)
        cJSON_AddItemToArray(list, row_json(column, n_columns, &slope[i]));
    free(slope);
    return ok;
}

// As a table.

// "28.9 +- 3 %": a value in `unit` ns with half its interval.
static void interval_cell(struct table *t, double ns, double low, double high, double unit)
{
    char value[24], half[16] = "";
    if (!isfinite(ns)) {
        table_cell(t, "-");
        return;
    }
    format_ms(fabs(ns) / unit * 1e6, value);
    if (isfinite(high - low))
        snprintf(half, sizeof half, " +- %.0f %%", 50 * (high - low) / fabs(ns));
    table_cell(t, "%s%s%s", ns < 0 ? "-" : "", value, half);
}

static void ratio_cell(struct table *t, double value, int decimals, const char *unit)
{
    if (isfinite(value))
        table_cell(t, "%.*f%s", decimals, value, unit);
    else
        table_cell(t, "-");
}

static void slope_cells(struct table *t, const struct slope *s)
{
    struct result types = {0};
    char kv[64];
    memcpy(types.type_k, s->type_k, sizeof types.type_k);
    memcpy(types.type_v, s->type_v, sizeof types.type_v);
    row_kv(&types, kv);
    table_cell(t, "%s", s->model);
    table_cell(t, "%s", s->weights);
    table_cell(t, "%s", kv);
    table_cell(t, "%d", (int)s->block);
    table_cell(t, "%d", (int)s->threads);
    table_cell(t, "%d", (int)s->batch);
    table_cell(t, "%d-%d", (int)s->context_low, (int)s->context_high);
    interval_cell(t, s->a_ns, s->a_low_ns, s->a_high_ns, 1e6);
    ratio_cell(t, s->a_ns / s->weights_ns, 2, "");
    interval_cell(t, s->b_ns, s->b_low_ns, s->b_high_ns, 1e3);
    ratio_cell(t, s->kv_GBps, 1, "");
    ratio_cell(t, 100 * s->kv_GBps / s->read_GBps, 0, " %");
    ratio_cell(t, s->kv_seen_bytes_per_token, 0, "");
    ratio_cell(t, s->kv_bytes_per_token, 0, "");
    table_note(t, s->reason);
}

void slope_table(struct table *t, const struct slope *slope, int32_t n)
{
    static const struct {
        const char *name;
        bool left, optional;
    } HEADING[] = {{"model", true, true},          {"weights", true, true},   {"KV", true, false},
                   {"block", false, true},         {"threads", false, true},  {"batch", false, false},
                   {"contexts", false, false},     {"a ms", false, false},    {"/ weights", false, false},
                   {"b us", false, false},         {"KV GB/s", false, false}, {"of ceiling", false, false},
                   {"B/token seen", false, false}, {"true", false, false}};
    for (size_t i = 0; i < sizeof HEADING / sizeof *HEADING; i++)
        table_column(t, HEADING[i].name, HEADING[i].left, HEADING[i].optional);
    for (int32_t i = 0; i < n; i++)
        slope_cells(t, &slope[i]);
}

// In words.

static void append(char out[512], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char out[512], const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, 512 - n, format, args);
    va_end(args);
}

static void append_kv(const struct slope *s, char out[512])
{
    if (!(s->kv_GBps > 0) || !(s->kv_bytes_per_token > 0))
        return;
    append(out, "; KV is read at %.3g GB/s", s->kv_GBps);
    if (s->kv_low_GBps > 0 && s->kv_high_GBps > 0)
        append(out, " (%.3g to %.3g)", s->kv_low_GBps, s->kv_high_GBps);
    if (s->read_GBps > 0)
        append(out, ", %.0f %% of the read ceiling: in that time %.3g times its %.0f B per token could be read",
               100 * s->kv_GBps / s->read_GBps, s->kv_seen_bytes_per_token / s->kv_bytes_per_token, s->kv_bytes_per_token);
}

void slope_sentence(const struct slope *s, char out[512])
{
    char kv[64], a[24], b[24], weights[24];
    struct result types = {0};
    memcpy(types.type_k, s->type_k, sizeof types.type_k);
    memcpy(types.type_v, s->type_v, sizeof types.type_v);
    row_kv(&types, kv);
    snprintf(out, 512, "decode at batch %d, KV %.32s: ", (int)s->batch, kv);
    if (!isfinite(s->b_ns)) {
        append(out, "no line, %.120s", s->reason);
        return;
    }
    append(out, "%s + %s per position", format_ns(s->a_ns, a), format_ns(s->b_ns, b));
    if (isfinite(s->b_low_ns))
        append(out, " (+- %.0f %%)", 50 * (s->b_high_ns - s->b_low_ns) / fabs(s->b_ns));
    append_kv(s, out);
    if (s->weights_ns > 0)
        append(out, "; without context %.3g times the weights' %s", s->a_ns / s->weights_ns,
               format_ns(s->weights_ns, weights));
    if (*s->reason)
        append(out, "; %.120s", s->reason);
}
