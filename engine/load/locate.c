// Where the tensors of a plan lie in a model's files. Most have a name of their own; some files keep several in one matrix,
// rows behind rows: q, k and v, or gate and up (Phi-3). Multi-modal models prefix the names of their text part.
#include "engine/load/family.h"
#include "engine/load/files.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 128 };

static const struct stored_tensor *find(const struct model *m, const char *name)
{
    return stored_find(m->files->tensor, m->files->n_tensors, name);
}

// By this name, or by it inside a multi-modal model: transformers 4 wrote "language_model.model.layers...", version 5
// writes "model.language_model.layers..." and leaves "lm_head" alone.
static const struct stored_tensor *find_hf(const struct model *m, const char *name)
{
    char longer[NAME_BYTES + 32];
    const struct stored_tensor *t = find(m, name);
    if (t)
        return t;
    snprintf(longer, sizeof longer, "language_model.%s", name);
    if ((t = find(m, longer)) || strncmp(name, "model.", 6))
        return t;
    snprintf(longer, sizeof longer, "model.language_model.%s", name + 6);
    return find(m, longer);
}

bool model_tensor_name(const struct model *m, const struct tensor_spec *t, char *out, int size)
{
    enum tensor_role role = (enum tensor_role)t->role;
    if (m->format == MODEL_GGUF)
        return tensor_name_gguf(role, t->layer, out, size);
    // With norms on both sides, "post_attention_layernorm" is the one behind attention.
    if (role == TENSOR_FFN_NORM && m->spec.norm_place == NORM_BOTH) {
        int n = snprintf(out, (size_t)size, "model.layers.%d.pre_feedforward_layernorm.weight", t->layer);
        return n >= 0 && n < size;
    }
    return tensor_name_hf(role, t->layer, out, size);
}

// The matrix that holds several, the row at which this one begins, and how many rows it has in all.
struct fused {
    const char *hf, *gguf;
    int64_t first, rows;
};

static bool fused_of(const struct model_spec *s, enum tensor_role role, struct fused *out)
{
    int64_t q = (int64_t)s->num_attention_heads * s->head_dim, kv = (int64_t)s->num_key_value_heads * s->head_dim;
    const char *const qkv[] = {"model.layers.%d.self_attn.qkv_proj.%s", "blk.%d.attn_qkv.%s"};
    const char *const gate_up[] = {"model.layers.%d.mlp.gate_up_proj.%s", "blk.%d.ffn_up.%s"};
    switch (role) {
    case TENSOR_ATTN_Q:
    case TENSOR_ATTN_Q_BIAS: *out = (struct fused){qkv[0], qkv[1], 0, q + 2 * kv}; return true;
    case TENSOR_ATTN_K:
    case TENSOR_ATTN_K_BIAS: *out = (struct fused){qkv[0], qkv[1], q, q + 2 * kv}; return true;
    case TENSOR_ATTN_V:
    case TENSOR_ATTN_V_BIAS: *out = (struct fused){qkv[0], qkv[1], q + kv, q + 2 * kv}; return true;
    case TENSOR_FFN_GATE:
    case TENSOR_FFN_GATE_BIAS:
        *out = (struct fused){gate_up[0], gate_up[1], 0, 2 * (int64_t)s->intermediate_size};
        return true;
    case TENSOR_FFN_UP:
    case TENSOR_FFN_UP_BIAS:
        *out = (struct fused){gate_up[0], gate_up[1], s->intermediate_size, 2 * (int64_t)s->intermediate_size};
        return true;
    default: return false;
    }
}

static bool is_vector(const struct tensor_spec *t)
{
    return t->rows == 1;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static const struct stored_tensor *find_fused(const struct model *m, const struct tensor_spec *t, const struct fused *f)
{
    char name[NAME_BYTES];
    const char *what = is_vector(t) ? "bias" : "weight";
    snprintf(name, sizeof name, m->format == MODEL_GGUF ? f->gguf : f->hf, t->layer, what);
    return m->format == MODEL_GGUF ? find(m, name) : find_hf(m, name);
}

// Whether GGUF's ffn_up of this layer holds the gate too: then there is no ffn_gate.
static bool up_is_fused(const struct model *m, const struct tensor_spec *t)
{
    char name[NAME_BYTES];
    bool is_up = t->role == TENSOR_FFN_UP || t->role == TENSOR_FFN_UP_BIAS;
    return m->format == MODEL_GGUF && is_up &&
           tensor_name_gguf(is_vector(t) ? TENSOR_FFN_GATE_BIAS : TENSOR_FFN_GATE, t->layer, name, sizeof name) &&
           !find(m, name);
}

bool model_locate(const struct model *m, const struct tensor_spec *t, struct location *out)
{
    char name[NAME_BYTES];
    struct fused fused;
    *out = (struct location){.rows = is_vector(t) ? t->cols : t->rows};
    if (!m->files || !model_tensor_name(m, t, name, sizeof name))
        return false;
    if (!up_is_fused(m, t))
        out->stored = m->format == MODEL_GGUF ? find(m, name) : find_hf(m, name);
    if (out->stored || !fused_of(&m->spec, (enum tensor_role)t->role, &fused))
        return out->stored != NULL;
    out->stored = find_fused(m, t, &fused);
    out->first = fused.first, out->rows = fused.rows;
    return out->stored != NULL;
}
