// kvbench predict: the roofline of every point, for any hardware of the catalogue. Measures nothing.
#include "bench/ceilings.h"
#include "bench/command.h"
#include "bench/planner.h"
#include "bench/rows.h"
#include "bench/table.h"
#include "engine/base/file.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct predictor {
    const struct options *options;
    const struct scenario *scenario;
    struct hardware hardware;
    struct fitted fitted; // of this machine, where the hardware is it
    struct planner planner;
    struct backend simulator;
    enum table_format format;
    char heading[960];  // of the table that is being filled
    struct table table; // printed when the heading changes
    cJSON *list;        // json, jsonl
    FILE *csv;          // with --out
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
    bool ok = trace.row ? p->simulator.open(p->simulator.self, plan, &kv, e)
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

// What the fit of this machine makes of it, where there is one.
static bool forecast_time(const struct predictor *p, const struct plan *plan, const struct point *point, struct result *r,
                          struct error *e)
{
    char missing[FIT_NAME];
    double ns;
    if (!p->fitted.known)
        return true;
    if (!point_predict(&p->fitted, plan, point, &p->hardware, &ns, missing, e))
        return false;
    if (ns > 0)
        r->pred_ns = ns;
    return true;
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
    if (!forecast_time(p, plan, point, &out->row, e))
        return false;
    out->row.tokens_per_s = row_tokens(&out->row) / price.roof_ns * 1e9;
    out->memory = points_memory(plan, &point, 1);
    out->row.memory_bytes = (int64_t)out->memory.total;
    out->memory_known = p->hardware.memory_bytes > 0;
    out->fits = out->memory.total <= p->hardware.memory_bytes;
    if (out->memory_known && !out->fits) {
        char need[24], have[24];
        snprintf(out->row.reason, sizeof out->row.reason, "does not fit: needs %s of all %s",
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

static void flush_table(struct predictor *p)
{
    if (p->table.n_cells)
        table_print(stdout, &p->table, p->format == TABLE_MD);
    table_free(&p->table);
}

#define PREDICTED "pred ms" // shown where there is a fit
static const struct {
    const char *name;
    bool left, optional;
} HEADING[] = {{"phase", true, false},     {"batch", false, false},    {"shape", true, false},    {"kv", true, false},
               {"block", false, true},     {"bound ms", false, false}, {"roof ms", false, false}, {PREDICTED, false, false},
               {"tokens/s", false, false}, {"limit", true, false},     {"KV share", false, false}};

// Model, types and machine stand above the rows they hold for.
static void begin_table(struct predictor *p, const struct result *r)
{
    char heading[sizeof p->heading], memory[24] = "unknown";
    if (p->hardware.memory_bytes)
        format_bytes(p->hardware.memory_bytes, memory);
    snprintf(heading, sizeof heading,
             "%s on %s: %s weights, tp %d; roof at %s ceilings; memory %s, all of it counted as free", r->model,
             p->hardware.title, r->weights, (int)r->tp, r->roof_source, memory);
    bool same = !strcmp(heading, p->heading);
    if (same && p->table.n_columns)
        return;
    flush_table(p);
    if (!same)
        printf(p->format == TABLE_MD ? "%s**%s**\n\n" : "%s%s\n", *p->heading ? "\n" : "", heading);
    memcpy(p->heading, heading, sizeof heading);
    for (size_t c = 0; c < sizeof HEADING / sizeof *HEADING; c++)
        if (p->fitted.known || strcmp(HEADING[c].name, PREDICTED))
            table_column(&p->table, HEADING[c].name, HEADING[c].left, HEADING[c].optional);
}

// Times are those of the whole shape: of all its steps.
static void add_row(struct predictor *p, const struct forecast *f)
{
    const struct result *r = &f->row;
    struct table *t = &p->table;
    char bound[24], roof[24], pred[24], kv[64], shape[64];
    begin_table(p, r);
    row_shape(r, shape);
    row_kv(r, kv);
    table_cell(t, "%s", r->phase);
    table_cell(t, "%lld", (long long)r->batch);
    table_cell(t, "%s", shape);
    table_cell(t, "%s", kv);
    table_cell(t, "%lld", (long long)r->block);
    table_cell(t, "%s", r->bound_ns > 0 ? format_ms(r->bound_ns, bound) : "-");
    table_cell(t, "%s", format_ms(r->roof_ns, roof));
    if (p->fitted.known)
        table_cell(t, "%s", r->pred_ns > 0 ? format_ms(r->pred_ns, pred) : "-");
    table_cell(t, "%.1f", r->tokens_per_s);
    table_cell(t, "%s", r->limit);
    table_cell(t, "%.3f", r->kv_read_bytes / (r->weight_bytes + r->kv_read_bytes + r->kv_write_bytes));
    table_note(t, r->reason);
}

// Below the row they belong to.
static void print_ops(struct predictor *p, const struct forecast *f)
{
    static const char *const NAME[] = {"  operation", "kernel",  "count", "roof ms", "share",
                                       "limit",       "weights", "KV",    "GFLOP"};
    char roof[24], weights[24], kv[24];
    struct table t = {0};
    flush_table(p);
    for (size_t c = 0; c < sizeof NAME / sizeof *NAME; c++)
        table_column(&t, NAME[c], c < 2 || !strcmp(NAME[c], "limit"), false);
    for (int32_t i = 0; i < f->n_ops; i++) {
        const struct op_result *op = &f->op[i];
        table_cell(&t, "  %s", op->op);
        table_cell(&t, "%s", op->kernel);
        table_cell(&t, "%lld", (long long)op->count);
        table_cell(&t, "%s", format_ms(op->op_roof_ns, roof));
        table_cell(&t, "%.3f", op->op_roof_ns / f->row.roof_ns);
        table_cell(&t, "%s", op->op_limit);
        table_cell(&t, "%s", format_bytes((uint64_t)op->weight_bytes, weights));
        table_cell(&t, "%s", format_bytes((uint64_t)(op->kv_read_bytes + op->kv_write_bytes), kv));
        table_cell(&t, "%.3f", op->flops / 1e9);
    }
    table_print(stdout, &t, p->format == TABLE_MD);
    table_free(&t);
}

static bool print_points(struct predictor *p, const struct point_list *points, struct error *e)
{
    bool ok = true;
    int32_t n;
    const struct column *column = result_columns(&n);
    for (int32_t i = 0; ok && i < points->n; i++) {
        struct forecast f;
        ok = forecast_point(p, &points->point[i], &f, e);
        if (ok && p->csv)
            csv_row(p->csv, column, n, &f.row);
        if (ok && p->format == TABLE_CSV)
            csv_row(stdout, column, n, &f.row);
        else if (ok && p->list)
            add_json(p, &f);
        else if (ok)
            add_row(p, &f);
        if (ok && p->options->ops && !table_is_data(p->format))
            print_ops(p, &f);
        forecast_free(&f);
    }
    return ok;
}

// Operations are grouped as the backend for such a machine runs them; NULL: there is none.
static const struct roofline_cover *cover_for(const struct hardware *hw)
{
    static const struct roofline_cover CPU = {.cover = cpu_cover, .kernel_name = cpu_kernel_name},
                                       CUDA = {.cover = cuda_cover, .kernel_name = cuda_kernel_name};
    return !strcmp(hw->kind, "cpu") ? &CPU : !strcmp(hw->kind, "gpu") ? &CUDA : NULL;
}

static bool predict_on(struct predictor *p, const char *hardware, const struct point_list *points, struct error *e)
{
    char warning[160];
    if (!hardware_load(&p->hardware, hardware, e))
        return false;
    p->planner.on_cpu = !strcmp(p->hardware.kind, "cpu");
    if (!roofline_backend_open(&p->simulator, &p->hardware, cover_for(&p->hardware), e))
        return false;
    if (p->planner.on_cpu)
        fitted_find(&p->fitted, "results", 0, &p->hardware, cpu_isa_best());
    if (p->fitted.known && *p->fitted.reason)
        fprintf(stderr, "kvbench: %s\n", p->fitted.reason);
    ceilings_warning(&p->hardware, warning);
    if (*warning)
        fprintf(stderr, "kvbench: %s\n", warning);
    bool ok = print_points(p, points, e);
    backend_close(&p->simulator);
    fitted_free(&p->fitted);
    return ok;
}

// --hardware may name several, with commas between them.
static bool predict_all(struct predictor *p, const struct point_list *points, struct error *e)
{
    const char *list = p->scenario->hardware;
    if (file_exists(list))
        return predict_on(p, list, points, e);
    for (size_t n; *list; list += n + (list[n] == ',')) {
        char name[sizeof p->scenario->hardware];
        n = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, list);
        if (!predict_on(p, name, points, e))
            return false;
    }
    return true;
}

static bool open_csv(struct predictor *p, struct error *e)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    if (!p->options->has_folder)
        return true;
    if (!(p->csv = fopen(p->options->folder, "we")))
        return error_set(e, ERROR_OUTPUT, "'%s' cannot be written: %s", p->options->folder, strerror(errno));
    csv_header(p->csv, column, n);
    return true;
}

static bool close_csv(struct predictor *p, struct error *e)
{
    bool ok = !p->csv || (!fflush(p->csv) && !ferror(p->csv));
    if (p->csv && fclose(p->csv))
        ok = false;
    return ok || error_set(e, ERROR_OUTPUT, "'%s' cannot be written", p->options->folder);
}

static bool predict(struct predictor *p, const struct point_list *points, struct error *e)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    bool json = p->format == TABLE_JSON || p->format == TABLE_JSONL;
    p->list = json ? cJSON_CreateArray() : NULL;
    if (p->format == TABLE_CSV)
        csv_header(stdout, column, n);
    bool ok = open_csv(p, e) && predict_all(p, points, e);
    flush_table(p);
    if (ok && json)
        table_json(stdout, p->format, p->list);
    cJSON_Delete(p->list);
    return close_csv(p, ok ? e : NULL) && ok;
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
    struct point_list points = {0};
    struct predictor p = {.options = o, .scenario = &s};
    if (!table_format_of(o, &p.format, e) || !read_scenario(&s, o, e))
        return false;
    planner_init(&p.planner, &s);
    bool ok = point_list_make(&points, &s, &p.planner, o->filter, e) && predict(&p, &points, e);
    point_list_free(&points);
    planner_free(&p.planner);
    return ok;
}
