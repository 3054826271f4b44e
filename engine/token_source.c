// Oracles: token sources that look at no logits.
#include "engine/token_source.h"

#include "engine/base/rng.h"

static int32_t next_random(void *self, float *logits, int32_t vocab_size, int32_t n_tokens)
{
    const struct random_tokens *r = self;
    (void)logits;
    return (int32_t)(rng_at(r->seed, (uint64_t)n_tokens) % (uint64_t)vocab_size);
}

struct token_source random_token_source(struct random_tokens *r)
{
    return (struct token_source){.self = r, .next = next_random};
}
