// kvcalc: how large is the KV cache, how many requests fit, and how long is a decode step at that load, at least?
#include "engine/base/json.h"
#include "engine/base/options.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/base/version.h"
#include "roofline/capacity.h"
#include "roofline/catalogue.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct question {
    struct model model;
    struct plan plan;
    struct plan_options types;
    struct hardware hardware;
    struct capacity_query query;
};

static void print_help(void)
{
    printf(
        "usage: kvcalc --model M --gpu G --context N [options]\n"
        "KV cache bytes, requests that fit beside the weights, and the least time of a decode step at that load: per rank\n"
        "\n");
    options_help(stdout, ON_KVCALC);
    printf("\nexamples:\n"
           "  kvcalc --model llama-3-8b --gpu h100-sxm --context 4096\n"
           "  kvcalc --model llama-3-70b --gpu h200-sxm --context 8192 --tp 4 --kv fp8 --batch 64 --json\n");
}

static bool parse_type(const char *flag, const char *text, enum dtype *out, struct error *e)
{
    char known[160] = "";
    if (dtype_parse(text, out))
        return true;
    for (int i = 0; i < DTYPE_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", dtype_name((enum dtype)i));
    return error_set(e, ERROR_USAGE, "'%s': unknown type '%.40s', expected one of %s", flag, text, known);
}

// One type; the options that other commands take as lists stand here for one value.
static bool one_type(const char *flag, const struct text_list *list, enum dtype *out, struct error *e)
{
    if (list->n > 1)
        return error_set(e, ERROR_USAGE, "'%s' has %d values, expected one", flag, list->n);
    return !list->n || parse_type(flag, list->value[0], out, e);
}

static bool one_number(const char *flag, const struct int_list *list, int32_t min, int32_t *out, struct error *e)
{
    if (list->n != 1)
        return error_set(e, ERROR_USAGE, "'%s' %s, expected one number", flag, list->n ? "is a list" : "is missing");
    if (list->value[0] < min)
        return error_set(e, ERROR_USAGE, "'%s' is %d, expected %d or more", flag, list->value[0], min);
    *out = list->value[0];
    return true;
}

static bool choose_types(const struct options *o, struct question *q, struct error *e)
{
    enum dtype weights = q->model.spec.dtype;
    if (!one_type("--weights", &o->weights, &weights, e))
        return false;
    q->types = plan_options_default(weights);
    q->types.tp = o->tp;
    if (!o->weights.n && model_has_weights(&q->model) && q->model.format != MODEL_RANDOM) {
        q->types.tensor_dtype = model_tensor_dtype; // what the file really stores
        q->types.ctx = &q->model;
    }
    enum dtype kv = q->types.kv_k;
    if (!one_type("--kv", &o->kv, &kv, e))
        return false;
    q->types.kv_k = q->types.kv_v = kv;
    return one_type("--type-k", &o->type_k, &q->types.kv_k, e) && one_type("--type-v", &o->type_v, &q->types.kv_v, e);
}

static bool read_query(const struct options *o, struct capacity_query *query, struct error *e)
{
    *query = (struct capacity_query){.batch = o->load, .util = o->util};
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s'", o->arg[0]);
    if (!o->model)
        return error_set(e, ERROR_USAGE, "'--model' is missing (see kvbench list models)");
    if (o->load < 0)
        return error_set(e, ERROR_USAGE, "'--batch' is %d, expected 0 or more", o->load);
    if (o->tp < 1)
        return error_set(e, ERROR_USAGE, "'--tp' is %d, expected 1 or more", o->tp);
    if (o->weight_bytes && !capacity_parse_bytes(o->weight_bytes, &query->weight_bytes, e))
        return error_prefix(e, "'--weight-bytes'");
    return one_number("--context", &o->context, 1, &query->context, e) &&
           one_number("--block", &o->block, 0, &query->block, e);
}

static bool read_question(const struct options *o, struct question *q, struct error *e)
{
    return read_query(o, &q->query, e) && catalogue_open_model(&q->model, o->model, e) && choose_types(o, q, e) &&
           plan_make(&q->plan, &q->model.spec, &q->types, e) && hardware_load(&q->hardware, o->hardware, e);
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
    cJSON_AddStringToObject(json, "model", q->plan.model);
    cJSON_AddStringToObject(json, "hardware", q->hardware.name);
    cJSON_AddStringToObject(json, "weights", dtype_name(plan_weight_type(&q->plan)));
    cJSON_AddStringToObject(json, "type_k", dtype_name(q->plan.kv_k));
    cJSON_AddStringToObject(json, "type_v", dtype_name(q->plan.kv_v));
    add_number(json, "tp", q->plan.tp, true);
    add_number(json, "context", q->query.context, true);
    add_number(json, "block", q->query.block, true);
    add_number(json, "util", q->query.util, true);
}

static bool print_json(const struct question *q, const struct capacity *c)
{
    bool memory = c->memory_known, priced = c->batch > 0;
    cJSON *json = cJSON_CreateObject();
    add_names(json, q);
    add_number(json, "weight_bytes", (double)c->weight_bytes, true);
    add_number(json, "kv_bytes_per_token", (double)c->kv_bytes_per_token, true);
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
    add_number(json, "tokens_per_s", c->batch / c->bound_ns * 1e9, c->bound_ns > 0);
    add_number(json, "kv_read_share", c->kv_read_share, priced);
    add_number(json, "intensity", c->intensity, priced);
    add_number(json, "ridge", c->ridge, c->ridge > 0);
    cJSON_AddStringToObject(json, "limit", c->limit);
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

static void print_fit(const struct capacity *c)
{
    char text[24];
    if (!c->memory_known)
        printf("  %-22s %12s  (the size of this device's memory)\n", "requests that fit", "unknown");
    else if (!c->weights_fit)
        printf("  %-22s %12d  the weights alone do not fit: %s too many; more ranks (--tp) or smaller --weights\n",
               "requests that fit", 0, format_bytes(c->weight_bytes - c->usable_bytes, text));
    else
        printf("  %-22s %12" PRId32 "\n", "requests that fit", c->max_requests);
}

static void print_step(const struct capacity *c)
{
    if (!c->batch)
        return;
    bool fits = !c->memory_known || c->batch <= c->max_requests;
    printf("\ndecode step of %" PRId32 " request%s%s\n", c->batch, c->batch == 1 ? "" : "s",
           fits ? "" : " (more than fit: priced as if they did)");
    print_bytes("weights read", c->weight_read_bytes);
    print_bytes("KV read", c->kv_bytes_total);
    print_time("bound", c->bound_ns, "nothing can be faster (hard peaks)");
    print_time("attainable", c->roof_total_ns, "at what microbenchmarks reach, else the datasheet");
    printf("  %-22s %12s\n", "limited by", c->limit);
    printf("  %-22s %12.3f  of the bytes\n", "KV reading", c->kv_read_share);
    printf("  %-22s %12.1f  FLOP/byte (ridge %.0f)\n", "intensity", c->intensity, c->ridge);
}

static bool print_text(const struct question *q, const struct capacity *c)
{
    printf("%s on %s: %s weights, KV %s", q->plan.model, q->hardware.title, dtype_name(plan_weight_type(&q->plan)),
           dtype_name(q->plan.kv_k));
    if (q->plan.kv_v != q->plan.kv_k)
        printf("/%s", dtype_name(q->plan.kv_v));
    printf(", context %" PRId32 ", tp %" PRId32 "%s\n\n", q->query.context, q->plan.tp,
           q->plan.tp > 1 ? "; bytes and times are one rank's" : "");
    print_bytes("weights", c->weight_bytes);
    print_bytes("KV per token", c->kv_bytes_per_token);
    print_bytes("KV per request", c->kv_bytes_per_request);
    if (c->memory_known) {
        print_bytes("device memory", c->memory_bytes);
        print_bytes("usable", c->usable_bytes);
    }
    print_fit(c);
    print_step(c);
    if (q->query.context > q->model.spec.max_position_embeddings && q->model.spec.max_position_embeddings > 0)
        printf("\nnote: the model was made for at most %" PRId32 " positions\n", q->model.spec.max_position_embeddings);
    return true;
}

static bool answer(const struct options *o, struct error *e)
{
    struct question q = {0};
    struct capacity c;
    bool ok = read_question(o, &q, e) && capacity_of(&q.plan, &q.hardware, &q.query, &c, e);
    if (ok)
        ok = (o->json ? print_json(&q, &c) : print_text(&q, &c)) || error_set(e, ERROR_MEMORY, "no memory to print");
    plan_free(&q.plan);
    model_close(&q.model);
    return ok;
}

static const struct command {
    const char *name;
    bool (*run)(const struct options *o, int *exit_code, struct error *e);
} COMMANDS[] = {{"check", kvcalc_check}};

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
        ok = command ? command->run(&o, &exit_code, &e) : answer(&o, &e);
    options_free(&o);
    ok = ok && output_written(&e);
    return ok ? exit_code : fail(&e);
}
