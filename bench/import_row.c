// What came of a row: its shape, its times, the roof beside them, the verdict.
#include "bench/import_job.h"
#include "bench/rows.h"
#include "bench/trust.h"
#include "engine/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A source's own rate that differs by more from what follows here is worth a remark.
#define FAR 0.02

static void put(char *out, const char *text)
{
    snprintf(out, sizeof(result_text), "%s", text ? text : "");
}

static void put_interval(struct result *r)
{
    int32_t n = r->samples_ns.n, *block = calloc((size_t)n + 1, sizeof *block);
    for (int32_t i = 0; block && i < n; i++)
        block[i] = i; // each its own
    if (block)
        stats_median_interval(r->samples_ns.value, block, n, n, 0.95, &r->median_low_ns, &r->median_high_ns);
    free(block);
}

static bool put_times(struct import_job *j, struct error *e)
{
    struct import_facts *f = &j->f;
    struct result *r = j->row;
    if (f->n_samples) {
        r->samples_ns.value = malloc((size_t)f->n_samples * sizeof *f->sample_ns);
        if (!r->samples_ns.value)
            return error_set(e, ERROR_MEMORY, "no memory for the samples of '%s'", f->where);
        memcpy(r->samples_ns.value, f->sample_ns, (size_t)f->n_samples * sizeof *f->sample_ns);
        r->samples_ns.n = f->n_samples, r->n_samples = f->n_samples;
        r->median_ns = stats_median(f->sample_ns, f->n_samples);
        r->min_ns = stats_quantile(f->sample_ns, f->n_samples, 0);
        put_interval(r);
    }
    if (!(f->time_ns > 0) && f->n_samples)
        f->time_ns = stats_mean(f->sample_ns, f->n_samples);
    if (f->time_ns > 0) {
        r->avg_ns = f->time_ns;
        r->median_ns = f->n_samples ? r->median_ns : f->time_ns;
    }
    if (f->stddev_ns > 0)
        r->stddev_ns = f->stddev_ns;
    if (f->tokens_per_s > 0)
        r->tokens_per_s = f->tokens_per_s;
    return true;
}

static const char *phase_word(enum import_kind kind)
{
    static const char *const WORD[] = {"",       "decode",    "prefill", "generate", "generate",
                                       "tokens", "bandwidth", "peak",    "link"};
    return WORD[kind];
}

static int64_t known(int64_t n)
{
    return n < 0 ? RESULT_UNKNOWN : n;
}

static void describe(struct import_job *j)
{
    const struct import_facts *f = &j->f;
    struct result *r = j->row;
    put(r->phase, f->kind == IMPORT_UNKNOWN ? f->phase : phase_word(f->kind));
    put(r->backend, f->engine);
    put(r->test_time, f->test_time);
    if (*f->source)
        snprintf(r->source, sizeof r->source, "%.190s", f->source);
    else
        snprintf(r->source, sizeof r->source, "%.190s", f->where);
    put(r->assumed, f->assumed);
    r->threads = known(f->threads);
}

static void describe_shape(struct import_job *j)
{
    const struct import_facts *f = &j->f;
    struct result *r = j->row;
    bool open = f->kind == IMPORT_TOKENS;
    r->batch = open || f->batch < 1 ? RESULT_UNKNOWN : f->batch;
    r->n_prompt = open ? RESULT_UNKNOWN : known(f->n_prompt);
    r->n_gen = known(f->n_gen);
    r->n_depth = open ? RESULT_UNKNOWN : known(f->n_depth);
    if (f->kind >= IMPORT_BANDWIDTH)
        r->batch = r->n_prompt = r->n_gen = r->n_depth = RESULT_UNKNOWN;
    else if (!open && f->n_depth >= 0 && f->n_prompt >= 0)
        r->context = f->n_depth + f->n_prompt + (f->kind != IMPORT_PREFILL);
    if (f->kind != IMPORT_UNKNOWN && f->kind <= IMPORT_SERVE)
        r->cache = 1;
    // A type that is not known is told in its own words.
    put(r->type_k, j->spec && j->kv_k < DTYPE_COUNT ? dtype_name(j->kv_k) : f->kv_k);
    put(r->type_v, j->spec && j->kv_v < DTYPE_COUNT ? dtype_name(j->kv_v) : *f->kv_v ? f->kv_v : f->kv_k);
}

static void put_roof(struct import_job *j)
{
    struct result *r = j->row;
    bool kernel = j->f.kind >= IMPORT_BANDWIDTH;
    row_priced(r, &j->price.prediction);
    r->datasheet_ns = j->price.datasheet_ns > 0 ? j->price.datasheet_ns : NAN;
    r->roof_fraction = r->roof_ns / r->median_ns;
    if (j->f.kind == IMPORT_TOKENS)
        r->weight_bytes = r->kv_read_bytes = r->kv_write_bytes = r->effective_GBps = NAN;
    if (kernel) {
        r->weight_bytes = r->kv_read_bytes = r->kv_write_bytes = NAN;
        r->effective_GBps = j->f.kind == IMPORT_PEAK ? NAN : j->f.rate / 1e9;
        r->flops = j->f.kind == IMPORT_PEAK ? r->flops : NAN;
        r->effective_GFLOPps = j->f.kind == IMPORT_PEAK ? j->f.rate / 1e9 : NAN;
        return;
    }
    r->kv_bytes_per_token = (int64_t)plan_kv_bytes_per_token(&j->plan);
    r->model_bytes = (int64_t)((double)plan_weight_bytes(&j->plan) * j->work.weight_scale);
}

// What the samples say of themselves; nobody watched the machine meanwhile.
static unsigned judge_samples(struct import_job *j)
{
    struct result *r = j->row;
    double p90 = stats_quantile(j->f.sample_ns, j->f.n_samples, 0.9),
           p10 = stats_quantile(j->f.sample_ns, j->f.n_samples, 0.1);
    struct evidence x = trust_nothing_known();
    struct judgement out;
    x.n_samples = j->f.n_samples, x.median_ns = r->median_ns;
    x.interval = (r->median_high_ns - r->median_low_ns) / r->median_ns;
    x.spread = (p90 - p10) / r->median_ns;
    trust_judge(&x, &out);
    put(r->reason, out.reason);
    return out.codes;
}

// What usually stands behind a number that physics excludes.
static const char *suspicion(const struct import_job *j)
{
    double times = j->row->bound_ns / j->row->median_ns, devices = round(times);
    switch (j->f.kind) {
    case IMPORT_PEAK: return times > 1.5 ? "a sparse peak, or several devices together?" : "another type of arithmetic?";
    case IMPORT_BANDWIDTH: return "data in a cache, both directions, or several devices together?";
    case IMPORT_LINK: return times > 1.5 ? "both directions together?" : "several links together?";
    case IMPORT_SERVE: return "more requests at a time, prefixes cached, or several devices together?";
    case IMPORT_PREFILL: return "prefix cached, other lengths, or several devices together?";
    default:
        return devices >= 2 && j->f.devices == 1 && fabs(times - devices) < 0.2
                   ? "several devices together?"
                   : "speculative decoding, other lengths or types, or several devices together?";
    }
}

static void put_verdict(struct import_job *j)
{
    struct result *r = j->row;
    unsigned codes = j->f.n_samples ? judge_samples(j) : 0;
    if (r->median_ns * (1 + j->f.rounding) < r->bound_ns) {
        codes |= 1u << TRUST_OVER_BOUND;
        import_say(r->reason, sizeof r->reason, "%.3g times what hard peaks allow: %s", r->bound_ns / r->median_ns,
                   suspicion(j));
    } else if (r->median_ns * (1 + j->f.rounding) < r->datasheet_ns)
        import_say(r->reason, sizeof r->reason, "%.3g times the printed datasheet, which clocks and accumulation may exceed",
                   r->datasheet_ns / r->median_ns);
    put(r->verdict, codes || j->f.n_samples ? trust_verdict(codes) : "reported");
    trust_codes_print(codes, r->codes);
    if (r->roof_fraction > 1.005 && !(codes & 1u << TRUST_OVER_BOUND))
        import_say(r->reason, sizeof r->reason,
                   "%.3g times as fast as its roof: data in caches, or another way to use the device", r->roof_fraction);
    if (j->f.trap)
        import_say(r->reason, sizeof r->reason, "its source says that the number is a trap");
}

// The weights and the input embedding over the weights alone, of which a step looks up one row.
static double with_embedding(const struct import_job *j)
{
    double table = (double)j->spec->vocab_size * j->spec->hidden_size * 2 * j->work.weight_scale, bytes;
    bytes = j->row->weight_bytes / (double)(j->f.n_gen > 0 ? j->f.n_gen : 1) * j->f.devices;
    return j->spec->tie_word_embeddings ? 1 : (bytes + table) / bytes;
}

// Bytes per second that the source computed for itself, against those counted here.
static void compare_rate(struct import_job *j)
{
    double ours = j->row->effective_GBps * 1e9 * (j->f.ranks ? 1 : j->f.devices), times = j->f.stated_rate / ours;
    const char *hint = "";
    if (!(j->f.stated_rate > 0) || !(ours > 0) || fabs(times - 1) <= FAR + j->f.rounding)
        return;
    if (fabs(times - with_embedding(j)) < 0.015)
        hint = ", as if the whole embedding table were read";
    else if (fabs(times - 0x1p30 / 1e9) < 0.015)
        hint = ", as GiB taken for GB would be";
    import_say(j->row->reason, sizeof j->row->reason, "its %.4g GB/s are %.3g times the bytes counted here%s",
               j->f.stated_rate / 1e9, times, hint);
}

bool import_row(struct import_catalogue *c, const struct import_facts *facts, const struct import_flags *flags,
                struct result *row, const struct hardware **hw, struct error *e)
{
    struct import_job j = {.catalogue = c, .flags = flags, .f = *facts, .row = row, .type = DTYPE_COUNT};
    result_init(row);
    describe(&j);
    bool priced = import_settle(&j), ok = put_times(&j, e);
    *hw = j.hw;
    describe_shape(&j);
    if (ok && priced)
        put_roof(&j);
    put_verdict(&j);
    compare_rate(&j);
    if (*j.lacks)
        import_say(row->reason, sizeof row->reason, "no roof: %s", j.lacks);
    if (*j.f.remark)
        import_say(row->reason, sizeof row->reason, "%s", j.f.remark);
    if (!*row->weights)
        put(row->weights, j.f.weights);
    if (j.has_plan)
        plan_free(&j.plan);
    return ok;
}
