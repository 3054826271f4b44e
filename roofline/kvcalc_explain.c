// kvcalc explain LOG: each figure of a pasted engine log recomputed; where one does not agree, the term that differs.
#include "engine/base/file.h"
#include "roofline/cases.h"
#include "roofline/engine_log.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIGURES = 16 };
static const double GIB = 0x1p30;

struct figure {
    char name[40], term[240];
    double printed, computed;
    char unit[12];
    bool agrees;
};

struct report {
    struct figure figure[MAX_FIGURES];
    int n;
    char note[400]; // what could not be recomputed, and which fact is missing
};

static struct figure *add_figure(struct report *r, const char *name, const char *unit, double printed, double computed,
                                 bool agrees)
{
    struct figure *f = &r->figure[r->n < MAX_FIGURES - 1 ? r->n++ : r->n];
    *f = (struct figure){.printed = printed, .computed = computed, .agrees = agrees};
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->unit, sizeof f->unit, "%s", unit);
    return f;
}

__attribute__((format(printf, 2, 3))) static void say(struct figure *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->term, sizeof f->term, format, args);
    va_end(args);
}

static bool has(const struct engine_log *log, enum log_number what)
{
    return *log->text[what] != 0;
}

// Half a unit of the last printed digit.
static double half_digit(const struct engine_log *log, enum log_number what)
{
    const char *point = strchr(log->text[what], '.');
    return 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0);
}

// KV = total x utilization - weights - activations - non-torch: each term is printed with two digits.
static void explain_budget(const struct engine_log *log, struct report *r)
{
    if (!has(log, LOG_TOTAL_GIB) || !has(log, LOG_UTIL) || !has(log, LOG_WEIGHTS_GIB) || !has(log, LOG_KV_GIB) ||
        !has(log, LOG_ACTIVATION_GIB))
        return;
    double kv = log->value[LOG_TOTAL_GIB] * log->value[LOG_UTIL] - log->value[LOG_WEIGHTS_GIB] -
                log->value[LOG_ACTIVATION_GIB] - log->value[LOG_NON_TORCH_GIB];
    double off = (log->value[LOG_KV_GIB] - kv) * GIB;
    struct figure *f = add_figure(r, "memory for KV", "GiB", log->value[LOG_KV_GIB], kv, fabs(off) <= 0.05 * GIB);
    say(f,
        f->agrees ? "total x utilization - weights - activations - other memory"
                  : "%+.0f bytes beside total x utilization - weights - activations - other memory: graphs, or another rank",
        off);
}

// TensorRT-LLM takes a share of what is free after loading.
static void explain_free(const struct engine_log *log, struct report *r)
{
    double share = has(log, LOG_UTIL) ? log->value[LOG_UTIL] : 0.9;
    if (!has(log, LOG_FREE_GIB) || !has(log, LOG_KV_GIB))
        return;
    double kv = log->value[LOG_FREE_GIB] * share, off = (log->value[LOG_KV_GIB] - kv) * GIB;
    struct figure *f = add_figure(r, "memory for KV", "GiB", log->value[LOG_KV_GIB], kv, fabs(off) <= 0.02 * GIB);
    say(f, "%g of what is free after loading, rounded up to whole blocks%s", share, f->agrees ? "" : ": it differs");
}

// A question about the model of the log, with what flags say instead.
static bool open_question(const struct options *o, const struct engine_log *log, const char *model, const char *weights,
                          struct question *q, struct error *e)
{
    struct options one = *o;
    int32_t context = has(log, LOG_LENGTH) ? (int32_t)log->value[LOG_LENGTH] : 1024;
    char *type = (char *)(uintptr_t)weights;
    one.model = model;
    one.tp = o->has_tp ? o->tp : has(log, LOG_TP) ? (int32_t)log->value[LOG_TP] : 1;
    one.pp = o->has_pp ? o->pp : has(log, LOG_PP) ? (int32_t)log->value[LOG_PP] : 1;
    one.engine = log->engine, one.engine_version = log->version;
    one.hardware = o->has_hardware ? o->hardware : "h100-sxm"; // only bytes of the model are asked for below
    one.context = (struct int_list){.value = &context, .n = 1};
    if (weights)
        one.weights = (struct text_list){.value = &type, .n = 1};
    return question_read(&one, q, e) && question_plan(q, e);
}

// The type of the weights: --weights, or what the log says of its quantization; NULL: the model's own. False: unknown.
static bool weights_of(const struct options *o, const struct engine_log *log, const char **type)
{
    enum dtype known;
    *type = NULL;
    if (o->weights.n)
        return true;
    if (!strcmp(log->engine, "llama.cpp"))
        return false; // a file's own mixture of types
    if (*log->weight_dtype && !dtype_parse(log->weight_dtype, &known))
        return false;
    *type = *log->weight_dtype ? log->weight_dtype : NULL;
    return true;
}

// Weights by tensor, against what a rank reports to have loaded.
static void explain_weights(const struct options *o, const struct engine_log *log, const char *model, struct report *r)
{
    struct question q = {.pp = 0};
    struct answer a;
    struct error e = {0};
    const char *type;
    if (!has(log, LOG_WEIGHTS_GIB))
        return;
    if (!weights_of(o, log, &type)) {
        snprintf(r->note, sizeof r->note, "weights are not recomputed: their type is missing (--weights)");
        return;
    }
    if (!open_question(o, log, model, type, &q, &e) || !question_ask(&q, &a, &e)) {
        snprintf(r->note, sizeof r->note, "weights are not recomputed: %.300s", e.message);
        question_close(&q);
        return;
    }
    double computed = (double)a.budget.engine_weight_bytes / GIB, printed = log->value[LOG_WEIGHTS_GIB];
    double off = (printed - computed) * GIB;
    bool agrees = fabs(off) <= 0.01 * printed * GIB + half_digit(log, LOG_WEIGHTS_GIB) * GIB;
    struct figure *f = add_figure(r, "weights of a rank", "GiB", printed, computed, agrees);
    if (agrees)
        say(f, "by tensor in %s, %.2f GiB of it whole on every rank; %+.0f bytes", dtype_name(q.weights),
            (double)(a.budget.engine_weight_bytes - a.budget.checkpoint_bytes) / GIB, off);
    else
        say(f, "%+.0f bytes: other types than %s (--weights), a vision part, drafting layers, or kernel padding", off,
            dtype_name(q.weights));
    question_close(&q);
}

static void set(char **field, const char *text)
{
    *field = (char *)(uintptr_t)text; // a case only reads its fields
}

static const char *or_flag(bool given, char *buffer, int32_t value, const char *printed)
{
    if (!given)
        return printed;
    snprintf(buffer, 24, "%d", value);
    return buffer;
}

// The log as a row of a table of cases. texts: room for what flags fill in.
static struct kv_case as_case(const struct options *o, const struct engine_log *log, char texts[4][24])
{
    struct kv_case c;
    char **field = (char **)&c;
    bool refused = has(log, LOG_NEEDED_GIB);
    for (size_t i = 0; i < sizeof c / sizeof *field; i++)
        set(&field[i], "");
    set(&c.engine, log->engine);
    set(&c.version, o->engine_version && *o->engine_version ? o->engine_version : log->version);
    set(&c.model, o->model && *o->model ? o->model : log->model);
    set(&c.tp, or_flag(o->has_tp, texts[0], o->tp, log->text[LOG_TP]));
    set(&c.block_size,
        or_flag(o->has_block && o->block.n == 1, texts[1], o->block.n ? o->block.value[0] : 0, log->text[LOG_BLOCK_SIZE]));
    set(&c.kv_dtype, o->kv.n ? o->kv.value[0] : log->kv_dtype);
    set(&c.max_model_len, or_flag(o->has_max_model_len, texts[2], o->max_model_len, log->text[LOG_LENGTH]));
    set(&c.available_kv_GiB, log->text[LOG_KV_GIB]);
    set(&c.kv_tokens, refused ? log->text[LOG_ESTIMATED_LENGTH] : log->text[LOG_TOKENS]);
    set(&c.max_concurrency, refused ? "" : log->text[LOG_CONCURRENCY]);
    if (!*c.kv_tokens && has(log, LOG_BLOCKS)) { // older vLLM prints blocks only
        snprintf(texts[3], 24, "%.0f",
                 log->value[LOG_BLOCKS] * (has(log, LOG_BLOCK_SIZE) ? log->value[LOG_BLOCK_SIZE] : 16));
        set(&c.kv_tokens, texts[3]);
    }
    return c;
}

static void explain_cache(const struct options *o, const struct engine_log *log, const struct catalogue_name *names, int n,
                          struct report *r)
{
    struct case_result result;
    char texts[4][24];
    struct kv_case c = as_case(o, log, texts);
    kv_case_compute(&c, names, n, &result);
    if (result.verdict == CASE_NOT_COMPUTABLE)
        snprintf(r->note, sizeof r->note, "the cache is not recomputed: %s", result.reason);
    if (result.verdict != CASE_NOT_COMPUTABLE && result.has_size) {
        struct figure *f = add_figure(r, strcmp(result.unit, "GiB") ? "KV cache size" : "KV buffer", result.unit,
                                      result.reported, result.computed, result.exact || fabs(result.error) <= 0.01);
        double off = strcmp(result.unit, "GiB") ? (result.reported - result.computed) * (double)result.bytes_per_token
                                                : (result.reported - result.computed) * GIB;
        say(f, "%" PRIu64 " bytes per token of %s%s%s%s", result.bytes_per_token, result.model,
            *result.assumption ? "; assumed: " : "", result.assumption, result.exact ? ", exact" : "");
        if (!f->agrees)
            say(f, "%+.0f bytes of KV: %s", off, result.reason);
    }
    if (result.verdict != CASE_NOT_COMPUTABLE && result.has_concurrency) {
        struct figure *f = add_figure(r, "maximum concurrency", "x", result.reported_concurrency,
                                      result.computed_concurrency, result.concurrency_exact);
        say(f,
            f->agrees ? "blocks over blocks of one request of %s tokens" : "does not follow from the tokens and length %s",
            c.max_model_len);
    }
}

// A refusal to start: what one request of the longest length needs.
static void explain_needed(const struct options *o, const struct engine_log *log, const char *model, struct report *r)
{
    struct question q = {.pp = 0};
    struct answer a;
    struct error e = {0};
    if (has(log, LOG_NEEDED_GIB) && has(log, LOG_LENGTH) && open_question(o, log, model, NULL, &q, &e) &&
        question_ask(&q, &a, &e)) {
        double computed = (double)a.engine.request_bytes / GIB, printed = log->value[LOG_NEEDED_GIB];
        struct figure *f =
            add_figure(r, "needed for one request", "GiB", printed, computed, fabs(printed - computed) <= 0.01 * printed);
        say(f, f->agrees ? "blocks of %.0f tokens" : "the rule differs for %.0f tokens", log->value[LOG_LENGTH]);
    }
    question_close(&q);
}

static bool print_json(const struct engine_log *log, const struct report *r)
{
    cJSON *json = cJSON_CreateObject(), *figures;
    cJSON_AddStringToObject(json, "engine", log->engine);
    cJSON_AddStringToObject(json, "version", log->version);
    cJSON_AddStringToObject(json, "model", log->model);
    cJSON_AddStringToObject(json, "device", log->device);
    cJSON_AddStringToObject(json, "note", r->note);
    figures = cJSON_AddArrayToObject(json, "figures");
    for (int i = 0; i < r->n; i++) {
        cJSON *f = cJSON_CreateObject();
        cJSON_AddStringToObject(f, "name", r->figure[i].name);
        cJSON_AddStringToObject(f, "unit", r->figure[i].unit);
        cJSON_AddNumberToObject(f, "printed", r->figure[i].printed);
        cJSON_AddNumberToObject(f, "computed", r->figure[i].computed);
        cJSON_AddBoolToObject(f, "agrees", r->figure[i].agrees);
        cJSON_AddStringToObject(f, "term", r->figure[i].term);
        cJSON_AddItemToArray(figures, f);
    }
    char *text = cJSON_Print(json);
    bool ok = text && puts(text) >= 0;
    free(text);
    cJSON_Delete(json);
    return ok;
}

static void print_text(const struct engine_log *log, const struct report *r)
{
    printf("%s %s%s%s%s%s\n", log->engine, log->version, *log->model ? ", " : "", log->model, *log->device ? ", " : "",
           log->device);
    for (int i = 0; i < r->n; i++) {
        const struct figure *f = &r->figure[i];
        int digits = strcmp(f->unit, "tokens") ? 2 : 0;
        printf("  %-8s %-24s printed %.*f, computed %.*f %s: %s\n", f->agrees ? "agrees" : "differs", f->name, digits,
               f->printed, digits, f->computed, f->unit, f->term);
    }
    if (*r->note)
        printf("  %s\n", r->note);
}

static bool read_log(const char *path, char **text, size_t *size, struct error *e)
{
    enum { MOST = 1 << 26 };
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    size_t n = 0, room = 1 << 16;
    char *buffer = f ? malloc(room) : NULL;
    if (!f)
        return error_set(e, ERROR_FILE, "'%.200s' could not be opened", path);
    for (size_t got; buffer && n < MOST && (got = fread(buffer + n, 1, room - n, f)) > 0;) {
        n += got;
        char *grown = n == room ? realloc(buffer, room *= 2) : buffer;
        if (!grown)
            free(buffer);
        buffer = grown;
    }
    if (f != stdin)
        fclose(f);
    *text = buffer, *size = n;
    return buffer != NULL || error_set(e, ERROR_MEMORY, "no memory to read '%.200s'", path);
}

static bool explain(const struct options *o, const struct engine_log *log, int *exit_code, struct error *e)
{
    struct report r = {.n = 0};
    struct catalogue_name *names;
    int n;
    if (!catalogue_names("models", &names, &n, e))
        return false;
    const char *stated = o->model && *o->model ? o->model : log->model;
    const struct catalogue_name *known = catalogue_recognise(names, n, stated);
    explain_budget(log, &r);
    explain_free(log, &r);
    explain_weights(o, log, known ? known->key : stated, &r);
    explain_needed(o, log, known ? known->key : stated, &r);
    explain_cache(o, log, names, n, &r);
    free(names);
    for (int i = 0; i < r.n; i++)
        *exit_code |= !r.figure[i].agrees;
    if (!o->json)
        print_text(log, &r);
    return !o->json || print_json(log, &r) || error_set(e, ERROR_MEMORY, "no memory to print");
}

bool kvcalc_explain(const struct options *o, int *exit_code, struct error *e)
{
    struct engine_log log;
    char *text = NULL;
    size_t size = 0;
    if (o->n_args != 1)
        return error_set(e, ERROR_USAGE, "expected one log: kvcalc explain LOG (- reads standard input)");
    if (!read_log(o->arg[0], &text, &size, e))
        return false;
    engine_log_read(&log, text, size);
    free(text);
    bool states = false;
    for (int i = 0; i < LOG_NUMBER_COUNT; i++)
        states |= has(&log, (enum log_number)i);
    if (!log.engine || !states)
        return error_set(e, ERROR_FILE, "'%.200s': no line of vLLM, SGLang, TensorRT-LLM or llama.cpp is recognised",
                         o->arg[0]);
    return explain(o, &log, exit_code, e);
}
