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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_packages_and_memory, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_a_counter_that_goes_away, make_root, remove_root),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
