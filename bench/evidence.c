#include "bench/evidence.h"

#include "engine/base/stats.h"

#include <math.h>
#include <string.h>

// The median of the probes that were made, over their ceiling.
static double share_of(const double *probe, int32_t n, double ceiling)
{
    return n && probe[0] > 0 && ceiling > 0 ? stats_median(probe, n) / ceiling : NAN;
}

static void put_probes(struct result *r, const struct row_context *c, const struct subject *s)
{
    if (!c->hw)
        return;
    double read = hardware_stream(c->hw, s->price.stream_bytes).value, flops = c->hw->peak[ROOF_ATTAINABLE][DTYPE_F32].value;
    r->read_share =
        s->probes_flops ? share_of(s->beside.edge_read, s->beside.n_edges, read) : share_of(s->probe, s->n_samples, read);
    r->arithmetic_share = share_of(s->beside.edge_flops, s->beside.n_edges, flops);
    if (s->beside.n_edges >= 4 && s->beside.edge_flops[0] > 0)
        r->arithmetic_drift =
            fmax(s->beside.edge_flops[s->beside.n_edges - 2], s->beside.edge_flops[s->beside.n_edges - 1]) /
            fmax(s->beside.edge_flops[0], s->beside.edge_flops[1]);
}

static void put_disturbance(struct result *r, const struct row_context *c, const struct subject *s)
{
    const struct disturbance *d = &s->beside.disturbance;
    if (!c->watch || !d->wall_ns)
        return;
    r->waited_share = disturbance_waited(d);
    r->other_cpu_share = disturbance_other(d, c->watch->n_cpus);
    r->steal_share = disturbance_steal(d, c->watch->n_cpus);
    r->involuntary_switches = d->involuntary;
}

static void add_absent(struct result *r, const char *what, const char *why)
{
    size_t n = strlen(r->absent);
    snprintf(r->absent + n, sizeof r->absent - n, "%s%s%s", n ? "; " : "", what, why);
}

static void put_counters(struct result *r, const struct row_context *c, const struct subject *s)
{
    r->cycles = s->counted[COUNTER_CYCLES];
    r->instructions = s->counted[COUNTER_INSTRUCTIONS];
    r->llc_misses = s->counted[COUNTER_LLC_MISSES];
    r->page_faults = s->counted[COUNTER_PAGE_FAULTS];
    r->context_switches = s->counted[COUNTER_CONTEXT_SWITCHES];
    if (!s->n_traced)
        add_absent(r, "cycles to context_switches: ", "no sample is traced without a roof");
    else if (c->counters && *c->counters->absent)
        add_absent(r, "", c->counters->absent);
}

static void put_energy(struct result *r, const struct row_context *c, const struct subject *s)
{
    r->energy_J = s->energy_J;
    r->token_energy_J = s->energy_J / row_tokens(r);
    if (c->energy && *c->energy->absent)
        add_absent(r, "energy_J: ", c->energy->absent);
}

static void put_device(struct result *r, const struct subject *s)
{
    r->dram_bytes = s->device.dram_bytes;
    r->l2_bytes = s->device.l2_bytes;
    r->tensor_flops = s->device.tensor_flops;
    r->gpu_MHz = s->beside.gpu.clock_MHz, r->gpu_W = s->beside.gpu.power_W, r->gpu_C = s->beside.gpu.temperature_C;
    gpu_limits_print(s->beside.gpu.limits, r->gpu_limits);
    if (*s->not_counted)
        add_absent(r, "dram_bytes to tensor_flops: ", s->not_counted);
    if (*s->tracing)
        add_absent(r, "traces: ", s->tracing);
}

void row_counted(struct result *r, const struct row_context *c, const struct subject *s)
{
    put_probes(r, c, s);
    put_disturbance(r, c, s);
    put_counters(r, c, s);
    put_device(r, s);
    put_energy(r, c, s);
    if (c->watch && s->beside.disturbance.waited_ns < 0)
        add_absent(r, "waited_share: ", "no /proc/self/task/*/schedstat");
}

// Of what one step reads, how much the caches of this machine keep until the next: as its ceilings found, else by their
// size.
static double kept_bytes(const struct row_context *c, const struct subject *s)
{
    uint64_t step = s->price.stream_bytes;
    if (!s->has_price || !c->cache_bytes)
        return NAN;
    return (double)(c->hw->n_levels ? hardware_kept(c->hw, step) : step <= c->cache_bytes ? step : 0);
}

static double spread_of(const struct subject *s)
{
    return stats_quantile(s->sample_ns, s->n_samples, 0.9) - stats_quantile(s->sample_ns, s->n_samples, 0.1);
}

void row_evidence(const struct result *r, const struct row_context *c, const struct subject *s, struct evidence *out)
{
    const struct disturbance *d = &s->beside.disturbance;
    *out = (struct evidence){
        .n_samples = s->n_samples,
        .median_ns = r->median_ns,
        .interval = (r->median_high_ns - r->median_low_ns) / r->median_ns,
        .spread = spread_of(s) / r->median_ns,
        .bound_ns = r->bound_ns,
        .waited = r->waited_share,
        .other = r->other_cpu_share,
        .steal = r->steal_share,
        .usual_steal = c->watch ? c->watch->usual_steal : NAN,
        .affinity_changed = d->affinity_changed,
        .crowded = c->crowded,
        .clock_drift = d->first_kHz > 0 ? d->last_kHz / d->first_kHz : NAN,
        .arithmetic = r->arithmetic_share,
        .arithmetic_drift = r->arithmetic_drift,
        .read = r->read_share,
        .gpu_limits = gpu_limits_throttle(s->beside.gpu.limits) ? r->gpu_limits : NULL,
        .memory_limited = !strcmp(r->limit, "bandwidth"),
        .step_bytes = s->has_price ? (double)s->price.stream_bytes : NAN,
        .kept_bytes = kept_bytes(c, s),
    };
}
