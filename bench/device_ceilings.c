#include "bench/device_ceilings.h"

#include "bench/ceilings.h"
#include "bench/store.h"
#include "engine/base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void device_ceilings_path(const char *folder, int32_t device, char out[640])
{
    snprintf(out, 640, "%.580s/ceilings-cuda%d.json", folder, device);
}

static struct hw_value value_of(const struct cuda_rate *r)
{
    struct hw_value v = {.method = "measured", .n = r->n, .value = r->best, .median = r->median, .spread = r->spread};
    ceilings_date(v.date);
    return v;
}

void device_ceilings_hardware(const struct cuda_ceilings *c, struct hardware *hw)
{
    *hw = (struct hardware){.memory_bytes = c->memory_bytes, .cuda_bytes = c->memory_bytes, .cache_bytes = c->l2_bytes};
    snprintf(hw->name, sizeof hw->name, "cuda");
    snprintf(hw->title, sizeof hw->title, "%.90s", c->device);
    snprintf(hw->vendor, sizeof hw->vendor, "NVIDIA");
    snprintf(hw->kind, sizeof hw->kind, "gpu");
    snprintf(hw->source, sizeof hw->source, "kvbench ceilings --backend cuda");
    snprintf(hw->note, sizeof hw->note,
             "copy %.1f GB/s read and written; a launch %.0f ns by itself, %.0f ns in a graph; products by cuBLAS",
             c->copy.best / 1e9, c->launch_ns.best, c->graph_node_ns.best);
    hw->bandwidth[ROOF_ATTAINABLE] = value_of(&c->read);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (c->product[t].n)
            hw->peak[ROOF_ATTAINABLE][t] = value_of(&c->product[t]);
}

// What the device's own path does not know is written beside it.
static bool save(const struct hardware *hw, const struct cuda_ceilings *c, const char *path, struct error *e)
{
    cJSON *rows = cJSON_CreateArray();
    cJSON_AddItemToArray(rows, device_ceilings_json(c));
    bool ok = hardware_save_survey(hw, rows, path, e);
    cJSON_Delete(rows);
    return ok;
}

bool device_ceilings_measure(struct hardware *hw, struct cuda_ceilings *c, int32_t device, const char *path, struct error *e)
{
    struct hardware before;
    char kept[512];
    if (!cuda_device_ceilings(device, c, e))
        return false;
    device_ceilings_hardware(c, hw);
    if (path && file_exists(path) && hardware_load(&before, path, NULL))
        ceilings_keep_best(hw, &before, kept);
    return !path || save(hw, c, path, e);
}

bool device_ceilings_find(struct hardware *hw, const char *path, const char *device)
{
    return path && *device && file_exists(path) && hardware_load(hw, path, NULL) && !strcmp(hw->title, device) &&
           hw->bandwidth[ROOF_ATTAINABLE].value > 0;
}

static void print_rate(FILE *f, const char *name, const struct cuda_rate *r, double unit, const char *unit_name)
{
    if (r->n)
        fprintf(f, "  %-14s %9.1f %-8s %9.1f %6.1f %%  %3d\n", name, r->best / unit, unit_name, r->median / unit,
                100 * r->spread, r->n);
}

static void print_counted(FILE *f, const struct cuda_ceilings *c)
{
    if (*c->not_counted) {
        fprintf(f, "  counters: %s\n", c->not_counted);
        return;
    }
    fprintf(f, "  counters: %.4g bytes read, counted %.4g in its memory (%.3f); %.4g operations, counted %.4g (%.3f)\n",
            c->known_bytes, c->counted_read.dram_bytes, c->counted_read.dram_bytes / c->known_bytes, c->known_flops,
            c->counted_product.tensor_flops, c->counted_product.tensor_flops / c->known_flops);
}

void device_ceilings_print(FILE *f, const struct hardware *hw, const struct cuda_ceilings *c)
{
    fprintf(f, "%s\n  %-14s %9s %-8s %9s %8s  %3s\n", hw->title, "", "best", "", "median", "spread", "n");
    print_rate(f, "read", &c->read, 1e9, "GB/s");
    print_rate(f, "copy", &c->copy, 1e9, "GB/s");
    for (int t = 0; t < DTYPE_COUNT; t++)
        print_rate(f, dtype_name((enum dtype)t), &c->product[t], 1e12, t == DTYPE_INT8 ? "TOP/s" : "TFLOP/s");
    print_rate(f, "launch", &c->launch_ns, 1, "ns");
    print_rate(f, "graph's kernel", &c->graph_node_ns, 1, "ns");
    print_counted(f, c);
}

static void add_rate(cJSON *json, const char *name, const struct cuda_rate *r)
{
    if (!r->n)
        return;
    cJSON *rate = cJSON_AddObjectToObject(json, name);
    cJSON_AddNumberToObject(rate, "best", r->best);
    cJSON_AddNumberToObject(rate, "median", r->median);
    cJSON_AddNumberToObject(rate, "spread", r->spread);
    cJSON_AddNumberToObject(rate, "n", r->n);
}

static void add_number(cJSON *json, const char *name, double value)
{
    if (isnan(value))
        cJSON_AddNullToObject(json, name);
    else
        cJSON_AddNumberToObject(json, name, value);
}

cJSON *device_ceilings_json(const struct cuda_ceilings *c)
{
    cJSON *json = cJSON_CreateObject(), *product = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "device", c->device);
    add_rate(json, "read_Bps", &c->read);
    add_rate(json, "copy_Bps", &c->copy);
    for (int t = 0; t < DTYPE_COUNT; t++)
        add_rate(product, dtype_name((enum dtype)t), &c->product[t]);
    cJSON_AddItemToObject(json, "product_FLOPps", product);
    add_rate(json, "launch_ns", &c->launch_ns);
    add_rate(json, "graph_node_ns", &c->graph_node_ns);
    add_number(json, "known_bytes", c->known_bytes);
    add_number(json, "counted_bytes", c->counted_read.dram_bytes);
    add_number(json, "known_flops", c->known_flops);
    add_number(json, "counted_flops", c->counted_product.tensor_flops);
    cJSON_AddStringToObject(json, "not_counted", c->not_counted);
    return json;
}
