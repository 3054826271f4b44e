// Where the next token of a sequence comes from: a sampler over logits, or an oracle that needs none (scripted ids).
#ifndef ENGINE_TOKEN_SOURCE_H
#define ENGINE_TOKEN_SOURCE_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sampler;
struct token_source {
    void *self;
    bool needs_logits;
    const struct sampler *sampler; // whose choices these are, so that a backend may make them instead; NULL: nobody's
    // The next id after n_tokens tokens of the sequence; -1: no memory. logits: [vocab_size] or NULL when !needs_logits; may
    // be modified.
    int32_t (*next)(void *self, float *logits, int32_t vocab_size, int32_t n_tokens);
};

// Temperature, then top-k, then top-p. The draw depends on seed and n_tokens alone, not on what was drawn before.
struct sampler {
    float temperature; // 0: greedy (ties go to the lowest id)
    int32_t top_k;     // 0: off
    float top_p;       // 1: off
    uint64_t seed;
    void *scratch; // owned
};

// Checks ranges (temperature >= 0, top_k >= 0, 0 < top_p <= 1).
bool sampler_init(struct sampler *s, float temperature, int32_t top_k, float top_p, uint64_t seed, struct error *e);
void sampler_free(struct sampler *s);
struct token_source sampler_source(struct sampler *s);

// What one choice of a sampler depends on besides logits: who has them may choose by the same rules (struct backend).
struct choice {
    int32_t out_row;   // of the last step
    float temperature; // as in struct sampler, and the next two
    int32_t top_k;
    float top_p;
    float u; // the draw, in [0, 1)
};
struct choice sampler_choice(const struct sampler *s, int32_t out_row, int32_t n_tokens);

// An oracle: id i of the sequence is seeded pseudo-random in 0..vocab_size-1. Needs no logits.
struct random_tokens {
    uint64_t seed;
};
struct token_source random_token_source(struct random_tokens *r);

int32_t logits_argmax(const float *logits, int32_t n); // lowest id among the largest; NaN never wins

#endif
