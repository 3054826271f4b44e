#include "roofline/case_facts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEEPSEEK_LATENT = 512, DEEPSEEK_ROPE = 64, DEEPSEEK_INDEX_BYTES = 132 };
// More than any log can say: what exceeds it is no number of ours, and products of these stay in range.
enum { MOST_RANKS = 1024, MOST_COUNT = 1 << 20 };
#define CASE_MOST 1e12

bool case_number(const char *text, double *out, double *half_digit)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !(isdigit((unsigned char)*text) || *text == '-') ||
        !(*out >= -CASE_MOST && *out <= CASE_MOST))
        return false;
    const char *point = strchr(text, '.');
    *half_digit = 0.5;
    for (const char *at = point ? point + 1 : ""; *at; at++)
        *half_digit /= 10;
    return true;
}

int32_t case_number_after(const char *text, const char *word)
{
    const char *at = strcasestr(text, word);
    if (!at)
        return 0;
    at += strlen(word);
    at += strcspn(at, "0123456789") < 8 ? strcspn(at, "0123456789") : 0;
    long value = strtol(at, NULL, 10);
    return value <= MOST_RANKS ? (int32_t)value : 0;
}

static bool integer(const char *text, int32_t *out)
{
    double value, half;
    if (!case_number(text, &value, &half) || value < 1 || value > MOST_COUNT || value != (int32_t)value)
        return false;
    *out = (int32_t)value;
    return true;
}

// The type in one word of text: "bf16", "fp8_e4m3", "q8_0", and vLLM's "fp8 (656 B/token/layer)".
static bool type_of(const char *text, enum dtype *out)
{
    char word[32];
    size_t n = 0;
    text += strspn(text, " (");
    while (n < sizeof word - 1 && (isalnum((unsigned char)text[n]) || text[n] == '_'))
        n++;
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    if (strstr(text, "656") || !strncasecmp(word, "fp8_ds", 6)) {
        *out = DTYPE_FP8_DS_MLA;
        return true;
    }
    if (!strncasecmp(word, "fp8", 3)) { // e4m3, e5m2
        *out = DTYPE_FP8;
        return true;
    }
    if (!strcasecmp(word, "auto")) {
        const char *in = strchr(text, '(');
        *out = DTYPE_BF16;
        return !in || type_of(in, out);
    }
    return n > 0 && dtype_parse(word, out);
}

// "bf16"; "K (q8_0), V (f16)"; "c^KV (f16), kv^T: not used"; else the words of v_rule.
static bool types_of(const struct kv_case *c, enum dtype *k, enum dtype *v)
{
    const char *key = strstr(c->kv_dtype, "K ("), *value = strstr(c->kv_dtype, ", V ("),
               *latent = strstr(c->kv_dtype, "KV (");
    if (latent)
        return type_of(latent + 3, k) && type_of(latent + 3, v);
    if (key && value)
        return type_of(key + 2, k) && type_of(value + 4, v);
    if (*c->kv_dtype)
        return type_of(c->kv_dtype, k) && type_of(c->kv_dtype, v);
    for (const char *at = c->v_rule; *at; at++)
        if ((at == c->v_rule || at[-1] == ' ') && !isdigit((unsigned char)*at) && type_of(at, k)) {
            *v = *k;
            return true;
        }
    return false;
}

// "mla, 14 of 27 layers", "mla 32 layers": layers of this rank, and of the model where that is said.
static bool layers_in_rule(const char *rule, int32_t *mine, int32_t *all)
{
    char word[16];
    for (const char *at = rule; (at = strpbrk(at, "0123456789")); at += strspn(at, "0123456789")) {
        *all = 0;
        if (sscanf(at, "%d of %d layer", mine, all) == 2 ||
            (sscanf(at, "%d %15s", mine, word) == 2 && !strncmp(word, "layer", 5)))
            return *mine > 0;
    }
    return false;
}

// v_rule "kv": the four columns beside it.
static bool stated_heads(const struct kv_case *c, struct case_facts *out)
{
    int32_t layers, heads, dim;
    double bytes, half;
    if (strncmp(c->v_rule, "kv", 2) || !integer(c->v_layers, &layers) || !integer(c->v_kv_heads, &heads) ||
        !integer(c->v_head_dim, &dim) || !case_number(c->v_bytes, &bytes, &half) || bytes <= 0)
        return false;
    out->layout = kv_layout_uniform(layers, (uint64_t)(2.0 * heads * dim * bytes + 0.5), false);
    out->kv_stated = out->tp_stated = true; // heads are those of the rank, bytes those of the type
    snprintf(out->model, sizeof out->model, "v_*");
    return true;
}

// v_rule "mla ...": rows of 512 + 64 values as DeepSeek has them, or "LAYERS x VALUES".
static bool stated_latents(const struct kv_case *c, enum dtype type, struct case_facts *out)
{
    int32_t layers = 0, values = DEEPSEEK_LATENT + DEEPSEEK_ROPE, all;
    const char *at = strpbrk(c->v_rule, "0123456789");
    if (strncmp(c->v_rule, "mla", 3))
        return false;
    bool both = at && sscanf(at, "%d x %d", &layers, &values) == 2;
    if (!both && !integer(c->v_layers, &layers) && !layers_in_rule(c->v_rule, &layers, &all))
        return false;
    if (layers < 1 || values < 1 || values % dtype_block(type))
        return false;
    uint64_t row = dtype_row_bytes(type, (uint64_t)values) + (strstr(c->v_rule, "DSA") ? DEEPSEEK_INDEX_BYTES : 0);
    out->layout = kv_layout_uniform(layers, row, true);
    out->tp_stated = true; // every rank has all of it
    snprintf(out->model, sizeof out->model, "v_*");
    return true;
}

// llama.cpp's forms of a latent. The unfolded one is what the model's own heads would keep.
static uint64_t latent_row(const struct model_spec *s, enum latent_form form, enum dtype k, enum dtype v)
{
    const struct mla_spec *m = &s->mla;
    uint64_t n = (uint64_t)m->qk_nope_head_dim, r = (uint64_t)m->qk_rope_head_dim, R = (uint64_t)m->kv_lora_rank;
    uint64_t heads = (uint64_t)s->num_attention_heads;
    if (form == LATENT_UNFOLDED)
        return heads * (dtype_row_bytes(k, n + r) + dtype_row_bytes(v, (uint64_t)m->v_head_dim));
    return dtype_row_bytes(k, R + r) + (form == LATENT_TWICE ? dtype_row_bytes(v, R) : 0);
}

static void apply_llama_form(const struct kv_case *c, const struct model_spec *s, const struct case_guess *guess,
                             enum dtype k, enum dtype v, struct case_facts *out)
{
    const char *transposed = strstr(c->kv_dtype, "kv^T");
    enum latent_form form = guess->latent;
    out->latent_form_open = !strstr(c->kv_dtype, "c^KV");
    if (!out->latent_form_open)
        form = transposed && !strstr(transposed, "not used") ? LATENT_TWICE : LATENT_ONCE;
    out->layout = kv_layout_uniform(s->num_hidden_layers, latent_row(s, form, k, v), true);
}

// vLLM stores the latents of models with an indexer packed when it is asked for fp8.
static enum dtype engine_type(enum serving_engine engine, const struct model_spec *s, const char *asked, enum dtype k)
{
    bool packed = engine == ENGINE_VLLM && s->mla.index_n_heads && k == DTYPE_FP8 && !strcasecmp(asked, "fp8");
    return packed ? DTYPE_FP8_DS_MLA : k;
}

static bool plan_layout(const struct model_spec *spec, int32_t tp, enum dtype k, enum dtype v, struct kv_layout *out,
                        struct error *e)
{
    struct plan plan;
    struct plan_options options = plan_options_default(DTYPE_BF16);
    options.tp = tp, options.kv_k = k, options.kv_v = v;
    if (!plan_make(&plan, spec, &options, e))
        return false;
    *out = kv_layout_of_plan(&plan);
    plan_free(&plan);
    return true;
}

// A pipeline stage has some of the layers: of one kind, so many; of several, in proportion.
static void keep_stage(struct kv_layout *l, const char *rule)
{
    int32_t mine, all;
    if (!layers_in_rule(rule, &mine, &all) || !all)
        return;
    for (int32_t i = 0; i < l->n; i++)
        l->layers[i].n_layers = (l->layers[i].n_layers * mine + all - 1) / all;
}

static bool model_layout(const struct kv_case *c, enum serving_engine engine, const struct case_guess *guess,
                         const struct catalogue_name *name, enum dtype k, enum dtype v, struct case_facts *out,
                         char reason[200])
{
    struct model model;
    struct error e = {0};
    int32_t tp = guess->tp;
    out->tp_stated = integer(c->tp, &tp) || engine == ENGINE_LLAMACPP;
    snprintf(out->model, sizeof out->model, "%.60s", name->key);
    bool ok = model_open(&model, name->path, &e);
    if (ok)
        k = engine_type(engine, &model.spec, c->kv_dtype, k);
    ok = ok && plan_layout(&model.spec, engine == ENGINE_LLAMACPP ? 1 : tp, k, v, &out->layout, &e);
    if (ok && engine == ENGINE_LLAMACPP && model.spec.mla.kv_lora_rank)
        apply_llama_form(c, &model.spec, guess, k, v, out);
    if (ok)
        keep_stage(&out->layout, c->v_rule);
    else
        snprintf(reason, 200, "%.199s", e.message);
    model_close(&model);
    return ok;
}

bool case_facts_read(const struct kv_case *c, enum serving_engine engine, const struct case_guess *guess,
                     const struct catalogue_name *names, int n_names, struct case_facts *out, char reason[200])
{
    enum dtype k = guess->kv, v = guess->kv;
    *out = (struct case_facts){0};
    if (stated_heads(c, out))
        return true;
    out->kv_stated = types_of(c, &k, &v);
    if (!out->kv_stated && *c->kv_dtype) {
        snprintf(reason, 200, "kv_dtype '%.40s' is no type that is known", c->kv_dtype);
        return false;
    }
    const struct catalogue_name *name = catalogue_recognise(names, n_names, c->model);
    if (name && model_layout(c, engine, guess, name, k, v, out, reason))
        return true;
    if (stated_latents(c, k, out))
        return true;
    if (!name)
        snprintf(reason, 200, "the attention of '%.60s' is missing: no such model in the catalogue, and v_rule %s%.40s%s",
                 c->model, *c->v_rule ? "'" : "", *c->v_rule ? c->v_rule : "is empty", *c->v_rule ? "' needs one" : "");
    return false;
}
