#include "bench/harness.h"

#include "bench/measure.h"
#include "bench/open.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/null/null.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_NS = 1000 * 1000, SAMPLES = 300, PAIRS = 150, CONTEXT = 512, GROUP = 10 };

double harness_share(const struct harness_cost *c)
{
    return c->sample_ns / c->step_ns - 1;
}

static struct point decode_point(void)
{
    return (struct point){.key = "harness",
                          .phase = PHASE_DECODE,
                          .batch = 1,
                          .n_gen = 1,
                          .n_depth = CONTEXT - 1,
                          .context = CONTEXT,
                          .block = 16,
                          .cache = true};
}

static bool open_on(struct opened *o, const char *backend, const char *model, struct error *e)
{
    struct open_request request = {.model = model, .backend = backend, .seed = 1, .quiet = true};
    struct point point = decode_point();
    const struct point *points[] = {&point};
    struct kv_config kv = points_kv(points, 1);
    return open_model(o, &request, e) && open_engine(o, &kv, e);
}

// The measuring code itself, on a backend that only waits.
static bool sample_null(struct harness_cost *out, struct engine *engine, struct error *e)
{
    struct point point = decode_point();
    const struct point *points[] = {&point};
    const struct measure_limits limits = {.samples = SAMPLES, .warmup = 1, .seconds = 10, .timeout_s = 60};
    struct subject s;
    struct bench b = {0};
    subject_init(&s, &point);
    bool ok = bench_open(&b, engine, NULL, points, 1, 1, e);
    while (ok && s.n_blocks < N_BLOCKS && !*s.failure)
        ok = bench_visit(&b, &s, &limits, NULL, e);
    if (ok && *s.failure)
        ok = error_set(e, ERROR_FAILED, "%.300s", s.failure);
    if (ok)
        out->sample_ns = stats_median(s.sample_ns, s.n_samples), out->n = s.n_samples;
    subject_free(&s);
    bench_close(&b);
    return ok;
}

static bool measure_null(struct harness_cost *out, const char *model, struct error *e)
{
    struct opened o = {0};
    bool ok = open_on(&o, "null", model, e);
    if (ok) {
        null_backend_set_step_ns(&o.backend, STEP_NS);
        ok = sample_null(out, &o.engine, e);
    }
    out->step_ns = STEP_NS;
    open_close(&o);
    return ok;
}

static bool one_step(struct engine *engine, struct session *session, struct trace *trace, double *ns, struct error *e)
{
    static const int32_t token = 1;
    struct step step = {.session = session, .token = &token, .n_tokens = 1, .out = STEP_OUT_LAST};
    session_truncate(engine, session, CONTEXT - 1);
    if (trace)
        trace->n = trace->n_dropped = 0;
    int64_t begin = clock_ns();
    bool ok = engine_step(engine, &step, 1, trace, e);
    *ns = (double)(clock_ns() - begin);
    return ok;
}

struct pairs {
    double untraced[PAIRS], traced[PAIRS], ratio[PAIRS];
    int32_t block[PAIRS];
};

// Neighbours share their moment; which of the two comes first alternates.
static bool sample_pairs(struct pairs *p, struct engine *engine, struct session *session, struct trace *trace,
                         struct error *e)
{
    double ns;
    for (int32_t i = 0; i < GROUP; i++) // warm up
        if (!one_step(engine, session, trace, &ns, e))
            return false;
    for (int32_t i = 0; i < PAIRS; i++) {
        double *first = i & 1 ? &p->traced[i] : &p->untraced[i], *second = i & 1 ? &p->untraced[i] : &p->traced[i];
        if (!one_step(engine, session, i & 1 ? trace : NULL, first, e) ||
            !one_step(engine, session, i & 1 ? NULL : trace, second, e))
            return false;
        p->ratio[i] = p->traced[i] / p->untraced[i] - 1;
        p->block[i] = i / GROUP;
    }
    return true;
}

static bool trace_cpu(struct harness_cost *out, struct engine *engine, struct error *e)
{
    struct session session = {0};
    struct trace trace = {.capacity = 4 * engine->plan->n_ops};
    struct pairs *p = calloc(1, sizeof *p);
    trace.row = calloc((size_t)trace.capacity, sizeof *trace.row);
    bool ok = (p && trace.row) || error_set(e, ERROR_MEMORY, "no memory for a trace");
    ok = ok && session_fill(engine, &session, CONTEXT - 1, 1, e) && sample_pairs(p, engine, &session, &trace, e);
    if (ok) {
        out->n_spans = trace.n;
        out->untraced_ns = stats_median(p->untraced, PAIRS), out->traced_ns = stats_median(p->traced, PAIRS);
        out->trace_share = stats_median(p->ratio, PAIRS);
        stats_median_interval(p->ratio, p->block, PAIRS, PAIRS / GROUP, 0.95, &out->trace_low, &out->trace_high);
    }
    session_free(engine, &session);
    free(trace.row);
    free(p);
    return ok;
}

bool harness_measure(struct harness_cost *out, const char *model, struct error *e)
{
    struct opened o = {0};
    *out = (struct harness_cost){0};
    snprintf(out->model, sizeof out->model, "%.127s", model);
    if (!measure_null(out, model, e))
        return false;
    bool ok = open_on(&o, "cpu", model, e) && trace_cpu(out, &o.engine, e);
    open_close(&o);
    return ok;
}

void harness_print(FILE *f, const struct harness_cost *c)
{
    char a[24], b[24];
    fprintf(f, "a step of %s on the null backend is measured as %s: measuring costs %.2f us, %.3f %% (median of %d)\n",
            format_ns(c->step_ns, a), format_ns(c->sample_ns, b), (c->sample_ns - c->step_ns) / 1e3, 100 * harness_share(c),
            c->n);
    fprintf(f, "tracing %d spans of %.64s, decode, batch 1, context %d, on the cpu backend: %s, untraced %s\n", c->n_spans,
            c->model, CONTEXT, format_ns(c->traced_ns, a), format_ns(c->untraced_ns, b));
    fprintf(f, "tracing costs %.2f %% (%.2f to %.2f; median of %d pairs of neighbouring steps)\n", 100 * c->trace_share,
            100 * c->trace_low, 100 * c->trace_high, PAIRS);
}

cJSON *harness_json(const struct harness_cost *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", c->model);
    cJSON_AddNumberToObject(json, "step_ns", c->step_ns);
    cJSON_AddNumberToObject(json, "sample_ns", c->sample_ns);
    cJSON_AddNumberToObject(json, "n_samples", c->n);
    cJSON_AddNumberToObject(json, "harness_share", harness_share(c));
    cJSON_AddNumberToObject(json, "n_spans", c->n_spans);
    cJSON_AddNumberToObject(json, "untraced_ns", c->untraced_ns);
    cJSON_AddNumberToObject(json, "traced_ns", c->traced_ns);
    cJSON_AddNumberToObject(json, "trace_share", c->trace_share);
    cJSON_AddNumberToObject(json, "trace_share_low", c->trace_low);
    cJSON_AddNumberToObject(json, "trace_share_high", c->trace_high);
    return json;
}
