// GGUF: what is accepted can be read throughout, by every getter, and as a model.
#include "engine/load/files.h"

#include <stdlib.h>

static void read_value(const struct gguf *g, const char *key)
{
    struct text text, *texts;
    struct error e;
    int32_t n, *numbers;
    float f, *reals;
    bool b;
    gguf_string(g, key, &text, &e);
    gguf_i32(g, key, &n, &e);
    gguf_f32(g, key, &f, &e);
    gguf_bool(g, key, &b, &e);
    if (gguf_strings(g, key, &texts, &n, &e))
        free(texts);
    if (gguf_i32s(g, key, &numbers, &n, &e))
        free(numbers);
    if (gguf_f32s(g, key, &reals, &n, &e))
        free(reals);
}

static void read_model(const struct gguf *g)
{
    struct model_spec spec;
    struct plan plan;
    struct error e = {0};
    if (!gguf_model_spec(&spec, g, &e))
        return;
    struct plan_options options = plan_options_default(DTYPE_BF16);
    if (plan_make(&plan, &spec, &options, &e))
        plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g;
    struct error e = {0};
    if (!gguf_parse(&g, data, size, "x.gguf", &e))
        return 0;
    for (uint64_t i = 0; i < g.n_tensors; i++) {
        const volatile uint8_t *at = g.tensor[i].data;
        if (g.tensor[i].bytes)
            (void)(at[0] + at[g.tensor[i].bytes - 1]);
    }
    for (uint64_t i = 0; i < g.n_values; i++) {
        char key[96];
        read_value(&g, text_print(g.value[i].key, key));
    }
    read_model(&g);
    gguf_close(&g);
    return 0;
}
