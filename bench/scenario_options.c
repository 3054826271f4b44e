// A scenario from command-line flags, llama-bench's names included.
#include "bench/scenario.h"

#include "engine/base/file.h"

#include <stdlib.h>
#include <string.h>

static bool copy_counts(const struct int_list *from, const char *flag, int32_t min, int32_t max, struct count_list *to,
                        struct error *e)
{
    if (from->n > SCENARIO_MAX_LIST)
        return error_set(e, ERROR_USAGE, "'%s' has more than %d values", flag, SCENARIO_MAX_LIST);
    to->n = from->n;
    for (int32_t i = 0; i < from->n; i++) {
        if (from->value[i] < min || from->value[i] > max)
            return error_set(e, ERROR_USAGE, "'%s' is %d, expected %d to %d", flag, from->value[i], min, max);
        to->value[i] = from->value[i];
    }
    return true;
}

static bool parse_type(const char *text, const char *flag, enum dtype *out, struct error *e)
{
    return dtype_parse(text, out) ||
           error_set(e, ERROR_USAGE, "'%s' is '%.40s', expected a type such as bf16, f16, f32, int8 or fp8", flag, text);
}

static bool copy_weights(const struct text_list *from, struct weights_list *to, struct error *e)
{
    if (from->n > SCENARIO_MAX_LIST)
        return error_set(e, ERROR_USAGE, "'--weights' has more than %d values", SCENARIO_MAX_LIST);
    to->n = from->n;
    for (int32_t i = 0; i < from->n; i++)
        if (!parse_type(from->value[i], "--weights", &to->value[i], e))
            return false;
    return true;
}

static bool push_kv(struct kv_list *list, struct kv_type kv, struct error *e)
{
    if (list->n == SCENARIO_MAX_LIST)
        return error_set(e, ERROR_USAGE, "more than %d KV types", SCENARIO_MAX_LIST);
    list->value[list->n++] = kv;
    return true;
}

static int32_t at_least_one(int32_t n)
{
    return n ? n : 1;
}

// --kv gives types of both; -ctk and -ctv their product, one of them alone leaves the other at its default.
static bool copy_kv(const struct options *o, struct kv_list *to, struct error *e)
{
    struct kv_type kv = {0};
    const struct text_list *k = &o->type_k, *v = &o->type_v;
    for (int32_t i = 0; i < o->kv.n; i++) {
        if (!kv_type_parse(o->kv.value[i], &kv))
            return parse_type(o->kv.value[i], "--kv", &kv.k, e);
        if (!push_kv(to, kv, e))
            return false;
    }
    kv = (struct kv_type){.own_k = !k->n, .own_v = !v->n};
    for (int32_t i = 0; (k->n || v->n) && i < at_least_one(k->n); i++)
        for (int32_t j = 0; j < at_least_one(v->n); j++)
            if ((k->n && !parse_type(k->value[i], "--type-k", &kv.k, e)) ||
                (v->n && !parse_type(v->value[j], "--type-v", &kv.v, e)) || !push_kv(to, kv, e))
                return false;
    return true;
}

static struct count_list just(int32_t value)
{
    return (struct count_list){.n = 1, .value = {value}};
}

// The lists that every kind of section shares; `to` then gets its own.
static bool common_lists(const struct options *o, struct section *to, struct error *e)
{
    *to = (struct section){.n_prompt = just(0), .n_gen = just(0), .n_depth = just(0), .cache = just(1)};
    if (o->has_n_depth && !copy_counts(&o->n_depth, "--n-depth", 0, SCENARIO_MAX_TOKENS - 1, &to->n_depth, e))
        return false;
    return copy_counts(&o->batch, "--batch", 1, SCENARIO_MAX_BATCH, &to->batch, e) &&
           copy_counts(&o->block, "--block", 0, SCENARIO_MAX_TOKENS, &to->block, e) && copy_kv(o, &to->kv, e);
}

static bool add(struct scenario *s, const struct section *section, enum phase phase, struct error *e)
{
    if (s->n_sections == SCENARIO_MAX_SECTIONS)
        return error_set(e, ERROR_USAGE, "more than %d kinds of points", SCENARIO_MAX_SECTIONS);
    s->section[s->n_sections] = *section;
    s->section[s->n_sections++].phase = phase;
    return true;
}

// Whether a list of counts asks for anything: as in llama-bench, 0 is "none of this test".
static bool asked(const struct int_list *list)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->value[i])
            return true;
    return false;
}

static void drop_zeros(struct count_list *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++)
        if (list->value[i])
            list->value[n++] = list->value[i];
    list->n = n;
}

static bool add_prefill(struct scenario *s, const struct options *o, struct section section, struct error *e)
{
    if (!copy_counts(&o->n_prompt, "--n-prompt", 0, SCENARIO_MAX_TOKENS, &section.n_prompt, e))
        return false;
    drop_zeros(&section.n_prompt);
    return add(s, &section, PHASE_PREFILL, e);
}

// --n-gen steps after --n-depth positions, or one step whose token attends --context positions.
static bool add_decode(struct scenario *s, const struct options *o, struct section section, struct error *e)
{
    section.n_gen = just(1);
    if (o->has_n_gen && !copy_counts(&o->n_gen, "--n-gen", 0, SCENARIO_MAX_TOKENS, &section.n_gen, e))
        return false;
    drop_zeros(&section.n_gen);
    if (o->has_context && !copy_counts(&o->context, "--context", 1, SCENARIO_MAX_TOKENS, &section.n_depth, e))
        return false;
    for (int32_t i = 0; o->has_context && i < section.n_depth.n; i++)
        section.n_depth.value[i]--;
    return add(s, &section, PHASE_DECODE, e);
}

static bool add_prompt_gen(struct scenario *s, const char *pair, struct section section, struct error *e)
{
    struct int_list list;
    if (!int_list_parse(pair, &list, e))
        return error_prefix(e, "'--prompt-gen'");
    bool ok = list.n == 2 && list.value[0] > 0 && list.value[1] > 0 && list.value[0] < SCENARIO_MAX_TOKENS &&
              list.value[1] < SCENARIO_MAX_TOKENS;
    section.n_prompt = just(ok ? list.value[0] : 0);
    section.n_gen = just(ok ? list.value[1] : 0);
    free(list.value);
    return ok ? add(s, &section, PHASE_GENERATE, e)
              : error_set(e, ERROR_USAGE, "'--prompt-gen' is '%.40s', expected two positive numbers such as 512,128", pair);
}

// No lengths asked for: one decode step, and where no batch is asked for either, one prefill.
static bool add_default_sections(struct scenario *s, const struct options *o, struct section section, struct error *e)
{
    section.n_prompt = just(512);
    if (!o->has_batch && !add(s, &section, PHASE_PREFILL, e))
        return false;
    section.n_prompt = just(0), section.n_gen = just(1), section.n_depth = just(511);
    return add(s, &section, PHASE_DECODE, e);
}

static bool add_sections(struct scenario *s, const struct options *o, struct error *e)
{
    struct section section;
    if (o->has_context && o->has_n_depth)
        return error_set(e, ERROR_USAGE, "'--context' and '--n-depth' say the same (context = depth + 1), expected one");
    if (!common_lists(o, &section, e))
        return false;
    if (asked(&o->n_prompt) && !add_prefill(s, o, section, e))
        return false;
    bool only_depth = o->has_n_depth && !o->has_n_prompt && !o->has_prompt_gen;
    bool decode = o->has_n_gen ? asked(&o->n_gen) : o->has_context || only_depth;
    if (decode && !add_decode(s, o, section, e))
        return false;
    for (int32_t i = 0; i < o->prompt_gen.n; i++)
        if (!add_prompt_gen(s, o->prompt_gen.value[i], section, e))
            return false;
    if (s->n_sections)
        return true;
    if (o->has_n_prompt || o->has_n_gen)
        return error_set(e, ERROR_USAGE, "nothing is asked for: 0 prompt tokens and 0 steps");
    return add_default_sections(s, o, section, e);
}

static bool override_text(bool given, const char *text, const char *flag, char *out, size_t size, struct error *e)
{
    if (given && (!*text || strlen(text) >= size))
        return error_set(e, ERROR_USAGE, "'%s' is empty or too long", flag);
    if (given)
        snprintf(out, size, "%s", text);
    return true;
}

static bool override_int(bool given, int32_t value, const char *flag, int32_t min, int32_t max, int32_t *out,
                         struct error *e)
{
    if (given && (value < min || value > max))
        return error_set(e, ERROR_USAGE, "'%s' is %d, expected %d to %d", flag, value, min, max);
    if (given)
        *out = value;
    return true;
}

static bool override_real(bool given, double value, const char *flag, double min, double *out, struct error *e)
{
    if (given && !(value >= min && value <= 86400))
        return error_set(e, ERROR_USAGE, "'%s' is %g, expected %g to 86400", flag, value, min);
    if (given)
        *out = value;
    return true;
}

static bool override_types(struct scenario *s, const struct options *o, struct error *e)
{
    if (o->has_weights && !copy_weights(&o->weights, &s->weights, e))
        return false;
    s->has_compute |= o->has_compute;
    return !o->has_compute || parse_type(o->compute, "--compute", &s->compute, e);
}

// One name or path, or several with commas between them.
static bool override_models(struct scenario *s, const struct options *o, struct error *e)
{
    bool is_path = o->has_model && file_exists(o->model);
    if (!o->has_model)
        return true;
    s->n_models = 0;
    for (const char *at = o->model; at; at = *at ? at + 1 : NULL) {
        size_t n = is_path ? strlen(at) : strcspn(at, ",");
        if (!n || n >= sizeof *s->model)
            return error_set(e, ERROR_USAGE, "'--model' is empty or too long");
        if (s->n_models == SCENARIO_MAX_MODELS)
            return error_set(e, ERROR_USAGE, "'--model' has more than %d names", SCENARIO_MAX_MODELS);
        snprintf(s->model[s->n_models++], sizeof *s->model, "%.*s", (int)n, at);
        at += n;
        if (!*at)
            break;
    }
    return true;
}

bool scenario_override(struct scenario *s, const struct options *o, struct error *e)
{
    if (o->has_threads_list && !copy_counts(&o->threads_list, "--threads", 0, 4096, &s->threads, e))
        return false;
    return override_models(s, o, e) &&
           override_text(o->has_backend, o->backend, "--backend", s->backend, sizeof s->backend, e) &&
           override_text(o->has_hardware, o->hardware, "--hardware", s->hardware, sizeof s->hardware, e) &&
           override_int(o->has_tp, o->tp, "--tp", 1, 1024, &s->tp, e) &&
           override_int(o->has_repetitions, o->repetitions, "--repetitions", 1, 100000, &s->samples, e) &&
           override_int(o->has_warmup, o->warmup, "--warmup", 1, 1000, &s->warmup, e) &&
           override_int(o->has_seed, o->seed, "--seed", 0, INT32_MAX, &s->seed, e) &&
           override_real(o->has_seconds, o->seconds, "--seconds", 0, &s->seconds, e) &&
           override_real(o->has_budget, o->budget, "--budget", 0, &s->budget_s, e) &&
           override_real(o->has_timeout, o->timeout, "--timeout", 0.001, &s->timeout_s, e) && override_types(s, o, e);
}

bool scenario_from_options(struct scenario *s, const struct options *o, struct error *e)
{
    scenario_init(s, SCENARIO_COMMAND_LINE, "run");
    if (!o->has_model)
        return error_set(e, ERROR_USAGE, "'--model' is missing, expected a catalogue name (kvbench list models) or a path");
    return scenario_override(s, o, e) && add_sections(s, o, e) && scenario_check_names(s, e);
}
