#include "bench/scenario.h"

#include "engine/backend.h"
#include "engine/base/file.h"
#include "engine/base/names.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof *(array)))

static const char *const PHASE[] = {"decode", "prefill", "generate"};

static const struct scenario_key KEY[] = {
#define X(section, key, kind, min, max, description) {section, key, description, KEY_##kind, min, max},
    SCENARIO_KEYS(X)
#undef X
};

const struct scenario_key *scenario_keys(int32_t *n)
{
    *n = COUNT_OF(KEY);
    return KEY;
}

static const char *const BACKEND[] = {"auto", "cpu", "cuda", "null"};

const char *const *scenario_backends(int32_t *n)
{
    *n = COUNT_OF(BACKEND);
    return BACKEND;
}

const char *phase_name(enum phase phase)
{
    return PHASE[phase];
}

bool kv_type_parse(const char *text, struct kv_type *out)
{
    char k[32];
    const char *colon = strchr(text, ':');
    *out = (struct kv_type){0};
    if (!colon)
        return dtype_parse(text, &out->k) && dtype_parse(text, &out->v);
    snprintf(k, sizeof k, "%.*s", (int)(colon - text), text);
    return dtype_parse(k, &out->k) && dtype_parse(colon + 1, &out->v);
}

void kv_type_format(struct kv_type kv, char out[32])
{
    const char *k = kv.own_k ? "auto" : dtype_name(kv.k), *v = kv.own_v ? "auto" : dtype_name(kv.v);
    snprintf(out, 32, strcmp(k, v) ? "%s:%s" : "%s", k, v);
}

// Where a value stands, for messages: the file, and the key with its section in front.
struct place {
    const char *where;
    char key[64];
};

static struct place place_of(const char *where, const char *section, const char *key)
{
    struct place p = {.where = where};
    snprintf(p.key, sizeof p.key, *section ? "%s.%s" : "%s%s", section, key);
    return p;
}

static bool wrong(const struct place *p, struct error *e, const char *expected)
{
    return error_set(e, ERROR_USAGE, "'%s': '%s' is not %s", p->where, p->key, expected);
}

// Calls one(ctx, item) for each item of a list, or for the value itself where it is none. Absent keys leave *n_out at -1.
static bool each(const cJSON *object, const char *key, const struct place *p, int32_t max,
                 bool (*one)(void *ctx, const cJSON *item, const struct place *p, struct error *e), void *ctx,
                 struct error *e)
{
    const cJSON *m = json_member(object, key);
    if (!m)
        return true;
    if (!cJSON_IsArray(m))
        return one(ctx, m, p, e);
    if (!m->child)
        return error_set(e, ERROR_USAGE, "'%s': '%s' is an empty list, expected at least one entry", p->where, p->key);
    if (cJSON_GetArraySize(m) > max)
        return error_set(e, ERROR_USAGE, "'%s': '%s' has more than %d entries", p->where, p->key, max);
    for (const cJSON *item = m->child; item; item = item->next)
        if (!one(ctx, item, p, e))
            return false;
    return true;
}

struct counts_in {
    struct count_list list;
    int32_t min, max;
};

static bool one_count(void *ctx, const cJSON *item, const struct place *p, struct error *e)
{
    struct counts_in *in = ctx;
    if (!cJSON_IsNumber(item))
        return wrong(p, e, "a whole number or a list of them");
    double v = item->valuedouble;
    if (!(v >= in->min && v <= in->max) || v != (double)(int32_t)v)
        return error_set(e, ERROR_USAGE, "'%s': '%s' is %g, expected a whole number from %d to %d", p->where, p->key, v,
                         in->min, in->max);
    in->list.value[in->list.n++] = (int32_t)v;
    return true;
}

// *out keeps its default when the key is absent.
static bool read_counts(const cJSON *object, const char *where, const char *section, const char *key, int32_t min,
                        int32_t max, struct count_list *out, struct error *e)
{
    struct place p = place_of(where, section, key);
    struct counts_in in = {.min = min, .max = max};
    if (!each(object, key, &p, SCENARIO_MAX_LIST, one_count, &in, e))
        return false;
    if (in.list.n)
        *out = in.list;
    return true;
}

static bool one_flag(void *ctx, const cJSON *item, const struct place *p, struct error *e)
{
    struct count_list *list = ctx;
    if (!cJSON_IsBool(item))
        return wrong(p, e, "true, false or a list of them");
    list->value[list->n++] = cJSON_IsTrue(item);
    return true;
}

static bool unknown_dtype(const char *text, const struct place *p, struct error *e)
{
    const char *names[DTYPE_COUNT];
    for (int i = 0; i < DTYPE_COUNT; i++)
        names[i] = dtype_name((enum dtype)i);
    const char *near = names_nearest(text, names, DTYPE_COUNT);
    return error_set(e, ERROR_USAGE, "'%s': '%s' is '%.40s', expected a type such as %s", p->where, p->key, text,
                     near ? near : "bf16, f16, f32, int8, fp8");
}

static bool one_weights(void *ctx, const cJSON *item, const struct place *p, struct error *e)
{
    struct weights_list *list = ctx;
    if (!cJSON_IsString(item))
        return wrong(p, e, "a type name or a list of them");
    return dtype_parse(item->valuestring, &list->value[list->n++]) || unknown_dtype(item->valuestring, p, e);
}

static bool one_kv(void *ctx, const cJSON *item, const struct place *p, struct error *e)
{
    struct kv_list *list = ctx;
    if (!cJSON_IsString(item))
        return wrong(p, e, "a type name or a list of them");
    return kv_type_parse(item->valuestring, &list->value[list->n++]) || unknown_dtype(item->valuestring, p, e);
}

static bool one_model(void *ctx, const cJSON *item, const struct place *p, struct error *e)
{
    struct scenario *s = ctx;
    if (!cJSON_IsString(item) || !*item->valuestring)
        return wrong(p, e, "a model's name or a list of them");
    int n = snprintf(s->model[s->n_models++], sizeof *s->model, "%s", item->valuestring);
    return n < (int)sizeof *s->model || error_set(e, ERROR_USAGE, "'%s': '%s' is too long", p->where, p->key);
}

static bool read_text(const cJSON *json, const char *where, const char *key, char *out, size_t size, struct error *e)
{
    const char *text = NULL;
    if (!json_string(json, where, key, &text, e))
        return false;
    if (text && (!*text || strlen(text) >= size))
        return error_set(e, ERROR_USAGE, "'%s': '%s' is empty or too long", where, key);
    if (text)
        snprintf(out, size, "%s", text);
    return true;
}

static struct count_list just(int32_t value)
{
    return (struct count_list){.n = 1, .value = {value}};
}

static struct section section_default(enum phase phase)
{
    return (struct section){.phase = phase,
                            .batch = just(1),
                            .n_prompt = just(phase == PHASE_DECODE    ? 0
                                             : phase == PHASE_PREFILL ? 512
                                                                      : 100),
                            .n_gen = just(phase == PHASE_DECODE    ? 1
                                          : phase == PHASE_PREFILL ? 0
                                                                   : 16),
                            .n_depth = just(phase == PHASE_DECODE ? 511 : 0),
                            .block = just(16),
                            .cache = just(1)};
}

static struct section *add_section(struct scenario *s, enum phase phase)
{
    if (s->n_sections == SCENARIO_MAX_SECTIONS)
        return NULL;
    s->section[s->n_sections] = section_default(phase);
    return &s->section[s->n_sections++];
}

// What every section has, under the same keys.
static bool read_section(const cJSON *json, const char *where, struct section *out, struct error *e)
{
    const char *name = PHASE[out->phase];
    struct place p = place_of(where, name, "kv");
    return read_counts(json, where, name, "batch", 1, SCENARIO_MAX_BATCH, &out->batch, e) &&
           read_counts(json, where, name, "block", 0, SCENARIO_MAX_TOKENS, &out->block, e) &&
           each(json, "kv", &p, SCENARIO_MAX_LIST, one_kv, &out->kv, e) &&
           json_i32(json, where, "max_kv_tokens", 1, INT32_MAX, &out->max_kv_tokens, e);
}

// name "": the top.
static bool section_keys(const cJSON *json, const char *where, const char *name, struct error *e)
{
    struct place p = place_of(where, "", name);
    char section[600];
    const char *keys[COUNT_OF(KEY) + 1] = {"_comment"};
    int n = 1;
    for (int32_t i = 0; i < COUNT_OF(KEY); i++)
        if (!strcmp(KEY[i].section, name))
            keys[n++] = KEY[i].name;
    snprintf(section, sizeof section, *name ? "%.500s: %s" : "%.500s", where, name);
    return !*name || cJSON_IsObject(json) ? json_known_keys(json, section, keys, n, e) : wrong(&p, e, "an object");
}

static bool read_decode(struct scenario *s, const cJSON *json, struct error *e)
{
    struct section *out = add_section(s, PHASE_DECODE);
    struct count_list context = just(512);
    if (!section_keys(json, s->where, "decode", e) || !read_section(json, s->where, out, e) ||
        !read_counts(json, s->where, "decode", "context", 1, SCENARIO_MAX_TOKENS, &context, e))
        return false;
    out->n_depth.n = context.n;
    for (int32_t i = 0; i < context.n; i++)
        out->n_depth.value[i] = context.value[i] - 1;
    return true;
}

static bool read_prefill(struct scenario *s, const cJSON *json, struct error *e)
{
    struct section *out = add_section(s, PHASE_PREFILL);
    return section_keys(json, s->where, "prefill", e) && read_section(json, s->where, out, e) &&
           read_counts(json, s->where, "prefill", "tokens", 1, SCENARIO_MAX_TOKENS, &out->n_prompt, e);
}

static bool read_generate(struct scenario *s, const cJSON *json, struct error *e)
{
    struct section *out = add_section(s, PHASE_GENERATE);
    struct place p = place_of(s->where, "generate", "cache");
    struct count_list cache = {0};
    if (!section_keys(json, s->where, "generate", e) || !read_section(json, s->where, out, e) ||
        !read_counts(json, s->where, "generate", "prompt", 1, SCENARIO_MAX_TOKENS, &out->n_prompt, e) ||
        !read_counts(json, s->where, "generate", "tokens", 1, SCENARIO_MAX_TOKENS, &out->n_gen, e) ||
        !each(json, "cache", &p, SCENARIO_MAX_LIST, one_flag, &cache, e))
        return false;
    if (cache.n)
        out->cache = cache;
    return true;
}

static bool read_sections(struct scenario *s, const cJSON *json, struct error *e)
{
    const cJSON *decode = json_member(json, "decode"), *prefill = json_member(json, "prefill"),
                *generate = json_member(json, "generate");
    if ((decode && !read_decode(s, decode, e)) || (prefill && !read_prefill(s, prefill, e)) ||
        (generate && !read_generate(s, generate, e)))
        return false;
    if (!s->n_sections) // a scenario that names only a model: one point of each kind
        return add_section(s, PHASE_DECODE) && add_section(s, PHASE_PREFILL);
    return true;
}

void scenario_init(struct scenario *s, const char *where, const char *name)
{
    *s = (struct scenario){.backend = "auto",
                           .hardware = "auto",
                           .threads = just(0),
                           .tp = 1,
                           .samples = 7,
                           .warmup = 1,
                           .seconds = 2,
                           .timeout_s = 60,
                           .seed = 1};
    snprintf(s->where, sizeof s->where, "%s", where);
    snprintf(s->name, sizeof s->name, "%s", name);
}

// The name of a scenario becomes the name of its files.
static bool check_name(const struct scenario *s, struct error *e)
{
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (s->name[0] && s->name[0] != '.' && !s->name[strspn(s->name, ALLOWED)])
        return true;
    return error_set(e, ERROR_USAGE, "'%s': 'name' is '%s', expected letters, digits, '.', '_' or '-'", s->where, s->name);
}

// "configs/cpu.json" without a "name" is "cpu".
static void name_from_path(struct scenario *s, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    snprintf(s->name, sizeof s->name, "%.*s", dot ? (int)(dot - base) : (int)strlen(base), base);
}

static bool read_compute(struct scenario *s, const cJSON *json, struct error *e)
{
    const char *text = NULL;
    struct place p = place_of(s->where, "", "compute");
    if (!json_string(json, s->where, "compute", &text, e))
        return false;
    s->has_compute = text;
    return !text || dtype_parse(text, &s->compute) || unknown_dtype(text, &p, e);
}

static bool read_model(struct scenario *s, const cJSON *json, struct error *e)
{
    struct place p = place_of(s->where, "", "model");
    if (!each(json, "model", &p, SCENARIO_MAX_MODELS, one_model, s, e))
        return false;
    return s->n_models ||
           error_set(e, ERROR_USAGE, "'%s': 'model' is missing, expected a catalogue name or a path", s->where);
}

bool scenario_parse(struct scenario *s, const cJSON *json, const char *where, struct error *e)
{
    scenario_init(s, where, "");
    name_from_path(s, where);
    struct place weights = place_of(where, "", "weights");
    return section_keys(json, where, "", e) && read_model(s, json, e) &&
           read_text(json, where, "name", s->name, sizeof s->name, e) && check_name(s, e) &&
           read_text(json, where, "backend", s->backend, sizeof s->backend, e) &&
           read_text(json, where, "hardware", s->hardware, sizeof s->hardware, e) &&
           each(json, "weights", &weights, SCENARIO_MAX_LIST, one_weights, &s->weights, e) && read_compute(s, json, e) &&
           read_sections(s, json, e) && read_counts(json, where, "", "threads", 0, 4096, &s->threads, e) &&
           json_i32(json, where, "tp", 1, 1024, &s->tp, e) && json_i32(json, where, "samples", 1, 100000, &s->samples, e) &&
           json_i32(json, where, "warmup", 1, 1000, &s->warmup, e) &&
           json_f64(json, where, "seconds", 0, 86400, &s->seconds, e) &&
           json_f64(json, where, "timeout_s", 0.001, 86400, &s->timeout_s, e) &&
           json_f64(json, where, "budget_s", 0, 1e6, &s->budget_s, e) &&
           json_i32(json, where, "seed", 0, INT32_MAX, &s->seed, e);
}

bool scenario_load(struct scenario *s, const char *path, struct error *e)
{
    cJSON *json;
    if (!json_load(path, &json, e))
        return false;
    bool ok = scenario_parse(s, json, path, e) && scenario_check_names(s, e);
    cJSON_Delete(json);
    return ok;
}

static bool check_backend(const struct scenario *s, struct error *e)
{
    for (int32_t i = 0; i < COUNT_OF(BACKEND); i++)
        if (!strcmp(s->backend, BACKEND[i]))
            return true;
    const char *near = names_nearest(s->backend, BACKEND, COUNT_OF(BACKEND));
    return error_set(e, ERROR_USAGE, "'%s': 'backend' is '%s', expected %s", s->where, s->backend,
                     near ? near : "auto, cpu, cuda or null");
}

// Flags say where they stand by their names; files need theirs in front.
static bool wrong_name(const struct scenario *s, const char *key, struct error *e)
{
    bool flag = !strcmp(s->where, SCENARIO_COMMAND_LINE);
    return flag ? error_prefix(e, "'--%s'", key) : error_prefix(e, "'%s': '%s'", s->where, key);
}

bool scenario_check_names(const struct scenario *s, struct error *e)
{
    char path[1024];
    for (int32_t i = 0; i < s->n_models; i++)
        if (!file_exists(s->model[i]) && !catalogue_find("models", s->model[i], path, sizeof path, e))
            return wrong_name(s, "model", e);
    for (const char *at = file_exists(s->hardware) ? "" : s->hardware; *at;) { // predict takes several, with commas
        char name[sizeof s->hardware];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (strcmp(name, "auto") && !file_exists(name) && !catalogue_find("hardware", name, path, sizeof path, e))
            return wrong_name(s, "hardware", e);
        at += n + (at[n] == ',');
    }
    return check_backend(s, e);
}

static void add_counts(cJSON *object, const char *key, const struct count_list *list)
{
    cJSON_AddItemToObject(object, key, cJSON_CreateIntArray(list->value, list->n));
}

static cJSON *section_json(const struct section *s)
{
    cJSON *json = cJSON_CreateObject(), *kv = cJSON_CreateArray();
    char text[32];
    cJSON_AddStringToObject(json, "phase", phase_name(s->phase));
    add_counts(json, "batch", &s->batch);
    add_counts(json, "n_prompt", &s->n_prompt);
    add_counts(json, "n_gen", &s->n_gen);
    add_counts(json, "n_depth", &s->n_depth);
    add_counts(json, "block", &s->block);
    add_counts(json, "cache", &s->cache);
    for (int32_t i = 0; i < s->kv.n; i++) {
        kv_type_format(s->kv.value[i], text);
        cJSON_AddItemToArray(kv, cJSON_CreateString(text));
    }
    cJSON_AddItemToObject(json, "kv", kv);
    if (s->max_kv_tokens)
        cJSON_AddNumberToObject(json, "max_kv_tokens", s->max_kv_tokens);
    return json;
}

static void add_scalars(cJSON *json, const struct scenario *s)
{
    if (s->has_compute)
        cJSON_AddStringToObject(json, "compute", dtype_name(s->compute));
    cJSON_AddNumberToObject(json, "tp", s->tp);
    cJSON_AddNumberToObject(json, "samples", s->samples);
    cJSON_AddNumberToObject(json, "warmup", s->warmup);
    cJSON_AddNumberToObject(json, "seconds", s->seconds);
    cJSON_AddNumberToObject(json, "timeout_s", s->timeout_s);
    cJSON_AddNumberToObject(json, "budget_s", s->budget_s);
    cJSON_AddNumberToObject(json, "seed", s->seed);
}

cJSON *scenario_json(const struct scenario *s)
{
    cJSON *json = cJSON_CreateObject(), *model = cJSON_CreateArray(), *weights = cJSON_CreateArray();
    cJSON_AddStringToObject(json, "name", s->name);
    for (int32_t i = 0; i < s->n_models; i++)
        cJSON_AddItemToArray(model, cJSON_CreateString(s->model[i]));
    for (int32_t i = 0; i < s->weights.n; i++)
        cJSON_AddItemToArray(weights, cJSON_CreateString(dtype_name(s->weights.value[i])));
    cJSON_AddItemToObject(json, "model", model);
    cJSON_AddStringToObject(json, "backend", s->backend);
    cJSON_AddStringToObject(json, "hardware", s->hardware);
    cJSON_AddItemToObject(json, "weights", weights);
    add_counts(json, "threads", &s->threads);
    add_scalars(json, s);
    cJSON *sections = cJSON_AddArrayToObject(json, "sections");
    for (int32_t i = 0; i < s->n_sections; i++)
        cJSON_AddItemToArray(sections, section_json(&s->section[i]));
    return json;
}

// FNV-1a (Fowler, Noll, Vo): 64-bit offset basis and prime.
void scenario_hash(const struct scenario *s, char out[17])
{
    cJSON *json = scenario_json(s);
    char *text = cJSON_PrintUnformatted(json);
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = text ? text : ""; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(out, 17, "%016llx", (unsigned long long)h);
    free(text);
    cJSON_Delete(json);
}
