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

static void test_windows_report_a_rate(void **state)
{
    (void)state;
    static const struct probe_loop LOOP[] = {{.action = PROBE_READ, .streams = 4},
                                             {.action = PROBE_COPY},
                                             {.action = PROBE_COPY, .past_cache = true},
                                             {.action = PROBE_TRIAD},
                                             {.action = PROBE_MEMCPY}};
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct team *team;
        struct probe_buffer *b;
        struct error e;
        assert_true(team_open(&team, threads, NULL, &e));
        assert_true(probe_buffer_open(&b, team, 3000001, true, &e));
        for (size_t i = 0; i < sizeof LOOP / sizeof *LOOP; i++)
            for (uint64_t set = 1; set < (16 << 20); set *= 37) // from less than there can be to more than there is
                assert_true(probe_window(b, team, LOOP[i], set, 100000) > 1e6);
        probe_buffer_close(b);
        assert_true(probe_fork_join(team, 10) > 0 && probe_barrier(team, 10) > 0);
        team_close(team);
    }
}

static void test_arithmetic_reports_a_rate(void **state)
{
    (void)state;
    struct team *team;
    struct error e;
    assert_true(team_open(&team, 2, NULL, &e));
    int32_t n = 0, of_bf16 = 0;
    for (const struct probe_arithmetic *a; (a = probe_arithmetic(n)); n++) {
        assert_true(probe_flops(team, a, 300000) > 1e6);
        of_bf16 += a->type == DTYPE_BF16;
    }
    assert_true(n >= 1 && !probe_arithmetic(n + 1));
    assert_int_equal(of_bf16 > 0, __builtin_cpu_supports("avx512bf16") != 0);
    assert_int_equal(probe_arithmetic_of(DTYPE_INT8) != NULL, __builtin_cpu_supports("avx2") != 0);
    assert_null(probe_arithmetic_of(DTYPE_Q4_0));
    assert_true(probe_flops(team, NULL, 300000) == 0);
    team_close(team);
}

// FLOPs by hand: 13 sums, a multiply-add is 2, four lanes of 32 bits in 128.
static void test_arithmetic_counts(void **state)
{
    (void)state;
    for (int32_t i = 0; probe_arithmetic(i); i++) {
        const struct probe_arithmetic *a = probe_arithmetic(i);
        int32_t per_lane = a->type == DTYPE_F32 ? 1 : a->type == DTYPE_BF16 ? 2 : 4;
        assert_true(probe_arithmetic_run(a, 10) == 10.0 * 13 * 2 * per_lane * 4 * (a->bits / 128));
        int64_t begin = clock_ns();
        double done = probe_arithmetic_run(a, 200000);
        assert_true(done / (double)(clock_ns() - begin) <
                    16384); // FLOP/ns of one core: a loop folded away, or none of today
    }
}

// What is moved is what was there: copies and triads against the formula, to the last value and no further.
static void test_moves_write_what_they_should(void **state)
{
    (void)state;
    enum { N = 256 };
    float *to = aligned_alloc(64, 3 * N * sizeof *to), *a = to + N, *b = a + N;
    for (int i = 0; i < N_ISAS; i++)
        for (int variant = 0; isa_runs(i) && variant < 4; variant++) {
            for (int k = 0; k < N; k++)
                to[k] = -1, a[k] = (float)k, b[k] = (float)(2 * k + 1);
            ISA_TABLE[i]->move(to, a, variant & 1 ? b : NULL, N / 2, variant & 2);
            for (int k = 0; k < N; k++)
                assert_true(to[k] == (k >= N / 2 ? -1 : variant & 1 ? (float)k + 0.5f * (float)(2 * k + 1) : (float)k));
        }
    free(to);
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
        cmocka_unit_test(test_windows_report_a_rate),
        cmocka_unit_test(test_arithmetic_counts),
        cmocka_unit_test(test_moves_write_what_they_should),
        cmocka_unit_test(test_streams_read_every_byte_asked_for),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
