// Memory limits read from a folder that stands for /.
#include "engine/base/memory.h"
#include "tests/tree.h"

#include <errno.h>
#include <sys/resource.h>

static char root[] = "/tmp/kvbench_memory_XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tree_remove(root);
    return 0;
}

static void test_unknown(void **state)
{
    (void)state;
    assert_true(memory_available(root) == UINT64_MAX);
}

static void test_the_least_of_kernel_and_cgroup(void **state)
{
    (void)state;
    tree_file(root, "/proc/meminfo", "MemTotal:       8000 kB\nMemFree:  10 kB\nMemAvailable:    6000 kB\n");
    assert_int_equal(memory_available(root), 6000 * 1024);
    tree_file(root, "/proc/self/cgroup", "0::/a/b\n");
    tree_file(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    tree_file(root, "/sys/fs/cgroup/a/b/memory.current", "500000\n");
    assert_int_equal(memory_available(root), 6000 * 1024);
    tree_file(root, "/sys/fs/cgroup/a/memory.max", "2000000\n"); // the ancestor's limit binds
    tree_file(root, "/sys/fs/cgroup/a/memory.current", "1500000\n");
    assert_int_equal(memory_available(root), 500000);
    tree_file(root, "/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 300000\nactive_file 1\n");
    assert_int_equal(memory_available(root), 800000);
    tree_file(root, "/sys/fs/cgroup/a/b/memory.max", "400000\n"); // already above its limit
    assert_int_equal(memory_available(root), 0);
}

static void test_cgroup_version_1(void **state)
{
    (void)state;
    tree_file(root, "/proc/self/cgroup", "11:cpu,cpuacct:/x\n4:memory:/docker/7\n");
    tree_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
    tree_file(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    assert_int_equal(memory_available(root), 2000000);
}

static void test_this_machine(void **state)
{
    (void)state;
    uint64_t bytes = memory_available("");
    assert_true(bytes > 1 << 20);
}

static void test_a_limited_address_space_counts(void **state)
{
    (void)state;
    struct rlimit before, limit;
    assert_return_code(getrlimit(RLIMIT_AS, &before), errno);
    limit = (struct rlimit){(rlim_t)1 << 40, before.rlim_max}; // 1 TiB: less than nothing else says on this machine
    if (getenv("KVBENCH_SANITIZED") || limit.rlim_cur > limit.rlim_max)
        skip(); // the sanitizers' shadow is larger
    assert_return_code(setrlimit(RLIMIT_AS, &limit), errno);
    assert_true(memory_available("") < (uint64_t)1 << 40);
    limit.rlim_cur = (rlim_t)1 << 20; // less than the process has: nothing is left
    assert_return_code(setrlimit(RLIMIT_AS, &limit), errno);
    uint64_t left = memory_available("");
    assert_return_code(setrlimit(RLIMIT_AS, &before), errno);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_the_least_of_kernel_and_cgroup),
        cmocka_unit_test(test_cgroup_version_1),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_a_limited_address_space_counts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
