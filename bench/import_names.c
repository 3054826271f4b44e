// What the names in a source mean: models and hardware of the catalogue, types. A name that is unknown stays so; the message
// names the nearest.
#include "bench/import.h"
#include "roofline/catalogue.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What a text turned out to mean.
struct meaning {
    char text[176];
    bool own, found;
    char reason[200];
    int32_t devices; // hardware: how many the text names, 0 where it does not say
    struct model_spec spec;
    struct hardware hw;
};

enum { MAX_MEANINGS = 512 };
struct import_catalogue {
    struct catalogue_name *models;
    int n_models;
    struct meaning *model[MAX_MEANINGS], *hardware[MAX_MEANINGS]; // pointers stay valid
    int n_model, n_hardware;
};

struct import_catalogue *import_catalogue_open(struct error *e)
{
    struct import_catalogue *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(e, ERROR_MEMORY, "no memory for the catalogue");
        return NULL;
    }
    if (catalogue_names("models", &c->models, &c->n_models, e))
        return c;
    free(c);
    return NULL;
}

static void forget(struct meaning **list, int *n)
{
    while (*n)
        free(list[--*n]);
}

void import_catalogue_close(struct import_catalogue *c)
{
    if (!c)
        return;
    forget(c->model, &c->n_model);
    forget(c->hardware, &c->n_hardware);
    free(c->models);
    free(c);
}

// The meaning of a text that was asked for before; else a new one to be filled (*known false). Many different texts push
// the old ones out, which no row holds on to.
static struct meaning *recall(struct meaning **list, int *n, const char *text, bool own, bool *known)
{
    for (int i = 0; i < *n; i++)
        if (list[i]->own == own && !strcmp(list[i]->text, text)) {
            *known = true;
            return list[i];
        }
    if (*n == MAX_MEANINGS)
        forget(list, n);
    struct meaning *m = calloc(1, sizeof *m);
    *known = false;
    if (!m)
        return NULL;
    snprintf(m->text, sizeof m->text, "%s", text);
    m->own = own;
    list[(*n)++] = m;
    return m;
}

static bool open_spec(const char *path, struct meaning *m, struct error *e)
{
    struct model model;
    if (!model_open(&model, path, e))
        return false;
    m->spec = model.spec;
    model_close(&model);
    return true;
}

// A type of weights at the end of a name: "-Q4_K_M", "-UD-IQ2_XS", "-FP8".
static void drop_type(char *name)
{
    double bits;
    enum dtype type;
    for (char *last; (last = strrchr(name, '-')) && last > name && import_weight_type(last + 1, &bits, &type);) {
        *last = 0;
        size_t n = strlen(name);
        if (n > 3 && !strcasecmp(name + n - 3, "-UD"))
            name[n - 3] = 0;
    }
}

// "models/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf" names a model by its last part. What a file names is looked up, never
// opened.
static void bare_name(const char *text, char out[176])
{
    const char *slash = strrchr(text, '/'), *from = slash ? slash + 1 : text;
    snprintf(out, 176, "%s", from);
    size_t n = strlen(out);
    if (n > 5 && !strcasecmp(out + n - 5, ".gguf"))
        out[n - 5] = 0;
    char *part = strstr(out, "-00001-of-");
    if (part)
        *part = 0;
    for (char *dot = out; (dot = strchr(dot, '.')); dot++)
        if (dot[1] && !isdigit((unsigned char)dot[1])) // NAME.Q4_K_M, but not Llama-3.1
            *dot = '-';
    drop_type(out);
}

// "llama3.3-70b" for "llama-3.3-70b": the first digit behind letters begins a word. False if there is none.
static bool part_digits(char name[176])
{
    size_t n = 0, length = strlen(name);
    while (isalpha((unsigned char)name[n]))
        n++;
    if (n < 3 || !isdigit((unsigned char)name[n]) || length + 2 > 176)
        return false;
    memmove(name + n + 1, name + n, length - n + 1);
    name[n] = '-';
    return true;
}

static bool find_model(const struct import_catalogue *c, const char *text, struct meaning *m, struct error *e)
{
    char name[176], path[1024];
    bare_name(text, name);
    if (catalogue_find("models", name, path, sizeof path, e))
        return open_spec(path, m, e);
    const struct catalogue_name *found = catalogue_recognise(c->models, c->n_models, name);
    if (!found && part_digits(name))
        found = catalogue_recognise(c->models, c->n_models, name);
    return found && open_spec(found->path, m, e);
}

static bool open_own(const char *text, struct meaning *m, struct error *e)
{
    struct model model;
    if (!catalogue_open_model(&model, text, e))
        return false;
    m->spec = model.spec;
    model_close(&model);
    return true;
}

const struct model_spec *import_model(struct import_catalogue *c, const char *text, bool own, char reason[200])
{
    bool known;
    struct error e = {0};
    struct meaning *m = recall(c->model, &c->n_model, text, own, &known);
    if (m && !known) {
        m->found = own ? open_own(text, m, &e) : find_model(c, text, m, &e);
        snprintf(m->reason, sizeof m->reason, "%.199s", e.message);
    }
    if (m && !m->found)
        snprintf(reason, 200, "%s", m->reason);
    return m && m->found ? &m->spec : NULL;
}

// Words that say nothing about which device it is.
static bool is_noise(const char *word)
{
    static const char *const NOISE[] = {"nvidia",   "amd",         "intel",   "geforce", "tesla",      "instinct",
                                        "radeon",   "platinum",    "gold",    "cpu",     "gpu",        "processor",
                                        "graphics", "generation",  "edition", "core",    "r",          "tm",
                                        "per",      "workstation", "server",  "dgx",     "accelerator"};
    for (size_t i = 0; i < sizeof NOISE / sizeof *NOISE; i++)
        if (!strcasecmp(word, NOISE[i]))
            return true;
    size_t n = strlen(word); // "64-Core"
    return n > 5 && !strcasecmp(word + n - 5, "-core");
}

// "8x H100 SXM", "H100 SXM x8": how many, and the name without that.
static int32_t leading_count(const char **text)
{
    char *end;
    long n = strtol(*text, &end, 10);
    if (end == *text || n < 1 || n > 100000 || (*end != 'x' && *end != 'X' && strncmp(end, "×", 2)))
        return 0;
    end += *end == 'x' || *end == 'X' ? 1 : 2;
    if (*end != ' ' && !isalpha((unsigned char)*end))
        return 0;
    *text = end + strspn(end, " ");
    return (int32_t)n;
}

// "NVIDIA GeForce RTX 4090" and "AMD EPYC 9554 64-Core Processor" as the catalogue spells them: words joined by '-'.
static void plain_device(const char *text, char out[176])
{
    size_t n = 0;
    *out = 0;
    for (const char *at = text; *at;) {
        char word[64];
        size_t length = strcspn(at, " ()");
        snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), at);
        if (*word && !is_noise(word) && n + strlen(word) + 2 < 176)
            n += (size_t)snprintf(out + n, 176 - n, "%s%s", n ? "-" : "", word);
        at += length + (at[length] != 0);
    }
}

// Devices with commas between them: of one kind, or the first differs and they are none of ours.
static bool same_devices(const char *text, char first[176], int32_t *n)
{
    size_t length = strcspn(text, ",");
    snprintf(first, 176, "%.*s", (int)(length < 175 ? length : 175), text);
    for (*n = 1; text[length]; ++*n) {
        text += length + 1;
        text += strspn(text, " ");
        length = strcspn(text, ",");
        if (length != strlen(first) || strncmp(text, first, length))
            return false;
    }
    return true;
}

static bool find_hardware(const char *text, struct meaning *m, struct error *e)
{
    char first[176], name[176], path[1024];
    struct error plain;
    const char *at = first;
    if (!same_devices(text, first, &m->devices))
        return error_set(e, ERROR_USAGE, "devices of several kinds: '%.120s'", text);
    m->devices = m->devices > 1 ? m->devices : leading_count(&at);
    if (catalogue_find("hardware", at, path, sizeof path, e))
        return hardware_load(&m->hw, path, e);
    plain_device(at, name);
    char branded[192];
    snprintf(branded, sizeof branded, "NVIDIA %s", name); // as the driver spells it, which aliases are
    return *name &&
           (catalogue_find("hardware", name, path, sizeof path, &plain) ||
            catalogue_find("hardware", branded, path, sizeof path, &plain)) &&
           hardware_load(&m->hw, path, e);
}

const struct hardware *import_hardware(struct import_catalogue *c, const char *text, bool own, int32_t *devices,
                                       char reason[200])
{
    bool known;
    struct error e = {0};
    struct meaning *m = recall(c->hardware, &c->n_hardware, text, own, &known);
    if (m && !known) {
        m->found = own ? hardware_load(&m->hw, text, &e) : find_hardware(text, m, &e);
        snprintf(m->reason, sizeof m->reason, "%.199s", e.message);
    }
    *devices = m ? m->devices : 0;
    if (m && !m->found)
        snprintf(reason, 200, "%s", m->reason);
    return m && m->found ? &m->hw : NULL;
}

// Types by the beginnings of words. Bits are the least such a type takes, without scales where their number varies.
static const struct {
    const char *word;
    double bits;
    enum dtype type;
} WEIGHT[] = {
    {"bfloat16", 16, DTYPE_BF16}, {"float16", 16, DTYPE_F16},    {"float32", 32, DTYPE_F32},
    {"half", 16, DTYPE_F16},      {"bf16", 16, DTYPE_BF16},      {"fp16", 16, DTYPE_F16},
    {"f16", 16, DTYPE_F16},       {"fp32", 32, DTYPE_F32},       {"f32", 32, DTYPE_F32},
    {"mxfp4", 4.25, DTYPE_MXFP4}, {"nvfp4", 4.5, DTYPE_NVFP4},   {"fp4", 4, DTYPE_NVFP4},
    {"fp8", 8, DTYPE_FP8},        {"float8", 8, DTYPE_FP8},      {"e4m3", 8, DTYPE_FP8},
    {"int8", 8, DTYPE_INT8},      {"w8a", 8, DTYPE_INT8},        {"w4a", 4, DTYPE_INT4},
    {"w16a16", 16, DTYPE_BF16},   {"int4", 4, DTYPE_INT4},       {"awq", 4, DTYPE_INT4},
    {"gptq", 4, DTYPE_INT4},      {"4bit", 4, DTYPE_INT4},       {"8bit", 8, DTYPE_INT8},
    {"gf4", 4, DTYPE_COUNT},      {"q4f16", 4, DTYPE_COUNT},     {"q3f16", 3, DTYPE_COUNT},
    {"q8_0", 8.5, DTYPE_Q8_0},    {"q6_k", 6.5625, DTYPE_Q6_K},  {"q5_k", 5.5, DTYPE_Q5_K},
    {"q5_0", 5.5, DTYPE_Q5_0},    {"q5_1", 6, DTYPE_Q5_1},       {"q4_k", 4.5, DTYPE_Q4_K},
    {"q4_0", 4.5, DTYPE_Q4_0},    {"q4_1", 5, DTYPE_Q4_1},       {"q3_k", 3.4375, DTYPE_Q3_K},
    {"q2_k", 2.625, DTYPE_Q2_K},  {"iq4_nl", 4.5, DTYPE_IQ4_NL}, {"iq4_xs", 4.25, DTYPE_IQ4_XS},
    {"iq3", 3.0625, DTYPE_COUNT}, {"iq2", 2.0625, DTYPE_COUNT},  {"iq1", 1.5625, DTYPE_COUNT},
    {"exl2", 0, DTYPE_COUNT},     {"exl3", 0, DTYPE_COUNT},
};

// "4.0bpw"
static double bits_said(const char *text)
{
    const char *unit = strcasestr(text, "bpw"), *at = unit;
    while (at && at > text && (isdigit((unsigned char)at[-1]) || at[-1] == '.' || (at[-1] == ' ' && at == unit)))
        at--;
    double bits = at ? strtod(at, NULL) : 0;
    return bits > 0 && bits <= 64 ? bits : 0;
}

bool import_weight_type(const char *text, double *bits, enum dtype *type)
{
    const char *first = NULL;
    size_t found = 0, longest = 0;
    for (size_t i = 0; i < sizeof WEIGHT / sizeof *WEIGHT; i++)
        for (const char *at = text; (at = strcasestr(at, WEIGHT[i].word)); at++) {
            bool starts = at == text || !isalnum((unsigned char)at[-1]);
            size_t n = strlen(WEIGHT[i].word);
            if (!starts || (first && (at > first || (at == first && n <= longest))))
                continue;
            first = at, found = i, longest = n;
        }
    *bits = first ? WEIGHT[found].bits : 0;
    *type = first ? WEIGHT[found].type : DTYPE_COUNT;
    double said = bits_said(text);
    *bits = said > 0 ? said : *bits;
    return *bits > 0;
}

bool import_type(const char *text, enum dtype *type)
{
    double bits;
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(text, " (,"), text);
    if (dtype_parse(word, type))
        return true;
    return strcasecmp(word, "tf32") && import_weight_type(word, &bits, type) && *type != DTYPE_COUNT;
}
