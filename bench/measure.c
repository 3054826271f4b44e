#include "bench/measure.h"

#include "bench/store.h"
#include "engine/base/rng.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Waiting threads of the team that worked last spin for some hundred microseconds; by then they sleep.
enum { SETTLE_NS = 1000 * 1000 };
// A sample shorter than this is preceded by an untimed one, because the pause and the probe let caches and threads go cold.
enum { SHORT_NS = 20 * 1000 * 1000, LONG_NS = 1000 * 1000 * 1000 };

// Arithmetic is probed so often at the edge of a block, of which the best counts: an interrupt is no lower clock.
enum { EDGE_LOOKS = 2 };
enum { TRACE_FILE_SAMPLES = 3 };

void subject_init(struct subject *s, const struct point *point)
{
    *s = (struct subject){.point = point, .energy_J = NAN, .device = {NAN, NAN, NAN}};
    surroundings_init(&s->beside);
    for (int i = 0; i < COUNTER_COUNT; i++)
        s->counted[i] = NAN;
}

void subject_free(struct subject *s)
{
    free(s->sample_ns);
    free(s->block);
    free(s->probe);
    for (int32_t i = 0; i < s->n_traced; i++)
        attribution_free(&s->traced[i]);
    *s = (struct subject){0};
}

const struct attribution *subject_attribution(const struct subject *s)
{
    return s->n_traced ? &s->traced[s->n_traced - 1] : NULL;
}

static bool grow(double **list, int32_t capacity)
{
    double *grown = realloc(*list, (size_t)capacity * sizeof *grown);
    if (grown)
        *list = grown;
    return grown;
}

// Room for n more samples, made before any is timed.
static bool make_room(struct subject *s, int32_t n, struct error *e)
{
    int32_t capacity = s->n_samples + n;
    if (capacity <= s->capacity)
        return true;
    if (!grow(&s->sample_ns, capacity) || !grow(&s->block, capacity) || !grow(&s->probe, capacity))
        return error_set(e, ERROR_MEMORY, "no memory for %d samples", capacity);
    s->capacity = capacity;
    return true;
}

static void add_sample(struct subject *s, double ns, double probe)
{
    s->sample_ns[s->n_samples] = ns;
    s->probe[s->n_samples] = probe;
    s->block[s->n_samples++] = s->n_blocks;
}

bool subject_restore(struct subject *s, const struct sample_block *block, struct error *e)
{
    if (!make_room(s, block->n, e))
        return false;
    if (!s->n_samples)
        snprintf(s->test_time, sizeof s->test_time, "%s", block->test_time);
    for (int32_t i = 0; i < block->n; i++) {
        add_sample(s, block->sample_ns[i], block->probe[i]);
        s->sampled_ns += (int64_t)block->sample_ns[i];
    }
    s->beside = block->beside;
    s->n_blocks++;
    return true;
}

// Opening: contexts, ids, room for traces.

static bool make_arrays(struct bench *b, int32_t longest, struct error *e)
{
    size_t seqs = (size_t)b->engine->kv.max_seqs;
    uint64_t rng = 1;
    b->n_tokens = b->engine->kv.max_seqs + longest;
    b->base = calloc(seqs, sizeof *b->base);
    b->work = calloc(seqs, sizeof *b->work);
    b->steps = calloc(seqs, sizeof *b->steps);
    b->token = calloc((size_t)b->n_tokens, sizeof *b->token);
    b->trace.capacity = 4 * b->engine->plan->n_ops; // parts of mixed steps included
    b->trace.row = calloc((size_t)b->trace.capacity, sizeof *b->trace.row);
    if (!b->base || !b->work || !b->steps || !b->token || !b->trace.row)
        return error_set(e, ERROR_MEMORY, "no memory for %zu sequences", seqs);
    for (int32_t i = 0; i < b->n_tokens; i++)
        b->token[i] = (int32_t)(rng_next(&rng) % (uint64_t)b->engine->plan->vocab_size);
    return true;
}

bool bench_open(struct bench *b, struct engine *engine, struct ceiling_probe *probe, const struct point *const *points,
                int32_t n, uint64_t seed, struct error *e)
{
    int32_t longest = 1;
    *b = (struct bench){.engine = engine, .probe = probe};
    for (int32_t i = 0; i < n; i++) {
        int32_t context = point_step_context(points[i], point_steps(points[i]) - 1);
        longest = context > longest ? context : longest;
    }
    bool ok = make_arrays(b, longest, e);
    for (int32_t s = 0; ok && s < engine->kv.max_seqs; s++) {
        int32_t depth = points_depth(points, n, s);
        ok = !depth || session_fill(engine, &b->base[s], depth, rng_at(seed, (uint64_t)s), e);
    }
    if (!ok)
        bench_close(b);
    return ok;
}

static void free_sessions(struct bench *b, struct session *sessions)
{
    for (int32_t s = 0; sessions && s < b->engine->kv.max_seqs; s++)
        session_free(b->engine, &sessions[s]);
}

void bench_close(struct bench *b)
{
    if (b->engine) {
        free_sessions(b, b->work);
        free_sessions(b, b->base);
    }
    free(b->base);
    free(b->work);
    free(b->steps);
    free(b->token);
    free(b->trace.row);
    *b = (struct bench){0};
}

// One sample.

static bool stopped(const struct measure_limits *limits, struct error *e)
{
    return limits->stop && *limits->stop && !error_set(e, ERROR_INTERRUPTED, "interrupted");
}

// Copies of the filled contexts, cut to the point's depth: blocks are shared until they are written.
static bool enter(struct bench *b, const struct point *p, struct error *e)
{
    for (int32_t s = 0; s < p->batch; s++) {
        if (p->n_depth && !session_fork(b->engine, &b->base[s], &b->work[s], e))
            return false;
        session_truncate(b->engine, &b->work[s], p->n_depth);
    }
    return true;
}

static void leave(struct bench *b)
{
    free_sessions(b, b->work);
}

static void cut_back(struct bench *b, const struct point *p)
{
    for (int32_t s = 0; s < p->batch; s++)
        session_truncate(b->engine, &b->work[s], p->n_depth);
}

static void prepare_step(struct bench *b, const struct point *p, int32_t i)
{
    int32_t rows = point_step_rows(p, i), first = point_step_context(p, i) - rows;
    for (int32_t s = 0; s < p->batch; s++)
        b->steps[s] =
            (struct step){.session = &b->work[s], .token = b->token + s + first, .n_tokens = rows, .out = STEP_OUT_LAST};
}

static int64_t now(const struct bench *b)
{
    return b->engine->backend->now_ns(b->engine->backend->self);
}

// All steps of one sample. Nothing here allocates once a sample of the point has run.
static bool run_sample(struct bench *b, const struct point *p, int64_t *ns, struct error *e)
{
    cut_back(b, p);
    int64_t begin = now(b);
    for (int32_t i = 0; i < point_steps(p); i++) {
        if (!p->cache)
            cut_back(b, p);
        prepare_step(b, p, i);
        if (!engine_step(b->engine, b->steps, p->batch, NULL, e))
            return false;
    }
    *ns = now(b) - begin;
    return true;
}

static void settle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
}

static double probe(struct bench *b, const struct subject *s)
{
    if (!b->probe)
        return 0;
    settle();
    double rate =
        s->probes_flops ? ceiling_probe_flops(b->probe, s->probe_type) : ceiling_probe_read(b->probe, s->price.stream_bytes);
    settle();
    return rate;
}

// What the machine does at the edge of a block: its clock by arithmetic, and memory where the samples' own probes do not
// look at it.
static void probe_edge(struct bench *b, struct subject *s)
{
    double best = 0;
    if (!b->probe || s->beside.n_edges >= 2 * N_BLOCKS)
        return;
    settle();
    for (int i = 0; i < EDGE_LOOKS; i++) {
        double rate = ceiling_probe_flops(b->probe, DTYPE_F32);
        best = rate > best ? rate : best;
    }
    s->beside.edge_flops[s->beside.n_edges] = best;
    if (s->probes_flops)
        s->beside.edge_read[s->beside.n_edges] = ceiling_probe_read(b->probe, s->price.stream_bytes);
    s->beside.n_edges++;
    settle();
}

static bool timed_out(struct subject *s, const struct measure_limits *limits, int64_t since)
{
    if ((double)(s->spent_ns + clock_ns() - since) <= limits->timeout_s * 1e9)
        return false;
    snprintf(s->failure, sizeof s->failure, "gave up after %g s (--timeout) with %d samples", limits->timeout_s,
             s->n_samples);
    return true;
}

// At the start of each block, since its sequences are new copies: partly filled blocks are copied and tables grow now. To
// samples of seconds that is nothing, so they are warmed up once.
static int32_t warm_ups(const struct subject *s, const struct measure_limits *limits)
{
    if (!s->n_samples)
        return limits->warmup > 1 ? limits->warmup : 1;
    return s->sample_ns[s->n_samples - 1] < LONG_NS;
}

static bool warm_up(struct bench *b, struct subject *s, const struct measure_limits *limits, int64_t since, int64_t *ns,
                    struct error *e)
{
    for (int32_t i = warm_ups(s, limits); i > 0 && !timed_out(s, limits, since); i--)
        if (stopped(limits, e) || !run_sample(b, s->point, ns, e))
            return false;
    return true;
}

// Samples that should be there when this block is done.
static int32_t wanted(const struct subject *s, const struct measure_limits *limits)
{
    int32_t share = (int32_t)(((int64_t)limits->samples * (s->n_blocks + 1) + N_BLOCKS - 1) / N_BLOCKS);
    return share > s->n_samples ? share : s->n_samples + 1;
}

static bool take_samples(struct bench *b, struct subject *s, const struct measure_limits *limits, int64_t since,
                         int64_t last_ns, struct error *e)
{
    int32_t want = wanted(s, limits), before = s->n_samples;
    double budget_ns = limits->seconds * 1e9 * (s->n_blocks + 1) / N_BLOCKS;
    if (!make_room(s, want - before, e))
        return false;
    while (s->n_samples < want && !*s->failure && (s->n_samples == before || (double)s->sampled_ns < budget_ns)) {
        int64_t begin = clock_ns(), ns;
        double rate = probe(b, s);
        if (stopped(limits, e) || (last_ns < SHORT_NS && !run_sample(b, s->point, &ns, e)) ||
            !run_sample(b, s->point, &ns, e))
            return false;
        add_sample(s, (double)ns, rate);
        if (b->energy && b->energy->gpu)
            gpu_state_look(&s->beside.gpu, &b->energy->nvml, b->energy->gpu);
        last_ns = ns;
        s->sampled_ns += clock_ns() - begin;
        if (s->n_samples < want)
            timed_out(s, limits, since);
    }
    return true;
}

// A step that fails concerns its point; what the engine and memory say of it is the reason. The rest goes up.
static bool note_failure(struct subject *s, struct error *e)
{
    if (e->kind == ERROR_INTERRUPTED)
        return false;
    snprintf(s->failure, sizeof s->failure, "%.300s", e->message);
    *e = (struct error){0};
    return true;
}

static bool trace_step(struct bench *b, struct subject *s, int32_t i, const struct hardware *hw, int64_t *wall_ns,
                       struct error *e)
{
    const struct point *p = s->point;
    struct batch batch;
    int32_t context = point_step_context(p, i);
    b->trace.n = b->trace.n_dropped = 0, b->trace.wall_ns = 0;
    prepare_step(b, p, i);
    if (b->counters)
        counters_start(b->counters);
    int64_t begin = now(b);
    if (!engine_step(b->engine, b->steps, p->batch, &b->trace, e))
        return false;
    *wall_ns += b->trace.wall_ns ? b->trace.wall_ns : now(b) - begin;
    if (b->counters)
        counters_stop(b->counters, s->counted);
    if (b->trace.n_dropped)
        return error_set(e, ERROR_FAILED, "%d spans were not traced", b->trace.n_dropped);
    if (!batch_make_uniform(&batch, p->batch, point_step_rows(p, i), context, context, e))
        return false;
    bool ok = attribution_add_step(&s->traced[s->n_traced - 1], b->engine->plan, &batch, &b->trace, hw, e);
    batch_free(&batch);
    return ok;
}

// One more sample, with spans traced.
static bool take_trace(struct bench *b, struct subject *s, const struct measure_limits *limits, const struct hardware *hw,
                       struct error *e)
{
    int64_t wall_ns = 0, median_ns = (int64_t)stats_median(s->sample_ns, s->n_samples);
    attribution_init(&s->traced[s->n_traced++]);
    memset(s->counted, 0, sizeof s->counted);
    cut_back(b, s->point);
    for (int32_t i = 0; i < point_steps(s->point); i++) {
        if (!s->point->cache)
            cut_back(b, s->point);
        if (stopped(limits, e) || !trace_step(b, s, i, hw, &wall_ns, e))
            return false;
    }
    attribution_finish(&s->traced[s->n_traced - 1], wall_ns, median_ns);
    if (s->n_blocks == N_BLOCKS)
        attribution_choose(s->traced, s->n_traced, median_ns);
    return true;
}

// After the samples of a block, apart from them; to samples of seconds once is enough.
static bool wants_trace(const struct subject *s, const struct hardware *hw)
{
    return hw && !*s->failure && (s->n_blocks == N_BLOCKS || s->sample_ns[s->n_samples - 1] < LONG_NS);
}

// What the device's own counters say of one more sample, apart from all that is timed or traced. Counters that are refused
// are absent, with the reason; the measurement goes on.
static bool take_counts(struct bench *b, struct subject *s, struct error *e)
{
    const struct backend *device = b->engine->backend;
    struct error why = {0};
    int64_t ns;
    if (device->tracing)
        snprintf(s->tracing, sizeof s->tracing, "%.150s", device->tracing(device->self));
    if (!device->count_begin)
        return true;
    if (device->count_begin(device->self, &why)) {
        bool ran = run_sample(b, s->point, &ns, e);
        if (!device->count_end(device->self, &s->device, &why))
            s->device = (struct device_counts){NAN, NAN, NAN};
        if (!ran)
            return false;
    }
    snprintf(s->not_counted, sizeof s->not_counted, "%.150s", why.message);
    return true;
}

// Samples back to back, since energy counters are slow.
static bool take_energy(struct bench *b, struct subject *s, const struct measure_limits *limits, struct error *e)
{
    int64_t begin = clock_ns(), ns;
    int32_t n = 0;
    if (!b->energy || !energy_told(b->energy))
        return true;
    energy_start(b->energy);
    for (; !n || clock_ns() - begin < b->energy->window_ns; n++)
        if (stopped(limits, e) || !run_sample(b, s->point, &ns, e))
            return false;
    s->energy_J = energy_stop(b->energy) / n;
    return true;
}

static bool add_to_trace_file(struct bench *b, const struct point *p, int32_t i, const struct hardware *hw, struct error *e)
{
    struct batch batch;
    int32_t context = point_step_context(p, i);
    b->trace.n = b->trace.n_dropped = 0;
    prepare_step(b, p, i);
    int64_t begin = now(b);
    if (!engine_step(b->engine, b->steps, p->batch, &b->trace, e))
        return false;
    int64_t end = now(b);
    if (!batch_make_uniform(&batch, p->batch, point_step_rows(p, i), context, context, e))
        return false;
    bool ok = trace_file_add(b->trace_file, b->engine->backend, b->engine->plan, &batch, &b->trace, hw, begin, end, e);
    batch_free(&batch);
    return ok;
}

static bool take_trace_file(struct bench *b, struct subject *s, const struct measure_limits *limits,
                            const struct hardware *hw, struct error *e)
{
    if (!b->trace_file || b->trace_point != s->point)
        return true;
    for (int32_t n = 0; n < TRACE_FILE_SAMPLES; n++) {
        cut_back(b, s->point);
        for (int32_t i = 0; i < point_steps(s->point); i++) {
            if (!s->point->cache)
                cut_back(b, s->point);
            if (stopped(limits, e) || !add_to_trace_file(b, s->point, i, hw, e))
                return false;
        }
    }
    return true;
}

static bool take_block(struct bench *b, struct subject *s, const struct measure_limits *limits, int64_t since,
                       int64_t last_ns, struct error *e)
{
    probe_edge(b, s);
    if (b->watch)
        watch_begin(b->watch, &s->beside.disturbance);
    bool ok = take_samples(b, s, limits, since, last_ns, e);
    if (b->watch)
        watch_end(b->watch, &s->beside.disturbance);
    if (ok)
        probe_edge(b, s);
    s->n_blocks += ok;
    return ok;
}

static bool visit(struct bench *b, struct subject *s, const struct measure_limits *limits, const struct hardware *hw,
                  struct error *e)
{
    int64_t since = clock_ns(), last_ns = LONG_NS;
    int32_t from = s->n_samples;
    if (!enter(b, s->point, e) || !warm_up(b, s, limits, since, &last_ns, e))
        return false;
    if (s->n_blocks < N_BLOCKS && !take_block(b, s, limits, since, last_ns, e))
        return false;
    if (!*s->failure && limits->sampled && !limits->sampled(limits->ctx, s, from, e))
        return false;
    if (wants_trace(s, hw) && !take_trace(b, s, limits, hw, e))
        return false;
    bool last = s->n_blocks == N_BLOCKS && !*s->failure;
    return !last || (take_counts(b, s, e) && take_energy(b, s, limits, e) && take_trace_file(b, s, limits, hw, e));
}

bool bench_visit(struct bench *b, struct subject *s, const struct measure_limits *limits, const struct hardware *hw,
                 struct error *e)
{
    int64_t begin = clock_ns();
    if (!s->n_samples)
        utc_now(s->test_time);
    bool ok = visit(b, s, limits, hw, e);
    leave(b);
    s->spent_ns += clock_ns() - begin;
    return ok || note_failure(s, e);
}
