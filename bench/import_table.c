// Tables of published numbers: a row each, with columns for what the source states. Cells may be missing; units may stand in
// them.
#include "bench/import.h"

#include <string.h>
#include <strings.h>

#define RATE "tokens_per_s|tok_s|tokens/s|tok/s|throughput|tokens_per_second"
#define TIME "ms_per_step|latency_ms|ms|latency|time"
#define BYTES "stated_GBps|GBps|GB/s|bandwidth"
#define FLOPS "stated_TFLOPS|TFLOPS"

static bool is_table(const cJSON *r)
{
    return record_has(r, "gpu|hardware|device") && record_has(r, "phase|model|engine") &&
           record_has(r, RATE "|" TIME "|" BYTES "|" FLOPS "|phase");
}

// The words that tables have for what was measured.
static const struct {
    const char *word;
    enum import_kind kind;
} PHASE[] = {
    {"decode", IMPORT_DECODE},       {"generation", IMPORT_DECODE}, {"tg", IMPORT_DECODE},
    {"tpot", IMPORT_DECODE},         {"itl", IMPORT_DECODE},        {"prefill", IMPORT_PREFILL},
    {"prompt", IMPORT_PREFILL},      {"pp", IMPORT_PREFILL},        {"ttft", IMPORT_PREFILL},
    {"e2e_static", IMPORT_GENERATE}, {"latency", IMPORT_GENERATE},  {"generate", IMPORT_GENERATE},
    {"e2e", IMPORT_GENERATE},        {"static", IMPORT_GENERATE},   {"e2e_offline", IMPORT_SERVE},
    {"offline", IMPORT_SERVE},       {"serving", IMPORT_SERVE},     {"serve", IMPORT_SERVE},
    {"throughput", IMPORT_SERVE},    {"e2e_flops", IMPORT_TOKENS},  {"kernel_bw", IMPORT_BANDWIDTH},
    {"bandwidth", IMPORT_BANDWIDTH}, {"kernel_flops", IMPORT_PEAK}, {"gemm", IMPORT_PEAK},
    {"kernel_link", IMPORT_LINK},    {"link", IMPORT_LINK},         {"p2p", IMPORT_LINK},
};

static enum import_kind phase_of(const char *word)
{
    for (size_t i = 0; i < sizeof PHASE / sizeof *PHASE; i++)
        if (!strcasecmp(word, PHASE[i].word))
            return PHASE[i].kind;
    return IMPORT_UNKNOWN;
}

static bool says(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

// What makes a number something else than it looks like. Columns say it outright, prose only in words that mean nothing
// else.
static void read_warnings(const cJSON *r, struct import_facts *f)
{
    char check[32], notes[400], text[768];
    record_text(r, "check", check, sizeof check);
    record_text(r, "notes|note|comment", notes, sizeof notes);
    snprintf(text, sizeof text, "%s %s %s %s", f->model, f->engine, f->id, notes);
    bool denied = says(text, "no specul") || says(text, "without specul") || says(text, "no MTP") ||
                  says(text, "without MTP") || says(text, "non-specul");
    f->speculative = !strcasecmp(check, "spec") ||
                     (!denied && (says(text, "speculative") || says(text, "with MTP") || says(text, "MTP3") ||
                                  says(text, "EAGLE") || says(text, "Medusa") || says(text, "draft model")));
    f->trap = !strcasecmp(check, "trap") || !strncmp(notes, "TRAP", 4);
    f->pruned = says(text, "pruned");
    if (says(notes, "OUTLIER"))
        import_say(f->remark, sizeof f->remark, "its source calls it an outlier");
}

static void read_configuration(const cJSON *r, struct import_facts *f)
{
    char version[48], source[160];
    record_text(r, "id|name", f->id, sizeof f->id);
    record_text(r, "source|url", source, sizeof source);
    record_text(r, "engine|framework|backend", f->engine, sizeof f->engine);
    record_text(r, "version|engine_version", version, sizeof version);
    size_t n = strlen(f->engine);
    if (*version)
        snprintf(f->engine + n, sizeof f->engine - n, " %s", version);
    snprintf(f->source, sizeof f->source, "%s", source);
    record_text(r, "gpu|hardware|device", f->hardware, sizeof f->hardware);
    record_text(r, "model|model_id", f->model, sizeof f->model);
    record_text(r, "weight_dtype|weights|dtype|quantization", f->weights, sizeof f->weights);
    record_text(r, "kv_dtype|kv|type_k", f->kv_k, sizeof f->kv_k);
    record_text(r, "type_v", f->kv_v, sizeof f->kv_v);
    record_text(r, "compute_dtype|compute", f->compute, sizeof f->compute);
    f->weight_bits = record_quantity(r, "weight_bits_eff|weight_bits|bits", "", "", NULL, f);
    f->step_bytes = record_quantity(r, "bytes_per_step_GB_override|bytes_per_step", "GB", "B", NULL, f);
    int64_t devices = record_has(r, "n_gpu|gpus|n_devices|devices") ? record_count(r, "n_gpu|gpus|n_devices|devices", f) : 0;
    int64_t tp = record_has(r, "tp") ? record_count(r, "tp", f) : 0;
    f->ranks = tp > 0 && devices < 1;
    devices = f->ranks ? tp : devices;
    f->devices = devices > 0 && devices <= 1 << 20 ? (int32_t)devices : 0;
}

static void read_shape(const cJSON *r, struct import_facts *f)
{
    record_text(r, "phase|test", f->phase, sizeof f->phase);
    f->kind = phase_of(f->phase);
    f->batch = record_count(r, "batch|batch_size|concurrency", f);
    int64_t prompt = record_count(r, "prompt_len|input_len|isl|n_prompt", f);
    f->n_gen = record_count(r, "output_len|osl|n_gen", f);
    f->n_prompt = prompt;
    f->n_depth = 0;
    if (f->kind == IMPORT_DECODE)
        f->n_prompt = 0, f->n_depth = prompt;
    if (f->kind == IMPORT_PREFILL)
        f->n_gen = 0;
    if (f->kind == IMPORT_SERVE)
        f->requests = 1; // any number at this rate
}

static void read_times(const cJSON *r, struct import_facts *f)
{
    double half, rate = record_quantity(r, RATE, "tokens/s", "tokens/s", &half, f);
    f->tokens_per_s = rate;
    f->rounding = rate > 0 ? half / rate : 0;
    double time = record_quantity(r, TIME, "ms", "s", &half, f) * 1e9;
    if (rate > 0 || !(time > 0))
        return;
    *(f->kind == IMPORT_DECODE ? &f->step_ns : &f->time_ns) = time;
    f->rounding = half * 1e9 / time;
}

static void read_rates(const cJSON *r, struct import_facts *f)
{
    double half = 0, bytes = record_quantity(r, BYTES, "GB/s", "B/s", &half, f), digit = 0,
           flops = record_quantity(r, FLOPS, "TFLOPS", "FLOP/s", &digit, f);
    bool kernel = f->kind == IMPORT_BANDWIDTH || f->kind == IMPORT_PEAK || f->kind == IMPORT_LINK;
    f->stated_rate = kernel ? 0 : bytes;
    if (!kernel)
        return;
    f->rate = f->kind == IMPORT_PEAK ? flops : bytes;
    f->rounding = f->rate > 0 ? (f->kind == IMPORT_PEAK ? digit : half) / f->rate : 0;
}

static bool read_table(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = import_add(list, where);
    if (!f)
        return error_set(e, ERROR_MEMORY, "no memory for the rows of '%s'", where);
    read_configuration(r, f);
    read_shape(r, f);
    read_times(r, f);
    read_rates(r, f);
    read_warnings(r, f);
    record_text(r, "test_time|date", f->test_time, sizeof f->test_time);
    return true;
}

const struct import_format IMPORT_TABLE = {"table", "a table of published numbers", is_table, read_table};
