#include "bench/roofs.h"

#include <stddef.h>
#include <stdio.h>

static const struct column ROOF[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct roof_row, field)},
    ROOF_COLUMNS(X)
#undef X
};

// Types that arithmetic can be asked for; block types are computed in 16 bit.
static const enum dtype ARITHMETIC[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_FP8, DTYPE_INT8};
enum { N_ARITHMETIC = sizeof ARITHMETIC / sizeof *ARITHMETIC };

const struct column *roof_columns(int32_t *n)
{
    *n = (int32_t)(sizeof ROOF / sizeof *ROOF);
    return ROOF;
}

static void put_row(FILE *f, const struct hardware *hw, enum roof_kind kind, const char *resource, const char *type,
                    const char *runs_as, const struct hw_value *value)
{
    int32_t n;
    const struct column *column = roof_columns(&n);
    struct roof_row row = {.value = value->value};
    if (!(value->value > 0))
        return;
    snprintf(row.hardware, sizeof row.hardware, "%s", hw->name);
    snprintf(row.title, sizeof row.title, "%s", *hw->title ? hw->title : hw->name);
    snprintf(row.kind, sizeof row.kind, "%s", roof_kind_name(kind));
    snprintf(row.resource, sizeof row.resource, "%s", resource);
    snprintf(row.type, sizeof row.type, "%s", type);
    snprintf(row.runs_as, sizeof row.runs_as, "%s", runs_as);
    snprintf(row.method, sizeof row.method, "%s", value->method);
    snprintf(row.date, sizeof row.date, "%s", value->date);
    csv_row(f, column, n, &row);
}

static void put_rows(FILE *f, const struct hardware *hw)
{
    for (enum roof_kind kind = 0; kind < ROOF_KINDS; kind++) {
        put_row(f, hw, kind, "bandwidth", "", "", &hw->bandwidth[kind]);
        for (int32_t i = 0; kind == ROOF_ATTAINABLE && i < hw->n_levels; i++)
            put_row(f, hw, kind, hw->level[i].name, "", "", &hw->level[i].bandwidth);
        for (int i = 0; i < N_ARITHMETIC; i++) {
            enum dtype type = ARITHMETIC[i], runs_as = hardware_compute_type(hw, type);
            put_row(f, hw, kind, "peak", dtype_name(type), runs_as == type ? "" : dtype_name(runs_as),
                    &hw->peak[kind][runs_as]);
        }
    }
}

void roofs_csv(FILE *f, const struct hardware *hw, int32_t n)
{
    int32_t n_columns;
    const struct column *column = roof_columns(&n_columns);
    csv_header(f, column, n_columns);
    for (int32_t i = 0; i < n; i++)
        put_rows(f, &hw[i]);
}
