// Models that were cut into several GGUF files. Each part is a GGUF file of its own; the first has the metadata.
#include "engine/load/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUFFIX = 20, PATH_BYTES = 2048 }; // "-00001-of-00003.gguf"

bool gguf_part_path(const char *path, int32_t part, char *out, size_t size, int32_t *n_parts)
{
    size_t length = strlen(path);
    int32_t number;
    char again[SUFFIX + 16];
    if (length <= SUFFIX || sscanf(path + length - SUFFIX, "-%5d-of-%5d.gguf", &number, n_parts) != 2)
        return false;
    snprintf(again, sizeof again, "-%05d-of-%05d.gguf", number, *n_parts);
    if (strcmp(path + length - SUFFIX, again) || number < 1 || *n_parts < number)
        return false;
    int n = snprintf(out, size, "%.*s-%05d-of-%05d.gguf", (int)(length - SUFFIX), path, part, *n_parts);
    return n >= 0 && (size_t)n < size;
}

// What a file says of its place must be what its name says.
static bool check_part(const struct gguf *g, int32_t index, int32_t n_parts, struct error *e)
{
    int32_t number = index, count = n_parts;
    if (!gguf_i32(g, "split.no", &number, e) || !gguf_i32(g, "split.count", &count, e))
        return false;
    if (count <= 1 && n_parts == 1)
        return true;
    if (n_parts == 1)
        return error_set(e, ERROR_FILE, "'%s' is part %d of %d of a model, expected a name that ends in -%05d-of-%05d.gguf",
                         g->where, number + 1, count, number + 1, count);
    return (number == index && count == n_parts) ||
           error_set(e, ERROR_FILE, "'%s' says that it is part %d of %d", g->where, number + 1, count);
}

static bool open_rest(struct model_files *f, const char *path, int32_t n_parts, struct error *e)
{
    char name[PATH_BYTES];
    if (!(f->part = calloc((size_t)n_parts, sizeof *f->part)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %d parts", path, n_parts);
    for (; f->n_parts < n_parts - 1; f->n_parts++) {
        struct gguf *g = &f->part[f->n_parts];
        gguf_part_path(path, f->n_parts + 2, name, sizeof name, &n_parts);
        if (!file_exists(name))
            return error_set(e, ERROR_FILE, "'%s': part %d of %d is missing", name, f->n_parts + 2, n_parts);
        if (!gguf_open(g, name, e))
            return false;
        if (!check_part(g, f->n_parts + 1, n_parts, e)) {
            gguf_close(g);
            return false;
        }
    }
    return true;
}

// The first part's directory becomes that of all.
static bool merge_parts(struct model_files *f, struct error *e)
{
    struct gguf *g = &f->gguf;
    int32_t expected = -1;
    uint64_t n = g->n_tensors;
    for (int32_t i = 0; i < f->n_parts; i++)
        n += f->part[i].n_tensors;
    struct stored_tensor *all = realloc(g->tensor, (n + 1) * sizeof *all);
    if (!all)
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %llu tensors", g->where, (unsigned long long)n);
    g->tensor = all;
    for (int32_t i = 0; i < f->n_parts; i++) {
        memcpy(all + g->n_tensors, f->part[i].tensor, f->part[i].n_tensors * sizeof *all);
        g->n_tensors += f->part[i].n_tensors;
    }
    if (!gguf_i32(g, "split.tensors.count", &expected, e))
        return false;
    if (expected >= 0 && (uint64_t)expected != n)
        return error_set(e, ERROR_FILE, "'%s': the parts have %llu tensors, expected %d", g->where, (unsigned long long)n,
                         expected);
    return stored_index(g->tensor, g->n_tensors, g->where, e);
}

bool gguf_open_parts(struct model_files *f, const char *path, struct error *e)
{
    char first[PATH_BYTES];
    int32_t n_parts = 1;
    bool split = gguf_part_path(path, 1, first, sizeof first, &n_parts);
    if (split && !file_exists(first))
        return error_set(e, ERROR_FILE, "'%s': part 1 of %d is missing", first, n_parts);
    return gguf_open(&f->gguf, split ? first : path, e) && check_part(&f->gguf, 0, split ? n_parts : 1, e) &&
           (n_parts <= 1 || (open_rest(f, path, n_parts, e) && merge_parts(f, e)));
}
