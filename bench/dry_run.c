#include "bench/dry_run.h"

#include "bench/progress.h"
#include "bench/runner.h"
#include "engine/base/memory.h"
#include "engine/base/units.h"

#include <stdlib.h>
#include <string.h>

struct forecast {
    struct memory_need memory;
    double roof_ns; // 0: unknown
    bool fits, times_out;
};

// Memory of the hardware where that is a device elsewhere, of this machine where it is this one.
static uint64_t memory_limit(const struct scenario *s, const struct hardware *hw)
{
    bool here = !strcmp(s->hardware, "auto") || !hw || !hw->memory_bytes;
    return here ? memory_available("") : hw->memory_bytes;
}

static bool forecast_point(const struct dry_run *d, const struct point *p, struct forecast *out, struct error *e)
{
    const struct scenario *s = d->planner->scenario;
    struct prediction price = {0};
    const struct hardware *hw = d->roof(d->ctx, p);
    const struct plan *plan = planner_plan(d->planner, p, e);
    if (!plan || (hw && !point_price(plan, p, hw, &price, e)))
        return false;
    double least_ns = N_BLOCKS * 2 * expected_sample_ns(price.roof_ns); // each block a warm-up and a sample
    *out = (struct forecast){.memory = points_memory(plan, &p, 1), .roof_ns = price.roof_ns};
    out->fits = out->memory.total <= memory_limit(s, hw);
    out->times_out = price.roof_ns > 0 && least_ns > s->timeout_s * 1e9;
    return true;
}

static void print_line(FILE *f, const struct point *p, const struct forecast *c)
{
    char memory[24], time[24];
    fprintf(f, "%-52s %12s %12s%s\n", p->key, format_bytes(c->memory.total, memory),
            c->roof_ns > 0 ? format_ms(c->roof_ns, time) : "-",
            !c->fits       ? "  does not fit"
            : c->times_out ? "  may time out (--timeout)"
                           : "");
}

static cJSON *line_json(const struct point *p, const struct forecast *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", p->key);
    cJSON_AddNumberToObject(json, "memory_bytes", (double)c->memory.total);
    cJSON_AddNumberToObject(json, "weight_bytes", (double)c->memory.weights);
    cJSON_AddNumberToObject(json, "kv_bytes", (double)c->memory.kv);
    cJSON_AddItemToObject(json, "roof_ns", c->roof_ns > 0 ? cJSON_CreateNumber(c->roof_ns) : cJSON_CreateNull());
    cJSON_AddBoolToObject(json, "fits", c->fits);
    cJSON_AddBoolToObject(json, "may_time_out", c->times_out);
    return json;
}

static void print_json(FILE *f, cJSON *list)
{
    char *text = cJSON_Print(list);
    fprintf(f, "%s\n", text ? text : "[]");
    free(text);
}

struct totals {
    int32_t n, n_fit, n_unknown;
    double ns;
};

static bool add_point(FILE *f, const struct dry_run *d, const struct point *p, cJSON *list, struct totals *t,
                      struct error *e)
{
    struct forecast c;
    if (!forecast_point(d, p, &c, e))
        return false;
    if (list)
        cJSON_AddItemToArray(list, line_json(p, &c));
    else
        print_line(f, p, &c);
    t->n++;
    t->n_fit += c.fits;
    t->n_unknown += !(c.roof_ns > 0);
    t->ns += c.fits ? expected_point_ns(d->planner->scenario, c.roof_ns) : 0;
    return true;
}

static void print_totals(FILE *f, const struct dry_run *d, const struct totals *t)
{
    const struct scenario *s = d->planner->scenario;
    char limit[24], text[24];
    double ns = s->budget_s > 0 && t->ns > s->budget_s * 1e9 ? s->budget_s * 1e9 : t->ns;
    if (d->done && d->done->n_rows)
        fprintf(f, "%d more point%s done already\n", d->done->n_rows, d->done->n_rows == 1 ? " is" : "s are");
    fprintf(f, "%d point%s, %d fit%s in %s; about %s, ", t->n, t->n == 1 ? "" : "s", t->n_fit, t->n_fit == 1 ? "s" : "",
            format_bytes(memory_limit(s, d->points->n ? d->roof(d->ctx, d->points->point) : NULL), limit),
            format_seconds(ns / 1e9, text));
    if (ns < t->ns)
        fprintf(f, "its budget_s; all samples would take %s\n", format_seconds(t->ns / 1e9, text));
    else if (t->n_unknown)
        fprintf(f, "but the ceilings are not measured yet (kvbench ceilings)\n");
    else
        fprintf(f, "if samples take three times their roof\n");
}

bool dry_run_print(FILE *f, const struct dry_run *d, bool json, struct error *e)
{
    struct totals t = {0};
    bool ok = true;
    cJSON *list = json ? cJSON_CreateArray() : NULL;
    if (!json)
        fprintf(f, "%-52s %12s %12s\n", "point", "memory", "roof ms");
    for (int32_t i = 0; ok && i < d->points->n; i++)
        if (!d->done || !store_find(d->done, d->points->point[i].key))
            ok = add_point(f, d, &d->points->point[i], list, &t, e);
    if (ok && json)
        print_json(f, list);
    else if (ok)
        print_totals(f, d, &t);
    cJSON_Delete(list);
    return ok;
}
