#include "bench/runner.h"

#include "bench/runner_unit.h"
#include "bench/trust.h"
#include "engine/base/memory.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

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

// The roof a point is written with is that of its last samples.
static bool on_samples(void *ctx, struct subject *s, int32_t from, struct error *e)
{
    struct unit *u = ctx;
    return !u->runner->has_hardware ||
           ((s->n_samples == from || unit_raise_ceiling(u, s, from, e)) && price(u->runner, u, s, e));
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
    bool opened = unit_open(u, e);
    progress_skip(r->progress, clock_ns() - begin);
    bool ok = opened ? run_windows(r, u, e) : e->kind == ERROR_MEMORY && fail_unit(r, u, e);
    unit_close(u);
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
