// The probes report rates of the right kind; how fast is not a test's matter.
#include "engine/base/units.h"
#include "engine/cpu/probe.h"
#include "tests/cpu_isas.h"

#include <stdlib.h>
#include <string.h>

static void test_reading_reports_a_rate(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 3; threads++)
        for (int huge = 0; huge <= 1; huge++) {
            struct team *team;
            struct probe_buffer *b;
            struct error e;
            assert_true(team_open(&team, threads, NULL, &e));
            assert_true(probe_buffer_open(&b, team, 3000001, huge, &e));
            for (int32_t streams = 1; streams <= 8; streams *= 2) {
                assert_true(probe_read(b, team, 0, streams) > 1e6);
                assert_true(probe_read(b, team, 1 << 20, streams) > 1e6);
                assert_true(probe_read(b, team, UINT64_MAX, streams) > 1e6); // more than there is: all of it
            }
            probe_buffer_close(b);
            team_close(team);
        }
    probe_buffer_close(NULL);
}

static void test_too_large_a_buffer_is_refused(void **state)
{
    (void)state;
    struct team *team;
    struct probe_buffer *b;
    struct error e;
    assert_true(team_open(&team, 1, NULL, &e));
    assert_false(probe_buffer_open(&b, team, (uint64_t)1 << 50, true, &e));
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_null(b);
    team_close(team);
}

static void test_arithmetic_reports_a_rate(void **state)
{
    (void)state;
    struct team *team;
    struct error e;
    assert_true(team_open(&team, 2, NULL, &e));
    assert_true(probe_flops(team, DTYPE_F32, 2000000) > 1e6);
    double bf16 = probe_flops(team, DTYPE_BF16, 2000000), int8 = probe_flops(team, DTYPE_INT8, 2000000);
    assert_int_equal(bf16 > 0, isa_runs(ISA_AVX512) && __builtin_cpu_supports("avx512bf16"));
    assert_int_equal(int8 > 0, isa_runs(1));
    assert_true(probe_flops(team, DTYPE_Q4_0, 2000000) == 0);
    team_close(team);
}

// A loop that a compiler had folded away would take no time, and one twice as long no longer.
static void test_arithmetic_takes_time(void **state)
{
    (void)state;
    static const enum dtype type[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (int i = 0; i < N_ISAS; i++)
        for (int t = 0; isa_runs(i) && t < 3; t++) {
            double (*flops)(int64_t) = ISA_TABLE[i]->flops[type[t]];
            if (!flops || flops(1) == 0)
                continue;
            assert_true(flops(2000) == 2000 * flops(1));
            int64_t begin = clock_ns();
            double done = flops(200000);
            double ns = (double)(clock_ns() - begin);
            assert_true(done / ns < 8192); // FLOP/ns of one core: beyond any of today
        }
}

static void test_streams_read_every_byte_asked_for(void **state)
{
    (void)state;
    enum { BYTES = 8192 };
    uint8_t *p = aligned_alloc(64, BYTES); // under the address sanitizer a byte more is an error
    memset(p, 1, BYTES);
    for (int i = 0; i < N_ISAS; i++)
        for (int32_t streams = 1; isa_runs(i) && streams <= 8; streams *= 2)
            ISA_TABLE[i]->stream(p, BYTES, streams);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_reports_a_rate),
        cmocka_unit_test(test_too_large_a_buffer_is_refused),
        cmocka_unit_test(test_arithmetic_reports_a_rate),
        cmocka_unit_test(test_arithmetic_takes_time),
        cmocka_unit_test(test_streams_read_every_byte_asked_for),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
