#include "bench/perplexity.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 64 }; // rows per step: their logits are all kept until read

// -log softmax(logits)[id]
static double surprise(const float *logits, int32_t n, int32_t id)
{
    float highest = logits[0];
    double sum = 0;
    for (int32_t i = 1; i < n; i++)
        highest = fmaxf(highest, logits[i]);
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)(logits[i] - highest));
    return log(sum) + (double)highest - (double)logits[id];
}

// Adds the surprise of id[first + 1 ..] after a step over id[first .. first+n-1]. The window's last row predicts nothing of
// it.
static bool add_step(struct engine *engine, struct session *session, const int32_t *id, int32_t first, int32_t n,
                     int32_t window, float *logits, double *sum, struct error *e)
{
    int32_t vocab_size = engine->plan->vocab_size;
    struct step step = {.session = session, .token = id + first, .n_tokens = n, .out = STEP_OUT_ALL};
    if (!engine_step(engine, &step, 1, NULL, e))
        return false;
    for (int32_t i = 0; i < n && first + i + 1 < window; i++) {
        if (!engine_logits(engine, step.first_out + i, logits, e))
            return false;
        *sum += surprise(logits, vocab_size, id[first + i + 1]);
    }
    return true;
}

static bool window_nll(struct engine *engine, const int32_t *id, int32_t window, float *logits, double *nll, struct error *e)
{
    struct session session = {0};
    double sum = 0;
    bool ok = true;
    for (int32_t first = 0; ok && first < window; first += CHUNK) {
        int32_t n = window - first < CHUNK ? window - first : CHUNK;
        ok = add_step(engine, &session, id, first, n, window, logits, &sum, e);
    }
    session_free(engine, &session);
    *nll = sum / (window - 1);
    return ok;
}

static bool check(const struct opened *o, const struct perplexity_options *options, const int32_t *id, int32_t n,
                  struct error *e)
{
    const struct model_spec *spec = &o->model.spec;
    if (options->window < 2 || (spec->max_position_embeddings > 0 && options->window > spec->max_position_embeddings))
        return error_set(e, ERROR_USAGE, "'--window' is %d, expected 2 to %d, the context of '%s'", options->window,
                         spec->max_position_embeddings, spec->name);
    if (options->windows < 0)
        return error_set(e, ERROR_USAGE, "'--windows' is %d, expected 0 or more", options->windows);
    if (n < options->window)
        return error_set(e, ERROR_USAGE, "the text has %d tokens, fewer than one window of %d", n, options->window);
    for (int32_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= o->plan->vocab_size)
            return error_set(e, ERROR_FILE, "token %d of the text is outside the model's vocabulary of %d", id[i],
                             o->plan->vocab_size);
    return true;
}

static bool measure_all(struct opened *o, const struct perplexity_options *options, const int32_t *id, float *logits,
                        struct perplexity *out, struct error *e)
{
    for (int32_t i = 0; i < out->n_windows; i++) {
        const int32_t *first = id + (size_t)i * (size_t)options->window;
        if (!window_nll(&o->engine, first, options->window, logits, &out->nll[i], e))
            return false;
        out->mean += out->nll[i] / out->n_windows; // all windows have the same weight: they are of one length
        if (options->on_window)
            options->on_window(options->ctx, i, out->nll[i]);
    }
    out->value = exp(out->mean);
    return true;
}

bool perplexity_measure(struct opened *o, const struct perplexity_options *options, const int32_t *id, int32_t n,
                        struct perplexity *out, struct error *e)
{
    int32_t chunk = options->window < CHUNK ? options->window : CHUNK;
    struct kv_config kv = kv_config_for(1, options->window, 0, chunk, chunk);
    *out = (struct perplexity){0};
    if (!check(o, options, id, n, e))
        return false;
    o->options.kv_k = o->options.kv_v = options->kv;
    if (!open_engine(o, &kv, e))
        return false;
    out->n_windows = n / options->window;
    if (options->windows && options->windows < out->n_windows)
        out->n_windows = options->windows;
    out->nll = calloc((size_t)out->n_windows, sizeof *out->nll);
    float *logits = malloc((size_t)o->plan->vocab_size * sizeof *logits);
    bool ok = (out->nll && logits) || error_set(e, ERROR_MEMORY, "no memory for logits");
    ok = ok && measure_all(o, options, id, logits, out, e);
    free(logits);
    if (!ok)
        perplexity_free(out);
    return ok;
}

void perplexity_free(struct perplexity *p)
{
    free(p->nll);
    *p = (struct perplexity){0};
}
