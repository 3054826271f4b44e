// Traced steps, and what becomes of their spans.
#include "bench/kernels.h"

#include "bench/open.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_GROUPS = 24, MAX_ROUNDS = 32, LEAST_ROUNDS = 3 };
// A step that takes longer than this is not preceded by an untimed one each time.
enum { LONG_NS = 200 * 1000 * 1000, SETTLE_NS = 1000 * 1000 };
// What a probe beside a sample takes, about.
#define PROBE_NS 12e6

static const struct column COLUMN[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct kernel_row, field)},
    KERNEL_COLUMNS(X)
#undef X
};

const struct column *kernel_columns(int32_t *n)
{
    *n = (int32_t)(sizeof COLUMN / sizeof *COLUMN);
    return COLUMN;
}

void kernel_row_free(struct kernel_row *r)
{
    free(r->samples_ns.value);
    free(r->samples_read.value);
    free(r->samples_flops.value);
}

void kernels_free(struct kernels *k)
{
    for (int32_t i = 0; i < k->n_rows; i++)
        kernel_row_free(&k->row[i]);
    free(k->row);
    free(k->record);
    free(k->step);
    ceiling_probe_close(&k->probe);
    k->row = NULL, k->record = NULL, k->step = NULL;
    k->n_rows = k->n_records = k->n_steps = 0;
}

// Like spans of one step: the same kernel doing the same work.
struct group {
    char name[FIT_NAME], label[96];
    uint16_t kernel;
    struct fit_work work; // of one span, at the ceilings of the hardware file
    struct cost cost;
    int32_t n_in, n_out; // of its linear layers
    int32_t count;
    double ns[MAX_ROUNDS]; // of one span, mean
};

// One shape of a job while it is measured.
struct subject_shape {
    struct point point;
    struct group group[MAX_GROUPS];
    int32_t n_groups, n; // n: samples
    double read[MAX_ROUNDS], flops[MAX_ROUNDS], wall_ns[MAX_ROUNDS], around_ns[MAX_ROUNDS];
    int64_t spent_ns, last_ns;
    uint64_t streamed;
    double expected_ns; // of one visit
};

struct session_of_job { // an open engine and what is measured on it
    struct kernels *k;
    const struct kernel_job *job;
    struct opened *opened;
    struct bench bench;
    struct subject_shape *shape; // [job->n_shapes]
    struct op_price *ops;
    struct span *span;
};

static struct point point_of(const struct kernel_shape *s)
{
    struct point p = {.phase = s->n_prompt ? PHASE_PREFILL : PHASE_DECODE,
                      .batch = s->batch,
                      .n_prompt = s->n_prompt,
                      .n_gen = !s->n_prompt,
                      .n_depth = s->context - (s->n_prompt ? s->n_prompt : 1),
                      .context = s->context,
                      .block = 16,
                      .cache = true};
    snprintf(p.key, sizeof p.key, s->n_prompt ? "prefill/b%d/p%d" : "decode/b%d/c%d", s->batch, s->context);
    return p;
}

// ---- one traced step

static bool enter(struct bench *b, const struct point *p, struct error *e)
{
    int32_t rows = point_step_rows(p, 0), first = p->context - rows;
    for (int32_t s = 0; s < p->batch; s++) {
        if (p->n_depth && !session_fork(b->engine, &b->base[s], &b->work[s], e))
            return false;
        session_truncate(b->engine, &b->work[s], p->n_depth);
        b->steps[s] =
            (struct step){.session = &b->work[s], .token = b->token + s + first, .n_tokens = rows, .out = STEP_OUT_LAST};
    }
    return true;
}

static void leave(struct bench *b, const struct point *p)
{
    for (int32_t s = 0; s < p->batch; s++)
        session_free(b->engine, &b->work[s]);
}

static bool step(struct bench *b, const struct point *p, struct trace *trace, int64_t *ns, struct error *e)
{
    for (int32_t s = 0; s < p->batch; s++)
        session_truncate(b->engine, &b->work[s], p->n_depth);
    b->trace.n = b->trace.n_dropped = 0;
    int64_t begin = clock_ns();
    if (!engine_step(b->engine, b->steps, p->batch, trace, e))
        return false;
    *ns = clock_ns() - begin;
    return true;
}

// ---- spans into groups

static bool same_work(const struct fit_work *a, const struct fit_work *b)
{
    return a->bytes_ns == b->bytes_ns && a->flops_ns == b->flops_ns && a->act_bytes == b->act_bytes && a->rows == b->rows;
}

static struct group *group_of(struct subject_shape *s, const struct group *like)
{
    for (int32_t i = 0; i < s->n_groups; i++)
        if (!strcmp(s->group[i].name, like->name) && !strcmp(s->group[i].label, like->label) &&
            same_work(&s->group[i].work, &like->work))
            return &s->group[i];
    if (s->n_groups == MAX_GROUPS)
        return NULL;
    s->group[s->n_groups] = *like;
    return &s->group[s->n_groups++];
}

static struct group describe_span(const struct session_of_job *j, const struct batch *batch, const struct span *span)
{
    const struct plan *plan = j->opened->plan;
    const struct backend *b = &j->opened->backend;
    struct group g = {.kernel = span->kernel, .work = fit_span_work(plan, batch, span, j->ops)};
    fit_span_name(plan, span, b->kernel_name(b->self, span->kernel), g.name);
    attribution_label(plan, span, g.label, sizeof g.label);
    for (int32_t i = span->first; i < span->first + span->count; i++) {
        cost_add(&g.cost, &j->ops[i].cost);
        if (plan->op[i].kind == OP_LINEAR)
            g.n_in = plan->op[i].dim[0], g.n_out += plan->op[i].dim[1];
    }
    return g;
}

// The groups' times of the traced step; their counts when it is the first.
static bool take_spans(struct session_of_job *j, struct subject_shape *s, const struct batch *batch, int64_t wall_ns,
                       struct error *e)
{
    const struct trace *t = &j->bench.trace;
    double all = 0;
    int32_t count[MAX_GROUPS] = {0};
    for (int32_t i = 0; i < t->n; i++)
        j->span[i] = t->row[i].span;
    if (t->n_dropped || !roofline_price_ops(j->opened->plan, batch, j->k->hw, j->span, t->n, j->ops, e))
        return t->n_dropped ? error_set(e, ERROR_FAILED, "%d spans were not traced", t->n_dropped) : false;
    for (int32_t i = 0; i < t->n; i++) {
        struct group like = describe_span(j, batch, &j->span[i]), *g = group_of(s, &like);
        double ns = (double)(t->row[i].end_ns - t->row[i].begin_ns);
        if (!g)
            return error_set(e, ERROR_FAILED, "'%s' has more than %d kinds of spans", s->point.key, MAX_GROUPS);
        g->ns[s->n] += ns;
        all += ns;
        count[g - s->group]++;
    }
    for (int32_t i = 0; i < s->n_groups; i++) {
        s->group[i].count = count[i];
        s->group[i].ns[s->n] /= count[i] ? count[i] : 1;
    }
    s->wall_ns[s->n] = (double)wall_ns;
    s->around_ns[s->n] = (double)wall_ns - all;
    s->n++;
    return true;
}

static bool visit(struct session_of_job *j, struct subject_shape *s, struct error *e)
{
    struct kernels *k = j->k;
    struct batch batch;
    int64_t begin = clock_ns(), ns = 0;
    const struct point *p = &s->point;
    if (k->stop && *k->stop)
        return error_set(e, ERROR_INTERRUPTED, "interrupted");
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL); // so that the engine's team sleeps, not spins
    s->read[s->n] = ceiling_probe_read(&k->probe, s->streamed);
    s->flops[s->n] = ceiling_probe_flops(&k->probe, plan_compute_type(j->opened->plan));
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
    bool ok = enter(&j->bench, p, e);
    if (ok && (!s->n || s->last_ns < LONG_NS))
        ok = step(&j->bench, p, NULL, &ns, e);
    ok = ok && step(&j->bench, p, &j->bench.trace, &ns, e) &&
         batch_make_uniform(&batch, p->batch, point_step_rows(p, 0), p->context, p->context, e);
    if (ok) {
        ok = take_spans(j, s, &batch, ns, e);
        batch_free(&batch);
    }
    leave(&j->bench, p);
    s->last_ns = ns;
    s->spent_ns += clock_ns() - begin;
    return ok;
}

// ---- a finished shape into rows and records

static void *room(void **list, int32_t n, int32_t *capacity, size_t size)
{
    if (n == *capacity) {
        int32_t more = *capacity ? 2 * *capacity : 256;
        void *grown = realloc(*list, (size_t)more * size);
        if (!grown)
            return NULL;
        *list = grown, *capacity = more;
    }
    return (char *)*list + (size_t)n * size;
}

static bool no_memory(struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for samples");
}

static bool copy_list(const double *from, int32_t n, result_reals *to)
{
    to->value = malloc(((size_t)n + 1) * sizeof *to->value);
    if (to->value)
        memcpy(to->value, from, (size_t)n * sizeof *from);
    to->n = to->value ? n : 0;
    return to->value;
}

static void put(result_text out, const char *text)
{
    snprintf(out, sizeof(result_text), "%s", text);
}

// The work of a sample at the ceilings of its moment.
static struct fit_work work_then(const struct session_of_job *j, const struct subject_shape *s, const struct group *g,
                                 int32_t i)
{
    const struct hardware *hw = j->k->hw;
    struct fit_work w = g->work;
    double peak = hardware_peak(hw, ROOF_ATTAINABLE, plan_compute_type(j->opened->plan));
    w.bytes_ns *= s->read[i] > 0 ? hardware_stream(hw, s->streamed).value / s->read[i] : 1;
    w.flops_ns *= s->flops[i] > 0 && peak > 0 ? peak / s->flops[i] : 1;
    return w;
}

static void describe_row(struct kernel_row *r, const struct session_of_job *j, const struct subject_shape *s,
                         const struct group *g)
{
    const struct backend *b = &j->opened->backend;
    put(r->model, j->job->name);
    put(r->op, g->label);
    put(r->kernel, b->kernel_name(b->self, g->kernel));
    put(r->weights, dtype_name(j->job->weights));
    put(r->kv, dtype_name(j->job->kv));
    put(r->compute, dtype_name(plan_compute_type(j->opened->plan)));
    put(r->phase, phase_name(s->point.phase));
    put(r->fit, g->name);
    r->batch = s->point.batch, r->context = s->point.context;
    r->rows = (int64_t)g->work.rows, r->count = g->count;
    r->n_in = g->n_in, r->n_out = g->n_out;
    r->weight_bytes = (double)g->cost.weight_bytes;
    r->kv_bytes = (double)(g->cost.kv_read_bytes + g->cost.kv_write_bytes);
    r->act_bytes = (double)g->cost.act_bytes;
    r->flops = (double)cost_flops(&g->cost);
}

bool kernel_row_samples(struct kernel_row *r, const double *ns, const double *read, const double *flops, int32_t n,
                        struct error *e)
{
    double bytes[MAX_ROUNDS], work[MAX_ROUNDS], floor[MAX_ROUNDS], fraction[MAX_ROUNDS];
    for (int32_t i = 0; i < n; i++) {
        bytes[i] = read[i] > 0 ? (r->weight_bytes + r->kv_bytes) / read[i] * 1e9 : 0;
        work[i] = flops[i] > 0 ? r->flops / flops[i] * 1e9 : 0;
        floor[i] = fmax(bytes[i], work[i]);
        fraction[i] = floor[i] / ns[i];
    }
    r->n_samples = n;
    r->median_ns = stats_median(ns, n);
    r->bytes_ns = stats_median(bytes, n);
    r->flops_ns = stats_median(work, n);
    r->floor_ns = stats_median(floor, n);
    r->fraction = stats_median(fraction, n);
    r->fraction_low = stats_quantile(fraction, n, 0.1);
    r->fraction_high = stats_quantile(fraction, n, 0.9);
    r->effective_GBps = (r->weight_bytes + r->kv_bytes) / r->median_ns;
    r->effective_GFLOPps = r->flops / r->median_ns;
    return (copy_list(ns, n, &r->samples_ns) && copy_list(read, n, &r->samples_read) &&
            copy_list(flops, n, &r->samples_flops)) ||
           no_memory(e);
}

bool kernels_add(struct kernels *k, const struct kernel_row *row, struct error *e)
{
    struct kernel_row *r = room((void **)&k->row, k->n_rows, &k->row_capacity, sizeof *r);
    if (!r)
        return no_memory(e);
    *r = *row;
    k->n_rows++;
    return true;
}

static bool put_row(const struct session_of_job *j, const struct subject_shape *s, const struct group *g, struct error *e)
{
    struct kernel_row row = {.pred_ns = NAN};
    describe_row(&row, j, s, g);
    bool ok = kernel_row_samples(&row, g->ns, s->read, s->flops, s->n, e) && kernels_add(j->k, &row, e);
    if (!ok)
        kernel_row_free(&row);
    return ok;
}

static bool put_record(struct kernels *k, const char *name, struct fit_work work, double ns, int32_t step, int32_t count,
                       int32_t row, struct error *e)
{
    struct kernel_record *r = room((void **)&k->record, k->n_records, &k->record_capacity, sizeof *r);
    if (!r)
        return no_memory(e);
    *r = (struct kernel_record){
        .sample = {.work = work, .ns = ns, .point = k->n_points}, .step = step, .count = count, .row = row};
    snprintf(r->name, sizeof r->name, "%s", name);
    k->n_records++;
    return true;
}

// Every sample: its spans, and what lay around them.
static bool put_records(const struct session_of_job *j, const struct subject_shape *s, int32_t first_row, struct error *e)
{
    struct kernels *k = j->k;
    bool ok = true;
    for (int32_t i = 0; ok && i < s->n; i++) {
        struct kernel_step *step = room((void **)&k->step, k->n_steps, &k->step_capacity, sizeof *step);
        if (!step)
            return no_memory(e);
        *step = (struct kernel_step){.wall_ns = s->wall_ns[i]};
        for (int32_t g = 0; ok && g < s->n_groups; g++)
            ok = put_record(k, s->group[g].name, work_then(j, s, &s->group[g], i), s->group[g].ns[i], k->n_steps,
                            s->group[g].count, first_row + g, e);
        double rows = (double)s->point.batch * point_step_rows(&s->point, 0);
        ok = ok && put_record(k, FIT_STEP, (struct fit_work){.rows = rows}, fmax(s->around_ns[i], 1), k->n_steps, 1, -1, e);
        k->n_steps++;
    }
    k->n_points++;
    return ok;
}

static bool finish_shape(const struct session_of_job *j, const struct subject_shape *s, struct error *e)
{
    int32_t first_row = j->k->n_rows;
    for (int32_t g = 0; g < s->n_groups; g++)
        if ((!j->job->attention_only || !strcmp(s->group[g].label, "attn")) && !put_row(j, s, &s->group[g], e))
            return false;
    return !j->job->fits || put_records(j, s, first_row, e);
}

// ---- a job

// Two steps at half of the roof, and the probes.
static double expected_visit_ns(double roof_ns)
{
    return PROBE_NS + 2 * 2 * roof_ns;
}

static double expected_shape_ns(const struct kernels *k, double visit_ns)
{
    double all = k->rounds * visit_ns, most = k->point_s * 1e9;
    return all < most ? all : LEAST_ROUNDS * visit_ns > most ? LEAST_ROUNDS * visit_ns : most;
}

static bool price_shapes(struct session_of_job *j, struct error *e)
{
    for (int32_t i = 0; i < j->job->n_shapes; i++) {
        struct prediction price;
        struct subject_shape *s = &j->shape[i];
        if (!point_price(j->opened->plan, &s->point, j->k->hw, &price, e))
            return false;
        s->streamed = price.stream_bytes;
        s->expected_ns = expected_visit_ns(price.roof_ns);
    }
    return true;
}

// The first rounds in any case, the others while there is time.
static bool measure_shapes(struct session_of_job *j, struct error *e)
{
    struct kernels *k = j->k;
    char what[160];
    snprintf(what, sizeof what, "%s/%s/kv-%s", j->job->name, dtype_name(j->job->weights), dtype_name(j->job->kv));
    for (int32_t round = 0; round < k->rounds; round++)
        for (int32_t i = 0; i < j->job->n_shapes; i++) {
            struct subject_shape *s = &j->shape[i];
            progress_point(k->progress, k->job_index, what, round, k->rounds, 0, false);
            if ((round < LEAST_ROUNDS || (double)s->spent_ns < k->point_s * 1e9) && !visit(j, s, e))
                return error_prefix(e, "'%s' of '%s'", s->point.key, what);
            progress_done(k->progress, expected_shape_ns(k, s->expected_ns) / k->rounds);
        }
    for (int32_t i = 0; i < j->job->n_shapes; i++)
        if (!finish_shape(j, &j->shape[i], e))
            return false;
    return true;
}

static void choose_types(struct plan_options *options, const struct kernel_job *job)
{
    options->kv_k = options->kv_v = job->kv;
    options->compute = cpu_compute_of(job->weights);
    options->compute_of = cpu_compute_of;
}

static bool measure_job(struct session_of_job *j, const struct point **points, struct error *e)
{
    int32_t n = j->job->n_shapes;
    for (int32_t i = 0; i < n; i++) {
        j->shape[i].point = point_of(&j->job->shape[i]);
        points[i] = &j->shape[i].point;
    }
    struct kv_config kv = points_kv(points, n);
    choose_types(&j->opened->options, j->job);
    bool ok = open_engine(j->opened, &kv, e) && price_shapes(j, e) &&
              bench_open(&j->bench, &j->opened->engine, &j->k->probe, points, n, j->k->seed, e) && measure_shapes(j, e);
    bench_close(&j->bench);
    return ok;
}

static bool run_job(struct kernels *k, struct opened *opened, const struct kernel_job *job, struct error *e)
{
    struct session_of_job j = {.k = k, .job = job, .opened = opened};
    size_t n = (size_t)job->n_shapes, n_ops = (size_t)opened->plan->n_ops;
    const struct point **points = calloc(n, sizeof *points);
    j.shape = calloc(n, sizeof *j.shape);
    j.ops = calloc(n_ops, sizeof *j.ops);
    j.span = calloc(n_ops, sizeof *j.span);
    bool ok = (points && j.shape && j.ops && j.span) ? measure_job(&j, points, e) : no_memory(e);
    free(points);
    free(j.shape);
    free(j.ops);
    free(j.span);
    return ok;
}

// What all jobs will take, by their roofs.
static bool expect_jobs(struct kernels *k, const struct kernel_jobs *jobs, struct error *e)
{
    double all = 0;
    for (int32_t i = 0; i < jobs->n; i++) {
        const struct kernel_job *job = &jobs->job[i];
        struct plan plan;
        struct plan_options options = plan_options_default(job->weights);
        choose_types(&options, job);
        if (!plan_make(&plan, &job->spec, &options, e))
            return false;
        bool ok = true;
        for (int32_t s = 0; ok && s < job->n_shapes; s++) {
            struct prediction price;
            struct point p = point_of(&job->shape[s]);
            ok = point_price(&plan, &p, k->hw, &price, e);
            all += ok ? expected_shape_ns(k, expected_visit_ns(price.roof_ns)) : 0;
        }
        plan_free(&plan);
        if (!ok)
            return false;
    }
    k->progress->n_points = jobs->n;
    progress_expect(k->progress, all);
    return true;
}

static bool same_weights(const struct kernel_job *a, const struct kernel_job *b)
{
    return !strcmp(a->name, b->name) && a->weights == b->weights;
}

static bool open_job(struct kernels *k, struct opened *opened, const struct kernel_job *job, struct error *e)
{
    struct open_request request = {.spec = &job->spec,
                                   .backend = "cpu",
                                   .device = k->device,
                                   .weights = dtype_name(job->weights),
                                   .seed = k->seed,
                                   .quiet = true};
    progress_note(k->progress, "making '%s' in %s, %d layers", job->name, dtype_name(job->weights),
                  job->spec.num_hidden_layers);
    if (!open_model(opened, &request, e))
        return false;
    snprintf(k->isa, sizeof k->isa, "%s", cpu_isa_selected(&opened->backend));
    return true;
}

bool kernels_measure(struct kernels *k, const struct kernel_jobs *jobs, struct error *e)
{
    struct ceilings_options options = {.threads = k->device.threads, .cpu_list = k->device.cpu_list};
    struct opened opened = {0};
    k->rounds = k->rounds < MAX_ROUNDS ? k->rounds : MAX_ROUNDS;
    bool ok = ceiling_probe_open(&k->probe, k->hw, &options, e) && expect_jobs(k, jobs, e);
    for (int32_t i = 0; ok && i < jobs->n; i++) {
        k->job_index = i;
        if (!i || !same_weights(&jobs->job[i - 1], &jobs->job[i])) {
            int64_t begin = clock_ns();
            open_close(&opened);
            ok = open_job(k, &opened, &jobs->job[i], e);
            progress_skip(k->progress, clock_ns() - begin);
        }
        ok = ok && run_job(k, &opened, &jobs->job[i], e);
    }
    open_close(&opened);
    return ok;
}
