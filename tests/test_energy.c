// Joules from a powercap tree made up for the purpose: which zones count, and counters that wrap around.
#include "bench/energy.h"

#include "tests/tree.h"

#include <math.h>

static char root[64];

static void zone(const char *name, const char *what, const char *uJ, const char *range)
{
    char path[160];
    snprintf(path, sizeof path, "/sys/class/powercap/%s/name", name);
    tree_file(root, path, what);
    snprintf(path, sizeof path, "/sys/class/powercap/%s/energy_uj", name);
    tree_file(root, path, uJ);
    snprintf(path, sizeof path, "/sys/class/powercap/%s/max_energy_range_uj", name);
    tree_file(root, path, range);
}

static int make_root(void **state)
{
    (void)state;
    scratch_make(root);
    zone("intel-rapl:0", "package-0\n", "1000000\n", "65000000\n");
    zone("intel-rapl:0:0", "core\n", "5\n", "65000000\n");
    zone("intel-rapl:0:1", "dram\n", "64000000\n", "65000000\n");
    zone("intel-rapl:1", "psys\n", "7\n", "65000000\n");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    tree_remove(root);
    return 0;
}

static void test_packages_and_memory(void **state)
{
    (void)state;
    struct energy x;
    energy_open(&x, root);
    assert_int_equal(x.n_zones, 2); // cores are part of the package, psys is all of it again
    assert_string_equal(x.absent, "");
    energy_start(&x);
    zone("intel-rapl:0", "package-0\n", "3500000\n", "65000000\n");
    zone("intel-rapl:0:0", "core\n", "900000\n", "65000000\n");
    zone("intel-rapl:0:1", "dram\n", "500000\n", "65000000\n"); // around: 1 J to the end, 0.5 J since
    zone("intel-rapl:1", "psys\n", "60000000\n", "65000000\n");
    assert_true(fabs(energy_stop(&x) - (2.5 + 1.5)) < 1e-9);
}

static void test_a_counter_that_goes_away(void **state)
{
    (void)state;
    struct energy x;
    char path[256];
    energy_open(&x, root);
    energy_start(&x);
    snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:0/energy_uj", root);
    assert_int_equal(unlink(path), 0);
    assert_true(isnan(energy_stop(&x)));
    energy_open(&x, root);
    assert_int_equal(x.n_zones, 1);
}

static void test_none(void **state)
{
    (void)state;
    struct energy x;
    char empty[64];
    scratch_make(empty);
    energy_open(&x, empty);
    assert_int_equal(x.n_zones, 0);
    assert_non_null(strstr(x.absent, "no RAPL"));
    energy_start(&x);
    assert_true(isnan(energy_stop(&x)));
    tree_remove(empty);
}

// NVML made up: two devices, whose energy is in joule[].
static double joule[2];
static int device[2] = {0, 1};
static int init_result;

static int fake_init(void)
{
    return init_result;
}

static int fake_by_index(unsigned index, void **out)
{
    *out = index < 2 ? &device[index] : NULL;
    return index < 2 ? 0 : 6;
}

static int fake_by_uuid(const char *uuid, void **out)
{
    *out = &device[1];
    return strcmp(uuid, "GPU-b") ? 6 : 0;
}

static int fake_energy(void *d, unsigned long long *mJ)
{
    *mJ = (unsigned long long)(1e3 * joule[*(int *)d]);
    return 0;
}

static const char *fake_text(int result)
{
    return result == 6 ? "Not Found" : "Driver Not Loaded";
}

// What its sensors say; negative: they say nothing.
static struct {
    int MHz, mW, C;
    unsigned long long limits;
} sensor;

static int fake_number(int value, unsigned *out)
{
    *out = (unsigned)value;
    return value < 0;
}

static int fake_clock(void *d, int which, unsigned *out)
{
    assert_true(d == &device[0] && which == 1);
    return fake_number(sensor.MHz, out);
}

static int fake_power(void *d, unsigned *out)
{
    (void)d;
    return fake_number(sensor.mW, out);
}

static int fake_temperature(void *d, int which, unsigned *out)
{
    (void)d;
    assert_int_equal(which, 0);
    return fake_number(sensor.C, out);
}

static int fake_reasons(void *d, unsigned long long *out)
{
    (void)d;
    *out = sensor.limits;
    return sensor.MHz < 0;
}

static const struct nvml FAKE = {.init = fake_init,
                                 .device_by_index = fake_by_index,
                                 .device_by_uuid = fake_by_uuid,
                                 .energy_mJ = fake_energy,
                                 .clock_MHz = fake_clock,
                                 .power_mW = fake_power,
                                 .temperature_C = fake_temperature,
                                 .clock_reasons = fake_reasons,
                                 .error_text = fake_text};

static void expect_gpu(int32_t number, const char *visible, int index)
{
    struct energy x;
    energy_use_gpu(&x, &FAKE, number, visible);
    assert_true(energy_told(&x) && x.gpu == &device[index]);
    energy_start(&x);
    joule[index] += 12.5;
    joule[!index] += 99;
    assert_true(energy_stop(&x) == 12.5);
}

static void test_gpu(void **state)
{
    (void)state;
    struct energy x;
    expect_gpu(0, NULL, 0);
    expect_gpu(1, "", 1);
    expect_gpu(0, "1", 1);
    expect_gpu(1, "1,0", 0);
    expect_gpu(1, "0,GPU-b", 1);
    energy_use_gpu(&x, &FAKE, 2, NULL);
    assert_false(energy_told(&x));
    assert_string_equal(x.absent, "NVML: Not Found");
    assert_true(isnan(energy_stop(&x)));
    energy_use_gpu(&x, &FAKE, 1, "0"); // CUDA would see one only
    assert_string_equal(x.absent, "NVML: Not Found");
    init_result = 9;
    energy_use_gpu(&x, &FAKE, 0, NULL);
    assert_string_equal(x.absent, "NVML: Driver Not Loaded");
    init_result = 0;
    energy_open_gpu(&x, "/nonexistent/libnvidia-ml.so.1", 0, NULL);
    assert_non_null(strstr(x.absent, "no NVML"));
    assert_false(energy_told(&x));
}

static void look(struct gpu_state *s, int MHz, int mW, int C, unsigned long long limits)
{
    sensor.MHz = MHz, sensor.mW = mW, sensor.C = C, sensor.limits = limits;
    gpu_state_look(s, &FAKE, &device[0]);
}

static void test_gpu_state(void **state)
{
    (void)state;
    struct gpu_state s;
    char text[128];
    gpu_state_init(&s);
    look(&s, -1, -1, -1, 0x40); // nothing is told
    assert_true(isnan(s.clock_MHz) && isnan(s.power_W) && isnan(s.temperature_C) && !s.limits);
    look(&s, 1980, 650500, 61, 0x1); // idle says nothing of a limit
    look(&s, 1755, 698000, 64, 0x4);
    look(&s, 1900, 640000, 63, 0);
    assert_true(s.clock_MHz == 1755 && s.power_W == 698 && s.temperature_C == 64);
    gpu_limits_print(s.limits, text);
    assert_string_equal(text, "power-cap");
    assert_false(gpu_limits_throttle(s.limits)); // the ceilings were measured under it, too
    look(&s, 1200, 500000, 88, 0x20);
    gpu_limits_print(s.limits, text);
    assert_string_equal(text, "power-cap software-heat");
    assert_true(gpu_limits_throttle(s.limits));
    gpu_limits_print(~0ull, text);
    assert_string_equal(text, "power-cap hardware sync-boost software-heat hardware-heat power-brake");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_packages_and_memory, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_a_counter_that_goes_away, make_root, remove_root),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_gpu_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
