#include "engine/load/model.h"

#include "engine/load/config.h"
#include "engine/load/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), k = strlen(suffix);
    return n >= k && !strcmp(text + n - k, suffix);
}

void model_files_free(struct model_files *f)
{
    gguf_close(&f->gguf);
    for (int32_t i = 0; i < f->n_parts; i++)
        gguf_close(&f->part[i]);
    free(f->part);
    for (int32_t i = 0; i < f->n_shards; i++)
        safetensors_close(&f->shard[i]);
    free(f->shard);
    free(f->merged);
    *f = (struct model_files){0};
}

static bool open_config(struct model *m, const char *path, struct error *e)
{
    struct file file;
    if (!file_open(&file, path, e))
        return false;
    bool ok = model_spec_from_config(&m->spec, file.data ? file.data : "", file.size, path, e);
    file_close(&file);
    m->format = MODEL_CONFIG;
    return ok;
}

// Says what the folder has instead: a GGUF file is meant to be named itself.
static bool no_config(const char *folder, struct error *e)
{
    char other[128] = "";
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (ends_with(d->d_name, ".gguf") && (!*other || strcmp(d->d_name, other) < 0))
            snprintf(other, sizeof other, "%.120s", d->d_name);
    if (dir)
        closedir(dir);
    return error_set(e, ERROR_FILE, "'%s': no config.json in this folder%s%s%s", folder, *other ? ", but '" : "", other,
                     *other ? "': name that file" : "");
}

static bool open_folder(struct model *m, const char *path, struct error *e)
{
    char config[sizeof m->path + 16];
    bool found = false;
    snprintf(config, sizeof config, "%s/config.json", path);
    if (!file_exists(config))
        return no_config(path, e);
    if (!open_config(m, config, e) || !hf_open_weights(m->files, path, &found, e) || !hf_read_generation(m, path, e))
        return false;
    m->format = found ? MODEL_HF : MODEL_CONFIG;
    return !found || hf_read_quantization(m->files, config, e);
}

// Types nothing here computes with are refused at once: the whole file is of no use.
static bool check_types(const struct gguf *g, struct error *e)
{
    char name[96], types[GGUF_TYPES_BYTES];
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!g->tensor[i].known)
            return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' is stored as %s (type %d), expected one of %s",
                             g->where, text_print(g->tensor[i].name, name), g->tensor[i].type, g->tensor[i].type_number,
                             gguf_read_types(types));
    return true;
}

static bool open_gguf(struct model *m, const char *path, struct error *e)
{
    struct gguf *g = &m->files->gguf;
    m->format = MODEL_GGUF;
    if (!gguf_open_parts(m->files, path, e) || !gguf_model_spec(&m->spec, g, e) || !check_types(g, e))
        return false;
    m->files->tensor = g->tensor, m->files->n_tensors = g->n_tensors;
    return true;
}

static bool open_any(struct model *m, const char *path, struct error *e)
{
    if (file_is_directory(path))
        return open_folder(m, path, e);
    if (ends_with(path, ".gguf"))
        return open_gguf(m, path, e);
    if (ends_with(path, ".json"))
        return open_config(m, path, e);
    if (!file_exists(path))
        return error_set(e, ERROR_FILE, "'%s': no such file or folder", path);
    return error_set(e, ERROR_FILE, "'%s': expected a folder with config.json, a .gguf file or a config.json", path);
}

bool model_open(struct model *m, const char *path, struct error *e)
{
    *m = (struct model){0};
    if (strlen(path) >= sizeof m->path)
        return error_set(e, ERROR_FILE, "'%.200s': the path is too long", path);
    snprintf(m->path, sizeof m->path, "%s", path);
    if (!(m->files = calloc(1, sizeof *m->files)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory", path);
    bool ok = open_any(m, path, e);
    if (!ok)
        model_close(m);
    return ok;
}

void model_open_random(struct model *m, const struct model_spec *spec)
{
    *m = (struct model){.spec = *spec, .format = MODEL_RANDOM};
    memcpy(m->path, spec->name, sizeof spec->name);
}

void model_close(struct model *m)
{
    if (m->files)
        model_files_free(m->files);
    free(m->files);
    *m = (struct model){0};
}

bool model_has_weights(const struct model *m)
{
    return m->format == MODEL_HF || m->format == MODEL_GGUF || m->format == MODEL_RANDOM;
}

uint64_t model_stored_bytes(const struct model *m)
{
    uint64_t sum = 0;
    bool read = m->files && (m->format == MODEL_HF || m->format == MODEL_GGUF);
    for (uint64_t i = 0; read && i < m->files->n_tensors; i++)
        sum += m->files->tensor[i].bytes;
    return sum;
}
