// The differences sum to what they divide, whatever was measured; nothing is clamped.
#include "bench/attribution.h"
#include "engine/base/rng.h"
#include "tests/tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_OPS = 256 };

struct fixture {
    struct plan plan;
    struct batch batch;
    struct hardware hw;
    struct trace_row row[MAX_OPS];
    struct trace trace;
    struct attribution a;
};

static struct hardware some_hardware(bool hard)
{
    struct hardware hw = {.name = "some"};
    hw.bandwidth[ROOF_ATTAINABLE].value = 17.3e9;
    hw.peak[ROOF_ATTAINABLE][DTYPE_F32].value = 41.7e9;
    if (hard) {
        hw.bandwidth[ROOF_HARD].value = 25.6e9;
        hw.peak[ROOF_HARD][DTYPE_F32].value = 76.8e9;
    }
    return hw;
}

static void open_fixture(struct fixture *f, bool hard)
{
    struct model_spec spec = tiny_spec();
    struct plan_options options = plan_options_default(DTYPE_F32);
    struct error e = {0};
    *f = (struct fixture){.hw = some_hardware(hard)};
    assert_true(plan_make(&f->plan, &spec, &options, &e) && f->plan.n_ops <= MAX_OPS);
    assert_true(batch_make_uniform(&f->batch, 2, 3, 11, 16, &e));
    f->trace = (struct trace){.row = f->row, .capacity = MAX_OPS};
    attribution_init(&f->a);
}

static void close_fixture(struct fixture *f)
{
    attribution_free(&f->a);
    batch_free(&f->batch);
    plan_free(&f->plan);
}

// Spans of random length, with gaps of 0..9 ns between them.
static int64_t random_trace(struct fixture *f, uint64_t seed, int64_t begin)
{
    f->trace.n = 0;
    for (int32_t i = 0; i < f->plan.n_ops;) {
        int32_t count = 1 + (int32_t)(rng_next(&seed) % 4);
        count = count < f->plan.n_ops - i ? count : f->plan.n_ops - i;
        begin += (int64_t)(rng_next(&seed) % 10);
        int64_t end = begin + (int64_t)(rng_next(&seed) % 5000);
        trace_add(&f->trace, (struct trace_row){.span = {.first = i, .count = count}, .begin_ns = begin, .end_ns = end});
        begin = end;
        i += count;
    }
    return begin;
}

static void add_step(struct fixture *f)
{
    struct error e = {0};
    if (!attribution_add_step(&f->a, &f->plan, &f->batch, &f->trace, &f->hw, &e))
        fail_msg("%s", e.message);
}

static int64_t sum_of(const int64_t *x, int from, int to)
{
    int64_t sum = 0;
    for (int i = from; i < to; i++)
        sum += x[i];
    return sum;
}

static void test_sum_is_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct fixture f;
        open_fixture(&f, seed % 2);
        for (uint64_t step = 0; step <= seed % 3; step++) {
            random_trace(&f, seed * 7 + step, 1000);
            add_step(&f);
        }
        int64_t traced = (int64_t)(rng_at(seed, 0) % 200000), median = (int64_t)(rng_at(seed, 1) % 200000);
        attribution_finish(&f.a, traced, median);
        const int64_t *t = f.a.time_ns, *d = f.a.difference_ns;
        int from = seed % 2 ? T_BOUND : T_ROOF;
        assert_int_equal(f.a.has_hard, seed % 2);
        assert_int_equal(sum_of(d, from, D_COUNT), median - t[from]);
        assert_int_equal(attribution_total_ns(&f.a), median - t[from]);
        assert_int_equal(sum_of(d, 0, from), 0); // empty where hard peaks are unknown
        for (int i = from; i < D_COUNT; i++)
            assert_int_equal(d[i], t[i + 1] - t[i]);
        assert_int_equal(t[T_TRACED], traced);
        close_fixture(&f);
    }
}

// A measurement faster than the roof and than its own trace: both differences are negative.
static void test_signs_are_kept(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, true);
    int64_t at = 0;
    for (int32_t i = 0; i < f.plan.n_ops; i++, at++)
        trace_add(&f.trace, (struct trace_row){.span = {.first = i, .count = 1}, .begin_ns = at, .end_ns = at + 1});
    add_step(&f);
    attribution_finish(&f.a, at, at - 10);
    assert_true(f.a.difference_ns[D_SHORTFALL] < 0);
    assert_int_equal(f.a.difference_ns[D_GAPS], 0);
    assert_int_equal(f.a.difference_ns[D_OBSERVER], -10);
    assert_true(f.a.difference_ns[D_CEILING] > 0 && f.a.difference_ns[D_EXECUTED] > 0);
    close_fixture(&f);
}

static void test_union_of_intervals(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, false);
    int32_t n = f.plan.n_ops;
    trace_add(&f.trace, (struct trace_row){.span = {.first = 5, .count = n - 5}, .begin_ns = 50, .end_ns = 120});
    trace_add(&f.trace, (struct trace_row){.span = {.first = 0, .count = 3}, .begin_ns = 0, .end_ns = 60}); // overlaps
    trace_add(&f.trace, (struct trace_row){.span = {.first = 3, .count = 2}, .begin_ns = 200, .end_ns = 230});
    add_step(&f);
    attribution_finish(&f.a, 240, 250);
    assert_int_equal(f.a.time_ns[T_BUSY], 150);
    assert_int_equal(f.a.difference_ns[D_GAPS], 90);
    close_fixture(&f);
}

// Prefill and decode rows of one step may be run apart: one span, two intervals, one price.
static void test_parts_of_a_span(void **state)
{
    struct fixture whole, split;
    (void)state;
    open_fixture(&whole, true);
    open_fixture(&split, true);
    int64_t end = random_trace(&whole, 3, 0);
    for (int part = 1; part <= 2; part++)
        for (int32_t i = 0; i < whole.trace.n; i++) {
            struct trace_row row = whole.row[i];
            row.part = (uint8_t)part;
            row.begin_ns += (part - 1) * end, row.end_ns += (part - 1) * end;
            trace_add(&split.trace, row);
        }
    add_step(&whole);
    add_step(&split);
    attribution_finish(&whole.a, end, end);
    attribution_finish(&split.a, 2 * end, 2 * end);
    assert_int_equal(split.a.time_ns[T_SPANS], whole.a.time_ns[T_SPANS]);
    assert_int_equal(split.a.time_ns[T_BUSY], 2 * whole.a.time_ns[T_BUSY]);
    assert_int_equal(split.a.n_ops, whole.a.n_ops);
    for (int32_t i = 0; i < split.a.n_ops; i++) {
        assert_int_equal(split.a.op[i].count, whole.a.op[i].count);
        assert_int_equal(split.a.op[i].time_ns, 2 * whole.a.op[i].time_ns);
    }
    close_fixture(&whole);
    close_fixture(&split);
}

// The middle one of three samples counts, with the prices of the last; how far an operation varied is kept.
static void test_sample_in_the_middle(void **state)
{
    struct fixture f[3];
    struct attribution a[3];
    static const int64_t WALL[3] = {900000, 100000, 500000};
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_fixture(&f[i], true);
        random_trace(&f[i], 11, 0); // the same spans
        for (int32_t k = 0; k < f[i].trace.n; k++)
            f[i].row[k].end_ns += WALL[i] / 1000; // slower
        if (i == 2)
            f[i].hw.bandwidth[ROOF_ATTAINABLE].value *= 2; // raised meanwhile
        add_step(&f[i]);
        attribution_finish(&f[i].a, WALL[i], 1);
        a[i] = f[i].a;
    }
    int64_t busy = f[2].a.time_ns[T_BUSY], roof = f[2].a.time_ns[T_ROOF], middle = f[2].a.op[1].time_ns;
    int64_t fast = f[1].a.op[1].time_ns, slow = f[0].a.op[1].time_ns;
    attribution_choose(a, 3, 700000);
    assert_int_equal(a[2].n_samples, 3);
    assert_int_equal(a[2].time_ns[T_TRACED], 500000);
    assert_int_equal(a[2].time_ns[T_BUSY], busy);
    assert_int_equal(a[2].time_ns[T_ROOF], roof);
    assert_true(roof < f[0].a.time_ns[T_ROOF]);
    assert_true(a[2].op[1].time_ns == middle && a[2].op[1].low_ns == fast && a[2].op[1].high_ns == slow && fast < slow);
    assert_int_equal(attribution_total_ns(&a[2]), 700000 - a[2].time_ns[T_BOUND]);

    a[2].op[1].count++; // other spans than the others ran: it stands alone
    a[2].n_samples = 1;
    attribution_choose(a, 3, 700000);
    assert_int_equal(a[2].n_samples, 1);
    for (int i = 0; i < 3; i++)
        close_fixture(&f[i]);
}

static const struct attribution_op *find(const struct attribution *a, const char *label)
{
    for (int32_t i = 0; i < a->n_ops; i++)
        if (!strcmp(a->op[i].label, label))
            return &a->op[i];
    fail_msg("no operation '%s'", label);
    return NULL;
}

static void test_operations(void **state)
{
    struct fixture f;
    struct cost sum = {0};
    double roof = 0, spans = 0;
    int64_t time = 0;
    (void)state;
    open_fixture(&f, true);
    for (int32_t i = 0, at = 0; i < f.plan.n_ops; at += 10) {
        bool fuse = f.plan.op[i].kind == OP_ROPE && f.plan.op[i + 1].kind == OP_ROPE;
        struct span span = {.first = i, .count = fuse ? 2 : 1, .kernel = fuse};
        trace_add(&f.trace, (struct trace_row){.span = span, .begin_ns = at, .end_ns = at + 7});
        i += span.count;
    }
    add_step(&f);
    assert_int_equal(find(&f.a, "rope+rope")->count, 2); // one per layer
    assert_int_equal(find(&f.a, "rope+rope")->kernel, 1);
    assert_int_equal(find(&f.a, "attn")->time_ns, 14);
    assert_int_equal(find(&f.a, "output")->cost.weight_bytes, 64 * 320 * 4);
    assert_int_equal(find(&f.a, "embed")->cost.weight_bytes, 6 * 64 * 4);
    for (int32_t i = 0; i < f.a.n_ops; i++) {
        cost_add(&sum, &f.a.op[i].cost);
        roof += f.a.op[i].roof_ns;
        spans += f.a.op[i].spans_ns;
        assert_true(f.a.op[i].spans_ns >= f.a.op[i].roof_ns);
        time += f.a.op[i].time_ns;
    }
    attribution_finish(&f.a, 0, 0);
    assert_memory_equal(&sum, &f.a.cost, sizeof sum);
    assert_true((int64_t)(roof + 0.5) == f.a.time_ns[T_ROOF]);
    assert_true(llround(spans) == f.a.time_ns[T_SPANS]);
    assert_string_equal(find(&f.a, "output")->limit, "bandwidth"); // 2 rows: 4 FLOPs for 4 bytes of a weight
    assert_string_equal(find(&f.a, "attn_q")->limit, "compute");   // 6 rows: 12 FLOPs
    assert_int_equal(time, f.a.time_ns[T_BUSY]);
    close_fixture(&f);
}

// On the simulated clock the kernels are exactly what the spans are priced at.
static void test_simulated_trace(void **state)
{
    struct fixture f;
    struct backend sim;
    struct error e = {0};
    struct kv_config kv = {.n_blocks = 2, .block_size = 16, .max_tokens = 8, .max_seqs = 2, .max_out = 2};
    (void)state;
    open_fixture(&f, true);
    assert_true(roofline_backend_open(&sim, &f.hw, NULL, &e) && sim.open(sim.self, &f.plan, &kv, &e));
    assert_true(sim.run(sim.self, &f.plan, &f.batch, &f.trace, &e));
    add_step(&f);
    attribution_finish(&f.a, sim.now_ns(sim.self), sim.now_ns(sim.self));
    assert_in_range(f.a.difference_ns[D_SHORTFALL] + 1, 0, 2); // whole nanoseconds
    assert_int_equal(f.a.difference_ns[D_GAPS], 0);
    backend_close(&sim);
    close_fixture(&f);
}

static void test_bad_traces(void **state)
{
    struct fixture f;
    struct error e = {0};
    (void)state;
    open_fixture(&f, true);
    assert_false(attribution_add_step(&f.a, &f.plan, &f.batch, &f.trace, &f.hw, &e)); // empty
    assert_int_equal(e.kind, ERROR_FAILED);
    random_trace(&f, 1, 0);
    f.trace.n_dropped = 1;
    assert_false(attribution_add_step(&f.a, &f.plan, &f.batch, &f.trace, &f.hw, &e));
    f.trace.n_dropped = 0;
    f.trace.n--; // the end is missing
    assert_false(attribution_add_step(&f.a, &f.plan, &f.batch, &f.trace, &f.hw, &e));
    assert_int_equal(f.a.n_ops, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_is_exact),         cmocka_unit_test(test_signs_are_kept),
        cmocka_unit_test(test_union_of_intervals),   cmocka_unit_test(test_parts_of_a_span),
        cmocka_unit_test(test_sample_in_the_middle), cmocka_unit_test(test_operations),
        cmocka_unit_test(test_simulated_trace),      cmocka_unit_test(test_bad_traces),
    };
    return cmocka_run_group_tests_name("attribution", tests, NULL, NULL);
}
