// The parts of a point's time sum to it whatever was measured, and the sentences say what the rows say.
#include "bench/explain.h"
#include "tests/synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void set_op(struct op_result *op, const char *name, double ns, double roof, double spans, const char *limit)
{
    op_result_init(op);
    snprintf(op->op, sizeof op->op, "%s", name);
    snprintf(op->op_limit, sizeof op->op_limit, "%s", limit);
    op->count = 1, op->op_ns = ns, op->op_low_ns = op->op_high_ns = ns, op->op_roof_ns = roof, op->op_spans_ns = spans;
    op->weight_bytes = op->kv_read_bytes = op->kv_write_bytes = op->act_bytes = op->flops = 0;
}

// Batch 8, context 4096: 100 ms, of them 60 roof; attention 20 beyond its floor, products 10, a norm 4, gaps 3, all
// activations 2, the observer 1.
static struct stored some_point(void)
{
    struct stored p = {.result = synthetic_point(8, 4096, 100e6, NULL), .op = calloc(3, sizeof *p.op), .n_ops = 3};
    struct result *r = &p.result;
    set_op(&p.op[0], "attn", 41e6, 20e6, 21e6, "bandwidth");
    p.op[0].kv_read_bytes = 1e9;
    set_op(&p.op[1], "ffn_up", 51e6, 40e6, 41e6, "bandwidth");
    p.op[1].weight_bytes = 2e9, p.op[1].flops = 1e9;
    set_op(&p.op[2], "norm", 4e6, 0, 0, "bandwidth");
    p.op[2].weight_bytes = 10;
    r->roof_ns = 60e6, r->spans_ns = 62e6, r->busy_ns = 96e6, r->traced_ns = 99e6;
    r->executed_ns = 2e6, r->shortfall_ns = 34e6, r->gaps_ns = 3e6, r->observer_ns = 1e6;
    r->roof_fraction = 0.6;
    return p;
}

static double sum_of(const struct explanation *x)
{
    double sum = x->roof_ns;
    for (int i = 0; i < PART_COUNT; i++)
        sum += x->part_ns[i];
    return sum;
}

static void assert_ns(double x, double expected)
{
    if (fabs(x - expected) > 1)
        fail_msg("%f ns, expected %f", x, expected);
}

static void test_parts(void **state)
{
    static const double NS[PART_COUNT] = {0, 2e6, 20e6, 10e6, 4e6, 3e6, 1e6};
    struct stored p = some_point();
    struct explanation x = {0};
    (void)state;
    assert_true(explain_add(&x, &p));
    for (int i = 0; i < PART_COUNT; i++)
        assert_ns(x.part_ns[i], NS[i]);
    assert_ns(sum_of(&x), 100e6);
    enum explain_part order[PART_COUNT];
    explain_order(&x, order);
    assert_true(order[0] == PART_ATTENTION && order[1] == PART_PRODUCTS && order[5] == PART_OBSERVER);
    stored_free(&p);
}

// A ceiling that was probed at three quarters of its best takes a third of each floor on itself, but only where it is the
// floor.
static void test_machine(void **state)
{
    struct stored p = some_point();
    struct explanation x = {0};
    (void)state;
    p.result.roof_fraction = 0.8;
    assert_true(explain_add(&x, &p));
    assert_ns(x.part_ns[PART_MACHINE], 20e6);
    assert_ns(x.part_ns[PART_ATTENTION], 20e6 - 20e6 / 3);
    assert_ns(x.part_ns[PART_PRODUCTS], 10e6 - 40e6 / 3);
    assert_ns(sum_of(&x), 100e6);
    snprintf(p.op[1].op_limit, sizeof p.op[1].op_limit, "compute");
    x = (struct explanation){0};
    assert_true(explain_add(&x, &p));
    assert_ns(x.part_ns[PART_PRODUCTS], 10e6);
    assert_ns(x.part_ns[PART_ATTENTION], 0);
    assert_ns(sum_of(&x), 100e6);
    stored_free(&p);
}

// Whatever the numbers are: overlapping spans, missing operations, missing columns of older files.
static void test_sum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct stored p = some_point();
        struct explanation x = {0};
        uint64_t rng = seed;
        double *t[] = {&p.result.roof_ns,   &p.result.spans_ns,      &p.result.busy_ns, &p.result.traced_ns,
                       &p.result.median_ns, &p.result.roof_fraction, &p.op[0].op_ns,    &p.op[1].op_roof_ns};
        for (size_t i = 0; i < sizeof t / sizeof *t; i++)
            *t[i] *= 0.2 + 2 * rng_uniform(rng_next(&rng));
        p.n_ops = (int32_t)(seed % 4);
        if (seed % 5 == 0)
            p.op[0].op_spans_ns = NAN;
        if (seed % 7 == 0)
            p.result.roof_fraction = NAN;
        assert_true(explain_add(&x, &p));
        assert_ns(sum_of(&x), p.result.median_ns);
        assert_true(explain_add(&x, &p)); // twice: together
        assert_ns(sum_of(&x), 2 * p.result.median_ns);
        stored_free(&p);
    }
}

static void expect_text(const char *text, const char *expected)
{
    if (!strstr(text, expected))
        fail_msg("'%s' lacks '%s'", text, expected);
}

static void test_sentence(void **state)
{
    char text[EXPLAIN_TEXT];
    struct stored p = some_point();
    (void)state;
    explain_sentence(&p, text);
    assert_string_equal(text,
                        "decode at batch 8, context 4096, KV bf16 takes 100 ms: 60 % of the roof (60.0 ms); of the 40.0 ms "
                        "beyond, 20.0 are attention below the read ceiling, 10.0 matrix products below the read ceiling, "
                        "4.00 norms and other small kernels, 6.00 all else");
    p.result.roof_fraction = 0.8;
    snprintf(p.result.verdict, sizeof p.result.verdict, "noisy");
    explain_sentence(&p, text);
    expect_text(text, "takes 100 ms (noisy): 80 % of the roof (80.0 ms at the ceiling probed beside it, 60.0 ms at the");
    expect_text(text, "less 3.33: matrix products above the read ceiling");
    p.result.roof_fraction = 1.2;
    explain_sentence(&p, text);
    expect_text(text, "1.20 times as fast as its roof (120 ms");
    p.n_ops = 0;
    p.result.roof_fraction = 0.6;
    explain_sentence(&p, text);
    expect_text(text, "34.0 are kernels below their ceilings");
    p.result.traced_ns = NAN;
    explain_sentence(&p, text);
    expect_text(text, "60 % of the roof; no sample was traced");
    p.result.roof_ns = NAN;
    explain_sentence(&p, text);
    expect_text(text, "no roof is known");
    p.result.median_ns = NAN;
    snprintf(p.result.reason, sizeof p.result.reason, "out of luck");
    explain_sentence(&p, text);
    expect_text(text, "was not measured: out of luck");
    stored_free(&p);
}

// Only what is ok is quoted for a whole batch size.
static void test_group_sentence(void **state)
{
    char text[EXPLAIN_TEXT];
    struct stored p[3] = {some_point(), some_point(), some_point()};
    (void)state;
    p[1].result.roof_fraction = 0.65;
    snprintf(p[2].result.verdict, sizeof p[2].result.verdict, "noisy");
    p[2].result.roof_fraction = 0.1;
    assert_true(explain_group_sentence(p, 3, "decode", 8, text));
    expect_text(text,
                "decode at batch 8 is at 60 to 65 % of the roof; of its time, 19 % is attention below the read ceiling");
    assert_false(explain_group_sentence(p, 3, "decode", 1, text));
    assert_false(explain_group_sentence(p + 2, 1, "decode", 8, text));
    for (int i = 0; i < 3; i++)
        stored_free(&p[i]);
}

// A part that would be printed as 0 % is not named, nor is what is left of all others.
static void test_nothing_is_zero_percent(void **state)
{
    char text[EXPLAIN_TEXT];
    struct stored p = some_point();
    (void)state;
    p.result.roof_fraction = 0.955; // 4.5 ms beyond, of 100
    p.result.gaps_ns = 0.3e6, p.result.busy_ns = 98.7e6;
    assert_true(explain_group_sentence(&p, 1, "decode", 8, text));
    assert_null(strstr(text, " 0 %"));
    stored_free(&p);
}

static void test_times(void **state)
{
    struct explain_time t[EXPLAIN_TIMES];
    struct stored p = some_point();
    (void)state;
    explain_times(&p.result, t);
    assert_true(isnan(t[0].ns) && t[2].ns == 60e6 && t[6].ns == 100e6 && isnan(t[6].difference_ns));
    for (int i = 2; i < EXPLAIN_TIMES - 1; i++)
        assert_true(t[i].ns + t[i].difference_ns == t[i + 1].ns);
    stored_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_group_sentence),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_nothing_is_zero_percent),
    };
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
