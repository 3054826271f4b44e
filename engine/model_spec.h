// What a decoder-only transformer is made of: the facts forward.c needs to write its plan, and no weights.
// Field names are those of Hugging Face's config.json.
#ifndef ENGINE_MODEL_SPEC_H
#define ENGINE_MODEL_SPEC_H

#include "engine/base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_MAX_LAYERS = 256, MODEL_MAX_EOS = 8, MODEL_MAX_ROTARY = 512 };

enum rope_kind {
    ROPE_DEFAULT, // theta^(-2i/d)
    ROPE_LINEAR,  // positions divided by `factor`
    ROPE_LLAMA3,  // Llama 3.1: long wavelengths divided by `factor`, a ramp between, short ones kept
    ROPE_YARN,    // as LLAMA3, the ramp over dimensions that turn beta_fast to beta_slow times in the original context
    ROPE_FACTORS, // frequencies divided by freq_factor[i] (GGUF's rope_freqs tensor)
    ROPE_LONG,    // LongRoPE: by freq_factor[i] up to the original context, by long_factor[i] in longer ones
};

struct rope_spec {
    enum rope_kind kind;
    int32_t rotary_dim; // values of each head that turn; even, <= head_dim. Halves pair up: (i, i + rotary_dim/2)
    bool interleaved;   // neighbours pair up: (2i, 2i + 1)
    double theta;
    double factor, low_freq_factor, high_freq_factor; // ROPE_LINEAR uses factor only
    double beta_fast, beta_slow;                      // ROPE_YARN, factor too
    bool ramp_is_exact;                               // ROPE_YARN: its ends are not rounded to whole dimensions
    int32_t original_max_position_embeddings;
    float magnitude;                         // cosine and sine are multiplied by it (YaRN, LongRoPE); 0: 1
    float freq_factor[MODEL_MAX_ROTARY / 2]; // [rotary_dim / 2]
    float long_factor[MODEL_MAX_ROTARY / 2]; // [rotary_dim / 2]
};

enum act_kind { ACT_SILU, ACT_GELU_TANH, ACT_KIND_COUNT }; // x / (1 + exp(-x)); its approximation by tanh of x * Phi(x)

// Where the RMSNorms around attention and feed-forward stand: on what goes in, on what comes out before it is added to the
// residual, or both.
enum norm_place { NORM_BEFORE, NORM_BOTH, NORM_AFTER }; // most; Gemma 2 and 3; OLMo-2

// RMSNorm of q and k before rotary: of each head (Qwen3, Gemma 3), or of all heads of a row as one vector (OLMo-2).
enum qk_norm { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ROW };

// How a layer mixes positions, and what stands behind that. A layer may have only one of the two (Nemotron-H).
enum mixer_kind { MIXER_ATTENTION, MIXER_STATE, MIXER_NONE };
enum ffn_kind { FFN_GATED, FFN_PLAIN, FFN_EXPERTS, FFN_NONE }; // down(f(gate) * up); down(f(up)); routed; nothing

// Multi-head latent attention (DeepSeek-V2): K and V of all heads are unfolded from one latent row per position.
// index_n_heads > 0: a small indexer chooses the index_topk positions that are attended (DeepSeek-V3.2).
struct mla_spec {
    int32_t kv_lora_rank; // 0: no MLA
    int32_t q_lora_rank;  // 0: q is one projection
    int32_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    int32_t index_n_heads, index_head_dim, index_topk;
};

struct experts_spec {
    int32_t num_experts, num_experts_per_tok, moe_intermediate_size;
    int32_t latent_size;              // experts work on rows of this width, between two projections (Nemotron 3); 0: none
    int32_t shared_intermediate_size; // of the experts every token goes through, together; 0: none
    bool shared_gate;                 // the shared result is weighted by a gate of its own (Qwen)
    bool gated, bias, router_bias;    // gated: three matrices per expert, else two
};

// Layers with a state of constant size instead of KV: gated DeltaNet (Qwen3-Next) and Mamba-2.
struct state_spec {
    bool mamba;                                  // else gated DeltaNet
    int32_t num_v_heads, num_k_heads;            // Mamba-2: heads, and groups that share B and C
    int32_t k_head_dim, v_head_dim, conv_kernel; // Mamba-2: size of the state, and of a head
    enum dtype dtype;                            // of the state; its convolution keeps the model's
};

struct model_spec {
    char name[128];  // as the user knows it
    char family[32]; // "llama", "qwen2", "gemma3" ...: see engine/load/family.c
    int32_t num_hidden_layers, hidden_size, intermediate_size, vocab_size;
    int32_t num_attention_heads, num_key_value_heads, head_dim;
    int32_t max_position_embeddings;
    float rms_norm_eps;
    bool tie_word_embeddings;        // the head is the embedding table
    bool qkv_bias, o_bias, mlp_bias; // biases of the linear layers
    enum qk_norm qk_norm;
    enum norm_place norm_place;
    enum act_kind hidden_act;
    // 0: the usual, that is 1, 1, 1 / sqrt(head_dim), 1 and no soft-capping.
    float embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling; // logits are divided by it
    float attn_logit_softcapping, final_logit_softcapping;
    enum dtype dtype;                  // the data type its makers published
    struct rope_spec rope, rope_local; // rope_local: of layers with a window; rotary_dim 0: `rope` is for all
    int32_t window[MODEL_MAX_LAYERS];  // positions a token sees, itself included; 0: all of them
    bool no_rope[MODEL_MAX_LAYERS];    // layers whose q and k do not turn (SmolLM3)
    bool chunked;                      // `window` cuts the positions into chunks instead of sliding (Llama 4)
    // What follows is priced by every backend that prices, and executed by those whose supports() says so.
    bool layer_norm;        // LayerNorm with a bias in place of RMSNorm (GPT-2, OPT, Falcon)
    bool attention_gate;    // the result is multiplied by a gate that q_proj makes, too (Qwen3-Next)
    bool attention_sinks;   // one more logit per head (gpt-oss)
    bool parallel_residual; // attention and feed-forward share one norm and run side by side (Falcon)
    int32_t n_positions;    // rows of a learned table of positions, in place of rotary; 0: none
    struct mla_spec mla;
    struct experts_spec experts;
    struct state_spec state;
    uint8_t mixer[MODEL_MAX_LAYERS];          // enum mixer_kind
    uint8_t ffn[MODEL_MAX_LAYERS];            // enum ffn_kind
    int32_t layer_kv_heads[MODEL_MAX_LAYERS]; // 0: num_key_value_heads
    int32_t layer_head_dim[MODEL_MAX_LAYERS]; // 0: head_dim
    int32_t bos_token_id;                     // -1: none
    int32_t n_eos, eos_token_id[MODEL_MAX_EOS];
};

// out[i] = radians per position of pair i, rotary_dim / 2 of them. is_long: of LongRoPE beyond the original context.
void rope_inv_freq(const struct rope_spec *rope, bool is_long, float *out);

// Whether a sequence of this many positions is a long one. It can only be so under LongRoPE.
bool rope_is_long(const struct rope_spec *rope, int32_t context);

#endif
