// What GGUF metadata say of each family, and what follows where they say nothing.
#include "engine/load/files.h"
#include "tests/files.h"
#include "tests/gguf_writer.h"

#include <math.h>

enum { LAYERS = 7 };

enum kind { END, U32, F32, TEXT, BOOLS };

struct value {
    const char *key; // without the architecture
    enum kind kind;
    double number;
    const char *text;      // TEXT
    uint8_t bool_[LAYERS]; // BOOLS
};

static struct bytes file;

static void put_value(const char *architecture, const struct value *v)
{
    char key[96];
    float number = (float)v->number;
    snprintf(key, sizeof key, "%s.%s", architecture, v->key);
    if (v->kind == U32)
        put_u32_value(&file, key, (uint32_t)v->number);
    if (v->kind == F32)
        put_f32_value(&file, key, number);
    if (v->kind == TEXT)
        put_string_value(&file, key, v->text);
    if (v->kind != BOOLS)
        return;
    put_text(&file, key);
    put_u32(&file, 9); // an array
    put_u32(&file, 7); // of bools
    put_u64(&file, LAYERS);
    put(&file, v->bool_, LAYERS);
}

static bool says(const struct value *values, const char *key)
{
    while (values->kind != END && strcmp(values->key, key))
        values++;
    return values->kind != END;
}

// Seven layers, 4 query and 2 KV heads of 16, hidden 64, unless `values` say otherwise; `tensor`, a vector of 8 f32, beside
// the embedding.
static bool parse(struct model_spec *s, const char *architecture, const struct value *values, const char *tensor,
                  struct error *e)
{
    static const struct value SHAPE[] = {{.key = "block_count", .kind = U32, .number = LAYERS},
                                         {.key = "embedding_length", .kind = U32, .number = 64},
                                         {.key = "feed_forward_length", .kind = U32, .number = 96},
                                         {.key = "context_length", .kind = U32, .number = 1024},
                                         {.key = "attention.head_count", .kind = U32, .number = 4},
                                         {.key = "attention.head_count_kv", .kind = U32, .number = 2},
                                         {.key = "attention.key_length", .kind = U32, .number = 16},
                                         {.key = "attention.value_length", .kind = U32, .number = 16}};
    enum { N_SHAPE = sizeof SHAPE / sizeof *SHAPE };
    struct gguf g;
    uint64_t n = 0;
    float factor[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    while (values[n].kind != END)
        n++;
    uint64_t n_shape = 0;
    for (int i = 0; i < N_SHAPE; i++)
        n_shape += !says(values, SHAPE[i].key);
    put_head(&file, 3, tensor ? 3 : 1, 1 + n_shape + n);
    put_string_value(&file, "general.architecture", architecture);
    for (int i = 0; i < N_SHAPE; i++)
        if (!says(values, SHAPE[i].key))
            put_value(architecture, &SHAPE[i]);
    for (uint64_t i = 0; i < n; i++)
        put_value(architecture, &values[i]);
    put_tensor(&file, "token_embd.weight", 64, 8, 0, 0);
    bool is_short = tensor && !strcmp(tensor, "rope_factors_short.weight"); // brings the long ones along
    if (tensor) {
        put_tensor(&file, tensor, 8, 0, 0, 2048);
        put_tensor(&file, is_short ? "rope_factors_long.weight" : "unused", 8, 0, 0, 2080);
    }
    put_padding(&file, 32);
    put_zeros(&file, 2048);
    put(&file, factor, sizeof factor);
    put(&file, factor, sizeof factor);
    *e = (struct error){0};
    if (!gguf_parse(&g, file.data, file.size, "dir/tiny.gguf", e))
        return false;
    bool ok = gguf_model_spec(s, &g, e);
    gguf_close(&g);
    return ok;
}

static void must_parse(struct model_spec *s, const char *architecture, const struct value *values, const char *tensor)
{
    struct error e;
    if (!parse(s, architecture, values, tensor, &e))
        fail_msg("%s: %s", architecture, e.message);
    assert_string_equal(s->name, "tiny");
}

static const struct value NOTHING[] = {{.kind = END}};

// Some files state a number once for each layer.
static void test_numbers_by_layer(void **state)
{
    static const struct value SAME[] = {{.key = "attention.head_count_kv", .kind = BOOLS, .bool_ = {1, 1, 1, 1, 1, 1, 1}},
                                        {.kind = END}};
    static const struct value OTHERS[] = {{.key = "attention.head_count_kv", .kind = BOOLS, .bool_ = {1, 1, 1, 0, 1, 1, 1}},
                                          {.kind = END}};
    struct model_spec s;
    struct error e;
    (void)state;
    must_parse(&s, "llama", SAME, NULL);
    assert_int_equal(s.num_key_value_heads, 1);
    assert_false(parse(&s, "llama", OTHERS, NULL, &e));
    assert_error(&e, ERROR_UNSUPPORTED, "'llama.attention.head_count_kv' is not one number for all layers");
}

static void test_gemma2(void **state)
{
    static const struct value SAID[] = {{.key = "attention.sliding_window", .kind = U32, .number = 9},
                                        {.key = "attn_logit_softcapping", .kind = F32, .number = 20},
                                        {.key = "final_logit_softcapping", .kind = F32, .number = 5},
                                        {.kind = END}};
    struct model_spec s;
    (void)state;
    must_parse(&s, "gemma2", NOTHING, NULL);
    assert_string_equal(s.family, "gemma2");
    assert_true(s.norm_place == NORM_BOTH && s.hidden_act == ACT_GELU_TANH && s.tie_word_embeddings);
    assert_true(s.embedding_multiplier == 8 && s.attn_logit_softcapping == 50 && s.final_logit_softcapping == 30);
    assert_true(s.window[0] == 4096 && s.window[1] == 0 && s.window[6] == 4096 && s.rope.theta == 10000);
    must_parse(&s, "gemma2", SAID, NULL);
    assert_true(s.window[0] == 9 && s.window[1] == 0 && s.attn_logit_softcapping == 20 && s.final_logit_softcapping == 5);
}

static void test_gemma3(void **state)
{
    static const struct value SAID[] = {{.key = "attention.sliding_window", .kind = U32, .number = 512},
                                        {.key = "rope.freq_base", .kind = F32, .number = 1e6},
                                        {.key = "rope.scaling.type", .kind = TEXT, .text = "linear"},
                                        {.key = "rope.scaling.factor", .kind = F32, .number = 8},
                                        {.kind = END}};
    static const struct value OTHERS[] = {
        {.key = "attention.sliding_window", .kind = U32, .number = 5},
        {.key = "rope.freq_base_swa", .kind = F32, .number = 333},
        {.key = "attention.sliding_window_pattern", .kind = BOOLS, .bool_ = {0, 1, 1, 0, 0, 0, 1}},
        {.kind = END}};
    static const struct value DISTANCE[] = {{.key = "attention.sliding_window", .kind = U32, .number = 5},
                                            {.key = "attention.sliding_window_pattern", .kind = U32, .number = 2},
                                            {.kind = END}};
    struct model_spec s;
    (void)state;
    must_parse(&s, "gemma3", SAID, NULL);
    assert_true(s.qk_norm == QK_NORM_HEAD && s.window[4] == 512 && s.window[5] == 0 && s.window[6] == 512);
    assert_true(s.rope.kind == ROPE_LINEAR && s.rope.factor == 8 && s.rope.theta == 1e6);
    assert_true(s.rope_local.kind == ROPE_DEFAULT && s.rope_local.theta == 1e4 && s.rope_local.rotary_dim == 16);
    must_parse(&s, "gemma3", OTHERS, NULL);
    assert_true(s.window[0] == 0 && s.window[1] == 5 && s.window[3] == 0 && s.window[6] == 5 && s.rope_local.theta == 333);
    must_parse(&s, "gemma3", DISTANCE, NULL);
    assert_true(s.window[0] == 5 && s.window[1] == 0 && s.window[2] == 5);
}

static void test_phi3(void **state)
{
    static const struct value PARTIAL[] = {{.key = "rope.dimension_count", .kind = U32, .number = 12},
                                           {.key = "attention.sliding_window", .kind = U32, .number = 0},
                                           {.kind = END}};
    static const struct value LONG[] = {{.key = "rope.scaling.original_context_length", .kind = U32, .number = 64},
                                        {.key = "rope.scaling.attn_factor", .kind = F32, .number = 1.25},
                                        {.key = "attention.sliding_window", .kind = U32, .number = 7},
                                        {.kind = END}};
    struct model_spec s;
    struct error e;
    (void)state;
    must_parse(&s, "phi3", PARTIAL, NULL);
    assert_true(s.rope.rotary_dim == 12 && s.window[0] == 0 && s.rope.kind == ROPE_DEFAULT);
    must_parse(&s, "phi3", LONG, "rope_factors_short.weight");
    assert_true(s.rope.kind == ROPE_LONG && s.rope.magnitude == 1.25f && s.rope.freq_factor[7] == 8 && s.window[3] == 7);
    assert_true(rope_is_long(&s.rope, 65) && !rope_is_long(&s.rope, 64));
    assert_false(parse(&s, "phi3", NOTHING, "rope_factors_long.weight", &e)); // one without the other
    assert_error(&e, ERROR_FILE, "'rope_factors_short.weight' is no vector of 8");
}

static void test_olmo2_and_olmo3(void **state)
{
    static const struct value WINDOWS[] = {{.key = "attention.sliding_window", .kind = U32, .number = 9},
                                           {.key = "rope.freq_base", .kind = F32, .number = 5e5},
                                           {.key = "rope.scaling.type", .kind = TEXT, .text = "yarn"},
                                           {.key = "rope.scaling.factor", .kind = F32, .number = 8},
                                           {.key = "rope.scaling.original_context_length", .kind = U32, .number = 128},
                                           {.kind = END}};
    struct model_spec s;
    (void)state;
    must_parse(&s, "olmo2", NOTHING, NULL);
    assert_string_equal(s.family, "olmo2");
    assert_true(s.norm_place == NORM_AFTER && s.qk_norm == QK_NORM_ROW && s.window[0] == 0 && !s.rope_local.rotary_dim);
    must_parse(&s, "olmo2", WINDOWS, NULL);
    assert_string_equal(s.family, "olmo3");
    assert_true(s.window[0] == 9 && s.window[3] == 0 && s.window[6] == 9);
    assert_true(s.rope.kind == ROPE_YARN && s.rope.factor == 8 && s.rope.original_max_position_embeddings == 128);
    assert_true(fabsf(s.rope.magnitude - (0.1f * logf(8) + 1)) < 1e-6f);
    assert_true(s.rope_local.kind == ROPE_DEFAULT && s.rope_local.theta == 5e5);
}

static void test_granite(void **state)
{
    static const struct value SAID[] = {{.key = "embedding_scale", .kind = F32, .number = 12},
                                        {.key = "residual_scale", .kind = F32, .number = 0.22},
                                        {.key = "attention.scale", .kind = F32, .number = 0.0625},
                                        {.key = "logit_scale", .kind = F32, .number = 8},
                                        {.kind = END}};
    static const struct value WRONG[] = {{.key = "logit_scale", .kind = F32, .number = -8}, {.kind = END}};
    struct model_spec s;
    struct error e;
    (void)state;
    must_parse(&s, "granite", SAID, NULL);
    assert_true(s.embedding_multiplier == 12 && s.residual_multiplier == 0.22f && s.logits_scaling == 8);
    assert_true(s.attention_multiplier == 0.0625f);
    assert_false(parse(&s, "granite", WRONG, NULL, &e));
    assert_error(&e, ERROR_FILE, "'granite.logit_scale' is -8");
}

static void test_llama_and_others(void **state)
{
    static const struct value YARN[] = {{.key = "rope.scaling.type", .kind = TEXT, .text = "yarn"},
                                        {.key = "rope.scaling.factor", .kind = F32, .number = 4},
                                        {.key = "rope.scaling.original_context_length", .kind = U32, .number = 256},
                                        {.key = "rope.scaling.yarn_beta_fast", .kind = F32, .number = 16},
                                        {.kind = END}};
    static const struct value WINDOW[] = {{.key = "attention.sliding_window", .kind = U32, .number = 4}, {.kind = END}};
    struct model_spec s;
    struct error e;
    (void)state;
    must_parse(&s, "qwen3", YARN, NULL);
    assert_true(s.rope.kind == ROPE_YARN && s.rope.beta_fast == 16 && s.rope.beta_slow == 1);
    must_parse(&s, "llama", WINDOW, "rope_freqs.weight");
    assert_true(s.rope.kind == ROPE_FACTORS && s.rope.freq_factor[2] == 3 && s.window[0] == 4 && s.window[6] == 4);
    must_parse(&s, "gemma", NOTHING, NULL);
    assert_true(s.embedding_multiplier == 8 && s.norm_place == NORM_BEFORE && s.attn_logit_softcapping == 0);
    must_parse(&s, "smollm3", NOTHING, NULL);
    assert_true(!s.no_rope[2] && s.no_rope[3] && !s.no_rope[4]);
    assert_false(parse(&s, "mamba2", NOTHING, NULL, &e));
    assert_error(&e, ERROR_UNSUPPORTED,
                 "'mamba2' is not supported, expected one of llama, qwen2, qwen3, gemma, gemma2, gemma3, phi3, olmo2, "
                 "smollm3, granite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_by_layer), cmocka_unit_test(test_gemma2),
        cmocka_unit_test(test_gemma3),           cmocka_unit_test(test_phi3),
        cmocka_unit_test(test_olmo2_and_olmo3),  cmocka_unit_test(test_granite),
        cmocka_unit_test(test_llama_and_others),
    };
    return cmocka_run_group_tests_name("gguf families", tests, NULL, NULL);
}
