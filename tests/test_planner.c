// What a point runs, needs and costs, against counting by hand.
#include "bench/open.h"
#include "bench/planner.h"
#include "engine/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct scenario scenario_of(const char *text)
{
    struct scenario s = {0};
    struct error e = {0};
    cJSON *json;
    if (!json_parse(text, strlen(text), "test", &json, &e) || !scenario_parse(&s, json, "test", &e))
        fail_msg("%s", e.message);
    cJSON_Delete(json);
    return s;
}

static const struct plan *plan_of(struct planner *p, const struct point *point)
{
    struct error e = {0};
    const struct plan *plan = planner_plan(p, point, &e);
    if (!plan)
        fail_msg("%s", e.message);
    return plan;
}

static void test_types(void **state)
{
    (void)state;
    struct scenario s = scenario_of("{\"model\": [\"qwen3-0.6b\", \"tests/golden/qwen2-f16\"]}");
    struct planner planner;
    planner_init(&planner, &s);
    struct point own = {.own_weights = true, .own_kv = true};
    const struct plan *plan = plan_of(&planner, &own);
    assert_int_equal(plan_weight_type(plan), DTYPE_BF16); // as published
    assert_int_equal(plan->kv_k, DTYPE_BF16);
    assert_ptr_equal(plan_of(&planner, &own), plan); // kept
    struct point given = {.weights = DTYPE_Q8_0, .kv = {DTYPE_INT8, DTYPE_F16}};
    plan = plan_of(&planner, &given);
    assert_int_equal(plan_weight_type(plan), DTYPE_Q8_0);
    assert_true(plan->kv_k == DTYPE_INT8 && plan->kv_v == DTYPE_F16);
    struct point file = {.model = 1, .own_weights = true, .own_kv = true};
    assert_int_equal(plan_weight_type(plan_of(&planner, &file)), DTYPE_F16); // as its file stores it
    planner_free(&planner);
}

static enum dtype compute_of(const struct plan *plan, enum op_kind kind)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == kind)
            return (enum dtype)plan->op[i].compute;
    fail_msg("no such operation");
    return DTYPE_COUNT;
}

// A CPU computes by the weights' type, a GPU in 16 bit; a scenario may say otherwise.
static void test_arithmetic(void **state)
{
    (void)state;
    static const struct {
        enum dtype weights, cpu, gpu, attention; // attention: of the CPU
    } CASE[] = {
        {DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},     {DTYPE_F16, DTYPE_F32, DTYPE_F16, DTYPE_F32},
        {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16}, {DTYPE_INT8, DTYPE_INT8, DTYPE_BF16, DTYPE_BF16},
        {DTYPE_INT4, DTYPE_INT8, DTYPE_BF16, DTYPE_BF16}, {DTYPE_Q6_K, DTYPE_INT8, DTYPE_BF16, DTYPE_BF16},
    };
    struct scenario s = scenario_of("{\"model\": \"qwen3-0.6b\"}");
    struct planner planner;
    planner_init(&planner, &s);
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct point p = {.weights = CASE[i].weights, .own_kv = true};
        planner.on_cpu = true;
        const struct plan *plan = plan_of(&planner, &p);
        assert_int_equal(compute_of(plan, OP_LINEAR), CASE[i].cpu);
        assert_int_equal(compute_of(plan, OP_ATTN), CASE[i].attention);
        assert_int_equal(plan_compute_type(plan), CASE[i].cpu);
        assert_int_equal(plan->act, DTYPE_F32);
        planner.on_cpu = false;
        assert_int_equal(compute_of(plan_of(&planner, &p), OP_LINEAR), CASE[i].gpu);
    }
    s.has_compute = true, s.compute = DTYPE_F32;
    planner.on_cpu = true;
    struct point p = {.weights = DTYPE_Q8_0, .own_kv = true};
    assert_int_equal(compute_of(plan_of(&planner, &p), OP_LINEAR), DTYPE_F32);
    planner_free(&planner);
}

// In a file of several types each matrix is computed with in its own arithmetic.
static void test_arithmetic_of_a_mixed_file(void **state)
{
    (void)state;
    struct scenario s = scenario_of("{\"model\": \"tests/golden/gguf/llama-mqa-q4_0.gguf\"}");
    struct planner planner;
    planner_init(&planner, &s);
    planner.on_cpu = true;
    struct point own = {.own_weights = true, .own_kv = true};
    const struct plan *plan = plan_of(&planner, &own);
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == OP_LINEAR)
            assert_int_equal(plan->op[i].compute, cpu_compute_of((enum dtype)plan->tensor[plan->op[i].weight].dtype));
    struct error e = {0};
    assert_true(open_check_compute(plan, &e));
    s.has_compute = true, s.compute = DTYPE_BF16;
    assert_false(open_check_compute(plan_of(&planner, &own), &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    planner_free(&planner);
}

// Blocks by hand: bench_open fills a context per sequence, and each sample writes its own.
static void test_kv(void **state)
{
    (void)state;
    struct point a = {.batch = 2, .n_depth = 33, .n_gen = 1, .block = 16, .cache = true};
    struct point b = {.batch = 3, .n_depth = 5, .n_gen = 30, .block = 16, .cache = true};
    struct point c = {.batch = 1, .n_prompt = 100, .block = 16, .cache = true};
    const struct point *all[] = {&a, &b, &c};
    struct kv_config kv = points_kv(all, 1);
    assert_int_equal(kv.n_blocks, 2 * 3 + 2 * 1); // 33 positions: 3 blocks; the third is copied, then written
    assert_true(kv.block_size == 16 && kv.max_seqs == 2 && kv.max_out == 2 && kv.max_tokens == 2);
    kv = points_kv(all, 3);
    // Filled: 3 + 3 + 1 blocks (the third sequence only holds b's 5). Fresh: b writes 3 x 3, a 2 x 1, c 7.
    assert_int_equal(kv.n_blocks, 7 + 9);
    assert_true(kv.max_seqs == 3 && kv.max_tokens == 100);
    assert_int_equal(points_depth(all, 3, 1), 33);
    assert_int_equal(points_depth(all, 3, 2), 5);
    struct point contiguous = {.batch = 2, .n_depth = 33, .n_gen = 1, .cache = true};
    const struct point *one = &contiguous;
    kv = points_kv(&one, 1);
    assert_true(kv.block_size == 34 && kv.n_blocks == 4); // a full-length block each, and its copy
}

static void test_memory(void **state)
{
    (void)state;
    struct scenario s = scenario_of("{\"model\": \"qwen3-0.6b\"}");
    struct planner planner;
    planner_init(&planner, &s);
    struct point p = {
        .own_weights = true, .own_kv = true, .batch = 4, .n_depth = 1023, .n_gen = 1, .block = 16, .cache = true};
    const struct point *one = &p;
    struct memory_need need = points_memory(plan_of(&planner, &p), &one, 1);
    assert_int_equal(need.kv, 4 * (1024 + 16) * UINT64_C(114688));
    assert_int_equal(need.weights, 2 * UINT64_C(596049920));
    assert_true(need.activations > 4 * 151936 * 4 && need.activations < 5 * 151936 * 4 + (1 << 20));
    assert_int_equal(need.total, need.kv + need.weights + need.activations);
    p.batch = SCENARIO_MAX_BATCH, p.n_depth = SCENARIO_MAX_TOKENS - 1;
    need = points_memory(plan_of(&planner, &p), &one, 1);
    assert_true(need.total > UINT64_C(1) << 50); // far beyond anything, and not wrapped around
    planner_free(&planner);
}

static struct prediction price(struct planner *planner, const struct point *p, const struct hardware *hw)
{
    struct prediction out;
    struct error e = {0};
    if (!point_price(plan_of(planner, p), p, hw, &out, &e))
        fail_msg("%s", e.message);
    return out;
}

static void test_price_is_the_sum_of_steps(void **state)
{
    (void)state;
    struct scenario s = scenario_of("{\"model\": \"qwen3-0.6b\"}");
    struct planner planner;
    struct hardware hw;
    struct error e = {0};
    planner_init(&planner, &s);
    assert_true(hardware_load(&hw, "h100-sxm", &e));
    struct point base = {.own_weights = true, .own_kv = true, .batch = 2, .block = 16, .cache = true};
    struct point prompt = base, step1 = base, step2 = base, whole = base, bare = base, longer = base;
    prompt.n_prompt = whole.n_prompt = bare.n_prompt = 100;
    longer.n_prompt = 101;
    step1.n_gen = step2.n_gen = 1;
    step1.n_depth = 100, step2.n_depth = 101;
    whole.n_gen = 2, bare.n_gen = 1, bare.cache = false;
    struct prediction sum = price(&planner, &whole, &hw), a = price(&planner, &prompt, &hw),
                      b = price(&planner, &step1, &hw), c = price(&planner, &step2, &hw);
    assert_true(fabs(sum.roof_ns - (a.roof_ns + b.roof_ns + c.roof_ns)) < 1e-6 * sum.roof_ns);
    assert_true(fabs(sum.bound_ns - (a.bound_ns + b.bound_ns + c.bound_ns)) < 1e-6 * sum.bound_ns);
    assert_int_equal(cost_flops(&sum.cost), cost_flops(&a.cost) + cost_flops(&b.cost) + cost_flops(&c.cost));
    struct prediction nocache = price(&planner, &bare, &hw), second = price(&planner, &longer, &hw);
    assert_int_equal(cost_flops(&nocache.cost), cost_flops(&a.cost) + cost_flops(&second.cost));
    planner_free(&planner);
}

static void test_unsupported(void **state)
{
    (void)state;
    struct scenario s = scenario_of("{\"model\": \"qwen3-0.6b\", \"tp\": 3}");
    struct planner planner;
    struct error e = {0};
    struct point p = {.own_weights = true, .own_kv = true};
    planner_init(&planner, &s);
    assert_null(planner_plan(&planner, &p, &e));
    assert_non_null(strstr(e.message, "tp 3"));
    planner_free(&planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_arithmetic_of_a_mixed_file),
        cmocka_unit_test(test_kv),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_price_is_the_sum_of_steps),
        cmocka_unit_test(test_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
