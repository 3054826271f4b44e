// Somebody else's logits: reference files beside a model.
#include "bench/verify.h"

#include "engine/base/file.h"
#include "engine/base/json.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 10, PATH_SIZE = 1152 };

// One sequence with what is known of it: every logit, or the ten best of each generated step.
struct golden {
    char name[32], where[PATH_SIZE];
    int32_t n_prompt, n_greedy, n_tokens; // n_tokens: prompt and all generated ids but the last
    int32_t *token;                       // [n_prompt + n_greedy]
    double largest;                       // |logit|
    const float *logits;                  // [n_tokens, vocab_size], or NULL
    int32_t *top_id;                      // [n_greedy, TOP], or NULL
    double *top_logit;                    // [n_greedy, TOP]
};

static void golden_free(struct golden *g)
{
    free(g->token);
    free(g->top_id);
    free(g->top_logit);
    *g = (struct golden){0};
}

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), k = strlen(suffix);
    return n >= k && !strcmp(text + n - k, suffix);
}

// path without its last `cut` characters, with `tail` behind.
static void replace_tail(const char *path, size_t cut, const char *tail, char *out)
{
    snprintf(out, PATH_SIZE, "%.*s%s", (int)(strlen(path) - cut), path, tail);
}

// A JSON in the folder of `path` whose "file" is the name of `path`.
static bool find_by_file_key(const char *path, char *out)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_SIZE];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    DIR *dir = opendir(folder);
    bool found = false;
    for (struct dirent *d; dir && !found && (d = readdir(dir));) {
        cJSON *json = NULL;
        const char *file = "";
        snprintf(out, PATH_SIZE, "%.800s/%.255s", folder, d->d_name);
        if (ends_with(out, ".json") && json_load(out, &json, NULL))
            found = cJSON_IsObject(json) && json_string(json, out, "file", &file, NULL) && !strcmp(file, name);
        cJSON_Delete(json);
    }
    if (dir)
        closedir(dir);
    return found;
}

// The reference JSON of a path, and the file of logits that would belong to it.
static bool find_reference(const char *path, char *json, char *logits, struct error *e)
{
    if (strlen(path) > PATH_SIZE - 64)
        return error_set(e, ERROR_USAGE, "'--golden': path is too long");
    if (file_is_directory(path)) {
        snprintf(json, PATH_SIZE, "%s/reference.json", path);
    } else if (ends_with(path, ".json")) {
        snprintf(json, PATH_SIZE, "%s", path);
    } else {
        replace_tail(path, ends_with(path, ".gguf") ? strlen(".gguf") : 0, ".json", json);
        if (!file_exists(json) && !find_by_file_key(path, json))
            return error_set(e, ERROR_FILE, "'%s' has no reference beside it: no JSON of its name, and none that names it",
                             path);
    }
    if (!file_exists(json))
        return error_set(e, ERROR_FILE, "'%s': no such reference file", json);
    if (ends_with(json, "/reference.json"))
        replace_tail(json, strlen("reference.json"), "logits.f32", logits);
    else
        replace_tail(json, strlen(".json"), ".logits.f32", logits);
    return true;
}

// Ids of object[key], each in 0..vocab_size-1, to out (NULL: only counted).
static bool read_ids(const cJSON *object, const char *where, const char *key, int32_t vocab_size, int32_t *out, int32_t *n,
                     struct error *e)
{
    const cJSON *array = json_member(object, key), *item;
    *n = 0;
    if (!cJSON_IsArray(array) || !cJSON_GetArraySize(array))
        return error_set(e, ERROR_FILE, "'%s': '%s' is missing or empty, expected an array of ids", where, key);
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < vocab_size))
            return error_set(e, ERROR_FILE, "'%s': '%s'[%d] is no id below %d", where, key, *n, vocab_size);
        if (out)
            out[*n] = item->valueint;
        ++*n;
    }
    return true;
}

static bool read_sequence(struct golden *g, const cJSON *object, const char *prompt_key, int32_t vocab_size, struct error *e)
{
    int32_t n;
    if (!read_ids(object, g->where, prompt_key, vocab_size, NULL, &g->n_prompt, e) ||
        !read_ids(object, g->where, "greedy", vocab_size, NULL, &g->n_greedy, e))
        return false;
    g->n_tokens = g->n_prompt + g->n_greedy - 1;
    g->token = malloc(((size_t)g->n_prompt + (size_t)g->n_greedy) * sizeof *g->token);
    if (!g->token)
        return error_set(e, ERROR_MEMORY, "no memory for '%s'", g->where);
    return read_ids(object, g->where, prompt_key, vocab_size, g->token, &n, e) &&
           read_ids(object, g->where, "greedy", vocab_size, g->token + g->n_prompt, &n, e);
}

static bool read_top(struct golden *g, const cJSON *step, int32_t i, int32_t vocab_size, struct error *e)
{
    int32_t n;
    const cJSON *logits = json_member(step, "logits"), *item;
    if (cJSON_GetArraySize(json_member(step, "ids")) != TOP || cJSON_GetArraySize(logits) != TOP)
        return error_set(e, ERROR_FILE, "'%s': 'top10'[%d] needs %d ids and logits", g->where, i, TOP);
    if (!read_ids(step, g->where, "ids", vocab_size, g->top_id + i * TOP, &n, e))
        return false;
    n = 0;
    cJSON_ArrayForEach(item, logits)
    {
        double value = cJSON_GetNumberValue(item);
        if (!isfinite(value))
            return error_set(e, ERROR_FILE, "'%s': 'top10'[%d] has a logit that is no number", g->where, i);
        g->top_logit[i * TOP + n++] = value;
        g->largest = fmax(g->largest, fabs(value));
    }
    return true;
}

static bool read_case(struct golden *g, const cJSON *object, int32_t vocab_size, struct error *e)
{
    const cJSON *top = json_member(object, "top10"), *step;
    const char *name = "case";
    int32_t i = 0;
    if (!read_sequence(g, object, "prompt_ids", vocab_size, e) || !json_string(object, g->where, "name", &name, e))
        return false;
    snprintf(g->name, sizeof g->name, "%s", name);
    if (cJSON_GetArraySize(top) != g->n_greedy)
        return error_set(e, ERROR_FILE, "'%s': 'top10' of '%s' needs one entry for each of %d ids", g->where, name,
                         g->n_greedy);
    g->top_id = calloc((size_t)g->n_greedy * TOP, sizeof *g->top_id);
    g->top_logit = calloc((size_t)g->n_greedy * TOP, sizeof *g->top_logit);
    if (!g->top_id || !g->top_logit)
        return error_set(e, ERROR_MEMORY, "no memory for '%s'", g->where);
    cJSON_ArrayForEach(step, top)
    {
        if (!read_top(g, step, i++, vocab_size, e))
            return false;
    }
    return true;
}

// Reads prompt and ids; `file` holds the logits and must stay open as long as g.
static bool read_full(struct golden *g, const cJSON *object, const struct file *file, int32_t vocab_size, struct error *e)
{
    if (!read_sequence(g, object, "prompt", vocab_size, e))
        return false;
    snprintf(g->name, sizeof g->name, "golden");
    size_t n = (size_t)g->n_tokens * (size_t)vocab_size;
    if (file->size != n * sizeof(float))
        return error_set(e, ERROR_FILE, "'%s': its logits take %zu bytes, expected %d rows of %d values", g->where,
                         file->size, g->n_tokens, vocab_size);
    g->logits = file->data;
    for (size_t i = 0; i < n; i++)
        g->largest = fmax(g->largest, fabs((double)g->logits[i]));
    return isfinite(g->largest) || error_set(e, ERROR_FILE, "'%s': a reference logit is not finite", g->where);
}

struct comparison {
    struct opened *o;
    const struct golden *golden;
    float *row; // [vocab_size]
    double tolerance;
    double max_diff;
    int32_t n_compared; // logits
};

static void keep(struct comparison *c, double got, double expected)
{
    double d = fabs(got - expected) / c->golden->largest;
    if (!(d <= c->max_diff))
        c->max_diff = isfinite(d) ? d : INFINITY;
    c->n_compared++;
}

// Output row out_row of the last step stands at position pos of the sequence.
static bool compare_row(struct comparison *c, int32_t out_row, int32_t pos, struct error *e)
{
    const struct golden *g = c->golden;
    int32_t vocab_size = c->o->plan->vocab_size, step = pos - g->n_prompt + 1;
    if (!engine_logits(&c->o->engine, out_row, c->row, e))
        return false;
    for (int32_t i = 0; g->logits && i < vocab_size; i++)
        keep(c, (double)c->row[i], (double)g->logits[(size_t)pos * (size_t)vocab_size + (size_t)i]);
    for (int32_t i = 0; g->top_id && step >= 0 && i < TOP; i++)
        keep(c, (double)c->row[g->top_id[step * TOP + i]], g->top_logit[step * TOP + i]);
    return true;
}

// The sequence in steps of `chunk` rows after a first one of `first` rows.
static bool compare_all(struct comparison *c, int32_t first, int32_t chunk, struct error *e)
{
    const struct golden *g = c->golden;
    struct session session = {0};
    bool ok = true;
    c->max_diff = 0;
    c->n_compared = 0;
    for (int32_t pos = 0; ok && pos < g->n_tokens;) {
        int32_t n = pos ? chunk : first;
        n = n < g->n_tokens - pos ? n : g->n_tokens - pos;
        struct step step = {.session = &session, .token = g->token + pos, .n_tokens = n, .out = STEP_OUT_ALL};
        ok = engine_step(&c->o->engine, &step, 1, NULL, e);
        for (int32_t i = 0; ok && i < n; i++)
            ok = compare_row(c, i, pos + i, e);
        pos += n;
    }
    session_free(&c->o->engine, &session);
    return ok;
}

static bool check_logits(struct comparison *c, const char *how, int32_t first, int32_t chunk, struct verify_report *report,
                         struct error *e)
{
    struct verify_check row = {.tolerance = c->tolerance};
    if (!compare_all(c, first, chunk, e))
        return false;
    snprintf(row.name, sizeof row.name, "%s: %s", c->golden->name, how);
    snprintf(row.detail, sizeof row.detail, "%d logits of %d tokens, largest %.4g", c->n_compared, c->golden->n_tokens,
             c->golden->largest);
    row.max_diff = c->max_diff;
    row.passed = c->max_diff <= c->tolerance;
    verify_add(report, &row);
    return true;
}

// How far apart the two best of generated step i are in the reference.
static double reference_gap(const struct golden *g, int32_t i, int32_t vocab_size)
{
    if (g->top_logit)
        return g->top_logit[i * TOP] - g->top_logit[i * TOP + 1];
    const float *row = g->logits + (size_t)(g->n_prompt - 1 + i) * (size_t)vocab_size;
    int32_t best = logits_argmax(row, vocab_size);
    double second = -INFINITY;
    for (int32_t k = 0; k < vocab_size; k++)
        second = k == best ? second : fmax(second, (double)row[k]);
    return (double)row[best] - second;
}

// Greedy ids may differ first at a step whose two best are closer than twice the tolerance.
static bool check_greedy(struct comparison *c, struct verify_report *report, struct error *e)
{
    const struct golden *g = c->golden;
    struct verify_check row = {.tolerance = c->tolerance};
    struct session session = {0};
    struct sampler sampler;
    struct generate_options options = {.max_tokens = g->n_greedy, .use_cache = true};
    int32_t n_out, same = 0, *out = malloc((size_t)g->n_greedy * sizeof *out);
    if (!out)
        return error_set(e, ERROR_MEMORY, "no memory for %d ids", g->n_greedy);
    bool ok = sampler_init(&sampler, 0, 0, 1, 0, e);
    struct token_source source = sampler_source(&sampler);
    ok = ok && engine_generate(&c->o->engine, &session, g->token, g->n_prompt, &source, &options, out, &n_out, e);
    while (ok && same < g->n_greedy && out[same] == g->token[g->n_prompt + same])
        same++;
    bool tie = ok && same < g->n_greedy && reference_gap(g, same, c->o->plan->vocab_size) <= 2 * c->tolerance * g->largest;
    snprintf(row.name, sizeof row.name, "%s: greedy ids", g->name);
    snprintf(row.detail, sizeof row.detail, "%d of %d ids%s", same, g->n_greedy, tie ? ", then a near tie" : "");
    row.passed = same == g->n_greedy || tie;
    row.max_diff = row.passed ? 0 : INFINITY;
    session_free(&c->o->engine, &session);
    free(out);
    if (ok)
        verify_add(report, &row);
    return ok;
}

// References are computed without rounding K and V; fewer bits deviate by what they round.
static double tolerance_of(enum dtype kv)
{
    return kv == DTYPE_F32 ? 1e-4 : kv == DTYPE_BF16 || kv == DTYPE_F16 ? 2e-2 : 5e-2;
}

static bool check_golden(struct opened *o, const struct verify_options *options, const struct golden *g,
                         struct verify_report *report, struct error *e)
{
    struct comparison c = {.o = o, .golden = g, .tolerance = tolerance_of(options->kv)};
    struct kv_config kv = kv_config_for(1, g->n_tokens + 1, 16, g->n_tokens, g->n_tokens);
    c.row = malloc((size_t)o->plan->vocab_size * sizeof *c.row);
    if (!c.row)
        return error_set(e, ERROR_MEMORY, "no memory for a row of logits");
    bool ok = open_engine(o, &kv, e) && check_logits(&c, "one pass", g->n_tokens, 1, report, e) &&
              check_logits(&c, "with cache", g->n_prompt, 1, report, e) && check_greedy(&c, report, e);
    free(c.row);
    return ok;
}

static bool verify_cases(struct opened *o, const struct verify_options *options, const char *where, const cJSON *cases,
                         struct verify_report *report, struct error *e)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        struct golden g = {0};
        snprintf(g.where, sizeof g.where, "%s", where);
        bool ok = read_case(&g, item, o->plan->vocab_size, e) && check_golden(o, options, &g, report, e);
        golden_free(&g);
        if (!ok)
            return false;
    }
    return cJSON_GetArraySize(cases) > 0 || error_set(e, ERROR_FILE, "'%s': 'cases' is empty", where);
}

static bool verify_full(struct opened *o, const struct verify_options *options, const char *where, const cJSON *object,
                        const char *logits, struct verify_report *report, struct error *e)
{
    struct golden g = {0};
    struct file file;
    if (!file_open(&file, logits, e))
        return false;
    snprintf(g.where, sizeof g.where, "%s", where);
    bool ok = read_full(&g, object, &file, o->plan->vocab_size, e) && check_golden(o, options, &g, report, e);
    golden_free(&g);
    file_close(&file);
    return ok;
}

bool verify_golden(struct opened *o, const struct verify_options *options, const char *path, struct verify_report *report,
                   struct error *e)
{
    char where[PATH_SIZE], logits[PATH_SIZE];
    cJSON *json = NULL;
    if (!find_reference(path, where, logits, e) || !json_load(where, &json, e))
        return false;
    verify_choose_types(o, options->kv);
    const cJSON *cases = json_member(json, "cases");
    bool ok = cJSON_IsArray(cases) ? verify_cases(o, options, where, cases, report, e)
                                   : verify_full(o, options, where, json, logits, report, e);
    cJSON_Delete(json);
    return ok;
}
