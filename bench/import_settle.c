// Names looked up, gaps filled or named, the price: everything that decides whether a row has a roof.
#include "bench/import_job.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(char *out, const char *text)
{
    snprintf(out, sizeof(result_text), "%s", text ? text : "");
}

static void assume(struct import_job *j, const char *what)
{
    import_say(j->row->assumed, sizeof j->row->assumed, "%s", what);
}

static bool lacks(struct import_job *j, const char *what)
{
    snprintf(j->lacks, sizeof j->lacks, "%s", what);
    return false;
}

// Gaps that the command line fills.
static void apply_flags(struct import_job *j)
{
    const struct import_flags *flags = j->flags;
    struct import_facts *f = &j->f;
    if (*flags->weights && !*f->weights)
        snprintf(f->weights, sizeof f->weights, "%s", flags->weights);
    if (*flags->kv && !*f->kv_k)
        snprintf(f->kv_k, sizeof f->kv_k, "%s", flags->kv);
    if (*flags->compute && !*f->compute)
        snprintf(f->compute, sizeof f->compute, "%s", flags->compute);
    f->batch = f->batch > 0 ? f->batch : flags->batch;
    f->n_depth = f->n_depth >= 0 ? f->n_depth : flags->n_depth;
    if (f->kind != IMPORT_DECODE)
        f->n_prompt = f->n_prompt > 0 ? f->n_prompt : flags->n_prompt;
    if (f->kind != IMPORT_PREFILL)
        f->n_gen = f->n_gen > 0 ? f->n_gen : flags->n_gen;
}

static int32_t devices_named(const char *text)
{
    int32_t n = *text != 0;
    for (; *text; text++)
        n += *text == ',';
    return n > 1 ? n : 0;
}

static bool find_names(struct import_job *j)
{
    struct import_facts *f = &j->f;
    bool own_model = *j->flags->model, own_hardware = *j->flags->hardware;
    const char *model = own_model ? j->flags->model : f->model, *hardware = own_hardware ? j->flags->hardware : f->hardware;
    bool kernel = f->kind >= IMPORT_BANDWIDTH;
    int32_t named = 0;
    put(j->row->model, model);
    put(j->row->hardware, hardware);
    if (!*hardware)
        lacks(j, "hardware is missing (--hardware)");
    else
        j->hw = import_hardware(j->catalogue, hardware, own_hardware, &named, j->lacks);
    if (j->hw)
        put(j->row->hardware, j->hw->name);
    if (own_hardware) // of which the source may have named several
        named = devices_named(f->hardware);
    f->devices = f->devices > 0 ? f->devices : named;
    if (!kernel && !*model)
        return lacks(j, "model is missing (--model)");
    if (!kernel && f->pruned)
        return lacks(j, "pruned: its shape is not the published one");
    if (!kernel && !(j->spec = import_model(j->catalogue, model, own_model, j->lacks)))
        return false;
    if (j->spec)
        put(j->row->model, j->spec->name);
    return j->hw != NULL;
}

// How many devices, and whether they are known to be tensor-parallel ranks.
static void settle_devices(struct import_job *j)
{
    struct import_facts *f = &j->f;
    if (f->devices < 1 && j->flags->tp > 0)
        f->devices = j->flags->tp, f->ranks = true;
    if (f->devices < 1) {
        f->devices = 1;
        assume(j, "1 device");
    }
    if (f->devices > 1 && !f->ranks)
        assume(j, "an n-th of the work on each device, links free");
    j->row->tp = f->devices;
}

static bool settle_weights(struct import_job *j)
{
    struct import_facts *f = &j->f;
    char text[64];
    bool known = import_weight_type(f->weights, &j->bits, &j->type);
    if (!*f->weights && !(f->weight_bits > 0)) {
        j->type = j->spec->dtype, known = true;
        j->bits = 8.0 * (double)dtype_row_bytes(j->type, (uint64_t)dtype_block(j->type)) / dtype_block(j->type);
        snprintf(text, sizeof text, "weights %s", dtype_name(j->type));
        assume(j, text);
    }
    put(j->row->weights, j->type < DTYPE_COUNT ? dtype_name(j->type) : f->weights);
    if (f->weight_bits > 0 && f->weight_bits <= 64) {
        j->bits = f->weight_bits;
        return true;
    }
    if (!known && !(f->step_bytes > 0))
        return lacks(j, "type of the weights is not known (--weights)");
    if (*f->weights && known && j->bits < 8 && !(f->step_bytes > 0)) {
        snprintf(text, sizeof text, "%.4g bits a weight", j->bits);
        assume(j, text);
    }
    j->bits = known ? j->bits : 8; // scaled to step_bytes
    return true;
}

static bool has_native(const struct hardware *hw, enum dtype type)
{
    return hardware_compute_type(hw, type) == type && hardware_peak(hw, ROOF_HARD, type) > 0;
}

// Four-bit arithmetic has two formats with one rate, and units for 8 bit have one for integers where nobody printed it.
static enum dtype native_of(const struct hardware *hw, enum dtype type)
{
    if (has_native(hw, type))
        return type;
    if (type == DTYPE_NVFP4 || type == DTYPE_MXFP4)
        return type == DTYPE_NVFP4 ? DTYPE_MXFP4 : DTYPE_NVFP4;
    return type == DTYPE_INT8 && has_native(hw, DTYPE_FP8) ? DTYPE_FP8 : type;
}

// The fastest arithmetic that weights of so many bits allow: what is not known must not make a bound of a choice.
static enum dtype fastest(const struct hardware *hw, enum dtype own, double bits)
{
    static const enum dtype TYPE[] = {DTYPE_BF16, DTYPE_F16, DTYPE_FP8, DTYPE_INT8, DTYPE_NVFP4, DTYPE_MXFP4};
    bool four = own == DTYPE_NVFP4 || own == DTYPE_MXFP4;
    enum dtype best = own == DTYPE_F32 || own == DTYPE_F16 ? own : DTYPE_BF16;
    for (int i = 0; i < (bits > 12 ? 0 : four ? 6 : 4); i++)
        if (has_native(hw, TYPE[i]) && hardware_peak(hw, ROOF_HARD, TYPE[i]) > hardware_peak(hw, ROOF_HARD, best))
            best = TYPE[i];
    return best;
}

// "fp16acc": where sums in 16 bit run at twice the rate, the printed peaks are those of sums in 32 bit.
static void accumulate_fast(struct import_job *j)
{
    double times = j->hw->peak[ROOF_HARD][DTYPE_F16].value / j->hw->peak[ROOF_HARD][DTYPE_BF16].value;
    if (j->compute != DTYPE_F16 || !strcasestr(j->f.compute, "acc") || !(times > 1.5 && times < 2.5))
        return;
    j->fast = *j->hw;
    j->fast.peak[ROOF_DATASHEET][DTYPE_F16].value *= round(times);
    j->hw = &j->fast;
}

static bool settle_compute(struct import_job *j)
{
    char text[64];
    if (*j->f.compute && import_type(j->f.compute, &j->compute)) {
        j->compute = native_of(j->hw, j->compute);
        accumulate_fast(j);
        put(j->row->compute, dtype_name(j->compute));
        return true;
    }
    if (*j->f.compute) {
        snprintf(j->lacks, sizeof j->lacks, "arithmetic in '%.30s': no such peak is known", j->f.compute);
        return false;
    }
    j->compute = fastest(j->hw, j->type < DTYPE_COUNT ? j->type : DTYPE_BF16, j->bits);
    snprintf(text, sizeof text, "arithmetic in %s", dtype_name(j->compute));
    assume(j, text);
    put(j->row->compute, dtype_name(j->compute));
    return true;
}

static bool settle_kv(struct import_job *j)
{
    struct import_facts *f = &j->f;
    j->kv_stated = *f->kv_k && strcasecmp(f->kv_k, "auto");
    j->kv_k = j->kv_v = j->spec->dtype == DTYPE_F32 ? DTYPE_F32 : j->spec->dtype == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
    if (!j->kv_stated)
        return true;
    if (!import_type(f->kv_k, &j->kv_k) || !import_type(*f->kv_v ? f->kv_v : f->kv_k, &j->kv_v)) {
        snprintf(j->lacks, sizeof j->lacks, "KV of type '%.20s' is not known", *f->kv_v ? f->kv_v : f->kv_k);
        return false;
    }
    return true;
}

static bool needs_batch(enum import_kind kind)
{
    return kind == IMPORT_DECODE || kind == IMPORT_PREFILL || kind == IMPORT_GENERATE;
}

static bool settle_shape(struct import_job *j)
{
    struct import_facts *f = &j->f;
    if (f->kind == IMPORT_UNKNOWN) {
        snprintf(j->lacks, sizeof j->lacks, "phase '%.30s' is none that is known: decode, prefill, e2e_static ...",
                 f->phase);
        return false;
    }
    if (f->kind == IMPORT_TOKENS)
        f->batch = 1, f->n_gen = 1, f->n_prompt = 0, f->n_depth = 0;
    if (f->kind == IMPORT_DECODE && f->n_gen < 1) {
        f->n_gen = 1;
        assume(j, "one step");
    }
    if (needs_batch(f->kind) && f->batch < 1)
        return lacks(j, "batch is missing (--batch)");
    if (f->kind != IMPORT_PREFILL && f->n_gen < 1)
        return lacks(j, "output length is missing (--n-gen)");
    if (f->kind == IMPORT_DECODE && f->n_depth < 0)
        assume(j, "no context before the first step"); // the least, so that a bound stays one
    if (f->kind == IMPORT_PREFILL && f->n_prompt < 1)
        return lacks(j, "prompt length is missing (--n-prompt)");
    if ((f->kind == IMPORT_GENERATE || f->kind == IMPORT_SERVE) && f->n_prompt < 1) {
        f->n_prompt = 1;
        assume(j, "prompts of 1 token");
    }
    double each = (double)(f->n_prompt + f->n_gen);
    if (f->request_tokens > 0 && fabs(each / f->request_tokens - 1) > 0.1) {
        snprintf(j->lacks, sizeof j->lacks, "%lld + %lld tokens are not the %.5g of a request", (long long)f->n_prompt,
                 (long long)f->n_gen, f->request_tokens);
        return false;
    }
    f->n_depth = f->n_depth < 0 ? 0 : f->n_depth;
    f->n_prompt = f->n_prompt < 0 ? 0 : f->n_prompt;
    f->n_gen = f->n_gen < 0 ? 0 : f->n_gen;
    return true;
}

static bool make_plan(struct import_job *j, struct error *e)
{
    struct plan_options options = plan_options_default(DTYPE_BF16); // 16 bit; scaled to what a weight takes
    options.kv_k = j->kv_k, options.kv_v = j->kv_v;
    options.compute = j->compute;
    options.tp = j->f.ranks ? j->f.devices : 1;
    if (j->has_plan)
        plan_free(&j->plan);
    j->has_plan = plan_make(&j->plan, j->spec, &options, e);
    return j->has_plan;
}

// Weights that one token of one step reads, in the plan's 16 bit.
static bool step_weights(const struct plan *plan, double *bytes, struct error *e)
{
    struct batch batch;
    struct cost cost;
    if (!batch_make_uniform(&batch, 1, 1, 1, 1, e))
        return false;
    bool ok = cost_of_step(plan, &batch, NULL, 0, &cost, e);
    batch_free(&batch);
    *bytes = (double)cost.weight_bytes;
    return ok && *bytes > 0;
}

static bool set_work(struct import_job *j, struct error *e)
{
    const struct import_facts *f = &j->f;
    double bytes;
    j->work = (struct import_work){.plan = &j->plan,
                                   .hw = j->hw,
                                   .kind = f->kind,
                                   .devices = f->devices,
                                   .ranks = f->ranks,
                                   .weight_scale = j->bits / 16,
                                   .batch = f->batch,
                                   .n_prompt = f->n_prompt,
                                   .n_gen = f->n_gen,
                                   .n_depth = f->n_depth,
                                   .steps_follow = f->steps_follow,
                                   .requests = f->requests,
                                   .tokens_per_step = f->tokens_per_step};
    if (!(f->step_bytes > 0))
        return true;
    if (!step_weights(&j->plan, &bytes, e))
        return false;
    j->work.weight_scale = f->step_bytes / (f->ranks ? f->devices : 1) / bytes;
    return true;
}

// The KV type that nobody stated: 16 bit unless that could not have been in memory and 8 bit could.
static bool settle_memory(struct import_job *j, struct error *e)
{
    char need[24], have[24], text[80];
    double memory = (double)j->hw->memory_bytes;
    bool open = j->f.kind == IMPORT_TOKENS || j->work.batch < 1;
    if (!open && memory > 0 && !j->kv_stated && import_memory(&j->work) > memory) {
        enum dtype was = j->kv_k;
        j->kv_k = j->kv_v = DTYPE_FP8;
        if (!make_plan(j, e))
            return false;
        if (import_memory(&j->work) > memory) {
            j->kv_k = j->kv_v = was;
            if (!make_plan(j, e))
                return false;
        }
    }
    if (!j->kv_stated && j->f.kind != IMPORT_TOKENS) {
        snprintf(text, sizeof text, "KV %s%s", dtype_name(j->kv_k), j->kv_k == DTYPE_FP8 ? ", more would not fit" : "");
        assume(j, text);
    }
    if (!open && memory > 0 && import_memory(&j->work) > memory)
        import_say(j->f.remark, sizeof j->f.remark, "does not fit: needs %s of %s on each device",
                   format_bytes((uint64_t)import_memory(&j->work), need), format_bytes(j->hw->memory_bytes, have));
    return true;
}

// Requests at a time that nobody stated: as many as fit, which no schedule exceeds.
static bool settle_concurrency(struct import_job *j)
{
    struct import_facts *f = &j->f;
    if (f->kind != IMPORT_SERVE)
        return true;
    if (f->batch < 1) {
        j->work.batch = j->hw->memory_bytes ? import_capacity(&j->work) : 1 << 16;
        if (j->work.batch < 1)
            return lacks(j, "not one request fits into memory beside the weights");
        assume(j, j->hw->memory_bytes ? "as many requests at a time as fit" : "any number of requests at a time");
    }
    if (f->requests > 1 && (double)j->work.batch > f->requests)
        j->work.batch = (int64_t)f->requests;
    f->batch = j->work.batch;
    return true;
}

// A stated number of parameters tells a model from others of its name.
static bool check_parameters(struct import_job *j)
{
    double all = 0;
    for (int32_t i = 0; i < j->plan.n_tensors; i++)
        all += (double)j->plan.tensor[i].rows * (double)j->plan.tensor[i].cols;
    all *= j->f.ranks ? j->f.devices : 1;
    if (!(j->f.parameters > 0) || fabs(all / j->f.parameters - 1) < 0.1)
        return true;
    snprintf(j->lacks, sizeof j->lacks, "%.3g parameters are stated, '%.60s' has %.3g", j->f.parameters, j->spec->name, all);
    return false;
}

static bool not_priced(struct import_job *j, const struct error *e)
{
    snprintf(j->lacks, sizeof j->lacks, "%.199s", e->message);
    return false;
}

// Tokens that the stated rate counts in the time of what is priced; 0 where the shape does not say.
static double tokens_of(const struct import_facts *f)
{
    double batch = f->batch > 0 ? (double)f->batch : 0, gen = f->n_gen > 0 ? (double)f->n_gen : 0;
    switch (f->kind) {
    case IMPORT_DECODE:
    case IMPORT_GENERATE: return batch * gen;
    case IMPORT_PREFILL: return f->n_prompt > 0 ? batch * (double)f->n_prompt : 0;
    case IMPORT_SERVE: return f->requests > 0 ? f->requests * gen : 0;
    case IMPORT_TOKENS: return 1;
    default: return 0;
    }
}

static void settle_time(struct import_job *j)
{
    struct import_facts *f = &j->f;
    double tokens = tokens_of(f);
    if (!(f->time_ns > 0) && f->tokens_per_s > 0 && tokens > 0)
        f->time_ns = tokens / f->tokens_per_s * 1e9;
    if (!(f->time_ns > 0) && f->step_ns > 0 && f->n_gen > 0)
        f->time_ns = f->step_ns * (double)f->n_gen;
    if (!(f->tokens_per_s > 0) && f->time_ns > 0 && tokens > 0)
        f->tokens_per_s = tokens / f->time_ns * 1e9;
}

// Speculation yields several tokens per step of the model. How many is not stated, so nothing can be held to a roof; but
// it says much what the number would be without.
static bool lacks_acceptance(struct import_job *j)
{
    struct import_price price;
    double bound = 0;
    settle_time(j);
    if (import_price(&j->work, &price, NULL) && j->f.time_ns > 0)
        bound = price.prediction.bound_ns / j->f.time_ns;
    lacks(j, "speculative decoding, tokens per step not stated");
    if (bound > 0)
        import_say(j->lacks, sizeof j->lacks, "with one token per step it would be at %.0f %% of the bound", 100 * bound);
    return false;
}

static bool price_model(struct import_job *j)
{
    struct error e = {0};
    if (!settle_weights(j) || !settle_compute(j) || !settle_kv(j) || !settle_shape(j))
        return false;
    if (!make_plan(j, &e) && j->f.ranks) { // heads that do not divide: whatever the engine did instead
        j->f.ranks = false;
        assume(j, "an n-th of the work on each device, links free");
        make_plan(j, &e);
    }
    if (!j->has_plan)
        return not_priced(j, &e);
    if (!check_parameters(j))
        return false;
    if (!set_work(j, &e) || !settle_memory(j, &e))
        return not_priced(j, &e);
    if (!settle_concurrency(j))
        return false;
    if (j->f.speculative)
        return lacks_acceptance(j);
    return import_price(&j->work, &j->price, &e) || not_priced(j, &e);
}

// A second of a kernel: its rate against the resource it is about.
static bool price_kernel(struct import_job *j)
{
    struct prediction *p = &j->price.prediction;
    const struct hardware *hw = j->hw;
    double rate = j->f.rate, hard, printed, best;
    enum roof_kind kind;
    if (!(rate > 0))
        return lacks(j, "its rate is missing");
    rate /= j->f.devices > 1 ? j->f.devices : 1;
    if (j->f.kind == IMPORT_PEAK) {
        if (!*j->f.compute)
            return lacks(j, "type of the arithmetic is missing (--compute)");
        if (!settle_compute(j))
            return false;
        hw = j->hw; // which fast accumulation replaces
        enum dtype type = hardware_compute_type(hw, j->compute);
        kind = roofline_peak_kind(hw, type);
        hard = hardware_peak(hw, ROOF_HARD, type), printed = hardware_peak(hw, ROOF_DATASHEET, type);
        best = hardware_peak(hw, kind, type);
        p->cost.flops[type] = (uint64_t)rate;
    } else {
        bool link = j->f.kind == IMPORT_LINK;
        kind = link ? ROOF_DATASHEET : roofline_bandwidth_kind(hw);
        hard = link ? hardware_link(hw) : hardware_bandwidth(hw, ROOF_HARD);
        printed = link ? hard : hardware_bandwidth(hw, ROOF_DATASHEET);
        best = link ? hard : hardware_bandwidth(hw, kind);
    }
    j->f.time_ns = 1e9;
    p->bound_ns = hard > 0 ? rate / hard * 1e9 : 0;
    p->roof_ns = p->roof_total_ns = best > 0 ? rate / best * 1e9 : 0;
    j->price.datasheet_ns = printed > 0 ? rate / printed * 1e9 : 0;
    snprintf(p->limit, sizeof p->limit, "%s",
             j->f.kind == IMPORT_PEAK   ? "compute"
             : j->f.kind == IMPORT_LINK ? "link"
                                        : "bandwidth");
    snprintf(p->source, sizeof p->source, "%s", best > 0 ? roof_kind_name(kind) : "");
    return best > 0 || lacks(j, "the hardware states no such peak");
}

bool import_settle(struct import_job *j)
{
    apply_flags(j);
    bool named = find_names(j);
    settle_devices(j);
    bool priced = named && (j->f.kind >= IMPORT_BANDWIDTH ? price_kernel(j) : price_model(j));
    settle_time(j);
    if (!priced)
        return false;
    return j->f.time_ns > 0 || j->f.n_samples || lacks(j, "its time is missing");
}
