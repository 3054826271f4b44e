#include "bench/accuracy.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct column COLUMN[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct accuracy, field)},
    ACCURACY_COLUMNS(X)
#undef X
};

const struct column *accuracy_columns(int32_t *n)
{
    *n = (int32_t)(sizeof COLUMN / sizeof *COLUMN);
    return COLUMN;
}

static bool belongs(const struct accuracy *a, const struct result *r)
{
    return !strcmp(a->phase, r->phase) && !strcmp(a->weights, r->weights) && !strcmp(a->type_k, r->type_k);
}

static struct accuracy *entry_of(struct accuracy *list, int32_t *n, const struct result *r)
{
    for (int32_t i = 0; i < *n; i++)
        if (belongs(&list[i], r))
            return &list[i];
    struct accuracy *a = &list[(*n)++];
    *a = (struct accuracy){0};
    memcpy(a->phase, r->phase, sizeof a->phase);
    memcpy(a->weights, r->weights, sizeof a->weights);
    memcpy(a->type_k, r->type_k, sizeof a->type_k);
    return a;
}

static void add(double *mape, double *bias, double ratio)
{
    *mape += fabs(ratio - 1);
    *bias += ratio - 1;
}

// Sums, which become means at the end.
static void add_point(struct accuracy *a, const struct result *r)
{
    a->n++;
    add(&a->roof_mape, &a->roof_bias, r->roof_ns / r->median_ns);
    add(&a->roof_paired_mape, &a->roof_paired_bias, r->roof_fraction);
    if (!(r->pred_ns > 0))
        return;
    a->n_pred++;
    add(&a->pred_mape, &a->pred_bias, r->pred_ns / r->median_ns);
    add(&a->pred_paired_mape, &a->pred_paired_bias, r->pred_fraction);
}

static void divide(struct accuracy *a)
{
    double n = (double)a->n, n_pred = a->n_pred ? (double)a->n_pred : NAN;
    a->roof_mape /= n, a->roof_bias /= n, a->roof_paired_mape /= n, a->roof_paired_bias /= n;
    a->pred_mape /= n_pred, a->pred_bias /= n_pred, a->pred_paired_mape /= n_pred, a->pred_paired_bias /= n_pred;
}

bool accuracy_of(const struct stored *row, int32_t n_rows, struct accuracy **out, int32_t *n, struct error *e)
{
    *n = 0;
    *out = calloc((size_t)n_rows + 1, sizeof **out);
    if (!*out)
        return error_set(e, ERROR_MEMORY, "no memory for the accuracy of %d points", n_rows);
    for (int32_t i = 0; i < n_rows; i++) {
        const struct result *r = &row[i].result;
        if (r->median_ns > 0 && r->roof_ns > 0)
            add_point(entry_of(*out, n, r), r);
    }
    for (int32_t i = 0; i < *n; i++)
        divide(&(*out)[i]);
    return true;
}

bool accuracy_record(struct store *s, struct error *e)
{
    struct accuracy *list;
    int32_t n, n_columns;
    const struct column *column = accuracy_columns(&n_columns);
    if (!accuracy_of(s->row, s->n_rows, &list, &n, e))
        return false;
    cJSON_DeleteItemFromObject(s->meta, "accuracy"); // a resumed sweep's
    cJSON *json = n ? cJSON_AddArrayToObject(s->meta, "accuracy") : NULL;
    for (int32_t i = 0; json && i < n; i++)
        cJSON_AddItemToArray(json, row_json(column, n_columns, &list[i]));
    free(list);
    return true;
}
