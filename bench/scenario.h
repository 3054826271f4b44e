// What is to be measured or predicted: a scenario file, or the same thing from the flags of `kvbench run`.
// Plain data: owns nothing, can be copied. Refuses to know what a point costs or whether it fits (planner.h).
#ifndef BENCH_SCENARIO_H
#define BENCH_SCENARIO_H

#include "engine/base/dtype.h"
#include "engine/base/json.h"
#include "engine/base/options.h"

enum {
    SCENARIO_MAX_LIST = 64,
    SCENARIO_MAX_MODELS = 8,
    SCENARIO_MAX_SECTIONS = 16,
    SCENARIO_MAX_BATCH = 1 << 16,
    SCENARIO_MAX_TOKENS = 1 << 24,
};

struct count_list {
    int32_t n, value[SCENARIO_MAX_LIST];
};
struct weights_list { // n = 0: the type the model's makers published, or what its file stores
    int32_t n;
    enum dtype value[SCENARIO_MAX_LIST];
};
struct kv_type {
    enum dtype k, v;
    bool own_k, own_v; // the type that goes with the weights, whatever `k` or `v` says
};
struct kv_list { // n = 0: the type that goes with the weights (plan_options_default)
    int32_t n;
    struct kv_type value[SCENARIO_MAX_LIST];
};

// Every key of a scenario file: section ("" at the top), key, kind, least and most (of counts, reals, and of items in a
// list of counts), description. Kinds: text, models, backend, types, kv_types, counts, flags, count, real, section.
#define SCENARIO_KEYS(X)                                                                                                    \
    X("", "name", text, 0, 0, "names the result files; default: the file's name")                                           \
    X("", "model", models, 0, 0, "catalogue names or paths (folder, GGUF, config.json)")                                    \
    X("", "backend", backend, 0, 0, "what runs it; auto: the best here")                                                    \
    X("", "hardware", text, 0, 0, "whose roof: auto (this machine, measured), a catalogue name, a hardware JSON")           \
    X("", "weights", types, 0, 0, "types of the matrices; default: the model's own")                                        \
    X("", "compute", type, 0, 0, "arithmetic type; default: by the weights")                                                \
    X("", "decode", section, 0, 0, "one step of one token per sequence")                                                    \
    X("", "prefill", section, 0, 0, "one step of all tokens of each sequence")                                              \
    X("", "generate", section, 0, 0, "the prompt in one step, then steps of one token")                                     \
    X("", "threads", counts, 0, 4096, "0: one per allowed CPU")                                                             \
    X("", "tp", count, 1, 1024, "tensor-parallel ranks; more than 1 can only be predicted")                                 \
    X("", "samples", count, 1, 100000, "samples wanted per point")                                                          \
    X("", "warmup", count, 1, 1000, "untimed samples first")                                                                \
    X("", "seconds", real, 0, 86400, "time that the samples of a point may take together")                                  \
    X("", "timeout_s", real, 0.001, 86400, "when a point is given up")                                                      \
    X("", "budget_s", real, 0, 1e6, "time of the whole sweep, kept to by leaving samples out; 0: no limit")                 \
    X("", "seed", count, 0, INT32_MAX, "of weights, KV and ids")                                                            \
    X("decode", "batch", counts, 1, SCENARIO_MAX_BATCH, "sequences per step")                                               \
    X("decode", "context", counts, 1, SCENARIO_MAX_TOKENS, "positions attended, the new token included")                    \
    X("decode", "kv", kv_types, 0, 0, "types of the KV cache; int8:bf16 is K in int8, V in bf16")                           \
    X("decode", "block", counts, 0, SCENARIO_MAX_TOKENS, "tokens per KV block; 0: contiguous")                              \
    X("decode", "max_kv_tokens", count, 1, INT32_MAX, "points with more positions in all sequences together are left out")  \
    X("prefill", "batch", counts, 1, SCENARIO_MAX_BATCH, "sequences per step")                                              \
    X("prefill", "tokens", counts, 1, SCENARIO_MAX_TOKENS, "tokens of each sequence")                                       \
    X("prefill", "kv", kv_types, 0, 0, "as of decode")                                                                      \
    X("prefill", "block", counts, 0, SCENARIO_MAX_TOKENS, "as of decode")                                                   \
    X("prefill", "max_kv_tokens", count, 1, INT32_MAX, "as of decode")                                                      \
    X("generate", "batch", counts, 1, SCENARIO_MAX_BATCH, "sequences per step")                                             \
    X("generate", "prompt", counts, 1, SCENARIO_MAX_TOKENS, "tokens of the first step")                                     \
    X("generate", "tokens", counts, 1, SCENARIO_MAX_TOKENS, "steps of one token after it")                                  \
    X("generate", "cache", flags, 0, 0, "false: each step recomputes the whole prefix")                                     \
    X("generate", "kv", kv_types, 0, 0, "as of decode")                                                                     \
    X("generate", "block", counts, 0, SCENARIO_MAX_TOKENS, "as of decode")                                                  \
    X("generate", "max_kv_tokens", count, 1, INT32_MAX, "as of decode")

enum scenario_key_kind {
    KEY_text,
    KEY_models,
    KEY_backend,
    KEY_type,
    KEY_types,
    KEY_kv_types,
    KEY_counts,
    KEY_flags,
    KEY_count,
    KEY_real,
    KEY_section,
};
struct scenario_key {
    const char *section, *name, *description;
    enum scenario_key_kind kind;
    double min, max;
};
const struct scenario_key *scenario_keys(int32_t *n);
// What "backend" may be.
const char *const *scenario_backends(int32_t *n);

enum phase { PHASE_DECODE, PHASE_PREFILL, PHASE_GENERATE };
const char *phase_name(enum phase phase); // "decode"

// One family of points: the product of its lists. A point is `batch` equal sequences that hold n_depth positions; one
// sample appends n_prompt tokens in one step, then n_gen tokens in steps of one.
struct section {
    enum phase phase; // decode: n_prompt = 0; prefill: n_gen = 0; generate: both
    struct count_list batch, n_prompt, n_gen, n_depth;
    struct count_list block; // tokens per KV block, 0: contiguous
    struct count_list cache; // 0: every step recomputes the whole prefix; 1: the normal way
    struct kv_list kv;
    int32_t max_kv_tokens; // points of more positions in all sequences together are left out; 0: none
};

#define SCENARIO_COMMAND_LINE "command line"
struct scenario {
    char where[512]; // file it came from, for messages; SCENARIO_COMMAND_LINE when from flags
    char name[64];   // results/NAME.*; a-z A-Z 0-9 . _ -
    int32_t n_models;
    char model[SCENARIO_MAX_MODELS][512]; // catalogue names or paths
    char backend[32];                     // "auto", "cpu", "cuda", "null"
    char hardware[512];                   // "auto": this machine's measured ceilings; else a catalogue name or a path
    struct weights_list weights;
    bool has_compute;
    enum dtype compute; // arithmetic type, where has_compute
    int32_t n_sections;
    struct section section[SCENARIO_MAX_SECTIONS];
    struct count_list threads; // 0: one per allowed CPU
    int32_t tp;                // ranks; more than 1 can only be predicted
    int32_t samples, warmup;
    double seconds, timeout_s; // per point
    double budget_s;           // of the whole sweep: samples are left out to keep to it; 0: no limit
    int32_t seed;
};

// The defaults, no model and no points yet.
void scenario_init(struct scenario *s, const char *where, const char *name);

// Reads and checks a scenario file: unknown keys, wrong types, empty lists, numbers out of range, unknown types, models and
// hardware are refused with the file, the key and what was expected.
bool scenario_load(struct scenario *s, const char *path, struct error *e);

// The same for parsed JSON, without looking names up (fuzzing, tests).
bool scenario_parse(struct scenario *s, const cJSON *json, const char *where, struct error *e);

// From --model, -p, -n, -d, -pg, -b, --context, --weights, --kv, -ctk, -ctv, --block, -t ... (kvbench run and predict).
bool scenario_from_options(struct scenario *s, const struct options *o, struct error *e);

// Flags given on the command line beside a file take precedence: backend, hardware, threads, samples, seconds, ...
bool scenario_override(struct scenario *s, const struct options *o, struct error *e);

// Fails if a model or the hardware is neither a path nor in the catalogue.
bool scenario_check_names(const struct scenario *s, struct error *e);

// The scenario in full, every default written out; the caller frees it with cJSON_Delete. Its text is what is hashed.
cJSON *scenario_json(const struct scenario *s);
// 64-bit FNV-1a of that text as 16 hexadecimal digits.
void scenario_hash(const struct scenario *s, char out[17]);

// "int8", or "int8:bf16" where K and V differ.
bool kv_type_parse(const char *text, struct kv_type *out);
void kv_type_format(struct kv_type kv, char out[32]);

#endif
