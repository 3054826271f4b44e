// The three times keep their order for every model, machine and cover, and the simulated clock agrees with them.
#include "engine/null/null.h"
#include "roofline/catalogue.h"
#include "roofline/roofline.h"
#include "tests/tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Round numbers: 1 TB/s and 100 TFLOPS hard, 80 % of them attainable, 200 GB/s each way between ranks.
static struct hardware round_hardware(void)
{
    struct hardware hw = {.name = "round", .link_bytes_per_s_bidir = 400e9};
    hw.bandwidth[ROOF_HARD].value = 1e12;
    hw.bandwidth[ROOF_ATTAINABLE] = (struct hw_value){.value = 0.8e12, .spread = 0.1};
    hw.peak[ROOF_HARD][DTYPE_BF16].value = 100e12;
    hw.peak[ROOF_ATTAINABLE][DTYPE_BF16] = (struct hw_value){.value = 80e12, .spread = 0.02};
    return hw;
}

static struct hardware load(const char *name)
{
    struct hardware hw;
    struct error e = {0};
    if (!hardware_load(&hw, name, &e))
        fail_msg("%s", e.message);
    return hw;
}

static void make_plan(struct plan *plan, const char *model, enum dtype weights, enum dtype kv, int32_t tp)
{
    struct model m;
    struct error e = {0};
    struct plan_options options = plan_options_default(weights);
    options.kv_k = options.kv_v = kv;
    options.tp = tp;
    if (!catalogue_open_model(&m, model, &e) || !plan_make(plan, &m.spec, &options, &e))
        fail_msg("%s", e.message);
    model_close(&m);
}

static struct prediction predict(const struct plan *plan, const struct hardware *hw, int32_t n_seqs, int32_t n_new,
                                 int32_t context)
{
    struct batch batch;
    struct prediction p = {0};
    struct error e = {0};
    if (!batch_make_uniform(&batch, n_seqs, n_new, context, context, &e) ||
        !roofline_price(plan, &batch, hw, NULL, 0, &p, &e))
        fail_msg("%s", e.message);
    batch_free(&batch);
    return p;
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b)))
        fail_msg("%.17g differs from %.17g", a, b);
}

static void test_ridge(void **state)
{
    struct hardware h100 = load("h100-sxm");
    (void)state;
    assert_true(fabs(hardware_ridge(&h100, ROOF_DATASHEET, DTYPE_BF16) - 295) < 0.5);
}

// At batch 1 each 2-byte weight is used for one multiply-add; attention with 4 query heads per KV head adds little.
static void test_decode_intensity(void **state)
{
    static const char *const MODEL[] = {"llama-3-8b", "llama-2-13b", "qwen3-0.6b", "qwen2.5-7b"};
    (void)state;
    for (size_t i = 0; i < sizeof MODEL / sizeof *MODEL; i++) {
        struct plan plan;
        struct hardware hw = round_hardware();
        make_plan(&plan, MODEL[i], DTYPE_BF16, DTYPE_BF16, 1);
        struct prediction p = predict(&plan, &hw, 1, 1, 128);
        double intensity = (double)cost_flops(&p.cost) / (double)cost_bytes(&p.cost);
        assert_true(intensity > 0.95 && intensity < 1.05);
        assert_string_equal(p.limit, "bandwidth");
        plan_free(&plan);
    }
}

static void test_times_by_hand(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "llama-3-8b", DTYPE_BF16, DTYPE_BF16, 1);
    struct prediction p = predict(&plan, &hw, 1, 1, 4096);
    double bytes = (double)cost_bytes(&p.cost);
    // every operation of a single row is limited by bandwidth: sums and totals are the same time
    assert_close(p.bound_ns, bytes / 1e12 * 1e9);
    assert_close(p.floor_ns, p.bound_ns);
    assert_close(p.roof_ns, bytes / 0.8e12 * 1e9);
    assert_close(p.roof_total_ns, p.roof_ns);
    assert_close(p.spans_ns, (bytes + (double)p.cost.act_bytes) / 0.8e12 * 1e9);
    assert_close(p.roof_spread, 0.1);
    assert_string_equal(p.source, "attainable");
    // many rows: limited by compute
    p = predict(&plan, &hw, 1, 4096, 4096);
    assert_string_equal(p.limit, "compute");
    assert_close(p.bound_ns, (double)cost_flops(&p.cost) / 100e12 * 1e9);
    plan_free(&plan);
}

// What fits in the cache may still be there at the next step; the roof counts it as read from memory.
static void test_cache_lowers_the_bound_alone(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    struct prediction without = predict(&plan, &hw, 1, 1, 128);
    hw.cache_bytes = 100000000;
    struct prediction with = predict(&plan, &hw, 1, 1, 128);
    assert_close(without.bound_ns - with.bound_ns, 100000000 / 1e12 * 1e9);
    assert_close(with.roof_ns, without.roof_ns);
    assert_close(with.floor_ns, without.floor_ns);
    assert_close(roofline_bound(&hw, &with.cost, false).ns, without.bound_ns);
    hw.cache_bytes = 4000000000; // everything stays: only arithmetic is left
    with = predict(&plan, &hw, 1, 1, 128);
    assert_close(with.bound_ns, (double)cost_flops(&with.cost) / 100e12 * 1e9);
    plan_free(&plan);
}

// Levels in round numbers. Of a set between capacity and fade a level keeps linearly less of its capacity.
static struct hardware hardware_with_levels(void)
{
    struct hardware hw = round_hardware();
    hw.level[0] = (struct hw_level){"L2", 1000, 2000, {.value = 8e12}};
    hw.level[1] = (struct hw_level){"L3", 4000, 12000, {.value = 4e12, .spread = 0.3}};
    hw.n_levels = 2;
    return hw;
}

static void test_streams_by_hand(void **state)
{
    static const struct {
        uint64_t distance, kept;
        double ns; // of going over it once
    } SET[] = {
        {1, 1, 1 / 8e3},
        {1000, 1000, 1000 / 8e3},
        {1500, 1500, 500 / 8e3 + 1000 / 4e3}, // L2 keeps half of what it holds, L3 all
        {2000, 2000, 2000 / 4e3},
        {4000, 4000, 4000 / 4e3},
        {8000, 2000, 2000 / 4e3 + 6000 / 0.8e3}, // half way to where L3 keeps nothing
        {12000, 0, 12000 / 0.8e3},
        {1000000, 0, 1000000 / 0.8e3},
    };
    struct hardware hw = hardware_with_levels(), without = round_hardware();
    (void)state;
    for (size_t i = 0; i < sizeof SET / sizeof *SET; i++) {
        uint64_t distance = SET[i].distance;
        assert_int_equal(hardware_kept(&hw, distance), SET[i].kept);
        assert_close((double)distance / hardware_stream(&hw, distance).value * 1e9, SET[i].ns);
        assert_true(hardware_stream(&without, distance).value == 0.8e12);
        assert_int_equal(hardware_from_memory(&hw, distance), SET[i].kept == 0);
        struct hardware half = hw; // a moment in which everything takes twice as long
        hardware_set_stream(&half, distance, hardware_stream(&hw, distance).value / 2);
        assert_close(half.level[1].bandwidth.value, 2e12);
        assert_close(half.bandwidth[ROOF_ATTAINABLE].value, 0.4e12);
    }
    static const uint64_t HALF_WAY[3] = {500, 1000, 0}, BEYOND[3] = {0, 2000, 6000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hardware_served(&hw, i, 1500), HALF_WAY[i]);
        assert_int_equal(hardware_served(&hw, i, 8000), BEYOND[i]);
    }
    assert_close(hardware_stream(&hw, 3000).spread, 0.3);
    assert_close(hardware_stream(&hw, 1000000).spread, 0.1);
    assert_true(hardware_stream(&hw, 0).value == 0.8e12); // of nothing known: main memory
    hw.bandwidth[ROOF_ATTAINABLE].value = 0;
    assert_true(hardware_stream(&hw, 1000000).value == 1e12); // what is known of it
}

// The whole step chooses the level: a model that fits is priced at the cache's rate, a larger one at what is left to read.
static void test_roof_of_a_model_in_cache(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    struct prediction memory = predict(&plan, &hw, 1, 1, 128);
    uint64_t bytes = cost_bytes(&memory.cost);
    assert_int_equal(memory.stream_bytes, bytes);
    hw.level[hw.n_levels++] = (struct hw_level){"L3", bytes, 2 * bytes, {.value = 2e12}};
    struct prediction cached = predict(&plan, &hw, 1, 1, 128);
    assert_close(cached.roof_ns, (double)bytes / 2e12 * 1e9);
    assert_close(cached.roof_total_ns, cached.roof_ns);
    assert_true(cached.bound_ns <= cached.floor_ns && cached.floor_ns < cached.roof_ns);
    hw.level[0].bytes = bytes / 2, hw.level[0].fade_bytes = bytes; // half of it would fit, but none survives a round
    assert_close(predict(&plan, &hw, 1, 1, 128).roof_ns, memory.roof_ns);
    hw.level[0].fade_bytes = bytes / 2 * 3; // half way: a quarter of the bytes is left in it
    struct prediction quarter = predict(&plan, &hw, 1, 1, 128);
    assert_true(fabs(quarter.roof_ns / ((0.25 / 2e12 + 0.75 / 0.8e12) * (double)bytes * 1e9) - 1) < 1e-6);
    assert_true(quarter.bound_ns <= quarter.floor_ns && quarter.floor_ns <= quarter.roof_ns);
    // a step on its own, as a planner of capacity sees it, finds nothing there
    assert_close(roofline_attainable(&hw, &quarter.cost, false).ns, memory.roof_total_ns);
    assert_close(roofline_attainable(&hw, &quarter.cost, true).ns, quarter.roof_total_ns);
    plan_free(&plan);
}

// Activations come from where they still are: between neighbours a small cache holds them.
static void test_activations_by_distance(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    struct prediction memory = predict(&plan, &hw, 1, 1, 128);
    hw.level[hw.n_levels++] = (struct hw_level){"all", 1ull << 40, 1ull << 40, {.value = 1.6e12}};
    struct prediction all = predict(&plan, &hw, 1, 1, 128); // twice as fast, weights and activations
    assert_close(all.roof_ns, memory.roof_ns / 2);
    assert_close(all.spans_ns, memory.spans_ns / 2);
    hw.level[0].bytes = hw.level[0].fade_bytes = 1 << 20; // only what was written a moment ago
    struct prediction some = predict(&plan, &hw, 1, 1, 128);
    assert_close(some.roof_ns, memory.roof_ns);
    assert_true(some.spans_ns < memory.spans_ns);
    assert_true(some.spans_ns - some.roof_ns >= (memory.spans_ns - memory.roof_ns) / 2);
    plan_free(&plan);
}

static void check_order(const struct plan *plan, const struct hardware *hw, int32_t n_seqs, int32_t n_new, int32_t context)
{
    struct prediction p = predict(plan, hw, n_seqs, n_new, context);
    double slack = 1 + 1e-12; // sums in another order
    if (!(p.bound_ns > 0 && p.bound_ns <= p.roof_total_ns * slack && p.roof_total_ns <= p.roof_ns * slack &&
          p.bound_ns <= p.floor_ns * slack && p.floor_ns <= p.roof_ns * slack && p.roof_ns <= p.spans_ns * slack))
        fail_msg("%s on %s, %d x %d of %d: bound %g floor %g total %g roof %g spans %g", plan->model, hw->name, n_seqs,
                 n_new, context, p.bound_ns, p.floor_ns, p.roof_total_ns, p.roof_ns, p.spans_ns);
}

static void test_order_on_every_device(void **state)
{
    static const enum dtype KV[] = {DTYPE_BF16, DTYPE_INT8, DTYPE_FP8};
    struct catalogue_row *rows;
    struct error e = {0};
    int n;
    (void)state;
    assert_true(catalogue_list("hardware", &rows, &n, &e));
    for (int i = 0; i < n; i++) {
        struct hardware hw = load(rows[i].name);
        struct plan plan;
        make_plan(&plan, i % 2 ? "mistral-7b-v0.1" : "llama-3-8b", i % 3 ? DTYPE_BF16 : DTYPE_FP8, KV[i % 3],
                  hardware_link(&hw) > 0 ? 1 << i % 3 : 1);
        check_order(&plan, &hw, 1, 1, 1);
        check_order(&plan, &hw, 1, 1, 131072);
        check_order(&plan, &hw, 256, 1, 8192);
        check_order(&plan, &hw, 1, 512, 512);
        check_order(&plan, &hw, 4, 8, 8000);
        uint64_t weights = plan_weight_bytes(&plan); // no machine's, but of every proportion to the model
        hw.level[0] = (struct hw_level){"L2", weights >> (i % 5), weights, {.value = 4 * hw.bandwidth[ROOF_HARD].value}};
        hw.level[1] =
            (struct hw_level){"L3", weights + weights / 3, 3 * weights, {.value = 2 * hw.bandwidth[ROOF_HARD].value}};
        hw.n_levels = i % 2 + 1;
        check_order(&plan, &hw, 1, 1, 1);
        check_order(&plan, &hw, 1, 1, 131072);
        check_order(&plan, &hw, 1, 512, 512);
        plan_free(&plan);
    }
    free(rows);
}

// No cover is priced below the roof, nor above operation by operation.
static void test_no_cover_beats_the_roof(void **state)
{
    struct backend null;
    struct plan plan;
    struct batch batch;
    struct error e = {0};
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    assert_true(null_backend_open(&null, NULL, &e));
    assert_true(batch_make_uniform(&batch, 3, 40, 200, 16, &e));
    struct batch_shape shape = batch_shape_of(&batch);
    struct span *spans = calloc((size_t)plan.n_ops, sizeof *spans);
    struct prediction alone, p;
    assert_true(roofline_price(&plan, &batch, &hw, NULL, 0, &alone, &e));
    for (uint64_t seed = 1; seed < 50; seed++) {
        null_backend_set_cover(&null, seed);
        int32_t n = null.cover(null.self, &plan, &shape, spans);
        assert_true(roofline_price(&plan, &batch, &hw, spans, n, &p, &e));
        assert_close(p.roof_ns, alone.roof_ns);
        assert_true(p.spans_ns >= p.roof_ns && p.spans_ns <= alone.spans_ns * (1 + 1e-12));
    }
    free(spans);
    batch_free(&batch);
    backend_close(&null);
    plan_free(&plan);
}

// Virtual machines rarely say what their hard peaks are: then there is a roof and no bound.
static void test_without_hard_peaks(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    hw.peak[ROOF_HARD][DTYPE_BF16].value = 0;
    struct prediction p = predict(&plan, &hw, 1, 1, 64);
    assert_true(p.bound_ns == 0 && p.floor_ns == 0 && p.roof_ns > 0 && p.spans_ns > 0);
    plan_free(&plan);
}

static void test_sources(void **state)
{
    struct plan plan;
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    hw.peak[ROOF_ATTAINABLE][DTYPE_BF16].value = 0;
    assert_string_equal(predict(&plan, &hw, 1, 1, 64).source, "hard"); // nobody measured, nothing printed
    hw.peak[ROOF_DATASHEET][DTYPE_BF16].value = 90e12;
    assert_string_equal(predict(&plan, &hw, 1, 1, 64).source, "datasheet");
    plan_free(&plan);
}

static void test_what_is_not_stated(void **state)
{
    struct plan plan;
    struct batch batch;
    struct prediction p;
    struct error e = {0};
    struct hardware hw = round_hardware();
    (void)state;
    assert_true(batch_make_uniform(&batch, 1, 1, 64, 64, &e));
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 2);
    hw.link_bytes_per_s_bidir = 0;
    assert_false(roofline_price(&plan, &batch, &hw, NULL, 0, &p, &e));
    assert_non_null(strstr(e.message, "link"));
    hw.pcie_bytes_per_s = 32e9;
    assert_true(roofline_price(&plan, &batch, &hw, NULL, 0, &p, &e));
    plan_free(&plan);
    make_plan(&plan, "qwen3-0.6b", DTYPE_F32, DTYPE_F32, 1);
    assert_false(roofline_price(&plan, &batch, &hw, NULL, 0, &p, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "f32"));
    plan_free(&plan);
    batch_free(&batch);
}

// The link of an all-reduce: 8 KiB per row at bf16, hidden 4096, tp 4: 2 * 3/4 of it over half of 400 GB/s.
static void test_link_time(void **state)
{
    struct plan plan;
    struct batch batch;
    struct error e = {0};
    struct hardware hw = round_hardware();
    (void)state;
    make_plan(&plan, "llama-3-8b", DTYPE_BF16, DTYPE_BF16, 4);
    assert_true(batch_make_uniform(&batch, 32, 1, 64, 64, &e));
    struct op_price *ops = calloc((size_t)plan.n_ops, sizeof *ops);
    assert_true(roofline_price_ops(&plan, &batch, &hw, NULL, 0, ops, &e));
    int32_t i = 0;
    while (plan.op[i].kind != OP_ALLREDUCE)
        i++;
    assert_close(ops[i].roof_ns, 1.5 * 32 * 8192 / 200e9 * 1e9);
    free(ops);
    batch_free(&batch);
    plan_free(&plan);
}

static void test_simulated_clock(void **state)
{
    struct backend sim;
    struct plan plan;
    struct batch batch;
    struct error e = {0};
    struct hardware hw = round_hardware();
    struct kv_config kv = {.n_blocks = 8, .block_size = 16, .max_tokens = 64, .max_seqs = 4, .max_out = 4};
    static struct trace_row rows[2048];
    struct trace trace = {.row = rows, .capacity = 2048};
    (void)state;
    make_plan(&plan, "qwen3-0.6b", DTYPE_BF16, DTYPE_BF16, 1);
    assert_true(batch_make_uniform(&batch, 2, 8, 40, 16, &e));
    assert_true(roofline_backend_open(&sim, &hw, NULL, &e));
    assert_true(sim.open(sim.self, &plan, &kv, &e));
    assert_true(sim.run(sim.self, &plan, &batch, &trace, &e));
    struct prediction p;
    assert_true(roofline_price(&plan, &batch, &hw, NULL, 0, &p, &e));
    assert_int_equal(sim.now_ns(sim.self), (int64_t)p.spans_ns);
    assert_int_equal(trace.n, plan.n_ops);
    assert_int_equal(rows[0].begin_ns, 0);
    for (int32_t i = 1; i < trace.n; i++)
        assert_int_equal(rows[i].begin_ns, rows[i - 1].end_ns);
    assert_int_equal(rows[trace.n - 1].end_ns, sim.now_ns(sim.self));
    int64_t before = sim.now_ns(sim.self); // a block of 16 tokens is read and written at 0.8 TB/s
    struct kv_move move = {.from_block = 0, .to_block = 1};
    assert_true(sim.move(sim.self, &move, 1, &e));
    assert_in_range(sim.now_ns(sim.self) - before, 4587, 4588);
    assert_int_equal(sim.memory_bytes(sim.self), plan_weight_bytes(&plan) + 8 * 16 * 114688);
    backend_close(&sim);
    batch_free(&batch);
    plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ridge),
        cmocka_unit_test(test_decode_intensity),
        cmocka_unit_test(test_times_by_hand),
        cmocka_unit_test(test_cache_lowers_the_bound_alone),
        cmocka_unit_test(test_streams_by_hand),
        cmocka_unit_test(test_roof_of_a_model_in_cache),
        cmocka_unit_test(test_activations_by_distance),
        cmocka_unit_test(test_order_on_every_device),
        cmocka_unit_test(test_no_cover_beats_the_roof),
        cmocka_unit_test(test_without_hard_peaks),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_what_is_not_stated),
        cmocka_unit_test(test_link_time),
        cmocka_unit_test(test_simulated_clock),
    };
    return cmocka_run_group_tests_name("roofline", tests, NULL, NULL);
}
