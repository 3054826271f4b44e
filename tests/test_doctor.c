// Findings on machines made up for the purpose: one that is as it should be, and one with everything wrong.
#include "bench/doctor.h"

#include "tests/tree.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    scratch_make(root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    tree_remove(root);
    return 0;
}

static struct diagnosis diagnosis;

static const struct finding *finding_of(const char *subject)
{
    for (int32_t i = 0; i < diagnosis.n; i++)
        if (!strcmp(diagnosis.finding[i].subject, subject))
            return &diagnosis.finding[i];
    fail_msg("no finding '%s'", subject);
    return NULL;
}

static void expect(const char *subject, enum doctor_status status, const char *found, const char *mend)
{
    const struct finding *f = finding_of(subject);
    if (f->status != status || !strstr(f->found, found) || !strstr(f->mend, mend))
        fail_msg("%s: %s '%s' mend '%s'; expected %s '%s' mend '%s'", subject, doctor_status_name(f->status), f->found,
                 f->mend, doctor_status_name(status), found, mend);
    if (status == DOCTOR_OK)
        assert_string_equal(f->mend, "");
}

#define CPU "/sys/devices/system/cpu"

static void test_a_good_machine(void **state)
{
    (void)state;
    tree_file(root, CPU "/online", "0-1\n");
    tree_file(root, CPU "/cpu0/cpufreq/scaling_governor", "performance\n");
    tree_file(root, CPU "/cpu1/cpufreq/scaling_governor", "performance\n");
    tree_file(root, CPU "/cpu0/cpufreq/scaling_max_freq", "3700000\n");
    tree_file(root, CPU "/cpu0/cpufreq/cpuinfo_max_freq", "3700000\n");
    tree_file(root, CPU "/cpufreq/boost", "0\n");
    tree_file(root, CPU "/smt/active", "0\n");
    tree_file(root, "/proc/self/status", "Cpus_allowed_list:\t0-1\nCapEff:\t0000000000000000\n");
    tree_file(root, "/proc/self/schedstat", "1 2 3\n");
    tree_file(root, "/proc/self/cgroup", "0::/user.slice\n");
    tree_file(root, "/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    tree_file(root, "/sys/fs/cgroup/user.slice/memory.max", "max\n");
    tree_file(root, "/proc/loadavg", "0.02 0.01 0.00 1/100 7\n");
    tree_file(root, "/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    tree_file(root, "/proc/stat", "cpu  1000 0 100 5000 0 0 0 1 0 0\n");
    tree_file(root, "/proc/cpuinfo", "flags\t\t: fpu vme avx2\n");
    tree_file(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    tree_file(root, "/sys/devices/system/node/online", "0\n");
    tree_file(root, "/proc/sys/kernel/numa_balancing", "1\n");
    tree_file(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree_file(root, "/proc/meminfo",
              "MemTotal: 16777216 kB\nMemAvailable: 15728640 kB\nSwapTotal: 1024 kB\nSwapFree: 1024 kB\n");
    tree_file(root, "/proc/self/limits",
              "Max open files            1024                 4096                 files\n"
              "Max address space         unlimited            unlimited            bytes\n");
    tree_file(root, "/sys/bus/event_source/devices/cpu/type", "4\n");
    tree_file(root, "/proc/sys/kernel/perf_event_paranoid", "1\n");
    tree_file(root, "/sys/class/powercap/intel-rapl:0/name", "package-0\n");
    tree_file(root, "/sys/class/powercap/intel-rapl:0/energy_uj", "5\n");
    tree_file(root, "/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "5000\n");
    tree_file(root, "/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2025\nGCC version: 12\n");
    tree_file(root, "/proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
    tree_file(root, "/dev/nvidiactl", "");
    doctor_examine(&diagnosis, root);
    for (int32_t i = 0; i < diagnosis.n; i++)
        expect(diagnosis.finding[i].subject, DOCTOR_OK, "", "");
    expect("NVIDIA driver", DOCTOR_OK, "570.86.15", "");
    expect("memory available", DOCTOR_OK, "15.00 GiB of 16.00 GiB", "");
}

static void test_a_bad_machine(void **state)
{
    (void)state;
    tree_file(root, CPU "/online", "0-3\n");
    tree_file(root, CPU "/cpu0/cpufreq/scaling_governor", "performance\n");
    tree_file(root, CPU "/cpu2/cpufreq/scaling_governor", "powersave\n");
    tree_file(root, CPU "/cpu0/cpufreq/scaling_max_freq", "1200000\n");
    tree_file(root, CPU "/cpu0/cpufreq/cpuinfo_max_freq", "3700000\n");
    tree_file(root, CPU "/intel_pstate/no_turbo", "0\n");
    tree_file(root, CPU "/smt/active", "1\n");
    for (int i = 0; i < 4; i++) {
        char path[96];
        snprintf(path, sizeof path, CPU "/cpu%d/topology/thread_siblings_list", i);
        tree_file(root, path, i & 1 ? "1,3\n" : "0,2\n");
    }
    tree_file(root, "/proc/self/status", "Cpus_allowed_list:\t1\nCapEff:\t0000000000000000\n");
    tree_file(root, "/proc/self/cgroup", "4:memory:/\n");
    tree_file(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    tree_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
    tree_file(root, "/proc/loadavg", "3.50 1 1 1/100 7\n");
    tree_file(root, "/proc/stat", "cpu  900 0 0 5000 0 0 0 100 0 0\n");
    tree_file(root, "/proc/cpuinfo", "flags\t\t: fpu hypervisor avx2\n");
    tree_file(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    tree_file(root, "/sys/devices/system/node/online", "0-1\n");
    tree_file(root, "/sys/devices/system/node/node0/cpulist", "0-1\n");
    tree_file(root, "/proc/sys/kernel/numa_balancing", "1\n");
    tree_file(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    tree_file(root, "/proc/meminfo",
              "MemTotal: 16777216 kB\nMemAvailable: 1048576 kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n");
    tree_file(root, "/proc/self/limits",
              "Max open files            1024                 4096                 files\n"
              "Max address space         8000000              unlimited            bytes\n");
    tree_file(root, "/proc/sys/kernel/perf_event_paranoid", "4\n");
    tree_file(root, "/proc/driver/nvidia/version", "NVRM version: none\n");
    doctor_examine(&diagnosis, root);
    expect("CPU governor", DOCTOR_BETTER, "powersave on 1 CPUs", "cpupower frequency-set -g performance");
    expect("CPU frequency limit", DOCTOR_BETTER, "limited to 1200 of 3700 MHz", "cpupower frequency-set -u");
    expect("turbo", DOCTOR_BETTER, "on", "intel_pstate/no_turbo");
    expect("SMT", DOCTOR_BETTER, "on", "--cpu-list 0,1");
    expect("CPUs allowed", DOCTOR_BETTER, "1: 1 of 4", "taskset");
    expect("CPU quota", DOCTOR_BETTER, "1.5 CPUs", "--cpus 0");
    expect("other load", DOCTOR_BETTER, "load 3.50", "ps ");
    expect("steal time", DOCTOR_BETTER, "10.00 %", "dedicated");
    expect("virtualization", DOCTOR_BETTER, "virtual machine", "");
    expect("clock source", DOCTOR_BETTER, "hpet", "echo tsc");
    expect("NUMA", DOCTOR_BETTER, "2 nodes", "numactl --membind 0 kvbench ... --cpu-list 0-1");
    expect("NUMA balancing", DOCTOR_BETTER, "on", "sysctl kernel.numa_balancing=0");
    expect("transparent huge pages", DOCTOR_BETTER, "never", "echo madvise");
    expect("memory available", DOCTOR_BETTER, "1.00 GiB of 16.00 GiB", "ps ");
    expect("memory limit", DOCTOR_BETTER, "4.00 GiB", "--memory 0");
    expect("swap", DOCTOR_BETTER, "3.00 MiB in use", "swapoff");
    expect("ulimits", DOCTOR_PREVENTS, "address space", "ulimit -v unlimited");
    expect("hardware counters", DOCTOR_PREVENTS, "none", "pmu=on");
    expect("perf_event_paranoid", DOCTOR_PREVENTS, "4: nothing", "perf_event_paranoid=1");
    expect("scheduler statistics", DOCTOR_BETTER, "none", "CONFIG_SCHED_INFO");
    expect("RAPL", DOCTOR_PREVENTS, "no RAPL", "");
    expect("NVIDIA driver", DOCTOR_OK, "unknown", "");
    expect("NVIDIA permissions", DOCTOR_PREVENTS, "/dev/nvidiactl", "nvidia-modprobe");
}

// Root may count where others may not.
static void test_capabilities(void **state)
{
    (void)state;
    tree_file(root, "/proc/sys/kernel/perf_event_paranoid", "2\n");
    tree_file(root, "/proc/self/status", "CapEff:\t0000000000000000\n");
    doctor_examine(&diagnosis, root);
    expect("perf_event_paranoid", DOCTOR_PREVENTS, "2: user space only", "sysctl");
    tree_file(root, "/proc/self/status", "CapEff:\t0000004000000000\n"); // CAP_PERFMON
    doctor_examine(&diagnosis, root);
    expect("perf_event_paranoid", DOCTOR_OK, "2, but this process may", "");
}

// Of a system that says nothing nothing is claimed; each finding is one line of JSON data.
static void test_nothing_known(void **state)
{
    (void)state;
    doctor_examine(&diagnosis, root);
    for (int32_t i = 0; i < diagnosis.n; i++)
        assert_true(*diagnosis.finding[i].found && *diagnosis.finding[i].why);
    expect("CPU governor", DOCTOR_UNKNOWN, "", "");
    expect("memory available", DOCTOR_UNKNOWN, "", "");
    cJSON *json = doctor_json(&diagnosis);
    assert_int_equal(cJSON_GetArraySize(json), diagnosis.n);
    assert_string_equal(cJSON_GetObjectItem(json->child, "status")->valuestring, "unknown");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json->child, "mend")));
    cJSON_Delete(json);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_TREE(test_a_good_machine),
        ON_TREE(test_a_bad_machine),
        ON_TREE(test_capabilities),
        ON_TREE(test_nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
