// The forward pass as data: a plan is an immutable list of operations with symbolic row counts and activation slots.
// forward.c writes plans; backends cover and walk them; roofline/cost.c prices them. A plan holds no weights.
//
// Letters for shapes: T rows of the step (all tokens), O rows whose logits are wanted, D hidden_size, H query heads,
// K KV heads, d head_dim, F intermediate_size, V vocab_size. With tensor parallelism H, K, F, V are one rank's share.
#ifndef ENGINE_OP_H
#define ENGINE_OP_H

#include "engine/base/error.h"
#include "engine/model_spec.h"

//        kind        name         in                out          dim
#define OP_KINDS(X)                                                                                                           \
    X(EMBED, "embed")         /* (token)             x [T, D]     {V, D}; weight [V, D], row looked up, times param[0]   */   \
    X(NORM, "norm")           /* x                   y            {n_groups, size}; weight [size]; param[0] = eps.            \
                                 RMSNorm of each group of `size` values of a row: {1, D}, or {H, d} for QK-norm          */   \
    X(LINEAR, "linear")       /* x [., in]           y [., out]   {in, out}; weight [out, in], bias [out] or none; the        \
                                 result times param[0], then soft-capped at param[1]                                     */   \
    X(ROPE, "rope")           /* q or k              same shape   {n_heads, d, rotary_dim, which of plan->rope}; rotates      \
                                 by batch->pos                                                                           */   \
    X(KV_WRITE, "kv_write")   /* k, v [T, K*d]       none         {K, d}; stores both under batch->pos                   */   \
    X(ATTN, "attn")           /* q [T, H*d]          a [T, H*d]   {H, K, d, window}; scores times param[0], soft-capped       \
                                 at param[1]. Reads the KV of its sequence at positions max(0, pos-window+1)..pos; runs       \
                                 after the KV_WRITE of its layer                                                         */   \
    X(ACT, "act")             /* gate, up [., F]     f(gate) * up {F, enum act_kind}                                     */   \
    X(ADD, "add")             /* a, b [., n]         a + param[0] * b  {n}                                               */   \
    X(ALLREDUCE, "allreduce") /* x                   sum over ranks   {n, tp}                                            */   \
    X(POSITION, "position")   /* x [T, D]            x + row of a learned table {n, D}; weight [n, D], row looked up     */   \
    X(LAYER_NORM, "layer_norm") /* x                 y            {1, size}; weight, bias [size]; param[0] = eps         */   \
    X(INDEX, "index")           /* q [T, I*i], k [T, i] none        {I, i}; scores every position by small keys it stores     \
                                   beside the latents, I heads of i values                                                 */ \
    X(MLA, "mla")               /* q [T, H*(n+r)], kv [T, R+r]  a [T, H*v]  {H, R, n, r, v, topk}; weight [H*(n+v), R]        \
                                   unfolds latents to K and V. Stores kv, reads the latents of its sequence: all of them, or  \
                                   the topk that INDEX chose                                                               */ \
    X(STATE, "state")           /* in [T, .]           y [T, H*v]   {H, k, v, columns, values per column, kind}; weight: of   \
                                   the convolution. Reads and writes the constant state of its sequence; kind 0: gated        \
                                   DeltaNet, 1: Mamba-2                                                                    */ \
    X(ROUTE, "route")     /* x [., D]            choice [., k]    {D, E, k}; weight [E, D], bias [E] or none         */       \
    X(EXPERTS, "experts") /* x [., D], choice    y [., D]     {D, F, E, k, matrices}; weight [E*matrices*F, D], bias          \
                             [E, .] or none: y sums the k experts chosen, F of this rank                             */

enum op_kind {
#define X(id, name) OP_##id,
    OP_KINDS(X)
#undef X
        OP_KIND_COUNT,
};

// How many rows an operation has. An operation with ROWS_OUT that reads a slot of ROWS_TOKENS reads, as its row i,
// row batch->out_row[i] of the slot: that is how the last layer drops the rows nobody asked for.
enum op_rows { ROWS_TOKENS, ROWS_OUT };

struct op {
    uint8_t kind;               // enum op_kind
    uint8_t compute;            // enum dtype of the arithmetic: selects the peak
    uint8_t rows;               // enum op_rows
    bool gathered;              // runs on the rows of all plan->dp ranks together
    int16_t layer;              // -1: outside the layers
    int16_t kv_group, kv_layer; // which plan->kv_group, and which of its layers; -1: no KV
    int16_t in[3], out;         // activation slots, one writer each; -1: none
    int32_t weight, bias;       // tensor ids; -1: none
    int32_t dim[6];             // meaning per kind, in the table above
    float param[2];             // likewise. Soft-capping at c is c * tanh(x / c); at 0 it is none
};

// What a tensor is, with its name in Hugging Face folders and in GGUF files (%d: the layer).
#define TENSOR_ROLES(X)                                                                                                     \
    X(TOKEN_EMBD, "token_embd", "model.embed_tokens.weight", "token_embd.weight")                                           \
    X(ATTN_NORM, "attn_norm", "model.layers.%d.input_layernorm.weight", "blk.%d.attn_norm.weight")                          \
    X(ATTN_Q, "attn_q", "model.layers.%d.self_attn.q_proj.weight", "blk.%d.attn_q.weight")                                  \
    X(ATTN_K, "attn_k", "model.layers.%d.self_attn.k_proj.weight", "blk.%d.attn_k.weight")                                  \
    X(ATTN_V, "attn_v", "model.layers.%d.self_attn.v_proj.weight", "blk.%d.attn_v.weight")                                  \
    X(ATTN_O, "attn_o", "model.layers.%d.self_attn.o_proj.weight", "blk.%d.attn_output.weight")                             \
    X(ATTN_Q_BIAS, "attn_q_bias", "model.layers.%d.self_attn.q_proj.bias", "blk.%d.attn_q.bias")                            \
    X(ATTN_K_BIAS, "attn_k_bias", "model.layers.%d.self_attn.k_proj.bias", "blk.%d.attn_k.bias")                            \
    X(ATTN_V_BIAS, "attn_v_bias", "model.layers.%d.self_attn.v_proj.bias", "blk.%d.attn_v.bias")                            \
    X(ATTN_O_BIAS, "attn_o_bias", "model.layers.%d.self_attn.o_proj.bias", "blk.%d.attn_output.bias")                       \
    X(ATTN_Q_NORM, "attn_q_norm", "model.layers.%d.self_attn.q_norm.weight", "blk.%d.attn_q_norm.weight")                   \
    X(ATTN_K_NORM, "attn_k_norm", "model.layers.%d.self_attn.k_norm.weight", "blk.%d.attn_k_norm.weight")                   \
    X(ATTN_POST_NORM, "attn_post_norm", "model.layers.%d.post_attention_layernorm.weight",                                  \
      "blk.%d.post_attention_norm.weight")                                                                                  \
    X(FFN_NORM, "ffn_norm", "model.layers.%d.post_attention_layernorm.weight", "blk.%d.ffn_norm.weight")                    \
    X(FFN_GATE, "ffn_gate", "model.layers.%d.mlp.gate_proj.weight", "blk.%d.ffn_gate.weight")                               \
    X(FFN_UP, "ffn_up", "model.layers.%d.mlp.up_proj.weight", "blk.%d.ffn_up.weight")                                       \
    X(FFN_DOWN, "ffn_down", "model.layers.%d.mlp.down_proj.weight", "blk.%d.ffn_down.weight")                               \
    X(FFN_GATE_BIAS, "ffn_gate_bias", "model.layers.%d.mlp.gate_proj.bias", "blk.%d.ffn_gate.bias")                         \
    X(FFN_UP_BIAS, "ffn_up_bias", "model.layers.%d.mlp.up_proj.bias", "blk.%d.ffn_up.bias")                                 \
    X(FFN_DOWN_BIAS, "ffn_down_bias", "model.layers.%d.mlp.down_proj.bias", "blk.%d.ffn_down.bias")                         \
    X(FFN_POST_NORM, "ffn_post_norm", "model.layers.%d.post_feedforward_layernorm.weight", "blk.%d.post_ffw_norm.weight")   \
    X(POSITION_EMBD, "position_embd", "model.embed_positions.weight", "position_embd.weight")                               \
    X(ATTN_SINKS, "attn_sinks", "model.layers.%d.self_attn.sinks", "blk.%d.attn_sinks.weight")                              \
    X(ATTN_NORM_BIAS, "attn_norm_bias", "model.layers.%d.input_layernorm.bias", "blk.%d.attn_norm.bias")                    \
    X(FFN_NORM_BIAS, "ffn_norm_bias", "model.layers.%d.post_attention_layernorm.bias", "blk.%d.ffn_norm.bias")              \
    X(OUTPUT_NORM_BIAS, "output_norm_bias", "model.norm.bias", "output_norm.bias")                                          \
    X(ATTN_Q_A, "attn_q_a", "model.layers.%d.self_attn.q_a_proj.weight", "blk.%d.attn_q_a.weight")                          \
    X(ATTN_Q_A_NORM, "attn_q_a_norm", "model.layers.%d.self_attn.q_a_layernorm.weight", "blk.%d.attn_q_a_norm.weight")      \
    X(ATTN_Q_B, "attn_q_b", "model.layers.%d.self_attn.q_b_proj.weight", "blk.%d.attn_q_b.weight")                          \
    X(ATTN_KV_A, "attn_kv_a", "model.layers.%d.self_attn.kv_a_proj_with_mqa.weight", "blk.%d.attn_kv_a_mqa.weight")         \
    X(ATTN_KV_A_NORM, "attn_kv_a_norm", "model.layers.%d.self_attn.kv_a_layernorm.weight", "blk.%d.attn_kv_a_norm.weight")  \
    X(ATTN_KV_B, "attn_kv_b", "model.layers.%d.self_attn.kv_b_proj.weight", "blk.%d.attn_kv_b.weight")                      \
    X(INDEX_Q, "index_q", "model.layers.%d.self_attn.indexer.wq_b.weight", "blk.%d.indexer.attn_q_b.weight")                \
    X(INDEX_K, "index_k", "model.layers.%d.self_attn.indexer.wk.weight", "blk.%d.indexer.attn_k.weight")                    \
    X(INDEX_K_NORM, "index_k_norm", "model.layers.%d.self_attn.indexer.k_norm.weight", "blk.%d.indexer.k_norm.weight")      \
    X(INDEX_K_NORM_BIAS, "index_k_norm_bias", "model.layers.%d.self_attn.indexer.k_norm.bias",                              \
      "blk.%d.indexer.k_norm.bias")                                                                                         \
    X(INDEX_WEIGHTS, "index_weights", "model.layers.%d.self_attn.indexer.weights_proj.weight",                              \
      "blk.%d.indexer.proj.weight")                                                                                         \
    X(STATE_NORM, "state_norm", "model.layers.%d.linear_attn.norm.weight", "blk.%d.ssm_norm.weight")                        \
    X(STATE_IN, "state_in", "model.layers.%d.linear_attn.in_proj.weight", "blk.%d.ssm_in.weight")                           \
    X(STATE_CONV, "state_conv", "model.layers.%d.linear_attn.conv1d.weight", "blk.%d.ssm_conv1d.weight")                    \
    X(STATE_HEADS, "state_heads", "model.layers.%d.linear_attn.A_log", "blk.%d.ssm_a")                                      \
    X(STATE_OUT, "state_out", "model.layers.%d.linear_attn.out_proj.weight", "blk.%d.ssm_out.weight")                       \
    X(ROUTER, "router", "model.layers.%d.mlp.gate.weight", "blk.%d.ffn_gate_inp.weight")                                    \
    X(ROUTER_BIAS, "router_bias", "model.layers.%d.mlp.gate.e_score_correction_bias", "blk.%d.exp_probs_b.bias")            \
    X(EXPERTS, "experts", "model.layers.%d.mlp.experts", "blk.%d.ffn_exps")                                                 \
    X(EXPERTS_BIAS, "experts_bias", "model.layers.%d.mlp.experts.bias", "blk.%d.ffn_exps.bias")                             \
    X(EXPERTS_IN, "experts_in", "model.layers.%d.mlp.fc1_latent_proj.weight", "blk.%d.ffn_latent_in.weight")                \
    X(EXPERTS_OUT, "experts_out", "model.layers.%d.mlp.fc2_latent_proj.weight", "blk.%d.ffn_latent_out.weight")             \
    X(SHARED_GATE, "shared_gate", "model.layers.%d.mlp.shared_expert_gate.weight", "blk.%d.ffn_gate_inp_shexp.weight")      \
    X(SHARED_UP, "shared_up", "model.layers.%d.mlp.shared_experts.up_proj.weight", "blk.%d.ffn_up_shexp.weight")            \
    X(SHARED_GATE_PROJ, "shared_gate_proj", "model.layers.%d.mlp.shared_experts.gate_proj.weight",                          \
      "blk.%d.ffn_gate_shexp.weight")                                                                                       \
    X(SHARED_DOWN, "shared_down", "model.layers.%d.mlp.shared_experts.down_proj.weight", "blk.%d.ffn_down_shexp.weight")    \
    X(OUTPUT_NORM, "output_norm", "model.norm.weight", "output_norm.weight")                                                \
    X(OUTPUT, "output", "lm_head.weight", "output.weight")

enum tensor_role {
#define X(id, name, hf, gguf) TENSOR_##id,
    TENSOR_ROLES(X)
#undef X
        TENSOR_ROLE_COUNT,
};

struct tensor_spec {
    uint8_t role;       // enum tensor_role
    uint8_t dtype;      // enum dtype: bytes of this tensor as streamed
    int16_t layer;      // -1: outside the layers
    int32_t rows, cols; // this rank's share; a vector is 1 row
};

// Bytes of the whole tensor, scales included.
uint64_t tensor_bytes(const struct tensor_spec *t);

struct slot {
    int32_t width; // values per row
    uint8_t rows;  // enum op_rows
};

// Layers whose KV has one geometry and one life time. All groups share the batch's block table.
struct kv_group {
    int32_t n_layers, num_key_value_heads, head_dim; // heads of this rank
    int32_t window;                                  // 0: every position is kept and read
    bool chunked;                                    // kept and read since the last multiple of `window`
    bool latent;          // MLA: one row of head_dim values in the type of K for all heads, the same on every rank
    int32_t index_dim;    // values of the sparse indexer's key beside each latent, fp8 with an f32 scale per 128; 0: none
    int32_t topk;         // of an indexer: positions read at most; 0: all
    uint64_t state_bytes; // of one sequence in one layer, in place of all the above: read and written by each step
    uint64_t conv_bytes;  // of those, one column of the convolution
};

enum { PLAN_MAX_KV_GROUPS = 6, PLAN_MAX_ROPES = 2 };

struct plan {
    char model[128];
    int32_t tp;                      // ranks; the plan is one rank's
    int32_t dp;                      // ranks with sequences of their own whose rows are gathered for feed-forwards; 1: none
    int32_t hidden_size, vocab_size; // vocab_size: width of the logits slot (one rank's share)
    enum dtype act;                  // storage type of activation slots, for pricing
    enum dtype kv_k, kv_v;           // storage types of K and V
    struct rope_spec rope[PLAN_MAX_ROPES];
    int32_t n_ropes, n_ops, n_slots, n_tensors, n_kv_groups;
    struct op *op;              // [n_ops]
    struct slot *slot;          // [n_slots]
    struct tensor_spec *tensor; // [n_tensors]
    struct kv_group kv_group[PLAN_MAX_KV_GROUPS];
    int32_t logits; // slot of the logits [O, vocab_size]
};

struct plan_options {
    int32_t tp;         // 0 or 1: one device
    int32_t pp, stage;  // pipeline stages, 0 or 1: none; which stage of them this rank is in, from 0
    bool dp_attention;  // each of the tp ranks runs attention whole, for requests of its own; feed-forwards are sharded
    enum dtype weights; // of matrices; vectors are stored in it when it is f32, f16 or bf16, else in bf16
    enum dtype kv_k, kv_v;
    enum dtype compute; // of linear layers and attention
    // When not NULL, the arithmetic of a linear layer by the type of its matrix, in place of `compute`.
    enum dtype (*compute_of)(enum dtype weights);
    enum dtype act;
    // When not NULL, the data type a file really stores for this tensor (plan->tensor[id].dtype). ctx is the caller's.
    enum dtype (*tensor_dtype)(void *ctx, const struct tensor_spec *spec);
    void *ctx;
};

// All of it by the weights' type: compute f32 for f32, bf16 for bf16 and the block types (weight-only quantization),
// f16 for f16, fp8 for fp8; act f32 for f32 else bf16/f16; KV bf16 (f16 for f16 weights, f32 for f32).
struct plan_options plan_options_default(enum dtype weights);

// Writes the plan of a model (forward.c). Owns its arrays until plan_free. Fails with ERROR_UNSUPPORTED where heads,
// KV heads or the feed-forward width do not divide by tp (KV heads fewer than tp are replicated).
bool plan_make(struct plan *plan, const struct model_spec *spec, const struct plan_options *options, struct error *e);
void plan_free(struct plan *plan);

const char *op_kind_name(enum op_kind kind);

// "linear" or, for an operation with a weight, its role: "attn_q", "ffn_down", "output".
const char *op_label(const struct plan *plan, const struct op *op);

// Names of a role's tensor; false if the result does not fit.
bool tensor_name_hf(enum tensor_role role, int32_t layer, char *out, int size);
bool tensor_name_gguf(enum tensor_role role, int32_t layer, char *out, int size);
const char *tensor_role_name(enum tensor_role role); // "attn_q"

// The layers of one pipeline stage: as even as can be, the last stages take the remainder but for the last one (vLLM's
// rule).
void plan_stage_layers(int32_t n_layers, int32_t pp, int32_t stage, int32_t *first, int32_t *count);

// KV of one position in one layer of the group: K row + V row per head, scales and index keys included.
uint64_t kv_group_token_bytes(const struct plan *plan, const struct kv_group *group);
uint64_t kv_group_index_bytes(const struct kv_group *group); // of those, the indexer's

// KV bytes that one token adds on this rank: sum over groups of layers x heads x (K row + V row), scales included.
uint64_t plan_kv_bytes_per_token(const struct plan *plan);

// Bytes of all tensors of this rank.
uint64_t plan_weight_bytes(const struct plan *plan);

// The type that holds most of them, and the one that most of the linear layers' arithmetic is done in.
enum dtype plan_weight_type(const struct plan *plan);
enum dtype plan_compute_type(const struct plan *plan);

// last[s] = index of the last operation that reads slot s (or writes it, if none reads): when its buffer is free again.
void plan_slot_last_use(const struct plan *plan, int32_t *last); // [n_slots]

#endif
