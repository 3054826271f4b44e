// Hugging Face config.json, as transformers 4 and 5 write it, to model_spec. What is absent follows from the family
// (family.c); keys we do not use are none of our business. Rotary embedding is read in config_rope.c.
#include "engine/load/config.h"

#include "engine/base/json.h"
#include "engine/load/config_priced.h"
#include "engine/load/model.h"

#include <math.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 16, MAX_COUNT = 1 << 24, MAX_HEADS_WIDTH = 1 << 22 };

void model_name_from_path(const char *path, char *out, int size)
{
    size_t end = strlen(path);
    const char *const SUFFIX[] = {"/config.json", ".json", ".gguf"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(SUFFIX[i]);
        if (end > n && !strncmp(path + end - n, SUFFIX[i], n)) {
            end -= n;
            break;
        }
    }
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(out, (size_t)size, "%.*s", (int)(end - begin), path + begin);
}

static bool check_range(const char *where, const char *key, int32_t value, int32_t max, struct error *e)
{
    return (value >= 1 && value <= max) ||
           error_set(e, ERROR_FILE, "'%s': '%s' is %d, expected 1 to %d", where, key, value, max);
}

static bool check_rotary(const struct rope_spec *r, int32_t head_dim, const char *where, struct error *e)
{
    int32_t max = head_dim < MODEL_MAX_ROTARY ? head_dim : MODEL_MAX_ROTARY;
    return (r->rotary_dim >= 2 && r->rotary_dim % 2 == 0 && r->rotary_dim <= max) ||
           error_set(e, ERROR_FILE, "'%s': %d of %d values of a head rotate, expected an even number from 2 to %d", where,
                     r->rotary_dim, head_dim, max);
}

bool model_spec_check(const struct model_spec *s, const char *where, struct error *e)
{
    if (!check_range(where, "num_hidden_layers", s->num_hidden_layers, MODEL_MAX_LAYERS, e) ||
        !check_range(where, "hidden_size", s->hidden_size, MAX_WIDTH, e) ||
        !check_range(where, "intermediate_size", s->intermediate_size, MAX_COUNT, e) ||
        !check_range(where, "vocab_size", s->vocab_size, MAX_COUNT, e) ||
        !check_range(where, "num_attention_heads", s->num_attention_heads, MAX_HEADS, e) ||
        !check_range(where, "num_key_value_heads", s->num_key_value_heads, MAX_HEADS, e) ||
        !check_range(where, "head_dim", s->head_dim, MAX_HEADS_WIDTH / s->num_attention_heads, e) ||
        !check_range(where, "max_position_embeddings", s->max_position_embeddings, MAX_POSITIONS, e))
        return false;
    if (s->num_attention_heads % s->num_key_value_heads)
        return error_set(e, ERROR_FILE, "'%s': num_attention_heads %d is not divisible by num_key_value_heads %d", where,
                         s->num_attention_heads, s->num_key_value_heads);
    return check_rotary(&s->rope, s->head_dim, where, e) &&
           (!s->rope_local.rotary_dim || check_rotary(&s->rope_local, s->head_dim, where, e));
}

static bool unknown_family(const char *name, const char *where, struct error *e)
{
    char known[512] = "";
    int n_families, n = 0;
    const struct family *f = family_all(&n_families);
    for (int i = 0; i < n_families; i++)
        n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", i ? ", " : "", f[i].architecture);
    return error_set(e, ERROR_UNSUPPORTED, "'%s': %.80s is not supported, expected one of %s", where, name, known);
}

// By "architectures", or by "model_type" where a file has none.
static bool read_family(const cJSON *config, const char *where, const struct family **out, struct error *e)
{
    const char *architecture = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(config, "architectures"), 0)),
               *type = NULL;
    if (!architecture && !json_string(config, where, "model_type", &type, e))
        return false;
    if (!architecture && !type)
        return error_set(e, ERROR_FILE, "'%s': neither 'architectures' nor 'model_type' says what model this is", where);
    *out = architecture ? family_by_architecture(architecture) : family_by_model_type(type);
    return *out || unknown_family(architecture ? architecture : type, where, e);
}

// A multi-modal model is its text part: "text_config" names its own type and leaves some keys to the outer object.
static bool enter_text_config(const cJSON *outer, cJSON *text, const char *where, const struct family **out, struct error *e)
{
    static const char *const INHERITED[] = {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "tie_word_embeddings"};
    const char *type = NULL, *wrapper = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(outer, "architectures"), 0));
    if (!json_string(text, where, "model_type", &type, e))
        return false;
    *out = type ? family_by_model_type(type) : wrapper ? family_by_architecture(wrapper) : NULL;
    if (!*out)
        return unknown_family(type ? type : wrapper ? wrapper : "a text_config without model_type", where, e);
    for (size_t i = 0; i < sizeof INHERITED / sizeof *INHERITED; i++)
        if (json_member(outer, INHERITED[i]) && !json_member(text, INHERITED[i]))
            cJSON_AddItemToObject(text, INHERITED[i], cJSON_Duplicate(json_member(outer, INHERITED[i]), true));
    return true;
}

// A size that must be there unless the family has a usual one.
static bool read_size(const cJSON *config, const char *where, const char *key, int32_t usual, int32_t *out, struct error *e)
{
    *out = usual;
    if (!usual && !json_member(config, key))
        return error_set(e, ERROR_FILE, "'%s': '%s' is missing", where, key);
    return json_i32(config, where, key, 1, INT32_MAX, out, e);
}

static bool read_shape(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    if (!read_size(c, where, "num_hidden_layers", 0, &s->num_hidden_layers, e) ||
        !read_size(c, where, "hidden_size", 0, &s->hidden_size, e) ||
        !read_size(c, where, "intermediate_size", 0, &s->intermediate_size, e) ||
        !read_size(c, where, "vocab_size", f->vocab_size, &s->vocab_size, e) ||
        !read_size(c, where, "num_attention_heads", f->num_attention_heads, &s->num_attention_heads, e))
        return false;
    // null means one per query head; only a file without the key leaves it to the family
    bool kv_heads_open = !cJSON_GetObjectItemCaseSensitive(c, "num_key_value_heads") && f->num_key_value_heads;
    s->num_key_value_heads = kv_heads_open ? f->num_key_value_heads : s->num_attention_heads;
    s->head_dim = f->head_dim ? f->head_dim : s->hidden_size / s->num_attention_heads;
    s->max_position_embeddings = f->max_position_embeddings;
    if (!f->head_dim && !json_member(c, "head_dim") && s->hidden_size % s->num_attention_heads)
        return error_set(e, ERROR_FILE, "'%s': hidden_size %d is not divisible by num_attention_heads %d", where,
                         s->hidden_size, s->num_attention_heads);
    return json_i32(c, where, "num_key_value_heads", 1, INT32_MAX, &s->num_key_value_heads, e) &&
           json_i32(c, where, "head_dim", 1, INT32_MAX, &s->head_dim, e) &&
           json_i32(c, where, "max_position_embeddings", 1, INT32_MAX, &s->max_position_embeddings, e);
}

static bool read_act(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    static const struct {
        const char *name;
        enum act_kind act;
    } ACT[] = {{"silu", ACT_SILU}, {"swish", ACT_SILU}, {"gelu_pytorch_tanh", ACT_GELU_TANH}, {"gelu_new", ACT_GELU_TANH}};
    const char *name = NULL;
    s->hidden_act = f->hidden_act;
    if (!json_string(c, where, f->act_key ? f->act_key : "hidden_act", &name, e))
        return false;
    if (!name || (f->gelu_is_tanh && !strcmp(name, "gelu")))
        return true;
    for (size_t i = 0; i < sizeof ACT / sizeof *ACT; i++)
        if (!strcmp(name, ACT[i].name)) {
            s->hidden_act = ACT[i].act;
            return true;
        }
    return error_set(e, ERROR_UNSUPPORTED,
                     "'%s': hidden_act '%.40s' is not supported, expected 'silu' or 'gelu_pytorch_tanh'", where, name);
}

static bool read_numerics(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    const char *dtype = "bfloat16"; // published checkpoints that do not say are 16 bit
    double eps = f->rms_norm_eps;
    if (!json_f64(c, where, "rms_norm_eps", 0, 1, &eps, e) || !read_act(s, f, c, where, e) ||
        !json_string(c, where, "torch_dtype", &dtype, e) || !json_string(c, where, "dtype", &dtype, e))
        return false;
    s->rms_norm_eps = (float)eps;
    if (!dtype_parse(dtype, &s->dtype) || (s->dtype != DTYPE_F32 && s->dtype != DTYPE_F16 && s->dtype != DTYPE_BF16))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': dtype '%.40s' is not supported, expected float32, float16 or bfloat16",
                         where, dtype);
    return true;
}

static bool read_switches(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    bool attention_bias = false, mlp_bias = false, both_ways = false;
    s->tie_word_embeddings = f->tie_word_embeddings;
    if (!json_bool(c, where, "tie_word_embeddings", &s->tie_word_embeddings, e) ||
        !json_bool(c, where, "use_bidirectional_attention", &both_ways, e))
        return false;
    if (both_ways)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': attention to later positions is not supported", where);
    if ((f->attention_bias && !json_bool(c, where, "attention_bias", &attention_bias, e)) ||
        (f->mlp_bias && !json_bool(c, where, "mlp_bias", &mlp_bias, e)))
        return false;
    s->qkv_bias = f->qkv_bias || attention_bias;
    s->o_bias = attention_bias;
    s->mlp_bias = mlp_bias;
    return true;
}

static bool read_factor(const cJSON *c, const char *where, const char *key, double usual, float *out, struct error *e)
{
    double value = usual;
    if (!json_f64(c, where, key, 1e-6, 1e6, &value, e))
        return false;
    *out = (float)value;
    return true;
}

// A soft cap that is null is none; one that is absent is the family's.
static bool read_softcap(const cJSON *c, const char *where, const char *key, double usual, float *out, struct error *e)
{
    return read_factor(c, where, key, cJSON_GetObjectItemCaseSensitive(c, key) ? 0 : usual, out, e);
}

static bool read_factors(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    float scalar = 0;
    if (f->scaled_embedding)
        s->embedding_multiplier = sqrtf((float)s->hidden_size);
    if (f->multipliers && (!read_factor(c, where, "embedding_multiplier", 1, &s->embedding_multiplier, e) ||
                           !read_factor(c, where, "residual_multiplier", 1, &s->residual_multiplier, e) ||
                           !read_factor(c, where, "attention_multiplier", 1, &s->attention_multiplier, e) ||
                           !read_factor(c, where, "logits_scaling", 1, &s->logits_scaling, e)))
        return false;
    if (f->query_pre_attn_scalar <= 0)
        return true;
    if (!read_factor(c, where, "query_pre_attn_scalar", f->query_pre_attn_scalar, &scalar, e))
        return false;
    s->attention_multiplier = 1 / sqrtf(scalar);
    // Gemma 3's class has the key, too, but its attention does not use it
    return (f->attn_logit_softcapping <= 0 ||
            read_softcap(c, where, "attn_logit_softcapping", f->attn_logit_softcapping, &s->attn_logit_softcapping, e)) &&
           read_softcap(c, where, "final_logit_softcapping", f->final_logit_softcapping, &s->final_logit_softcapping, e);
}

// "layer_types" names each layer's kind.
static bool read_layer_types(struct model_spec *s, int32_t window, const cJSON *types, const char *where, struct error *e)
{
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != s->num_hidden_layers)
        return error_set(e, ERROR_FILE, "'%s': 'layer_types' is not a list of %d names", where, s->num_hidden_layers);
    int32_t layer = 0;
    for (const cJSON *type = types->child; type; type = type->next, layer++) {
        const char *name = cJSON_GetStringValue(type);
        bool slides = name && !strcmp(name, "sliding_attention");
        if (!slides && (!name || strcmp(name, "full_attention")))
            return error_set(e, ERROR_UNSUPPORTED,
                             "'%s': layer type '%.40s' is not supported, expected full_attention or sliding_attention",
                             where, name ? name : "?");
        if (slides && !window)
            return error_set(e, ERROR_FILE, "'%s': 'layer_types' has sliding layers, but no 'sliding_window' is in use",
                             where);
        s->window[layer] = slides ? window : 0;
    }
    return true;
}

// Without "layer_types": all layers from `first` on, but every full_every-th.
static void fill_windows(struct model_spec *s, int32_t window, int32_t first, int32_t full_every)
{
    for (int32_t layer = first; layer < s->num_hidden_layers; layer++)
        s->window[layer] = full_every && (layer + 1) % full_every == 0 ? 0 : window;
}

static bool read_windows(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    int32_t window = cJSON_GetObjectItemCaseSensitive(c, "sliding_window") ? 0 : f->sliding_window, first = 0;
    int32_t full_every = f->full_every;
    bool use = f->window_rule != WINDOW_QWEN;
    if (f->window_rule == WINDOW_NONE)
        return true;
    if (!json_i32(c, where, "sliding_window", 0, INT32_MAX, &window, e) ||
        !json_bool(c, where, "use_sliding_window", &use, e))
        return false;
    if (f->window_rule == WINDOW_QWEN) {
        first = 28; // the class's max_window_layers: the lower layers see everything
        if (!json_i32(c, where, "max_window_layers", 0, INT32_MAX, &first, e))
            return false;
    }
    if (f->window_rule == WINDOW_BY_LAYER && !json_i32(c, where, "sliding_window_pattern", 1, INT32_MAX, &full_every, e))
        return false;
    window = use ? window : 0;
    const cJSON *types = f->window_rule == WINDOW_ALL ? NULL : json_member(c, "layer_types");
    if (types)
        return read_layer_types(s, window, types, where, e);
    fill_windows(s, window, first, full_every);
    return true;
}

// Ids outside the vocabulary can never come up and are dropped.
static void add_eos(struct model_spec *s, const cJSON *id)
{
    if (cJSON_IsNumber(id) && id->valuedouble >= 0 && id->valuedouble < s->vocab_size && s->n_eos < MODEL_MAX_EOS)
        s->eos_token_id[s->n_eos++] = (int32_t)id->valuedouble;
}

void model_spec_set_eos(struct model_spec *s, const cJSON *ids)
{
    const cJSON *id;
    if (!ids)
        return;
    s->n_eos = 0;
    add_eos(s, ids);
    cJSON_ArrayForEach(id, ids) add_eos(s, id);
}

static void read_token_ids(struct model_spec *s, const cJSON *c)
{
    const cJSON *bos = json_member(c, "bos_token_id");
    model_spec_set_eos(s, json_member(c, "eos_token_id"));
    s->bos_token_id = -1;
    if (cJSON_IsNumber(bos) && bos->valuedouble >= 0 && bos->valuedouble < s->vocab_size)
        s->bos_token_id = (int32_t)bos->valuedouble;
}

void model_spec_from_family(struct model_spec *s, const struct family *f)
{
    snprintf(s->family, sizeof s->family, "%s", f->name);
    s->norm_place = f->norm_place, s->qk_norm = f->qk_norm;
}

void model_spec_set_no_rope(struct model_spec *s, int32_t every)
{
    for (int32_t layer = 0; layer < s->num_hidden_layers; layer++)
        s->no_rope[layer] = every && (layer + 1) % every == 0;
}

// "no_rope_layers" has a 1 for each layer that turns q and k, in spite of its name.
static bool read_no_rope(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    const cJSON *list = f->no_rope_every ? json_member(c, "no_rope_layers") : NULL, *turns;
    int32_t every = f->no_rope_every, layer = 0;
    if (every && !json_i32(c, where, "no_rope_layer_interval", 1, INT32_MAX, &every, e))
        return false;
    model_spec_set_no_rope(s, every);
    if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != s->num_hidden_layers))
        return error_set(e, ERROR_FILE, "'%s': 'no_rope_layers' is not a list of %d numbers", where, s->num_hidden_layers);
    cJSON_ArrayForEach(turns, list) s->no_rope[layer++] = !(cJSON_IsNumber(turns) && turns->valuedouble != 0);
    return true;
}

static bool read_config(struct model_spec *s, const cJSON *c, const char *where, struct error *e)
{
    const struct family *f = NULL;
    cJSON *text = (cJSON *)(uintptr_t)json_member(c, "text_config"); // ours to complete
    if (!cJSON_IsObject(c))
        return error_set(e, ERROR_FILE, "'%s': expected an object", where);
    const char *architecture = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(c, "architectures"), 0));
    const char *text_type = cJSON_GetStringValue(json_member(text, "model_type"));
    if (architecture && config_priced_name(architecture) && !(text_type && family_by_model_type(text_type))) {
        if (!config_read_priced(s, c, architecture, where, e) || !model_spec_check(s, where, e))
            return false;
        read_token_ids(s, cJSON_IsObject(text) ? text : c);
        return true;
    }
    if (!(cJSON_IsObject(text) ? enter_text_config(c, text, where, &f, e) : read_family(c, where, &f, e)))
        return false;
    c = cJSON_IsObject(text) ? text : c;
    if (!read_shape(s, f, c, where, e) || !read_numerics(s, f, c, where, e) || !read_switches(s, f, c, where, e) ||
        !read_factors(s, f, c, where, e) || !config_read_rope(s, f, c, where, e) || !model_spec_check(s, where, e) ||
        !read_windows(s, f, c, where, e) || !read_no_rope(s, f, c, where, e))
        return false;
    model_spec_from_family(s, f);
    read_token_ids(s, c);
    return true;
}

bool model_spec_from_config(struct model_spec *spec, const char *text, size_t size, const char *where, struct error *e)
{
    cJSON *json;
    const char *name = NULL;
    *spec = (struct model_spec){0};
    if (!json_parse(text, size, where, &json, e))
        return false;
    const cJSON *entry = json_member(json, "config"); // a catalogue entry wraps the configuration and names it
    bool ok = !entry || json_string(json, where, "name", &name, e);
    if (name)
        snprintf(spec->name, sizeof spec->name, "%s", name);
    else
        model_name_from_path(where, spec->name, sizeof spec->name);
    ok = ok && read_config(spec, entry ? entry : json, name ? name : where, e);
    cJSON_Delete(json);
    return ok;
}
