#include "roofline/roofline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Ceilings of one pricing, chosen once.
struct ceilings {
    const struct hardware *hw;
    struct hw_value bandwidth;                // of weights and KV, by the bytes the step streams; value 0: unknown
    const struct hw_value *peak[DTYPE_COUNT]; // NULL: unknown
    double link;                              // bytes/s, 0: none
    enum roof_kind weakest;                   // of the kinds used, the one furthest from what a machine attains
};

enum limit { LIMIT_BANDWIDTH, LIMIT_COMPUTE, LIMIT_LINK, LIMITS };
static const char *const LIMIT_NAME[LIMITS] = {"bandwidth", "compute", "link"};

// What each resource needs, ns; the slowest is the time where all work at once.
struct times {
    double part[LIMITS];
};

static enum limit slowest(const struct times *t)
{
    enum limit max = LIMIT_BANDWIDTH;
    for (int i = 1; i < LIMITS; i++)
        if (t->part[i] > t->part[max])
            max = (enum limit)i;
    return max;
}

static double longest(const struct times *t)
{
    return t->part[slowest(t)];
}

enum roof_kind roofline_bandwidth_kind(const struct hardware *hw)
{
    if (hw->bandwidth[ROOF_ATTAINABLE].value > 0)
        return ROOF_ATTAINABLE;
    return hw->bandwidth[ROOF_DATASHEET].value > 0 ? ROOF_DATASHEET : ROOF_HARD;
}

enum roof_kind roofline_peak_kind(const struct hardware *hw, enum dtype compute)
{
    if (hardware_peak(hw, ROOF_ATTAINABLE, compute) > 0)
        return ROOF_ATTAINABLE;
    return hardware_peak(hw, ROOF_DATASHEET, compute) > 0 ? ROOF_DATASHEET : ROOF_HARD;
}

static const struct hw_value *known(const struct hw_value *v)
{
    return v->value > 0 ? v : NULL;
}

static struct ceilings hard_ceilings(const struct hardware *hw)
{
    struct ceilings c = {.hw = hw, .bandwidth = hw->bandwidth[ROOF_HARD], .link = hardware_link(hw)};
    for (int t = 0; t < DTYPE_COUNT; t++)
        c.peak[t] = known(&hw->peak[ROOF_HARD][hardware_compute_type(hw, (enum dtype)t)]);
    return c;
}

// Of a step that streams so many bytes and then does so again: what levels keep does not come from main memory, whose hard
// peak is the only one known.
static struct ceilings hard_ceilings_kept(const struct hardware *hw, uint64_t streamed)
{
    struct ceilings c = hard_ceilings(hw);
    uint64_t left = streamed - hardware_kept(hw, streamed);
    if (left < streamed)
        c.bandwidth.value = left                    ? c.bandwidth.value * (double)streamed / (double)left
                            : c.bandwidth.value > 0 ? INFINITY
                                                    : 0;
    return c;
}

// The best known of each; the kinds are in order of how near they are to what a machine attains. streamed 0: from main
// memory.
static struct ceilings best_ceilings(const struct hardware *hw, const struct cost *used, uint64_t streamed)
{
    enum roof_kind kind = roofline_bandwidth_kind(hw);
    struct ceilings c = {.hw = hw, .bandwidth = hardware_stream(hw, streamed), .link = hardware_link(hw), .weakest = kind};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        kind = roofline_peak_kind(hw, (enum dtype)t);
        c.peak[t] = known(&hw->peak[kind][hardware_compute_type(hw, (enum dtype)t)]);
        if (used->flops[t] && kind < c.weakest)
            c.weakest = kind;
    }
    return c;
}

static bool ceilings_suffice(const struct ceilings *c, const struct cost *cost)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (cost->flops[t] && !c->peak[t])
            return false;
    return c->bandwidth.value > 0 && (!cost->link_bytes || c->link > 0);
}

static struct times times_of(const struct ceilings *c, const struct cost *cost, uint64_t bytes)
{
    struct times t = {.part[LIMIT_BANDWIDTH] = (double)bytes / c->bandwidth.value * 1e9};
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (cost->flops[i])
            t.part[LIMIT_COMPUTE] += (double)cost->flops[i] / c->peak[i]->value * 1e9;
    if (cost->link_bytes)
        t.part[LIMIT_LINK] = (double)cost->link_bytes / c->link * 1e9;
    return t;
}

// Relative spread of the ceiling that limits; several compute types never meet in one operation.
static double spread_of(const struct ceilings *c, const struct cost *cost, enum limit limit)
{
    if (limit == LIMIT_BANDWIDTH)
        return c->bandwidth.spread;
    for (int i = 0; i < DTYPE_COUNT && limit == LIMIT_COMPUTE; i++)
        if (cost->flops[i])
            return c->peak[i]->spread;
    return 0;
}

bool roofline_check(const struct hardware *hw, const struct cost *cost, struct error *e)
{
    struct ceilings c = best_ceilings(hw, cost, 0);
    if (!cost_countable(cost))
        return error_set(e, ERROR_UNSUPPORTED, "a step with more FLOPs or bytes than 64 bits count cannot be priced");
    if (cost->link_bytes && !(c.link > 0))
        return error_set(e, ERROR_UNSUPPORTED, "'%s' has no link between devices, so tensor parallelism cannot be priced",
                         hw->name);
    if (!(c.bandwidth.value > 0))
        return error_set(e, ERROR_UNSUPPORTED, "'%s' states no memory bandwidth", hw->name);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (cost->flops[t] && !c.peak[t])
            return error_set(e, ERROR_UNSUPPORTED, "'%s' states no peak for arithmetic in %s", hw->name,
                             dtype_name((enum dtype)t));
    return true;
}

static struct roof_time time_of_totals(const struct ceilings *c, const struct cost *cost, uint64_t bytes)
{
    if (!ceilings_suffice(c, cost))
        return (struct roof_time){.limit = ""};
    struct times t = times_of(c, cost, bytes);
    return (struct roof_time){.ns = longest(&t), .limit = LIMIT_NAME[slowest(&t)]};
}

// A step that is repeated may find all that the caches can hold of the last one: better than any real replacement policy
// does, and therefore a bound. And its rows may all have chosen the same experts.
struct roof_time roofline_bound(const struct hardware *hw, const struct cost *total, bool repeated)
{
    struct ceilings hard = hard_ceilings(hw);
    uint64_t bytes = cost_bytes(total), kept = repeated ? hardware_cache(hw) + total->expert_spread_bytes : 0;
    return time_of_totals(&hard, total, kept < bytes ? bytes - kept : 0);
}

struct roof_time roofline_attainable(const struct hardware *hw, const struct cost *total, bool repeated)
{
    struct ceilings best = best_ceilings(hw, total, repeated ? cost_bytes(total) : 0);
    return time_of_totals(&best, total, cost_bytes(total));
}

static void sum_operations(const struct op_price *ops, int32_t n, const struct ceilings *hard, const struct ceilings *best,
                           struct prediction *out)
{
    double by_limit[LIMITS] = {0}, spread = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct cost *cost = &ops[i].cost;
        struct times t = times_of(best, cost, cost_bytes(cost));
        enum limit limit = slowest(&t);
        by_limit[limit] += ops[i].roof_ns;
        spread += ops[i].roof_ns * spread_of(best, cost, limit);
        out->roof_ns += ops[i].roof_ns;
        out->spans_ns += ops[i].span_ns;
        if (hard) {
            t = times_of(hard, cost, cost_bytes(cost));
            out->floor_ns += longest(&t);
        }
    }
    struct times share = {.part = {by_limit[0], by_limit[1], by_limit[2]}};
    snprintf(out->limit, sizeof out->limit, "%s", LIMIT_NAME[slowest(&share)]);
    out->roof_spread = out->roof_ns > 0 ? spread / out->roof_ns : 0;
}

// The time of a span is the sum of its operations', each with the activations it moves across the span's edge: so the
// spans of no cover are faster than the roof, where activations are free. Those come from the level that still has them.
static void price_ops(const struct ceilings *best, int32_t n, struct op_price *ops)
{
    for (int32_t i = 0; i < n; i++) {
        const struct cost *cost = &ops[i].cost;
        struct times roof = times_of(best, cost, cost_bytes(cost)), span = roof;
        if (cost->act_bytes)
            span.part[LIMIT_BANDWIDTH] +=
                (double)cost->act_bytes / hardware_stream(best->hw, cost->act_distance).value * 1e9;
        ops[i].roof_ns = longest(&roof);
        ops[i].bytes_ns = roof.part[LIMIT_BANDWIDTH], ops[i].flops_ns = roof.part[LIMIT_COMPUTE];
        ops[i].limit = LIMIT_NAME[slowest(&roof)];
        ops[i].span_ns = longest(&span);
    }
}

bool roofline_price_walk(struct cost_walk *walk, const struct batch *batch, const struct hardware *hw,
                         const struct span *spans, int32_t n_spans, struct op_price *ops, struct error *e)
{
    const struct plan *plan = walk->plan;
    struct cost total = {0};
    if (!cost_walk_begin(walk, batch, spans, n_spans, e))
        return false;
    for (int32_t i = 0; i < plan->n_ops && cost_walk_next(walk, &ops[i].cost); i++)
        cost_add(&total, &ops[i].cost);
    if (!roofline_check(hw, &total, e))
        return false;
    struct ceilings best = best_ceilings(hw, &total, cost_bytes(&total));
    price_ops(&best, plan->n_ops, ops);
    return true;
}

bool roofline_price_ops(const struct plan *plan, const struct batch *batch, const struct hardware *hw,
                        const struct span *spans, int32_t n_spans, struct op_price *ops, struct error *e)
{
    struct cost_walk walk;
    if (!cost_walk_init(&walk, plan, e))
        return false;
    bool ok = roofline_price_walk(&walk, batch, hw, spans, n_spans, ops, e);
    cost_walk_free(&walk);
    return ok;
}

static void predict_from_ops(const struct op_price *ops, int32_t n, const struct hardware *hw, struct prediction *out)
{
    for (int32_t i = 0; i < n; i++)
        cost_add(&out->cost, &ops[i].cost);
    out->stream_bytes = cost_bytes(&out->cost);
    struct ceilings hard = hard_ceilings_kept(hw, out->stream_bytes);
    struct ceilings best = best_ceilings(hw, &out->cost, out->stream_bytes);
    sum_operations(ops, n, ceilings_suffice(&hard, &out->cost) ? &hard : NULL, &best, out);
    out->bound_ns = roofline_bound(hw, &out->cost, true).ns;
    out->roof_total_ns = roofline_attainable(hw, &out->cost, true).ns;
    snprintf(out->source, sizeof out->source, "%s", roof_kind_name(best.weakest));
}

bool roofline_price_costs(const struct hardware *hw, struct op_price *ops, int32_t n, struct prediction *out,
                          struct error *e)
{
    struct cost total = {0};
    *out = (struct prediction){0};
    for (int32_t i = 0; i < n; i++)
        cost_add(&total, &ops[i].cost);
    if (!roofline_check(hw, &total, e))
        return false;
    struct ceilings best = best_ceilings(hw, &total, cost_bytes(&total));
    price_ops(&best, n, ops);
    predict_from_ops(ops, n, hw, out);
    return true;
}

bool roofline_price(const struct plan *plan, const struct batch *batch, const struct hardware *hw, const struct span *spans,
                    int32_t n_spans, struct prediction *out, struct error *e)
{
    *out = (struct prediction){0};
    struct op_price *ops = calloc((size_t)plan->n_ops, sizeof *ops);
    if (!ops)
        return error_set(e, ERROR_MEMORY, "no memory to price '%s'", plan->model);
    bool ok = roofline_price_ops(plan, batch, hw, spans, n_spans, ops, e);
    if (ok)
        predict_from_ops(ops, plan->n_ops, hw, out);
    free(ops);
    return ok;
}
