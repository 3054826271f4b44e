#include "roofline/catalogue.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/names.h"
#include "engine/base/units.h"
#include "roofline/hardware.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, KEY_BYTES = 96, MAX_ENTRIES = 4096 };

// The files of one section. An entry is called as its file, without .json.
struct section {
    char folder[PATH_BYTES];
    char **entry; // [n], sorted
    int n;
};

static bool join(char *out, size_t size, const char *folder, const char *name)
{
    int n = snprintf(out, size, "%s/%s", folder, name);
    return n >= 0 && (size_t)n < size;
}

static bool is_catalogue(const char *folder)
{
    char models[PATH_BYTES];
    return join(models, sizeof models, folder, "models") && file_is_directory(models);
}

// The folder of the running program, without its name. Empty where /proc is not mounted.
static void program_folder(char out[PATH_BYTES])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES - 1);
    out[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
}

bool catalogue_folder(char *out, int size, struct error *e)
{
    static const char *const BESIDE[] = {"configs", "../share/kvbench/configs"};
    char program[PATH_BYTES];
    const char *set = getenv("KVBENCH_CONFIGS");
    if (set && *set) {
        snprintf(out, (size_t)size, "%s", set);
        return file_is_directory(out) || error_set(e, ERROR_USAGE, "KVBENCH_CONFIGS is '%.300s', which is no folder", set);
    }
    program_folder(program);
    for (int i = 0; i < 2; i++)
        if (join(out, (size_t)size, program, BESIDE[i]) && is_catalogue(out))
            return true;
    snprintf(out, (size_t)size, "configs");
    return is_catalogue(out) ||
           error_set(e, ERROR_FILE,
                     "no catalogue: expected configs/models in '%.200s', in '%.200s/../share/kvbench' or here; "
                     "set KVBENCH_CONFIGS",
                     program, program);
}

// One spelling for all that mean the same: the id without owner, in lower case, without meta-, -hf and -instruct.
static void normalize(const char *name, char out[KEY_BYTES])
{
    const char *slash = strrchr(name, '/'), *at = slash ? slash + 1 : name;
    size_t n = 0;
    while (*at) {
        char part[KEY_BYTES];
        size_t length = strcspn(at, "-_ ");
        snprintf(part, sizeof part, "%.*s", (int)(length < KEY_BYTES ? length : KEY_BYTES - 1), at);
        bool first = n == 0, last = !at[length];
        bool drop = !*part || !strcasecmp(part, "instruct") || (first && !last && !strcasecmp(part, "meta")) ||
                    (last && !strcasecmp(part, "hf"));
        if (!drop && n + length + 2 < KEY_BYTES)
            n += (size_t)snprintf(out + n, KEY_BYTES - n, "%s%s", n ? "-" : "", part);
        at += length + !last;
    }
    out[n] = 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)out[i]);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void section_close(struct section *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->entry[i]);
    free(s->entry);
    *s = (struct section){0};
}

static bool add_entry(struct section *s, const char *name, struct error *e)
{
    size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 5, ".json") || *name == '.' || s->n == MAX_ENTRIES)
        return true;
    char **grown = realloc(s->entry, (size_t)(s->n + 1) * sizeof *grown);
    if (grown)
        s->entry = grown;
    if (!grown || !(s->entry[s->n] = strndup(name, length - 5)))
        return error_set(e, ERROR_MEMORY, "no memory for the catalogue");
    s->n++;
    return true;
}

static bool section_open(struct section *s, const char *name, struct error *e)
{
    char root[PATH_BYTES];
    bool ok = true;
    *s = (struct section){0};
    if (!catalogue_folder(root, sizeof root, e))
        return false;
    if (!join(s->folder, sizeof s->folder, root, name))
        return error_set(e, ERROR_FILE, "'%.200s': the path is too long", root);
    DIR *dir = opendir(s->folder);
    if (!dir)
        return error_set(e, ERROR_FILE, "'%.300s': no such folder of the catalogue", s->folder);
    for (const struct dirent *d; ok && (d = readdir(dir));)
        ok = add_entry(s, d->d_name, e);
    closedir(dir);
    if (s->n)
        qsort(s->entry, (size_t)s->n, sizeof *s->entry, by_text);
    if (!ok)
        section_close(s);
    return ok;
}

static bool entry_path(const struct section *s, int i, char *out, size_t size, struct error *e)
{
    int n = snprintf(out, size, "%s/%s.json", s->folder, s->entry[i]);
    return (n >= 0 && (size_t)n < size) || error_set(e, ERROR_FILE, "'%.200s': the path is too long", s->folder);
}

static bool matches(const char *candidate, const char *key)
{
    char other[KEY_BYTES];
    normalize(candidate, other);
    return !strcmp(other, key);
}

// Whether entry i carries this name, or lists it among its aliases.
static bool entry_matches(const struct section *s, int i, const char *key, bool *out, struct error *e)
{
    char path[PATH_BYTES];
    cJSON *json;
    const char *name = NULL;
    const cJSON *alias;
    if (!entry_path(s, i, path, sizeof path, e) || !json_load(path, &json, e))
        return false;
    bool ok = json_string(json, path, "name", &name, e);
    *out = name && matches(name, key);
    cJSON_ArrayForEach(alias, json_member(json, "aliases"))
    {
        const char *text = cJSON_GetStringValue(alias);
        *out |= text && matches(text, key);
    }
    cJSON_Delete(json);
    return ok;
}

// "qwen3" stands for a family of names: the first of those that begin so.
static const char *first_beginning(const struct section *s, const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; n > 2 && i < s->n; i++)
        if (!strncmp(s->entry[i], key, n))
            return s->entry[i];
    return NULL;
}

static bool unknown_name(const struct section *s, const char *section, const char *name, struct error *e)
{
    char key[KEY_BYTES];
    normalize(name, key);
    const char *near = names_nearest(key, (const char *const *)s->entry, s->n);
    if (!near)
        near = first_beginning(s, key);
    return error_set(e, ERROR_USAGE, "unknown %s '%.80s'%s%s%s (see kvbench list %s)",
                     strcmp(section, "models") ? section : "model", name, near ? ", did you mean '" : "", near ? near : "",
                     near ? "'?" : "", section);
}

static bool find_in(const struct section *s, const char *section, const char *name, char *path, size_t size, struct error *e)
{
    char key[KEY_BYTES];
    normalize(name, key);
    for (int i = 0; i < s->n; i++) {
        bool found = false;
        if (!entry_matches(s, i, key, &found, e))
            return false;
        if (found)
            return entry_path(s, i, path, size, e);
    }
    return unknown_name(s, section, name, e);
}

bool catalogue_find(const char *section, const char *name, char *path, int size, struct error *e)
{
    struct section s;
    if (!section_open(&s, section, e))
        return false;
    bool ok = find_in(&s, section, name, path, (size_t)size, e);
    section_close(&s);
    return ok;
}

static bool add_name(struct catalogue_name **names, int *n, const char *text, const char *path, struct error *e)
{
    struct catalogue_name *grown = realloc(*names, (size_t)(*n + 1) * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for the catalogue");
    *names = grown;
    normalize(text, grown[*n].key);
    snprintf(grown[*n].path, sizeof grown[*n].path, "%.190s", path);
    *n += *grown[*n].key != 0;
    return true;
}

static bool add_names_of(const struct section *s, int i, struct catalogue_name **names, int *n, struct error *e)
{
    char path[PATH_BYTES];
    cJSON *json;
    const cJSON *alias;
    if (!entry_path(s, i, path, sizeof path, e) || !json_load(path, &json, e))
        return false;
    bool ok = add_name(names, n, s->entry[i], path, e);
    cJSON_ArrayForEach(alias, json_member(json, "aliases"))
    {
        if (ok && cJSON_IsString(alias))
            ok = add_name(names, n, alias->valuestring, path, e);
    }
    cJSON_Delete(json);
    return ok;
}

bool catalogue_names(const char *section, struct catalogue_name **names, int *n, struct error *e)
{
    struct section s;
    bool ok = true;
    *names = NULL, *n = 0;
    if (!section_open(&s, section, e))
        return false;
    for (int i = 0; ok && i < s.n; i++)
        ok = add_names_of(&s, i, names, n, e);
    section_close(&s);
    if (!ok) {
        free(*names);
        *names = NULL, *n = 0;
    }
    return ok;
}

static void describe_plan(const struct model_spec *spec, const struct plan *plan, struct catalogue_row *row)
{
    char kv[24];
    uint64_t params = 0;
    bool priced_only = false;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        params += (uint64_t)plan->tensor[i].rows * (uint64_t)plan->tensor[i].cols;
    struct catalogue_fact fact[] = {{"layers", spec->num_hidden_layers},
                                    {"parameters", (double)params},
                                    {"weight_bytes", (double)plan_weight_bytes(plan)},
                                    {"kv_bytes_per_token", (double)plan_kv_bytes_per_token(plan)}};
    memcpy(row->fact, fact, sizeof fact);
    for (int32_t i = 0; i < plan->n_ops; i++)
        priced_only |= plan->op[i].kind > OP_ALLREDUCE;
    snprintf(row->detail, sizeof row->detail, "%s, %d layers, %.3g B parameters, %s, %s of KV per token%s", spec->family,
             spec->num_hidden_layers, (double)params / 1e9, dtype_name(spec->dtype),
             format_bytes(plan_kv_bytes_per_token(plan), kv), priced_only ? "; priced, not run" : "");
}

// "MixtralForCausalLM is not supported": the message without whom it is about and what was expected instead.
static void describe_error(const struct error *e, struct catalogue_row *row)
{
    const char *reason = strstr(e->message, "': "), *end = strstr(e->message, ", expected");
    reason = reason ? reason + 3 : e->message;
    size_t n = end && end > reason ? (size_t)(end - reason) : strlen(reason);
    snprintf(row->detail, sizeof row->detail, "%.*s", n < 159 ? (int)n : 159, reason);
}

static void describe_model(const char *path, struct catalogue_row *row)
{
    struct model model = {0};
    struct plan plan = {0};
    struct error e = {0};
    row->supported = model_open(&model, path, &e);
    if (row->supported) {
        struct plan_options options = plan_options_default(model.spec.dtype);
        row->supported = plan_make(&plan, &model.spec, &options, &e);
    }
    if (row->supported)
        describe_plan(&model.spec, &plan, row);
    else
        describe_error(&e, row);
    plan_free(&plan);
    model_close(&model);
}

// ", 989 TFLOP/s in bf16", of the first type that there is a number for.
static void describe_peak(const struct hardware *hw, struct catalogue_fact *fact, char out[48])
{
    static const enum dtype TYPE[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    static const char *const NAME[] = {"peak_bf16_FLOPps", "peak_f16_FLOPps", "peak_f32_FLOPps"};
    *out = 0;
    for (int i = 0; i < 3 && !*out; i++) {
        double peak = hw->peak[ROOF_DATASHEET][TYPE[i]].value;
        if (!(peak > 0))
            continue;
        *fact = (struct catalogue_fact){NAME[i], peak};
        snprintf(out, 48, ", %.4g TFLOP/s in %s", peak / 1e12, dtype_name(TYPE[i]));
    }
}

static void describe_hardware(const char *path, struct catalogue_row *row)
{
    struct hardware hw;
    struct error e = {0};
    char memory[24], peak[48];
    row->supported = hardware_load(&hw, path, &e);
    if (!row->supported) {
        describe_error(&e, row);
        return;
    }
    bool titled = !strncmp(hw.title, hw.vendor, strlen(hw.vendor)); // "Apple M1 Max"
    row->fact[0] = (struct catalogue_fact){"memory_bytes", (double)hw.memory_bytes};
    row->fact[1] = (struct catalogue_fact){"bandwidth_Bps", hw.bandwidth[ROOF_DATASHEET].value};
    describe_peak(&hw, &row->fact[2], peak);
    snprintf(row->detail, sizeof row->detail, "%.30s%s%.40s, %s, %.5g GB/s%s", titled ? "" : hw.vendor, titled ? "" : " ",
             hw.title, hw.memory_bytes ? format_bytes(hw.memory_bytes, memory) : "memory unknown",
             hw.bandwidth[ROOF_DATASHEET].value / 1e9, peak);
}

static bool describe_entries(const struct section *s, bool models, struct catalogue_row *rows, struct error *e)
{
    char path[PATH_BYTES];
    for (int i = 0; i < s->n; i++) {
        snprintf(rows[i].name, sizeof rows[i].name, "%s", s->entry[i]);
        if (!entry_path(s, i, path, sizeof path, e))
            return false;
        (models ? describe_model : describe_hardware)(path, &rows[i]);
    }
    return true;
}

bool catalogue_list(const char *section, struct catalogue_row **rows, int *n, struct error *e)
{
    struct section s;
    *rows = NULL, *n = 0;
    if (!section_open(&s, section, e))
        return false;
    *rows = calloc((size_t)s.n + 1, sizeof **rows);
    bool ok = *rows ? describe_entries(&s, !strcmp(section, "models"), *rows, e)
                    : error_set(e, ERROR_MEMORY, "no memory for the catalogue");
    if (ok)
        *n = s.n;
    section_close(&s);
    return ok;
}

// Something that can only be meant as a path.
static bool looks_like_path(const char *text)
{
    size_t n = strlen(text);
    return *text == '/' || *text == '.' || (n > 5 && (!strcmp(text + n - 5, ".gguf") || !strcmp(text + n - 5, ".json")));
}

bool catalogue_open_model(struct model *m, const char *name_or_path, struct error *e)
{
    char path[PATH_BYTES];
    struct model shape;
    *m = (struct model){0};
    if (looks_like_path(name_or_path) || file_exists(name_or_path))
        return model_open(m, name_or_path, e);
    if (!catalogue_find("models", name_or_path, path, sizeof path, e) || !model_open(&shape, path, e))
        return false;
    model_open_random(m, &shape.spec);
    model_close(&shape);
    return true;
}
