// Measuring a device, on the emulator: everything is measured that cuBLAS multiplies there, and what cannot be counted says
// why. The numbers themselves mean nothing.
#include "bench/device_ceilings.h"
#include "engine/cuda/ceilings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct cuda_ceilings_sizes SMALL = {.bytes = 64 << 10, .side = 32};

static void expect_rate(const struct cuda_rate *r)
{
    assert_int_equal(r->n, 5);
    assert_true(r->best > 0 && isfinite(r->best) && r->median > 0 && r->spread >= 0);
}

static void test_small(void **state)
{
    (void)state;
    struct cuda_ceilings c;
    struct hardware hw;
    struct error e = {0};
    if (!cuda_ceilings_with(0, &SMALL, &c, &e))
        fail_msg("%s", e.message);
    expect_rate(&c.read);
    expect_rate(&c.copy);
    expect_rate(&c.product[DTYPE_BF16]);
    expect_rate(&c.product[DTYPE_F32]);
    expect_rate(&c.product[DTYPE_INT8]);
    expect_rate(&c.product[DTYPE_FP8]);
    expect_rate(&c.launch_ns);
    expect_rate(&c.graph_node_ns);
    assert_true(*c.not_counted && isnan(c.counted_read.dram_bytes) && c.known_bytes == 64 << 10);
    assert_true(c.known_flops == 2.0 * 32 * 32 * 32);
    device_ceilings_hardware(&c, &hw);
    assert_string_equal(hw.title, c.device);
    assert_true(hardware_bandwidth(&hw, ROOF_ATTAINABLE) == c.read.best);
    assert_true(hardware_peak(&hw, ROOF_ATTAINABLE, DTYPE_BF16) == c.product[DTYPE_BF16].best);
}

// Not measured, no failure.
static void test_a_chip_without_fp8(void **state)
{
    (void)state;
    struct cuda_ceilings c;
    struct error e = {0};
    setenv("KVEMU_CHIP", "80", 1);
    bool ok = cuda_ceilings_with(0, &SMALL, &c, &e);
    unsetenv("KVEMU_CHIP");
    if (!ok)
        fail_msg("%s", e.message);
    assert_int_equal(c.product[DTYPE_FP8].n, 0);
    expect_rate(&c.product[DTYPE_INT8]);
}

static void test_no_such_device(void **state)
{
    (void)state;
    struct cuda_ceilings c;
    struct error e = {0};
    assert_false(cuda_ceilings_with(99, &SMALL, &c, &e));
    assert_int_equal(e.kind, ERROR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_a_chip_without_fp8),
                                       cmocka_unit_test(test_no_such_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
