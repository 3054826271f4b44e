// What serving engines make of a KV layout: how they part it in blocks and groups, what a request takes, what they print.
// One set of rules per engine and version; the sources are in roofline/CAPACITY.md. Refuses to know: models, files, output.
#ifndef ROOFLINE_SERVING_H
#define ROOFLINE_SERVING_H

#include "engine/base/error.h"
#include "roofline/kv_layout.h"

enum serving_engine { ENGINE_IDEAL, ENGINE_VLLM, ENGINE_SGLANG, ENGINE_TRTLLM, ENGINE_LLAMACPP, ENGINE_COUNT };

// "vllm", "vLLM-Ascend", "SGLang", "TensorRT-LLM", "trtllm", "llama.cpp", "ik_llama.cpp" ... False if unknown.
bool serving_engine_parse(const char *text, enum serving_engine *out);
const char *serving_engine_name(enum serving_engine engine);

// The first "major.minor" of a text ("v0.11.2+rhai1", "0.6.x") as major * 1000 + minor; 0 where none is said ("0.2x").
int32_t serving_version_parse(const char *text);

// Whether the engine's printed number of tokens is blocks of one group, or what the concurrency stands for.
enum printed_tokens { PRINTED_BLOCKS, PRINTED_CONCURRENCY };

struct serving {
    enum serving_engine engine;
    int32_t version;            // 0: unknown
    int32_t block_size;         // 0: the engine's default
    int32_t max_batched_tokens; // tokens of the largest step; 0: 8192. Sliding layers keep that many beyond their window
    int32_t dcp;                // decode context parallel ranks, 0 or 1: none
    int32_t state_blocks;       // blocks of states per request and group; 0: by the version (prefix caching takes 2)
    int32_t draft_tokens;       // speculative decoding by the model's own head: one more full layer, longer states
    int32_t max_seqs;           // llama.cpp: parallel sequences, 0: 1
    bool full_length;           // layers with a window keep every position all the same
    int32_t printed;            // enum printed_tokens, -1: by the version
};

// The layout as the engine holds it.
struct serving_kv {
    struct serving rules;
    struct kv_layout layout;           // with what the engine adds: drafted layers, full length
    int32_t block_size[KV_LAYOUT_MAX]; // tokens, by kind of layers; states: of the attention they are padded to
    int32_t n_groups[KV_LAYOUT_MAX];   // groups of this kind
    int32_t all_groups, group_size;    // groups together; layers of each
    int32_t padding_layers;            // layers that are made up to fill groups
    int32_t printed_block;             // smallest block size: what printed tokens count in
    uint64_t page_bytes;               // of one block in one layer, equal for all kinds
    uint64_t block_bytes;              // of one block in all layers of a group
};

bool serving_lay_out(const struct serving *rules, const struct kv_layout *layout, struct serving_kv *out, struct error *e);

// Blocks that fit into so many bytes.
int64_t serving_blocks(const struct serving_kv *kv, double bytes);

// Blocks that a request of n positions takes at its longest.
int64_t serving_request_blocks(const struct serving_kv *kv, int64_t n);

// Bytes that a request of n positions takes, blocks and padding included (llama.cpp: its share of the cells).
uint64_t serving_request_bytes(const struct serving_kv *kv, int64_t n);

// How many requests of n positions the engine says to fit.
double serving_concurrency(const struct serving_kv *kv, int64_t blocks, int64_t n);

// The number the engine prints as the size of its cache in tokens. max_model_len 0: unknown, then blocks are counted.
int64_t serving_printed_tokens(const struct serving_kv *kv, int64_t blocks, int64_t max_model_len);

// In which of the two meanings that is.
enum printed_tokens serving_printed_meaning(const struct serving *rules);

// Bytes of a cache of n positions in all, for engines that are told a number of tokens (llama.cpp).
uint64_t serving_cache_bytes(const struct serving_kv *kv, int64_t n);

#endif
