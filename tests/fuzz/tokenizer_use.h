// What a tokenizer that came of hostile bytes must still do.
#ifndef TESTS_FUZZ_TOKENIZER_USE_H
#define TESTS_FUZZ_TOKENIZER_USE_H

#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>

static inline void use_ids(const struct tokenizer *t, const struct token_list *ids)
{
    struct token_stream stream = {.tokenizer = t};
    struct error e;
    char *text, *piece = malloc(token_stream_capacity(t) + 1);
    size_t size;
    if (tokenizer_decode(t, ids->id, ids->n, true, &text, &size, &e))
        free(text);
    for (int32_t i = 0; piece && i <= ids->n; i++)
        token_stream_next(&stream, i < ids->n ? ids->id[i] : -1, piece, token_stream_capacity(t));
    free(piece);
}

static inline void use_tokenizer(const struct tokenizer *t)
{
    static const char text[] =
        "low lower <|s|> 12 3.5  it's\n\xc3\xa9 e\xcc\x81 \xe4\xb8\x96 \xef\xac\x81\xff \xe2\x96\x81x";
    struct error e;
    struct token_list ids = {0};
    if (tokenizer_encode(t, text, sizeof text - 1, true, &ids, &e))
        use_ids(t, &ids);
    token_list_free(&ids);
}

#endif
