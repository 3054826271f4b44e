// llama.cpp's benchmarks. llama-bench: one record per test, as its csv, json, jsonl, sql and md printers write it.
// llama-batched-bench: one line per point of its --output-format jsonl, which names neither model nor device.
#include "bench/import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(const char *where, struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for the rows of '%s'", where);
}

static struct import_facts *add(struct import_list *list, const char *where, struct error *e)
{
    struct import_facts *f = import_add(list, where);
    if (f)
        snprintf(f->engine, sizeof f->engine, "llama.cpp");
    else
        no_memory(where, e);
    return f;
}

// llama-bench

static bool is_llama_bench(const cJSON *r)
{
    bool full = record_has(r, "n_prompt") && record_has(r, "n_gen") && record_has(r, "avg_ns|avg_ts");
    return full || (record_has(r, "test") && record_has(r, "t/s") && record_has(r, "model")); // Markdown
}

// "NVIDIA GeForce RTX 4090, NVIDIA GeForce RTX 4090"; CPU backends compute on the CPU whatever GPU there is.
static void read_device(const cJSON *r, struct import_facts *f)
{
    char backend[64], layers[16];
    record_text(r, "backends|backend", backend, sizeof backend);
    record_text(r, "n_gpu_layers|ngl", layers, sizeof layers);
    bool gpu = record_has(r, "gpu_info") && strcasecmp(backend, "CPU") && strcasecmp(backend, "BLAS") && strcmp(layers, "0");
    record_text(r, gpu ? "gpu_info" : "cpu_info", f->hardware, sizeof f->hardware);
    if (!strcmp(backend, "RPC"))
        import_say(f->remark, sizeof f->remark, "over RPC: other devices may have had a part");
    char split[16];
    record_text(r, "split_mode", split, sizeof split);
    if (!strcmp(split, "none") || !strchr(f->hardware, ','))
        f->devices = 1;
}

// The count behind a word of a test's name; 0 without the word.
static int64_t count_after(const char *test, const char *word)
{
    const char *at = strstr(test, word);
    long n = at ? strtol(at + strlen(word), NULL, 10) : 0;
    return n > 0 && n <= 1000000000 ? n : 0;
}

// "pp512", "tg128", "pp512+tg128", "pp512 @ d4096": what the Markdown printer makes of the three counts.
static void read_test_name(const cJSON *r, struct import_facts *f)
{
    char test[64];
    record_text(r, "test", test, sizeof test);
    f->n_prompt = count_after(test, "pp");
    f->n_gen = count_after(test, "tg");
    f->n_depth = count_after(test, "@ d");
}

static void read_shape(const cJSON *r, struct import_facts *f)
{
    f->n_prompt = record_count(r, "n_prompt", f);
    f->n_gen = record_count(r, "n_gen", f);
    f->n_depth = record_has(r, "n_depth") ? record_count(r, "n_depth", f) : 0;
    if (record_has(r, "test"))
        read_test_name(r, f);
    f->batch = 1;
    f->kind = f->n_prompt > 0 && f->n_gen > 0 ? IMPORT_GENERATE
              : f->n_prompt > 0               ? IMPORT_PREFILL
              : f->n_gen > 0                  ? IMPORT_DECODE
                                              : IMPORT_UNKNOWN;
    snprintf(f->phase, sizeof f->phase, "pp%d+tg%d", (int)f->n_prompt, (int)f->n_gen);
    f->steps_follow = true;
    int64_t ubatch = record_count(r, "n_ubatch", f);
    if (f->n_prompt > 0 && ubatch > 0 && ubatch < f->n_prompt)
        import_say(f->remark, sizeof f->remark, "run in steps of %d tokens; the roof takes one step and its head once",
                   (int)ubatch);
}

// "134.52 M", as the Markdown printer rounds it.
static double read_parameters(const cJSON *r, struct import_facts *f)
{
    char text[32], *unit;
    if (!record_has(r, "params"))
        return record_quantity(r, "model_n_params", "", "", NULL, f);
    record_text(r, "params", text, sizeof text);
    double n = strtod(text, &unit);
    unit += *unit == ' ';
    return n > 0 && n < 1e6 ? n * (*unit == 'M' ? 1e6 : *unit == 'B' ? 1e9 : *unit == 'T' ? 1e12 : 1) : 0;
}

// The size of all tensors over their values is what a weight takes on average.
static void read_weights(const cJSON *r, struct import_facts *f)
{
    char type[96], file[192];
    record_text(r, "model_type|model", type, sizeof type);
    record_text(r, "model_filename", file, sizeof file);
    const char *slash = strrchr(file, '/');
    snprintf(f->model, sizeof f->model, "%.127s", *file ? (slash ? slash + 1 : file) : type);
    double bytes = record_quantity(r, "model_size|size", "B", "B", NULL, f);
    f->parameters = read_parameters(r, f);
    double bits;
    enum dtype dtype;
    const char *at = type; // "llama 8B Q4_K - Medium": the type is the last word that is one
    for (const char *word = type; *word; word++)
        if ((word == type || word[-1] == ' ') && isalpha((unsigned char)*word) && import_weight_type(word, &bits, &dtype))
            at = word;
    snprintf(f->weights, sizeof f->weights, "%.60s", at == type ? "" : at);
    if (bytes > 0 && f->parameters > 0)
        f->weight_bits = 8 * bytes / f->parameters;
}

static void read_times(const cJSON *r, struct import_facts *f)
{
    double half, tokens = (double)(f->n_prompt + f->n_gen);
    f->time_ns = record_quantity(r, "avg_ns", "ns", "s", NULL, f) * 1e9;
    f->stddev_ns = record_quantity(r, "stddev_ns", "ns", "s", NULL, f) * 1e9;
    f->sample_ns = record_list(r, "samples_ns", 1, &f->n_samples);
    double rate = record_quantity(r, "avg_ts|t/s", "tokens/s", "tokens/s", &half, f);
    if (!f->time_ns && rate > 0) {
        f->time_ns = tokens / rate * 1e9;
        f->rounding = half / rate;
    }
    f->tokens_per_s = f->kind == IMPORT_GENERATE ? 0 : rate; // of prompt and generated tokens together it says nothing
}

static bool read_llama_bench(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = add(list, where, e);
    if (!f)
        return false;
    char build[32];
    record_text(r, "build_commit", build, sizeof build);
    if (*build)
        snprintf(f->engine, sizeof f->engine, "llama.cpp %.30s", build);
    record_text(r, "test_time", f->test_time, sizeof f->test_time);
    record_text(r, "type_k", f->kv_k, sizeof f->kv_k);
    record_text(r, "type_v", f->kv_v, sizeof f->kv_v);
    f->threads = record_count(r, "n_threads|threads", f);
    read_device(r, f);
    read_shape(r, f);
    read_weights(r, f);
    read_times(r, f);
    return true;
}

const struct import_format IMPORT_LLAMA_BENCH = {"llama-bench", "llama-bench", is_llama_bench, read_llama_bench};

// llama-batched-bench

static bool is_batched_bench(const cJSON *r)
{
    return record_has(r, "pp") && record_has(r, "tg") && record_has(r, "pl") && record_has(r, "t_pp|t_tg");
}

static struct import_facts *batched_point(const cJSON *r, const char *where, struct import_list *list, enum import_kind kind,
                                          struct error *e)
{
    struct import_facts *f = add(list, where, e);
    if (!f)
        return NULL;
    f->kind = kind;
    f->batch = record_count(r, "pl", f);
    f->threads = record_count(r, "n_threads", f);
    f->time_ns = record_quantity(r, kind == IMPORT_PREFILL ? "t_pp" : "t_tg", "s", "s", NULL, f) * 1e9;
    f->tokens_per_s = record_quantity(r, kind == IMPORT_PREFILL ? "speed_pp" : "speed_tg", "tokens/s", "tokens/s", NULL, f);
    return f;
}

static bool read_batched_bench(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = batched_point(r, where, list, IMPORT_PREFILL, e);
    if (!f)
        return false;
    int64_t prompt = record_count(r, "pp", f);
    f->n_prompt = prompt, f->n_gen = 0, f->n_depth = 0;
    if (record_true(r, "is_pp_shared"))
        f->batch = 1; // the prompt is computed once, and then copied
    if (!(f = batched_point(r, where, list, IMPORT_DECODE, e)))
        return false;
    f->n_prompt = 0, f->n_depth = prompt;
    f->n_gen = record_count(r, "tg", f);
    if (!(f->n_gen > 0))
        list->n--; // -ntg 0: no such phase
    return true;
}

const struct import_format IMPORT_BATCHED_BENCH = {"batched-bench", "llama-batched-bench", is_batched_bench,
                                                   read_batched_bench};
