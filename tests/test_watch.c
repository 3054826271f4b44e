// What the system is said to have done, from a /proc and /sys made up for the purpose; and that the real one is understood.
#include "bench/sysfile.h"
#include "bench/watch.h"

#include "tests/tree.h"

#include <math.h>
#include <time.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    scratch_make(root);
    tree_file(root, "/proc/self/task/71/status", "Name:\tx\nCpus_allowed_list:\t0-1\n");
    tree_file(root, "/proc/self/task/72/status", "Name:\tx\nCpus_allowed_list:\t1\n");
    tree_file(root, "/proc/self/task/73/status", "Name:\tidler\nCpus_allowed_list:\t0-1\n"); // not pinned: not watched
    tree_file(root, "/proc/self/task/73/schedstat", "0 0 0\n");
    tree_file(root, "/proc/self/task/71/schedstat", "900 1000000 5\n");
    tree_file(root, "/proc/self/task/72/schedstat", "900 4000000 5\n");
    // The sum of all, then: user nice system idle iowait irq softirq steal
    tree_file(root, "/proc/stat",
              "cpu 1 1 1 1 1 1 1 1 0 0\ncpu0 70 10 5 900 1 5 0 10 0 0\ncpu1 80 0 10 800 0 0 0 10 0 0\n"
              "cpu2 5000 0 0 0 0 0 0 0 0 0\nintr 5\n");
    tree_file(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
    tree_file(root, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    tree_remove(root);
    return 0;
}

static void pass_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void test_a_disturbed_block(void **state)
{
    (void)state;
    struct watch w;
    struct disturbance d = {0};
    struct error e = {0};
    assert_true(watch_open(&w, root, "0-1", &e));
    assert_int_equal(w.n_threads, 2);
    assert_true(fabs(w.usual_steal - 20.0 / (90 + 90 + 20)) < 1e-12);
    watch_begin(&w, &d);
    pass_ms(20);
    tree_file(root, "/proc/self/task/71/schedstat", "900 3000000 5\n");
    tree_file(root, "/proc/self/task/72/schedstat", "900 11000000 5\n");
    tree_file(root, "/proc/self/task/73/schedstat", "0 99000000 0\n");
    tree_file(root, "/proc/stat",
              "cpu 1 1 1 1 1 1 1 1 0 0\ncpu0 170 10 5 900 1 5 0 13 0 0\ncpu1 80 0 10 800 0 0 0 12 0 0\n"
              "cpu2 9000 0 0 0 0 0 0 9 0 0\n");
    tree_file(root, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1000000\n");
    watch_end(&w, &d);
    assert_true(d.wall_ns >= 20000000);
    assert_int_equal(d.waited_ns, 7000000); // the worst thread
    assert_int_equal(d.steal_ns, 5 * 10000000);
    assert_true(d.other_cpu_ns <= 1000000000 && d.other_cpu_ns > 900000000); // 100 ticks less our own CPU time
    assert_true(d.first_kHz == 2500000 && d.last_kHz == 2000000);
    assert_false(d.affinity_changed);
    assert_true(disturbance_waited(&d) <= 0.35 && disturbance_steal(&d, 2) > 0);

    watch_begin(&w, &d); // another block adds
    tree_file(root, "/proc/self/task/71/schedstat", "900 13000000 5\n");
    tree_file(root, "/proc/self/task/72/status", "Name:\tx\nCpus_allowed_list:\t0\n");
    watch_end(&w, &d);
    assert_int_equal(d.waited_ns, 17000000);
    assert_true(d.affinity_changed);
    watch_close(&w);
}

static void test_nothing_told(void **state)
{
    (void)state;
    struct watch w;
    struct disturbance d = {0};
    char empty[64];
    struct error e = {0};
    scratch_make(empty);
    assert_true(watch_open(&w, empty, "", &e));
    watch_begin(&w, &d);
    watch_end(&w, &d);
    assert_true(isnan(disturbance_waited(&d)) && isnan(disturbance_other(&d, 1)) && isnan(disturbance_steal(&d, 1)));
    assert_false(d.affinity_changed);
    watch_close(&w);
    tree_remove(empty);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct watch w;
    struct disturbance d = {0};
    struct error e = {0};
    assert_true(watch_open(&w, "", "", &e));
    assert_int_equal(w.n_threads, 1);
    assert_true(strlen(w.thread[0].cpus) > 0);
    watch_begin(&w, &d);
    pass_ms(1);
    watch_end(&w, &d);
    assert_true(d.wall_ns >= 1000000 && !d.affinity_changed);
    watch_close(&w);
}

static void test_lists(void **state)
{
    (void)state;
    int32_t cpu[8];
    assert_int_equal(sysfile_list("0-2,5,7-8", cpu, 8), 6);
    assert_true(cpu[0] == 0 && cpu[2] == 2 && cpu[3] == 5 && cpu[4] == 7 && cpu[5] == 8);
    assert_int_equal(sysfile_list("", cpu, 8), 0);
    assert_int_equal(sysfile_list("0-99", cpu, 8), 8);
    assert_int_equal(sysfile_list("3", cpu, 8), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_disturbed_block, make_root, remove_root),
        cmocka_unit_test(test_nothing_told),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
