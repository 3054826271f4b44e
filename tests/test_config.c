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
    const char *kv_heads = strstr(more, "\"num_key_value_heads\"") || !strcmp(architecture, "LlamaForCausalLM")
                               ? ""
                               : ",\"num_key_value_heads\":4";
    int n = snprintf(text, sizeof text, "{\"architectures\":[\"%s\"],%s%s%s%s}", architecture, shape, kv_heads,
                     *more ? "," : "", more);
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
    assert_int_equal(s.rope.rotary_dim, 32); // partial_rotary_factor is not Llama's
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
    must_parse(&s, "Phi3ForCausalLM", "\"rope_parameters\":{\"rope_theta\":77,\"partial_rotary_factor\":0.25}");
    assert_true(s.rope.theta == 77 && s.rope.rotary_dim == 4);
    must_parse(&s, "Phi3ForCausalLM", "\"partial_rotary_factor\":0.75,\"rope_theta\":50");
    assert_true(s.rope.theta == 50 && s.rope.rotary_dim == 12);
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}", ERROR_UNSUPPORTED, "'dynamic'");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"linear\"}", ERROR_FILE, "no 'factor'");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}", ERROR_FILE, "'llama3' needs");
    must_fail("LlamaForCausalLM", "\"rope_scaling\":[1]", ERROR_FILE, "'rope_scaling' is not an object");
    must_fail("LlamaForCausalLM", "\"rope_theta\":-1", ERROR_FILE, "'rope_theta' is -1");
    must_fail("LlamaForCausalLM", "\"rope_theta\":\"10000\"", ERROR_FILE, "'rope_theta' is not a number");
    must_fail("Phi3ForCausalLM", "\"partial_rotary_factor\":0.2", ERROR_FILE, "3 of 16 values");
    must_fail("LlamaForCausalLM", "\"rope_parameters\":{\"full_attention\":{}}", ERROR_UNSUPPORTED, "kind of layer");
    must_parse(&s, "LlamaForCausalLM",
               "\"rope_theta\":99,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2},"
               "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e4}");
    assert_true(s.rope.kind == ROPE_LINEAR && s.rope.theta == 99); // of two objects rope_scaling is the one that counts
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
    must_parse(&s, "MistralForCausalLM",
               "\"sliding_window\":9,\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]");
    assert_true(s.window[0] == 0 && s.window[1] == 9 && s.window[2] == 0); // as Ministral
}

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-6 * fabs(b))
        fail_msg("%.9g, expected %.9g", a, b);
}

static void test_gemma(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "Gemma2ForCausalLM", "\"head_dim\":16,\"query_pre_attn_scalar\":64");
    assert_true(s.norm_place == NORM_BOTH && s.qk_norm == QK_NORM_NONE && s.hidden_act == ACT_GELU_TANH);
    assert_true(s.tie_word_embeddings && s.embedding_multiplier == 8 && s.attention_multiplier == 0.125f);
    assert_true(s.attn_logit_softcapping == 50 && s.final_logit_softcapping == 30 && s.rope_local.rotary_dim == 0);
    assert_true(s.window[0] == 4096 && s.window[1] == 0 && s.window[2] == 4096);
    must_parse(&s, "Gemma2ForCausalLM",
               "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":7,\"hidden_act\":\"gelu\","
               "\"sliding_window\":9,\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\"]");
    assert_true(s.attn_logit_softcapping == 0 && s.final_logit_softcapping == 7 && s.hidden_act == ACT_GELU_TANH);
    assert_true(s.window[0] == 0 && s.window[1] == 0 && s.window[2] == 9 && s.head_dim == 256);
    must_fail("Gemma2ForCausalLM", "\"use_bidirectional_attention\":true", ERROR_UNSUPPORTED, "later positions");
    must_fail("Gemma2ForCausalLM", "\"hidden_activation\":\"gelu\"", ERROR_UNSUPPORTED, "'gelu' is not supported");
    must_parse(&s, "Gemma3ForCausalLM", "\"attn_logit_softcapping\":5,\"final_logit_softcapping\":6");
    assert_true(s.attn_logit_softcapping == 0 && s.final_logit_softcapping == 6); // the first is not used by its class
    must_parse(&s, "Gemma3ForCausalLM", "\"sliding_window\":5,\"sliding_window_pattern\":3");
    assert_true(s.qk_norm == QK_NORM_HEAD && s.window[0] == 5 && s.window[1] == 5 && s.window[2] == 0);
    assert_true(s.rope.theta == 1e6 && s.rope_local.theta == 1e4 && s.rope_local.rotary_dim == 256);
    assert_true(s.attn_logit_softcapping == 0 && s.final_logit_softcapping == 0);
    must_parse(&s, "GemmaForCausalLM", "\"hidden_act\":\"gelu\"");
    assert_true(s.hidden_act == ACT_GELU_TANH && s.norm_place == NORM_BEFORE && s.embedding_multiplier == 8 &&
                s.attention_multiplier == 0);
}

// Both spellings of two ropes; scaling is of the layers without a window alone.
static void test_gemma3_ropes(void **state)
{
    (void)state;
    static const char *const SPELLING[] = {
        "\"rope_theta\":5e5,\"rope_local_base_freq\":700,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}",
        "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":5e5},"
        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":700}}"};
    for (int i = 0; i < 2; i++) {
        struct model_spec s;
        must_parse(&s, "Gemma3ForCausalLM", SPELLING[i]);
        assert_true(s.rope.kind == ROPE_LINEAR && s.rope.factor == 8 && s.rope.theta == 5e5);
        assert_true(s.rope_local.kind == ROPE_DEFAULT && s.rope_local.theta == 700);
    }
    must_fail("Gemma3ForCausalLM", "\"rope_parameters\":{\"full_attention\":3}", ERROR_FILE, "is not an object");
}

static void test_text_part_of_a_wrapper(void **state)
{
    (void)state;
    struct model_spec s;
    struct error e = {0};
    const char *text =
        "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],"
        "\"dtype\":\"float16\",\"vision_config\":{},\"text_config\":{\"model_type\":\"gemma3_text\","
        "\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,\"sliding_window\":1024,"
        "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}";
    assert_true(model_spec_from_config(&s, text, strlen(text), "x/config.json", &e));
    assert_string_equal(s.family, "gemma3");
    assert_true(s.num_attention_heads == 8 && s.num_key_value_heads == 4 && s.vocab_size == 262208 && s.head_dim == 256);
    assert_true(s.n_eos == 2 && s.eos_token_id[1] == 106 && s.dtype == DTYPE_F16 && s.tie_word_embeddings);
    text = "{\"architectures\":[\"MllamaForConditionalGeneration\"],\"text_config\":{\"model_type\":\"mllama_text_model\"}}";
    assert_false(model_spec_from_config(&s, text, strlen(text), "x/config.json", &e));
    assert_error(&e, ERROR_UNSUPPORTED, "mllama_text_model is not supported");
    text = "{\"architectures\":[\"Mistral3ForConditionalGeneration\"],\"text_config\":{\"model_type\":\"mistral\","
           "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
           "\"num_key_value_heads\":2,\"head_dim\":32,\"vocab_size\":100,\"sliding_window\":null}}";
    assert_true(model_spec_from_config(&s, text, strlen(text), "x/config.json", &e));
    assert_true(s.head_dim == 32 && s.window[0] == 0);
}

static void test_phi_olmo_granite(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "Phi3ForCausalLM", "\"sliding_window\":7");
    assert_true(s.window[0] == 7 && s.window[2] == 7 && s.rms_norm_eps == 1e-5f && !s.qkv_bias);
    must_parse(&s, "Phi3ForCausalLM", "");
    assert_true(s.window[0] == 0 && s.rope.kind == ROPE_DEFAULT);
    must_parse(&s, "Olmo2ForCausalLM", "");
    assert_true(s.norm_place == NORM_AFTER && s.qk_norm == QK_NORM_ROW && s.rms_norm_eps == 1e-5f);
    must_parse(&s, "Olmo3ForCausalLM", "\"sliding_window\":3,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8}");
    assert_true(s.window[0] == 3 && s.window[2] == 3 && s.rope.kind == ROPE_YARN && s.rope_local.kind == ROPE_DEFAULT);
    assert_true(s.rope.theta == 5e5 && s.rope_local.theta == 5e5);
    must_parse(&s, "Olmo3ForCausalLM", "\"rope_local_base_freq\":700");
    assert_true(s.rope_local.theta == 5e5); // the key is Gemma 3's
    must_parse(&s, "GraniteForCausalLM", "\"residual_multiplier\":0.22,\"logits_scaling\":8,\"mlp_bias\":true");
    assert_true(s.residual_multiplier == 0.22f && s.logits_scaling == 8 && s.embedding_multiplier == 1 && s.mlp_bias);
    assert_true(s.attention_multiplier == 1); // the class's default, not 1 / sqrt(head_dim)
    must_fail("GraniteForCausalLM", "\"logits_scaling\":0", ERROR_FILE, "'logits_scaling' is 0");
}

static void test_smollm3(void **state)
{
    (void)state;
    struct model_spec s;
    must_parse(&s, "SmolLM3ForCausalLM", "\"no_rope_layer_interval\":3");
    assert_true(!s.no_rope[0] && !s.no_rope[1] && s.no_rope[2] && s.rope.theta == 2e6 && s.tie_word_embeddings);
    must_parse(&s, "SmolLM3ForCausalLM", "\"no_rope_layers\":[0,1,1]");
    assert_true(s.no_rope[0] && !s.no_rope[1] && !s.no_rope[2]);
    must_fail("SmolLM3ForCausalLM", "\"no_rope_layers\":[0,1]", ERROR_FILE, "list of 3 numbers");
    must_parse(&s, "LlamaForCausalLM", "\"no_rope_layers\":[0,1]"); // not a key of Llama's
    assert_true(!s.no_rope[0]);
}

// Values worked by hand from the formulas: 16 values turn, theta 10000, 64 positions stretched four times.
static void test_rope_yarn(void **state)
{
    (void)state;
    struct model_spec s;
    float freq[MODEL_MAX_ROTARY / 2];
    must_parse(&s, "LlamaForCausalLM",
               "\"max_position_embeddings\":256,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
               "\"original_max_position_embeddings\":64,\"beta_fast\":8,\"beta_slow\":0.5}");
    assert_close((double)s.rope.magnitude, 0.1 * log(4) + 1);
    rope_inv_freq(&s.rope, false, freq);
    // Dimensions 16 ln(64 / (2 pi turns)) / (2 ln 10000): 0.2098 for 8 turns, 2.6181 for half a turn; rounded outwards, 0
    // and 3.
    for (int i = 0; i < 8; i++) {
        double plain = pow(10000, -i / 8.0), ramp = fmin(i / 3.0, 1);
        assert_close((double)freq[i], plain * (1 - ramp) + plain / 4 * ramp);
    }
    must_parse(&s, "LlamaForCausalLM",
               "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":64,"
               "\"beta_fast\":8,\"beta_slow\":0.5,\"truncate\":false,\"attention_factor\":1.5}");
    assert_true(s.rope.magnitude == 1.5f);
    rope_inv_freq(&s.rope, false, freq);
    double low = 8 * log(64 / (2 * 3.14159265358979 * 8)) / log(10000), high = low + 8 * log(16) / log(10000);
    double ramp = (1 - low) / (high - low), plain = pow(10000, -1 / 8.0);
    assert_close((double)freq[1], plain * (1 - ramp) + plain / 4 * ramp);
    must_parse(&s, "LlamaForCausalLM",
               "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":0.707,\"mscale_all_dim\":0.5}");
    assert_close((double)s.rope.magnitude, (0.0707 * log(40) + 1) / (0.05 * log(40) + 1));
    assert_int_equal(s.rope.original_max_position_embeddings, 2048); // the model's own
}

static void test_rope_long(void **state)
{
    (void)state;
    struct model_spec s;
    float freq[MODEL_MAX_ROTARY / 2];
    static const char *const SPELLING[] = {
        "\"original_max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"su\",",
        "\"original_max_position_embeddings\":64,\"rope_parameters\":{\"rope_type\":\"longrope\","};
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "\"max_position_embeddings\":1024,\"partial_rotary_factor\":0.5,%s\"short_factor\":[1,1.5,2,2.5],"
                 "\"long_factor\":[1,4,8,16]}",
                 SPELLING[i]);
        must_parse(&s, "Phi3ForCausalLM", text);
        assert_true(s.rope.kind == ROPE_LONG && s.rope.rotary_dim == 8);
        assert_close((double)s.rope.magnitude, sqrt(1 + log(16) / log(64)));
        assert_true(!rope_is_long(&s.rope, 64) && rope_is_long(&s.rope, 65));
        rope_inv_freq(&s.rope, false, freq);
        assert_close((double)freq[3], pow(10000, -6 / 8.0) / 2.5);
        rope_inv_freq(&s.rope, true, freq);
        assert_close((double)freq[3], pow(10000, -6 / 8.0) / 16);
    }
    must_fail("Phi3ForCausalLM", "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[1]}",
              ERROR_FILE, "'short_factor' of 8 numbers");
    must_fail(
        "Phi3ForCausalLM",
        "\"partial_rotary_factor\":0.125,\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[0],\"long_factor\":[1]}",
        ERROR_FILE, "no number above 0");
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
    must_fail("BloomForCausalLM", "", ERROR_UNSUPPORTED,
              "BloomForCausalLM is not supported, expected one of LlamaForCausalLM, MistralForCausalLM, "
              "Qwen2ForCausalLM, Qwen3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM");
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
                          "\"num_key_value_heads\":null,\"intermediate_size\":32,\"vocab_size\":10}";
    assert_true(model_spec_from_config(&s, by_type, strlen(by_type), "config.json", &e));
    assert_string_equal(s.family, "qwen3");
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
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_gemma3_ropes),
        cmocka_unit_test(test_text_part_of_a_wrapper),
        cmocka_unit_test(test_phi_olmo_granite),
        cmocka_unit_test(test_smollm3),
        cmocka_unit_test(test_rope_yarn),
        cmocka_unit_test(test_rope_long),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
