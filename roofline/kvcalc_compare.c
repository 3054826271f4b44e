// kvcalc compare MODEL...: models, devices and KV types side by side, one row each.
#include "engine/base/units.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 32 };

static void print_head(void)
{
    printf("%-26s %-16s %-6s %12s %12s %14s %9s %11s %11s %9s\n", "model", "device", "KV", "weights", "KV/token",
           "KV/request", "requests", "bound ms", "tokens/s", "KV share");
}

static void print_row(const struct question *q, const struct answer *a)
{
    const struct capacity *c = &a->capacity;
    char weights[24], request[24];
    double ns = c->bound_ns > 0 ? c->bound_ns : c->roof_total_ns;
    printf("%-26.26s %-16.16s %-6s %12s %12" PRIu64 " %14s %9" PRId32 " %11.3f %11.1f %9.3f\n", q->whole.model,
           q->hardware.name, dtype_name(q->types.kv_k), format_bytes(c->weight_bytes, weights), c->kv_bytes_per_token,
           format_bytes(c->kv_bytes_per_request, request), c->max_requests, ns / 1e6, ns > 0 ? c->batch / ns * 1e9 : 0,
           c->kv_read_share);
}

static cJSON *row_json(const struct question *q, const struct answer *a)
{
    const struct capacity *c = &a->capacity;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "model", q->whole.model);
    cJSON_AddStringToObject(row, "hardware", q->hardware.name);
    cJSON_AddStringToObject(row, "type_k", dtype_name(q->types.kv_k));
    cJSON_AddNumberToObject(row, "weight_bytes", (double)c->weight_bytes);
    cJSON_AddNumberToObject(row, "kv_bytes_per_token", (double)c->kv_bytes_per_token);
    cJSON_AddNumberToObject(row, "kv_bytes_per_request", (double)c->kv_bytes_per_request);
    cJSON_AddNumberToObject(row, "max_requests", c->max_requests);
    cJSON_AddNumberToObject(row, "batch", c->batch);
    cJSON_AddNumberToObject(row, "bound_ns", c->bound_ns);
    cJSON_AddNumberToObject(row, "kv_read_share", c->kv_read_share);
    return row;
}

// One cell of the comparison. rows NULL: as text.
static bool compare_one(const struct options *o, const char *model, const char *device, const char *kv, cJSON *rows,
                        struct error *e)
{
    struct options one = *o;
    struct question q = {.pp = 0};
    struct answer a;
    char *kv_list[1] = {(char *)(uintptr_t)kv};
    one.model = model, one.hardware = device;
    one.kv = (struct text_list){.value = kv_list, .n = kv ? 1 : 0};
    bool ok = question_read(&one, &q, e) && question_plan(&q, e) && question_ask(&q, &a, e);
    if (ok && rows)
        cJSON_AddItemToArray(rows, row_json(&q, &a));
    else if (ok)
        print_row(&q, &a);
    question_close(&q);
    return ok;
}

// "h100,h200" in place; returns how many.
static int split(char *list, const char *out[MAX_DEVICES])
{
    int n = 0;
    for (char *save = NULL, *at = strtok_r(list, ",", &save); at && n < MAX_DEVICES; at = strtok_r(NULL, ",", &save))
        out[n++] = at;
    return n;
}

static bool compare_all(const struct options *o, const char *const *device, int n_devices, cJSON *rows, struct error *e)
{
    for (int32_t m = 0; m < o->n_args; m++)
        for (int d = 0; d < n_devices; d++)
            for (int32_t k = 0; k < (o->kv.n ? o->kv.n : 1); k++)
                if (!compare_one(o, o->arg[m], device[d], o->kv.n ? o->kv.value[k] : NULL, rows, e))
                    return false;
    return true;
}

bool kvcalc_compare(const struct options *o, int *exit_code, struct error *e)
{
    const char *device[MAX_DEVICES];
    (void)exit_code;
    if (!o->n_args)
        return error_set(e, ERROR_USAGE, "expected models: kvcalc compare MODEL... --gpu A,B --context N [--kv A,B]");
    char *list = strdup(o->hardware);
    if (!list)
        return error_set(e, ERROR_MEMORY, "no memory to compare");
    cJSON *rows = o->json ? cJSON_CreateArray() : NULL;
    if (!rows)
        print_head();
    bool ok = compare_all(o, device, split(list, device), rows, e);
    if (ok && rows) {
        char *text = cJSON_Print(rows);
        ok = text && puts(text) >= 0;
        free(text);
    }
    cJSON_Delete(rows);
    free(list);
    return ok;
}
