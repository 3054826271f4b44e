#include "bench/attribution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 73 years: differences of such times stay within 63 bits.
static const double LONGEST_NS = 0x1p61;

static const char *const DIFFERENCE_NAME[D_COUNT] = {"serialization", "ceiling", "executed",
                                                     "shortfall",     "gaps",    "observer"};

const char *attribution_difference_name(enum attribution_difference d)
{
    return DIFFERENCE_NAME[d];
}

void attribution_init(struct attribution *a)
{
    *a = (struct attribution){.has_hard = true};
}

void attribution_free(struct attribution *a)
{
    free(a->op);
    *a = (struct attribution){0};
}

static int by_begin(const void *x, const void *y)
{
    const struct trace_row *a = x, *b = y;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

static int by_operation(const void *x, const void *y)
{
    const struct trace_row *a = x, *b = y;
    return (a->span.first > b->span.first) - (a->span.first < b->span.first);
}

// Time during which at least one span ran; rows in order of begin.
static int64_t union_ns(const struct trace_row *row, int32_t n)
{
    int64_t sum = 0, end = INT64_MIN;
    for (int32_t i = 0; i < n; i++) {
        int64_t begin = row[i].begin_ns > end ? row[i].begin_ns : end;
        if (row[i].end_ns <= begin)
            continue;
        sum += row[i].end_ns - begin;
        end = row[i].end_ns;
    }
    return sum;
}

// The executed cover: the parts of a split span count once; rows in order of operations. Returns how many.
static int32_t executed_spans(const struct trace_row *row, int32_t n_rows, struct span *spans)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_rows; i++)
        if (!n || row[i].span.first != spans[n - 1].first)
            spans[n++] = row[i].span;
    return n;
}

void attribution_label(const struct plan *plan, const struct span *span, char *out, size_t size)
{
    size_t used = 0;
    *out = 0;
    for (int32_t i = span->first; i < span->first + span->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "+" : "", op_label(plan, &plan->op[i]));
}

// The row of this label and kernel, made if there is none yet; NULL without memory.
static struct attribution_op *find_op(struct attribution *a, const char *label, uint16_t kernel)
{
    for (int32_t i = 0; i < a->n_ops; i++)
        if (a->op[i].kernel == kernel && !strcmp(a->op[i].label, label))
            return &a->op[i];
    struct attribution_op *grown = realloc(a->op, (size_t)(a->n_ops + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    a->op = grown;
    grown += a->n_ops++;
    *grown = (struct attribution_op){.kernel = kernel, .limit = ""};
    snprintf(grown->label, sizeof grown->label, "%s", label);
    return grown;
}

// What a traced step is looked at with.
struct step_view {
    const struct plan *plan;
    const struct batch *batch;
    const struct hardware *hw;
    struct trace_row *row;  // [n_rows]
    struct span *span;      // [n_rows] the executed cover
    struct op_price *price; // [plan->n_ops]
    int32_t n_rows, n_spans;
};

static bool open_view(struct step_view *v, const struct trace *trace, struct error *e)
{
    v->n_rows = trace->n;
    v->row = calloc((size_t)trace->n, sizeof *v->row);
    v->span = calloc((size_t)trace->n, sizeof *v->span);
    v->price = calloc((size_t)v->plan->n_ops, sizeof *v->price);
    if (!v->row || !v->span || !v->price)
        return error_set(e, ERROR_MEMORY, "no memory for a trace of %d spans", trace->n);
    memcpy(v->row, trace->row, (size_t)trace->n * sizeof *v->row);
    qsort(v->row, (size_t)v->n_rows, sizeof *v->row, by_operation);
    v->n_spans = executed_spans(v->row, v->n_rows, v->span);
    return true;
}

static void close_view(struct step_view *v)
{
    free(v->row);
    free(v->span);
    free(v->price);
}

static bool add_prediction(struct attribution *a, const struct step_view *v, struct error *e)
{
    struct prediction p;
    if (!roofline_price(v->plan, v->batch, v->hw, v->span, v->n_spans, &p, e) ||
        !roofline_price_ops(v->plan, v->batch, v->hw, v->span, v->n_spans, v->price, e))
        return false;
    const double times[] = {p.bound_ns, p.floor_ns, p.roof_ns, p.spans_ns};
    for (int i = 0; i <= T_SPANS; i++) {
        a->sum_ns[i] += times[i];
        if (!(a->sum_ns[i] < LONGEST_NS))
            return error_set(e, ERROR_UNSUPPORTED, "on '%s' these steps take longer than can be counted in ns", v->hw->name);
    }
    a->has_hard &= p.floor_ns > 0;
    cost_add(&a->cost, &p.cost);
    return true;
}

static struct attribution_op *op_of_span(struct attribution *a, const struct plan *plan, const struct span *span)
{
    char label[sizeof a->op->label];
    attribution_label(plan, span, label, sizeof label);
    return find_op(a, label, span->kernel);
}

static bool no_memory(const struct plan *plan, struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for the operations of '%s'", plan->model);
}

static void add_price(struct attribution_op *op, const struct op_price *price)
{
    op->roof_ns += price->roof_ns;
    op->spans_ns += price->span_ns;
    if (price->roof_ns > op->limit_ns) {
        op->limit_ns = price->roof_ns;
        op->limit = price->limit;
    }
    cost_add(&op->cost, &price->cost);
}

static bool add_ops(struct attribution *a, const struct step_view *v, struct error *e)
{
    for (int32_t i = 0; i < v->n_spans; i++) {
        struct attribution_op *op = op_of_span(a, v->plan, &v->span[i]);
        if (!op)
            return no_memory(v->plan, e);
        op->count++;
        for (int32_t k = v->span[i].first; k < v->span[i].first + v->span[i].count; k++) {
            add_price(op, &v->price[k]);
        }
    }
    for (int32_t i = 0; i < v->n_rows; i++) {
        struct attribution_op *op = op_of_span(a, v->plan, &v->row[i].span);
        if (!op)
            return no_memory(v->plan, e);
        op->time_ns += v->row[i].end_ns - v->row[i].begin_ns;
    }
    return true;
}

bool attribution_add_step(struct attribution *a, const struct plan *plan, const struct batch *batch,
                          const struct trace *trace, const struct hardware *hw, struct error *e)
{
    struct step_view v = {.plan = plan, .batch = batch, .hw = hw};
    if (trace->n_dropped || !trace->n)
        return error_set(e, ERROR_FAILED, "the trace holds %d spans and lost %d, expected all of a step", trace->n,
                         trace->n_dropped);
    bool ok = open_view(&v, trace, e) && add_prediction(a, &v, e) && add_ops(a, &v, e);
    if (ok) {
        qsort(v.row, (size_t)v.n_rows, sizeof *v.row, by_begin);
        a->time_ns[T_BUSY] += union_ns(v.row, v.n_rows);
    }
    close_view(&v);
    return ok;
}

static void set_differences(struct attribution *a)
{
    for (int d = 0; d < D_COUNT; d++)
        a->difference_ns[d] = a->time_ns[d + 1] - a->time_ns[d];
    if (!a->has_hard)
        a->difference_ns[D_SERIALIZATION] = a->difference_ns[D_CEILING] = 0;
}

void attribution_finish(struct attribution *a, int64_t traced_ns, int64_t median_ns)
{
    a->n_samples = 1;
    for (int32_t i = 0; i < a->n_ops; i++)
        a->op[i].low_ns = a->op[i].high_ns = a->op[i].time_ns;
    for (int i = 0; i <= T_SPANS; i++)
        a->time_ns[i] = llround(a->sum_ns[i]);
    if (!a->has_hard)
        a->time_ns[T_BOUND] = a->time_ns[T_FLOOR] = 0;
    a->time_ns[T_TRACED] = traced_ns;
    a->time_ns[T_UNTRACED] = median_ns;
    set_differences(a);
}

static bool same_ops(const struct attribution *a, const struct attribution *b)
{
    if (a->n_ops != b->n_ops)
        return false;
    for (int32_t i = 0; i < a->n_ops; i++)
        if (a->op[i].kernel != b->op[i].kernel || a->op[i].count != b->op[i].count || strcmp(a->op[i].label, b->op[i].label))
            return false;
    return true;
}

// The sample of median wall time among those that ran the spans of `last`.
static const struct attribution *middle_sample(const struct attribution *sample, int32_t n, const struct attribution *last)
{
    int32_t like = 0;
    for (int32_t i = 0; i < n; i++)
        like += same_ops(&sample[i], last);
    for (int32_t i = 0; i < n; i++) {
        int32_t before = 0; // in order of time, the earlier first where equal
        for (int32_t k = 0; k < n; k++)
            before += same_ops(&sample[k], last) && (sample[k].time_ns[T_TRACED] < sample[i].time_ns[T_TRACED] ||
                                                     (sample[k].time_ns[T_TRACED] == sample[i].time_ns[T_TRACED] && k < i));
        if (same_ops(&sample[i], last) && before == (like - 1) / 2)
            return &sample[i];
    }
    return last;
}

static void widen(struct attribution_op *op, int64_t time_ns)
{
    op->low_ns = time_ns < op->low_ns ? time_ns : op->low_ns;
    op->high_ns = time_ns > op->high_ns ? time_ns : op->high_ns;
}

void attribution_choose(struct attribution *sample, int32_t n, int64_t median_ns)
{
    struct attribution *last = &sample[n - 1];
    const struct attribution *middle = middle_sample(sample, n, last);
    for (int32_t i = 0; i < n - 1; i++) {
        if (!same_ops(&sample[i], last))
            continue;
        last->n_samples++;
        for (int32_t k = 0; k < last->n_ops; k++)
            widen(&last->op[k], sample[i].op[k].time_ns);
    }
    for (int32_t k = 0; k < last->n_ops; k++)
        last->op[k].time_ns = middle->op[k].time_ns;
    last->time_ns[T_BUSY] = middle->time_ns[T_BUSY];
    last->time_ns[T_TRACED] = middle->time_ns[T_TRACED];
    last->time_ns[T_UNTRACED] = median_ns;
    set_differences(last);
}

int64_t attribution_total_ns(const struct attribution *a)
{
    int64_t sum = 0;
    for (int d = 0; d < D_COUNT; d++)
        sum += a->difference_ns[d];
    return sum;
}
