// What a Hugging Face folder says beside its shape: quantized weights, ends of texts, sampling.
#include "engine/load/model.h"
#include "engine/load/scales.h"
#include "tests/files.h"

#include <cjson/cJSON.h>
#include <math.h>

static const char LLAMA[] = "\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":3,"
                            "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":160,"
                            "\"vocab_size\":320,\"eos_token_id\":2";

// Opens a folder with llama-gqa's weights, this in config.json, and a generation_config.json if not NULL.
static bool open_with(struct model *m, const char *more, const char *generation, struct error *e)
{
    char folder[64], text[2048];
    size_t size;
    uint8_t *weights = slurp("tests/golden/llama-gqa/model.safetensors", &size);
    scratch_make(folder);
    scratch_write(folder, "model.safetensors", weights, size);
    snprintf(text, sizeof text, "{%s%s%s}", LLAMA, *more ? "," : "", more);
    scratch_text(folder, "config.json", text);
    if (generation)
        scratch_text(folder, "generation_config.json", generation);
    *e = (struct error){0};
    bool ok = model_open(m, folder, e);
    scratch_remove(folder, "model.safetensors", "config.json", "generation_config.json", NULL);
    free(weights);
    return ok;
}

static void must_refuse(const char *more, const char *generation, enum error_kind kind, const char *part)
{
    struct model m;
    struct error e;
    if (open_with(&m, more, generation, &e))
        fail_msg("accepted: %s", more);
    assert_error(&e, kind, part);
}

static void must_open(struct model *m, const char *more, const char *generation)
{
    struct error e;
    if (!open_with(m, more, generation, &e))
        fail_msg("%s: %s", more, e.message);
}

static void test_quantized_weights_are_refused_by_name(void **state)
{
    static const char *const METHOD[] = {"gptq", "awq", "bitsandbytes", "hqq", "mxfp4", "modelopt", "torchao"};
    char text[256], part[96];
    (void)state;
    for (size_t i = 0; i < sizeof METHOD / sizeof *METHOD; i++) {
        snprintf(text, sizeof text, "\"quantization_config\":{\"bits\":4,\"quant_method\":\"%s\"}", METHOD[i]);
        snprintf(part, sizeof part, "quantized by '%s' are not supported, use the model's unquantized folder", METHOD[i]);
        must_refuse(text, NULL, ERROR_UNSUPPORTED, part);
    }
    must_refuse(
        "\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"weights\":"
        "{\"type\":\"int\",\"num_bits\":4}}}}",
        NULL, ERROR_UNSUPPORTED, "not in 8-bit floats");
    must_refuse("\"quantization_config\":{}", NULL, ERROR_UNSUPPORTED, "'an unknown method'");
    must_refuse("\"quantization_config\":7", NULL, ERROR_FILE, "'quantization_config' is not an object");
    must_refuse("\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}", NULL, ERROR_FILE,
                "no pair of whole numbers");
}

static void test_fp8_is_accepted(void **state)
{
    struct model m;
    (void)state;
    must_open(&m, "\"quantization_config\":null", NULL);
    model_close(&m);
    must_open(&m, "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[64,32]}", NULL);
    model_close(&m);
    must_open(&m, "\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}", NULL);
    model_close(&m);
}

static void test_every_fp8_code(void **state)
{
    static const struct scales ONE = {0};
    (void)state;
    for (int code = 0; code < 256; code++) {
        int exponent = code >> 3 & 15, mantissa = code & 7;
        uint8_t byte = (uint8_t)code;
        double expected = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        float got;
        scales_row(&ONE, &byte, 0, 1, &got);
        if ((code & 0x7f) == 0x7f)
            assert_true(isnan(got));
        else
            assert_true((double)got == (code & 0x80 ? -expected : expected));
    }
}

// A shape alone can be priced whatever its weights are stored as.
static void test_a_shape_may_be_quantized(void **state)
{
    struct model_spec spec;
    struct error e = {0};
    char text[1024];
    int n = snprintf(text, sizeof text, "{%s,\"quantization_config\":{\"quant_method\":\"awq\"}}", LLAMA);
    (void)state;
    assert_true(model_spec_from_config(&spec, text, (size_t)n, "config.json", &e));
}

static void test_generation_config(void **state)
{
    struct model m;
    (void)state;
    must_open(&m, "", NULL);
    assert_true(!m.sampling.is_set && m.spec.n_eos == 1 && m.spec.eos_token_id[0] == 2);
    model_close(&m);
    must_open(&m, "", "{\"eos_token_id\":[5,7],\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20}");
    assert_true(m.sampling.is_set && m.sampling.temperature == 0.6f && m.sampling.top_p == 0.95f && m.sampling.top_k == 20);
    assert_true(m.spec.n_eos == 2 && m.spec.eos_token_id[0] == 5 && m.spec.eos_token_id[1] == 7);
    model_close(&m);
    must_open(&m, "", "{\"do_sample\":true}");
    assert_true(m.sampling.is_set && m.sampling.temperature == 1 && m.sampling.top_p == 1 && m.sampling.top_k == 50);
    assert_true(m.spec.n_eos == 1 && m.spec.eos_token_id[0] == 2);
    model_close(&m);
    must_open(&m, "", "{\"temperature\":0.6}");
    assert_false(m.sampling.is_set);
    model_close(&m);
    must_refuse("", "{\"temperature\":-1}", ERROR_FILE, "'temperature' is -1");
    must_refuse("", "[]", ERROR_FILE, "expected an object");
    must_refuse("", "", ERROR_FILE, "generation_config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_weights_are_refused_by_name),
        cmocka_unit_test(test_fp8_is_accepted),
        cmocka_unit_test(test_every_fp8_code),
        cmocka_unit_test(test_a_shape_may_be_quantized),
        cmocka_unit_test(test_generation_config),
    };
    return cmocka_run_group_tests_name("hf", tests, NULL, NULL);
}
