// Results of other people's benchmarks: what a file states, row by row, and nothing else. Formats are readers of parsed
// records (import_file.c makes records of JSON, JSON lines, CSV, SQL and Markdown); import_price.c sets the roof beside
// them.
#ifndef BENCH_IMPORT_H
#define BENCH_IMPORT_H

#include "bench/results.h"
#include "roofline/hardware.h"

enum import_kind {
    IMPORT_UNKNOWN,
    IMPORT_DECODE,   // n_gen steps of one token for `batch` sequences, after n_depth positions
    IMPORT_PREFILL,  // n_prompt tokens of each of `batch` sequences in one step
    IMPORT_GENERATE, // both, for one batch from beginning to end; the prompt's step gives the first of n_gen tokens
    IMPORT_SERVE,    // `requests` of n_prompt and n_gen tokens through an engine that mixes steps, at most `batch` at a time
    IMPORT_TOKENS,   // tokens per second without their prompts, batch or context: only their arithmetic can be priced
    IMPORT_BANDWIDTH, // a kernel's `rate`, bytes/s
    IMPORT_PEAK,      // FLOP/s
    IMPORT_LINK,      // bytes/s between two devices, in one direction
};

// One row as its source states it. Texts are "" and numbers 0 where it says nothing; counts are -1.
struct import_facts {
    enum import_kind kind;
    char phase[40];  // the source's own word for it
    char id[128];    // the source's own name of the row
    char where[200]; // file and row, for messages
    char source[200], engine[96], model[128], hardware[160];
    char weights[64], kv_k[32], kv_v[32], compute[32], test_time[32];
    double weight_bits; // of one weight, scales included
    double step_bytes;  // of weights read in one step, by all devices together
    double parameters;  // of the model, to tell it from another of its name
    int32_t devices;    // 0: not stated
    bool ranks;         // the devices are tensor-parallel ranks, joined by links; else an n-th of the work each
    int64_t batch, n_prompt, n_gen, n_depth, threads;
    double requests;
    double request_tokens;  // prompt and generated tokens of one, where only their sum is stated
    double tokens_per_step; // what speculation yields for each step of a sequence; 1 without
    double time_ns;         // of what `kind` says
    double step_ns;         // of one of its steps, where the source gives that instead
    double tokens_per_s;    // generated ones; of a prefill its prompt's. Gives the time where no time is stated
    double rounding;        // relative: how far the printed digits leave it open
    double stddev_ns;
    double rate, stated_rate; // of a kernel; bytes/s that the source computed beside a step's time
    double *sample_ns;        // [n_samples], owned
    int32_t n_samples;
    bool steps_follow; // n_gen steps follow the prompt's, which gives none of the tokens
    bool speculative;  // more tokens per step than one, nobody says how many
    bool trap;         // the source itself says that the number is none
    bool pruned;       // not the published shape
    char remark[200], assumed[200];
};

struct import_list {
    struct import_facts *row; // [n]
    int32_t n, capacity;
};
void import_free(struct import_list *list); // accepts zeroed

// A new row with nothing stated. NULL without memory.
struct import_facts *import_add(struct import_list *list, const char *where);
// "; " and the text behind what is there, as far as it fits.
void import_say(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

// One member of a record, by the first of "a|b|c" that is there and not empty. Numbers may be written as text with units.
void record_text(const cJSON *record, const char *keys, char *out, size_t size);
bool record_has(const cJSON *record, const char *keys);
bool record_true(const cJSON *record, const char *key);
int64_t record_count(const cJSON *record, const char *keys, struct import_facts *f); // -1: none
// In the unit that is wanted: "s" (from ms, us, ns too), "B/s" (GB/s, TB/s, GiB/s), "FLOP/s", "tokens/s", "B", "".
// `fallback` is the unit of a bare number. 0: none; what is no number is named in the row's remark. *half: half a unit of
// the last printed digit, in the same unit, 0 for JSON numbers; may be NULL.
double record_quantity(const cJSON *record, const char *keys, const char *fallback, const char *wanted, double *half,
                       struct import_facts *f);
// A list of numbers, times `unit`; malloc'ed. NULL where there is none, or where one is no positive number.
double *record_list(const cJSON *record, const char *key, double unit, int32_t *n);

struct import_format {
    const char *name, *title;
    bool (*is)(const cJSON *record);
    bool (*read)(const cJSON *record, const char *where, struct import_list *list, struct error *e);
};
extern const struct import_format IMPORT_LLAMA_BENCH, IMPORT_BATCHED_BENCH, IMPORT_VLLM_LATENCY, IMPORT_VLLM_THROUGHPUT,
    IMPORT_SERVING, IMPORT_SGLANG_BATCH, IMPORT_SGLANG_OFFLINE, IMPORT_TABLE;
// Format i, NULL beyond the last; and by name.
const struct import_format *import_format(int i);
const struct import_format *import_format_named(const char *name, struct error *e);

// Adds the rows of a file. format NULL: recognised from its records. *used: the format.
bool import_parse(struct import_list *list, const char *text, size_t size, const char *where,
                  const struct import_format *format, const struct import_format **used, struct error *e);
bool import_load(struct import_list *list, const char *path, const struct import_format *format,
                 const struct import_format **used, struct error *e);

// What the command line supplies: --model and --hardware replace names, the rest fills gaps. 0, -1 and "" supply nothing.
struct import_flags {
    const char *model, *hardware, *weights, *kv, *compute;
    int32_t tp;
    int64_t batch, n_prompt, n_gen, n_depth;
};
#define IMPORT_NO_FLAGS                                                                                                     \
    {                                                                                                                       \
        .model = "", .hardware = "", .weights = "", .kv = "", .compute = "", .batch = -1, .n_prompt = -1, .n_gen = -1,      \
        .n_depth = -1                                                                                                       \
    }

// Opened entries of the catalogue, by the text that named them.
struct import_catalogue;
struct import_catalogue *import_catalogue_open(struct error *e);
void import_catalogue_close(struct import_catalogue *c); // accepts NULL
// NULL with why in *reason. own: a path is meant as such (it is the user's, not a file's).
const struct model_spec *import_model(struct import_catalogue *c, const char *text, bool own, char reason[200]);
const struct hardware *import_hardware(struct import_catalogue *c, const char *text, bool own, int32_t *devices,
                                       char reason[200]);
// Bits of a weight by the words of a type ("int4wo-g64", "EXL2 4.0bpw", "Q4_K - Medium"), and the type where it is one of
// ours (DTYPE_COUNT: none). False if no word is known.
bool import_weight_type(const char *text, double *bits, enum dtype *type);
bool import_type(const char *text, enum dtype *type); // of KV or arithmetic: "fp8_e5m2", "fp16acc", "fp4"

// The row of results: what is stated, what the roofline says of it, the verdict. *hw: whose roof it is, or NULL.
bool import_row(struct import_catalogue *c, const struct import_facts *facts, const struct import_flags *flags,
                struct result *row, const struct hardware **hw, struct error *e);

#endif
