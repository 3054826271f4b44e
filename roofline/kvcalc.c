// kvcalc: how large is the KV cache, how many requests fit, and how long is a decode step at that load, at least?
#include "engine/base/json.h"
#include "engine/base/options.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/base/version.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_help(void)
{
    printf(
        "usage: kvcalc --model M --gpu G --context N [options]\n"
        "       kvcalc check CASES.csv | explain LOG | compare MODEL... [options]\n"
        "KV cache bytes, requests that fit beside the weights, and the least time of a decode step at that load: per rank.\n"
        "--context is the average of the requests. `check` recomputes a table of engine logs, `explain` a pasted log\n"
        "(- reads standard input), `compare` sets models, devices (--gpu A,B) and KV types (--kv A,B) side by side.\n"
        "\n");
    options_help(stdout, ON_KVCALC);
    printf("\nexamples:\n"
           "  kvcalc --model llama-3-8b --gpu h100-sxm --context 4096\n"
           "  kvcalc --model llama-3-70b --gpu h200-sxm --context 8192 --tp 4 --kv fp8 --batch 64 --json\n"
           "  kvcalc --model deepseek-v3 --gpu h200-sxm --context 4096 --tp 8 --weights fp8 --engine vllm --engine-version "
           "0.19\n"
           "  kvcalc --model llama-3-70b --gpu h100-sxm --context 8192 --requests 100 --slo-tpot 30\n"
           "  kvcalc --model qwen3-next --gpu h200-sxm --context 32768 --sweep context\n"
           "  kvcalc compare llama-3-8b qwen2.5-7b --gpu h100-sxm,h200-sxm --context 4096\n");
}

// Unknown numbers are null.
static void add_number(cJSON *json, const char *key, double value, bool known)
{
    if (known)
        cJSON_AddNumberToObject(json, key, value);
    else
        cJSON_AddNullToObject(json, key);
}

static void add_names(cJSON *json, const struct question *q)
{
    const struct plan *plan = &q->whole;
    cJSON_AddStringToObject(json, "model", plan->model);
    cJSON_AddStringToObject(json, "hardware", q->hardware.name);
    cJSON_AddStringToObject(json, "weights", dtype_name(plan_weight_type(plan)));
    cJSON_AddStringToObject(json, "type_k", dtype_name(plan->kv_k));
    cJSON_AddStringToObject(json, "type_v", dtype_name(plan->kv_v));
    add_number(json, "tp", q->types.tp, true);
    add_number(json, "pp", q->pp, true);
    add_number(json, "dcp", q->query.dcp, true);
    cJSON_AddBoolToObject(json, "dp_attention", q->types.dp_attention);
    add_number(json, "context", q->query.context, true);
    add_number(json, "block", q->query.block, true);
    add_number(json, "util", q->query.util, true);
}

static void add_capacity(cJSON *json, const struct question *q, const struct capacity *c)
{
    bool memory = c->memory_known, priced = c->batch > 0;
    int32_t groups = q->types.dp_attention ? q->types.tp : 1; // each rank has requests of its own
    add_number(json, "weight_bytes", (double)c->weight_bytes, true);
    add_number(json, "kv_bytes_per_token", (double)c->kv_bytes_per_token, true);
    add_number(json, "state_bytes_per_request", (double)c->state_bytes_per_request, true);
    add_number(json, "kv_bytes_per_request", (double)c->kv_bytes_per_request, true);
    add_number(json, "kv_reserved_bytes_per_request", (double)c->kv_reserved_bytes_per_request, true);
    add_number(json, "memory_bytes", (double)c->memory_bytes, memory);
    add_number(json, "usable_bytes", (double)c->usable_bytes, memory);
    if (memory)
        cJSON_AddBoolToObject(json, "weights_fit", c->weights_fit);
    add_number(json, "max_requests", c->max_requests, memory);
    add_number(json, "batch", c->batch, true);
    add_number(json, "weight_read_bytes", (double)c->weight_read_bytes, priced);
    add_number(json, "kv_bytes_total", (double)c->kv_bytes_total, priced);
    add_number(json, "flops", (double)c->flops, priced);
    add_number(json, "bound_ns", c->bound_ns, c->bound_ns > 0);
    add_number(json, "roof_total_ns", c->roof_total_ns, c->roof_total_ns > 0);
    add_number(json, "tokens_per_s", groups * c->batch / c->bound_ns * 1e9, c->bound_ns > 0);
    add_number(json, "kv_read_share", c->kv_read_share, priced);
    add_number(json, "intensity", c->intensity, priced);
    add_number(json, "ridge", c->ridge, c->ridge > 0);
    cJSON_AddStringToObject(json, "limit", c->limit);
}

static void add_budget(cJSON *json, const struct budget *b)
{
    cJSON *o = cJSON_AddObjectToObject(json, "budget");
    bool known = b->driver_bytes > 0;
    add_number(o, "driver_bytes", (double)b->driver_bytes, known);
    add_number(o, "device_bytes", (double)b->device_bytes, known);
    add_number(o, "usable_bytes", (double)b->usable_bytes, known);
    add_number(o, "checkpoint_bytes", (double)b->checkpoint_bytes, true);
    add_number(o, "rank_weight_bytes", (double)b->rank_weight_bytes, true);
    add_number(o, "engine_weight_bytes", (double)b->engine_weight_bytes, true);
    add_number(o, "activation_bytes", (double)b->activation_bytes, true);
    add_number(o, "reserve_low_bytes", (double)b->reserve_low_bytes, true);
    add_number(o, "reserve_high_bytes", (double)b->reserve_high_bytes, true);
    add_number(o, "kv_low_bytes", (double)b->kv_low_bytes, known);
    add_number(o, "kv_high_bytes", (double)b->kv_high_bytes, known);
}

static void add_engine(cJSON *json, const struct question *q, const struct engine_answer *a)
{
    cJSON *o = cJSON_AddObjectToObject(json, "engine");
    const struct serving_kv *kv = &a->kv;
    cJSON_AddStringToObject(o, "name", serving_engine_name(q->serving.engine));
    add_number(o, "version", q->serving.version, q->serving.version > 0);
    add_number(o, "max_model_len", (double)q->max_model_len, true);
    add_number(o, "block_size", kv->printed_block, true);
    add_number(o, "groups", kv->all_groups, true);
    add_number(o, "group_size", kv->group_size, true);
    add_number(o, "padding_layers", kv->padding_layers, true);
    add_number(o, "block_bytes", (double)kv->block_bytes, true);
    add_number(o, "request_blocks", (double)a->request_blocks, true);
    add_number(o, "request_bytes", (double)a->request_bytes, true);
    add_number(o, "blocks_low", (double)a->blocks_low, true);
    add_number(o, "blocks_high", (double)a->blocks_high, true);
    add_number(o, "requests_low", a->requests_low, true);
    add_number(o, "requests_high", a->requests_high, true);
    add_number(o, "max_concurrency_low", a->concurrency_low, true);
    add_number(o, "max_concurrency_high", a->concurrency_high, true);
    add_number(o, "kv_cache_tokens_low", (double)a->tokens_low, true);
    add_number(o, "kv_cache_tokens_high", (double)a->tokens_high, true);
    add_number(o, "kv_cache_tokens_as_blocks", (double)a->tokens_blocks, true);
    add_number(o, "kv_cache_tokens_as_concurrency", (double)a->tokens_concurrency, true);
}

static bool has_goals(const struct options *o)
{
    return o->requests || o->slo_tpot > 0 || o->slo_ttft > 0;
}

static bool print_json(const struct options *o, const struct question *q, const struct answer *a, const struct reach *r)
{
    cJSON *json = cJSON_CreateObject();
    add_names(json, q);
    add_capacity(json, q, &a->capacity);
    add_budget(json, &a->budget);
    if (q->has_engine)
        add_engine(json, q, &a->engine);
    if (has_goals(o))
        kvcalc_goals_json(o, r, json);
    char *text = cJSON_Print(json);
    bool ok = text && puts(text) >= 0;
    free(text);
    cJSON_Delete(json);
    return ok;
}

static void print_bytes(const char *label, uint64_t bytes)
{
    char text[24];
    printf("  %-22s %12s  %15" PRIu64 " B\n", label, format_bytes(bytes, text), bytes);
}

static void print_time(const char *label, double ns, const char *remark)
{
    if (ns > 0)
        printf("  %-22s %9.3f ms  %s\n", label, ns / 1e6, remark);
    else
        printf("  %-22s %12s  (no hard peaks are known)\n", label, "unknown");
}

static void print_fit(const struct capacity *c, bool shared)
{
    char text[24];
    if (!c->memory_known)
        printf("  %-22s %12s  (the size of this device's memory)\n", "requests that fit", "unknown");
    else if (!c->weights_fit)
        printf("  %-22s %12d  the weights alone do not fit: %s too many; more ranks (--tp) or smaller --weights\n",
               "requests that fit", 0, format_bytes(c->weight_bytes - c->usable_bytes, text));
    else
        printf("  %-22s %12" PRId32 "%s\n", "requests that fit", c->max_requests,
               shared ? "  held by all ranks together" : "");
}

static const char *const ATTAINABLE_MEANS[ROOF_KINDS] = {
    [ROOF_HARD] = "at hard peaks: nobody published what microbenchmarks reach",
    [ROOF_DATASHEET] = "at the datasheet: nobody published what microbenchmarks reach",
    [ROOF_ATTAINABLE] = "at what microbenchmarks reach",
};

static void print_step(const struct capacity *c, const struct hardware *hw)
{
    if (!c->batch)
        return;
    bool fits = !c->memory_known || c->batch <= c->max_requests;
    printf("\ndecode step of %" PRId32 " request%s%s\n", c->batch, c->batch == 1 ? "" : "s",
           fits ? "" : " (more than fit: priced as if they did)");
    print_bytes("weights read", c->weight_read_bytes);
    print_bytes("KV read", c->kv_bytes_total);
    print_time("bound", c->bound_ns, "nothing can be faster: hard peaks, nothing in caches");
    print_time("attainable", c->roof_total_ns, ATTAINABLE_MEANS[roofline_bandwidth_kind(hw)]);
    printf("  %-22s %12s\n", "limited by", c->limit);
    printf("  %-22s %12.3f  of the bytes\n", "KV reading", c->kv_read_share);
    printf("  %-22s %12.1f  FLOP/byte (ridge %.0f)\n", "intensity", c->intensity, c->ridge);
}

static void print_title(const struct question *q)
{
    const struct plan *plan = &q->whole;
    printf("%s on %s: %s weights, KV %s", plan->model, q->hardware.title, dtype_name(plan_weight_type(plan)),
           dtype_name(plan->kv_k));
    if (plan->kv_v != plan->kv_k)
        printf("/%s", dtype_name(plan->kv_v));
    printf(", context %" PRId32 ", tp %" PRId32, q->query.context, q->types.tp);
    if (q->pp > 1)
        printf(", pp %" PRId32, q->pp);
    if (q->query.dcp > 1)
        printf(", dcp %" PRId32, q->query.dcp);
    if (q->types.dp_attention)
        printf(", attention by requests");
    printf("%s\n\n", q->types.tp * q->pp > 1 ? "; bytes and times are one rank's" : "");
}

static void print_span(const char *label, double low, double high, const char *unit)
{
    printf("  %-22s %12.4g  to %.4g %s\n", label, low, high, unit);
}

static void print_budget(const struct question *q, const struct budget *b)
{
    static const double GIB = 0x1p30;
    if (!b->driver_bytes)
        return;
    printf("\nmemory of one rank, as %s would find it\n", serving_engine_name(q->serving.engine));
    print_bytes(b->device_derived ? "CUDA reports about" : "CUDA reports", b->device_bytes);
    print_bytes("of it usable", b->usable_bytes);
    print_bytes("weights by tensor", b->checkpoint_bytes);
    print_bytes("with whole copies", b->rank_weight_bytes);
    print_bytes("weights as held", b->engine_weight_bytes);
    print_bytes("activations", b->activation_bytes);
    print_span("not derivable", (double)b->reserve_low_bytes / GIB, (double)b->reserve_high_bytes / GIB,
               "GiB (graphs, sampler, communication)");
    print_span("left for KV", (double)b->kv_low_bytes / GIB, (double)b->kv_high_bytes / GIB, "GiB");
}

static void print_engine(const struct question *q, const struct answer *a)
{
    const struct engine_answer *x = &a->engine;
    const struct serving_kv *kv = &x->kv;
    char version[32] = "newest rule";
    if (q->serving.version)
        snprintf(version, sizeof version, "%d.%d", q->serving.version / 1000, q->serving.version % 1000);
    printf("\nKV of a request of %" PRId32 "\n", q->query.context);
    print_bytes("ideal", a->capacity.kv_bytes_per_request);
    print_bytes("allocated in blocks", a->capacity.kv_reserved_bytes_per_request);
    print_bytes("by the engine's rule", x->request_bytes);
    printf("\n%s (%s) would report\n", serving_engine_name(q->serving.engine), version);
    printf("  %-22s %12d  tokens, %d group%s of %d layers, %d of them padding\n", "block", kv->printed_block, kv->all_groups,
           kv->all_groups == 1 ? "" : "s", kv->group_size, kv->padding_layers);
    print_span("blocks", (double)x->blocks_low, (double)x->blocks_high, "");
    printf("  %-22s %12" PRId64 "  to %" PRId64 " tokens\n", "KV cache size", x->tokens_low, x->tokens_high);
    if (kv->all_groups > 1)
        printf("  %-22s %12" PRId64 "  blocks of one group (before 0.21); %" PRId64 " concurrency x length (since)\n",
               "  both meanings", x->tokens_blocks, x->tokens_concurrency);
    printf("  %-22s %11.2fx  to %.2fx of %" PRId64 " tokens\n", "maximum concurrency", x->concurrency_low,
           x->concurrency_high, q->max_model_len);
    print_span("requests of --context", x->requests_low, x->requests_high, "");
}

static void print_text(const struct question *q, const struct answer *a)
{
    const struct capacity *c = &a->capacity;
    print_title(q);
    print_bytes("weights", c->weight_bytes);
    print_bytes("KV per token", c->kv_bytes_per_token);
    if (c->state_bytes_per_request)
        print_bytes("state per request", c->state_bytes_per_request);
    print_bytes("KV per request", c->kv_bytes_per_request);
    if (c->memory_known) {
        print_bytes("device memory", c->memory_bytes);
        print_bytes("usable", c->usable_bytes);
    }
    print_fit(c, q->types.tp > 1 && !q->types.dp_attention);
    print_step(c, &q->hardware);
    if (c->bound_ns > 0)
        printf("  %-22s %12.4g  at that bound\n", "tokens/s",
               (q->types.dp_attention ? q->types.tp : 1) * c->batch / c->bound_ns * 1e9);
    if (q->has_engine) {
        print_budget(q, &a->budget);
        print_engine(q, a);
    }
    if (q->query.context > q->model.spec.max_position_embeddings && q->model.spec.max_position_embeddings > 0)
        printf("\nnote: the model was made for at most %" PRId32 " positions\n", q->model.spec.max_position_embeddings);
}

static bool print_answer(const struct options *o, const struct question *q, const struct answer *a, int *exit_code,
                         struct error *e)
{
    struct reach reach = {.tpot_batch = -1, .ttft_batch = -1};
    if (has_goals(o))
        reach_find(q, o->requests, o->slo_tpot, o->slo_ttft, &reach);
    if (o->json && !print_json(o, q, a, &reach))
        return error_set(e, ERROR_MEMORY, "no memory to print");
    if (!o->json) {
        print_text(q, a);
        kvcalc_print_goals(o, q, &reach);
    }
    return !o->verify || kvcalc_verify(q, a, exit_code, e);
}

static bool answer(const struct options *o, int *exit_code, struct error *e)
{
    struct question q = {.pp = 0};
    struct answer a;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s'", o->arg[0]);
    bool ok = kvcalc_check_goals(o, e) && question_read(o, &q, e) && question_plan(&q, e);
    if (ok && o->sweep && *o->sweep)
        ok = kvcalc_sweep(o, &q, e);
    else if (ok)
        ok = question_ask(&q, &a, e) && print_answer(o, &q, &a, exit_code, e);
    question_close(&q);
    return ok;
}

static const struct command {
    const char *name;
    bool (*run)(const struct options *o, int *exit_code, struct error *e);
} COMMANDS[] = {{"check", kvcalc_check}, {"explain", kvcalc_explain}, {"compare", kvcalc_compare}};

// The command that argv[1] names; NULL: the question itself.
static const struct command *find_command(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (!strcmp(argv[1], COMMANDS[i].name))
            return &COMMANDS[i];
    return NULL;
}

static int fail(const struct error *e)
{
    fprintf(stderr, "kvcalc: %s\n", e->message);
    return error_exit_code(e->kind);
}

int main(int argc, char **argv)
{
    const struct command *command = find_command(argc, argv);
    struct options o;
    struct error e = {0};
    int exit_code = 0;
    keep_standard_files();
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        printf("kvcalc %s\n", kvbench_version);
        return output_written(&e) ? 0 : fail(&e);
    }
    bool ok = options_parse(&o, ON_KVCALC, command ? argc - 1 : argc, command ? argv + 1 : argv, &e);
    if (ok && o.help)
        print_help();
    else if (ok)
        ok = command ? command->run(&o, &exit_code, &e) : answer(&o, &exit_code, &e);
    options_free(&o);
    ok = ok && output_written(&e);
    return ok ? exit_code : fail(&e);
}
