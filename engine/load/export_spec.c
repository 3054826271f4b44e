// The reverse of gguf_model.c: keys "ARCHITECTURE.key" and the tensors of rotary factors.
#include "engine/load/export.h"

#include "engine/load/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128 };

struct keys {
    struct gguf_writer *w;
    const struct model_spec *s;
    const struct family *family;
    char key[KEY_BYTES];
};

static const char *key_of(struct keys *k, const char *name)
{
    snprintf(k->key, KEY_BYTES, "%s.%s", k->family->gguf, name);
    return k->key;
}

static void put_i(struct keys *k, const char *name, int32_t value)
{
    gguf_put_u32(k->w, key_of(k, name), (uint32_t)value);
}

static void put_f(struct keys *k, const char *name, double value)
{
    gguf_put_f32(k->w, key_of(k, name), (float)value);
}

static void put_shape(struct keys *k)
{
    const struct model_spec *s = k->s;
    put_i(k, "context_length", s->max_position_embeddings);
    put_i(k, "embedding_length", s->hidden_size);
    put_i(k, "block_count", s->num_hidden_layers);
    put_i(k, "feed_forward_length", s->intermediate_size);
    put_i(k, "attention.head_count", s->num_attention_heads);
    put_i(k, "attention.head_count_kv", s->num_key_value_heads);
    put_i(k, "attention.key_length", s->head_dim);
    put_i(k, "attention.value_length", s->head_dim);
    put_f(k, "attention.layer_norm_rms_epsilon", (double)s->rms_norm_eps);
    put_i(k, "vocab_size", s->vocab_size);
}

// One window for all layers that have one. Which these are is said unless readers take all of them.
static void put_windows(struct keys *k)
{
    const struct model_spec *s = k->s;
    bool slides[MODEL_MAX_LAYERS];
    int32_t window = 0, n = 0;
    for (int32_t i = 0; i < s->num_hidden_layers; i++) {
        slides[i] = s->window[i] > 0;
        n += slides[i];
        window = slides[i] ? s->window[i] : window;
    }
    if (!n && strcmp(s->family, "gemma2")) // whose absence means the family's
        return;
    put_i(k, "attention.sliding_window", window);
    if (n && (n < s->num_hidden_layers || k->family->full_every))
        gguf_put_bools(k->w, key_of(k, "attention.sliding_window_pattern"), slides, (uint64_t)s->num_hidden_layers);
}

static void put_factors_of_model(struct keys *k)
{
    const struct model_spec *s = k->s;
    if (s->attn_logit_softcapping > 0 || k->family->attn_logit_softcapping > 0) // else its absence means the family's
        put_f(k, "attn_logit_softcapping", (double)s->attn_logit_softcapping);
    if (s->final_logit_softcapping > 0 || k->family->final_logit_softcapping > 0)
        put_f(k, "final_logit_softcapping", (double)s->final_logit_softcapping);
    if (s->attention_multiplier > 0)
        put_f(k, "attention.scale", (double)s->attention_multiplier);
    if (k->family->multipliers && s->embedding_multiplier > 0)
        put_f(k, "embedding_scale", (double)s->embedding_multiplier);
    if (k->family->multipliers && s->residual_multiplier > 0)
        put_f(k, "residual_scale", (double)s->residual_multiplier);
    if (k->family->multipliers && s->logits_scaling > 0)
        put_f(k, "logit_scale", (double)s->logits_scaling);
}

// Of linear and YaRN scaling; the others speak through tensors.
static void put_rope(struct keys *k)
{
    const struct rope_spec *r = &k->s->rope;
    put_i(k, "rope.dimension_count", r->rotary_dim);
    put_f(k, "rope.freq_base", r->theta);
    if (k->s->rope_local.rotary_dim)
        put_f(k, "rope.freq_base_swa", k->s->rope_local.theta);
    if (r->kind == ROPE_LINEAR || r->kind == ROPE_YARN) {
        gguf_put_string(k->w, key_of(k, "rope.scaling.type"), r->kind == ROPE_YARN ? "yarn" : "linear");
        put_f(k, "rope.scaling.factor", r->factor);
    }
    if (r->kind == ROPE_YARN) {
        put_f(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
        put_f(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
        put_f(k, "rope.scaling.yarn_attn_factor", (double)r->magnitude / (1 + 0.1 * log(r->factor))); // of the usual one
    }
    if (r->kind == ROPE_YARN || r->kind == ROPE_LONG)
        put_i(k, "rope.scaling.original_context_length", r->original_max_position_embeddings);
    if (r->kind == ROPE_LONG) {
        gguf_put_string(k->w, key_of(k, "rope.scaling.type"), "longrope");
        put_f(k, "rope.scaling.attn_factor", r->magnitude > 0 ? (double)r->magnitude : 1);
    }
}

static void put_factor_tensor(struct gguf_writer *w, const char *name, const float *factor, int32_t n)
{
    struct gguf_out_tensor *t = gguf_put_tensor(w);
    if (!t)
        return;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_dims = 1, t->dim[0] = (uint64_t)n, t->n_parts = 1;
    t->part[0] = (struct gguf_rows){.tensor = {.data = factor, .dtype = DTYPE_F32, .rows = 1, .cols = n}};
}

// Llama 3's scaling as divisors of the plain frequencies.
static void llama3_factors(const struct rope_spec *r, float *out)
{
    struct rope_spec plain = *r;
    float scaled[MODEL_MAX_ROTARY / 2];
    plain.kind = ROPE_DEFAULT;
    rope_inv_freq(&plain, false, out);
    rope_inv_freq(r, false, scaled);
    for (int32_t i = 0; i < r->rotary_dim / 2; i++)
        out[i] /= scaled[i];
}

void export_spec(struct gguf_writer *w, const struct model_spec *s, float **factors)
{
    struct keys k = {.w = w, .s = s, .family = family_by_name(s->family)};
    const struct rope_spec *r = &s->rope;
    int32_t half = r->rotary_dim / 2;
    gguf_put_string(w, "general.architecture", k.family->gguf);
    gguf_put_string(w, "general.type", "model");
    gguf_put_string(w, "general.name", s->name);
    put_shape(&k);
    put_windows(&k);
    put_factors_of_model(&k);
    put_rope(&k);
    if (!(*factors = malloc(MODEL_MAX_ROTARY * sizeof **factors))) {
        w->no_memory = true;
        return;
    }
    if (r->kind == ROPE_LLAMA3)
        llama3_factors(r, *factors);
    else
        memcpy(*factors, r->freq_factor, sizeof r->freq_factor);
    memcpy(*factors + half, r->long_factor, (size_t)half * sizeof **factors);
    if (r->kind == ROPE_LLAMA3 || r->kind == ROPE_FACTORS)
        put_factor_tensor(w, "rope_freqs.weight", *factors, half);
    if (r->kind == ROPE_LONG) {
        put_factor_tensor(w, "rope_factors_short.weight", *factors, half);
        put_factor_tensor(w, "rope_factors_long.weight", *factors + half, half);
    }
}
