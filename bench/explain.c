#include "bench/explain.h"

#include "bench/rows.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

// Parts smaller than this share of what is explained are not named one by one, nor those that would be printed as 0 %.
#define WORTH_NAMING 0.05
#define WORTH_PRINTING 0.005
enum { NAMED_PARTS = 3 };
// The roof at the probed ceilings is told apart from the machine's best where it is so much longer.
#define WORTH_TELLING 0.05

static const char *const KEY[PART_COUNT] = {"machine", "activations", "attention", "products", "others", "gaps", "observer"};

const char *explain_part_key(enum explain_part part)
{
    return KEY[part];
}

static enum explain_part part_of(const struct op_result *op)
{
    if (op->kv_read_bytes > 0)
        return PART_ATTENTION;
    return op->weight_bytes > 0 && op->flops > 0 ? PART_PRODUCTS : PART_OTHERS;
}

// What the probed ceiling does to one operation's floor: only those it limits take longer.
static const char *limit_of(const struct op_result *op, const struct result *r)
{
    return *op->op_limit ? op->op_limit : r->limit; // older files know the point's alone
}

static bool is_probed(const struct op_result *op, const struct result *r)
{
    return !strcmp(limit_of(op, r), r->limit);
}

// How many times longer than at the machine's best the operations that the probed ceiling limits must take.
static double stretch_of(const struct stored *point, double machine_ns)
{
    double roof = 0;
    for (int32_t i = 0; i < point->n_ops; i++)
        roof += is_probed(&point->op[i], &point->result) ? point->op[i].op_roof_ns : 0;
    return roof > 0 ? 1 + machine_ns / roof : 1;
}

static void add_ops(struct explanation *x, const struct stored *point, double machine_ns)
{
    double stretch = stretch_of(point, machine_ns);
    for (int32_t i = 0; i < point->n_ops; i++) {
        const struct op_result *op = &point->op[i];
        enum explain_part part = part_of(op);
        double spans = isfinite(op->op_spans_ns) ? op->op_spans_ns : op->op_roof_ns;
        double floor = spans + (is_probed(op, &point->result) ? (stretch - 1) * op->op_roof_ns : 0);
        double beyond = op->op_ns - floor;
        x->part_ns[part] += beyond;
        x->by_compute_ns[part] += strcmp(limit_of(op, &point->result), "compute") ? 0 : beyond;
    }
}

bool explain_add(struct explanation *x, const struct stored *point)
{
    const struct result *r = &point->result;
    double shortfall = r->busy_ns - r->spans_ns, before = 0, after = 0;
    if (!(r->median_ns > 0 && r->roof_ns > 0 && r->spans_ns > 0 && r->busy_ns > 0 && r->traced_ns > 0))
        return false;
    double machine = r->roof_fraction > 0 ? r->roof_fraction * r->median_ns - r->roof_ns : 0;
    x->knows_spans = (x->knows_spans || !x->n_points) && point->n_ops;
    x->n_points++;
    x->time_ns += r->median_ns;
    x->roof_ns += r->roof_ns;
    x->part_ns[PART_MACHINE] += machine;
    x->part_ns[PART_ACTIVATIONS] += r->spans_ns - r->roof_ns;
    x->part_ns[PART_GAPS] += r->traced_ns - r->busy_ns;
    x->part_ns[PART_OBSERVER] += r->median_ns - r->traced_ns;
    for (int i = PART_ATTENTION; i <= PART_OTHERS; i++)
        before += x->part_ns[i];
    add_ops(x, point, machine);
    for (int i = PART_ATTENTION; i <= PART_OTHERS; i++)
        after += x->part_ns[i];
    x->part_ns[PART_OTHERS] += shortfall - machine - (after - before);
    return true;
}

double explain_probed_roof_ns(const struct explanation *x)
{
    return x->roof_ns + x->part_ns[PART_MACHINE];
}

void explain_part_name(const struct explanation *x, enum explain_part part, char out[64])
{
    static const char *const NAME[PART_COUNT] = {"the machine below its best",
                                                 "activations between kernels",
                                                 "attention",
                                                 "matrix products",
                                                 "norms and other small kernels",
                                                 "gaps between kernels",
                                                 "the traced sample's distance from the median"};
    bool compute = fabs(x->by_compute_ns[part]) > fabs(x->part_ns[part]) / 2;
    const char *ceiling = compute ? "the arithmetic ceiling" : "the read ceiling", *name = NAME[part];
    if (part == PART_OTHERS && !x->knows_spans)
        name = "kernels below their ceilings";
    bool below = part == PART_ATTENTION || part == PART_PRODUCTS;
    snprintf(out, 64, "%s%s%s", name, below ? x->part_ns[part] < 0 ? " above " : " below " : "", below ? ceiling : "");
}

void explain_order(const struct explanation *x, enum explain_part order[PART_COUNT])
{
    int n = 0;
    for (int i = PART_MACHINE + 1; i < PART_COUNT; i++) {
        int at = n++;
        for (; at > 0 && x->part_ns[order[at - 1]] < x->part_ns[i]; at--)
            order[at] = order[at - 1];
        order[at] = (enum explain_part)i;
    }
    order[n] = PART_MACHINE;
}

// In words.

static void append(char out[EXPLAIN_TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char out[EXPLAIN_TEXT], const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, EXPLAIN_TEXT - n, format, args);
    va_end(args);
}

static void format_part(double ns, double whole, bool percent, char out[24])
{
    char ms[24];
    if (percent)
        snprintf(out, 24, "%.0f %%", 100 * fabs(ns) / whole);
    else
        snprintf(out, 24, "%s", format_ms(fabs(ns), ms));
}

// The largest parts by name, what they leave as "all else", and what was less than nothing at the end; of the time beyond
// the roof, or in percent of all of it.
static void append_parts(const struct explanation *x, bool percent, char out[EXPLAIN_TEXT])
{
    enum explain_part order[PART_COUNT];
    char name[64], size[24];
    double beyond = x->time_ns - explain_probed_roof_ns(x), least = percent ? WORTH_PRINTING * x->time_ns : 0;
    double worth = fmax(WORTH_NAMING * beyond, least), else_ns = 0;
    int named = 0;
    explain_order(x, order);
    for (int i = 0; i < PART_COUNT - 1; i++) {
        double ns = x->part_ns[order[i]];
        if (ns < worth || named == NAMED_PARTS) {
            else_ns += fabs(ns) < worth || ns > 0 ? ns : 0;
            continue;
        }
        explain_part_name(x, order[i], name);
        format_part(ns, x->time_ns, percent, size);
        append(out, named ? ", %s %s" : percent || ns < 1.05e6 ? " %s is %s" : " %s are %s", size, name);
        named++;
    }
    for (int i = PART_COUNT - 2; i >= 0; i--)
        if (x->part_ns[order[i]] <= -worth) {
            explain_part_name(x, order[i], name);
            format_part(x->part_ns[order[i]], x->time_ns, percent, size);
            append(out, "%s less %s: %s", named++ ? "," : "", size, name);
        }
    if (fabs(else_ns) >= fmax(worth / 2, least) || !named) {
        format_part(else_ns, x->time_ns, percent, size);
        append(out, named ? ", %s%s all else" : " %s%s is spread over all parts", else_ns < 0 ? "-" : "", size);
    }
}

static void append_roof(const struct explanation *x, char out[EXPLAIN_TEXT])
{
    char probed[24], best[24];
    double roof = explain_probed_roof_ns(x);
    if (roof > x->time_ns)
        append(out, ": %.2f times as fast as its roof (%s ms", roof / x->time_ns, format_ms(roof, probed));
    else
        append(out, ": %.0f %% of the roof (%s ms", 100 * roof / x->time_ns, format_ms(roof, probed));
    if (fabs(x->part_ns[PART_MACHINE]) > WORTH_TELLING * x->roof_ns)
        append(out, " at the ceiling probed beside it, %s ms at the machine's best", format_ms(x->roof_ns, best));
    append(out, ")");
}

static void append_point(const struct result *r, char out[EXPLAIN_TEXT])
{
    char shape[64], kv[64], ms[24];
    row_shape(r, shape);
    row_kv(r, kv);
    append(out, "%.16s at batch %d, %s%s%s", r->phase, (int)r->batch, shape, *kv ? ", KV " : "", kv);
    if (r->median_ns > 0)
        append(out, " takes %s ms", format_ms(r->median_ns, ms));
    if (*r->verdict && strcmp(r->verdict, "ok"))
        append(out, " (%.16s)", r->verdict);
}

void explain_sentence(const struct stored *point, char out[EXPLAIN_TEXT])
{
    struct explanation x = {0};
    const struct result *r = &point->result;
    *out = 0;
    append_point(r, out);
    if (!explain_add(&x, point)) {
        if (!(r->median_ns > 0))
            append(out, " was not measured: %.200s", *r->reason ? r->reason : "no reason is known");
        else if (!(r->roof_ns > 0))
            append(out, "; no roof is known for it");
        else
            append(out, ": %.0f %% of the roof; no sample was traced, so nothing says where the rest went",
                   100 * (r->roof_fraction > 0 ? r->roof_fraction : r->roof_ns / r->median_ns));
        return;
    }
    append_roof(&x, out);
    char beyond_ms[24];
    double beyond = x.time_ns - explain_probed_roof_ns(&x);
    if (beyond <= 0)
        return;
    append(out, "; of the %s ms beyond,", format_ms(beyond, beyond_ms));
    append_parts(&x, false, out);
}

bool explain_group_sentence(const struct stored *row, int32_t n, const char *phase, int64_t batch, char out[EXPLAIN_TEXT])
{
    struct explanation x = {0};
    double low = INFINITY, high = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct result *r = &row[i].result;
        if (strcmp(r->phase, phase) || r->batch != batch || strcmp(r->verdict, "ok") || !explain_add(&x, &row[i]))
            continue;
        double fraction = r->roof_fraction > 0 ? r->roof_fraction : r->roof_ns / r->median_ns;
        low = fmin(low, fraction), high = fmax(high, fraction);
    }
    *out = 0;
    if (!x.n_points)
        return false;
    append(out, "%.16s at batch %d is at ", phase, (int)batch);
    if (high - low >= 0.01)
        append(out, "%.0f to ", 100 * low);
    append(out, "%.0f %% of the roof", 100 * high);
    if (x.time_ns > explain_probed_roof_ns(&x)) {
        append(out, "; of its time,");
        append_parts(&x, true, out);
    }
    return true;
}

bool explain_unchecked(const struct stored *row, int32_t n, char out[EXPLAIN_TEXT])
{
    const struct result *first = NULL;
    int32_t unchecked = 0, priced = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct result *r = &row[i].result;
        bool has_roof = r->roof_ns > 0 && r->median_ns > 0;
        priced += has_roof;
        unchecked += has_roof && !(r->bound_ns > 0);
        first = first || !has_roof || r->bound_ns > 0 ? first : r;
    }
    *out = 0;
    if (unchecked)
        append(out, "no hard peaks are known for %.64s, so %s of its %d point%s was checked against a bound",
               first->hardware, unchecked == priced ? "none" : "not every one", (int)priced, priced == 1 ? "" : "s");
    return unchecked;
}

void explain_times(const struct result *r, struct explain_time out[EXPLAIN_TIMES])
{
    const struct explain_time TIME[EXPLAIN_TIMES] = {
        {"T0", "bound: the step's totals at hard peaks", "serialization_ns", r->bound_ns, r->serialization_ns},
        {"T1", "floor: operation by operation at hard peaks", "ceiling_ns", r->floor_ns, r->ceiling_ns},
        {"T2", "roof: the same at the machine's best", "executed_ns", r->roof_ns, r->executed_ns},
        {"T3", "spans: with the activations between kernels", "shortfall_ns", r->spans_ns, r->shortfall_ns},
        {"T4", "busy: kernels as traced", "gaps_ns", r->busy_ns, r->gaps_ns},
        {"T5", "traced: with the time between kernels", "observer_ns", r->traced_ns, r->observer_ns},
        {"T6", "median of the untraced samples", NULL, r->median_ns, NAN},
    };
    memcpy(out, TIME, sizeof TIME);
}
