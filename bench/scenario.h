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
