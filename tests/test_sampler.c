// Sampling against distributions worked by hand.
#include "engine/base/rng.h"
#include "engine/token_source.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 5, DRAWS = 100000 };

// softmax is 0.1, 0.4, 0.2, 0.25, 0.05
static const float P[VOCAB] = {0.1f, 0.4f, 0.2f, 0.25f, 0.05f};

static void logits_of(const float *p, float *logits)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = logf(p[i]) + 3; // any constant
}

static int32_t draw(struct sampler *s, int32_t n_tokens)
{
    float logits[VOCAB];
    struct token_source source = sampler_source(s);
    logits_of(P, logits);
    return source.next(source.self, logits, VOCAB, n_tokens);
}

// Chi-square of DRAWS draws against `expected`; a token with no chance must never come.
static void check(float temperature, int32_t top_k, float top_p, const double *expected, double limit)
{
    struct sampler s;
    int32_t count[VOCAB] = {0};
    double chi2 = 0;
    assert_true(sampler_init(&s, temperature, top_k, top_p, 42, NULL));
    for (int32_t i = 0; i < DRAWS; i++)
        count[draw(&s, i)]++;
    for (int i = 0; i < VOCAB; i++) {
        double mean = expected[i] * DRAWS;
        if (expected[i] == 0)
            assert_int_equal(count[i], 0);
        else
            chi2 += (count[i] - mean) * (count[i] - mean) / mean;
    }
    assert_true(chi2 < limit);
    sampler_free(&s);
}

// Limits: chi-square at p = 0.001 for 4, 2, 1 degrees of freedom.
static void test_temperature_one_draws_the_softmax(void **state)
{
    (void)state;
    check(1, 0, 1, (const double[]){0.1, 0.4, 0.2, 0.25, 0.05}, 18.47);
}

static void test_temperature_sharpens(void **state)
{
    (void)state;
    // At 0.5 the weights are squared: 0.01, 0.16, 0.04, 0.0625, 0.0025, sum 0.275.
    check(0.5f, 0, 1, (const double[]){0.01 / 0.275, 0.16 / 0.275, 0.04 / 0.275, 0.0625 / 0.275, 0.0025 / 0.275}, 18.47);
}

static void test_top_k_keeps_the_largest(void **state)
{
    (void)state;
    check(1, 3, 1, (const double[]){0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0}, 13.82);
    check(1, 1, 1, (const double[]){0, 1, 0, 0, 0}, 1);
    check(1, 100, 1, (const double[]){0.1, 0.4, 0.2, 0.25, 0.05}, 18.47);
}

static void test_top_p_keeps_the_smallest_set_that_reaches_it(void **state)
{
    (void)state;
    check(1, 0, 0.6f, (const double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}, 10.83);
    check(1, 0, 0.66f, (const double[]){0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0}, 13.82);
    check(1, 0, 0.01f, (const double[]){0, 1, 0, 0, 0}, 1);
}

// top-k first: of {0.4, 0.25} renormalized, 0.4 / 0.65 = 0.615 reaches 0.6 alone.
static void test_top_p_acts_on_what_top_k_left(void **state)
{
    (void)state;
    check(1, 2, 0.6f, (const double[]){0, 1, 0, 0, 0}, 1);
    check(1, 2, 0.63f, (const double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}, 10.83);
}

struct entry {
    float weight;
    int32_t id;
};
static int by_weight_then_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : x->id - y->id;
}

// The definition, by sorting everything.
static int32_t draw_plainly(const float *logits, int32_t n, int32_t k, float p, float u)
{
    static struct entry e[1000];
    double sum = 0, nucleus = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        e[i] = (struct entry){expf(logits[i] - 4), i}; // 4 is the largest logit
    qsort(e, (size_t)n, sizeof *e, by_weight_then_id);
    for (int32_t i = 0; i < k; i++)
        sum += (double)e[i].weight;
    while (kept < k && (kept == 0 || nucleus < (double)p * sum))
        nucleus += (double)e[kept++].weight;
    double at = (double)u * nucleus;
    for (int32_t i = 0; i < kept; i++)
        if ((at -= (double)e[i].weight) < 0)
            return e[i].id;
    return e[kept - 1].id;
}

// Selecting and dropping early, for speed, changes nothing. Logits in steps of 1/8: many are equal.
static void test_shortcuts_change_nothing(void **state)
{
    (void)state;
    static const int32_t k[] = {1, 2, 37, 500, 999};
    static const float p[] = {0.05f, 0.5f, 0.9f, 0.999f};
    static float logits[1000];
    for (int32_t i = 0; i < 400; i++) {
        struct sampler s;
        for (int32_t v = 0; v < 1000; v++)
            logits[v] = v == 123 ? 4 : (float)(rng_at((uint64_t)i, (uint64_t)v) % 64) / 8 - 4;
        assert_true(sampler_init(&s, 1, k[i % 5], p[i / 5 % 4], 8, NULL));
        struct token_source source = sampler_source(&s);
        float u = rng_uniform(rng_at(8, (uint64_t)i));
        assert_int_equal(source.next(source.self, logits, 1000, i), draw_plainly(logits, 1000, k[i % 5], p[i / 5 % 4], u));
        sampler_free(&s);
    }
}

static void test_same_seed_same_tokens(void **state)
{
    (void)state;
    struct sampler a, b, c;
    int differ = 0;
    assert_true(sampler_init(&a, 1, 0, 1, 5, NULL) && sampler_init(&b, 1, 0, 1, 5, NULL) &&
                sampler_init(&c, 1, 0, 1, 6, NULL));
    for (int32_t i = 999; i >= 0; i--) // in another order than b draws: only the position counts
        differ += draw(&a, i) != draw(&a, i);
    for (int32_t i = 0; i < 1000; i++)
        assert_int_equal(draw(&a, i), draw(&b, i));
    assert_int_equal(differ, 0);
    for (int32_t i = 0; i < 1000; i++)
        differ += draw(&a, i) != draw(&c, i);
    assert_true(differ > 300);
    sampler_free(&a);
    sampler_free(&b);
    sampler_free(&c);
}

static void test_greedy(void **state)
{
    (void)state;
    struct sampler s;
    struct token_source source;
    float infinite[] = {1, INFINITY, 2}, tie[] = {1, 7, 7, -INFINITY}, broken[] = {NAN, -2, NAN, -1}, none[] = {NAN, NAN};
    assert_true(sampler_init(&s, 0, 0, 1, 0, NULL));
    source = sampler_source(&s);
    assert_true(source.needs_logits);
    assert_int_equal(source.next(source.self, tie, 4, 0), 1);
    assert_int_equal(source.next(source.self, broken, 4, 0), 3);
    assert_int_equal(logits_argmax(none, 2), 0);
    sampler_free(&s);
    assert_true(sampler_init(&s, 1, 0, 1, 0, NULL));
    source = sampler_source(&s);
    for (int32_t i = 0; i < 100; i++) {
        int32_t id = source.next(source.self, broken, 4, i);
        assert_true(id == 1 || id == 3);
    }
    assert_int_equal(source.next(source.self, none, 2, 0), 0);
    assert_int_equal(source.next(source.self, infinite, 3, 0), 1);
    sampler_free(&s);
}

static void test_ranges(void **state)
{
    (void)state;
    struct sampler s;
    struct error e;
    assert_false(sampler_init(&s, -1, 0, 1, 0, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_false(sampler_init(&s, NAN, 0, 1, 0, &e));
    assert_false(sampler_init(&s, INFINITY, 0, 1, 0, &e));
    assert_false(sampler_init(&s, 1, -1, 1, 0, &e));
    assert_false(sampler_init(&s, 1, 0, 0, 0, &e));
    assert_false(sampler_init(&s, 1, 0, 1.5f, 0, &e));
    assert_false(sampler_init(&s, 1, 0, NAN, 0, &e));
}

static void test_random_tokens_need_no_logits(void **state)
{
    (void)state;
    struct random_tokens r = {.seed = 3};
    struct token_source source = random_token_source(&r);
    int32_t seen[10] = {0};
    assert_false(source.needs_logits);
    for (int32_t i = 0; i < 1000; i++) {
        int32_t id = source.next(source.self, NULL, 10, i);
        assert_in_range(id, 0, 9);
        assert_int_equal(id, source.next(source.self, NULL, 10, i));
        seen[id]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 50, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature_one_draws_the_softmax),
        cmocka_unit_test(test_temperature_sharpens),
        cmocka_unit_test(test_top_k_keeps_the_largest),
        cmocka_unit_test(test_top_p_keeps_the_smallest_set_that_reaches_it),
        cmocka_unit_test(test_top_p_acts_on_what_top_k_left),
        cmocka_unit_test(test_shortcuts_change_nothing),
        cmocka_unit_test(test_same_seed_same_tokens),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_random_tokens_need_no_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
