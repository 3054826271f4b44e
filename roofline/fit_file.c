// A fit as JSON.
#include "roofline/fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fit_free(struct fit *f)
{
    free(f->kernel);
    *f = (struct fit){0};
}

bool fit_add(struct fit *f, const struct fit_kernel *k, struct error *e)
{
    struct fit_kernel *grown = realloc(f->kernel, (size_t)(f->n_kernels + 1) * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for a fit of %d kernels", f->n_kernels + 1);
    f->kernel = grown;
    grown[f->n_kernels++] = *k;
    return true;
}

static bool read_text(const cJSON *json, const char *where, const char *key, char *out, size_t size, struct error *e)
{
    const char *text = "";
    if (!json_string(json, where, key, &text, e))
        return false;
    return (size_t)snprintf(out, size, "%s", text) < size || error_set(e, ERROR_FILE, "'%s': '%s' is too long", where, key);
}

static bool read_kernel(const cJSON *json, const char *where, struct fit_kernel *k, struct error *e)
{
    return read_text(json, where, "name", k->name, sizeof k->name, e) &&
           json_f64(json, where, "longer", 0, 1e6, &k->longer, e) &&
           json_f64(json, where, "shorter", 0, 1e6, &k->shorter, e) &&
           json_f64(json, where, "ratio", 0, 1e6, &k->ratio, e) &&
           json_f64(json, where, "act_ns_per_byte", 0, 1e9, &k->act, e) &&
           json_f64(json, where, "row_ns", 0, 1e12, &k->row, e) && json_f64(json, where, "span_ns", 0, 1e15, &k->span, e) &&
           json_i32(json, where, "n", 0, INT32_MAX, &k->n, e) &&
           json_i32(json, where, "n_points", 0, INT32_MAX, &k->n_points, e) &&
           json_f64(json, where, "error", 0, 1e12, &k->error, e);
}

static bool read_kernels(const cJSON *json, const char *where, struct fit *f, struct error *e)
{
    const cJSON *list = json_member(json, "kernels");
    int n = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || !n)
        return error_set(e, ERROR_FILE, "'%s': 'kernels' is missing, expected a list: this is no fit", where);
    if (!(f->kernel = calloc((size_t)n, sizeof *f->kernel)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %d kernels", where, n);
    for (const cJSON *m = list->child; m; m = m->next) {
        if (!cJSON_IsObject(m))
            return error_set(e, ERROR_FILE, "'%s': a kernel of it is no object", where);
        if (!read_kernel(m, where, &f->kernel[f->n_kernels++], e))
            return false;
    }
    return true;
}

static bool parse(struct fit *f, const cJSON *json, const char *where, struct error *e)
{
    return read_text(json, where, "hardware", f->hardware, sizeof f->hardware, e) &&
           read_text(json, where, "isa", f->isa, sizeof f->isa, e) &&
           read_text(json, where, "tool", f->tool, sizeof f->tool, e) &&
           read_text(json, where, "date", f->date, sizeof f->date, e) &&
           json_i32(json, where, "n", 0, INT32_MAX, &f->n, e) &&
           json_i32(json, where, "n_steps", 0, INT32_MAX, &f->n_steps, e) &&
           json_f64(json, where, "step_error", 0, 1e12, &f->step_error, e) &&
           json_f64(json, where, "step_bias", -1e12, 1e12, &f->step_bias, e) && read_kernels(json, where, f, e);
}

bool fit_load(struct fit *f, const char *path, struct error *e)
{
    cJSON *json;
    *f = (struct fit){0};
    if (!json_load(path, &json, e))
        return false;
    bool ok = parse(f, json, path, e);
    cJSON_Delete(json);
    if (!ok)
        fit_free(f);
    return ok;
}

static cJSON *kernel_json(const struct fit_kernel *k)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", k->name);
    cJSON_AddNumberToObject(json, "longer", k->longer);
    cJSON_AddNumberToObject(json, "shorter", k->shorter);
    cJSON_AddNumberToObject(json, "ratio", k->ratio);
    cJSON_AddNumberToObject(json, "act_ns_per_byte", k->act);
    cJSON_AddNumberToObject(json, "row_ns", k->row);
    cJSON_AddNumberToObject(json, "span_ns", k->span);
    cJSON_AddNumberToObject(json, "n", k->n);
    cJSON_AddNumberToObject(json, "n_points", k->n_points);
    cJSON_AddNumberToObject(json, "error", k->error);
    return json;
}

static cJSON *fit_json(const struct fit *f)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "hardware", f->hardware);
    cJSON_AddStringToObject(json, "isa", f->isa);
    cJSON_AddStringToObject(json, "tool", f->tool);
    cJSON_AddStringToObject(json, "date", f->date);
    cJSON_AddNumberToObject(json, "n", f->n);
    cJSON_AddNumberToObject(json, "n_steps", f->n_steps);
    cJSON_AddNumberToObject(json, "step_error", f->step_error);
    cJSON_AddNumberToObject(json, "step_bias", f->step_bias);
    cJSON *list = cJSON_AddArrayToObject(json, "kernels");
    for (int32_t i = 0; i < f->n_kernels; i++)
        cJSON_AddItemToArray(list, kernel_json(&f->kernel[i]));
    return json;
}

bool fit_save(const struct fit *f, const char *path, struct error *e)
{
    cJSON *json = fit_json(f);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    FILE *file = text ? fopen(path, "we") : NULL;
    bool ok = file && fprintf(file, "%s\n", text) > 0;
    if (file && fclose(file))
        ok = false;
    free(text);
    return ok || error_set(e, ERROR_OUTPUT, "'%s' could not be written: %s", path, strerror(errno));
}
