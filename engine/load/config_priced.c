// config.json of families whose plans can be written and priced, though no backend runs all of their operations yet:
// routed experts, latent attention, constant states, learned positions. Facts are read by their keys; a fact that is
// missing is named, never guessed. Where the class of transformers has a default, the family's row has it.
#include "engine/load/config_priced.h"

#include "engine/base/json.h"
#include "engine/load/config.h"

#include <stdio.h>
#include <string.h>

enum {
    QK_NORM = 1 << 0,
    QKV_BIAS = 1 << 1,
    ALL_BIAS = 1 << 2, // of attention; of the feed-forward, too, where it is dense
    TIED = 1 << 3,     // when the key is absent
    LATENT = 1 << 4,
    INDEXER = 1 << 5,
    EXPERTS = 1 << 6,
    ROUTER_BIAS = 1 << 7,
    SHARED_GATE = 1 << 8,
    EXPERT_BIAS = 1 << 9,
    UNGATED = 1 << 10,
    LAYER_NORM = 1 << 11,
    POSITIONS = 1 << 12,
    PARALLEL = 1 << 13,
    DELTA = 1 << 14,
    MAMBA = 1 << 15,
    GATED_ATTENTION = 1 << 16,
    SINKS = 1 << 17,
    POST_NORMS = 1 << 18,
    INTERLEAVED = 1 << 19, // rotary pairs are neighbours
    SHARED_ONE = 1 << 20,  // one shared expert, though no key says so
};

static const struct priced {
    const char *architecture, *name;
    int flags;
    int32_t extra_positions; // rows of the table of positions beyond max_position_embeddings
} PRICED[] = {
    {"MixtralForCausalLM", "mixtral", EXPERTS, 0},
    {"Qwen2MoeForCausalLM", "qwen2_moe", QKV_BIAS | EXPERTS | SHARED_GATE, 0},
    {"Qwen3MoeForCausalLM", "qwen3_moe", QK_NORM | EXPERTS, 0},
    {"Qwen3NextForCausalLM", "qwen3_next", QK_NORM | EXPERTS | SHARED_GATE | DELTA | GATED_ATTENTION, 0},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", QK_NORM | DELTA | GATED_ATTENTION, 0},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", QK_NORM | EXPERTS | SHARED_GATE | DELTA | GATED_ATTENTION, 0},
    {"DeepseekV2ForCausalLM", "deepseek_v2", LATENT | EXPERTS, 0},
    {"DeepseekV3ForCausalLM", "deepseek_v3", LATENT | EXPERTS | ROUTER_BIAS, 0},
    {"DeepseekV32ForCausalLM", "deepseek_v32", LATENT | EXPERTS | ROUTER_BIAS | INDEXER, 0},
    {"MiniCPM3ForCausalLM", "minicpm3", LATENT | TIED, 0},
    {"Glm4ForCausalLM", "glm4", POST_NORMS | INTERLEAVED, 0},
    {"Glm4MoeForCausalLM", "glm4_moe", EXPERTS | ROUTER_BIAS, 0},
    {"Glm4MoeLiteForCausalLM", "glm4_moe_lite", LATENT | EXPERTS | ROUTER_BIAS, 0},
    {"GlmMoeDsaForCausalLM", "glm_moe_dsa", LATENT | EXPERTS | ROUTER_BIAS | INDEXER, 0},
    {"GptOssForCausalLM", "gpt_oss", ALL_BIAS | EXPERTS | ROUTER_BIAS | EXPERT_BIAS | SINKS, 0},
    {"Llama4ForConditionalGeneration", "llama4", EXPERTS | SHARED_ONE, 0},
    {"MiniMaxM2ForCausalLM", "minimax_m2", QK_NORM | EXPERTS | ROUTER_BIAS, 0},
    {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", QK_NORM | EXPERTS | TIED, 0},
    {"Gemma4ForConditionalGeneration", "gemma4", QK_NORM | EXPERTS | TIED | POST_NORMS, 0},
    {"Mistral4ForCausalLM", "mistral4", LATENT | EXPERTS, 0},
    {"NemotronHForCausalLM", "nemotron_h", UNGATED | EXPERTS | ROUTER_BIAS | MAMBA, 0},
    {"GPT2LMHeadModel", "gpt2", ALL_BIAS | TIED | UNGATED | LAYER_NORM | POSITIONS, 0},
    {"GPTBigCodeForCausalLM", "gpt_bigcode", ALL_BIAS | TIED | UNGATED | LAYER_NORM | POSITIONS, 0},
    {"OPTForCausalLM", "opt", ALL_BIAS | TIED | UNGATED | LAYER_NORM | POSITIONS, 2},
    {"FalconForCausalLM", "falcon", TIED | UNGATED | LAYER_NORM | PARALLEL, 0},
    {"GPTJForCausalLM", "gptj", UNGATED | LAYER_NORM | PARALLEL, 0},
};

struct reader {
    const cJSON *c;
    const char *where;
    int flags;
    struct error *e;
};

const char *config_priced_name(const char *architecture)
{
    for (size_t i = 0; i < sizeof PRICED / sizeof *PRICED; i++)
        if (!strcmp(architecture, PRICED[i].architecture))
            return PRICED[i].name;
    return NULL;
}

// The value of the first key of "a|b|c" that is there; *out stays where none is.
static bool number(const struct reader *r, const char *keys, int32_t *out)
{
    char key[64];
    for (const char *at = keys; *at;) {
        size_t n = strcspn(at, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        if (json_member(r->c, key))
            return json_i32(r->c, r->where, key, 0, INT32_MAX, out, r->e);
        at += n + (at[n] == '|');
    }
    return true;
}

static bool need(const struct reader *r, const char *keys, int32_t *out)
{
    *out = -1;
    if (!number(r, keys, out))
        return false;
    return *out >= 1 || error_set(r->e, ERROR_FILE, "'%s': '%.*s' is missing", r->where, (int)strcspn(keys, "|"), keys);
}

static bool is_set(const struct reader *r, const char *key)
{
    return cJSON_IsTrue(json_member(r->c, key));
}

static bool read_shape(const struct reader *r, struct model_spec *s)
{
    bool multi_query = is_set(r, "multi_query") && !is_set(r, "new_decoder_architecture");
    if (!need(r, "num_hidden_layers|n_layer", &s->num_hidden_layers) || !need(r, "hidden_size|n_embd", &s->hidden_size) ||
        !need(r, "num_attention_heads|n_head", &s->num_attention_heads) || !need(r, "vocab_size", &s->vocab_size))
        return false;
    if (s->num_hidden_layers > MODEL_MAX_LAYERS)
        return error_set(r->e, ERROR_UNSUPPORTED, "'%s': more than %d layers", r->where, MODEL_MAX_LAYERS);
    s->num_key_value_heads = multi_query ? 1 : s->num_attention_heads;
    s->head_dim = s->hidden_size / s->num_attention_heads;
    s->max_position_embeddings = 2048;
    if (r->flags & UNGATED)
        s->intermediate_size = s->hidden_size < INT32_MAX / 4
                                   ? 4 * s->hidden_size
                                   : INT32_MAX; // the rule of GPT-2 and its descendants where nothing else is said
    return number(r, "num_key_value_heads|num_kv_heads", &s->num_key_value_heads) && number(r, "head_dim", &s->head_dim) &&
           number(r, "max_position_embeddings|n_positions", &s->max_position_embeddings) &&
           number(r, "intermediate_size|n_inner|ffn_dim", &s->intermediate_size);
}

static bool read_switches(const struct reader *r, struct model_spec *s)
{
    bool bias = r->flags & ALL_BIAS, attention_bias = bias;
    const char *dtype = "bfloat16";
    double eps = 1e-6;
    s->tie_word_embeddings = r->flags & TIED;
    if (!json_bool(r->c, r->where, "tie_word_embeddings", &s->tie_word_embeddings, r->e) ||
        !json_bool(r->c, r->where, "attention_bias", &attention_bias, r->e) ||
        !json_string(r->c, r->where, "torch_dtype", &dtype, r->e) || !json_string(r->c, r->where, "dtype", &dtype, r->e) ||
        !json_f64(r->c, r->where, "rms_norm_eps", 0, 1, &eps, r->e))
        return false;
    s->qk_norm = (r->flags & QK_NORM) || is_set(r, "use_qk_norm") ? QK_NORM_HEAD : QK_NORM_NONE;
    s->qkv_bias = attention_bias || (r->flags & QKV_BIAS);
    s->o_bias = bias || (attention_bias && !(r->flags & EXPERTS));
    s->mlp_bias = bias && !(r->flags & EXPERTS);
    s->rms_norm_eps = (float)eps;
    s->layer_norm = r->flags & LAYER_NORM;
    s->parallel_residual = r->flags & PARALLEL;
    s->attention_gate = r->flags & GATED_ATTENTION;
    s->attention_sinks = r->flags & SINKS;
    s->norm_place = r->flags & POST_NORMS ? NORM_BOTH : NORM_BEFORE;
    s->hidden_act = ACT_SILU;
    return dtype_parse(dtype, &s->dtype) ||
           error_set(r->e, ERROR_UNSUPPORTED, "'%s': dtype '%.40s' is not supported", r->where, dtype);
}

static bool read_latent(const struct reader *r, struct model_spec *s)
{
    struct mla_spec *m = &s->mla;
    if (!need(r, "kv_lora_rank", &m->kv_lora_rank) || !number(r, "q_lora_rank", &m->q_lora_rank) ||
        !need(r, "qk_nope_head_dim", &m->qk_nope_head_dim) || !need(r, "qk_rope_head_dim", &m->qk_rope_head_dim))
        return false;
    m->v_head_dim = s->hidden_size / s->num_attention_heads; // MiniCPM3's rule where the key is absent
    if (!number(r, "v_head_dim", &m->v_head_dim))
        return false;
    int64_t width = (int64_t)m->qk_nope_head_dim + m->qk_rope_head_dim;
    s->head_dim = width < INT32_MAX ? (int32_t)width : INT32_MAX;
    s->num_key_value_heads = s->num_attention_heads; // every head has K and V of its own, unfolded from the latent
    if (!(r->flags & INDEXER))
        return true;
    return need(r, "index_n_heads", &m->index_n_heads) && need(r, "index_head_dim", &m->index_head_dim) &&
           need(r, "index_topk", &m->index_topk);
}

static bool read_experts(const struct reader *r, struct model_spec *s)
{
    struct experts_spec *x = &s->experts;
    int32_t n_shared = (r->flags & SHARED_ONE) != 0;
    if (!need(r, "n_routed_experts|num_experts|num_local_experts", &x->num_experts) ||
        !need(r, "num_experts_per_tok|moe_topk|top_k_experts", &x->num_experts_per_tok))
        return false;
    x->moe_intermediate_size = s->intermediate_size; // Mixtral, gpt-oss, MiniMax, Llama 4 say no more
    if (!number(r, "moe_intermediate_size", &x->moe_intermediate_size) ||
        !number(r, "n_shared_experts|num_shared_experts|num_shared_expert", &n_shared) ||
        !number(r, "moe_latent_size", &x->latent_size))
        return false;
    int64_t shared = (int64_t)n_shared * x->moe_intermediate_size;
    x->shared_intermediate_size = shared < INT32_MAX ? (int32_t)shared : INT32_MAX; // check_sizes refuses it
    x->shared_gate = r->flags & SHARED_GATE;
    x->gated = !(r->flags & UNGATED);
    x->bias = r->flags & EXPERT_BIAS;
    x->router_bias = r->flags & ROUTER_BIAS;
    return number(r, "shared_expert_intermediate_size|moe_shared_expert_intermediate_size", &x->shared_intermediate_size);
}

static bool read_state(const struct reader *r, struct model_spec *s)
{
    struct state_spec *t = &s->state;
    const char *dtype = "bfloat16"; // what an engine takes where the model does not say: the model's own
    t->mamba = r->flags & MAMBA;
    if (!need(r, "linear_num_value_heads|mamba_num_heads", &t->num_v_heads) ||
        !need(r, "linear_num_key_heads|n_groups", &t->num_k_heads) ||
        !need(r, "linear_key_head_dim|ssm_state_size", &t->k_head_dim) ||
        !need(r, "linear_value_head_dim|mamba_head_dim", &t->v_head_dim) ||
        !need(r, "linear_conv_kernel_dim|conv_kernel", &t->conv_kernel) ||
        !json_string(r->c, r->where, "mamba_ssm_dtype", &dtype, r->e) ||
        !json_string(r->c, r->where, "mamba_ssm_cache_dtype", &dtype, r->e))
        return false;
    return dtype_parse(dtype, &t->dtype) ||
           error_set(r->e, ERROR_UNSUPPORTED, "'%s': states of type '%.40s' are not supported", r->where, dtype);
}

static bool set_layer(const struct reader *r, struct model_spec *s, int32_t layer, const char *kind, int32_t window)
{
    bool chunked = !strcmp(kind, "chunked_attention");
    if (!strcmp(kind, "linear_attention"))
        s->mixer[layer] = MIXER_STATE;
    if (!strcmp(kind, "linear_attention") || !strcmp(kind, "full_attention"))
        return true;
    if (!chunked && strcmp(kind, "sliding_attention"))
        return error_set(r->e, ERROR_UNSUPPORTED, "'%s': layer type '%.40s' is not supported", r->where, kind);
    if (!window)
        return error_set(r->e, ERROR_FILE, "'%s': '%s' is missing", r->where,
                         chunked ? "attention_chunk_size" : "sliding_window");
    s->window[layer] = window;
    s->chunked |= chunked;
    return true;
}

static bool read_layer_types(const struct reader *r, struct model_spec *s, const cJSON *types)
{
    int32_t window = 0, layer = 0;
    if (!number(r, "sliding_window|attention_chunk_size", &window))
        return false;
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != s->num_hidden_layers)
        return error_set(r->e, ERROR_FILE, "'%s': 'layer_types' is not a list of %d names", r->where, s->num_hidden_layers);
    for (const cJSON *t = types->child; t; t = t->next, layer++)
        if (!set_layer(r, s, layer, cJSON_IsString(t) ? t->valuestring : "?", window))
            return false;
    return true;
}

// "M*-E": Mamba-2, attention, feed-forward, experts; a layer is one of them.
static bool read_pattern(const struct reader *r, struct model_spec *s, const char *pattern)
{
    if ((int32_t)strlen(pattern) != s->num_hidden_layers)
        return error_set(r->e, ERROR_FILE, "'%s': 'hybrid_override_pattern' has %zu letters for %d layers", r->where,
                         strlen(pattern), s->num_hidden_layers);
    for (int32_t i = 0; pattern[i]; i++) {
        char p = pattern[i];
        if (!strchr("M*-E", p))
            return error_set(r->e, ERROR_UNSUPPORTED, "'%s': layer '%c' of 'hybrid_override_pattern' is not supported",
                             r->where, p);
        s->mixer[i] = p == 'M' ? MIXER_STATE : p == '*' ? MIXER_ATTENTION : MIXER_NONE;
        s->ffn[i] = p == 'E' ? FFN_EXPERTS : p == '-' ? FFN_PLAIN : FFN_NONE;
    }
    return true;
}

// Llama 4: layers with rotary attend within chunks, the others everywhere.
static bool read_chunks(const struct reader *r, struct model_spec *s)
{
    const cJSON *rotary = json_member(r->c, "no_rope_layers"), *at = rotary ? rotary->child : NULL;
    int32_t chunk = 0;
    if (!number(r, "attention_chunk_size", &chunk) || !chunk)
        return r->e->kind == ERROR_NONE;
    s->chunked = true;
    for (int32_t i = 0; i < s->num_hidden_layers; i++, at = at ? at->next : NULL) {
        bool everywhere = at ? at->valuedouble == 0 : i % 4 == 3;
        s->window[i] = everywhere ? 0 : chunk;
    }
    return true;
}

static bool read_mixers(const struct reader *r, struct model_spec *s)
{
    const cJSON *types = json_member(r->c, "layer_types");
    const char *pattern = NULL;
    int32_t interval = 0;
    if (!json_string(r->c, r->where, "hybrid_override_pattern", &pattern, r->e))
        return false;
    if (r->flags & MAMBA)
        return pattern ? read_pattern(r, s, pattern)
                       : error_set(r->e, ERROR_FILE, "'%s': 'hybrid_override_pattern' is missing", r->where);
    if (types)
        return read_layer_types(r, s, types);
    if (json_member(r->c, "attention_chunk_size"))
        return read_chunks(r, s);
    if (!(r->flags & DELTA))
        return true;
    if (!need(r, "full_attention_interval", &interval))
        return false;
    for (int32_t i = 0; i < s->num_hidden_layers; i++)
        s->mixer[i] = (i + 1) % interval ? MIXER_STATE : MIXER_ATTENTION;
    return true;
}

static bool read_feed_forwards(const struct reader *r, struct model_spec *s)
{
    int32_t dense = 0, step = 1, dense_size = s->intermediate_size;
    if (r->flags & MAMBA)
        return true; // read_pattern has said it
    if (!number(r, "first_k_dense_replace", &dense) || !number(r, "interleave_moe_layer_step", &step) ||
        !number(r, "intermediate_size_mlp", &dense_size))
        return false;
    for (int32_t i = 0; i < s->num_hidden_layers; i++) {
        bool routed = (r->flags & EXPERTS) && i >= dense && step > 0 && (i + 1) % step == 0;
        s->ffn[i] = routed ? FFN_EXPERTS : r->flags & UNGATED ? FFN_PLAIN : FFN_GATED;
    }
    s->intermediate_size = dense_size;
    return true;
}

// Layers that see everything may have heads of their own (Gemma 4), or each layer its number of KV heads.
static bool read_layer_heads(const struct reader *r, struct model_spec *s)
{
    const cJSON *heads = json_member(r->c, "num_key_value_heads_per_layer"), *at = heads ? heads->child : NULL;
    int32_t global_heads = 0, global_dim = 0;
    if (!number(r, "num_global_key_value_heads", &global_heads) || !number(r, "global_head_dim", &global_dim))
        return false;
    for (int32_t i = 0; i < s->num_hidden_layers; i++, at = at ? at->next : NULL) {
        s->layer_kv_heads[i] = at && at->valuedouble >= 1 ? (int32_t)at->valuedouble : s->window[i] ? 0 : global_heads;
        s->layer_head_dim[i] = s->window[i] ? 0 : global_dim;
    }
    return true;
}

static bool read_rotary(const struct reader *r, struct model_spec *s)
{
    double theta = 10000, partial = 1;
    if (!json_f64(r->c, r->where, "rope_theta", 1, 1e15, &theta, r->e) ||
        !json_f64(r->c, r->where, "partial_rotary_factor", 0, 1, &partial, r->e))
        return false;
    int32_t rotary = s->mla.kv_lora_rank ? s->mla.qk_rope_head_dim : (int32_t)(s->head_dim * partial) & ~1;
    s->rope = (struct rope_spec){.rotary_dim = rotary, .theta = theta, .interleaved = r->flags & INTERLEAVED};
    return true;
}

static bool within(const struct reader *r, const char *what, int64_t value, int64_t max)
{
    return (value >= 0 && value <= max) || error_set(r->e, ERROR_FILE, "'%s': %s is %lld, expected at most %lld", r->where,
                                                     what, (long long)value, (long long)max);
}

// So that products in plans need no further checks; model_spec_check does the same for what all models have.
static bool check_sizes(const struct reader *r, const struct model_spec *s)
{
    enum { WIDTH = 1 << 20, HEADS_WIDTH = 1 << 22, COUNT = 1 << 16 };
    const struct mla_spec *m = &s->mla;
    const struct experts_spec *x = &s->experts;
    const struct state_spec *t = &s->state;
    int64_t heads = s->num_attention_heads, d = s->head_dim, most_heads = 0, most_dim = 0;
    if (!within(r, "num_attention_heads", heads, COUNT) || !within(r, "head_dim", d, WIDTH))
        return false;
    for (int32_t i = 0; i < s->num_hidden_layers; i++) {
        most_heads = s->layer_kv_heads[i] > most_heads ? s->layer_kv_heads[i] : most_heads;
        most_dim = s->layer_head_dim[i] > most_dim ? s->layer_head_dim[i] : most_dim;
    }
    most_dim = most_dim > d ? most_dim : d;
    return within(r, "the width of all heads", heads * most_dim * 2, HEADS_WIDTH) &&
           within(r, "KV heads of a layer", most_heads, heads) && within(r, "n_positions", s->n_positions, 1 << 24) &&
           within(r, "kv_lora_rank", m->kv_lora_rank, WIDTH) && within(r, "q_lora_rank", m->q_lora_rank, WIDTH) &&
           within(r, "qk_nope_head_dim", m->qk_nope_head_dim, WIDTH) && within(r, "v_head_dim", m->v_head_dim, WIDTH) &&
           within(r, "qk_rope_head_dim", m->qk_rope_head_dim, WIDTH) &&
           within(r, "the width of unfolded heads", heads * ((int64_t)m->qk_nope_head_dim + m->v_head_dim), HEADS_WIDTH) &&
           within(r, "the width of the indexer", (int64_t)m->index_n_heads * m->index_head_dim, HEADS_WIDTH) &&
           within(r, "num_experts", x->num_experts, COUNT) &&
           within(r, "num_experts_per_tok", x->num_experts_per_tok, x->num_experts) &&
           within(r, "moe_intermediate_size", x->moe_intermediate_size, WIDTH) &&
           within(r, "the width of all experts", 3ll * x->num_experts * x->moe_intermediate_size, INT32_MAX) &&
           within(r, "the width of shared experts", x->shared_intermediate_size, WIDTH) &&
           within(r, "moe_latent_size", x->latent_size, WIDTH) && within(r, "heads of states", t->num_v_heads, COUNT) &&
           within(r, "groups of states", t->num_k_heads, COUNT) && within(r, "the width of states", t->k_head_dim, COUNT) &&
           within(r, "the height of states", t->v_head_dim, COUNT) && within(r, "conv_kernel", t->conv_kernel, 1 << 10) &&
           within(r, "the width of all states",
                  (int64_t)t->num_v_heads * t->v_head_dim + 2ll * t->num_k_heads * t->k_head_dim, HEADS_WIDTH);
}

bool config_read_priced(struct model_spec *s, const cJSON *config, const char *architecture, const char *where,
                        struct error *e)
{
    const struct priced *f = PRICED;
    while (strcmp(f->architecture, architecture))
        f++;
    const cJSON *text = json_member(config, "text_config"); // of models that also see or hear
    struct reader r = {.c = text ? text : config, .where = where, .flags = f->flags, .e = e};
    if (r.flags & MAMBA && !json_member(r.c, "n_routed_experts"))
        r.flags &= ~EXPERTS;
    if (!read_shape(&r, s) || !read_switches(&r, s) || ((r.flags & LATENT) && !read_latent(&r, s)) ||
        ((r.flags & EXPERTS) && !read_experts(&r, s)) || ((r.flags & (DELTA | MAMBA)) && !read_state(&r, s)) ||
        !read_mixers(&r, s) || !read_feed_forwards(&r, s) || !read_layer_heads(&r, s) || !read_rotary(&r, s))
        return false;
    if (r.flags & POSITIONS && s->max_position_embeddings < INT32_MAX - f->extra_positions)
        s->n_positions = s->max_position_embeddings + f->extra_positions;
    if (!check_sizes(&r, s))
        return false;
    if (s->intermediate_size < 1 && s->experts.num_experts)
        s->intermediate_size = s->experts.moe_intermediate_size; // nothing is dense
    snprintf(s->family, sizeof s->family, "%s", f->name);
    s->bos_token_id = -1;
    return true;
}
