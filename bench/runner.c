#include "bench/runner.h"

#include "bench/device_ceilings.h"
#include "bench/environment.h"
#include "bench/open.h"
#include "bench/trust.h"
#include "engine/base/memory.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "engine/null/null.h"

#include <stdlib.h>
#include <string.h>

// Points that take turns. More would spread the blocks of one over a longer time, and lose more when a machine dies.
enum { WINDOW = 8 };
// A sweep whose shortest samples alone take so many times its budget gives up what is left.
enum { BUDGET_TIMES = 2 };
// What a probe beside a sample takes, about.
#define PROBE_NS 0.05e9
// What every reason for want of memory says.
#define NO_MEMORY " of memory"

struct unit { // points that share model, weights and threads: points->point[first .. first + count - 1]
    int32_t first, count;
    struct runner *runner;
    struct opened opened;
    struct row_context context;
    struct watch watch;
    struct counters counters;
    struct energy energy;
};

static bool same_unit(const struct point *a, const struct point *b)
{
    return a->model == b->model && a->own_weights == b->own_weights && a->weights == b->weights && a->threads == b->threads;
}

static bool same_pool(const struct point *a, const struct point *b)
{
    return a->own_kv == b->own_kv && a->kv.k == b->kv.k && a->kv.v == b->kv.v && a->kv.own_k == b->kv.own_k &&
           a->kv.own_v == b->kv.own_v && a->block == b->block;
}

double expected_sample_ns(double roof_ns)
{
    return 3 * roof_ns; // plain kernels: a third of the roof
}

double expected_point_ns(const struct scenario *s, double roof_ns)
{
    double sample = expected_sample_ns(roof_ns), budget = s->seconds * 1e9;
    double probed = sample + PROBE_NS, samples = probed * s->samples < budget ? probed * s->samples : budget;
    if (samples < N_BLOCKS * probed)
        samples = N_BLOCKS * probed;
    double untimed = sample < 1e9 ? 2 * N_BLOCKS * sample : 2 * sample; // a warm-up and a trace per block, or only once
    double all = (roof_ns > 0 ? samples : budget) + untimed + 0.2e9;    // and the probes at the blocks' edges
    return all < s->timeout_s * 1e9 ? all : s->timeout_s * 1e9;
}

static void note_codes(struct runner *r, const struct result *row)
{
    unsigned codes;
    if (!trust_codes_parse(row->codes, &codes, NULL) || !(codes & r->fail_on))
        return;
    if (!r->n_distrusted++)
        snprintf(r->first_distrusted, sizeof r->first_distrusted, "'%.160s' (%.60s): %.200s", row->key, row->codes,
                 row->reason);
}

static void note_verdict(struct runner *r, const struct result *row)
{
    r->n_measured++;
    note_codes(r, row);
    r->n_no_memory += !strcmp(row->verdict, "failed") && strstr(row->reason, NO_MEMORY);
    if (!strcmp(row->verdict, "failed") && !r->n_failed++)
        snprintf(r->first_failed, sizeof r->first_failed, "'%.160s': %.255s", row->key, row->reason);
    if (!strcmp(row->verdict, "over-bound") && !r->n_over_bound++)
        snprintf(r->first_over_bound, sizeof r->first_over_bound, "'%.160s': %.255s", row->key, row->reason);
}

bool runner_verdict(const struct runner *r, struct error *e)
{
    if (r->n_over_bound)
        return error_set(e, ERROR_OVER_BOUND, "%d of %d points over-bound, first %.400s", r->n_over_bound, r->n_measured,
                         r->first_over_bound);
    if (r->n_failed && r->n_no_memory == r->n_measured)
        return error_set(e, ERROR_MEMORY, "%s", r->first_failed);
    if (r->n_failed)
        return error_set(e, ERROR_FAILED, "%d of %d points failed, first %.400s", r->n_failed, r->n_measured,
                         r->first_failed);
    if (r->n_distrusted)
        return error_set(e, ERROR_DISTRUSTED, "%d of %d points are not to be trusted (--fail-on), first %.300s",
                         r->n_distrusted, r->n_measured, r->first_distrusted);
    return true;
}

static bool finish_point(struct runner *r, const struct unit *u, struct subject *s, struct error *e)
{
    struct result row;
    struct op_result *ops = NULL;
    int32_t n_ops = 0;
    result_init(&row);
    row_describe(&row, &u->context, s->point);
    row_remark(&row, r->raised);
    if (*s->failure)
        row_failed(&row, s->failure);
    else if (!row_measured(&row, &u->context, s, e) ||
             !op_rows(&row, subject_attribution(s), &u->opened.backend, &ops, &n_ops, e)) {
        result_free(&row);
        return false;
    }
    if (!*s->failure) // else the next row says it
        *r->raised = 0;
    note_verdict(r, &row);
    progress_point(r->progress, (int32_t)(s->point - r->points->point), s->point->key, 0, 0, row.median_ns, true);
    return store_add(r->store, &row, ops, n_ops, e);
}

static bool fail_point(struct runner *r, const struct unit *u, const struct point *p, const char *reason, struct error *e)
{
    struct subject s;
    subject_init(&s, p);
    snprintf(s.failure, sizeof s.failure, "%.300s", reason);
    progress_done(r->progress, 0.1e9);
    return finish_point(r, u, &s, e);
}

// Blocks that an interrupted sweep has in its journal, in order.
static bool restore(struct runner *r, struct subject *s, struct error *e)
{
    for (int32_t i = 0; i < r->store->n_blocks && s->n_blocks < N_BLOCKS; i++) {
        const struct sample_block *b = &r->store->block[i];
        if (!strcmp(b->key, s->point->key) && b->block == s->n_blocks && !subject_restore(s, b, e))
            return false;
    }
    return true;
}

static bool keep_block(struct runner *r, const struct subject *s, int32_t from, struct error *e)
{
    struct sample_block b = {.block = s->n_blocks - 1,
                             .n = s->n_samples - from,
                             .sample_ns = s->sample_ns + from,
                             .probe = s->probe + from,
                             .beside = s->beside};
    snprintf(b.key, sizeof b.key, "%s", s->point->key);
    snprintf(b.test_time, sizeof b.test_time, "%s", s->test_time);
    return store_add_block(r->store, &b, e);
}

// The roof of a point, and which ceiling to probe beside its samples.
static bool price(struct runner *r, const struct unit *u, struct subject *s, struct error *e)
{
    if (!r->has_hardware)
        return true;
    if (!point_price(u->opened.plan, s->point, &r->hardware, &s->price, e))
        return false;
    s->has_price = true;
    s->probe_type = plan_compute_type(u->opened.plan);
    s->probes_flops = !strcmp(s->price.limit, "compute");
    if (r->has_probe && s->price.roof_ns > r->scenario->timeout_s * 1e9) // by this machine's own ceilings
        snprintf(s->failure, sizeof s->failure, "one sample takes at least %.1f s, --timeout is %g s",
                 s->price.roof_ns / 1e9, r->scenario->timeout_s);
    return true;
}

// The share of its seconds that a point may still take: all of them while the sweep keeps to its budget.
static double budget_share(const struct runner *r)
{
    double left = r->scenario->budget_s * 1e9 - (double)(clock_ns() - r->began_ns), work = progress_left_ns(r->progress);
    if (!(r->scenario->budget_s > 0) || work <= left)
        return 1;
    store_note(r->store, "samples were left out to keep to %g s (budget_s); every point has at least %d",
               r->scenario->budget_s, N_BLOCKS);
    return left > 0 ? left / work : 0;
}

static bool keep_ceilings(struct runner *r, struct error *e)
{
    char path[640];
    if (r->ceilings_folder) {
        ceilings_path(r->ceilings_folder, r->probe.threads, path);
        if (!hardware_save(&r->hardware, path, e))
            return false;
    }
    return store_hardware(r->store, &r->hardware, e);
}

static void describe_raise(const struct runner *r, const char *what, double was, double is, char out[160])
{
    snprintf(out, 160, "%s ceiling of %s raised from %.3g to %.3g %s, as probes beside samples reached that", what,
             r->hardware.name, was / 1e9, is / 1e9, strcmp(what, "read") ? "GFLOP/s" : "GB/s");
}

// The best probe of the samples from `from` on is one moment of the ceiling they probe. A ceiling that two moments have
// beaten is none: it is raised, for all points that finish from now on and for whoever reads its file.
static bool raise_ceiling(struct runner *r, const struct subject *s, int32_t from, struct error *e)
{
    enum dtype type = hardware_compute_type(&r->hardware, s->probe_type);
    struct ceiling_best *best = s->probes_flops ? &r->peak[type] : &r->read;
    struct hw_value *attained =
        s->probes_flops ? r->hardware.peak[ROOF_ATTAINABLE] + type : r->hardware.bandwidth + ROOF_ATTAINABLE;
    double was = attained->value, rate = 0;
    for (int32_t i = from; i < s->n_samples; i++)
        rate = s->probe[i] > rate ? s->probe[i] : rate;
    if (!s->probes_flops && !hardware_from_memory(&r->hardware, s->price.stream_bytes))
        return true; // the probe was of a cache
    ceiling_best_add(best, rate);
    if (!r->has_probe || !ceiling_raise(attained, best))
        return true;
    describe_raise(r, s->probes_flops ? dtype_name(type) : "read", was, attained->value, r->raised);
    return keep_ceilings(r, e);
}

// Once for each ceiling, however often it was raised.
static void note_raises(struct runner *r)
{
    char text[160];
    if (r->read.was > 0) {
        describe_raise(r, "read", r->read.was, r->hardware.bandwidth[ROOF_ATTAINABLE].value, text);
        store_note(r->store, "%s", text);
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (r->peak[t].was > 0) {
            describe_raise(r, dtype_name((enum dtype)t), r->peak[t].was, r->hardware.peak[ROOF_ATTAINABLE][t].value, text);
            store_note(r->store, "%s", text);
        }
}

// The roof a point is written with is that of its last samples.
static bool on_samples(void *ctx, struct subject *s, int32_t from, struct error *e)
{
    struct unit *u = ctx;
    return !u->runner->has_hardware ||
           ((s->n_samples == from || raise_ceiling(u->runner, s, from, e)) && price(u->runner, u, s, e));
}

static struct measure_limits limits_of(const struct runner *r, struct unit *u)
{
    const struct scenario *s = r->scenario;
    return (struct measure_limits){.samples = s->samples,
                                   .warmup = s->warmup,
                                   .seconds = s->seconds * budget_share(r),
                                   .timeout_s = s->timeout_s,
                                   .stop = r->stop,
                                   .sampled = on_samples,
                                   .ctx = u};
}

static bool take_block(struct runner *r, struct unit *u, struct bench *b, struct subject *s, int32_t block, struct error *e)
{
    struct measure_limits limits = limits_of(r, u);
    int32_t from = s->n_samples;
    progress_point(r->progress, (int32_t)(s->point - r->points->point), s->point->key, block, N_BLOCKS,
                   stats_median(s->sample_ns, s->n_samples), false);
    return bench_visit(b, s, &limits, r->has_hardware ? &r->hardware : NULL, e) &&
           (*s->failure || s->n_samples == from || keep_block(r, s, from, e));
}

static void give_up_late(const struct runner *r, struct subject *s)
{
    double most_s = BUDGET_TIMES * r->scenario->budget_s;
    if (most_s > 0 && !*s->failure && (double)(clock_ns() - r->began_ns) > most_s * 1e9)
        snprintf(s->failure, sizeof s->failure,
                 "given up as the sweep took more than %g s, %d times its budget_s (--budget)", most_s, BUDGET_TIMES);
}

// Unless it was restored, or the point has failed. Restored points still want their trace, in the last round.
static bool one_block(struct runner *r, struct unit *u, struct bench *b, struct subject *s, int32_t block, struct error *e)
{
    give_up_late(r, s);
    bool last = block == N_BLOCKS - 1, due = !*s->failure && (s->n_blocks <= block || last);
    bool ok = !due || take_block(r, u, b, s, block, e);
    progress_done(r->progress, expected_point_ns(r->scenario, s->expected_roof_ns) / N_BLOCKS);
    return ok && (!last || finish_point(r, u, s, e));
}

static bool run_blocks(struct runner *r, struct unit *u, struct bench *b, struct subject *s, int32_t n, struct error *e)
{
    for (int32_t block = 0; block < N_BLOCKS; block++)
        for (int32_t i = 0; i < n; i++)
            if (!one_block(r, u, b, &s[i], block, e))
                return false;
    return true;
}

// Where the traced point is among these.
static bool open_trace(const struct runner *r, const struct point *const *points, int32_t n, struct trace_file *t,
                       struct error *e)
{
    for (int32_t i = 0; i < n; i++)
        if (r->trace_point == points[i])
            return trace_file_open(t, points[i]->key, e);
    return true;
}

static bool run_window(struct runner *r, struct unit *u, const struct point *const *points, int32_t n, struct error *e)
{
    struct subject subject[WINDOW] = {0};
    struct kv_config kv = points_kv(points, n);
    struct bench bench = {0};
    struct trace_file trace = {0};
    bool ok = open_engine(&u->opened, &kv, e) && bench_open(&bench, &u->opened.engine, r->has_probe ? &r->probe : NULL,
                                                            points, n, (uint64_t)r->scenario->seed, e);
    u->context.plan = u->opened.plan;
    u->context.memory_bytes = ok ? u->opened.backend.memory_bytes(u->opened.backend.self) : 0;
    for (int32_t i = 0; ok && i < n; i++) {
        subject_init(&subject[i], points[i]);
        ok = price(r, u, &subject[i], e) && restore(r, &subject[i], e);
        subject[i].expected_roof_ns = subject[i].price.roof_ns;
    }
    ok = ok && open_trace(r, points, n, &trace, e);
    bench.watch = &u->watch, bench.counters = &u->counters, bench.energy = &u->energy;
    bench.trace_point = r->trace_point, bench.trace_file = trace.f ? &trace : NULL;
    ok = ok && run_blocks(r, u, &bench, subject, n, e);
    ok = ok && (!trace.n_steps || trace_file_write(&trace, r->trace_path, e));
    trace_file_close(&trace);
    for (int32_t i = 0; i < n; i++)
        subject_free(&subject[i]);
    bench_close(&bench);
    return ok;
}

static bool set_types(struct runner *r, struct unit *u, const struct point *p, struct error *e)
{
    struct plan_options options;
    if (!planner_options(r->planner, p, &options, e))
        return false;
    u->opened.options.kv_k = options.kv_k;
    u->opened.options.kv_v = options.kv_v;
    u->opened.options.compute = options.compute;
    u->opened.options.compute_of = options.compute_of;
    u->opened.options.act = options.act;
    return true;
}

// Bytes that KV and activations may take now, the engine that is open counted as gone; UINT64_MAX without limit. A little
// is left to everything else.
static uint64_t room(const struct unit *u)
{
    const struct opened *o = &u->opened;
    uint64_t held =
                 o->engine.plan ? open_kv_bytes(o->plan, &o->engine.kv) + open_activation_bytes(o->plan, &o->engine.kv) : 0,
             sum;
    if (o->backend.weightless)
        return UINT64_MAX;
    size_add(open_available(&o->backend), held, &sum);
    return sum - sum / 32;
}

static bool fits(const struct plan *plan, const struct point *const *points, int32_t n, uint64_t room)
{
    struct memory_need need = points_memory(plan, points, n);
    return need.total != UINT64_MAX && need.total - need.weights <= room;
}

static bool fail_for_memory(struct runner *r, struct unit *u, const struct plan *plan, const struct point *p,
                            struct error *e)
{
    char reason[160], need[24], have[24];
    struct memory_need m = points_memory(plan, &p, 1);
    snprintf(reason, sizeof reason, "needs %s of memory beside the weights, %s available",
             format_bytes(m.total - m.weights, need), format_bytes(room(u), have));
    u->context.plan = plan;
    bool ok = fail_point(r, u, p, reason, e);
    u->context.plan = NULL;
    return ok;
}

// Points from `first` on that can share a pool, into window[]; those that cannot fit at all become failed rows. Returns
// where the next window starts, or -1 on failure.
static int32_t next_window(struct runner *r, struct unit *u, int32_t first, const struct point **window, int32_t *n,
                           struct error *e)
{
    int32_t end = u->first + u->count, i = first;
    *n = 0;
    for (; i < end && *n < WINDOW; i++) {
        const struct point *p = &r->points->point[i];
        if (store_find(r->store, p->key))
            continue;
        if (*n && !same_pool(window[0], p))
            break;
        const struct plan *plan = planner_plan(r->planner, p, e);
        if (!plan)
            return -1;
        window[(*n)++] = p;
        if (fits(plan, window, *n, room(u)))
            continue;
        if (--*n)
            break;
        if (!fail_for_memory(r, u, plan, p, e))
            return -1;
    }
    return i;
}

static bool run_windows(struct runner *r, struct unit *u, struct error *e)
{
    const struct point *window[WINDOW];
    for (int32_t n, i = u->first; i < u->first + u->count;) {
        i = next_window(r, u, i, window, &n, e);
        if (i < 0 || (n && (!set_types(r, u, window[0], e) || !run_window(r, u, window, n, e))))
            return false;
    }
    return true;
}

static bool is_auto(const char *name)
{
    return !strcmp(name, "auto");
}

static bool is_cuda(const struct unit *u)
{
    return !strcmp(u->opened.backend.name, "cuda");
}

// A device's ceilings have no probe beside samples: it would need the memory and the time of the device.
static bool find_device_ceilings(struct runner *r, const struct unit *u, struct error *e)
{
    char path[640] = "";
    struct cuda_ceilings raw;
    if (r->ceilings_folder)
        device_ceilings_path(r->ceilings_folder, r->device.device, path);
    if (device_ceilings_find(&r->hardware, *path ? path : NULL, u->opened.backend.device))
        return true;
    progress_note(r->progress, "measuring the device's ceilings, which takes about %d seconds", DEVICE_CEILINGS_SECONDS);
    return device_ceilings_measure(&r->hardware, &raw, r->device.device, *path ? path : NULL, e);
}

static bool find_ceilings(struct runner *r, const struct ceilings_options *options, struct error *e)
{
    char path[640] = "", warning[160];
    if (r->ceilings_folder)
        ceilings_path(r->ceilings_folder, options->threads, path);
    if (!ceilings_find(&r->hardware, *path ? path : NULL, options)) {
        progress_note(r->progress, "measuring this machine's ceilings, which takes about %d seconds", CEILINGS_SECONDS);
        if (!ceilings_measure(&r->hardware, options, e) || (*path && !hardware_save(&r->hardware, path, e)))
            return false;
    }
    ceilings_warning(&r->hardware, warning);
    if (*warning)
        store_note(r->store, "%s", warning);
    return true;
}

// The hardware of the roof; on this machine's CPU also the probe that is paired with each sample.
static bool open_hardware(struct runner *r, struct unit *u, struct error *e)
{
    struct ceilings_options options = {.threads = r->points->point[u->first].threads, .cpu_list = r->device.cpu_list};
    if (!is_auto(r->scenario->hardware)) {
        r->has_hardware = hardware_load(&r->hardware, r->scenario->hardware, e);
        return r->has_hardware && store_hardware(r->store, &r->hardware, e);
    }
    if (u->opened.backend.weightless)
        return true; // it does no work that this machine's ceilings could bound
    if (is_cuda(u)) {
        r->has_hardware = find_device_ceilings(r, u, e);
        return r->has_hardware && store_hardware(r->store, &r->hardware, e);
    }
    r->has_hardware = find_ceilings(r, &options, e);
    r->has_probe = r->has_hardware && ceiling_probe_open(&r->probe, &r->hardware, &options, e);
    r->read = (struct ceiling_best){0};
    memset(r->peak, 0, sizeof r->peak);
    if (!r->has_probe)
        return false;
    if (u->context.isa && r->ceilings_folder)
        fitted_find(&r->fitted, r->ceilings_folder, options.threads, &r->hardware, u->context.isa);
    if (u->context.isa && !r->fitted.known && !*r->fitted.reason)
        fitted_find(&r->fitted, "results", options.threads, &r->hardware, u->context.isa);
    if (*r->fitted.reason)
        store_note(r->store, "%s", r->fitted.reason);
    u->context.fitted = r->fitted.known ? &r->fitted : NULL;
    return store_hardware(r->store, &r->hardware, e);
}

// What watches and counts, once all threads are there: the backend's and the probe's.
static bool open_instruments(struct runner *r, struct unit *u, struct error *e)
{
    char cpus[128] = "";
    if (r->has_probe) {
        environment_cpus(r->probe.team, cpus);
        u->context.cache_bytes = environment_cache_bytes(r->probe.team);
        u->context.crowded = u->context.threads > environment_threads(0, r->device.cpu_list);
    }
    if (!watch_open(&u->watch, "", cpus, e) || !counters_open(&u->counters, e))
        return false;
    if (is_cuda(u))
        energy_open_gpu(&u->energy, NULL, r->device.device, getenv("CUDA_VISIBLE_DEVICES"));
    else
        energy_open(&u->energy, "");
    u->context.watch = &u->watch, u->context.counters = &u->counters, u->context.energy = &u->energy;
    return true;
}

static void close_unit(struct runner *r, struct unit *u)
{
    watch_close(&u->watch);
    counters_close(&u->counters);
    open_close(&u->opened);
    if (r->has_probe) {
        note_raises(r);
        ceiling_probe_close(&r->probe);
    }
    fitted_free(&r->fitted);
    r->has_probe = r->has_hardware = false;
}

// More threads than CPUs measures their turns on the CPUs; whoever asks for it should know.
static void note_threads(struct runner *r, int32_t threads)
{
    int32_t cpus = environment_threads(0, r->device.cpu_list);
    if (threads <= cpus)
        return;
    progress_note(r->progress, "%d threads share %d CPUs", threads, cpus);
    store_note(r->store, "%d threads shared %d CPUs", threads, cpus);
}

// With the ceilings known, what the points from this unit on will take.
static bool expect_rest(struct runner *r, const struct unit *u, struct error *e)
{
    double left = 0;
    for (int32_t i = u->first; i < r->points->n; i++) {
        const struct point *p = &r->points->point[i];
        struct prediction price = {0};
        const struct plan *plan = r->has_hardware ? planner_plan(r->planner, p, e) : NULL;
        if (r->has_hardware && (!plan || !point_price(plan, p, &r->hardware, &price, e)))
            return false;
        left += store_find(r->store, p->key) ? 0 : expected_point_ns(r->scenario, price.roof_ns);
    }
    progress_expect(r->progress, left);
    return true;
}

static bool open_unit(struct runner *r, struct unit *u, struct error *e)
{
    const struct point *p = &r->points->point[u->first];
    struct open_request request = {.model = r->scenario->model[p->model],
                                   .backend = r->scenario->backend,
                                   .device = r->device,
                                   .weights = p->own_weights ? NULL : dtype_name(p->weights),
                                   .seed = (uint64_t)r->scenario->seed,
                                   .quiet = !r->progress->f};
    request.device.threads = p->threads;
    progress_note(r->progress, "loading '%s'", request.model);
    u->context = (struct row_context){.scenario = r->scenario,
                                      .backend = is_auto(r->scenario->backend) ? NULL : r->scenario->backend};
    if (!open_model(&u->opened, &request, e))
        return false;
    u->context.backend = u->opened.backend.name;
    u->context.load_ns = u->opened.weights.load_ns, u->context.repack_ns = u->opened.weights.repack_ns;
    if (!strcmp(u->opened.backend.name, "cpu")) {
        u->context.isa = cpu_isa_selected(&u->opened.backend);
        u->context.threads = environment_threads(p->threads, r->device.cpu_list);
        note_threads(r, u->context.threads);
    }
    if (!strcmp(u->opened.backend.name, "null"))
        null_backend_set_step_ns(&u->opened.backend, r->device_ns);
    if (!open_hardware(r, u, e))
        return false;
    if (r->has_hardware)
        u->context.hw = &r->hardware;
    return open_instruments(r, u, e) && expect_rest(r, u, e);
}

static bool all_done(const struct runner *r, const struct unit *u)
{
    for (int32_t i = u->first; i < u->first + u->count; i++)
        if (!store_find(r->store, r->points->point[i].key))
            return false;
    return true;
}

static bool fail_unit(struct runner *r, struct unit *u, struct error *e)
{
    struct error why = *e;
    *e = (struct error){0};
    for (int32_t i = u->first; i < u->first + u->count; i++)
        if (!store_find(r->store, r->points->point[i].key) && !fail_point(r, u, &r->points->point[i], why.message, e))
            return false;
    return true;
}

// A model too large for this machine fails its points only; anything else wrong with it ends the run.
static bool run_unit(struct runner *r, struct unit *u, struct error *e)
{
    if (all_done(r, u))
        return true;
    int64_t begin = clock_ns();
    bool opened = open_unit(r, u, e);
    progress_skip(r->progress, clock_ns() - begin);
    bool ok = opened ? run_windows(r, u, e) : e->kind == ERROR_MEMORY && fail_unit(r, u, e);
    close_unit(r, u);
    return ok;
}

static void count_stored(struct runner *r)
{
    for (int32_t i = 0; i < r->store->n_rows; i++)
        note_verdict(r, &r->store->row[i].result);
}

bool runner_run(struct runner *r, struct error *e)
{
    if (r->scenario->tp > 1)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': tp %d can only be predicted (kvbench predict)", r->scenario->where,
                         r->scenario->tp);
    r->began_ns = clock_ns();
    count_stored(r); // of the sweep that is resumed
    for (int32_t i = 0, next; i < r->points->n; i = next) {
        for (next = i + 1; next < r->points->n && same_unit(&r->points->point[i], &r->points->point[next]); next++)
            ;
        struct unit u = {.first = i, .count = next - i, .runner = r};
        if (!run_unit(r, &u, e))
            return false;
    }
    return true;
}
