// What kvcalc answers: bytes, requests that fit, and the least step. The command itself is tested in tests/cli/kvcalc.sh.
#include "roofline/capacity.h"
#include "roofline/catalogue.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB (1ull << 30)

static void make_plan(struct plan *plan, const char *name, enum dtype kv, int32_t tp)
{
    struct model m;
    struct error e = {0};
    if (!catalogue_open_model(&m, name, &e))
        fail_msg("%s", e.message);
    struct plan_options options = plan_options_default(m.spec.dtype);
    options.kv_k = options.kv_v = kv;
    options.tp = tp;
    if (!plan_make(plan, &m.spec, &options, &e))
        fail_msg("%s", e.message);
    model_close(&m);
}

static struct capacity ask(const char *model, enum dtype kv, int32_t tp, const char *gpu, struct capacity_query query)
{
    struct plan plan;
    struct hardware hw;
    struct capacity c = {0};
    struct error e = {0};
    make_plan(&plan, model, kv, tp);
    query.util = query.util > 0 ? query.util : 0.9;
    if (!hardware_load(&hw, gpu, &e) || !capacity_of(&plan, &hw, &query, &c, &e))
        fail_msg("%s", e.message);
    plan_free(&plan);
    return c;
}

static void assert_between(double x, double low, double high)
{
    if (!(x >= low && x <= high))
        fail_msg("%.9g, expected %.9g to %.9g", x, low, high);
}

static void test_llama_3_8b_on_h100(void **state)
{
    struct capacity_query query = {.context = 4096, .batch = 32, .block = 16, .weight_bytes = 16 * GIB};
    struct capacity c = ask("llama-3-8b", DTYPE_BF16, 1, "h100-sxm", query);
    (void)state;
    assert_int_equal(c.kv_bytes_per_token, 131072);
    assert_int_equal(c.kv_bytes_total, 16 * GIB);
    assert_int_equal(c.weight_read_bytes, 16 * GIB);
    assert_between(c.bound_ns / 1e6, 10.25, 10.26);
    assert_between(c.kv_read_share, 0.4999, 0.5001);
    assert_string_equal(c.limit, "bandwidth");
    query.weight_bytes = 0; // its own: the embedding is held and not read
    c = ask("llama-3-8b", DTYPE_BF16, 1, "h100-sxm", query);
    assert_int_equal(c.weight_bytes, 16060522496);
    assert_between((double)c.weight_read_bytes / 1e9, 15.005, 15.015);
    assert_between(c.bound_ns / 1e6, 9.55, 9.65);
    assert_between(c.kv_read_share, 0.5335, 0.5345);
    assert_between(c.ridge, 294.5, 295.5);
}

static void test_llama_2_13b(void **state)
{
    struct capacity c = ask("llama-2-13b", DTYPE_F16, 1, "a100", (struct capacity_query){.context = 2048, .block = 16});
    (void)state;
    assert_int_equal(c.kv_bytes_per_request, 1677721600);
}

// floor((0.9 * memory - weights) / request), requests in whole blocks, and the step priced with all of them.
static void test_full_load(void **state)
{
    struct capacity_query query = {.context = 1000, .block = 16};
    struct capacity c = ask("llama-3-8b", DTYPE_BF16, 1, "h100", query);
    uint64_t usable = (uint64_t)(0.9 * (81559.0 * 1048576)), request = 1008ull * 131072;
    (void)state;
    assert_int_equal(c.usable_bytes, usable);
    assert_int_equal(c.kv_bytes_per_request, 1000ull * 131072);
    assert_int_equal(c.kv_reserved_bytes_per_request, request);
    assert_int_equal(c.max_requests, (usable - 16060522496) / request);
    assert_int_equal(c.batch, c.max_requests);
    assert_int_equal(c.kv_bytes_total, (uint64_t)c.batch * 1000 * 131072); // read: tokens, not blocks
    query.block = 0;
    c = ask("llama-3-8b", DTYPE_BF16, 1, "h100", query);
    assert_int_equal(c.kv_reserved_bytes_per_request, c.kv_bytes_per_request);
}

static void test_weights_that_do_not_fit(void **state)
{
    struct capacity_query query = {.context = 4096, .block = 16};
    struct capacity c = ask("llama-3-70b", DTYPE_BF16, 1, "h100", query);
    (void)state;
    assert_false(c.weights_fit);
    assert_int_equal(c.max_requests, 0);
    assert_int_equal(c.batch, 0);
    assert_true(c.bound_ns == 0);
    query.batch = 8; // priced all the same when asked for
    assert_true(ask("llama-3-70b", DTYPE_BF16, 1, "h100", query).bound_ns > 0);
    c = ask("llama-3-70b", DTYPE_BF16, 4, "h100", query);
    assert_true(c.weights_fit && c.max_requests > 0);
    assert_int_equal(c.kv_bytes_per_token, 327680 / 4);
}

// 8 KV heads on 16 ranks: each holds one whole head, twice what an even split would be.
static void test_replicated_kv_heads(void **state)
{
    struct capacity_query query = {.context = 128, .batch = 1, .block = 16};
    (void)state;
    assert_int_equal(ask("llama-3-70b", DTYPE_BF16, 8, "h100", query).kv_bytes_per_token, 327680 / 8);
    assert_int_equal(ask("llama-3-70b", DTYPE_BF16, 16, "h100", query).kv_bytes_per_token, 327680 / 8);
}

// A layer with a window keeps no more than its window.
static void test_window(void **state)
{
    struct capacity_query query = {.context = 20000, .batch = 1, .block = 16};
    struct capacity c = ask("mistral-7b-v0.1", DTYPE_BF16, 1, "h100", query);
    (void)state;
    assert_int_equal(c.kv_bytes_per_request, 4096ull * 131072);
    assert_int_equal(c.kv_bytes_total, 4096ull * 131072);
    query.context = 3000;
    assert_int_equal(ask("mistral-7b-v0.1", DTYPE_BF16, 1, "h100", query).kv_bytes_per_request, 3000ull * 131072);
}

static void test_scales_count(void **state)
{
    struct capacity_query query = {.context = 128, .batch = 1, .block = 16};
    (void)state;
    assert_int_equal(ask("llama-3-8b", DTYPE_INT8, 1, "h100", query).kv_bytes_per_token, 32 * 2 * 8 * 130);
    assert_int_equal(ask("llama-3-8b", DTYPE_FP8, 1, "h100", query).kv_bytes_per_token, 32 * 2 * 8 * 128);
    assert_int_equal(ask("llama-3-8b", DTYPE_Q8_0, 1, "h100", query).kv_bytes_per_token, 32 * 2 * 8 * 136);
}

static void test_unknown_memory(void **state)
{
    struct capacity c = ask("qwen3-0.6b", DTYPE_BF16, 1, "epyc-9654", (struct capacity_query){.context = 64, .block = 16});
    (void)state;
    assert_false(c.memory_known);
    assert_int_equal(c.batch, 0);
}

static void test_ranges(void **state)
{
    static const struct capacity_query BAD[] = {
        {.context = 0, .util = 0.9},
        {.context = 1, .util = 0},
        {.context = 1, .util = 1.1},
        {.context = 1, .util = NAN},
        {.context = 1, .util = 0.9, .batch = -1},
        {.context = 1, .util = 0.9, .block = -1},
    };
    struct plan plan;
    struct hardware hw;
    struct error e = {0};
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, 1);
    assert_true(hardware_load(&hw, "h100", &e));
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct capacity c;
        e.kind = ERROR_NONE;
        assert_false(capacity_of(&plan, &hw, &BAD[i], &c, &e));
        assert_int_equal(e.kind, ERROR_USAGE);
    }
    plan_free(&plan);
}

static void test_byte_counts(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } GOOD[] = {{"17179869184", 16 * GIB}, {"16GiB", 16 * GIB},      {"16 gib", 16 * GIB},
                {"15.01e9", 15010000000},  {"15.01GB", 15010000000}, {"1.5KiB", 1536},
                {"2TiB", 2048 * GIB},      {"3 MB", 3000000},        {"512B", 512}};
    static const char *const BAD[] = {"", "GiB", "-1", "0", "1e30", "12 parsecs", "16GiBs", "nan", "inf", "1 2"};
    struct error e = {0};
    uint64_t bytes;
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_true(capacity_parse_bytes(GOOD[i].text, &bytes, &e));
        assert_int_equal(bytes, GOOD[i].bytes);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        if (capacity_parse_bytes(BAD[i], &bytes, &e))
            fail_msg("'%s' was accepted as %llu", BAD[i], (unsigned long long)bytes);
    assert_int_equal(e.kind, ERROR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_3_8b_on_h100),
        cmocka_unit_test(test_llama_2_13b),
        cmocka_unit_test(test_full_load),
        cmocka_unit_test(test_weights_that_do_not_fit),
        cmocka_unit_test(test_replicated_kv_heads),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_scales_count),
        cmocka_unit_test(test_unknown_memory),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_byte_counts),
    };
    return cmocka_run_group_tests_name("kvcalc", tests, NULL, NULL);
}
