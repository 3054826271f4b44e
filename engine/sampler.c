// Logits to a token: temperature, then top-k, then top-p, then one draw. The draw is a function of the seed and the
// number of tokens so far alone, so a sequence is the same whatever else ran in its batch.
#include "engine/token_source.h"

#include "engine/base/rng.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    float logit;
    int32_t id;
};

struct scratch {
    int32_t capacity;
    struct candidate candidate[];
};

bool sampler_init(struct sampler *s, float temperature, int32_t top_k, float top_p, uint64_t seed, struct error *e)
{
    *s = (struct sampler){.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
    if (!(temperature >= 0) || !isfinite(temperature))
        return error_set(e, ERROR_USAGE, "'temperature' is %g, expected 0 or more", (double)temperature);
    if (top_k < 0)
        return error_set(e, ERROR_USAGE, "'top-k' is %d, expected 0 or more", top_k);
    if (!(top_p > 0 && top_p <= 1))
        return error_set(e, ERROR_USAGE, "'top-p' is %g, expected more than 0 and at most 1", (double)top_p);
    return true;
}

void sampler_free(struct sampler *s)
{
    free(s->scratch);
    *s = (struct sampler){0};
}

int32_t logits_argmax(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i])))
            best = i;
    return best;
}

// Largest logit first; equal ones by id, so that the order is total and a result reproducible.
static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static struct candidate *candidates(struct sampler *s, int32_t n)
{
    struct scratch *scratch = s->scratch;
    if (!scratch || scratch->capacity < n) {
        scratch = realloc(scratch, sizeof *scratch + (size_t)n * sizeof *scratch->candidate);
        if (!scratch)
            return NULL;
        scratch->capacity = n;
        s->scratch = scratch;
    }
    return scratch->candidate;
}

// Turns the n sorted logits into weights relative to the first; returns how many are kept and their sum.
static int32_t keep_top_p(const struct sampler *s, struct candidate *c, int32_t n, double *kept_sum)
{
    double total = 0, sum = 0;
    float best = c[0].logit;
    for (int32_t i = 0; i < n; i++)
        total += (double)(c[i].logit = expf((c[i].logit - best) / s->temperature));
    int32_t kept = 0;
    while (kept < n && (kept == 0 || s->top_p >= 1 || sum < (double)s->top_p * total))
        sum += (double)c[kept++].logit;
    *kept_sum = sum;
    return kept;
}

static int32_t draw(const struct candidate *c, int32_t n, double sum, float u)
{
    double at = (double)u * sum;
    for (int32_t i = 0; i < n - 1; i++) {
        at -= (double)c[i].logit;
        if (at < 0)
            return c[i].id;
    }
    return c[n - 1].id;
}

static int32_t next_sampled(void *self, float *logits, int32_t vocab_size, int32_t n_tokens)
{
    struct sampler *s = self;
    if (s->temperature == 0)
        return logits_argmax(logits, vocab_size);
    struct candidate *c = candidates(s, vocab_size);
    if (!c)
        return -1;
    int32_t n = 0;
    for (int32_t i = 0; i < vocab_size; i++)
        if (!isnan(logits[i]))
            c[n++] = (struct candidate){.logit = logits[i], .id = i};
    if (!n)
        return 0;
    qsort(c, (size_t)n, sizeof *c, by_logit);
    if (s->top_k && s->top_k < n)
        n = s->top_k;
    double sum;
    int32_t kept = keep_top_p(s, c, n, &sum);
    return draw(c, kept, sum, rng_uniform(rng_at(s->seed, (uint64_t)n_tokens)));
}

struct token_source sampler_source(struct sampler *s)
{
    return (struct token_source){.self = s, .needs_logits = true, .next = next_sampled};
}
