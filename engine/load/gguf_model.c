// GGUF metadata to model_spec. Keys are "ARCHITECTURE.key"; what metadata do not say (biases, tied head, vocabulary) is
// read off the tensors that are there, the rest follows from the family (family.c).
#include "engine/load/config.h"
#include "engine/load/config_priced.h"
#include "engine/load/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128 };

static const char *key_of(const struct model_spec *s, const char *name, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", family_by_name(s->family)->gguf, name);
    return out;
}

static bool has_tensor(const struct gguf *g, const char *name)
{
    return stored_find(g->tensor, g->n_tensors, name) != NULL;
}

static bool unknown_architecture(const struct gguf *g, const char *shown, struct error *e)
{
    char known[256] = "";
    int n_families, n = 0;
    const struct family *f = family_all(&n_families);
    for (int i = 0; i < n_families; i++)
        if (family_by_gguf(f[i].gguf) == &f[i]) // two families may share an architecture
            n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", i ? ", " : "", f[i].gguf);
    return error_set(e, ERROR_UNSUPPORTED, "'%s': architecture '%s' is not supported, expected one of %s", g->where, shown,
                     known);
}

static bool read_architecture(struct model_spec *s, const struct gguf *g, struct error *e)
{
    struct text name = {"", 0};
    char shown[96];
    if (!gguf_string(g, "general.architecture", &name, e))
        return false;
    if (!name.size)
        return error_set(e, ERROR_FILE, "'%s': 'general.architecture' is missing", g->where);
    const struct family *f = family_by_gguf(text_print(name, shown));
    if (!f)
        return unknown_architecture(g, shown, e);
    if (!strcmp(f->name, "olmo2") && gguf_find(g, "olmo2.attention.sliding_window"))
        f = family_by_name("olmo3"); // calls itself olmo2, and has windows
    model_spec_from_family(s, f);
    s->hidden_act = f->hidden_act;
    model_name_from_path(g->where, s->name, sizeof s->name);
    return true;
}

// A number that some files state once for each layer. No family here has layers of several shapes.
static bool layers_i32(const struct model_spec *s, const struct gguf *g, const char *name, int32_t *out, struct error *e)
{
    char key[KEY_BYTES];
    int32_t *value, n;
    const struct gguf_value *v = gguf_find(g, key_of(s, name, key));
    if (!v || v->type != GGUF_ARRAY)
        return gguf_i32(g, key, out, e);
    if (!gguf_i32s(g, key, &value, &n, e))
        return false;
    bool ok = n > 0 && n >= s->num_hidden_layers;
    for (int32_t i = 1; i < n; i++)
        ok = ok && value[i] == value[0];
    *out = n ? value[0] : *out;
    free(value);
    return ok || error_set(e, ERROR_UNSUPPORTED, "'%s': '%s' is not one number for all layers", g->where, key);
}

static bool need_i32(const struct model_spec *s, const struct gguf *g, const char *name, int32_t *out, struct error *e)
{
    char key[KEY_BYTES];
    if (!gguf_find(g, key_of(s, name, key)))
        return error_set(e, ERROR_FILE, "'%s': metadata '%s' is missing", g->where, key);
    return layers_i32(s, g, name, out, e);
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
    if (!layers_i32(s, g, "attention.head_count_kv", &s->num_key_value_heads, e) ||
        !gguf_i32(g, key_of(s, "attention.key_length", key), &s->head_dim, e))
        return false;
    int32_t value_length = s->head_dim;
    if (!gguf_i32(g, key_of(s, "attention.value_length", key), &value_length, e))
        return false;
    return value_length == s->head_dim ||
           error_set(e, ERROR_UNSUPPORTED, "'%s': heads of %d values for keys but %d for values are not supported", g->where,
                     s->head_dim, value_length);
}

// One divisor per rotating pair.
static bool read_factors(const char *name, int32_t rotary_dim, const struct gguf *g, float *out, struct error *e)
{
    const struct stored_tensor *t = stored_find(g->tensor, g->n_tensors, name);
    if (!t || !t->known || t->dtype != DTYPE_F32 || t->n_dims != 1 || t->dim[0] != (uint64_t)rotary_dim / 2)
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' is no vector of %d f32 values", g->where, name, rotary_dim / 2);
    memcpy(out, t->data, t->bytes);
    for (int32_t i = 0; i < rotary_dim / 2; i++)
        if (!isfinite(out[i]) || out[i] <= 0)
            return error_set(e, ERROR_FILE, "'%s': '%s' holds %g, expected factors above 0", g->where, name, (double)out[i]);
    return true;
}

// Frequencies of Llama 3's scaling come ready-made in a tensor.
static bool read_llama3_factors(struct rope_spec *r, const struct gguf *g, struct error *e)
{
    static const char NAME[] = "rope_freqs.weight";
    if (!has_tensor(g, NAME))
        return true;
    if (!read_factors(NAME, r->rotary_dim, g, r->freq_factor, e))
        return false;
    for (int32_t i = 0; i < r->rotary_dim / 2 && r->kind == ROPE_LINEAR; i++)
        r->freq_factor[i] *= (float)r->factor;
    r->kind = ROPE_FACTORS;
    return true;
}

// LongRoPE's two lists. The file states their common magnitude, where it has one.
static bool read_long_factors(struct model_spec *s, const struct gguf *g, struct error *e)
{
    static const char *const NAME[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    struct rope_spec *r = &s->rope;
    char key[KEY_BYTES];
    if (!has_tensor(g, NAME[0]) && !has_tensor(g, NAME[1]))
        return true;
    r->kind = ROPE_LONG, r->original_max_position_embeddings = s->max_position_embeddings;
    if (!gguf_f32(g, key_of(s, "rope.scaling.attn_factor", key), &r->magnitude, e) ||
        !gguf_i32(g, key_of(s, "rope.scaling.original_context_length", key), &r->original_max_position_embeddings, e))
        return false;
    if (!(r->magnitude >= 0 && r->magnitude <= 1e3f))
        return error_set(e, ERROR_FILE, "'%s': the rope scaling's attn_factor is %g", g->where, (double)r->magnitude);
    return read_factors(NAME[0], r->rotary_dim, g, r->freq_factor, e) &&
           read_factors(NAME[1], r->rotary_dim, g, r->long_factor, e);
}

static bool read_yarn(struct model_spec *s, const struct gguf *g, float factor, struct error *e)
{
    struct rope_spec *r = &s->rope;
    char key[KEY_BYTES];
    float fast = 32, slow = 1, of_usual = 1;
    r->original_max_position_embeddings = s->max_position_embeddings;
    if (!gguf_i32(g, key_of(s, "rope.scaling.original_context_length", key), &r->original_max_position_embeddings, e) ||
        !gguf_f32(g, key_of(s, "rope.scaling.yarn_beta_fast", key), &fast, e) ||
        !gguf_f32(g, key_of(s, "rope.scaling.yarn_beta_slow", key), &slow, e) ||
        !gguf_f32(g, key_of(s, "rope.scaling.yarn_attn_factor", key), &of_usual, e))
        return false;
    if (!(of_usual > 0 && of_usual <= 1e3f))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected a factor above 0", g->where, key, (double)of_usual);
    if (!(fast > 0 && fast <= 1e6f && slow > 0 && slow <= 1e6f && factor >= 1 && r->theta > 1) ||
        r->original_max_position_embeddings < 1)
        return error_set(e, ERROR_FILE, "'%s': yarn from %d positions by %g, betas %g and %g, theta %g", g->where,
                         r->original_max_position_embeddings, (double)factor, (double)fast, (double)slow, r->theta);
    r->kind = ROPE_YARN, r->factor = (double)factor, r->magnitude = of_usual * (1 + 0.1f * logf(factor));
    r->beta_fast = (double)fast, r->beta_slow = (double)slow;
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
    if (!(factor >= 1e-3f && factor <= 1e6f))
        return error_set(e, ERROR_FILE, "'%s': the rope scaling factor is %g", g->where, (double)factor);
    if (!strcmp(shown, "yarn"))
        return read_yarn(s, g, factor, e);
    bool none = !strcmp(shown, "none"), by_tensor = !strcmp(shown, "longrope");
    if (type.size && !none && !by_tensor && strcmp(shown, "linear"))
        return error_set(e, ERROR_UNSUPPORTED,
                         "'%s': rope scaling '%s' is not supported, expected none, linear, yarn or "
                         "longrope",
                         g->where, shown);
    if (!none && !by_tensor && factor != 1)
        s->rope.kind = ROPE_LINEAR, s->rope.factor = (double)factor;
    return true;
}

static bool read_theta(const struct model_spec *s, const struct gguf *g, const char *name, double *theta, struct error *e)
{
    char key[KEY_BYTES];
    float value = (float)*theta;
    if (!gguf_f32(g, key_of(s, name, key), &value, e))
        return false;
    *theta = (double)value;
    return (value >= 1 && value <= 1e15f) ||
           error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected 1 or more", g->where, key, (double)value);
}

static bool read_rope(struct model_spec *s, const struct gguf *g, struct error *e)
{
    const struct family *f = family_by_name(s->family);
    char key[KEY_BYTES];
    bool turns = true;
    s->rope.rotary_dim = s->head_dim, s->rope.theta = 10000;
    if (!gguf_i32(g, key_of(s, "rope.dimension_count", key), &s->rope.rotary_dim, e) ||
        !read_theta(s, g, "rope.freq_base", &s->rope.theta, e) || !read_rope_scaling(s, g, e))
        return false;
    if (!strcmp(f->name, "granite") && !gguf_bool(g, key_of(s, "rope.scaling.finetuned", key), &turns, e))
        return false;
    if (!turns) // Granite's files switch the rotation off by this key
        return error_set(e, ERROR_UNSUPPORTED, "'%s': models without rotary embedding are not supported", g->where);
    if (!f->rope_by_layer)
        return true;
    s->rope_local.rotary_dim = s->rope.rotary_dim;
    s->rope_local.theta = strcmp(f->name, "gemma3") ? s->rope.theta : f->rope_theta_local;
    return read_theta(s, g, "rope.freq_base_swa", &s->rope_local.theta, e);
}

// The pattern is a list of switches, or the distance between layers without a window; absent, the family's.
static bool read_windows(struct model_spec *s, const struct gguf *g, struct error *e)
{
    const struct family *f = family_by_name(s->family);
    char key[KEY_BYTES];
    int32_t window = !strcmp(f->name, "gemma2") ? f->sliding_window : 0, full_every = f->full_every, n = 0, *slides = NULL;
    if (!gguf_i32(g, key_of(s, "attention.sliding_window", key), &window, e))
        return false;
    const struct gguf_value *pattern = gguf_find(g, key_of(s, "attention.sliding_window_pattern", key));
    if (pattern && !(pattern->type == GGUF_ARRAY ? gguf_i32s(g, key, &slides, &n, e) : gguf_i32(g, key, &full_every, e)))
        return false;
    if (slides && n < s->num_hidden_layers) {
        free(slides);
        return error_set(e, ERROR_FILE, "'%s': '%s' has %d items for %d layers", g->where, key, n, s->num_hidden_layers);
    }
    for (int32_t layer = 0; layer < s->num_hidden_layers; layer++) {
        bool full = slides ? !slides[layer] : full_every > 0 && (layer + 1) % full_every == 0;
        s->window[layer] = full || window < 0 ? 0 : window;
    }
    free(slides);
    return true;
}

static bool read_factor(const struct model_spec *s, const struct gguf *g, const char *name, float *out, struct error *e)
{
    char key[KEY_BYTES];
    if (!gguf_f32(g, key_of(s, name, key), out, e))
        return false;
    return (*out >= 0 && *out <= 1e6f) ||
           error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected 0 to 1e6", g->where, key, (double)*out);
}

static bool read_model_factors(struct model_spec *s, const struct gguf *g, struct error *e)
{
    const struct family *f = family_by_name(s->family);
    if (f->scaled_embedding)
        s->embedding_multiplier = sqrtf((float)s->hidden_size);
    // Gemma's 27B models alone scale by the width per head; files do not say so.
    if ((!strcmp(f->name, "gemma2") && s->num_hidden_layers == 46) ||
        (!strcmp(f->name, "gemma3") && s->num_hidden_layers == 62))
        s->attention_multiplier = 1 / sqrtf((float)(s->hidden_size / s->num_attention_heads));
    s->attn_logit_softcapping = (float)f->attn_logit_softcapping;
    s->final_logit_softcapping = (float)f->final_logit_softcapping;
    return read_factor(s, g, "attention.scale", &s->attention_multiplier, e) &&
           (s->attn_logit_softcapping <= 0 || read_factor(s, g, "attn_logit_softcapping", &s->attn_logit_softcapping, e)) &&
           read_factor(s, g, "final_logit_softcapping", &s->final_logit_softcapping, e) &&
           (!f->multipliers || (read_factor(s, g, "embedding_scale", &s->embedding_multiplier, e) &&
                                read_factor(s, g, "residual_scale", &s->residual_multiplier, e) &&
                                read_factor(s, g, "logit_scale", &s->logits_scaling, e)));
}

static bool read_rest(struct model_spec *s, const struct gguf *g, struct error *e)
{
    char key[KEY_BYTES];
    float eps = 1e-6f;
    int32_t experts = 0;
    if (!gguf_f32(g, key_of(s, "attention.layer_norm_rms_epsilon", key), &eps, e))
        return false;
    if (!(eps >= 0 && eps <= 1))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected 0 to 1", g->where, key, (double)eps);
    if (!gguf_i32(g, key_of(s, "expert_count", key), &experts, e))
        return false;
    if (experts > 0)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': %d experts per layer are not supported", g->where, experts);
    s->rms_norm_eps = eps;
    model_spec_set_no_rope(s, family_by_name(s->family)->no_rope_every);
    s->tie_word_embeddings = !has_tensor(g, "output.weight");
    s->qkv_bias = has_tensor(g, "blk.0.attn_q.bias") || has_tensor(g, "blk.0.attn_qkv.bias");
    s->o_bias = has_tensor(g, "blk.0.attn_output.bias");
    s->mlp_bias = has_tensor(g, "blk.0.ffn_down.bias");
    const struct stored_tensor *o = stored_find(g->tensor, g->n_tensors, "blk.0.attn_output.weight");
    s->dtype = o && o->known ? o->dtype : DTYPE_F32;
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
    struct text name = {"", 0};
    char shown[96];
    *s = (struct model_spec){0};
    if (!gguf_string(g, "general.architecture", &name, e))
        return false;
    if (gguf_priced_architecture(text_print(name, shown)))
        return gguf_priced_spec(s, g, shown, e) && read_token_ids(s, g, e);
    return read_architecture(s, g, e) && read_shape(s, g, e) && read_rope(s, g, e) && model_spec_check(s, g->where, e) &&
           read_llama3_factors(&s->rope, g, e) && read_long_factors(s, g, e) && read_windows(s, g, e) &&
           read_model_factors(s, g, e) && read_rest(s, g, e) && read_token_ids(s, g, e);
}
