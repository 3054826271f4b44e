// How config.json describes rotary embedding. transformers 4 has rope_theta and partial_rotary_factor beside rope_scaling,
// version 5 all of them inside rope_parameters; families with two kinds of layers have one such object for each kind.
#include "engine/load/config.h"

#include <math.h>
#include <string.h>

// Where the facts of one rope stand, the first that has one wins.
struct source {
    const cJSON *scaling, *parameters, *config;
    const char *where;
};

static bool read_number(const struct source *f, const char *key, double min, double max, double *out, struct error *e)
{
    const cJSON *in = json_member(f->scaling, key) ? f->scaling : f->parameters;
    return json_f64(in, f->where, key, min, max, out, e);
}

// Of the context the model was first made for: beside the object, in it, or the model's own.
static bool read_original(const struct source *f, int32_t max_positions, int32_t *out, struct error *e)
{
    static const char KEY[] = "original_max_position_embeddings";
    *out = max_positions;
    return json_i32(f->parameters, f->where, KEY, 1, MAX_POSITIONS, out, e) &&
           json_i32(f->scaling, f->where, KEY, 1, MAX_POSITIONS, out, e) &&
           json_i32(f->config, f->where, KEY, 1, MAX_POSITIONS, out, e);
}

static bool read_llama3(struct rope_spec *r, const struct source *f, struct error *e)
{
    if (!read_number(f, "low_freq_factor", 1e-3, 1e6, &r->low_freq_factor, e) ||
        !read_number(f, "high_freq_factor", 1e-3, 1e6, &r->high_freq_factor, e))
        return false;
    return (r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor) ||
           error_set(e, ERROR_FILE, "'%s': rope scaling 'llama3' needs a 'low_freq_factor' below its 'high_freq_factor'",
                     f->where);
}

static double yarn_magnitude(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static bool read_yarn(struct rope_spec *r, const struct source *f, struct error *e)
{
    double magnitude = 0, mscale = 0, mscale_all_dim = 0;
    bool truncate = true;
    r->beta_fast = 32, r->beta_slow = 1;
    if (!read_number(f, "beta_fast", 1e-3, 1e6, &r->beta_fast, e) ||
        !read_number(f, "beta_slow", 1e-3, 1e6, &r->beta_slow, e) ||
        !read_number(f, "attention_factor", 1e-3, 1e3, &magnitude, e) || !read_number(f, "mscale", 0, 1e3, &mscale, e) ||
        !read_number(f, "mscale_all_dim", 0, 1e3, &mscale_all_dim, e) ||
        !json_bool(json_member(f->scaling, "truncate") ? f->scaling : f->parameters, f->where, "truncate", &truncate, e))
        return false;
    if (magnitude <= 0)
        magnitude = mscale > 0 && mscale_all_dim > 0
                        ? yarn_magnitude(r->factor, mscale) / yarn_magnitude(r->factor, mscale_all_dim)
                        : yarn_magnitude(r->factor, 1);
    r->magnitude = (float)magnitude;
    r->ramp_is_exact = !truncate;
    return r->theta > 1 || error_set(e, ERROR_FILE, "'%s': rope scaling 'yarn' needs a 'rope_theta' above 1", f->where);
}

static bool read_factors(const struct source *f, const char *key, int32_t n, float *out, struct error *e)
{
    const cJSON *list = json_member(json_member(f->scaling, key) ? f->scaling : f->parameters, key), *item;
    int32_t i = 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return error_set(e, ERROR_FILE, "'%s': rope scaling 'longrope' needs a '%s' of %d numbers", f->where, key, n);
    cJSON_ArrayForEach(item, list)
    {
        out[i] = cJSON_IsNumber(item) ? (float)item->valuedouble : 0;
        if (!(out[i] > 0) || !isfinite(out[i]))
            return error_set(e, ERROR_FILE, "'%s': '%s' holds what is no number above 0", f->where, key);
        i++;
    }
    return true;
}

// Ding et al. 2024; transformers, modeling_rope_utils.py, _compute_longrope_parameters.
static bool read_long(struct rope_spec *r, int32_t max_positions, const struct source *f, struct error *e)
{
    double original = r->original_max_position_embeddings, factor = r->factor > 0 ? r->factor : max_positions / original;
    double magnitude = factor > 1 && original > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
    if (!read_number(f, "attention_factor", 1e-3, 1e3, &magnitude, e) ||
        !read_factors(f, "short_factor", r->rotary_dim / 2, r->freq_factor, e) ||
        !read_factors(f, "long_factor", r->rotary_dim / 2, r->long_factor, e))
        return false;
    r->magnitude = (float)magnitude;
    return true;
}

static bool kind_of(const char *type, bool yarn_is_long, const char *where, enum rope_kind *out, struct error *e)
{
    static const struct {
        const char *name;
        enum rope_kind kind;
    } KIND[] = {{"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3},
                {"yarn", ROPE_YARN},       {"longrope", ROPE_LONG}, {"su", ROPE_LONG}};
    for (size_t i = 0; i < sizeof KIND / sizeof *KIND; i++)
        if (!strcmp(type, KIND[i].name)) {
            *out = KIND[i].kind == ROPE_YARN && yarn_is_long ? ROPE_LONG : KIND[i].kind;
            return true;
        }
    return error_set(e, ERROR_UNSUPPORTED,
                     "'%s': rope scaling '%.40s' is not supported, expected default, linear, llama3, yarn or longrope",
                     where, type);
}

static bool read_kind(struct rope_spec *r, int32_t max_positions, bool yarn_is_long, const struct source *f, struct error *e)
{
    const char *type = "default";
    const cJSON *in = json_member(f->scaling, "type") || json_member(f->scaling, "rope_type") ? f->scaling : f->parameters;
    if (!json_string(in, f->where, "type", &type, e) || !json_string(in, f->where, "rope_type", &type, e) ||
        !kind_of(type, yarn_is_long, f->where, &r->kind, e) || !read_number(f, "factor", 1e-3, 1e6, &r->factor, e) ||
        !read_original(f, max_positions, &r->original_max_position_embeddings, e))
        return false;
    if (r->kind == ROPE_YARN && r->factor <= 0)
        r->factor = (double)max_positions / r->original_max_position_embeddings;
    if (r->factor <= 0 && r->kind != ROPE_DEFAULT && r->kind != ROPE_LONG)
        return error_set(e, ERROR_FILE, "'%s': rope scaling '%s' has no 'factor'", f->where, type);
    switch (r->kind) {
    case ROPE_LLAMA3: return read_llama3(r, f, e);
    case ROPE_YARN: return read_yarn(r, f, e);
    case ROPE_LONG: return read_long(r, max_positions, f, e);
    default: return true;
    }
}

// theta_key: where the theta stands outside the objects.
static bool read_rope(struct rope_spec *r, const struct model_spec *s, const struct family *family, const struct source *f,
                      const char *theta_key, double theta, struct error *e)
{
    double partial = 1;
    if (!json_f64(f->config, f->where, theta_key, 1, 1e15, &theta, e) || !read_number(f, "rope_theta", 1, 1e15, &theta, e))
        return false;
    if (family->partial_rotary && (!json_f64(f->config, f->where, "partial_rotary_factor", 0, 1, &partial, e) ||
                                   !read_number(f, "partial_rotary_factor", 0, 1, &partial, e)))
        return false;
    r->theta = theta;
    r->rotary_dim = (int32_t)(s->head_dim * partial);
    if (r->rotary_dim / 2 > MODEL_MAX_ROTARY / 2)
        return true; // refused by model_spec_check
    return read_kind(r, s->max_position_embeddings, family->partial_rotary, f, e);
}

static bool check_object(const cJSON *config, const char *where, const char *key, struct error *e)
{
    const cJSON *object = json_member(config, key);
    return !object || cJSON_IsObject(object) || error_set(e, ERROR_FILE, "'%s': '%s' is not an object", where, key);
}

bool config_read_rope(struct model_spec *s, const struct family *family, const cJSON *config, const char *where,
                      struct error *e)
{
    const cJSON *scaling = json_member(config, "rope_scaling"), *parameters = json_member(config, "rope_parameters");
    const cJSON *full = json_member(parameters, "full_attention"), *local = json_member(parameters, "sliding_attention");
    if (!check_object(config, where, "rope_scaling", e) || !check_object(config, where, "rope_parameters", e))
        return false;
    if (!family->rope_by_layer && (full || local))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': 'rope_parameters' by kind of layer are not supported for this family",
                         where);
    if (!check_object(parameters, where, "full_attention", e) || !check_object(parameters, where, "sliding_attention", e))
        return false;
    bool replaced = scaling && scaling->child; // a file with both objects means the first alone
    struct source of_all = {scaling, family->rope_by_layer ? full : replaced ? NULL : parameters, config, where};
    struct source of_local = {NULL, local, config, where};
    // Gemma 3's files say the theta of layers with a window beside the other one; OLMo 3's do not
    const char *local_key = strcmp(family->name, "gemma3") ? "" : "rope_local_base_freq";
    return read_rope(&s->rope, s, family, &of_all, "rope_theta", family->rope_theta, e) &&
           (!family->rope_by_layer ||
            read_rope(&s->rope_local, s, family, &of_local, local_key, family->rope_theta_local, e));
}
