// Defaults are those of the configuration classes of transformers 5.
#include "engine/load/family.h"

#include <string.h>

static const struct family FAMILY[] = {
    {.name = "llama",
     .architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .gguf = "llama",
     .models = "Llama 2, 3, 3.1 and 3.2, SmolLM2, TinyLlama, Yi, CodeLlama",
     .attention_bias = true,
     .mlp_bias = true,
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4,
     .permuted_gguf = true},
    {.name = "mistral",
     .architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .gguf = "llama",
     .models = "Mistral 7B, Nemo, Small and Large",
     .window_rule = WINDOW_BY_LAYER, // Ministral's files name kinds of layers
     .num_key_value_heads = 8,
     .max_position_embeddings = 131072,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4,
     .permuted_gguf = true},
    {.name = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .gguf = "qwen2",
     .models = "Qwen2, Qwen2.5",
     .qkv_bias = true,
     .window_rule = WINDOW_QWEN,
     .num_key_value_heads = 32,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4},
    {.name = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .gguf = "qwen3",
     .models = "Qwen3",
     .qk_norm = QK_NORM_HEAD,
     .attention_bias = true,
     .window_rule = WINDOW_QWEN,
     .num_key_value_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4},
    {.name = "gemma",
     .architecture = "GemmaForCausalLM",
     .model_type = "gemma",
     .gguf = "gemma",
     .models = "Gemma",
     .attention_bias = true,
     .scaled_embedding = true,
     .hidden_act = ACT_GELU_TANH,
     .gelu_is_tanh = true,
     .tie_word_embeddings = true,
     .num_key_value_heads = 16,
     .head_dim = 256,
     .max_position_embeddings = 8192,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4,
     .norm_offset = 1},
    {.name = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .gguf = "gemma2",
     .models = "Gemma 2",
     .norm_place = NORM_BOTH,
     .attention_bias = true,
     .scaled_embedding = true,
     .window_rule = WINDOW_BY_LAYER,
     .full_every = 2,
     .hidden_act = ACT_GELU_TANH,
     .act_key = "hidden_activation",
     .tie_word_embeddings = true,
     .num_key_value_heads = 4,
     .head_dim = 256,
     .max_position_embeddings = 8192,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4,
     .query_pre_attn_scalar = 256,
     .attn_logit_softcapping = 50,
     .final_logit_softcapping = 30,
     .norm_offset = 1},
    {.name = "gemma3",
     .architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .wrapper = "Gemma3ForConditionalGeneration",
     .gguf = "gemma3",
     .models = "Gemma 3 (its text part)",
     .norm_place = NORM_BOTH,
     .qk_norm = QK_NORM_HEAD,
     .attention_bias = true,
     .scaled_embedding = true,
     .rope_by_layer = true,
     .window_rule = WINDOW_BY_LAYER,
     .full_every = 6,
     .hidden_act = ACT_GELU_TANH,
     .act_key = "hidden_activation",
     .tie_word_embeddings = true,
     .vocab_size = 262208,
     .num_attention_heads = 8,
     .num_key_value_heads = 4,
     .head_dim = 256,
     .max_position_embeddings = 131072,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e6,
     .rope_theta_local = 1e4,
     .query_pre_attn_scalar = 256,
     .norm_offset = 1},
    {.name = "phi3",
     .architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .gguf = "phi3",
     .models = "Phi-3, Phi-3.5 mini, Phi-4, Phi-4 mini",
     .partial_rotary = true,
     .window_rule = WINDOW_ALL,
     .max_position_embeddings = 4096,
     .rms_norm_eps = 1e-5,
     .rope_theta = 1e4},
    {.name = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .gguf = "olmo2",
     .models = "OLMo 2",
     .norm_place = NORM_AFTER,
     .qk_norm = QK_NORM_ROW,
     .attention_bias = true,
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-5,
     .rope_theta = 1e4},
    {.name = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .gguf = "olmo2",
     .models = "OLMo 3",
     .norm_place = NORM_AFTER,
     .qk_norm = QK_NORM_ROW,
     .attention_bias = true,
     .rope_by_layer = true,
     .window_rule = WINDOW_BY_LAYER,
     .full_every = 4,
     .max_position_embeddings = 2048,
     .sliding_window = 4096,
     .rms_norm_eps = 1e-5,
     .rope_theta = 5e5,
     .rope_theta_local = 5e5},
    {.name = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .gguf = "smollm3",
     .models = "SmolLM3",
     .attention_bias = true,
     .mlp_bias = true,
     .no_rope_every = 4,
     .window_rule = WINDOW_QWEN,
     .tie_word_embeddings = true,
     .num_key_value_heads = 4,
     .max_position_embeddings = 32768,
     .rms_norm_eps = 1e-6,
     .rope_theta = 2e6,
     .permuted_gguf = true},
    {.name = "granite",
     .architecture = "GraniteForCausalLM",
     .model_type = "granite",
     .gguf = "granite",
     .models = "Granite 3 and 4 (dense)",
     .attention_bias = true,
     .mlp_bias = true,
     .multipliers = true,
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-6,
     .rope_theta = 1e4,
     .permuted_gguf = true},
};
enum { N_FAMILIES = sizeof FAMILY / sizeof *FAMILY };

const struct family *family_all(int *n)
{
    *n = N_FAMILIES;
    return FAMILY;
}

const struct family *family_by_name(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(FAMILY[i].name, name))
            return &FAMILY[i];
    return NULL;
}

const struct family *family_by_architecture(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(FAMILY[i].architecture, name) || (FAMILY[i].wrapper && !strcmp(FAMILY[i].wrapper, name)))
            return &FAMILY[i];
    return NULL;
}

const struct family *family_by_model_type(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(FAMILY[i].model_type, name))
            return &FAMILY[i];
    return NULL;
}

const struct family *family_by_gguf(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(FAMILY[i].gguf, name))
            return &FAMILY[i];
    return NULL;
}
