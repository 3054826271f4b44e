// kvbench predict: the roofline of every point, for any hardware of the catalogue. Measures nothing.
#include "bench/command.h"
#include "bench/planner.h"
#include "bench/rows.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct predictor {
    const struct options *options;
    const struct scenario *scenario;
    struct hardware hardware;
    struct planner planner;
    struct backend simulator;
    char heading[960]; // printed last
    cJSON *list;       // with --json
};

// One point as it is printed.
struct forecast {
    struct result row;
    struct memory_need memory;
    bool memory_known, fits;
    struct op_result *op; // [n_ops], with --ops
    int32_t n_ops;
};

static void forecast_free(struct forecast *f)
{
    result_free(&f->row);
    free(f->op);
}

// One sample on the simulated clock, looked at as a traced one.
static bool simulate(struct predictor *p, const struct plan *plan, const struct point *point, struct attribution *a,
                     struct error *e)
{
    struct kv_config kv = points_kv(&point, 1);
    struct trace trace = {.row = calloc((size_t)plan->n_ops, sizeof *trace.row), .capacity = plan->n_ops};
    bool ok = trace.row ? p->simulator.load(p->simulator.self, plan, NULL, &kv, e)
                        : error_set(e, ERROR_MEMORY, "no memory for '%s'", point->key);
    for (int32_t i = 0; ok && i < point_steps(point); i++) {
        struct batch batch;
        int32_t context = point_step_context(point, i);
        if (!batch_make_uniform(&batch, point->batch, point_step_rows(point, i), context, context, e)) {
            ok = false;
            break;
        }
        trace.n = 0;
        ok = p->simulator.run(p->simulator.self, plan, &batch, &trace, e) &&
             attribution_add_step(a, plan, &batch, &trace, &p->hardware, e);
        batch_free(&batch);
    }
    free(trace.row);
    return ok;
}

static bool forecast_ops(struct predictor *p, const struct plan *plan, const struct point *point, struct forecast *out,
                         struct error *e)
{
    struct attribution a;
    attribution_init(&a);
    bool ok = simulate(p, plan, point, &a, e) && op_rows(&out->row, &a, &p->simulator, &out->op, &out->n_ops, e);
    attribution_free(&a);
    return ok;
}

static bool forecast_point(struct predictor *p, const struct point *point, struct forecast *out, struct error *e)
{
    struct prediction price;
    const struct plan *plan = planner_plan(&p->planner, point, e);
    *out = (struct forecast){0};
    result_init(&out->row);
    if (!plan || !point_price(plan, point, &p->hardware, &price, e))
        return false;
    struct row_context context = {.scenario = p->scenario, .plan = plan, .backend = p->simulator.name, .hw = &p->hardware};
    row_describe(&out->row, &context, point);
    row_priced(&out->row, &price);
    snprintf(out->row.verdict, sizeof out->row.verdict, "predicted");
    out->row.spans_ns = price.spans_ns;
    out->row.act_bytes = (double)price.cost.act_bytes;
    out->row.tokens_per_s = (double)point->batch * (point->n_prompt + point->n_gen) / price.roof_ns * 1e9;
    out->memory = points_memory(plan, &point, 1);
    out->row.memory_bytes = (int64_t)out->memory.total;
    out->memory_known = p->hardware.memory_bytes > 0;
    out->fits = out->memory.total <= p->hardware.memory_bytes;
    if (out->memory_known && !out->fits) {
        char need[24], have[24];
        snprintf(out->row.reason, sizeof out->row.reason, "does not fit: needs %s of %s",
                 format_bytes(out->memory.total, need), format_bytes(p->hardware.memory_bytes, have));
    }
    return !p->options->ops || forecast_ops(p, plan, point, out, e);
}

static void add_json(struct predictor *p, const struct forecast *f)
{
    int32_t n, n_op;
    const struct column *column = result_columns(&n), *op_column = op_columns(&n_op);
    cJSON *row = row_json(column, n, &f->row);
    cJSON_AddItemToObject(row, "fits", f->memory_known ? cJSON_CreateBool(f->fits) : cJSON_CreateNull());
    cJSON_AddNumberToObject(row, "kv_read_share",
                            f->row.kv_read_bytes / (f->row.weight_bytes + f->row.kv_read_bytes + f->row.kv_write_bytes));
    if (p->options->ops) {
        cJSON *ops = cJSON_AddArrayToObject(row, "ops");
        for (int32_t i = 0; i < f->n_ops; i++)
            cJSON_AddItemToArray(ops, row_json(op_column, n_op, &f->op[i]));
    }
    cJSON_AddItemToArray(p->list, row);
}

// Model, types and machine stand above the rows they hold for.
static void print_heading(struct predictor *p, const struct result *r)
{
    char heading[sizeof p->heading];
    snprintf(heading, sizeof heading, "%s on %s: %s weights, tp %d; roof at %s ceilings", r->model, p->hardware.title,
             r->weights, (int)r->tp, r->roof_source);
    if (!strcmp(heading, p->heading))
        return;
    printf("%s%s\n%-8s %6s %8s %-10s %12s %12s %12s %-9s %8s\n", *p->heading ? "\n" : "", heading, "phase", "batch",
           "context", "kv", "bound", "roof", "tokens/s", "limit", "KV share");
    memcpy(p->heading, heading, sizeof heading);
}

static void print_row(struct predictor *p, const struct forecast *f)
{
    const struct result *r = &f->row;
    char bound[24], roof[24], kv[32];
    double bytes = r->weight_bytes + r->kv_read_bytes + r->kv_write_bytes;
    print_heading(p, r);
    bool differ = strcmp(r->type_k, r->type_v);
    snprintf(kv, sizeof kv, "%.12s%s%.12s", r->type_k, differ ? ":" : "", differ ? r->type_v : "");
    printf("%-8s %6lld %8lld %-10s %12s %12s %12.1f %-9s %8.3f%s%s\n", r->phase, (long long)r->batch, (long long)r->context,
           kv, r->bound_ns > 0 ? format_ns(r->bound_ns, bound) : "-", format_ns(r->roof_ns, roof), r->tokens_per_s, r->limit,
           r->kv_read_bytes / bytes, *r->reason ? "  " : "", r->reason);
}

static void print_ops(const struct forecast *f)
{
    char roof[24], weights[24], kv[24];
    printf("  %-24s %6s %12s %7s %12s %12s %14s\n", "operation", "count", "roof", "share", "weights", "KV", "GFLOP");
    for (int32_t i = 0; i < f->n_ops; i++) {
        const struct op_result *op = &f->op[i];
        printf("  %-24s %6lld %12s %7.3f %12s %12s %14.3f\n", op->op, (long long)op->count, format_ns(op->op_roof_ns, roof),
               op->op_roof_ns / f->row.roof_ns, format_bytes((uint64_t)op->weight_bytes, weights),
               format_bytes((uint64_t)(op->kv_read_bytes + op->kv_write_bytes), kv), op->flops / 1e9);
    }
}

static bool print_points(struct predictor *p, const struct point_list *points, struct error *e)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < points->n; i++) {
        struct forecast f;
        ok = forecast_point(p, &points->point[i], &f, e);
        if (ok && p->list)
            add_json(p, &f);
        else if (ok) {
            print_row(p, &f);
            if (p->options->ops)
                print_ops(&f);
        }
        forecast_free(&f);
    }
    return ok;
}

static bool print_list(const cJSON *list, struct error *e)
{
    char *text = cJSON_Print(list);
    bool ok = text && puts(text) >= 0;
    free(text);
    return ok || error_set(e, ERROR_OUTPUT, "the predictions could not be written");
}

static bool predict(struct predictor *p, const struct point_list *points, struct error *e)
{
    planner_init(&p->planner, p->scenario);
    p->list = p->options->json ? cJSON_CreateArray() : NULL;
    bool ok = hardware_load(&p->hardware, p->scenario->hardware, e) &&
              roofline_backend_open(&p->simulator, &p->hardware, NULL, NULL, e) && print_points(p, points, e) &&
              (!p->list || print_list(p->list, e));
    cJSON_Delete(p->list);
    backend_close(&p->simulator);
    planner_free(&p->planner);
    return ok;
}

static bool read_scenario(struct scenario *s, const struct options *o, struct error *e)
{
    if (o->n_args > 1)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s', expected one scenario", o->arg[1]);
    if (!o->n_args)
        return scenario_from_options(s, o, e);
    return scenario_load(s, o->arg[0], e) && scenario_override(s, o, e) && scenario_check_names(s, e);
}

bool cmd_predict(const struct options *o, struct error *e)
{
    struct scenario s;
    struct point_list points;
    struct predictor p = {.options = o, .scenario = &s};
    if (!read_scenario(&s, o, e) || !point_list_make(&points, &s, o->filter, e))
        return false;
    bool ok = predict(&p, &points, e);
    point_list_free(&points);
    return ok;
}
