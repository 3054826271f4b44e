#include "bench/planner.h"

#include "bench/open.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "roofline/catalogue.h"

#include <string.h>

void planner_init(struct planner *p, const struct scenario *s)
{
    *p = (struct planner){.scenario = s};
}

void planner_free(struct planner *p)
{
    for (int i = 0; i < SCENARIO_MAX_MODELS; i++)
        model_close(&p->model[i]);
    if (p->has_plan)
        plan_free(&p->plan);
    *p = (struct planner){0};
}

struct model *planner_model(struct planner *p, const struct point *point, struct error *e)
{
    struct model *m = &p->model[point->model];
    if (p->opened[point->model])
        return m;
    if (!catalogue_open_model(m, p->scenario->model[point->model], e)) {
        if (strcmp(p->scenario->where, SCENARIO_COMMAND_LINE))
            error_prefix(e, "'%s': 'model'", p->scenario->where);
        return NULL;
    }
    if (!model_has_weights(m)) {
        struct model_spec spec = m->spec;
        model_close(m);
        model_open_random(m, &spec);
    }
    p->opened[point->model] = true;
    return m;
}

bool planner_options(struct planner *p, const struct point *point, struct plan_options *out, struct error *e)
{
    struct model *m = planner_model(p, point, e);
    if (!m)
        return false;
    *out = plan_options_default(point->own_weights ? m->spec.dtype : point->weights);
    if (point->own_weights && m->format != MODEL_RANDOM) {
        out->tensor_dtype = model_tensor_dtype;
        out->ctx = m;
    }
    if (!point->own_kv && !point->kv.own_k)
        out->kv_k = point->kv.k;
    if (!point->own_kv && !point->kv.own_v)
        out->kv_v = point->kv.v;
    if (p->on_cpu) {
        out->compute = cpu_compute_of(out->weights);
        out->compute_of = cpu_compute_of;
        out->act = DTYPE_F32;
    }
    if (p->scenario->has_compute) {
        out->compute = p->scenario->compute;
        out->compute_of = NULL;
    }
    out->tp = p->scenario->tp;
    return true;
}

static bool same_options(const struct plan_options *a, const struct plan_options *b)
{
    return a->tp == b->tp && a->weights == b->weights && a->kv_k == b->kv_k && a->kv_v == b->kv_v &&
           a->compute == b->compute && a->compute_of == b->compute_of && a->act == b->act &&
           a->tensor_dtype == b->tensor_dtype && a->ctx == b->ctx;
}

const struct plan *planner_plan(struct planner *p, const struct point *point, struct error *e)
{
    struct plan_options options;
    if (!planner_options(p, point, &options, e))
        return NULL;
    if (p->has_plan && p->plan_model == point->model && same_options(&options, &p->plan_options))
        return &p->plan;
    if (p->has_plan)
        plan_free(&p->plan);
    p->has_plan = plan_make(&p->plan, &p->model[point->model].spec, &options, e);
    p->plan_model = point->model;
    p->plan_options = options;
    return p->has_plan ? &p->plan : NULL;
}

// Adds one step; *limit collects the roof of each kind of limit.
static void add_prediction(struct prediction *sum, const struct prediction *step, double limit[3])
{
    static const char *const LIMIT[] = {"bandwidth", "compute", "link"};
    sum->bound_ns += step->bound_ns;
    sum->floor_ns += step->floor_ns;
    sum->roof_ns += step->roof_ns;
    sum->roof_total_ns += step->roof_total_ns;
    sum->spans_ns += step->spans_ns;
    sum->roof_spread += step->roof_spread * step->roof_ns; // divided by the sum at the end
    sum->stream_bytes = step->stream_bytes > sum->stream_bytes ? step->stream_bytes : sum->stream_bytes;
    cost_add(&sum->cost, &step->cost);
    memcpy(sum->source, step->source, sizeof sum->source);
    for (int i = 0; i < 3; i++)
        limit[i] += strcmp(step->limit, LIMIT[i]) ? 0 : step->roof_ns;
    int best = limit[1] > limit[0] ? 1 : 0;
    snprintf(sum->limit, sizeof sum->limit, "%s", LIMIT[limit[2] > limit[best] ? 2 : best]);
}

bool point_price(const struct plan *plan, const struct point *point, const struct hardware *hw, struct prediction *out,
                 struct error *e)
{
    double limit[3] = {0};
    *out = (struct prediction){0};
    for (int32_t i = 0; i < point_steps(point); i++) {
        struct batch batch;
        struct prediction step;
        int32_t context = point_step_context(point, i);
        if (!batch_make_uniform(&batch, point->batch, point_step_rows(point, i), context, context, e))
            return error_prefix(e, "'%s'", point->key);
        bool ok = roofline_price(plan, &batch, hw, NULL, 0, &step, e);
        batch_free(&batch);
        if (!ok)
            return error_prefix(e, "'%s'", point->key);
        add_prediction(out, &step, limit);
    }
    out->roof_spread = out->roof_ns > 0 ? out->roof_spread / out->roof_ns : 0;
    return true;
}

static int32_t longest(const struct point *point)
{
    return point_step_context(point, point_steps(point) - 1);
}

static int64_t max_rows(const struct point *point)
{
    int32_t rows = 1;
    for (int32_t i = 0; i < point_steps(point); i++)
        if (point_step_rows(point, i) > rows)
            rows = point_step_rows(point, i);
    return (int64_t)rows * point->batch;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int32_t clamp(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

int32_t points_depth(const struct point *const *points, int32_t n, int32_t seq)
{
    int32_t depth = 0;
    for (int32_t i = 0; i < n; i++)
        if (points[i]->batch > seq && points[i]->n_depth > depth)
            depth = points[i]->n_depth;
    return depth;
}

struct kv_config points_kv(const struct point *const *points, int32_t n)
{
    int32_t size = points[0]->block, seqs = 0;
    int64_t rows = 1, filled = 0, fresh = 0;
    for (int32_t i = 0; i < n; i++) {
        size = !points[0]->block && longest(points[i]) > size ? longest(points[i]) : size;
        seqs = points[i]->batch > seqs ? points[i]->batch : seqs;
        rows = max_rows(points[i]) > rows ? max_rows(points[i]) : rows;
    }
    for (int32_t s = 0; s < seqs; s++)
        filled += divide_up(points_depth(points, n, s), size);
    for (int32_t i = 0; i < n; i++) { // the partly filled block of the context is copied before it is written
        int64_t blocks = points[i]->batch * (divide_up(longest(points[i]), size) - points[i]->n_depth / size);
        fresh = blocks > fresh ? blocks : fresh;
    }
    return (struct kv_config){
        .n_blocks = clamp(filled + fresh), .block_size = size, .max_tokens = clamp(rows), .max_seqs = seqs, .max_out = seqs};
}

struct memory_need points_memory(const struct plan *plan, const struct point *const *points, int32_t n)
{
    struct kv_config kv = points_kv(points, n);
    struct memory_need need = {
        .weights = plan_weight_bytes(plan), .kv = open_kv_bytes(plan, &kv), .activations = open_activation_bytes(plan, &kv)};
    size_add(need.weights, need.kv, &need.total);
    size_add(need.total, need.activations, &need.total);
    return need;
}
