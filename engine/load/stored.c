#include "engine/load/stored.h"

#include "engine/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *text_print(struct text t, char out[96])
{
    size_t n = t.size < 95 ? t.size : 95;
    for (size_t i = 0; i < n; i++)
        out[i] = t.data[i] >= ' ' && t.data[i] <= '~' ? t.data[i] : '?';
    out[n] = 0;
    return out;
}

int text_compare(struct text a, struct text b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

bool stored_count(const struct stored_tensor *t, uint64_t *out)
{
    *out = 1;
    for (int32_t i = 0; i < t->n_dims; i++)
        if (!size_mul(*out, t->dim[i], out))
            return false;
    return true;
}

double stored_count_about(const struct stored_tensor *t)
{
    double count = 1;
    for (int32_t i = 0; i < t->n_dims; i++)
        count *= (double)t->dim[i];
    return count;
}

static int by_name(const void *a, const void *b)
{
    return text_compare(((const struct stored_tensor *)a)->name, ((const struct stored_tensor *)b)->name);
}

static int by_data(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct stored_tensor *)a)->data, y = (uintptr_t)((const struct stored_tensor *)b)->data;
    return (x > y) - (x < y);
}

static bool check_overlap(struct stored_tensor *tensor, uint64_t n, const char *where, struct error *e)
{
    const struct stored_tensor *last = NULL; // the last one with bytes
    char a[96], b[96];
    qsort(tensor, n, sizeof *tensor, by_data);
    for (uint64_t i = 0; i < n; i++) {
        if (!tensor[i].bytes)
            continue;
        if (last && (uintptr_t)tensor[i].data - (uintptr_t)last->data < last->bytes)
            return error_set(e, ERROR_FILE, "'%s': the data of tensors '%s' and '%s' overlap", where,
                             text_print(last->name, a), text_print(tensor[i].name, b));
        last = &tensor[i];
    }
    return true;
}

bool stored_index(struct stored_tensor *tensor, uint64_t n, const char *where, struct error *e)
{
    char name[96];
    if (!n)
        return true;
    if (!check_overlap(tensor, n, where, e))
        return false;
    qsort(tensor, n, sizeof *tensor, by_name);
    for (uint64_t i = 1; i < n; i++)
        if (!by_name(&tensor[i - 1], &tensor[i]))
            return error_set(e, ERROR_FILE, "'%s': tensor '%s' is there twice", where, text_print(tensor[i].name, name));
    return true;
}

const struct stored_tensor *stored_find(const struct stored_tensor *tensor, uint64_t n, const char *name)
{
    struct stored_tensor key = {.name = {name, strlen(name)}};
    return n ? bsearch(&key, tensor, n, sizeof *tensor, by_name) : NULL;
}
