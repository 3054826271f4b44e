// Verdicts from made-up evidence: what quiet and disturbed runs looked like, each rule at its threshold, and codes as text.
#include "bench/trust.h"

#include "tests/files.h"

#include <math.h>

#define BIT(id) (1u << TRUST_##id)

// smollm2-135m, decode, batch 1, on two virtual CPUs of an AMD EPYC (Zen 5) that nothing else used, 2026-11-29.
static struct evidence quiet(void)
{
    return (struct evidence){.n_samples = 7,
                             .median_ns = 6.15e6,
                             .interval = 0.06,
                             .spread = 0.09,
                             .bound_ns = NAN,
                             .waited = 0.039,
                             .other = 0.087,
                             .steal = 0,
                             .usual_steal = 0.0022,
                             .clock_drift = NAN,
                             .arithmetic = 0.984,
                             .arithmetic_drift = 0.99,
                             .read = 0.927,
                             .memory_limited = true,
                             .step_bytes = 270e6,
                             .kept_bytes = 0};
}

static void expect(const struct evidence *x, unsigned codes, const char *part)
{
    struct judgement j;
    trust_judge(x, &j);
    if (j.codes != codes)
        fail_msg("codes %x, expected %x: %s", j.codes, codes, j.reason);
    if (!strstr(j.reason, part))
        fail_msg("'%s' lacks '%s'", j.reason, part);
}

static void test_quiet_is_ok(void **state)
{
    (void)state;
    struct evidence x = quiet();
    struct judgement j;
    expect(&x, 0, "");
    trust_judge(&x, &j);
    assert_string_equal(j.reason, "");
    assert_string_equal(trust_verdict(j.codes), "ok");
}

// Where the GPU says what held its clock down, that is believed whatever else ran.
static void test_a_gpu_held_down(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.gpu_limits = "hardware-heat";
    expect(&x, BIT(THROTTLED), "hardware-heat");
    x.affinity_changed = true;
    expect(&x, BIT(THROTTLED) | BIT(CONTENDED), "hardware-heat");
}

// The same machine with a busy loop on one of the CPUs, then with a memory hog, then with all threads moved to one CPU.
static void test_disturbed_runs(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.waited = 0.37, x.other = 0.24, x.spread = 0.31, x.read = 0.62, x.arithmetic = 0.99;
    expect(&x, BIT(CONTENDED) | BIT(NOISY), "waited 37 %");
    x.waited = 0.35, x.read = 0.48, x.arithmetic = 1.01;
    expect(&x, BIT(CONTENDED) | BIT(CACHE_POLLUTED) | BIT(NOISY), "read at 48 %");
    x = quiet();
    x.waited = 0.44, x.affinity_changed = true;
    expect(&x, BIT(CONTENDED), "affinity");
}

static void test_contention(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.waited = 0.099;
    expect(&x, 0, "");
    x.waited = 0.101;
    expect(&x, BIT(CONTENDED), "waited 10 %");
    x = quiet();
    x.affinity_changed = true; // nothing was lost yet
    expect(&x, BIT(CONTENDED), "affinity");
    x = quiet();
    x.other = 0.3; // waiting says that it did no harm
    expect(&x, 0, "");
    x.waited = NAN; // where it is not told, what ran is all there is
    expect(&x, BIT(CONTENDED), "30 % of its CPUs");
    x.waited = 0.5, x.crowded = true; // its threads wait for one another
    expect(&x, BIT(CONTENDED), "30 % of its CPUs");
    x.other = 0;
    expect(&x, 0, "");
}

// A machine whose hypervisor always takes some is not contended by that.
static void test_steal(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.usual_steal = 0.07, x.steal = 0.08;
    expect(&x, 0, "");
    x.steal = 0.17;
    expect(&x, BIT(CONTENDED), "took 17.0 % of its CPUs, usually 7.0 %");
    x.usual_steal = 0, x.steal = 0.03;
    expect(&x, BIT(CONTENDED), "hypervisor");
}

static void test_clock(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.arithmetic = 0.8;
    expect(&x, BIT(THROTTLED), "80 % of its ceiling");
    x.arithmetic = 0.9, x.arithmetic_drift = 0.85;
    expect(&x, BIT(THROTTLED), "85 % of what it was");
    x.waited = 0.4; // then others explain it
    expect(&x, BIT(CONTENDED), "waited");
    x = quiet();
    x.clock_drift = 0.7;
    expect(&x, BIT(THROTTLED), "clock fell to 70 %");
}

static void test_memory(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.read = 0.6;
    expect(&x, BIT(CACHE_POLLUTED), "60 % of its ceiling");
    x.arithmetic = 0.7; // memory that slows with the clock is the clock's
    expect(&x, BIT(THROTTLED), "arithmetic");
    x = quiet();
    x.step_bytes = x.kept_bytes = 20e6;
    expect(&x, BIT(CACHE_RESIDENT), "19.07 MiB of a step 100 % stay");
    x.read = 0.5; // a probe of a cache
    expect(&x, BIT(CACHE_RESIDENT), "MiB");
    x.read = 0.9, x.kept_bytes = 9e6; // its roof is priced so; it is mostly memory's
    expect(&x, 0, "");
    x.kept_bytes = 11e6;
    expect(&x, BIT(CACHE_RESIDENT), "55 % stay");
    x.memory_limited = false;
    expect(&x, 0, "");
    x = quiet();
    x.step_bytes = 20e6, x.kept_bytes = NAN;
    expect(&x, 0, "");
}

static void test_samples(void **state)
{
    (void)state;
    struct evidence x = quiet();
    x.interval = 0.11;
    expect(&x, BIT(NOISY), "11 %");
    x = quiet();
    x.spread = 0.26;
    expect(&x, BIT(NOISY), "26 %");
    x.n_samples = 2;
    expect(&x, BIT(NOISY) | BIT(UNDERSAMPLED), "2 samples");
    x.bound_ns = 7e6;
    expect(&x, BIT(NOISY) | BIT(UNDERSAMPLED) | BIT(OVER_BOUND), "bound of 7000000 ns");
    struct judgement j;
    trust_judge(&x, &j);
    assert_string_equal(trust_verdict(j.codes), "over-bound");
}

// Nothing known, nothing claimed.
static void test_unknown(void **state)
{
    (void)state;
    struct evidence x = trust_nothing_known();
    x.n_samples = 7;
    expect(&x, 0, "");
}

static void test_codes_as_text(void **state)
{
    (void)state;
    unsigned codes;
    char text[128];
    struct error e = {0};
    assert_true(trust_codes_parse("noisy,contended", &codes, &e));
    assert_int_equal(codes, BIT(NOISY) | BIT(CONTENDED));
    trust_codes_print(codes, text);
    assert_string_equal(text, "contended noisy");
    assert_string_equal(trust_verdict(codes), "contended");
    assert_true(trust_codes_parse(text, &codes, &e) && codes == (BIT(NOISY) | BIT(CONTENDED)));
    assert_true(trust_codes_parse("", &codes, &e) && !codes);
    assert_false(trust_codes_parse("noisy,loud", &codes, &e));
    assert_error(&e, ERROR_USAGE, "unknown code 'loud', expected some of: failed over-bound");
    trust_codes_print(~0u, text);
    assert_true(trust_codes_parse(text, &codes, &e) && codes == (1u << TRUST_CODE_COUNT) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_held_down), cmocka_unit_test(test_quiet_is_ok), cmocka_unit_test(test_disturbed_runs),
        cmocka_unit_test(test_contention),      cmocka_unit_test(test_steal),       cmocka_unit_test(test_clock),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_samples),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_codes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
