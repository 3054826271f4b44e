// Which shapes are benched.
#include "bench/kernels.h"

#include "engine/cpu/cpu.h"
#include "roofline/catalogue.h"

#include <string.h>

#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof *(array)))

// A step goes over so many times what the last-level cache holds before it comes back.
enum { CACHE_TIMES = 4 };
#define LEAST_BYTES ((uint64_t)128 << 20) // where the cache is unknown, or a virtual machine sees a part of it

enum { SHORT = 32 }; // context of decode rows, so that attention is little
static const struct kernel_shape ROWS[] = {{1, 0, SHORT},  {2, 0, SHORT},  {4, 0, SHORT}, {8, 0, SHORT},  {16, 0, SHORT},
                                           {32, 0, SHORT}, {64, 0, SHORT}, {1, 512, 512}, {1, 2048, 2048}};
static const struct kernel_shape FEW_ROWS[] = {{1, 0, SHORT}, {8, 0, SHORT}, {32, 0, SHORT}, {1, 512, 512}};
static const struct kernel_shape CONTEXTS[] = {{1, 0, 1024}, {1, 0, 4096}, {1, 0, 16384}, {8, 0, 1024}, {8, 0, 4096}};
static const struct kernel_shape FEW_CONTEXTS[] = {{1, 0, 4096}, {8, 0, 1024}};

// Of the fit: batch, context and prompt that no scenario in configs/ has.
static const struct kernel_shape FIT[] = {
    {1, 0, 48},   {1, 0, 700},   {1, 0, 3000},  {1, 0, 6000},  {1, 0, 12000}, {2, 0, 200},     {2, 0, 5000},
    {3, 0, 96},   {3, 0, 2500},  {5, 0, 40},    {5, 0, 1500},  {7, 0, 900},   {9, 0, 1800},    {11, 0, 48},
    {13, 0, 400}, {15, 0, 1200}, {17, 0, 72},   {20, 0, 300},  {24, 0, 500},  {28, 0, 100},    {36, 0, 60},
    {1, 72, 72},  {1, 160, 160}, {1, 300, 300}, {1, 640, 640}, {2, 90, 90},   {1, 1200, 1200}, {1, 1800, 1800},
};

const struct kernel_shape *kernel_fit_shapes(int32_t *n)
{
    *n = COUNT_OF(FIT);
    return FIT;
}

// Nobody's models, between and around the sizes that are run: what a layer has in common with theirs is its operations.
int32_t kernel_fit_models(struct model_spec *spec, int32_t max)
{
    static const struct {
        const char *name;
        int32_t hidden, intermediate, vocab, heads, kv_heads, head_dim;
        bool qk_norm;
    } SIZE[] = {{"fit-small", 832, 2304, 40960, 12, 4, 64, false},
                {"fit-medium", 1408, 4352, 90112, 12, 6, 128, true},
                {"fit-large", 2432, 7296, 65536, 24, 6, 128, false}};
    int32_t n = 0;
    for (; n < COUNT_OF(SIZE) && n < max; n++) {
        spec[n] = (struct model_spec){.num_hidden_layers = 1,
                                      .hidden_size = SIZE[n].hidden,
                                      .intermediate_size = SIZE[n].intermediate,
                                      .vocab_size = SIZE[n].vocab,
                                      .num_attention_heads = SIZE[n].heads,
                                      .num_key_value_heads = SIZE[n].kv_heads,
                                      .head_dim = SIZE[n].head_dim,
                                      .max_position_embeddings = 1 << 20,
                                      .rms_norm_eps = 1e-6f,
                                      .tie_word_embeddings = true,
                                      .qk_norm = SIZE[n].qk_norm ? QK_NORM_HEAD : QK_NORM_NONE,
                                      .hidden_act = ACT_SILU,
                                      .dtype = DTYPE_BF16,
                                      .rope = {.rotary_dim = SIZE[n].head_dim, .theta = 10000}};
        snprintf(spec[n].name, sizeof spec[n].name, "%s", SIZE[n].name);
        snprintf(spec[n].family, sizeof spec[n].family, SIZE[n].qk_norm ? "qwen3" : "llama");
    }
    return n;
}

static bool weight_bytes(const struct model_spec *spec, enum dtype weights, uint64_t *bytes, struct error *e)
{
    struct plan plan;
    struct plan_options options = plan_options_default(weights);
    if (!plan_make(&plan, spec, &options, e))
        return false;
    *bytes = plan_weight_bytes(&plan);
    plan_free(&plan);
    return true;
}

// As many layers as the caches cannot keep, two at least and the model's at most.
static bool set_layers(struct model_spec *spec, enum dtype weights, const struct hardware *hw, struct error *e)
{
    uint64_t one, two, cache = hardware_cache(hw) * CACHE_TIMES, wanted = cache > LEAST_BYTES ? cache : LEAST_BYTES;
    int32_t most = spec->num_hidden_layers > 2 ? spec->num_hidden_layers : 48, n = 2;
    spec->num_hidden_layers = 1;
    if (!weight_bytes(spec, weights, &one, e))
        return false;
    spec->num_hidden_layers = 2;
    if (!weight_bytes(spec, weights, &two, e))
        return false;
    while (n < most && (uint64_t)n * (two - one) < wanted)
        n++;
    spec->num_hidden_layers = n;
    return true;
}

static bool add_job(struct kernel_jobs *jobs, struct kernel_job job, const struct hardware *hw, struct error *e)
{
    if (jobs->n == KERNEL_MAX_JOBS)
        return error_set(e, ERROR_USAGE, "'--weights' has too many types");
    if (!set_layers(&job.spec, job.weights, hw, e))
        return false;
    snprintf(job.name, sizeof job.name, "%.31s", job.spec.name);
    jobs->job[jobs->n++] = job;
    return true;
}

static bool catalogue_spec(const char *name, struct model_spec *spec, struct error *e)
{
    struct model m;
    if (!catalogue_open_model(&m, name, e))
        return false;
    *spec = m.spec;
    spec->tie_word_embeddings = true; // one table is enough to be the head
    model_close(&m);
    return true;
}

// A real model's shapes: all kernels by rows, and with the first type attention by context and KV type.
static bool add_shown(struct kernel_jobs *jobs, const char *name, const struct weights_list *weights,
                      const struct hardware *hw, bool quick, struct error *e)
{
    static const enum dtype KV[] = {DTYPE_BF16, DTYPE_INT8};
    struct kernel_job job = {0};
    bool ok = catalogue_spec(name, &job.spec, e);
    for (int32_t w = 0; ok && w < weights->n; w++) {
        job.weights = weights->value[w], job.kv = DTYPE_BF16, job.attention_only = false;
        job.shape = quick ? FEW_ROWS : ROWS, job.n_shapes = quick ? COUNT_OF(FEW_ROWS) : COUNT_OF(ROWS);
        ok = add_job(jobs, job, hw, e);
        job.attention_only = true;
        job.shape = quick ? FEW_CONTEXTS : CONTEXTS, job.n_shapes = quick ? COUNT_OF(FEW_CONTEXTS) : COUNT_OF(CONTEXTS);
        for (int32_t i = 0; ok && !w && i < COUNT_OF(KV); i++) {
            job.kv = KV[i];
            ok = add_job(jobs, job, hw, e);
        }
    }
    return ok;
}

static bool add_fitted(struct kernel_jobs *jobs, const struct weights_list *weights, const struct hardware *hw,
                       struct error *e)
{
    static const enum dtype KV[] = {DTYPE_BF16, DTYPE_INT8};
    struct model_spec spec[8];
    int32_t n = kernel_fit_models(spec, 8);
    for (int32_t w = 0; w < weights->n; w++)
        for (int32_t m = 0; m < n; m++)
            for (int32_t i = 0; i < (w ? 1 : COUNT_OF(KV)); i++) { // attention does not depend on the weights
                struct kernel_job job = {.spec = spec[m], .weights = weights->value[w], .kv = KV[i], .fits = true};
                job.shape = FIT, job.n_shapes = COUNT_OF(FIT);
                if (!add_job(jobs, job, hw, e))
                    return false;
            }
    return true;
}

static bool wanted(const char *name, const char *which)
{
    return !which || !strcmp(name, which);
}

bool kernel_jobs_make(struct kernel_jobs *jobs, const char *which, const struct weights_list *weights,
                      const struct hardware *hw, bool quick, struct error *e)
{
    static const char *const SHOWN[] = {"qwen3-0.6b", "llama-3-8b"};
    jobs->n = 0;
    for (int i = 0; i < (quick && !which ? 1 : COUNT_OF(SHOWN)); i++)
        if (wanted(SHOWN[i], which) && !add_shown(jobs, SHOWN[i], weights, hw, quick, e))
            return false;
    if (wanted("fit", which) && (which || !quick) && !add_fitted(jobs, weights, hw, e))
        return false;
    return jobs->n ||
           error_set(e, ERROR_USAGE,
                     "'--model' is '%.40s', expected qwen3-0.6b, llama-3-8b or fit, the shapes that only the fit uses",
                     which);
}
