// config.json to model_spec: the families, both spellings of transformers, and everything that must be refused.
#include "engine/load/config.h"
#include "engine/load/model.h"
#include "tests/files.h"

#include <math.h>

static const char LLAMA[] = "\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":3,"
                            "\"num_attention_heads\":4,\"intermediate_size\":160,\"vocab_size\":320";

// The spec of {family facts, more}; `architecture` replaces LLAMA's.
static bool parse(struct model_spec *s, const char *architecture, const char *more, struct error *e)
{
    char text[2048];
    const char *shape = strstr(LLAMA, "\"hidden_size\"");
    int n = snprintf(text, sizeof text, "{\"architectures\":[\"%s\"],%s%s%s}", architecture, shape, *more ? "," : "", more);
    *e = (struct error){0};
    return model_spec_from_config(s, text, (size_t)n, "dir/tiny/config.json", e);
}

static void must_parse(struct model_spec *s, const char *architecture, const char *more)
{
    struct error e;
    if (!parse(s, architecture, more, &e))
        fail_msg("%s: %s", more, e.message);
}

static void must_fail(const char *architecture, const char *more, enum error_kind kind, const char *part)
{
    struct model_spec s;
    struct error e;
    if (parse(&s, architecture, more, &e))
        fail_msg("accepted: %s", more);
    assert_error(&e, kind, part);
}

static void test_llama_defaults(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "LlamaForCausalLM", "");
    assert_string_equal(s.name, "tiny");
    assert_string_equal(s.family, "llama");
    assert_int_equal(s.num_key_value_heads, 4);
    assert_int_equal(s.head_dim, 16);
    assert_int_equal(s.max_position_embeddings, 2048);
    assert_true(s.rms_norm_eps == 1e-6f && s.rope.theta == 10000 && s.rope.kind == ROPE_DEFAULT);
    assert_int_equal(s.rope.rotary_dim, 16);
    assert_false(s.tie_word_embeddings || s.qk_norm || s.qkv_bias || s.o_bias || s.mlp_bias);
    assert_int_equal(s.dtype, DTYPE_BF16);
    assert_int_equal(s.bos_token_id, -1);
    assert_int_equal(s.n_eos, 0);
}

static void test_llama_everything(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(
        &s, "LlamaForCausalLM",
        "\"num_key_value_heads\":1,\"head_dim\":32,\"attention_bias\":true,\"mlp_bias\":true,\"tie_word_embeddings\":true,"
        "\"rms_norm_eps\":1e-5,\"torch_dtype\":\"float16\",\"bos_token_id\":1,\"eos_token_id\":[2,7,999999],"
        "\"partial_rotary_factor\":0.5,\"unknown_key\":{\"a\":[1]},\"max_position_embeddings\":512");
    assert_int_equal(s.num_key_value_heads, 1);
    assert_int_equal(s.head_dim, 32);
    assert_int_equal(s.rope.rotary_dim, 16);
    assert_true(s.qkv_bias && s.o_bias && s.mlp_bias && s.tie_word_embeddings);
    assert_int_equal(s.dtype, DTYPE_F16);
    assert_int_equal(s.bos_token_id, 1);
    assert_int_equal(s.n_eos, 2); // the third can never be generated
    assert_int_equal(s.eos_token_id[1], 7);
    assert_int_equal(s.max_position_embeddings, 512);
}

static const char LLAMA3_V4[] = "\"rope_theta\":5e5,\"rope_scaling\":{\"factor\":8.0,\"high_freq_factor\":4.0,"
                                "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,\"%s\":\"llama3\"}";
static const char LLAMA3_V5[] = "\"dtype\":\"float32\",\"rope_parameters\":{\"rope_theta\":5e5,\"factor\":8.0,"
                                "\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
                                "\"original_max_position_embeddings\":8192,\"%s\":\"llama3\"}";

static void test_rope_llama3_in_all_spellings(void **state)
{
    (void)state;
    static const char *const FORM[] = {LLAMA3_V4, LLAMA3_V5}, *const KEY[] = {"type", "rope_type"};
    for (int form = 0; form < 2; form++)
        for (int key = 0; key < 2; key++) {
            struct model_spec s;
            char text[512];
            const char *hole = strstr(FORM[form], "%s");
            snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - FORM[form]), FORM[form], KEY[key], hole + 2);
            must_parse(&s, "LlamaForCausalLM", text);
            assert_int_equal(s.rope.kind, ROPE_LLAMA3);
            assert_true(s.rope.theta == 5e5 && s.rope.factor == 8 && s.rope.low_freq_factor == 1 &&
                        s.rope.high_freq_factor == 4);
            assert_int_equal(s.rope.original_max_position_embeddings, 8192);
        }
}

static void test_rope_others(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}");
    assert_int_equal(s.rope.kind, ROPE_LINEAR);
    assert_true(s.rope.factor == 4);
    must_parse(&s, "LlamaForCausalLM", "\"rope_scaling\":null,\"rope_parameters\":{\"rope_type\":\"default\"}");
    assert_int_equal(s.rope.kind, ROPE_DEFAULT);
    must_parse(&s, "LlamaForCausalLM", "\"rope_parameters\":{\"rope_theta\":77,\"partial_rotary_factor\":0.25}");
    assert_true(s.rope.theta == 77 && s.rope.rotary_dim == 4);
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}", ERROR_UNSUPPORTED, "'yarn'");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"linear\"}", ERROR_FILE, "no 'factor'");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}", ERROR_FILE, "'llama3' needs");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":[1]", ERROR_FILE, "'rope_scaling' is not an object");
    must_fail("LlamaForCausalLM", "\"rope_theta\":-1", ERROR_FILE, "'rope_theta' is -1");
    must_fail("LlamaForCausalLM", "\"rope_theta\":\"10000\"", ERROR_FILE, "'rope_theta' is not a number");
    must_fail("LlamaForCausalLM", "\"partial_rotary_factor\":0.2", ERROR_FILE, "3 of 16 values");
    must_fail("LlamaForCausalLM", "\"rope_parameters\":{\"full_attention\":{}}", ERROR_UNSUPPORTED, "kind of layer");
}

static void test_qwen(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "Qwen2ForCausalLM", "\"sliding_window\":8,\"use_sliding_window\":false");
    assert_true(s.qkv_bias && !s.o_bias && !s.mlp_bias && !s.qk_norm && s.window[2] == 0 && s.head_dim == 16);
    must_parse(&s, "Qwen2ForCausalLM", "\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":1");
    assert_true(s.window[0] == 0 && s.window[1] == 8 && s.window[2] == 8);
    must_parse(&s, "Qwen2ForCausalLM", "\"sliding_window\":8,\"use_sliding_window\":true");
    assert_true(s.window[2] == 0); // max_window_layers is 28 when absent
    must_parse(&s, "Qwen3ForCausalLM", "\"num_key_value_heads\":2,\"attention_bias\":true");
    assert_true(s.qk_norm && s.qkv_bias && s.o_bias && !s.mlp_bias);
    assert_int_equal(s.head_dim, 128); // the class's default
    must_parse(&s, "Qwen3ForCausalLM", "\"head_dim\":32");
    assert_true(s.head_dim == 32 && !s.qkv_bias);
    must_parse(&s, "Qwen3ForCausalLM",
               "\"sliding_window\":8,\"use_sliding_window\":true,"
               "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]");
    assert_true(s.window[0] == 0 && s.window[1] == 8 && s.window[2] == 0);
    must_fail("Qwen3ForCausalLM", "\"layer_types\":[\"full_attention\"]", ERROR_FILE, "list of 3 names");
    must_fail("Qwen3ForCausalLM", "\"layer_types\":[\"full_attention\",\"linear_attention\",1]", ERROR_UNSUPPORTED,
              "'linear_attention'");
    must_fail("Qwen3ForCausalLM", "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]",
              ERROR_FILE, "no 'sliding_window'");
}

static void test_mistral(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "MistralForCausalLM", "\"sliding_window\":16");
    assert_true(s.window[0] == 16 && s.window[2] == 16);
    must_parse(&s, "MistralForCausalLM", "\"sliding_window\":null");
    assert_true(s.window[0] == 0);
    must_parse(&s, "MistralForCausalLM", "");
    assert_true(s.window[0] == 4096); // as MistralConfig has it
    must_parse(&s, "LlamaForCausalLM", "\"sliding_window\":16");
    assert_true(s.window[0] == 0); // Llama has no such thing
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        enum error_kind kind;
        const char *part;
    } CASE[] = {
        {"\"num_hidden_layers\":0", ERROR_FILE, "'num_hidden_layers' is 0"},
        {"\"hidden_size\":-64", ERROR_FILE, "'hidden_size' is -64"},
        {"\"hidden_size\":2.5", ERROR_FILE, "whole number"},
        {"\"hidden_size\":1e9", ERROR_FILE, "'hidden_size' is 1000000000"},
        {"\"hidden_size\":1e30", ERROR_FILE, "'hidden_size' is 1e+30"},
        {"\"hidden_size\":\"64\"", ERROR_FILE, "'hidden_size' is not a number"},
        {"\"hidden_size\":null", ERROR_FILE, "'hidden_size' is missing"},
        {"\"hidden_size\":66", ERROR_FILE, "not divisible by num_attention_heads"},
        {"\"num_key_value_heads\":3", ERROR_FILE, "not divisible by num_key_value_heads 3"},
        {"\"num_key_value_heads\":8", ERROR_FILE, "not divisible by num_key_value_heads 8"},
        {"\"num_hidden_layers\":257", ERROR_FILE, "expected 1 to 256"},
        {"\"vocab_size\":2147483647", ERROR_FILE, "'vocab_size'"},
        {"\"intermediate_size\":2147483647", ERROR_FILE, "'intermediate_size'"},
        {"\"num_attention_heads\":65536,\"head_dim\":128", ERROR_FILE, "'head_dim'"},
        {"\"head_dim\":15", ERROR_FILE, "15 of 15 values"},
        {"\"head_dim\":1024", ERROR_FILE, "expected an even number from 2 to 512"},
        {"\"max_position_embeddings\":0", ERROR_FILE, "'max_position_embeddings' is 0"},
        {"\"rms_norm_eps\":-1", ERROR_FILE, "'rms_norm_eps' is -1"},
        {"\"rms_norm_eps\":[]", ERROR_FILE, "'rms_norm_eps' is not a number"},
        {"\"tie_word_embeddings\":1", ERROR_FILE, "'tie_word_embeddings' is not true or false"},
        {"\"hidden_act\":\"gelu\"", ERROR_UNSUPPORTED, "'gelu' is not supported, expected 'silu'"},
        {"\"torch_dtype\":\"float64\"", ERROR_UNSUPPORTED, "'float64'"},
        {"\"dtype\":7", ERROR_FILE, "'dtype' is not a string"},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        // the first of two equal keys counts, so the case's keys come first
        char text[1024];
        struct model_spec s;
        struct error e = {0};
        int n = snprintf(text, sizeof text, "{%s,%s}", CASE[i].more, LLAMA);
        if (model_spec_from_config(&s, text, (size_t)n, "config.json", &e))
            fail_msg("accepted: %s", CASE[i].more);
        assert_error(&e, CASE[i].kind, CASE[i].part);
    }
}

static void test_architectures(void **state)
{
    (void)state;
    must_fail("MixtralForCausalLM", "", ERROR_UNSUPPORTED,
              "MixtralForCausalLM is not supported, expected one of LlamaForCausalLM, MistralForCausalLM, "
              "Qwen2ForCausalLM, Qwen3ForCausalLM");
    struct model_spec s;
    struct error e = {0};
    static const char *const TEXT[] = {"{}",
                                       "[]",
                                       "",
                                       "null",
                                       "{\"architectures\":\"LlamaForCausalLM\"}",
                                       "{\"architectures\":[]}",
                                       "{\"architectures\":[7],\"model_type\":7}",
                                       "{\"config\":3}",
                                       "{\"architectures\":[\"LlamaForCausalLM\"",
                                       "\xff\xfe\x00"};
    for (size_t i = 0; i < sizeof TEXT / sizeof *TEXT; i++) {
        assert_false(model_spec_from_config(&s, TEXT[i], strlen(TEXT[i]), "config.json", &e));
        assert_error(&e, ERROR_FILE, "'config.json'");
    }
    const char *by_type = "{\"model_type\":\"qwen3\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
                          "\"intermediate_size\":32,\"vocab_size\":10}";
    assert_true(model_spec_from_config(&s, by_type, strlen(by_type), "config.json", &e));
    assert_string_equal(s.family, "qwen3");
    int n;
    const char *const *families = model_families(&n);
    assert_int_equal(n, 4);
    assert_string_equal(families[0], "llama");
}

// An entry of the catalogue wraps the configuration.
static void test_entry(void **state)
{
    (void)state;
    struct model_spec s;
    struct error e = {0};
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"name\":\"my-model\",\"aliases\":[],\"config\":{%s}}", LLAMA);
    assert_true(model_spec_from_config(&s, text, (size_t)n, "my-model.json", &e));
    assert_string_equal(s.name, "my-model");
    n = snprintf(text, sizeof text, "{\"name\":\"my-model\",\"config\":{\"architectures\":[\"FooLM\"]}}");
    assert_false(model_spec_from_config(&s, text, (size_t)n, "my-model.json", &e));
    assert_error(&e, ERROR_UNSUPPORTED, "'my-model': FooLM is not supported");
}

static void test_names(void **state)
{
    (void)state;
    static const char *const CASE[][2] = {{"a/b/config.json", "b"},
                                          {"/x/llama.gguf", "llama"},
                                          {"config.json", "config"},
                                          {"x.json", "x"},
                                          {"a/b/", "b"},
                                          {"b", "b"},
                                          {"/", ""},
                                          {"", ""},
                                          {"./x//config.json", "x"}};
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        char name[32];
        model_name_from_path(CASE[i][0], name, sizeof name);
        assert_string_equal(name, CASE[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_defaults),
        cmocka_unit_test(test_llama_everything),
        cmocka_unit_test(test_rope_llama3_in_all_spellings),
        cmocka_unit_test(test_rope_others),
        cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
