// Hugging Face config.json, as transformers 4 and 5 write it, to model_spec. Defaults are those of the configuration
// classes of transformers (LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config). Keys we do not use are none of our
// business.
#include "engine/load/config.h"

#include "engine/base/json.h"
#include "engine/load/model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 16, MAX_COUNT = 1 << 24, MAX_HEADS_WIDTH = 1 << 22, MAX_POSITIONS = 1 << 28 };

static const struct family {
    const char *architecture, *name;
    bool qkv_bias, qk_norm, optional_bias; // optional_bias: attention_bias and mlp_bias decide
    int32_t head_dim;                      // 0: hidden_size / num_attention_heads
    int32_t sliding_window;                // when the key is absent; null means none
    int32_t max_position_embeddings;
} FAMILY[] = {
    {"LlamaForCausalLM", "llama", false, false, true, 0, 0, 2048},
    {"MistralForCausalLM", "mistral", false, false, false, 0, 4096, 131072},
    {"Qwen2ForCausalLM", "qwen2", true, false, false, 0, 4096, 32768},
    {"Qwen3ForCausalLM", "qwen3", false, true, true, 128, 4096, 32768},
};
enum { N_FAMILIES = sizeof FAMILY / sizeof *FAMILY };

const char *const *model_families(int *n)
{
    static const char *const NAME[N_FAMILIES] = {"llama", "mistral", "qwen2", "qwen3"};
    *n = N_FAMILIES;
    return NAME;
}

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
    if (s->rope.rotary_dim < 2 || s->rope.rotary_dim % 2 || s->rope.rotary_dim > s->head_dim ||
        s->rope.rotary_dim > MODEL_MAX_ROTARY)
        return error_set(e, ERROR_FILE, "'%s': %d of %d values of a head rotate, expected an even number from 2 to %d",
                         where, s->rope.rotary_dim, s->head_dim,
                         s->head_dim < MODEL_MAX_ROTARY ? s->head_dim : MODEL_MAX_ROTARY);
    return true;
}

static const struct family *find_family(const char *architecture, bool by_model_type)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(architecture, by_model_type ? FAMILY[i].name : FAMILY[i].architecture))
            return &FAMILY[i];
    return NULL;
}

// By "architectures", or by "model_type" where a file has none.
static bool read_family(const cJSON *config, const char *where, const struct family **out, struct error *e)
{
    const cJSON *list = json_member(config, "architectures"), *first = cJSON_GetArrayItem(list, 0);
    const char *name = cJSON_GetStringValue(first);
    bool by_model_type = !name;
    if (!name && !json_string(config, where, "model_type", &name, e))
        return false;
    if (!name)
        return error_set(e, ERROR_FILE, "'%s': neither 'architectures' nor 'model_type' says what model this is", where);
    if ((*out = find_family(name, by_model_type)))
        return true;
    char known[160] = "";
    for (int i = 0, n = 0; i < N_FAMILIES; i++)
        n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", i ? ", " : "", FAMILY[i].architecture);
    return error_set(e, ERROR_UNSUPPORTED, "'%s': %.80s is not supported, expected one of %s", where, name, known);
}

// A key that must be there.
static bool need_i32(const cJSON *config, const char *where, const char *key, int32_t *out, struct error *e)
{
    if (!json_member(config, key))
        return error_set(e, ERROR_FILE, "'%s': '%s' is missing", where, key);
    return json_i32(config, where, key, 1, INT32_MAX, out, e);
}

static bool read_shape(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    if (!need_i32(c, where, "num_hidden_layers", &s->num_hidden_layers, e) ||
        !need_i32(c, where, "hidden_size", &s->hidden_size, e) ||
        !need_i32(c, where, "intermediate_size", &s->intermediate_size, e) ||
        !need_i32(c, where, "vocab_size", &s->vocab_size, e) ||
        !need_i32(c, where, "num_attention_heads", &s->num_attention_heads, e))
        return false;
    s->num_key_value_heads = s->num_attention_heads;
    s->head_dim = f->head_dim ? f->head_dim : s->hidden_size / s->num_attention_heads;
    s->max_position_embeddings = f->max_position_embeddings;
    if (!f->head_dim && !json_member(c, "head_dim") && s->hidden_size % s->num_attention_heads)
        return error_set(e, ERROR_FILE, "'%s': hidden_size %d is not divisible by num_attention_heads %d", where,
                         s->hidden_size, s->num_attention_heads);
    return json_i32(c, where, "num_key_value_heads", 1, INT32_MAX, &s->num_key_value_heads, e) &&
           json_i32(c, where, "head_dim", 1, INT32_MAX, &s->head_dim, e) &&
           json_i32(c, where, "max_position_embeddings", 1, INT32_MAX, &s->max_position_embeddings, e);
}

static bool read_numerics(struct model_spec *s, const cJSON *c, const char *where, struct error *e)
{
    const char *act = "silu", *dtype = "bfloat16"; // published checkpoints that do not say are 16 bit
    double eps = 1e-6;
    if (!json_f64(c, where, "rms_norm_eps", 0, 1, &eps, e) || !json_string(c, where, "hidden_act", &act, e) ||
        !json_string(c, where, "torch_dtype", &dtype, e) || !json_string(c, where, "dtype", &dtype, e))
        return false;
    s->rms_norm_eps = (float)eps;
    if (strcmp(act, "silu") && strcmp(act, "swish")) // two names of one function
        return error_set(e, ERROR_UNSUPPORTED, "'%s': hidden_act '%.40s' is not supported, expected 'silu'", where, act);
    if (!dtype_parse(dtype, &s->dtype) || (s->dtype != DTYPE_F32 && s->dtype != DTYPE_F16 && s->dtype != DTYPE_BF16))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': dtype '%.40s' is not supported, expected float32, float16 or bfloat16",
                         where, dtype);
    return true;
}

static bool read_switches(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    bool attention_bias = false, mlp_bias = false;
    if (!json_bool(c, where, "tie_word_embeddings", &s->tie_word_embeddings, e))
        return false;
    if (f->optional_bias &&
        (!json_bool(c, where, "attention_bias", &attention_bias, e) || !json_bool(c, where, "mlp_bias", &mlp_bias, e)))
        return false;
    s->qk_norm = f->qk_norm;
    s->qkv_bias = f->qkv_bias || attention_bias;
    s->o_bias = attention_bias;
    s->mlp_bias = mlp_bias && !f->qk_norm; // Qwen3's feed-forward has none whatever the file says
    return true;
}

static bool read_rope_kind(struct rope_spec *rope, const cJSON *scaling, const char *where, struct error *e)
{
    const char *type = NULL;
    if (!json_string(scaling, where, "type", &type, e) || !json_string(scaling, where, "rope_type", &type, e))
        return false;
    if (!type || !strcmp(type, "default"))
        return true;
    bool linear = !strcmp(type, "linear"), llama3 = !strcmp(type, "llama3");
    if (!linear && !llama3)
        return error_set(e, ERROR_UNSUPPORTED,
                         "'%s': rope scaling '%.40s' is not supported, expected 'default', 'linear' or 'llama3'", where,
                         type);
    rope->kind = linear ? ROPE_LINEAR : ROPE_LLAMA3;
    if (!json_f64(scaling, where, "factor", 1e-3, 1e6, &rope->factor, e) ||
        !json_f64(scaling, where, "low_freq_factor", 1e-3, 1e6, &rope->low_freq_factor, e) ||
        !json_f64(scaling, where, "high_freq_factor", 1e-3, 1e6, &rope->high_freq_factor, e) ||
        !json_i32(scaling, where, "original_max_position_embeddings", 1, MAX_POSITIONS,
                  &rope->original_max_position_embeddings, e))
        return false;
    if (rope->factor == 0)
        return error_set(e, ERROR_FILE, "'%s': rope scaling '%s' has no 'factor'", where, type);
    if (llama3 && (!rope->original_max_position_embeddings || rope->low_freq_factor == 0 ||
                   rope->high_freq_factor <= rope->low_freq_factor))
        return error_set(e, ERROR_FILE,
                         "'%s': rope scaling 'llama3' needs 'original_max_position_embeddings' and a 'low_freq_factor' "
                         "below its 'high_freq_factor'",
                         where);
    return true;
}

// Version 4: rope_theta and partial_rotary_factor beside rope_scaling; version 5: all of them inside rope_parameters.
static bool read_rope(struct model_spec *s, const cJSON *c, const char *where, struct error *e)
{
    const cJSON *v5 = json_member(c, "rope_parameters"), *scaling = v5 ? v5 : json_member(c, "rope_scaling");
    double theta = 10000, partial = 1;
    if (scaling && !cJSON_IsObject(scaling))
        return error_set(e, ERROR_FILE, "'%s': '%s' is not an object", where, v5 ? "rope_parameters" : "rope_scaling");
    if (!json_f64(c, where, "rope_theta", 1, 1e15, &theta, e) || !json_f64(v5, where, "rope_theta", 1, 1e15, &theta, e) ||
        !json_f64(c, where, "partial_rotary_factor", 0, 1, &partial, e) ||
        !json_f64(v5, where, "partial_rotary_factor", 0, 1, &partial, e))
        return false;
    if (json_member(v5, "full_attention") || json_member(v5, "sliding_attention"))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': 'rope_parameters' by kind of layer are not supported", where);
    s->rope.theta = theta;
    s->rope.rotary_dim = (int32_t)(s->head_dim * partial);
    return !scaling || read_rope_kind(&s->rope, scaling, where, e);
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

static bool read_windows(struct model_spec *s, const struct family *f, const cJSON *c, const char *where, struct error *e)
{
    int32_t window = cJSON_GetObjectItemCaseSensitive(c, "sliding_window") ? 0 : f->sliding_window, first = 0;
    bool use = !strcmp(f->name, "mistral");
    if (!strcmp(f->name, "llama"))
        return true; // the class has no window, whatever the file says
    if (!json_i32(c, where, "sliding_window", 0, INT32_MAX, &window, e) ||
        !json_bool(c, where, "use_sliding_window", &use, e))
        return false;
    if (!strncmp(f->name, "qwen", 4)) {
        first = 28; // the class's max_window_layers: the lower layers see everything
        if (!json_i32(c, where, "max_window_layers", 0, INT32_MAX, &first, e))
            return false;
    }
    window = use ? window : 0;
    const cJSON *types = json_member(c, "layer_types");
    if (types)
        return read_layer_types(s, window, types, where, e);
    for (int32_t layer = first; layer < s->num_hidden_layers; layer++)
        s->window[layer] = window;
    return true;
}

// Ids outside the vocabulary can never come up and are dropped.
static void add_eos(struct model_spec *s, const cJSON *id)
{
    if (cJSON_IsNumber(id) && id->valuedouble >= 0 && id->valuedouble < s->vocab_size && s->n_eos < MODEL_MAX_EOS)
        s->eos_token_id[s->n_eos++] = (int32_t)id->valuedouble;
}

static void read_token_ids(struct model_spec *s, const cJSON *c)
{
    const cJSON *eos = json_member(c, "eos_token_id"), *bos = json_member(c, "bos_token_id"), *id;
    add_eos(s, eos);
    cJSON_ArrayForEach(id, eos) add_eos(s, id);
    s->bos_token_id = -1;
    if (cJSON_IsNumber(bos) && bos->valuedouble >= 0 && bos->valuedouble < s->vocab_size)
        s->bos_token_id = (int32_t)bos->valuedouble;
}

static bool read_config(struct model_spec *s, const cJSON *c, const char *where, struct error *e)
{
    const struct family *f;
    if (!cJSON_IsObject(c))
        return error_set(e, ERROR_FILE, "'%s': expected an object", where);
    if (!read_family(c, where, &f, e) || !read_shape(s, f, c, where, e) || !read_numerics(s, c, where, e) ||
        !read_switches(s, f, c, where, e) || !read_rope(s, c, where, e) || !model_spec_check(s, where, e) ||
        !read_windows(s, f, c, where, e))
        return false;
    snprintf(s->family, sizeof s->family, "%s", f->name);
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
