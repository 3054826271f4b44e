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
    bool fits;
};

// Memory of the hardware where that is a device elsewhere, of this machine where it is this one.
static uint64_t memory_limit(const struct scenario *s, const struct hardware *hw)
{
    bool here = !strcmp(s->hardware, "auto") || !hw || !hw->memory_bytes;
    return here ? memory_available("") : hw->memory_bytes;
}

static bool forecast_point(struct planner *planner, const struct point *p, const struct hardware *hw, struct forecast *out,
                           struct error *e)
{
    struct prediction price = {0};
    const struct plan *plan = planner_plan(planner, p, e);
    if (!plan || (hw && !point_price(plan, p, hw, &price, e)))
        return false;
    *out = (struct forecast){.memory = points_memory(plan, &p, 1), .roof_ns = price.roof_ns};
    out->fits = out->memory.total <= memory_limit(planner->scenario, hw);
    return true;
}

static void print_line(FILE *f, const struct point *p, const struct forecast *c)
{
    char memory[24], time[24];
    fprintf(f, "%-52s %12s %12s%s\n", p->key, format_bytes(c->memory.total, memory),
            c->roof_ns > 0 ? format_ns(c->roof_ns, time) : "-", c->fits ? "" : "  does not fit");
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
    return json;
}

static void print_json(FILE *f, cJSON *list)
{
    char *text = cJSON_Print(list);
    fprintf(f, "%s\n", text ? text : "[]");
    free(text);
}

bool dry_run_print(FILE *f, struct planner *planner, const struct point_list *points, const struct hardware *hw, bool json,
                   struct error *e)
{
    const struct scenario *s = planner->scenario;
    char text[24], limit[24];
    double total_ns = 0;
    int32_t n_fit = 0;
    bool ok = true;
    cJSON *list = cJSON_CreateArray();
    if (!json)
        fprintf(f, "%-52s %12s %12s\n", "point", "memory", "roof");
    for (int32_t i = 0; ok && i < points->n; i++) {
        struct forecast c;
        ok = forecast_point(planner, &points->point[i], hw, &c, e);
        if (ok && json)
            cJSON_AddItemToArray(list, line_json(&points->point[i], &c));
        else if (ok)
            print_line(f, &points->point[i], &c);
        n_fit += ok && c.fits;
        total_ns += ok && c.fits ? expected_point_ns(s, c.roof_ns) : 0;
    }
    if (ok && json)
        print_json(f, list);
    else if (ok)
        fprintf(f, "%d points, %d fit in %s; about %s%s%s\n", points->n, n_fit, format_bytes(memory_limit(s, hw), limit),
                format_seconds(total_ns / 1e9, text), hw ? ", taking three times the roof of " : "", hw ? hw->title : "");
    cJSON_Delete(list);
    return ok;
}
