// The model families as data: how each is put together, what its configuration class takes for granted, and how its files
// name and store tensors. A new family that differs from these in no other way is one more row in family.c.
#ifndef ENGINE_LOAD_FAMILY_H
#define ENGINE_LOAD_FAMILY_H

#include "engine/model_spec.h"

// Which layers see a window of `sliding_window` positions.
enum window_rule {
    WINDOW_NONE,     // none, whatever a file says
    WINDOW_ALL,      // all
    WINDOW_BY_LAYER, // those that layer_types names, else all but every full_every-th
    WINDOW_QWEN,     // those that layer_types names, else those from max_window_layers on; none unless use_sliding_window
};

struct family {
    const char *name;         // model_spec.family
    const char *architecture; // in config.json: the first of "architectures"
    const char *model_type;   // in config.json: what tells the family where "architectures" is missing
    const char *wrapper;      // architecture of multi-modal models that have it as their text part, or NULL
    const char *gguf;         // general.architecture of GGUF files
    const char *models;       // that are of this family, for people

    // How it is put together.
    enum norm_place norm_place;
    enum qk_norm qk_norm;
    bool qkv_bias;       // always there
    bool attention_bias; // where config.json's key of that name says so, as mlp_bias
    bool mlp_bias;
    bool scaled_embedding; // embeddings times sqrt(hidden_size)
    bool partial_rotary;   // partial_rotary_factor counts
    bool multipliers;      // Granite's four
    bool rope_by_layer;    // rope_parameters has one entry for layers with a window and one for the others
    int32_t no_rope_every; // every such layer does without rotary embedding; 0: none does
    enum window_rule window_rule;
    int32_t full_every; // 0: never

    // What config.json may leave out. 0: then it must be there, or follows from the rest.
    enum act_kind hidden_act;
    const char *act_key; // of config.json; NULL: "hidden_act"
    bool gelu_is_tanh;   // Gemma's first files say "gelu" and mean the approximation
    bool tie_word_embeddings;
    int32_t vocab_size, num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings, sliding_window;
    double rms_norm_eps, rope_theta, rope_theta_local, query_pre_attn_scalar;
    double attn_logit_softcapping, final_logit_softcapping;

    // How files store it.
    float norm_offset;  // Hugging Face: norm weights are stored less this
    bool permuted_gguf; // GGUF: rows of q and k stand in the order of interleaved pairs
};

const struct family *family_all(int *n);
const struct family *family_by_name(const char *name);         // NULL: none
const struct family *family_by_architecture(const char *name); // of config.json, wrappers included
const struct family *family_by_model_type(const char *name);
const struct family *family_by_gguf(const char *name); // the first that uses it

#endif
