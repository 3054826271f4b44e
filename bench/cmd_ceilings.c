#include "bench/ceilings.h"
#include "bench/command.h"
#include "bench/store.h"

#include <stdlib.h>
#include <string.h>

static void print_value(const char *name, const char *unit, double scale, const struct hw_value *v)
{
    if (v->value > 0)
        printf("  %-16s %10.1f %-8s best of %d moments, which spread over %.0f %%\n", name, v->value / scale, unit, v->n,
               100 * v->spread);
}

static void print_text(const struct hardware *hw)
{
    printf("%s\n", hw->title);
    print_value("read", "GB/s", 1e9, &hw->bandwidth[ROOF_ATTAINABLE]);
    for (int32_t i=0;i<hw->n_levels;i++) {printf("%g MiB fade %g ",(double)hw->level[i].bytes/(1<<20),(double)hw->level[i].fade_bytes/(1<<20)); print_value(hw->level[i].name, "GB/s", 1e9, &hw->level[i].bandwidth);}
    for (int t = 0; t < DTYPE_COUNT; t++)
        print_value(dtype_name((enum dtype)t), t == DTYPE_INT8 ? "GOP/s" : "GFLOP/s", 1e9, &hw->peak[ROOF_ATTAINABLE][t]);
    char warning[160];
    printf("  %s; last-level cache %.0f MiB\n", hw->note, (double)hw->cache_bytes / (1 << 20));
    ceilings_warning(hw, warning);
    if (*warning)
        printf("  %s, best when nothing else runs\n", warning);
}

static void print_json(const struct hardware *hw)
{
    cJSON *json = hardware_json(hw);
    char *text = cJSON_Print(json);
    printf("%s\n", text ? text : "null");
    free(text);
    cJSON_Delete(json);
}

bool cmd_ceilings(const struct options *o, struct error *e)
{
    struct hardware hw;
    struct ceilings_options options = {.threads = o->threads, .cpu_list = o->cpu_list, .repetitions = o->repetitions};
    char path[640];
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': ceilings takes flags only", o->arg[0]);
    ceilings_path("results", o->threads, path);
    if (o->has_out)
        snprintf(path, sizeof path, "%.600s", o->out);
    if (!o->has_out && !make_folder("results", e))
        return false;
    if (!ceilings_measure(&hw, &options, e) || !hardware_save(&hw, path, e))
        return false;
    if (o->json)
        print_json(&hw);
    else
        print_text(&hw);
    if (!o->json)
        printf("written to %s\n", path);
    return true;
}
