// Logits to a token: temperature, then top-k, then top-p, then one draw. The draw is a function of the seed and the
// number of tokens so far alone, so a sequence is the same whatever else ran in its batch.
#include "engine/token_source.h"

#include "engine/base/rng.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    float weight; // not normalized: exp((logit - best) / temperature)
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

// Largest weight first; equal ones by id, so that the order is total and a result reproducible.
static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
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

static int32_t weigh(const struct sampler *s, const float *logits, int32_t n, struct candidate *c)
{
    float best = logits[logits_argmax(logits, n)];
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        float weight = expf((logits[i] - best) / s->temperature);
        if (weight > 0) // not NaN, and not so small that it could never be drawn
            c[kept++] = (struct candidate){.weight = weight, .id = i};
    }
    return kept;
}

static double sum_of(const struct candidate *c, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)c[i].weight;
    return sum;
}

// Moves the k first in order before the others (Hoare's selection), so that only they need sorting.
static void select_first(struct candidate *c, int32_t n, int32_t k)
{
    for (int32_t low = 0, high = n - 1; low < high;) {
        struct candidate pivot = c[low + (high - low) / 2];
        int32_t i = low, j = high;
        while (i <= j) {
            while (by_weight(&c[i], &pivot) < 0)
                i++;
            while (by_weight(&c[j], &pivot) > 0)
                j--;
            if (i <= j) {
                struct candidate swapped = c[i];
                c[i++] = c[j], c[j--] = swapped;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            return;
    }
}

// Drops what cannot be among the fewest that reach top_p: were a weight below (1 - p) / (n - 1) of the sum needed, all
// that are no larger, n - 1 at most, would not reach 1 - p together.
static int32_t drop_small(const struct sampler *s, struct candidate *c, int32_t n, double sum)
{
    double least = n > 1 ? (1 - (double)s->top_p) / (n - 1) * sum : 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)c[i].weight >= least)
            c[kept++] = c[i];
    return kept;
}

static int32_t keep_top_p(const struct sampler *s, struct candidate *c, int32_t n)
{
    double sum = sum_of(c, n), reached = 0;
    int32_t kept = 0;
    n = drop_small(s, c, n, sum);
    qsort(c, (size_t)n, sizeof *c, by_weight);
    while (kept < n && (kept == 0 || reached < (double)s->top_p * sum))
        reached += (double)c[kept++].weight;
    return kept;
}

static int32_t draw(const struct candidate *c, int32_t n, float u)
{
    double at = (double)u * sum_of(c, n);
    for (int32_t i = 0; i < n - 1; i++) {
        at -= (double)c[i].weight;
        if (at < 0)
            return c[i].id;
    }
    return c[n - 1].id;
}

static float draw_at(const struct sampler *s, int32_t n_tokens)
{
    return rng_uniform(rng_at(s->seed, (uint64_t)n_tokens));
}

static int32_t next_sampled(void *self, float *logits, int32_t vocab_size, int32_t n_tokens)
{
    struct sampler *s = self;
    if (s->temperature == 0)
        return logits_argmax(logits, vocab_size);
    struct candidate *c = candidates(s, vocab_size);
    if (!c)
        return -1;
    int32_t n = weigh(s, logits, vocab_size, c);
    if (s->top_k && s->top_k < n) {
        select_first(c, n, s->top_k);
        n = s->top_k;
        qsort(c, (size_t)n, sizeof *c, by_weight);
    }
    if (n && s->top_p < 1)
        n = keep_top_p(s, c, n);
    if (!n) // an infinite logit, or none that is a number
        return logits_argmax(logits, vocab_size);
    return draw(c, n, draw_at(s, n_tokens));
}

struct token_source sampler_source(struct sampler *s)
{
    return (struct token_source){.self = s, .needs_logits = true, .sampler = s, .next = next_sampled};
}

struct choice sampler_choice(const struct sampler *s, int32_t out_row, int32_t n_tokens)
{
    return (struct choice){
        .out_row = out_row, .temperature = s->temperature, .top_k = s->top_k, .top_p = s->top_p, .u = draw_at(s, n_tokens)};
}
