// What inspect says of files that are well, odd, or of models that nothing here runs.
#include "engine/load/inspect.h"
#include "tests/files.h"
#include "tests/gguf_writer.h"

static struct bytes file; // too large for the stack of a test

static void look(struct inspection *in, const char *path)
{
    struct error e = {0};
    if (!inspect_path(in, path, &e))
        fail_msg("%s", e.message);
}

static bool has_note(const struct inspection *in, const char *part)
{
    for (int32_t i = 0; i < in->n_notes; i++)
        if (strstr(in->note[i], part))
            return true;
    return false;
}

static void test_models(void **state)
{
    (void)state;
    struct inspection in;
    look(&in, "tests/golden/gguf/llama-mha-q4_1.gguf");
    assert_string_equal(in.format, "GGUF");
    assert_string_equal(in.architecture, "llama");
    assert_true(in.has_spec && in.n_files == 1 && in.n_tensors == 29 && in.parameters == 162240);
    assert_int_equal(in.n_types, 2);
    assert_string_equal(in.type[0].name, "Q4_1");
    assert_true(in.type[0].n_tensors == 22 && in.type[0].values == 161792 && in.type[0].bytes == 161792 / 32 * 20);
    assert_true(has_note(&in, "the head is the embedding table"));
    assert_string_equal(in.tokenizer, "'gpt2' with pre-tokenizer 'gpt-2', 320 tokens");
    look(&in, "tests/golden/llama-mha");
    assert_string_equal(in.format, "Hugging Face folder, safetensors");
    assert_string_equal(in.architecture, "LlamaForCausalLM");
    assert_true(in.n_files == 4 && in.has_spec);
    look(&in, "tests/golden/mistral-swa");
    assert_true(has_note(&in, "layers see a window only"));
    look(&in, "tests/golden/qwen3/config.json");
    assert_string_equal(in.format, "config.json");
    assert_true(in.has_spec && in.spec.num_hidden_layers == 3 && !in.n_tensors);
    look(&in, "tests/golden/qwen3/model.safetensors");
    assert_true(!in.has_spec && in.n_tensors > 0 && has_note(&in, "weights alone"));
}

// A model that nothing here runs is described all the same.
static void test_unknown_architecture(void **state)
{
    (void)state;
    struct inspection in;
    char folder[64], path[256];
    put_head(&file, 3, 2, 1);
    put_string_value(&file, "general.architecture", "mamba");
    put_tensor(&file, "a", 32, 4, 8, 0);     // Q8_0
    put_tensor(&file, "b", 256, 1, 19, 160); // IQ1_S
    put_padding(&file, 32);
    put_zeros(&file, 160 + 64);
    scratch_make(folder);
    scratch_write(folder, "x.gguf", file.data, file.size);
    look(&in, scratch_path(folder, "x.gguf", path));
    assert_string_equal(in.architecture, "mamba");
    assert_true(!in.has_spec && in.n_tensors == 2 && in.parameters == 128 + 256);
    assert_true(has_note(&in, "architecture 'mamba' is not supported"));
    assert_true(has_note(&in, "tensor 'b' is stored as IQ1_S"));
    put_head(&file, 3, 0, 1); // nor is the size of anything said here
    put_string_value(&file, "general.architecture", "llama");
    put_padding(&file, 32);
    scratch_write(folder, "x.gguf", file.data, file.size);
    look(&in, path);
    assert_true(!in.has_spec && has_note(&in, "metadata 'llama.block_count' is missing"));
    scratch_remove(folder, "x.gguf", NULL);
}

static void test_missing_and_unused(void **state)
{
    (void)state;
    static const char NAME[] = "model.layers.1.mlp.up_proj.weight";
    struct inspection in;
    char folder[64], path[256];
    size_t n_weights, n_config, n = sizeof NAME - 1;
    uint8_t *weights = slurp("tests/golden/qwen3/model.safetensors", &n_weights);
    uint8_t *config = slurp("tests/golden/qwen3/config.json", &n_config), *at = memmem(weights, n_weights, NAME, n);
    assert_non_null(at);
    memcpy(at, "model.layers.1.mlp.pu", 21);
    scratch_make(folder);
    scratch_write(folder, "model.safetensors", weights, n_weights);
    scratch_write(folder, "config.json", config, n_config);
    scratch_text(folder, "tokenizer.json",
                 "{\"added_tokens\": [], \"model\": {\"type\": \"Unigram\", \"vocab\": [[\"model\", 1]]}}");
    look(&in, folder);
    assert_true(has_note(&in, "1 tensors are missing: 'model.layers.1.mlp.up_proj.weight'"));
    assert_true(has_note(&in, "1 tensors are not used: 'model.layers.1.mlp.pu_proj.weight'"));
    assert_string_equal(in.tokenizer, "tokenizer.json, Unigram");
    look(&in, scratch_path(folder, "tokenizer.json", path));
    assert_string_equal(in.format, "tokenizer");
    scratch_remove(folder, "model.safetensors", "config.json", "tokenizer.json", NULL);
    free(weights);
    free(config);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *path, *part;
    } CASE[] = {{"tests/golden/none", "no such file or folder"},
                {"tests/golden/README.md", "expected a folder, a .gguf"},
                {"tests/golden/gguf", "no config.json in this folder, but 'gemma2-f32.gguf'"}};
    struct inspection in;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct error e = {0};
        assert_false(inspect_path(&in, CASE[i].path, &e));
        assert_error(&e, ERROR_FILE, CASE[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_unknown_architecture),
        cmocka_unit_test(test_missing_and_unused),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
