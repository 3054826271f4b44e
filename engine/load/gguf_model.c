// GGUF metadata to model_spec. Keys are "ARCHITECTURE.key"; what metadata do not say (biases, tied head, vocabulary) is
// read off the tensors that are there.
#include "engine/load/config.h"
#include "engine/load/files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// `mistral` files call themselves llama.
static const char *const ARCHITECTURE[] = {"llama", "qwen2", "qwen3"};

enum { KEY_BYTES = 128 };

static const char *key_of(const struct model_spec *s, const char *name, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", s->family, name);
    return out;
}

static bool has_tensor(const struct gguf *g, const char *name)
{
    return stored_find(g->tensor, g->n_tensors, name) != NULL;
}

static bool read_architecture(struct model_spec *s, const struct gguf *g, struct error *e)
{
    struct text name = {"", 0};
    char shown[96];
    if (!gguf_string(g, "general.architecture", &name, e))
        return false;
    text_print(name, shown);
    for (size_t i = 0; i < sizeof ARCHITECTURE / sizeof *ARCHITECTURE; i++)
        if (!strcmp(shown, ARCHITECTURE[i])) {
            snprintf(s->family, sizeof s->family, "%s", ARCHITECTURE[i]);
            return true;
        }
    if (!name.size)
        return error_set(e, ERROR_FILE, "'%s': 'general.architecture' is missing", g->where);
    return error_set(e, ERROR_UNSUPPORTED, "'%s': architecture '%s' is not supported, expected llama, qwen2 or qwen3",
                     g->where, shown);
}

// "SmolLM2 135M Instruct" of general.name, else the file's name.
static bool read_name(struct model_spec *s, const struct gguf *g, struct error *e)
{
    struct text name = {"", 0};
    char shown[96];
    if (!gguf_string(g, "general.name", &name, e))
        return false;
    if (name.size)
        snprintf(s->name, sizeof s->name, "%s", text_print(name, shown));
    else
        model_name_from_path(g->where, s->name, sizeof s->name);
    return true;
}

static bool need_i32(const struct model_spec *s, const struct gguf *g, const char *name, int32_t *out, struct error *e)
{
    char key[KEY_BYTES];
    if (!gguf_find(g, key_of(s, name, key)))
        return error_set(e, ERROR_FILE, "'%s': metadata '%s' is missing", g->where, key);
    return gguf_i32(g, key, out, e);
}

static bool read_shape(struct model_spec *s, const struct gguf *g, struct error *e)
{
    char key[KEY_BYTES];
    const struct stored_tensor *embd = stored_find(g->tensor, g->n_tensors, "token_embd.weight");
    if (!need_i32(s, g, "block_count", &s->num_hidden_layers, e) ||
        !need_i32(s, g, "embedding_length", &s->hidden_size, e) ||
        !need_i32(s, g, "feed_forward_length", &s->intermediate_size, e) ||
        !need_i32(s, g, "attention.head_count", &s->num_attention_heads, e) ||
        !need_i32(s, g, "context_length", &s->max_position_embeddings, e))
        return false;
    if (!embd || embd->n_dims != 2 || embd->dim[0] > INT32_MAX)
        return error_set(e, ERROR_FILE, "'%s': tensor 'token_embd.weight' is missing or no matrix", g->where);
    s->vocab_size = (int32_t)embd->dim[0];
    s->num_key_value_heads = s->num_attention_heads;
    s->head_dim = s->num_attention_heads > 0 ? s->hidden_size / s->num_attention_heads : 0;
    if (!gguf_i32(g, key_of(s, "attention.head_count_kv", key), &s->num_key_value_heads, e) ||
        !gguf_i32(g, key_of(s, "attention.key_length", key), &s->head_dim, e))
        return false;
    int32_t value_length = s->head_dim;
    if (!gguf_i32(g, key_of(s, "attention.value_length", key), &value_length, e))
        return false;
    return value_length == s->head_dim ||
           error_set(e, ERROR_UNSUPPORTED, "'%s': heads of %d values for keys but %d for values are not supported", g->where,
                     s->head_dim, value_length);
}

// Frequencies of Llama 3's scaling come ready-made in a tensor, one divisor per rotating pair.
static bool read_rope_factors(struct rope_spec *r, const struct gguf *g, struct error *e)
{
    const struct stored_tensor *t = stored_find(g->tensor, g->n_tensors, "rope_freqs.weight");
    if (!t)
        return true;
    if (!t->known || t->dtype != DTYPE_F32 || t->n_dims != 1 || t->dim[0] != (uint64_t)r->rotary_dim / 2)
        return error_set(e, ERROR_FILE, "'%s': tensor 'rope_freqs.weight' is no vector of %d f32 values", g->where,
                         r->rotary_dim / 2);
    float scale = r->kind == ROPE_LINEAR ? (float)r->factor : 1;
    memcpy(r->freq_factor, t->data, t->bytes);
    for (int32_t i = 0; i < r->rotary_dim / 2; i++) {
        r->freq_factor[i] *= scale;
        if (!isfinite(r->freq_factor[i]) || r->freq_factor[i] <= 0)
            return error_set(e, ERROR_FILE, "'%s': 'rope_freqs.weight' holds %g, expected factors above 0", g->where,
                             (double)r->freq_factor[i]);
    }
    r->kind = ROPE_FACTORS;
    return true;
}

static bool read_rope_scaling(struct model_spec *s, const struct gguf *g, struct error *e)
{
    char key[KEY_BYTES], shown[96];
    struct text type = {"", 0};
    float factor = 1;
    if (!gguf_string(g, key_of(s, "rope.scaling.type", key), &type, e) ||
        !gguf_f32(g, key_of(s, "rope.scale_linear", key), &factor, e) || // as files before August 2023 say it
        !gguf_f32(g, key_of(s, "rope.scaling.factor", key), &factor, e))
        return false;
    text_print(type, shown);
    if (type.size && strcmp(shown, "none") && strcmp(shown, "linear"))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': rope scaling '%s' is not supported, expected none or linear", g->where,
                         shown);
    if (!(factor >= 1e-3f && factor <= 1e6f))
        return error_set(e, ERROR_FILE, "'%s': the rope scaling factor is %g", g->where, (double)factor);
    if (strcmp(shown, "none") && factor != 1)
        s->rope.kind = ROPE_LINEAR, s->rope.factor = (double)factor;
    return true;
}

static bool read_rope(struct model_spec *s, const struct gguf *g, struct error *e)
{
    char key[KEY_BYTES];
    float theta = 10000;
    s->rope.rotary_dim = s->head_dim;
    if (!gguf_i32(g, key_of(s, "rope.dimension_count", key), &s->rope.rotary_dim, e) ||
        !gguf_f32(g, key_of(s, "rope.freq_base", key), &theta, e))
        return false;
    if (!(theta >= 1 && theta <= 1e15f))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected 1 or more", g->where, key, (double)theta);
    s->rope.theta = (double)theta;
    return read_rope_scaling(s, g, e);
}

static bool read_rest(struct model_spec *s, const struct gguf *g, struct error *e)
{
    char key[KEY_BYTES];
    float eps = 1e-6f;
    int32_t window = 0, experts = 0;
    if (!gguf_f32(g, key_of(s, "attention.layer_norm_rms_epsilon", key), &eps, e))
        return false;
    if (!(eps >= 0 && eps <= 1))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected 0 to 1", g->where, key, (double)eps);
    if (!gguf_i32(g, key_of(s, "attention.sliding_window", key), &window, e) ||
        !gguf_i32(g, key_of(s, "expert_count", key), &experts, e))
        return false;
    if (experts > 0)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d experts per layer are not supported", g->where, experts);
    s->rms_norm_eps = eps;
    for (int32_t layer = 0; layer < s->num_hidden_layers; layer++)
        s->window[layer] = window > 0 ? window : 0;
    s->qk_norm = !strcmp(s->family, "qwen3");
    s->tie_word_embeddings = !has_tensor(g, "output.weight");
    s->qkv_bias = has_tensor(g, "blk.0.attn_q.bias");
    s->o_bias = has_tensor(g, "blk.0.attn_output.bias");
    s->mlp_bias = has_tensor(g, "blk.0.ffn_gate.bias");
    const struct stored_tensor *q = stored_find(g->tensor, g->n_tensors, "blk.0.attn_q.weight");
    s->dtype = q && q->known ? q->dtype : DTYPE_F32;
    return true;
}

// Ids outside the vocabulary can never come up and are dropped.
static bool read_token_ids(struct model_spec *s, const struct gguf *g, struct error *e)
{
    static const char *const END[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    s->bos_token_id = -1;
    if (!gguf_i32(g, "tokenizer.ggml.bos_token_id", &s->bos_token_id, e))
        return false;
    if (s->bos_token_id < 0 || s->bos_token_id >= s->vocab_size)
        s->bos_token_id = -1;
    for (int i = 0; i < 2; i++) {
        int32_t id = -1;
        if (!gguf_i32(g, END[i], &id, e))
            return false;
        if (id >= 0 && id < s->vocab_size && (!s->n_eos || s->eos_token_id[0] != id))
            s->eos_token_id[s->n_eos++] = id;
    }
    return true;
}

bool gguf_model_spec(struct model_spec *s, const struct gguf *g, struct error *e)
{
    *s = (struct model_spec){0};
    return read_architecture(s, g, e) && read_name(s, g, e) && read_shape(s, g, e) && read_rope(s, g, e) &&
           model_spec_check(s, g->where, e) && read_rope_factors(&s->rope, g, e) && read_rest(s, g, e) &&
           read_token_ids(s, g, e);
}
