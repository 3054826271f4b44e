// A chat template from hostile bytes: whatever format it seems to show, a conversation can be written in it.
#include "tests/fuzz/tokenizer_use.h"

#include <string.h>

static const char TOKENIZER[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"<s>\":2},\"merges\":[]},\"added_tokens\":[{\"id\":3,"
    "\"content\":\"<|im_end|>\",\"special\":true}]}";

static struct tokenizer *tokenizer; // made once; each input chooses its format anew

static void converse(int32_t first, int32_t n)
{
    static const struct chat_message message[] = {
        {"system", " S"}, {"user", "a "}, {"assistant", "</think>b"}, {"user", ""}};
    struct error e = {0};
    struct token_list ids = {0};
    int32_t stop[4];
    if (!chat_encode(tokenizer, message + first, n - first, &ids, &e) && !e.message[0])
        abort();
    chat_stop_ids(tokenizer, stop, 4);
    token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e = {0};
    if (!tokenizer && !tokenizer_from_json(&tokenizer, (struct text){TOKENIZER, strlen(TOKENIZER)}, "fuzz", &e))
        abort();
    if (!chat_choose(tokenizer, (struct text){(const char *)data, size}, &e))
        return 0;
    converse(0, 4);
    converse(1, 2);
    return 0;
}
