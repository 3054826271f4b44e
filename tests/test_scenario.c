// Scenario files and flags to points: what is read, what is refused and how.
#include "bench/planner.h"
#include "bench/points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool parse(struct scenario *s, const char *text, struct error *e)
{
    cJSON *json;
    if (!json_parse(text, strlen(text), "dir/x.json", &json, e))
        return false;
    bool ok = scenario_parse(s, json, "dir/x.json", e);
    cJSON_Delete(json);
    return ok;
}

static struct scenario parsed(const char *text)
{
    struct scenario s = {0};
    struct error e = {0};
    if (!parse(&s, text, &e))
        fail_msg("%s", e.message);
    return s;
}

static struct point_list points_of(const struct scenario *s, const char *filter)
{
    struct point_list list;
    struct error e = {0};
    if (!point_list_make(&list, s, NULL, filter, &e))
        fail_msg("%s", e.message);
    return list;
}

static void assert_keys(const struct scenario *s, const char *filter, const char *const *key, int n)
{
    struct point_list list = points_of(s, filter);
    for (int i = 0; i < n && i < list.n; i++)
        assert_string_equal(list.point[i].key, key[i]);
    assert_int_equal(list.n, n);
    point_list_free(&list);
}

static void test_defaults(void **state)
{
    (void)state;
    struct scenario s = parsed("{\"model\": \"m\"}");
    static const char *const KEY[] = {"decode/b1/c512/auto/kv-auto/blk16", "prefill/b1/p512/auto/kv-auto/blk16"};
    assert_string_equal(s.name, "x"); // from the file's name
    assert_string_equal(s.backend, "auto");
    assert_string_equal(s.hardware, "auto");
    assert_int_equal(s.samples, 7);
    assert_int_equal(s.tp, 1);
    assert_keys(&s, NULL, KEY, 2);
}

static void test_product(void **state)
{
    (void)state;
    struct scenario s = parsed("{\"name\": \"n\", \"model\": \"m\", \"weights\": [\"bf16\"],"
                               "\"decode\": {\"batch\": [1, 8], \"context\": [64, 1024], \"kv\": [\"bf16\", \"int8:bf16\"]},"
                               "\"prefill\": {\"tokens\": 128, \"block\": 0},"
                               "\"generate\": {\"prompt\": 100, \"tokens\": 16, \"cache\": [true, false]}}");
    static const char *const KEY[] = {
        "decode/b1/c64/bf16/kv-bf16/blk16",
        "decode/b1/c1024/bf16/kv-bf16/blk16",
        "decode/b8/c64/bf16/kv-bf16/blk16",
        "decode/b8/c1024/bf16/kv-bf16/blk16",
        "decode/b1/c64/bf16/kv-int8:bf16/blk16",
        "decode/b1/c1024/bf16/kv-int8:bf16/blk16",
        "decode/b8/c64/bf16/kv-int8:bf16/blk16",
        "decode/b8/c1024/bf16/kv-int8:bf16/blk16",
        "prefill/b1/p128/bf16/kv-auto/blk0",
        "generate/b1/p100/n16/bf16/kv-auto/blk16",
        "generate/b1/p100/n16/nocache/bf16/kv-auto/blk16",
    };
    assert_keys(&s, NULL, KEY, 11);
    assert_keys(&s, "^decode/b8/.*kv-bf16", &KEY[2], 2);
    assert_keys(&s, "nocache", &KEY[10], 1);
}

// The corner of a plane that is too much is left out; what is left out entirely is said.
static void test_limit_of_positions(void **state)
{
    (void)state;
    struct scenario s =
        parsed("{\"model\": \"m\", \"decode\": {\"batch\": [1, 4], \"context\": [64, 256], \"max_kv_tokens\": 256}}");
    static const char *const KEY[] = {"decode/b1/c64/auto/kv-auto/blk16", "decode/b1/c256/auto/kv-auto/blk16",
                                      "decode/b4/c64/auto/kv-auto/blk16"};
    assert_keys(&s, NULL, KEY, 3);
    s.section[0].max_kv_tokens = 63;
    struct point_list list;
    struct error e = {0};
    assert_false(point_list_make(&list, &s, NULL, NULL, &e));
    assert_non_null(strstr(e.message, "max_kv_tokens"));
}

static void test_models_weights_threads_are_outer(void **state)
{
    (void)state;
    struct scenario s = parsed("{\"model\": [\"a\", \"b/c\"], \"weights\": [\"bf16\", \"f32\"], \"threads\": [0, 2],"
                               "\"decode\": {\"context\": [9]}}");
    static const char *const KEY[] = {
        "a/decode/b1/c9/bf16/kv-auto/blk16", "a/decode/b1/c9/bf16/kv-auto/blk16/t2",
        "a/decode/b1/c9/f32/kv-auto/blk16",  "a/decode/b1/c9/f32/kv-auto/blk16/t2",
        "c/decode/b1/c9/bf16/kv-auto/blk16", "c/decode/b1/c9/bf16/kv-auto/blk16/t2",
        "c/decode/b1/c9/f32/kv-auto/blk16",  "c/decode/b1/c9/f32/kv-auto/blk16/t2",
    };
    assert_keys(&s, NULL, KEY, 8);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected[2];
    } CASE[] = {
        {"{\"model\": \"m\", \"sample\": 3}", {"'dir/x.json': unknown key 'sample'", "'samples'"}},
        {"{\"model\": \"m\", \"decode\": {\"batches\": [1]}}", {"'dir/x.json: decode': unknown key 'batches'", "'batch'"}},
        {"{\"model\": \"m\", \"samples\": \"7\"}", {"'samples' is not a number", "dir/x.json"}},
        {"{\"model\": \"m\", \"samples\": 2.5}", {"'samples' is 2.5", "whole number"}},
        {"{\"model\": \"m\", \"decode\": {\"batch\": []}}", {"'decode.batch' is an empty list", "at least one"}},
        {"{\"model\": \"m\", \"decode\": {\"batch\": [-1]}}", {"'decode.batch' is -1", "from 1 to 65536"}},
        {"{\"model\": \"m\", \"decode\": {\"context\": 0}}", {"'decode.context' is 0", "from 1 to"}},
        {"{\"model\": \"m\", \"decode\": {\"context\": [1e300]}}", {"'decode.context' is 1e+300", "whole number"}},
        {"{\"model\": \"m\", \"decode\": {\"batch\": \"1\"}}", {"'decode.batch' is not a whole number", "list"}},
        {"{\"model\": \"m\", \"decode\": [1]}", {"'decode' is not an object", ""}},
        {"{\"model\": \"m\", \"prefill\": {\"kv\": [\"int9\"]}}", {"'prefill.kv' is 'int9'", "expected a type such as int"}},
        {"{\"model\": \"m\", \"weights\": [8]}", {"'weights' is not a type name", ""}},
        {"{\"model\": \"m\", \"generate\": {\"cache\": [1]}}", {"'generate.cache' is not true, false", ""}},
        {"{\"model\": \"m\", \"name\": \"../x\"}", {"'name' is '../x'", "letters"}},
        {"{\"model\": \"m\", \"name\": \"\"}", {"'name' is empty", ""}},
        {"{\"model\": []}", {"'model' is an empty list", ""}},
        {"{\"model\": 3}", {"'model' is not a model's name", ""}},
        {"{\"decode\": {}}", {"'model' is missing", "catalogue name"}},
        {"{\"model\": \"m\", \"tp\": 0}", {"'tp' is 0", "1 to"}},
        {"{\"model\": \"m\", \"seconds\": -1}", {"'seconds' is -1", ""}},
        {"{\"model\": \"m\", \"compute\": \"fp3\"}", {"'compute' is 'fp3'", "type"}},
        {"[1]", {"expected an object", ""}},
        {"{\"model\": ", {"'dir/x.json' line 1: not valid JSON", ""}},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct scenario s;
        struct error e = {0};
        if (parse(&s, CASE[i].text, &e))
            fail_msg("%s is accepted", CASE[i].text);
        if (!strstr(e.message, CASE[i].expected[0]) || !strstr(e.message, CASE[i].expected[1]))
            fail_msg("%s: %s", CASE[i].text, e.message);
        assert_int_equal(error_exit_code(e.kind), 2);
    }
}

static void test_unknown_names(void **state)
{
    (void)state;
    struct error e = {0};
    struct scenario s = parsed("{\"model\": \"qwen3-0.7b\"}");
    assert_false(scenario_check_names(&s, &e));
    assert_non_null(strstr(e.message, "qwen3-0.6b"));
    assert_non_null(strstr(e.message, "dir/x.json"));
    s = parsed("{\"model\": \"qwen3-0.6b\", \"hardware\": \"h100-sxn\"}");
    assert_false(scenario_check_names(&s, &e));
    assert_non_null(strstr(e.message, "h100-sxm"));
    s = parsed("{\"model\": \"qwen3-0.6b\", \"backend\": \"cudaa\"}");
    assert_false(scenario_check_names(&s, &e));
    assert_non_null(strstr(e.message, "cuda"));
    s = parsed("{\"model\": \"Qwen/Qwen3-0.6B\", \"hardware\": \"h100-sxm\"}");
    assert_true(scenario_check_names(&s, &e));
}

static void test_points_that_collide(void **state)
{
    (void)state;
    struct error e = {0};
    struct point_list list;
    struct scenario s = parsed("{\"model\": \"m\", \"decode\": {\"batch\": [1, 2, 1]}}");
    assert_false(point_list_make(&list, &s, NULL, NULL, &e));
    assert_non_null(strstr(e.message, "twice"));
    s = parsed("{\"model\": \"m\"}");
    assert_false(point_list_make(&list, &s, NULL, "decode/b3", &e));
    assert_non_null(strstr(e.message, "none of 2 points"));
    assert_false(point_list_make(&list, &s, NULL, "b(", &e));
    assert_non_null(strstr(e.message, "--filter"));
}

static void test_too_many_points(void **state)
{
    (void)state;
    char text[2048] = "{\"model\": \"m\", \"decode\": {\"batch\": [1", list[600] = "";
    struct error e = {0};
    struct point_list points;
    for (int i = 2; i <= 64; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ", %d", i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s], \"context\": [1%s], \"block\": [1%s]}}", list, list,
             list);
    struct scenario s = parsed(text);
    assert_false(point_list_make(&points, &s, NULL, NULL, &e));
    assert_non_null(strstr(e.message, "more than"));
}

static void test_hash(void **state)
{
    (void)state;
    struct scenario a = parsed("{\"model\": \"m\", \"samples\": 7, \"decode\": {\"context\": [64], \"batch\": 1}}");
    struct scenario b = parsed("{\"decode\": {\"batch\": [1], \"context\": 64}, \"model\": [\"m\"]}");
    struct scenario c = parsed("{\"model\": \"m\", \"decode\": {\"context\": [65], \"batch\": 1}}");
    char hash[3][17];
    scenario_hash(&a, hash[0]);
    scenario_hash(&b, hash[1]);
    scenario_hash(&c, hash[2]);
    assert_string_equal(hash[0], hash[1]); // order, defaults and brackets do not matter
    assert_string_not_equal(hash[0], hash[2]);
    assert_int_equal(strlen(hash[0]), 16);
}

static void test_steps(void **state)
{
    (void)state;
    struct point decode = {.n_gen = 3, .n_depth = 10, .cache = true}, prefill = {.n_prompt = 7, .cache = true};
    struct point cached = {.n_prompt = 100, .n_gen = 2, .cache = true}, bare = {.n_prompt = 100, .n_gen = 2};
    assert_int_equal(point_steps(&decode), 3);
    assert_int_equal(point_step_rows(&decode, 2), 1);
    assert_int_equal(point_step_context(&decode, 0), 11); // context = depth + 1
    assert_int_equal(point_step_context(&decode, 2), 13);
    assert_int_equal(point_steps(&prefill), 1);
    assert_int_equal(point_step_rows(&prefill, 0), 7);
    assert_int_equal(point_step_context(&prefill, 0), 7);
    assert_int_equal(point_steps(&cached), 3);
    int cached_rows = 0, bare_rows = 0;
    for (int i = 0; i < 3; i++) {
        cached_rows += point_step_rows(&cached, i);
        bare_rows += point_step_rows(&bare, i);
        assert_int_equal(point_step_context(&cached, i), 100 + i);
        assert_int_equal(point_step_context(&bare, i), 100 + i);
    }
    assert_int_equal(cached_rows, 102);
    assert_int_equal(bare_rows, 100 + 101 + 102);
}

static struct scenario from_flags(int argc, const char **argv)
{
    struct options o;
    struct scenario s = {0};
    struct error e = {0};
    if (!options_parse(&o, ON_RUN, argc, (char **)argv, &e) || !scenario_from_options(&s, &o, &e))
        fail_msg("%s", e.message);
    options_free(&o);
    return s;
}
#define FLAGS(...)                                                                                                          \
    from_flags(sizeof((const char *[]){"run", __VA_ARGS__}) / sizeof(char *), (const char *[]){"run", __VA_ARGS__})

static void test_flags(void **state)
{
    (void)state;
    struct scenario s =
        FLAGS("-m", "qwen3-0.6b", "-p", "16,32", "-n", "8", "-d", "0,64", "-b", "1-4*2", "-ctk", "int8", "-ctv", "bf16");
    struct point_list list = points_of(&s, NULL);
    assert_int_equal(list.n, 3 * 2 * 2 + 3 * 2);
    assert_string_equal(list.point[0].key, "prefill/b1/p16/auto/kv-int8:bf16/blk16");
    assert_string_equal(list.point[2].key, "prefill/b1/p16/auto/kv-int8:bf16/blk16/d64");
    assert_string_equal(list.point[13].key, "decode/b1/c65/auto/kv-int8:bf16/blk16/n8");
    point_list_free(&list);
    static const char *const CONTEXT[] = {"decode/b1/c64/f32/kv-f16/blk0"};
    s = FLAGS("-m", "qwen3-0.6b", "--context", "64", "--weights", "f32", "--kv", "f16", "--block", "0", "-r", "3", "-t",
              "2");
    assert_int_equal(s.samples, 3);
    assert_int_equal(s.threads.value[0], 2);
    s.threads.value[0] = 0;
    assert_keys(&s, NULL, CONTEXT, 1);
    static const char *const PAIRS[] = {"generate/b1/p512/n128/auto/kv-auto/blk16", "generate/b1/p64/n8/auto/kv-auto/blk16"};
    s = FLAGS("-m", "qwen3-0.6b", "-pg", "512,128", "-pg", "64,8");
    assert_keys(&s, NULL, PAIRS, 2);
}

// What is not asked for is not measured: 0 is none of a test, a type given for K leaves V alone.
static void test_flags_as_llama_bench_means_them(void **state)
{
    (void)state;
    static const char *const PREFILL[] = {"prefill/b1/p512/auto/kv-auto/blk16"};
    struct scenario s = FLAGS("-m", "qwen3-0.6b", "-p", "512", "-n", "0");
    assert_keys(&s, NULL, PREFILL, 1);
    static const char *const DECODE[] = {"decode/b1/c1/auto/kv-auto/blk16/n128"};
    s = FLAGS("-m", "qwen3-0.6b", "-p", "0", "-n", "128,0");
    assert_keys(&s, NULL, DECODE, 1);
    static const char *const K_ONLY[] = {"decode/b1/c32768/auto/kv-int8:auto/blk16"};
    s = FLAGS("-m", "qwen3-0.6b", "-c", "32k", "-ctk", "int8");
    assert_keys(&s, NULL, K_ONLY, 1);
    static const char *const BATCH[] = {"decode/b16/c512/auto/kv-auto/blk16"};
    s = FLAGS("-m", "qwen3-0.6b", "-b", "16");
    assert_keys(&s, NULL, BATCH, 1);
    s = FLAGS("-m", "qwen3-0.6b,llama-3-8b", "-c", "64");
    assert_int_equal(s.n_models, 2);
    assert_string_equal(s.model[1], "llama-3-8b");
}

// Keys name what runs where the models are at hand.
static void test_keys_name_what_runs(void **state)
{
    (void)state;
    struct scenario s = FLAGS("-m", "qwen3-0.6b", "-c", "64", "-ctk", "int8", "-p", "32");
    struct point_list list;
    struct planner planner;
    struct error e = {0};
    planner_init(&planner, &s);
    if (!point_list_make(&list, &s, &planner, "kv-int8:bf16", &e))
        fail_msg("%s", e.message);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.point[1].key, "decode/b1/c64/bf16/kv-int8:bf16/blk16");
    point_list_free(&list);
    planner_free(&planner);
}

static void refuse_flags(const char *expected, int argc, const char **argv)
{
    struct options o;
    struct scenario s = {0};
    struct error e = {0};
    if (options_parse(&o, ON_RUN, argc, (char **)argv, &e) && scenario_from_options(&s, &o, &e))
        fail_msg("%s is accepted", argv[argc - 1]);
    if (!strstr(e.message, expected))
        fail_msg("%s", e.message);
    options_free(&o);
}
#define REFUSE(expected, ...)                                                                                               \
    refuse_flags(expected, sizeof((const char *[]){"run", __VA_ARGS__}) / sizeof(char *),                                   \
                 (const char *[]){"run", __VA_ARGS__})

static void test_flags_refused(void **state)
{
    (void)state;
    REFUSE("'--model' is missing", "-p", "16");
    REFUSE("expected one", "-m", "qwen3-0.6b", "--context", "64", "-d", "63");
    REFUSE("'--batch' is 0", "-m", "qwen3-0.6b", "-b", "0");
    REFUSE("'--prompt-gen'", "-m", "qwen3-0.6b", "-pg", "512");
    REFUSE("'--type-k' is 'q9'", "-m", "qwen3-0.6b", "-ctk", "q9");
    REFUSE("'--kv' is 'int9'", "-m", "qwen3-0.6b", "--kv", "int9");
    REFUSE("'--timeout'", "-m", "qwen3-0.6b", "--timeout", "0");
    REFUSE("qwen3-0.6b", "-m", "qwen3-0.61b");
    REFUSE("'--model': unknown model 'qwen3', did you mean 'qwen3-", "-m", "qwen3");
    REFUSE("nothing is asked for", "-m", "qwen3-0.6b", "-p", "0", "-n", "0");
    REFUSE("'--model' is empty", "-m", "qwen3-0.6b,,llama-3-8b");
}

static void test_shipped_scenarios(void **state)
{
    (void)state;
    static const char *const NAME[] = {"cpu", "cpu-grid", "quick", "handbook", "h100", "h200"};
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++) {
        char path[64];
        struct scenario s;
        struct error e = {0};
        snprintf(path, sizeof path, "configs/%s.json", NAME[i]);
        if (!scenario_load(&s, path, &e))
            fail_msg("%s", e.message);
        assert_string_equal(s.name, NAME[i]);
        struct point_list list = points_of(&s, NULL);
        point_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_limit_of_positions),
        cmocka_unit_test(test_models_weights_threads_are_outer),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_points_that_collide),
        cmocka_unit_test(test_too_many_points),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_flags_as_llama_bench_means_them),
        cmocka_unit_test(test_keys_name_what_runs),
        cmocka_unit_test(test_flags_refused),
        cmocka_unit_test(test_shipped_scenarios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
