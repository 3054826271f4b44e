#include "engine/load/scales.h"

#include "engine/load/files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct stored_tensor *find_beside(const struct model *m, const struct stored_tensor *weight, const char *suffix)
{
    char name[192];
    int n = snprintf(name, sizeof name, "%.*s%s", (int)weight->name.size, weight->name.data, suffix);
    return n < (int)sizeof name ? stored_find(m->files->tensor, m->files->n_tensors, name) : NULL;
}

static int64_t divide_up(uint64_t n, int64_t by)
{
    return ((int64_t)n + by - 1) / by;
}

// One scale, one per row, or one per block of the configuration's size.
static bool read_layout(struct scales *s, const struct model *m, const struct stored_tensor *weight)
{
    const struct stored_tensor *t = s->stored;
    uint64_t count, rows = weight->dim[0], cols = weight->dim[1];
    if (!stored_count(t, &count))
        return false;
    s->rows_per = (int64_t)rows, s->cols_per = (int64_t)cols, s->per_row = 1;
    if (count == 1)
        return true;
    if (count == rows && (t->n_dims == 1 || (t->n_dims == 2 && t->dim[1] == 1))) {
        s->rows_per = 1;
        return true;
    }
    s->rows_per = m->files->scale_block[0], s->cols_per = m->files->scale_block[1];
    s->per_row = divide_up(cols, s->cols_per);
    return t->n_dims == 2 && (int64_t)t->dim[0] == divide_up(rows, s->rows_per) && (int64_t)t->dim[1] == s->per_row;
}

bool scales_find(struct scales *s, const struct model *m, const struct stored_tensor *weight, struct error *e)
{
    char name[96];
    *s = (struct scales){0};
    if (weight->dtype != DTYPE_FP8)
        return true;
    if (weight->n_dims != 2)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' of FP8 is no matrix", m->path,
                         text_print(weight->name, name));
    s->stored = find_beside(m, weight, "_scale_inv");
    if (!s->stored)
        s->stored = find_beside(m, weight, "_scale");
    if (!s->stored)
        return true;
    bool plain = s->stored->known &&
                 (s->stored->dtype == DTYPE_F32 || s->stored->dtype == DTYPE_BF16 || s->stored->dtype == DTYPE_F16);
    if (!plain)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': scales '%s' are stored as %s, expected F32, BF16 or F16", m->path,
                         text_print(s->stored->name, name), s->stored->type);
    if (!values_finite(s->stored->dtype, s->stored->data, s->stored->bytes))
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' holds NaN or infinity", m->path,
                         text_print(s->stored->name, name));
    return read_layout(s, m, weight) ||
           error_set(e, ERROR_FILE, "'%s': scales '%s' are neither one, one per row nor one per block of %d x %d", m->path,
                     text_print(s->stored->name, name), m->files->scale_block[0], m->files->scale_block[1]);
}

static float scale_at(const struct scales *s, int64_t i)
{
    float value;
    dtype_to_f32(s->stored->dtype, (const uint8_t *)s->stored->data + (uint64_t)i * dtype_row_bytes(s->stored->dtype, 1),
                 &value, 1);
    return value;
}

void scales_row(const struct scales *s, const uint8_t *row, int64_t r, int32_t n, float *out)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = e4m3_to_f32(row[i]);
    for (int64_t at = 0; s->stored && at < n; at += s->cols_per) {
        float scale = scale_at(s, r / s->rows_per * s->per_row + at / s->cols_per);
        for (int64_t i = at; i < n && i < at + s->cols_per; i++)
            out[i] *= scale;
    }
}
