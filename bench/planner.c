#include "bench/planner.h"

#include "engine/base/units.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
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
    if (!point->own_kv)
        out->kv_k = point->kv.k, out->kv_v = point->kv.v;
    if (p->scenario->has_compute)
        out->compute = p->scenario->compute;
    out->tp = p->scenario->tp;
    return true;
}

static bool same_options(const struct plan_options *a, const struct plan_options *b)
{
    return a->tp == b->tp && a->weights == b->weights && a->kv_k == b->kv_k && a->kv_v == b->kv_v &&
           a->compute == b->compute && a->act == b->act && a->tensor_dtype == b->tensor_dtype && a->ctx == b->ctx;
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

enum dtype plan_main_type(const struct plan *plan)
{
    uint64_t bytes[DTYPE_COUNT] = {0};
    enum dtype best = DTYPE_F32;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        bytes[plan->tensor[i].dtype] += tensor_bytes(&plan->tensor[i]);
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (bytes[i] > bytes[best])
            best = (enum dtype)i;
    return best;
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

int32_t point_block_size(const struct point *point)
{
    return point->block ? point->block : longest(point);
}

int64_t point_filled_blocks(const struct point *point)
{
    int32_t size = point_block_size(point);
    return (int64_t)point->batch * ((point->n_depth + size - 1) / size);
}

int64_t point_fresh_blocks(const struct point *point)
{
    int32_t size = point_block_size(point);
    return (int64_t)point->batch * ((longest(point) + size - 1) / size - point->n_depth / size);
}

int64_t point_max_rows(const struct point *point)
{
    int32_t rows = 1;
    for (int32_t i = 0; i < point_steps(point); i++)
        if (point_step_rows(point, i) > rows)
            rows = point_step_rows(point, i);
    return (int64_t)rows * point->batch;
}

// Values of the most slots alive at once, for `rows` rows of ROWS_TOKENS and `outs` of ROWS_OUT.
static uint64_t live_values(const struct plan *plan, uint64_t rows, uint64_t outs)
{
    int32_t *last = malloc((size_t)plan->n_slots * sizeof *last);
    uint64_t now = 0, most = 0;
    if (!last)
        return 0;
    plan_slot_last_use(plan, last);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->out >= 0)
            now += (uint64_t)plan->slot[op->out].width * (plan->slot[op->out].rows == ROWS_OUT ? outs : rows);
        most = now > most ? now : most;
        for (int k = 0; k < 3; k++) {
            int16_t s = op->in[k];
            bool again = (k > 0 && s == op->in[0]) || (k > 1 && s == op->in[1]);
            if (s >= 0 && !again && last[s] == i)
                now -= (uint64_t)plan->slot[s].width * (plan->slot[s].rows == ROWS_OUT ? outs : rows);
        }
    }
    free(last);
    return most;
}

struct memory_need point_memory(const struct plan *plan, const struct point *point)
{
    struct memory_need need = {.weights = plan_weight_bytes(plan)};
    uint64_t blocks = (uint64_t)point_filled_blocks(point) + (uint64_t)point_fresh_blocks(point), tokens;
    if (!size_mul(blocks, (uint64_t)point_block_size(point), &tokens) ||
        !size_mul(tokens, plan_kv_bytes_per_token(plan), &need.kv))
        need.kv = UINT64_MAX;
    size_mul(live_values(plan, (uint64_t)point_max_rows(point), (uint64_t)point->batch), sizeof(float), &need.activations);
    if (!size_add(need.weights, need.kv, &need.total) || !size_add(need.total, need.activations, &need.total))
        need.total = UINT64_MAX;
    return need;
}
