// What is exported and read back is the same model: bit for bit where the type holds the values, within its rounding else.
#include "bench/open.h"
#include "engine/load/export.h"
#include "engine/load/files.h"
#include "engine/load/tokenizer_parts.h"
#include "tests/files.h"
#include "tests/golden_models.h"

#include <math.h>

static void open_path(struct opened *o, const char *path, const char *weights, uint64_t seed)
{
    struct open_request request = {
        .model = path, .backend = "cpu", .device = {.threads = 1}, .weights = weights, .seed = seed};
    struct error e = {0};
    if (!open_model(o, &request, &e))
        fail_msg("%s", e.message);
}

static void export_as(const struct opened *o, enum dtype type, const char *path)
{
    struct export_report r;
    struct error e = {0};
    if (!model_export_gguf(&o->model, o->plan, o->weights.tensor, type, path, &r, &e))
        fail_msg("%s", e.message);
}

// All logits of one pass over a fixed text; malloc'ed.
static float *logits_of(struct opened *o)
{
    static const int32_t ID[] = {1, 7, 42, 3, 99, 100, 5, 17, 200, 8, 64, 31};
    enum { N = sizeof ID / sizeof *ID };
    struct kv_config kv = kv_config_for(1, N, 0, N, N);
    struct session session = {0};
    struct step step = {.session = &session, .token = ID, .n_tokens = N, .out = STEP_OUT_ALL};
    struct error e = {0};
    o->options.kv_k = o->options.kv_v = DTYPE_F32;
    if (!open_engine(o, &kv, &e) || !engine_step(&o->engine, &step, 1, NULL, &e))
        fail_msg("%s", e.message);
    size_t vocab = (size_t)o->plan->vocab_size;
    float *logits = malloc(N * vocab * sizeof *logits);
    for (int32_t i = 0; i < N; i++)
        assert_true(engine_logits(&o->engine, i, logits + (size_t)i * vocab, &e));
    session_free(&o->engine, &session);
    return logits;
}

static float *floats_of(const struct tensor *t)
{
    size_t cols = (size_t)t->cols;
    float *x = malloc((size_t)t->rows * cols * sizeof *x);
    void *row = malloc(dtype_row_bytes(t->dtype, cols));
    struct error e;
    for (int32_t r = 0; r < t->rows; r++)
        assert_true(tensor_read(t, r, 1, row, &e) && dtype_to_f32(t->dtype, row, x + (size_t)r * cols, cols));
    free(row);
    return x;
}

// Largest difference between the weights of two models, as a share of the largest value of a block of 32 in the first.
static float weights_differ(const struct opened *a, const struct opened *b)
{
    float worst = 0;
    assert_int_equal(a->plan->n_tensors, b->plan->n_tensors);
    for (int32_t i = 0; i < a->plan->n_tensors; i++) {
        float *x = floats_of(&a->weights.tensor[i]), *y = floats_of(&b->weights.tensor[i]);
        size_t n = (size_t)a->weights.tensor[i].rows * (size_t)a->weights.tensor[i].cols;
        assert_int_equal(a->weights.tensor[i].rows, b->weights.tensor[i].rows);
        for (size_t at = 0; at < n; at += 32) {
            float largest = 1e-9f, difference = 0;
            for (size_t k = at; k < at + 32 && k < n; k++) {
                largest = fmaxf(largest, fabsf(x[k]));
                difference = fmaxf(difference, fabsf(x[k] - y[k]));
            }
            worst = fmaxf(worst, difference / largest);
        }
        free(x);
        free(y);
    }
    return worst;
}

static char folder[64], out[256];

// 0, or one more rounding where frequencies become divisors: Llama 3's scaling in config.json.
static void check_f32(const char *model, float tolerance)
{
    struct opened from, to;
    open_path(&from, model, NULL, 0);
    export_as(&from, DTYPE_F32, scratch_path(folder, "f32.gguf", out));
    open_path(&to, out, NULL, 0);
    assert_true(weights_differ(&from, &to) == 0);
    float *x = logits_of(&from), *y = logits_of(&to);
    size_t n = 12 * (size_t)from.plan->vocab_size;
    for (size_t k = 0; k < n; k++)
        if (!(fabsf(x[k] - y[k]) <= tolerance))
            fail_msg("'%s': logit %zu is %g and then %g", model, k, (double)x[k], (double)y[k]);
    free(x);
    free(y);
    open_close(&from);
    open_close(&to);
}

static void test_f32_is_bit_for_bit(void **state)
{
    (void)state;
    scratch_make(folder);
    for (int i = 0; i < GOLDEN_MODELS; i++)
        check_f32(GOLDEN_MODEL[i], strcmp(GOLDEN_MODEL[i], "tests/golden/llama3-rope") ? 0 : 1e-5f);
    scratch_remove(folder, "f32.gguf", NULL);
}

static void test_real_model(void **state)
{
    (void)state;
    static const char MODEL[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!file_exists(MODEL)) {
        print_message("there is no %s (make model)\n", MODEL);
        skip();
    }
    scratch_make(folder);
    check_f32(MODEL, 0);
    scratch_remove(folder, "f32.gguf", NULL);
}

static void test_rounding(void **state)
{
    (void)state;
    static const struct {
        enum dtype type;
        float limit; // of a block's largest value: bf16 2^-8, q8_0 half a step of 127 and its f16 scale, q4_0 one of 8
    } CASE[] = {{DTYPE_BF16, 1.0f / 256}, {DTYPE_F16, 1.0f / 2048}, {DTYPE_Q8_0, 0.5f / 127 + 1e-3f}, {DTYPE_Q4_0, 0.126f}};
    scratch_make(folder);
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct opened from, to;
        open_path(&from, "tests/golden/llama-gqa", NULL, 0);
        export_as(&from, CASE[i].type, scratch_path(folder, "x.gguf", out));
        open_path(&to, out, NULL, 0);
        float difference = weights_differ(&from, &to);
        if (!(difference <= CASE[i].limit && difference > CASE[i].limit / 8))
            fail_msg("%s: %g", dtype_name(CASE[i].type), (double)difference);
        assert_int_equal(plan_weight_type(to.plan), CASE[i].type);
        open_close(&from);
        open_close(&to);
    }
    scratch_remove(folder, "x.gguf", NULL);
}

// What is measured with random weights is what another engine loads; and the same bytes come again.
static void test_random_weights(void **state)
{
    (void)state;
    char again[256];
    scratch_make(folder);
    struct opened from, to;
    size_t size[2];
    open_path(&from, "tests/golden/qwen3/config.json", "bf16", 5);
    assert_int_equal(from.model.format, MODEL_RANDOM);
    export_as(&from, DTYPE_BF16, scratch_path(folder, "x.gguf", out));
    export_as(&from, DTYPE_BF16, scratch_path(folder, "y.gguf", again));
    uint8_t *a = slurp(out, &size[0]), *b = slurp(again, &size[1]);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(a, b, size[0]);
    free(a);
    free(b);
    open_path(&to, out, NULL, 0);
    assert_true(weights_differ(&from, &to) == 0);
    open_close(&to);
    open_close(&from);
    scratch_remove(folder, "x.gguf", "y.gguf", NULL);
}

static void test_metadata_are_taken_over(void **state)
{
    (void)state;
    struct gguf a, b;
    struct error e;
    struct opened o;
    scratch_make(folder);
    open_path(&o, "tests/golden/gguf/llama-mha-q4_1.gguf", NULL, 0);
    export_as(&o, DTYPE_Q8_0, scratch_path(folder, "x.gguf", out));
    open_close(&o);
    assert_true(gguf_open(&a, "tests/golden/gguf/llama-mha-q4_1.gguf", &e) && gguf_open(&b, out, &e));
    assert_int_equal(a.n_tensors, b.n_tensors);
    int32_t kept = 0, type = -1;
    for (uint64_t i = 0; i < a.n_values; i++) {
        char key[96];
        const struct gguf_value *v = gguf_find(&b, text_print(a.value[i].key, key));
        assert_non_null(v);
        kept += v->bytes == a.value[i].bytes && !memcmp(v->at, a.value[i].at, v->bytes);
    }
    assert_true(kept >= (int32_t)a.n_values - 2); // all but general.file_type and perhaps the quantization's version
    assert_true(gguf_i32(&b, "general.file_type", &type, &e) && type == 7);
    gguf_close(&a);
    gguf_close(&b);
    scratch_remove(folder, "x.gguf", NULL);
}

// A GPT-2 of a few tokens, its merges written both ways.
static void test_tokenizer(void **state)
{
    (void)state;
    static const char *const MERGES[] = {"\"h e\", \"l l\"", "[\"h\", \"e\"], [\"l\", \"l\"]"};
    static const char TEXT[] = "hello <|end|>o";
    for (int i = 0; i < 2; i++) {
        char json[1024], says[160] = "";
        struct gguf_writer w = {0};
        struct model_spec spec = {.vocab_size = 16, .bos_token_id = -1};
        struct tokenizer *from, *to;
        struct token_list x = {0}, y = {0};
        struct error e = {0};
        void *data;
        size_t size;
        snprintf(
            json, sizeof json,
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"h\": 0, \"e\": 1, \"l\": 2, \"o\": 3, \"\xc4\xa0\": 4, \"he\": "
            "5, "
            "\"ll\": 6}, \"merges\": [%s]}, \"added_tokens\": [{\"id\": 9, \"content\": \"<|end|>\", \"special\": true}], "
            "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}}",
            MERGES[i]);
        scratch_make(folder);
        scratch_text(folder, "tokenizer.json", json);
        assert_true(tokenizer_open(&from, folder, &e));
        assert_true(export_tokenizer(&w, folder, &spec, says, &e));
        assert_string_equal(says, "byte-level BPE, pre-tokenizer 'gpt-2'");
        assert_true(gguf_write_memory(&w, &data, &size, &e) && tokenizer_from_gguf(&to, data, size, "x", &e));
        assert_int_equal(tokenizer_vocab_size(to), 16);
        assert_true(tokenizer_encode(from, TEXT, sizeof TEXT - 1, false, &x, &e) &&
                    tokenizer_encode(to, TEXT, sizeof TEXT - 1, false, &y, &e));
        assert_true(x.n == y.n && x.n == 6);
        assert_memory_equal(x.id, y.id, (size_t)x.n * sizeof *x.id);
        token_list_free(&x);
        token_list_free(&y);
        tokenizer_close(from);
        tokenizer_close(to);
        gguf_writer_free(&w);
        free(data);
        scratch_remove(folder, "tokenizer.json", NULL);
    }
}

static void test_no_half_file(void **state)
{
    (void)state;
    struct opened o;
    struct export_report r;
    struct error e = {0};
    scratch_make(folder);
    open_path(&o, "tests/golden/qwen3", NULL, 0);
    scratch_text(folder, "x.gguf", "what was there before");
    assert_false(model_export_gguf(&o.model, o.plan, o.weights.tensor, DTYPE_F32, "/dev/null/x.gguf", &r, &e));
    assert_error(&e, ERROR_OUTPUT, "'/dev/null/x.gguf': could not be written: ");
    scratch_path(folder, "none/x.gguf", out);
    assert_false(model_export_gguf(&o.model, o.plan, o.weights.tensor, DTYPE_F32, out, &r, &e));
    assert_error(&e, ERROR_OUTPUT, "No such file or directory");
    open_close(&o);
    scratch_remove(folder, "x.gguf", NULL); // and nothing beside it
}

// Which layers have a window is written wherever a reader would guess otherwise.
static void test_windows(void **state)
{
    (void)state;
    static const int32_t WINDOW[][3] = {{5, 5, 5}, {0, 0, 0}, {0, 5, 5}};
    scratch_make(folder);
    for (int i = 0; i < 3; i++) {
        struct opened from, to;
        open_path(&from, "tests/golden/gemma2", NULL, 0);
        int32_t n = from.model.spec.num_hidden_layers;
        for (int32_t layer = 0; layer < n; layer++)
            from.model.spec.window[layer] = WINDOW[i][layer % 3];
        export_as(&from, DTYPE_F32, scratch_path(folder, "x.gguf", out));
        open_path(&to, out, NULL, 0);
        assert_memory_equal(to.model.spec.window, from.model.spec.window, (size_t)n * sizeof *from.model.spec.window);
        open_close(&to);
        open_close(&from);
    }
    scratch_remove(folder, "x.gguf", NULL);
}

static void assert_not_exported(struct opened *o, const char *why)
{
    struct export_report r;
    struct error e = {0};
    assert_false(model_export_gguf(&o->model, o->plan, o->weights.tensor, DTYPE_F32, "/dev/null/x.gguf", &r, &e));
    assert_error(&e, ERROR_UNSUPPORTED, why);
    open_close(o);
}

static void test_what_gguf_cannot_say(void **state)
{
    (void)state;
    struct opened o;
    open_path(&o, "tests/golden/qwen3", NULL, 0);
    o.model.spec.hidden_act = ACT_GELU_TANH;
    assert_not_exported(&o, "another activation than the usual one of qwen3");
    open_path(&o, "tests/golden/gemma3", NULL, 0);
    o.model.spec.rope_local.kind = ROPE_LINEAR;
    assert_not_exported(&o, "rope of layers with a window is scaled");
    open_path(&o, "tests/golden/qwen3", NULL, 0);
    o.model.spec.rope.kind = ROPE_YARN, o.model.spec.rope.ramp_is_exact = true;
    assert_not_exported(&o, "YaRN's ramp is not rounded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_is_bit_for_bit),
        cmocka_unit_test(test_real_model),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_metadata_are_taken_over),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_no_half_file),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_what_gguf_cannot_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
