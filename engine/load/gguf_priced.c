// GGUF metadata of families that are priced only: the same facts as their config.json under other names, read by the same
// reader (config_priced.c).
#include "engine/base/json.h"
#include "engine/load/config.h"
#include "engine/load/config_priced.h"
#include "engine/load/files.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *gguf, *architecture;
} PRICED[] = {
    {"qwen2moe", "Qwen2MoeForCausalLM"},
    {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"deepseek2", "DeepseekV3ForCausalLM"},
    {"glm4", "Glm4ForCausalLM"},
    {"glm4moe", "Glm4MoeForCausalLM"},
    {"gpt-oss", "GptOssForCausalLM"},
    {"minimax-m2", "MiniMaxM2ForCausalLM"},
    {"hunyuan-moe", "HunYuanMoEV1ForCausalLM"},
    {"gpt2", "GPT2LMHeadModel"},
    {"starcoder", "GPTBigCodeForCausalLM"},
    {"falcon", "FalconForCausalLM"},
};

// Metadata "ARCHITECTURE.key" and what config.json calls it.
static const struct {
    const char *gguf, *config;
} KEYS[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"context_length", "max_position_embeddings"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.sliding_window", "sliding_window"},
    {"expert_count", "n_routed_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"rope.dimension_count", "qk_rope_head_dim"},
};

const char *gguf_priced_architecture(const char *name)
{
    for (size_t i = 0; i < sizeof PRICED / sizeof *PRICED; i++)
        if (!strcmp(name, PRICED[i].gguf))
            return PRICED[i].architecture;
    return NULL;
}

static bool copy_number(const struct gguf *g, const char *name, const char *key, cJSON *config, const char *as,
                        struct error *e)
{
    char full[128];
    int32_t value = 0;
    snprintf(full, sizeof full, "%s.%s", name, key);
    if (!gguf_find(g, full))
        return true;
    if (!gguf_i32(g, full, &value, e))
        return false;
    cJSON_DeleteItemFromObject(config, as);
    cJSON_AddNumberToObject(config, as, value);
    return true;
}

// MLA: files state the width of unfolded heads, newer ones beside that of the latent.
static bool copy_latent(const struct gguf *g, const char *name, cJSON *config, struct error *e)
{
    if (!json_member(config, "kv_lora_rank"))
        return true;
    if (!copy_number(g, name, "attention.key_length", config, "head_dim", e) ||
        !copy_number(g, name, "attention.key_length_mla", config, "head_dim", e) ||
        !copy_number(g, name, "attention.value_length", config, "v_head_dim", e) ||
        !copy_number(g, name, "attention.value_length_mla", config, "v_head_dim", e))
        return false;
    const cJSON *head = json_member(config, "head_dim"), *rope = json_member(config, "qk_rope_head_dim");
    if (head && rope)
        cJSON_AddNumberToObject(config, "qk_nope_head_dim", head->valuedouble - rope->valuedouble);
    return true;
}

// gpt-oss: every other layer slides, the first one does. No key says so.
static void add_layer_types(const char *name, cJSON *config)
{
    const cJSON *layers = json_member(config, "num_hidden_layers");
    if (strcmp(name, "gpt-oss") || !layers || !json_member(config, "sliding_window"))
        return;
    cJSON *types = cJSON_AddArrayToObject(config, "layer_types");
    for (int i = 0; i < layers->valueint && i < MODEL_MAX_LAYERS; i++)
        cJSON_AddItemToArray(types, cJSON_CreateString(i % 2 ? "full_attention" : "sliding_attention"));
}

static bool fill_config(const struct gguf *g, const char *name, cJSON *config, struct error *e)
{
    const struct stored_tensor *table = stored_find(g->tensor, g->n_tensors, "token_embd.weight");
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof KEYS / sizeof *KEYS; i++)
        ok = copy_number(g, name, KEYS[i].gguf, config, KEYS[i].config, e);
    if (table && table->n_dims == 2)
        cJSON_AddNumberToObject(config, "vocab_size", (double)table->dim[0]);
    cJSON_AddBoolToObject(config, "tie_word_embeddings", !stored_find(g->tensor, g->n_tensors, "output.weight"));
    add_layer_types(name, config);
    return ok && copy_latent(g, name, config, e);
}

bool gguf_priced_spec(struct model_spec *s, const struct gguf *g, const char *name, struct error *e)
{
    cJSON *config = cJSON_CreateObject();
    if (!config)
        return error_set(e, ERROR_MEMORY, "no memory to read '%s'", g->where);
    bool ok = fill_config(g, name, config, e) &&
              config_read_priced(s, config, gguf_priced_architecture(name), g->where, e) && model_spec_check(s, g->where, e);
    model_name_from_path(g->where, s->name, sizeof s->name);
    cJSON_Delete(config);
    return ok;
}
