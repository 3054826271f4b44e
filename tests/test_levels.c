// Caches are found in curves of known machines, and in none that has none.
#include "bench/levels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024.0
#define MIB (1024 * KIB)

// What a machine with these levels would show, half octave by half octave from 16 KiB to 512 MiB.
static struct curve curve_of(const struct hardware *hw)
{
    struct curve c = {0};
    for (double bytes = 16 * KIB; bytes <= 512 * MIB && c.n < CURVE_POINTS; bytes *= sqrt(2)) {
        c.bytes[c.n] = (uint64_t)bytes;
        c.rate[c.n++] = hardware_stream(hw, (uint64_t)bytes).value;
    }
    return c;
}

static struct hardware machine(int32_t n_levels)
{
    struct hardware hw = {.n_levels = n_levels};
    hw.bandwidth[ROOF_ATTAINABLE].value = 50e9;
    hw.level[0] = (struct hw_level){"L1", 96 << 10, 128 << 10, {.value = 800e9}};
    hw.level[1] = (struct hw_level){"L2", 2 << 20, 4 << 20, {.value = 400e9}};
    hw.level[2] = (struct hw_level){"L3", 32 << 20, 128 << 20, {.value = 200e9}};
    return hw;
}

static struct hardware find(const struct curve *c, double memory)
{
    struct hardware hw = {0};
    int32_t best[HARDWARE_LEVELS];
    hw.bandwidth[ROOF_ATTAINABLE].value = memory;
    hw.n_levels = levels_find(c, memory, hw.level, best);
    for (int32_t i = 0; i < hw.n_levels; i++)
        assert_true(c->rate[best[i]] == hw.level[i].bandwidth.value);
    return hw;
}

// No set is read faster than the levels found say it can be, but for `slack`.
static void check_above(const struct hardware *hw, const struct curve *c, double slack)
{
    for (int32_t i = 0; i < c->n; i++) {
        double rate = hardware_stream(hw, c->bytes[i]).value;
        if (!(c->rate[i] <= rate * slack))
            fail_msg("%.0f KiB: %g GB/s, above the stream's %g", (double)c->bytes[i] / KIB, c->rate[i] / 1e9, rate / 1e9);
    }
}

static void test_known_machines(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 3; n++) {
        struct hardware known = machine(n);
        struct curve c = curve_of(&known);
        struct hardware found = find(&c, 50e9);
        assert_int_equal(found.n_levels, n);
        for (int32_t i = 0; i < n; i++) {
            double ratio = (double)found.level[i].bytes / (double)known.level[i].bytes;
            assert_true(ratio > 0.7 && ratio < 1.3); // to half an octave, as the sizes are
            assert_true(found.level[i].bandwidth.value == known.level[i].bandwidth.value);
            ratio = (double)found.level[i].fade_bytes / (double)known.level[i].fade_bytes;
            assert_true(ratio > 0.7 && ratio < 1.5);
        }
        check_above(&found, &c, 1.09);
    }
}

static void test_no_cache(void **state)
{
    (void)state;
    struct hardware none = machine(0);
    struct curve c = curve_of(&none);
    assert_int_equal(find(&c, 50e9).n_levels, 0);
    for (int32_t i = 0; i < c.n; i++) // small sets pay for the loop around them
        c.rate[i] *= 1 - 1 / (2.0 + i);
    assert_int_equal(find(&c, 50e9).n_levels, 0);
    struct curve empty = {0};
    assert_int_equal(find(&empty, 50e9).n_levels, 0);
}

// A neighbour who comes for a while makes a dent, and no cache.
static void test_a_dent(void **state)
{
    (void)state;
    struct hardware known = machine(3);
    struct curve c = curve_of(&known);
    for (int32_t i = 0; i < c.n; i++)
        if (c.bytes[i] > 8 << 20)
            c.rate[i] *= 0.85;
    struct hardware found = find(&c, 0.85 * 50e9);
    assert_int_equal(found.n_levels, 3);
    assert_true(found.level[2].bytes > 22 << 20 && found.level[2].bytes < 42 << 20);
}

// Two cores of a Zen 5 virtual machine (EPYC, 2026-11): L1 2 x 48 KiB, L2 2 x 1 MiB, L3 32 MiB. GB/s from 16 KiB on.
static void test_a_real_curve(void **state)
{
    static const double GBPS[] = {492.5, 539.8, 626.7, 610.7, 691.7, 732.4, 362.4, 377.1, 381.9, 421.6, 396.9,
                                  431.8, 493.2, 498.5, 343.2, 253.5, 234.0, 228.4, 237.4, 248.8, 251.1, 234.1,
                                  191.9, 127.9, 85.1,  68.2,  57.3,  55.9,  52.9,  55.5,  52.8};
    static const struct cache CACHE[] = {{"L1", 96 << 10}, {"L2", 2 << 20}, {"L3", 32 << 20}};
    struct curve c = {0};
    (void)state;
    for (double bytes = 16 * KIB; c.n < (int32_t)(sizeof GBPS / sizeof *GBPS); bytes *= sqrt(2)) {
        c.bytes[c.n] = (uint64_t)bytes;
        c.rate[c.n] = GBPS[c.n] * 1e9;
        c.n++;
    }
    struct hardware hw = find(&c, 52.8e9);
    assert_int_equal(hw.n_levels, 3);
    levels_name(hw.level, hw.n_levels, CACHE, 3);
    for (int32_t i = 0; i < 3; i++)
        assert_string_equal(hw.level[i].name, CACHE[i].name);
    assert_true(hw.level[2].bytes >= 23 << 20 && hw.level[2].bytes < 48 << 20);
    check_above(&hw, &c, 1.09);
}

static void test_names(void **state)
{
    static const struct cache CACHE[] = {{"L1", 48 << 10}, {"L2", 2 << 20}, {"L3", 64 << 20}};
    struct hardware hw = machine(3);
    (void)state;
    levels_name(hw.level, 3, CACHE, 3); // 96 KiB, 2 MiB, 32 MiB: each within a factor of 2
    assert_string_equal(hw.level[0].name, "L1");
    assert_string_equal(hw.level[2].name, "L3");
    levels_name(hw.level, 3, CACHE, 2);
    assert_string_equal(hw.level[1].name, "L2");
    assert_string_equal(hw.level[2].name, "cache3"); // the system does not know it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_machines), cmocka_unit_test(test_no_cache), cmocka_unit_test(test_a_dent),
        cmocka_unit_test(test_a_real_curve),   cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("levels", tests, NULL, NULL);
}
