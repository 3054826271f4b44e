// tokenizer.json from hostile bytes; what loads must encode and decode a text.
#include "tests/fuzz/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t;
    struct error e = {0};
    if (!tokenizer_from_json(&t, (struct text){(const char *)data, size}, "fuzz", &e)) {
        if (e.kind == ERROR_NONE || !e.message[0])
            abort();
        return 0;
    }
    use_tokenizer(t);
    tokenizer_close(t);
    return 0;
}
