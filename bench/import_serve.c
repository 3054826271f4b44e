// vLLM's and SGLang's benchmarks. Serving: one row for the whole run, its lengths the means over requests; TTFT and TPOT
// are latencies under load and stand beside no roof. Offline throughput likewise.
#include "bench/import.h"

#include <math.h>
#include <string.h>

static struct import_facts *add(struct import_list *list, const char *where, const char *engine, enum import_kind kind,
                                struct error *e)
{
    struct import_facts *f = import_add(list, where);
    if (!f) {
        error_set(e, ERROR_MEMORY, "no memory for the rows of '%s'", where);
        return NULL;
    }
    snprintf(f->engine, sizeof f->engine, "%s", engine);
    f->kind = kind;
    return f;
}

// Facts that people add with --metadata, and that other fields carry.
static void read_names(const cJSON *r, struct import_facts *f)
{
    record_text(r, "model_id|model|model_path|model_name", f->model, sizeof f->model);
    record_text(r, "hardware|gpu|gpu_name|gpu_type|device_name|accelerator", f->hardware, sizeof f->hardware);
    record_text(r, "dtype|quantization|weights|precision", f->weights, sizeof f->weights);
    record_text(r, "kv_cache_dtype|kv_dtype", f->kv_k, sizeof f->kv_k);
    record_text(r, "date", f->test_time, sizeof f->test_time);
    int64_t tp = record_has(r, "tp|tp_size|tensor_parallel_size|tensor_parallel")
                     ? record_count(r, "tp|tp_size|tensor_parallel_size|tensor_parallel", f)
                     : 0;
    f->devices = tp > 0 && tp <= 1024 ? (int32_t)tp : 0;
    f->ranks = f->devices > 0;
}

// vLLM, latency of one batch: nothing but times, so that shape and names come from the command line.

static bool is_vllm_latency(const cJSON *r)
{
    return record_has(r, "avg_latency") && record_has(r, "latencies|percentiles");
}

static bool read_vllm_latency(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = add(list, where, "vLLM", IMPORT_GENERATE, e);
    if (!f)
        return false;
    read_names(r, f);
    snprintf(f->phase, sizeof f->phase, "latency");
    f->batch = record_count(r, "batch_size", f);
    f->n_prompt = record_count(r, "input_len", f);
    f->n_gen = record_count(r, "output_len", f);
    f->n_depth = 0;
    f->time_ns = record_quantity(r, "avg_latency", "s", "s", NULL, f) * 1e9;
    f->stddev_ns = record_quantity(r, "std_latency", "s", "s", NULL, f) * 1e9;
    f->sample_ns = record_list(r, "latencies", 1e9, &f->n_samples);
    return true;
}

const struct import_format IMPORT_VLLM_LATENCY = {"vllm-latency", "vLLM bench latency", is_vllm_latency, read_vllm_latency};

// Lengths of all requests together, as means.
static void put_lengths(struct import_facts *f, double requests, double prompt, double output)
{
    f->requests = requests;
    if (requests >= 1 && prompt >= 0 && output >= 0) {
        f->n_prompt = (int64_t)(prompt / requests);
        f->n_gen = (int64_t)(output / requests);
        import_say(f->assumed, sizeof f->assumed, "all requests of mean length");
    }
}

// vLLM, offline throughput: prompt and generated tokens counted together.

static bool is_vllm_throughput(const cJSON *r)
{
    return record_has(r, "elapsed_time") && record_has(r, "num_requests") && record_has(r, "tokens_per_second");
}

static bool read_vllm_throughput(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = add(list, where, "vLLM", IMPORT_SERVE, e);
    if (!f)
        return false;
    read_names(r, f);
    snprintf(f->phase, sizeof f->phase, "throughput");
    f->time_ns = record_quantity(r, "elapsed_time", "s", "s", NULL, f) * 1e9;
    f->requests = record_quantity(r, "num_requests", "", "", NULL, f);
    double total = record_quantity(r, "total_num_tokens", "", "", NULL, f);
    double rate = record_quantity(r, "tokens_per_second", "tokens/s", "tokens/s", NULL, f);
    double output = record_quantity(r, "total_output_tokens", "", "", NULL, f);
    if (output > 0 && output <= total)
        put_lengths(f, f->requests, total - output, output);
    else
        f->request_tokens = f->requests > 0 ? total / f->requests : 0;
    if (f->request_tokens > 0)
        import_say(f->remark, sizeof f->remark, "its %.4g tokens/s count prompts too, %.5g tokens a request", rate,
                   f->request_tokens);
    return true;
}

const struct import_format IMPORT_VLLM_THROUGHPUT = {"vllm-throughput", "vLLM bench throughput", is_vllm_throughput,
                                                     read_vllm_throughput};

// vLLM bench serve and SGLang bench_serving.

static bool is_serving(const cJSON *r)
{
    return record_has(r, "duration") && record_has(r, "completed") && record_has(r, "total_input_tokens|total_input") &&
           record_has(r, "total_output_tokens|total_output");
}

static void read_speculation(const cJSON *r, struct import_facts *f)
{
    double length = record_quantity(r, "accept_length|spec_decode_acceptance_length", "", "", NULL, f);
    if (length > 1) {
        f->tokens_per_step = length;
        import_say(f->remark, sizeof f->remark, "speculative: %.3g tokens per step", length);
    }
}

static bool read_serving(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    bool sglang = record_has(r, "input_throughput") || record_has(r, "mean_e2e_latency_ms");
    struct import_facts *f = add(list, where, sglang ? "SGLang" : "vLLM", IMPORT_SERVE, e);
    if (!f)
        return false;
    read_names(r, f);
    const cJSON *server = json_member(r, "server_info");
    if (!*f->model && cJSON_IsObject(server))
        record_text(server, "served_model_name|model_path", f->model, sizeof f->model);
    snprintf(f->phase, sizeof f->phase, "serving");
    f->time_ns = record_quantity(r, "duration", "s", "s", NULL, f) * 1e9;
    put_lengths(f, record_quantity(r, "completed", "", "", NULL, f),
                record_quantity(r, "total_input_tokens|total_input", "", "", NULL, f),
                record_quantity(r, "total_output_tokens|total_output", "", "", NULL, f));
    double limit = record_quantity(r, "max_concurrency|max_concurrent_requests", "", "", NULL, f);
    f->batch = limit >= 1 && limit < 1e9 ? (int64_t)limit : -1;
    f->tokens_per_s = record_quantity(r, "output_throughput", "tokens/s", "tokens/s", NULL, f);
    double failed = record_quantity(r, "failed", "", "", NULL, f);
    if (failed > 0)
        import_say(f->remark, sizeof f->remark, "%.0f requests failed", failed);
    read_speculation(r, f);
    return true;
}

const struct import_format IMPORT_SERVING = {"serving", "vLLM bench serve, SGLang bench_serving", is_serving, read_serving};

// SGLang, one static batch: prefill, the median decode step, and all of it.

static bool is_sglang_batch(const cJSON *r)
{
    return record_has(r, "batch_size") && record_has(r, "input_len") && record_has(r, "prefill_latency");
}

static struct import_facts *batch_row(const cJSON *r, const char *where, struct import_list *list, enum import_kind kind,
                                      const char *time, struct error *e)
{
    struct import_facts *f = add(list, where, "SGLang", kind, e);
    if (!f)
        return NULL;
    read_names(r, f);
    record_text(r, "run_name", f->phase, sizeof f->phase);
    f->batch = record_count(r, "batch_size", f);
    f->n_prompt = record_count(r, "input_len", f);
    f->n_gen = record_count(r, "output_len", f);
    f->n_depth = 0;
    f->time_ns = record_quantity(r, time, "s", "s", NULL, f) * 1e9;
    return f;
}

static bool read_sglang_batch(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = batch_row(r, where, list, IMPORT_PREFILL, "prefill_latency", e);
    if (!f)
        return false;
    f->n_gen = 0;
    if (record_has(r, "median_decode_latency")) {
        if (!(f = batch_row(r, where, list, IMPORT_DECODE, "median_decode_latency", e)))
            return false;
        f->n_depth = f->n_prompt + f->n_gen / 2; // the step in the middle of output_len - 1 of them
        f->n_prompt = 0, f->n_gen = 1;
        import_say(f->assumed, sizeof f->assumed, "the median step is the one in the middle");
    }
    return !record_has(r, "total_latency") || batch_row(r, where, list, IMPORT_GENERATE, "total_latency", e);
}

const struct import_format IMPORT_SGLANG_BATCH = {"sglang-batch", "SGLang bench_one_batch", is_sglang_batch,
                                                  read_sglang_batch};

static bool is_sglang_offline(const cJSON *r)
{
    return record_has(r, "successful_requests") && record_has(r, "total_latency") && record_has(r, "total_output_tokens");
}

static bool read_sglang_offline(const cJSON *r, const char *where, struct import_list *list, struct error *e)
{
    struct import_facts *f = add(list, where, "SGLang", IMPORT_SERVE, e);
    if (!f)
        return false;
    read_names(r, f);
    snprintf(f->phase, sizeof f->phase, "offline throughput");
    f->time_ns = record_quantity(r, "total_latency", "s", "s", NULL, f) * 1e9;
    put_lengths(f, record_quantity(r, "successful_requests", "", "", NULL, f),
                record_quantity(r, "total_input_tokens", "", "", NULL, f),
                record_quantity(r, "total_output_tokens", "", "", NULL, f));
    f->tokens_per_s = record_quantity(r, "output_throughput", "tokens/s", "tokens/s", NULL, f);
    return true;
}

const struct import_format IMPORT_SGLANG_OFFLINE = {"sglang-offline", "SGLang bench_offline_throughput", is_sglang_offline,
                                                    read_sglang_offline};
