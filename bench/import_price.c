#include "bench/import_price.h"

#include "roofline/kv_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Decode steps that are priced one by one; longer runs in so many pieces, each at its shortest context, which keeps a bound.
enum { MAX_STEPS = 512 };
// Rows of one step that are laid out as a batch; larger prompts are one sequence times their number.
enum { MAX_ROWS = 1 << 20, MAX_PROMPT = 1 << 22, MAX_CONTEXT = 1 << 24, MAX_BATCH = 1 << 16 };

struct pricer {
    const struct import_work *w;
    struct cost_walk walk;
    struct op_price *ops;    // [plan->n_ops]
    struct hardware printed; // the same device, its printed peaks as if they were hard
    struct import_price *out;
    double limit_ns[3]; // of the roof, by what limits it
    double kept;        // bytes that caches may have kept, and experts that need not have been read
};

// What part of a step's cost counts: of weights, KV and activations, arithmetic.
struct share {
    double weights, kv, flops;
};

static uint64_t scaled(uint64_t n, double by)
{
    double value = (double)n * by;
    return value < 1.8e19 ? (uint64_t)value : UINT64_MAX;
}

static void scale(struct cost *c, struct share s)
{
    c->weight_bytes = scaled(c->weight_bytes, s.weights);
    c->expert_spread_bytes = scaled(c->expert_spread_bytes, s.weights);
    c->kv_read_bytes = scaled(c->kv_read_bytes, s.kv);
    c->kv_write_bytes = scaled(c->kv_write_bytes, s.kv);
    c->act_bytes = scaled(c->act_bytes, s.kv);
    c->link_bytes = scaled(c->link_bytes, s.kv);
    for (int t = 0; t < DTYPE_COUNT; t++)
        c->flops[t] = scaled(c->flops[t], s.flops);
}

static struct hardware at_printed_peaks(const struct hardware *hw)
{
    struct hardware printed = *hw;
    printed.bandwidth[ROOF_HARD] = hw->bandwidth[ROOF_DATASHEET];
    memcpy(printed.peak[ROOF_HARD], hw->peak[ROOF_DATASHEET], sizeof printed.peak[ROOF_HARD]);
    return printed;
}

static void add_limit(struct pricer *p, const char *limit, double ns)
{
    static const char *const NAME[] = {"bandwidth", "compute", "link"};
    struct prediction *sum = &p->out->prediction;
    for (int i = 0; i < 3; i++)
        p->limit_ns[i] += strcmp(limit, NAME[i]) ? 0 : ns;
    int most = p->limit_ns[1] > p->limit_ns[0] ? 1 : 0;
    snprintf(sum->limit, sizeof sum->limit, "%s", NAME[p->limit_ns[2] > p->limit_ns[most] ? 2 : most]);
}

// Adds `times` steps of this cost.
static void add_step(struct pricer *p, const struct prediction *step, double times)
{
    struct prediction *sum = &p->out->prediction;
    struct cost cost = step->cost;
    double bytes = (double)cost_bytes(&cost), kept = (double)(hardware_cache(p->w->hw) + cost.expert_spread_bytes);
    p->kept += times * (kept < bytes ? kept : bytes);
    sum->bound_ns += times * step->bound_ns;
    sum->floor_ns += times * step->floor_ns;
    sum->roof_ns += times * step->roof_ns;
    sum->roof_total_ns += times * step->roof_total_ns;
    sum->roof_spread += times * step->roof_ns * step->roof_spread; // divided by the sum at the end
    p->out->datasheet_ns += times * roofline_bound(&p->printed, &step->cost, true).ns;
    memcpy(sum->source, step->source, sizeof sum->source);
    add_limit(p, step->limit, times * step->roof_ns);
    scale(&cost, (struct share){times, times, times});
    cost_add(&sum->cost, &cost);
}

// `times` steps of `rows` tokens for each of `sequences`, the last of them at position context - 1.
static bool price_step(struct pricer *p, int64_t sequences, int64_t rows, int64_t context, struct share share, double times,
                       struct error *e)
{
    struct batch batch;
    struct prediction step;
    double each = p->w->ranks ? 1 : 1.0 / p->w->devices;
    share.weights *= each * p->w->weight_scale, share.kv *= each, share.flops *= each;
    if (!batch_make_uniform(&batch, (int32_t)sequences, (int32_t)rows, (int32_t)context, (int32_t)context, e))
        return false;
    bool ok = cost_walk_begin(&p->walk, &batch, NULL, 0, e);
    for (int32_t i = 0; ok && i < p->w->plan->n_ops && cost_walk_next(&p->walk, &p->ops[i].cost); i++)
        scale(&p->ops[i].cost, share);
    batch_free(&batch);
    ok = ok && roofline_price_costs(p->w->hw, p->ops, p->w->plan->n_ops, &step, e);
    if (ok)
        add_step(p, &step, times);
    return ok;
}

// n steps of one token for each sequence, the first at `context`.
static bool price_decode(struct pricer *p, int64_t sequences, int64_t context, int64_t n, double times, struct error *e)
{
    int64_t piece = (n + MAX_STEPS - 1) / MAX_STEPS;
    double per_step = p->w->tokens_per_step; // of speculation: weights and KV are read once for so many tokens
    struct share share = {1, 1, per_step};
    for (int64_t i = 0; i < n; i += piece) {
        int64_t steps = n - i < piece ? n - i : piece;
        if (!price_step(p, sequences, 1, context + i, share, times * (double)steps / per_step, e))
            return false;
    }
    return true;
}

static bool price_prompt(struct pricer *p, int64_t sequences, int64_t tokens, int64_t depth, struct error *e)
{
    bool whole = sequences * tokens <= MAX_ROWS;
    double times = whole ? 1 : (double)sequences;
    return price_step(p, whole ? sequences : 1, tokens, tokens + depth, (struct share){1, times, times}, 1, e);
}

// Requests that share steps: their prompts' arithmetic and KV; weights are read with the steps that generate.
static bool price_requests(struct pricer *p, struct error *e)
{
    const struct import_work *w = p->w;
    bool alone = w->n_gen < 2;
    struct share share = {alone ? 1 / w->requests : 0, w->requests, w->requests};
    return price_step(p, 1, w->n_prompt, w->n_prompt, share, 1, e) &&
           (alone || price_decode(p, w->batch, w->n_prompt + 1, w->n_gen - 1, w->requests / (double)w->batch, e));
}

static bool price_steps(struct pricer *p, struct error *e)
{
    const struct import_work *w = p->w;
    switch (w->kind) {
    case IMPORT_DECODE: return price_decode(p, w->batch, w->n_depth + 1, w->n_gen, 1, e);
    case IMPORT_PREFILL: return price_prompt(p, w->batch, w->n_prompt, w->n_depth, e);
    case IMPORT_GENERATE:
        return price_prompt(p, w->batch, w->n_prompt, w->n_depth, e) &&
               price_decode(p, w->batch, w->n_depth + w->n_prompt + 1, w->n_gen - !w->steps_follow, 1, e);
    case IMPORT_SERVE: return price_requests(p, e);
    case IMPORT_TOKENS: return price_step(p, 1, 1, 1, (struct share){0, 0, 1}, 1, e);
    default: return error_set(e, ERROR_UNSUPPORTED, "no work of a model to price");
    }
}

// An engine may let prompts and steps overlap, so nothing but the totals binds it: physics of all of it at once.
static void bind_by_totals(struct pricer *p)
{
    struct prediction *sum = &p->out->prediction;
    struct cost total = sum->cost;
    double kept = p->kept < (double)total.weight_bytes ? p->kept : (double)total.weight_bytes, rest = p->kept - kept;
    total.weight_bytes -= (uint64_t)kept;
    total.kv_read_bytes -= (uint64_t)(rest < (double)total.kv_read_bytes ? rest : (double)total.kv_read_bytes);
    total.expert_spread_bytes = 0;
    sum->bound_ns = roofline_bound(p->w->hw, &total, false).ns;
    p->out->datasheet_ns = roofline_bound(&p->printed, &total, false).ns;
    if (p->w->kind != IMPORT_SERVE)
        return;
    struct roof_time roof = roofline_attainable(p->w->hw, &sum->cost, false);
    sum->roof_ns = sum->roof_total_ns = roof.ns;
    sum->floor_ns = 0;
    snprintf(sum->limit, sizeof sum->limit, "%s", roof.limit);
}

static bool in_range(const struct import_work *w, struct error *e)
{
    int64_t rows = w->n_prompt > 0 ? w->n_prompt : 0, context = rows + w->n_gen + w->n_depth;
    return (w->batch >= 1 && w->batch <= MAX_BATCH && rows <= MAX_PROMPT && context <= MAX_CONTEXT) ||
           error_set(e, ERROR_UNSUPPORTED, "batch %lld and context %lld are more than can be priced", (long long)w->batch,
                     (long long)context);
}

bool import_price(const struct import_work *w, struct import_price *out, struct error *e)
{
    struct pricer p = {.w = w, .out = out};
    *out = (struct import_price){0};
    if (!in_range(w, e) || !cost_walk_init(&p.walk, w->plan, e))
        return false;
    p.printed = at_printed_peaks(w->hw);
    p.ops = calloc((size_t)w->plan->n_ops, sizeof *p.ops);
    bool ok = p.ops ? price_steps(&p, e) : error_set(e, ERROR_MEMORY, "no memory to price '%s'", w->plan->model);
    struct prediction *sum = &out->prediction;
    if (ok && !cost_countable(&sum->cost))
        ok = error_set(e, ERROR_UNSUPPORTED, "more FLOPs or bytes than 64 bits count");
    if (ok && (w->kind == IMPORT_GENERATE || w->kind == IMPORT_SERVE))
        bind_by_totals(&p);
    sum->roof_spread = sum->roof_ns > 0 ? sum->roof_spread / sum->roof_ns : 0;
    free(p.ops);
    cost_walk_free(&p.walk);
    return ok;
}

static double weights_of(const struct import_work *w)
{
    return (double)plan_weight_bytes(w->plan) * w->weight_scale / (w->ranks ? 1 : w->devices);
}

static double request_bytes(const struct import_work *w, int64_t context)
{
    struct kv_layout layout = kv_layout_of_plan(w->plan);
    int32_t n = context > MAX_CONTEXT ? MAX_CONTEXT : (int32_t)context;
    return (double)kv_layout_request_bytes(&layout, n) / (w->ranks ? 1 : w->devices);
}

double import_memory(const struct import_work *w)
{
    int64_t context =
        (w->n_prompt > 0 ? w->n_prompt : 0) + (w->n_gen > 0 ? w->n_gen : 0) + (w->n_depth > 0 ? w->n_depth : 0);
    return weights_of(w) + (double)w->batch * request_bytes(w, context);
}

int64_t import_capacity(const struct import_work *w)
{
    double left = (double)w->hw->memory_bytes - weights_of(w), each = request_bytes(w, w->n_prompt + w->n_gen / 2);
    double n = each > 0 ? floor(left / each) : MAX_BATCH;
    return n < 1 ? 0 : n > MAX_BATCH ? MAX_BATCH : (int64_t)n;
}
