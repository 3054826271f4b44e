// tokenizer.json from hostile bytes; what loads must encode and decode a text.
#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static const char TEXT[] = "low lower <|s|> 12 3.5  it's\n\xc3\xa9 e\xcc\x81 \xe4\xb8\x96\xff";

static void decode(const struct tokenizer *t, const struct token_list *ids)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t;
    struct error e = {0};
    struct token_list ids = {0};
    if (!tokenizer_from_json(&t, (struct text){(const char *)data, size}, "fuzz", &e)) {
        if (e.kind == ERROR_NONE || !e.message[0])
            abort();
        return 0;
    }
    if (tokenizer_encode(t, TEXT, sizeof TEXT - 1, true, &ids, &e))
        decode(t, &ids);
    token_list_free(&ids);
    tokenizer_close(t);
    return 0;
}
