// A model small enough for any test, as a shape.
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "engine/op.h"

// Two layers, 4 query and 2 KV heads of 16, vocabulary 320.
static inline struct model_spec tiny_spec(void)
{
    return (struct model_spec){.name = "tiny",
                               .family = "llama",
                               .num_hidden_layers = 2,
                               .hidden_size = 64,
                               .intermediate_size = 96,
                               .vocab_size = 320,
                               .num_attention_heads = 4,
                               .num_key_value_heads = 2,
                               .head_dim = 16,
                               .max_position_embeddings = 4096,
                               .rms_norm_eps = 1e-6f,
                               .dtype = DTYPE_F32,
                               .rope = {.rotary_dim = 16, .theta = 10000},
                               .bos_token_id = -1};
}

#endif
