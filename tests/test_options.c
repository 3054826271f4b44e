// The option table: lists and ranges, defaults, who takes what, and what is said of mistakes.
#include "engine/base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_list(const char *text, const int32_t *expected, int n)
{
    struct int_list list;
    struct error e = {0};
    if (!int_list_parse(text, &list, &e))
        fail_msg("%s", e.message);
    assert_int_equal(list.n, n);
    assert_memory_equal(list.value, expected, (size_t)n * sizeof *expected);
    free(list.value);
}
#define LIST(text, ...)                                                                                                     \
    assert_list(text, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void test_lists_and_ranges(void **state)
{
    (void)state;
    LIST("512", 512);
    LIST("512,1024", 512, 1024);
    LIST("1-4", 1, 2, 3, 4);
    LIST("1-64*4", 1, 4, 16, 64);
    LIST("64-256+64", 64, 128, 192, 256);
    LIST("3,1-8*2,100-101", 3, 1, 2, 4, 8, 100, 101);
    LIST("2147483647-2147483647", 2147483647); // no overflow at the end of the range
    LIST("1073741824-2147483647*2", 1073741824);
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",      ",",     "1,",    "1,,2",      "a",           "1-",  "4-1",
                                      "1-8*1", "0-8*2", "1-8+0", "1-1000000", "99999999999", "1 2", "1-8*"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct int_list list;
        struct error e = {0};
        if (int_list_parse(BAD[i], &list, &e))
            fail_msg("'%s' is accepted", BAD[i]);
        assert_null(list.value);
        assert_int_equal(error_exit_code(e.kind), 2);
    }
}

static bool parse(struct options *o, int command, const char *const *argv, struct error *e)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return options_parse(o, command, argc, (char **)(uintptr_t)argv, e);
}
#define ARGV(...)                                                                                                           \
    (const char *const[])                                                                                                   \
    {                                                                                                                       \
        "kvbench", __VA_ARGS__, NULL                                                                                        \
    }

static void test_llama_bench_names(void **state)
{
    (void)state;
    struct options o;
    struct error e = {0};
    assert_true(parse(&o, ON_RUN,
                      ARGV("-m", "x", "-p", "512,1024", "-n", "1-4*2", "-d", "0", "-b", "8", "-ctk", "int8,bf16", "-ctv",
                           "f16", "-t", "1,2", "-r", "3", "-pg", "64,8", "-pg", "512,128"),
                      &e));
    assert_true(o.n_prompt.n == 2 && o.n_gen.n == 3 && o.n_depth.n == 1 && o.batch.value[0] == 8);
    assert_true(o.type_k.n == 2 && o.type_v.n == 1 && o.threads_list.n == 2 && o.repetitions == 3);
    assert_true(o.prompt_gen.n == 2 && !strcmp(o.prompt_gen.value[1], "512,128"));
    options_free(&o);
}

static void test_defaults_and_forms(void **state)
{
    (void)state;
    struct options o;
    struct error e = {0};
    assert_true(parse(&o, ON_SWEEP, ARGV("a.json", "--seconds=0.5", "--resume", "--filter", "b8"), &e));
    assert_true(o.n_args == 1 && !strcmp(o.arg[0], "a.json"));
    assert_true(o.seconds == 0.5 && o.has_seconds && o.resume && !o.has_timeout && o.timeout == 60);
    assert_true(o.repetitions == 7 && !o.has_repetitions && !o.out && o.batch.n == 1);
    options_free(&o);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        int command;
        const char *argv[4], *expected;
    } CASE[] = {
        {ON_SWEEP, {"k", "--resum"}, "did you mean '--resume'"},
        {ON_SWEEP, {"k", "--max-tokens", "3"}, "'--max-tokens' is none of this command, only of generate"},
        {ON_RUN, {"k", "--repetitions"}, "needs a value"},
        {ON_RUN, {"k", "-r", "three"}, "expected a whole number"},
        {ON_RUN, {"k", "-r", "99999999999"}, "expected a whole number"},
        {ON_RUN, {"k", "--seconds", "1s"}, "expected a number"},
        {ON_RUN, {"k", "--seconds", "nan"}, "expected a number"},
        {ON_RUN, {"k", "-b", "1,x"}, "is no list of numbers"},
        {ON_RUN, {"k", "-c", "32kk"}, "is no list of numbers"},
        {ON_RUN, {"k", "-c", "9999999k"}, "is no list of numbers"},
        {ON_RUN, {"k", "--kv", "bf16,,int8"}, "empty entry"},
        {ON_SWEEP, {"k", "--resume=1"}, "takes no value"},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct options o;
        struct error e = {0};
        if (parse(&o, CASE[i].command, CASE[i].argv, &e))
            fail_msg("%s is accepted", CASE[i].argv[1]);
        if (!strstr(e.message, CASE[i].expected))
            fail_msg("%s: %s", CASE[i].argv[1], e.message);
        assert_int_equal(error_exit_code(e.kind), 2);
        options_free(&o);
    }
}

static char *help_of(int command)
{
    static char *text; // static: gcc 12 takes what open_memstream made for a dangling local
    size_t size;
    FILE *f = open_memstream(&text, &size);
    options_help(f, command);
    fclose(f);
    return text;
}

// What is said of --out to whom: a clause for everybody, for some, for the others.
static void test_help_of_each_command(void **state)
{
    static const struct {
        int command;
        const char *said, *unsaid;
    } CASE[] = {
        {ON_SWEEP, "folder for the results; default results/\n", "CSV"},
        {ON_RUN, "folder for the results; default none, they are printed only\n", "results/"},
        {ON_PREDICT, "CSV file to write\n", "folder for"},
        {ON_CEILINGS, "moments that each rate is looked at [7]\n", "samples per point"},
        {ON_BENCH, "one model, few shapes, no fit\n", "what roofs are made of"},
        {ON_KVCALC, "catalogue name or hardware JSON; auto:", "several"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        char *text = help_of(CASE[i].command);
        if (!strstr(text, CASE[i].said) || strstr(text, CASE[i].unsaid))
            fail_msg("%zu: '%s' and not '%s' expected in\n%s", i, CASE[i].said, CASE[i].unsaid, text);
        free(text);
    }
}

static void test_help(void **state)
{
    (void)state;
    char *text = help_of(ON_RUN);
    assert_non_null(strstr(text, "-r,--repetitions,--samples N"));
    assert_non_null(strstr(text, "[7]")); // its default
    assert_null(strstr(text, "--max-tokens"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_ranges),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_llama_bench_names),
        cmocka_unit_test(test_defaults_and_forms),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_help_of_each_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
