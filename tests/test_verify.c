// The protocol on models small enough to run it in a blink; and that it fails where the engine is wrong.
#include "bench/verify.h"

#include "engine/base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void open_small(struct opened *o, const char *path, const char *backend)
{
    struct open_request request = {.model = path, .backend = backend, .device = {.threads = 2}};
    struct error e = {0};
    if (!open_model(o, &request, &e))
        fail_msg("%s", e.message);
}

static void run(struct opened *o, enum dtype kv, struct verify_report *report)
{
    struct verify_options options = {.device = {.threads = 2}, .kv = kv, .seed = 1};
    struct error e = {0};
    *report = (struct verify_report){0};
    if (!verify_protocol(o, &options, report, &e))
        fail_msg("%s", e.message);
}

static const struct verify_check *find(const struct verify_report *r, const char *name)
{
    for (int32_t i = 0; i < r->n; i++)
        if (!strcmp(r->check[i].name, name))
            return &r->check[i];
    fail_msg("no check '%s'", name);
    return NULL;
}

static void assert_passes(const char *path, const char *backend, enum dtype kv)
{
    struct opened o;
    struct verify_report r;
    int32_t controls = 0;
    open_small(&o, path, backend);
    run(&o, kv, &r);
    for (int32_t i = 0; i < r.n; i++) {
        controls += r.check[i].control;
        if (!r.check[i].passed)
            fail_msg("%s, %s KV, %s: %g (%s)", path, dtype_name(kv), r.check[i].name, r.check[i].max_diff,
                     r.check[i].detail);
    }
    assert_int_equal(r.n_failed, 0);
    assert_int_equal(controls, o.backend.weightless ? 3 : 4);
    assert_int_equal(r.n - controls, 15);
    open_close(&o);
}

static void test_every_way_equals_one_pass(void **state)
{
    (void)state;
    assert_passes("tests/golden/llama-gqa", "cpu", DTYPE_F32);
    assert_passes("tests/golden/mistral-swa", "cpu", DTYPE_F32);
    assert_passes("tests/golden/qwen3", "cpu", DTYPE_F32);
    assert_passes("tests/golden/gguf/llama-gqa-q8_0.gguf", "cpu", DTYPE_F32);
}

static void test_with_kv_in_fewer_bits(void **state)
{
    (void)state;
    assert_passes("tests/golden/qwen3", "cpu", DTYPE_BF16);
    assert_passes("tests/golden/mistral-swa", "cpu", DTYPE_F16);
    assert_passes("tests/golden/llama-gqa", "cpu", DTYPE_INT8);
}

static void test_with_random_weights(void **state)
{
    (void)state;
    assert_passes("tests/golden/qwen2/config.json", "cpu", DTYPE_F32);
}

static void test_the_harness_alone(void **state)
{
    (void)state;
    assert_passes("tests/golden/llama-gqa", "null", DTYPE_F32);
}

// Where each token sees itself alone, no fault of the KV can show: the controls that need it are left out.
static void test_windows_of_one(void **state)
{
    (void)state;
    struct opened o;
    struct verify_report r;
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    for (int32_t i = 0; i < o.model.spec.num_hidden_layers; i++)
        o.model.spec.window[i] = 1;
    run(&o, DTYPE_F32, &r);
    assert_int_equal(r.n_failed, 0);
    assert_int_equal(r.n, 16);
    assert_true(find(&r, "window off by one")->control);
    open_close(&o);
}

// LongRoPE whose original context ends inside the sequence: keys of a short context are not those of a long one.
static void test_beyond_the_original_context(void **state)
{
    (void)state;
    struct opened o;
    struct verify_report r;
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    struct rope_spec *rope = &o.model.spec.rope;
    rope->kind = ROPE_LONG, rope->original_max_position_embeddings = 10;
    for (int32_t i = 0; i < rope->rotary_dim / 2; i++)
        rope->freq_factor[i] = 1, rope->long_factor[i] = 4;
    run(&o, DTYPE_F32, &r);
    assert_int_equal(r.n_failed, 0);
    open_close(&o);
}

static bool forget_moves(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    (void)self, (void)moves, (void)n, (void)e;
    return true;
}

static void test_an_engine_that_copies_nothing_fails(void **state)
{
    (void)state;
    struct opened o;
    struct verify_report r;
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    o.backend.move = forget_moves;
    run(&o, DTYPE_F32, &r);
    assert_false(find(&r, "fork and copy-on-write")->passed);
    assert_true(find(&r, "token by token")->passed);
    assert_int_equal(r.n_failed, 1);
    open_close(&o);
}

static bool read_constant(void *self, int32_t out_row, float *logits, struct error *e)
{
    (void)self, (void)out_row, (void)e;
    for (int i = 0; i < 320; i++)
        logits[i] = (float)i;
    return true;
}

// All checks agree, and that is the trouble: no fault shows.
static void test_an_engine_that_sees_nothing_fails(void **state)
{
    (void)state;
    struct opened o;
    struct verify_report r;
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    o.backend.read = read_constant;
    run(&o, DTYPE_F32, &r);
    assert_false(find(&r, "table entry flipped")->passed);
    assert_false(find(&r, "copy dropped")->passed);
    assert_false(find(&r, "position off by one")->passed);
    assert_false(find(&r, "window off by one")->passed);
    open_close(&o);
}

static bool (*true_read)(void *self, int32_t out_row, float *logits, struct error *e);
static bool read_with_noise(void *self, int32_t out_row, float *logits, struct error *e)
{
    bool ok = true_read(self, out_row, logits, e);
    logits[7] += out_row == 3 ? 0.01f : 0;
    return ok;
}

// One logit that depends on the row's place in its step.
static void test_one_wrong_logit_fails(void **state)
{
    (void)state;
    struct opened o;
    struct verify_report r;
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    true_read = o.backend.read;
    o.backend.read = read_with_noise;
    run(&o, DTYPE_F32, &r);
    assert_false(find(&r, "token by token")->passed);
    assert_true(find(&r, "token by token")->max_diff > 1e-3);
    o.backend.read = true_read;
    open_close(&o);
}

static bool read_nan(void *self, int32_t out_row, float *logits, struct error *e)
{
    bool ok = true_read(self, out_row, logits, e);
    logits[0] = NAN;
    return ok;
}

static void test_logits_must_be_finite(void **state)
{
    (void)state;
    struct verify_options options = {.device = {.threads = 1}, .kv = DTYPE_F32, .seed = 1};
    struct verify_report r = {0};
    struct opened o;
    struct error e = {0};
    open_small(&o, "tests/golden/llama-gqa", "cpu");
    true_read = o.backend.read;
    o.backend.read = read_nan;
    assert_false(verify_protocol(&o, &options, &r, &e));
    assert_int_equal(e.kind, ERROR_FAILED);
    open_close(&o);
}

// Generation with and without a cache on a computing backend: the same ids, and the count of tokens.
static void test_generation_counts(void **state)
{
    (void)state;
    enum { PROMPT = 20, N = 40 };
    struct opened o;
    struct error e = {0};
    struct kv_config kv = kv_config_for(1, PROMPT + N, 16, PROMPT + N, 1);
    int32_t prompt[PROMPT], out[2][N], n_out;
    open_small(&o, "tests/golden/qwen3", "cpu");
    verify_choose_types(&o, DTYPE_F32);
    for (int32_t i = 0; i < PROMPT; i++)
        prompt[i] = i * 7 % 320;
    for (int use_cache = 0; use_cache < 2; use_cache++) {
        struct session session = {0};
        struct sampler sampler;
        assert_true(open_engine(&o, &kv, &e));
        assert_true(sampler_init(&sampler, 0, 0, 1, 0, &e));
        struct token_source source = sampler_source(&sampler);
        struct generate_options options = {.max_tokens = N, .use_cache = use_cache};
        assert_true(engine_generate(&o.engine, &session, prompt, PROMPT, &source, &options, out[use_cache], &n_out, &e));
        assert_int_equal(o.engine.tokens_processed, use_cache ? PROMPT + N - 1 : PROMPT * N + N * (N - 1) / 2);
        session_free(&o.engine, &session);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    open_close(&o);
}

// Reference files in the form of cases, made from the logits of a tiny model.
static void write_cases(const char *path, const char *file, double error)
{
    cJSON *full = NULL, *root = cJSON_CreateObject(), *cases = cJSON_AddArrayToObject(root, "cases"), *one, *top;
    assert_true(json_load("tests/golden/qwen3/reference.json", &full, NULL));
    int32_t n_prompt = cJSON_GetArraySize(json_member(full, "prompt")), n_greedy = 12, vocab = 320;
    float *logits = malloc(48 * 320 * sizeof *logits);
    FILE *f = fopen("tests/golden/qwen3/logits.f32", "rb");
    assert_true(logits && f && fread(logits, 320 * sizeof *logits, 48, f) == 48);
    fclose(f);
    cJSON_AddStringToObject(root, "file", file);
    cJSON_AddItemToArray(cases, one = cJSON_CreateObject());
    cJSON_AddStringToObject(one, "name", "tiny");
    cJSON_AddItemToObject(one, "prompt_ids", cJSON_Duplicate(json_member(full, "prompt"), 1));
    cJSON_AddItemToObject(one, "greedy", cJSON_Duplicate(json_member(full, "greedy"), 1));
    top = cJSON_AddArrayToObject(one, "top10");
    for (int32_t i = 0; i < n_greedy; i++) {
        float *row = logits + (n_prompt - 1 + i) * vocab;
        cJSON *step = cJSON_CreateObject(), *ids = cJSON_AddArrayToObject(step, "ids"),
              *values = cJSON_AddArrayToObject(step, "logits");
        for (int k = 0; k < 10; k++) {
            int32_t best = logits_argmax(row, vocab);
            cJSON_AddItemToArray(ids, cJSON_CreateNumber(best));
            cJSON_AddItemToArray(values, cJSON_CreateNumber((double)row[best] + error * (i == 5 && k == 9)));
            row[best] = -INFINITY;
        }
        cJSON_AddItemToArray(top, step);
    }
    char *text = cJSON_Print(root);
    f = fopen(path, "w");
    assert_true(f && text);
    fputs(text, f);
    fclose(f);
    free(text);
    free(logits);
    cJSON_Delete(root);
    cJSON_Delete(full);
}

static void test_cases_beside_a_model(void **state)
{
    (void)state;
    char folder[] = "/tmp/kvbench_verify_XXXXXX", json[64], gguf[64];
    struct verify_options options = {.kv = DTYPE_F32};
    struct verify_report r = {0}, wrong = {0};
    struct opened o;
    struct error e = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(json, sizeof json, "%s/answers.json", folder);
    snprintf(gguf, sizeof gguf, "%s/some.gguf", folder);
    open_small(&o, "tests/golden/qwen3", "cpu");
    write_cases(json, "some.gguf", 0);
    assert_true(verify_golden(&o, &options, json, &r, &e));
    assert_true(verify_golden(&o, &options, gguf, &r, &e)); // found by its "file"
    assert_int_equal(r.n, 6);
    assert_int_equal(r.n_failed, 0);
    write_cases(json, "another.gguf", 0.01);
    assert_false(verify_golden(&o, &options, gguf, &wrong, &e));
    assert_true(verify_golden(&o, &options, json, &wrong, &e));
    assert_int_equal(wrong.n_failed, 2); // one logit in both passes; the ids still agree
    open_close(&o);
    remove(json);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_equals_one_pass),
        cmocka_unit_test(test_with_kv_in_fewer_bits),
        cmocka_unit_test(test_with_random_weights),
        cmocka_unit_test(test_windows_of_one),
        cmocka_unit_test(test_beyond_the_original_context),
        cmocka_unit_test(test_the_harness_alone),
        cmocka_unit_test(test_an_engine_that_copies_nothing_fails),
        cmocka_unit_test(test_an_engine_that_sees_nothing_fails),
        cmocka_unit_test(test_one_wrong_logit_fails),
        cmocka_unit_test(test_logits_must_be_finite),
        cmocka_unit_test(test_generation_counts),
        cmocka_unit_test(test_cases_beside_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
