#include "bench/rows.h"

#include "bench/environment.h"
#include "bench/evidence.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void put(result_text out, const char *text)
{
    snprintf(out, sizeof(result_text), "%s", text ? text : "");
}

static void add_reason(struct result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(struct result *r, const char *format, ...)
{
    size_t n = strlen(r->reason);
    va_list args;
    if (n)
        n += (size_t)snprintf(r->reason + n, sizeof r->reason - n, "; ");
    va_start(args, format);
    vsnprintf(r->reason + n, n < sizeof r->reason ? sizeof r->reason - n : 0, format, args);
    va_end(args);
}

void row_describe(struct result *r, const struct row_context *c, const struct point *p)
{
    const struct plan *plan = c->plan;
    put(r->key, p->key);
    put(r->model, c->scenario->model[p->model]);
    put(r->phase, phase_name(p->phase));
    put(r->backend, c->backend);
    put(r->isa, c->isa);
    put(r->hardware, c->hw ? c->hw->name : NULL);
    r->batch = p->batch, r->context = p->context;
    r->n_prompt = p->n_prompt, r->n_gen = p->n_gen, r->n_depth = p->n_depth;
    r->cache = p->cache, r->block = p->block;
    r->tp = c->scenario->tp;
    r->threads = c->threads ? c->threads : p->threads ? p->threads : RESULT_UNKNOWN;
    if (!plan)
        return;
    put(r->weights, dtype_name(plan_weight_type(plan)));
    put(r->type_k, dtype_name(plan->kv_k));
    put(r->type_v, dtype_name(plan->kv_v));
    put(r->compute, dtype_name(plan_compute_type(plan)));
    r->kv_bytes_per_token = (int64_t)plan_kv_bytes_per_token(plan);
    r->model_bytes = (int64_t)plan_weight_bytes(plan);
}

void row_shape(const struct result *r, char out[64])
{
    bool prefill = !strcmp(r->phase, "prefill");
    if (!strcmp(r->phase, "decode"))
        snprintf(out, 64, r->n_gen == 1 ? "context %d" : "context %d, %d steps", (int)r->context, (int)r->n_gen);
    else if (prefill)
        snprintf(out, 64, r->n_depth ? "%d tokens after %d" : "%d tokens", (int)r->n_prompt, (int)r->n_depth);
    else
        snprintf(out, 64, "%d + %d tokens%s", (int)r->n_prompt, (int)r->n_gen, r->cache ? "" : ", no cache");
}

void row_kv(const struct result *r, char out[64])
{
    bool differ = strcmp(r->type_k, r->type_v);
    snprintf(out, 64, "%.16s%s%.16s", r->type_k, differ ? ":" : "", differ ? r->type_v : "");
}

void row_remark(struct result *r, const char *text)
{
    if (*text)
        add_reason(r, "%s", text);
}

void row_failed(struct result *r, const char *reason)
{
    put(r->verdict, "failed");
    put(r->codes, "failed");
    put(r->reason, reason);
}

static bool copy_list(const double *from, int32_t n, result_reals *to)
{
    to->value = malloc(((size_t)n + 1) * sizeof *to->value);
    if (!to->value)
        return false;
    memcpy(to->value, from, (size_t)n * sizeof *from);
    to->n = n;
    return true;
}

static bool put_samples(struct result *r, const struct subject *s, struct error *e)
{
    bool probed = s->n_samples && s->probe[0] > 0;
    bool ok = copy_list(s->sample_ns, s->n_samples, &r->samples_ns) &&
              copy_list(s->block, s->n_samples, &r->samples_block) &&
              (!probed || copy_list(s->probe, s->n_samples, &r->samples_probe));
    put(r->test_time, s->test_time);
    return ok || error_set(e, ERROR_MEMORY, "no memory for the samples of '%s'", r->key);
}

// The 95 % interval of a median over samples in blocks.
static bool interval(const double *x, const struct subject *s, double *low, double *high, struct error *e)
{
    int32_t *block = malloc(((size_t)s->n_samples + 1) * sizeof *block);
    if (!block)
        return error_set(e, ERROR_MEMORY, "no memory for %d samples", s->n_samples);
    for (int32_t i = 0; i < s->n_samples; i++)
        block[i] = (int32_t)s->block[i];
    stats_median_interval(x, block, s->n_samples, s->n_blocks, 0.95, low, high);
    free(block);
    return true;
}

double row_tokens(const struct result *r)
{
    return (double)(r->batch * (r->n_gen ? r->n_gen : r->n_prompt));
}

static bool put_statistics(struct result *r, const struct subject *s, struct error *e)
{
    int32_t n = s->n_samples;
    r->n_samples = n, r->n_blocks = s->n_blocks;
    r->median_ns = trunc(stats_median(s->sample_ns, n)); // whole, as the attribution takes it: its differences add up to it
    r->min_ns = stats_quantile(s->sample_ns, n, 0);
    r->avg_ns = stats_mean(s->sample_ns, n);
    r->stddev_ns = n > 1 ? stats_stddev(s->sample_ns, n) : NAN;
    r->tokens_per_s = row_tokens(r) / r->median_ns * 1e9;
    return interval(s->sample_ns, s, &r->median_low_ns, &r->median_high_ns, e);
}

static double or_unknown(double v)
{
    return v > 0 ? v : NAN;
}

void row_priced(struct result *r, const struct prediction *p)
{
    double bytes = (double)cost_bytes(&p->cost);
    r->bound_ns = or_unknown(p->bound_ns);
    r->floor_ns = or_unknown(p->floor_ns);
    r->roof_ns = or_unknown(p->roof_ns);
    r->roof_total_ns = or_unknown(p->roof_total_ns);
    r->roof_low_ns = r->roof_ns * (1 - p->roof_spread / 2);
    r->roof_high_ns = r->roof_ns * (1 + p->roof_spread / 2);
    put(r->roof_source, p->source);
    put(r->limit, p->limit);
    r->weight_bytes = (double)p->cost.weight_bytes;
    r->kv_read_bytes = (double)p->cost.kv_read_bytes;
    r->kv_write_bytes = (double)p->cost.kv_write_bytes;
    r->flops = (double)cost_flops(&p->cost);
    r->intensity = bytes > 0 ? r->flops / bytes : NAN;
    r->effective_GBps = bytes / r->median_ns;
    r->effective_GFLOPps = r->flops / r->median_ns;
}

// The hardware where the ceiling that limits the roof is what a probe has just found.
static struct hardware hardware_at(const struct row_context *c, const struct subject *s, double probe)
{
    struct hardware hw = *c->hw;
    enum dtype type = hardware_compute_type(&hw, s->probe_type);
    if (probe > 0 && s->probes_flops)
        hw.peak[ROOF_ATTAINABLE][type].value = probe;
    else if (probe > 0)
        hardware_set_stream(&hw, s->price.stream_bytes, probe);
    return hw;
}

static bool roof_at(const struct row_context *c, const struct subject *s, double probe, double *roof_ns, struct error *e)
{
    struct hardware hw = hardware_at(c, s, probe);
    struct prediction p;
    if (!point_price(c->plan, s->point, &hw, &p, e))
        return false;
    *roof_ns = p.roof_ns;
    return true;
}

static bool put_fraction(struct result *r, const struct row_context *c, const struct subject *s, struct error *e)
{
    double *roof = calloc((size_t)s->n_samples, 2 * sizeof *roof), *fraction = roof + s->n_samples;
    bool ok = roof || error_set(e, ERROR_MEMORY, "no memory for %d samples", s->n_samples);
    for (int32_t i = 0; ok && i < s->n_samples; i++) {
        roof[i] = s->price.roof_ns;
        if (s->probe[i] > 0)
            ok = roof_at(c, s, s->probe[i], &roof[i], e);
        fraction[i] = roof[i] / s->sample_ns[i];
    }
    if (ok) {
        r->roof_fraction = stats_median(fraction, s->n_samples);
        ok = interval(fraction, s, &r->roof_fraction_low, &r->roof_fraction_high, e);
    }
    if (ok && s->probe[0] > 0) {
        double rate = stats_median(s->probe, s->n_samples) / 1e9;
        *(s->probes_flops ? &r->probe_GFLOPps : &r->probe_GBps) = rate;
        r->roof_low_ns = stats_quantile(roof, s->n_samples, 0.1);
        r->roof_high_ns = stats_quantile(roof, s->n_samples, 0.9);
    }
    free(roof);
    return ok;
}

// At the ceilings of the file, and as each sample's moment would have it.
static bool put_prediction(struct result *r, const struct row_context *c, const struct subject *s, struct error *e)
{
    char missing[FIT_NAME];
    double *fraction = calloc((size_t)s->n_samples + 1, sizeof *fraction), ns = 0;
    bool ok = fraction ? point_predict(c->fitted, c->plan, s->point, c->hw, &ns, missing, e)
                       : error_set(e, ERROR_MEMORY, "no memory for %d samples", s->n_samples);
    r->pred_ns = or_unknown(ns);
    if (ok && !(ns > 0))
        add_reason(r, "no pred: '%s' was never fitted", missing);
    for (int32_t i = 0; ok && ns > 0 && i < s->n_samples; i++) {
        struct hardware hw = hardware_at(c, s, s->probe[i]);
        ok = point_predict(c->fitted, c->plan, s->point, &hw, &ns, missing, e);
        fraction[i] = ns / s->sample_ns[i];
    }
    if (ok && ns > 0)
        r->pred_fraction = stats_median(fraction, s->n_samples);
    free(fraction);
    return ok;
}

static void put_attribution(struct result *r, const struct subject *s)
{
    const struct attribution *a = subject_attribution(s);
    if (!a)
        return;
    double *t[] = {&r->bound_ns, &r->floor_ns, &r->roof_ns, &r->spans_ns, &r->busy_ns, &r->traced_ns, &r->median_ns};
    double *d[] = {&r->serialization_ns, &r->ceiling_ns, &r->executed_ns, &r->shortfall_ns, &r->gaps_ns, &r->observer_ns};
    for (int i = a->has_hard ? T_BOUND : T_ROOF; i < T_UNTRACED; i++)
        *t[i] = (double)a->time_ns[i]; // whole nanoseconds, so that a row's own differences agree
    for (int i = a->has_hard ? D_SERIALIZATION : D_EXECUTED; i < D_COUNT; i++)
        *d[i] = (double)a->difference_ns[i];
    r->act_bytes = (double)a->cost.act_bytes;
    r->n_traced = a->n_samples;
}

static void put_verdict(struct result *r, const struct row_context *c, const struct subject *s)
{
    struct evidence x;
    struct judgement j;
    row_evidence(r, c, s, &x);
    trust_judge(&x, &j);
    put(r->verdict, trust_verdict(j.codes));
    trust_codes_print(j.codes, r->codes);
    row_remark(r, j.reason);
    if (!(j.codes & (1u << TRUST_OVER_BOUND | 1u << TRUST_CACHE_RESIDENT)) && r->roof_fraction > 1)
        add_reason(r,
                   "%.2f times as fast as its roof: more of its data stays in caches than is known, or the ceiling is none",
                   r->roof_fraction);
}

// The ceiling beside the samples against the one the roof is made of: below it something else was at work, which
// roof_fraction has taken out and roof_ns / median_ns has not.
static void remark_probe(struct result *r, const struct row_context *c, const struct subject *s)
{
    enum dtype type = hardware_compute_type(c->hw, s->probe_type);
    double probe = stats_median(s->probe, s->n_samples);
    double ceiling =
        s->probes_flops ? c->hw->peak[ROOF_ATTAINABLE][type].value : hardware_stream(c->hw, s->price.stream_bytes).value;
    if (probe > 0 && ceiling > 0 && fabs(probe / ceiling - 1) > FAR_PROBE)
        add_reason(r, "probes found %.0f %% of the %s ceiling; %.0f %% of the roof at the full one", 100 * probe / ceiling,
                   s->probes_flops ? dtype_name(type) : "read", 100 * r->roof_ns / r->median_ns);
}

bool row_measured(struct result *r, const struct row_context *c, const struct subject *s, struct error *e)
{
    r->peak_memory_bytes = (int64_t)environment_peak_memory();
    r->memory_bytes = (int64_t)c->memory_bytes;
    if (c->load_ns)
        r->load_ns = c->load_ns, r->repack_ns = c->repack_ns;
    if (!put_samples(r, s, e) || !put_statistics(r, s, e))
        return false;
    if (s->has_price) {
        row_priced(r, &s->price);
        if (!put_fraction(r, c, s, e) || (c->fitted && !put_prediction(r, c, s, e)))
            return false;
    }
    put_attribution(r, s);
    row_counted(r, c, s);
    put_verdict(r, c, s);
    if (s->has_price && c->hw && !strstr(r->codes, trust_code_name(TRUST_CACHE_POLLUTED))) // which says so already
        remark_probe(r, c, s);
    return true;
}

static struct op_result op_row(const struct result *r, const struct attribution_op *a, const struct backend *backend)
{
    struct op_result row;
    op_result_init(&row);
    put(row.key, r->key);
    put(row.model, r->model);
    put(row.phase, r->phase);
    put(row.weights, r->weights);
    put(row.type_k, r->type_k);
    put(row.type_v, r->type_v);
    put(row.op, a->label);
    put(row.kernel, backend->kernel_name(backend->self, a->kernel));
    row.batch = r->batch, row.context = r->context, row.count = a->count;
    row.op_ns = (double)a->time_ns, row.op_roof_ns = a->roof_ns, row.op_spans_ns = a->spans_ns;
    row.op_low_ns = (double)a->low_ns, row.op_high_ns = (double)a->high_ns;
    put(row.op_limit, a->limit);
    row.weight_bytes = (double)a->cost.weight_bytes;
    row.kv_read_bytes = (double)a->cost.kv_read_bytes;
    row.kv_write_bytes = (double)a->cost.kv_write_bytes;
    row.act_bytes = (double)a->cost.act_bytes;
    row.flops = (double)cost_flops(&a->cost);
    return row;
}

bool op_rows(const struct result *r, const struct attribution *a, const struct backend *backend, struct op_result **rows,
             int32_t *n, struct error *e)
{
    *n = a ? a->n_ops : 0;
    *rows = malloc(((size_t)*n + 1) * sizeof **rows);
    if (!*rows)
        return error_set(e, ERROR_MEMORY, "no memory for the operations of '%s'", r->key);
    for (int32_t i = 0; i < *n; i++)
        (*rows)[i] = op_row(r, &a->op[i], backend);
    return true;
}
