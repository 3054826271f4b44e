// The weights of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json names.
#include "engine/load/files.h"

#include "engine/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 2048 };

static bool path_join(char out[PATH_BYTES], const char *folder, const char *name, struct error *e)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return (n >= 0 && n < PATH_BYTES) || error_set(e, ERROR_FILE, "'%.200s': the path is too long", folder);
}

// A shard must be a plain file name: an index may not point out of its folder.
static bool check_shard_name(const char *name, const char *index, struct error *e)
{
    return (name && *name && *name != '.' && !strchr(name, '/')) ||
           error_set(e, ERROR_FILE, "'%s': 'weight_map' names '%.95s', expected a file of its folder", index,
                     name ? name : "?");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The distinct values of weight_map, sorted. *names is malloc'ed, its strings live in the map.
static bool shard_names(const cJSON *map, const char *index, const char ***names, int32_t *n, struct error *e)
{
    *n = 0;
    int size = cJSON_IsObject(map) ? cJSON_GetArraySize(map) : 0;
    if (!size)
        return error_set(e, ERROR_FILE, "'%s': 'weight_map' is not an object that names shards", index);
    if (!(*names = calloc((size_t)size, sizeof **names)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory", index);
    int32_t all = 0;
    for (const cJSON *m = map->child; m; m = m->next) {
        (*names)[all++] = cJSON_GetStringValue(m);
        if (!check_shard_name(cJSON_GetStringValue(m), index, e))
            return false;
    }
    qsort(*names, (size_t)all, sizeof **names, by_text);
    for (int32_t i = 0; i < all; i++)
        if (!i || strcmp((*names)[i], (*names)[*n - 1]))
            (*names)[(*n)++] = (*names)[i];
    return true;
}

static bool open_shards(struct model_files *f, const char *folder, const char *const *names, int32_t n, struct error *e)
{
    char path[PATH_BYTES];
    if (!(f->shard = calloc((size_t)n, sizeof *f->shard)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %d shards", folder, n);
    for (; f->n_shards < n; f->n_shards++) {
        if (!path_join(path, folder, names[f->n_shards], e))
            return false;
        if (!file_exists(path))
            return error_set(e, ERROR_FILE, "'%s': shard '%s', one of %d that the index names, is missing", folder,
                             names[f->n_shards], n);
        if (!safetensors_open(&f->shard[f->n_shards], path, e))
            return false;
    }
    return true;
}

static bool merge_shards(struct model_files *f, const char *index, struct error *e)
{
    for (int32_t i = 0; i < f->n_shards; i++)
        f->n_tensors += f->shard[i].n_tensors;
    if (!(f->merged = calloc(f->n_tensors + 1, sizeof *f->merged)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %llu tensors", index, (unsigned long long)f->n_tensors);
    struct stored_tensor *at = f->merged;
    for (int32_t i = 0; i < f->n_shards; i++) {
        memcpy(at, f->shard[i].tensor, f->shard[i].n_tensors * sizeof *at);
        at += f->shard[i].n_tensors;
    }
    f->tensor = f->merged;
    return stored_index(f->merged, f->n_tensors, index, e);
}

static bool check_map(const struct model_files *f, const cJSON *map, const char *index, struct error *e)
{
    for (const cJSON *m = map->child; m; m = m->next)
        if (!stored_find(f->tensor, f->n_tensors, m->string))
            return error_set(e, ERROR_FILE, "'%s': tensor '%.95s' is in none of its shards", index, m->string);
    return true;
}

static bool open_indexed(struct model_files *f, const char *folder, const char *index, struct error *e)
{
    cJSON *json;
    const char **names = NULL;
    int32_t n;
    if (!json_load(index, &json, e))
        return false;
    const cJSON *map = json_member(json, "weight_map");
    bool ok = shard_names(map, index, &names, &n, e) && open_shards(f, folder, names, n, e) && merge_shards(f, index, e) &&
              check_map(f, map, index, e);
    free(names);
    cJSON_Delete(json);
    return ok;
}

bool hf_open_weights(struct model_files *f, const char *folder, bool *found, struct error *e)
{
    char path[PATH_BYTES];
    const char *const single = "model.safetensors";
    *found = true;
    if (!path_join(path, folder, "model.safetensors.index.json", e))
        return false;
    if (file_exists(path))
        return open_indexed(f, folder, path, e);
    if (!path_join(path, folder, single, e))
        return false;
    *found = file_exists(path);
    if (!*found)
        return true;
    if (!open_shards(f, folder, &single, 1, e))
        return false;
    f->tensor = f->shard[0].tensor, f->n_tensors = f->shard[0].n_tensors;
    return true;
}
