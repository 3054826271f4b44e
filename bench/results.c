#include "bench/results.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct column RESULT[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct result, field)},
    RESULT_COLUMNS(X)
#undef X
};
static const struct column OP[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct op_result, field)},
    OP_COLUMNS(X)
#undef X
};

const struct column *result_columns(int32_t *n)
{
    *n = (int32_t)(sizeof RESULT / sizeof *RESULT);
    return RESULT;
}

const struct column *op_columns(int32_t *n)
{
    *n = (int32_t)(sizeof OP / sizeof *OP);
    return OP;
}

static void set_unknown(const struct column *column, int32_t n, void *row)
{
    for (int32_t i = 0; i < n; i++) {
        void *at = (char *)row + column[i].offset;
        if (column[i].type == COLUMN_count)
            *(result_count *)at = RESULT_UNKNOWN;
        else if (column[i].type == COLUMN_real)
            *(result_real *)at = NAN;
    }
}

void result_init(struct result *r)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    *r = (struct result){0};
    set_unknown(column, n, r);
}

void op_result_init(struct op_result *r)
{
    int32_t n;
    const struct column *column = op_columns(&n);
    *r = (struct op_result){0};
    set_unknown(column, n, r);
}

void result_free(struct result *r)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    for (int32_t i = 0; i < n; i++)
        if (column[i].type == COLUMN_reals)
            free(((result_reals *)((char *)r + column[i].offset))->value);
    *r = (struct result){0};
}

static void put_text(FILE *f, const char *text)
{
    if (!strpbrk(text, "\",\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[2]){*text}, f);
    fputc('"', f);
}

// Whole numbers in full, others with as many digits as a reader needs to get the same value back where that is short.
static void put_real(FILE *f, double v)
{
    if (!isfinite(v))
        return;
    if (v == floor(v) && fabs(v) < 0x1p53)
        fprintf(f, "%.0f", v);
    else
        fprintf(f, "%.9g", v);
}

static void put_cell(FILE *f, const struct column *column, const void *at)
{
    const result_reals *list = at;
    switch (column->type) {
    case COLUMN_text: put_text(f, at); return;
    case COLUMN_real: put_real(f, *(const double *)at); return;
    case COLUMN_count:
        if (*(const int64_t *)at != RESULT_UNKNOWN)
            fprintf(f, "%lld", (long long)*(const int64_t *)at);
        return;
    case COLUMN_reals:
        for (int32_t i = 0; i < list->n; i++) {
            fputs(i ? " " : "", f);
            put_real(f, list->value[i]);
        }
    }
}

void csv_header(FILE *f, const struct column *column, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        fprintf(f, "%s%s", i ? "," : "", column[i].name);
    fputs("\n", f);
}

void csv_row(FILE *f, const struct column *column, int32_t n, const void *row)
{
    for (int32_t i = 0; i < n; i++) {
        fputs(i ? "," : "", f);
        put_cell(f, &column[i], (const char *)row + column[i].offset);
    }
    fputs("\n", f);
}

static bool real_from_text(const char *text, double *out, const char **end)
{
    char *rest;
    *out = strtod(text, &rest);
    *end = rest;
    return rest != text && isfinite(*out);
}

static bool list_from_text(const char *text, result_reals *out)
{
    double *value = malloc((strlen(text) / 2 + 1) * sizeof *value);
    int32_t n = 0;
    bool ok = value;
    while (ok && *text) {
        ok = real_from_text(text, &value[n++], &text) && (!*text || *text == ' ');
        text += *text == ' ';
    }
    free(out->value);
    *out = (result_reals){.value = value, .n = ok ? n : 0};
    return ok;
}

bool cell_from_text(const struct column *column, const char *text, void *row)
{
    void *at = (char *)row + column->offset;
    double v;
    if (!*text)
        return true;
    switch (column->type) {
    case COLUMN_text: snprintf(at, sizeof(result_text), "%s", text); return true;
    case COLUMN_reals: return list_from_text(text, at);
    case COLUMN_real:
    case COLUMN_count: break;
    }
    if (!real_from_text(text, &v, &text) || *text || (column->type == COLUMN_count && !(fabs(v) <= 0x1p53)))
        return false;
    if (column->type == COLUMN_count)
        *(result_count *)at = (int64_t)v;
    else
        *(result_real *)at = v;
    return true;
}

static cJSON *cell_json(const struct column *column, const void *at)
{
    const result_reals *list = at;
    switch (column->type) {
    case COLUMN_text: return *(const char *)at ? cJSON_CreateString(at) : cJSON_CreateNull();
    case COLUMN_real: return isfinite(*(const double *)at) ? cJSON_CreateNumber(*(const double *)at) : cJSON_CreateNull();
    case COLUMN_count:
        if (*(const int64_t *)at == RESULT_UNKNOWN)
            return cJSON_CreateNull();
        return cJSON_CreateNumber((double)*(const int64_t *)at);
    case COLUMN_reals: return list->n ? cJSON_CreateDoubleArray(list->value, list->n) : cJSON_CreateNull();
    }
    return NULL;
}

cJSON *row_json(const struct column *column, int32_t n, const void *row)
{
    cJSON *json = cJSON_CreateObject();
    for (int32_t i = 0; i < n; i++)
        cJSON_AddItemToObject(json, column[i].name, cell_json(&column[i], (const char *)row + column[i].offset));
    return json;
}

// JSON has no infinity, but 1e999 reads as one and could not be written again.
static bool is_finite_number(const cJSON *m)
{
    return cJSON_IsNumber(m) && isfinite(m->valuedouble);
}

static bool list_from_json(const cJSON *json, result_reals *out)
{
    if (!cJSON_IsArray(json))
        return false;
    int32_t n = cJSON_GetArraySize(json);
    double *value = calloc((size_t)n + 1, sizeof *value);
    if (!value)
        return false;
    free(out->value);
    *out = (result_reals){.value = value, .n = n};
    for (const cJSON *m = json->child; m; m = m->next) {
        if (!is_finite_number(m))
            return false;
        *value++ = m->valuedouble;
    }
    return true;
}

static bool cell_from_json(const struct column *column, const cJSON *m, void *at)
{
    switch (column->type) {
    case COLUMN_text:
        if (cJSON_IsString(m))
            snprintf(at, sizeof(result_text), "%s", m->valuestring);
        return cJSON_IsString(m);
    case COLUMN_count:
        if (!cJSON_IsNumber(m) || !(fabs(m->valuedouble) <= 0x1p53))
            return false;
        *(result_count *)at = (int64_t)m->valuedouble;
        return true;
    case COLUMN_real: *(result_real *)at = is_finite_number(m) ? m->valuedouble : NAN; return is_finite_number(m);
    case COLUMN_reals: return list_from_json(m, at);
    }
    return false;
}

bool row_from_json(const struct column *column, int32_t n, const cJSON *json, const char *where, void *row, struct error *e)
{
    if (!cJSON_IsObject(json))
        return error_set(e, ERROR_FILE, "'%s': expected an object", where);
    for (int32_t i = 0; i < n; i++) {
        const cJSON *m = json_member(json, column[i].name);
        if (m && !cell_from_json(&column[i], m, (char *)row + column[i].offset))
            return error_set(e, ERROR_FILE, "'%s': '%s' has the wrong type", where, column[i].name);
    }
    return true;
}
