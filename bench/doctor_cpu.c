// What the doctor looks at first: clocks, CPUs and who else uses them.
#include "bench/doctor_checks.h"
#include "bench/sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU "/sys/devices/system/cpu"
enum { CPUS_MAX = 1024 };

static int32_t online_cpus(const char *root, int32_t *cpu)
{
    char text[512];
    return sysfile_line(root, CPU "/online", text, sizeof text) ? sysfile_list(text, cpu, CPUS_MAX) : 0;
}

// How many CPUs have another governor than "performance", and one of those.
static int32_t slow_governors(const char *root, char out[32], bool *any)
{
    int32_t cpu[CPUS_MAX], n = online_cpus(root, cpu), slow = 0;
    for (int32_t i = 0; i < n; i++) {
        char path[96], text[32];
        snprintf(path, sizeof path, CPU "/cpu%d/cpufreq/scaling_governor", cpu[i]);
        if (!sysfile_line(root, path, text, sizeof text))
            continue;
        *any = true;
        if (strcmp(text, "performance") && ++slow)
            snprintf(out, 32, "%.31s", text);
    }
    return slow;
}

void doctor_governor(const char *root, struct finding *f)
{
    char name[32] = "";
    bool any = false;
    int32_t slow = slow_governors(root, name, &any);
    if (!any)
        doctor_find(f, DOCTOR_UNKNOWN, "", "this system does not control the clock (usual in virtual machines)");
    else if (slow)
        doctor_find(f, DOCTOR_BETTER, "sudo cpupower frequency-set -g performance", "%s on %d CPUs", name, slow);
    else
        doctor_find(f, DOCTOR_OK, "", "performance");
}

void doctor_frequency(const char *root, struct finding *f)
{
    int64_t allowed, most;
    if (!sysfile_number(root, CPU "/cpu0/cpufreq/scaling_max_freq", &allowed) ||
        !sysfile_number(root, CPU "/cpu0/cpufreq/cpuinfo_max_freq", &most))
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else if (allowed < most)
        doctor_find(f, DOCTOR_BETTER, "sudo cpupower frequency-set -u $(cat " CPU "/cpu0/cpufreq/cpuinfo_max_freq)",
                    "limited to %lld of %lld MHz", (long long)allowed / 1000, (long long)most / 1000);
    else
        doctor_find(f, DOCTOR_OK, "", "%lld MHz", (long long)most / 1000);
}

void doctor_turbo(const char *root, struct finding *f)
{
    int64_t off, boost;
    if (sysfile_number(root, CPU "/intel_pstate/no_turbo", &off))
        doctor_find(f, off ? DOCTOR_OK : DOCTOR_BETTER, off ? "" : "echo 1 | sudo tee " CPU "/intel_pstate/no_turbo",
                    off ? "off" : "on: best for speed, not for comparing");
    else if (sysfile_number(root, CPU "/cpufreq/boost", &boost))
        doctor_find(f, boost ? DOCTOR_BETTER : DOCTOR_OK, boost ? "echo 0 | sudo tee " CPU "/cpufreq/boost" : "",
                    boost ? "on: best for speed, not for comparing" : "off");
    else
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
}

// The first CPU of each core: "0,2,4", or "" if they do not fit.
static void one_per_core(const char *root, char *out, size_t size)
{
    int32_t cpu[CPUS_MAX], n = online_cpus(root, cpu);
    size_t used = 0;
    *out = 0;
    for (int32_t i = 0; i < n; i++) {
        char path[96], text[64];
        int32_t first;
        snprintf(path, sizeof path, CPU "/cpu%d/topology/thread_siblings_list", cpu[i]);
        if (!sysfile_line(root, path, text, sizeof text) || !sysfile_list(text, &first, 1) || first != cpu[i])
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%d", used ? "," : "", cpu[i]);
        if (used >= size) {
            *out = 0;
            return;
        }
    }
}

void doctor_smt(const char *root, struct finding *f)
{
    int64_t active;
    char cores[96], mend[160];
    if (!sysfile_number(root, CPU "/smt/active", &active)) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    one_per_core(root, cores, sizeof cores);
    if (*cores)
        snprintf(mend, sizeof mend, "kvbench ... --cpu-list %s", cores);
    else
        snprintf(mend, sizeof mend, "echo off | sudo tee " CPU "/smt/control");
    doctor_find(f, active ? DOCTOR_BETTER : DOCTOR_OK, active ? mend : "", active ? "on" : "off");
}

void doctor_cpuset(const char *root, struct finding *f)
{
    int32_t cpu[CPUS_MAX], n = online_cpus(root, cpu);
    char text[512];
    int32_t allowed = sysfile_field(root, "/proc/self/status", "Cpus_allowed_list", text, sizeof text)
                          ? sysfile_list(text, cpu, CPUS_MAX)
                          : 0;
    if (!n || !allowed)
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else if (allowed < n)
        doctor_find(f, DOCTOR_BETTER, "taskset -cp 0-$(($(nproc --all) - 1)) $$   # or the container's --cpuset-cpus",
                    "%.60s: %d of %d", text, allowed, n);
    else
        doctor_find(f, DOCTOR_OK, "", "all %d: %.60s", n, text);
}

bool doctor_cgroup_line(const char *root, const char *controller1, const char *name2, const char *name1, char *out, int size)
{
    char group[512], path[640];
    if (sysfile_line(root, "/proc/self/cgroup", group, sizeof group) && !strncmp(group, "0::", 3)) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group + 3, name2);
        if (sysfile_line(root, path, out, size))
            return true;
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", name2);
    if (sysfile_line(root, path, out, size))
        return true;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", controller1, name1);
    return sysfile_line(root, path, out, size);
}

void doctor_quota(const char *root, struct finding *f)
{
    char text[64];
    long long quota = -1, period = 100000;
    if (!doctor_cgroup_line(root, "cpu", "cpu.max", "cpu.cfs_quota_us", text, sizeof text)) {
        doctor_find(f, DOCTOR_OK, "", "none");
        return;
    }
    if (sscanf(text, "%lld %lld", &quota, &period) < 1 || quota <= 0) // "max 100000", "-1"
        doctor_find(f, DOCTOR_OK, "", "none");
    else
        doctor_find(f, DOCTOR_BETTER,
                    "docker update --cpus 0 CONTAINER   # or: systemctl set-property UNIT CPUQuota=", "%.1f CPUs",
                    (double)quota / (double)(period > 0 ? period : 100000));
}

void doctor_load(const char *root, struct finding *f)
{
    char text[128];
    double load, pressure = 0;
    if (!sysfile_line(root, "/proc/loadavg", text, sizeof text) || sscanf(text, "%lf", &load) != 1) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    bool told =
        sysfile_line(root, "/proc/pressure/cpu", text, sizeof text) && sscanf(text, "some avg10=%lf", &pressure) == 1;
    bool busy = load > 0.5 || pressure > 1;
    if (told)
        doctor_find(f, busy ? DOCTOR_BETTER : DOCTOR_OK,
                    busy ? "ps -eo pid,pcpu,rss,comm --sort=-pcpu | head   # and end it" : "",
                    "load %.2f, someone waits for a CPU %.0f %% of the time", load, pressure);
    else
        doctor_find(f, busy ? DOCTOR_BETTER : DOCTOR_OK,
                    busy ? "ps -eo pid,pcpu,rss,comm --sort=-pcpu | head   # and end it" : "", "load %.2f", load);
}

void doctor_steal(const char *root, struct finding *f)
{
    char text[256];
    long long v[8] = {0};
    if (!sysfile_line(root, "/proc/stat", text, sizeof text) ||
        sscanf(text, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) <
            8) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    double busy = (double)(v[0] + v[1] + v[2] + v[5] + v[6]), wanted = busy + (double)v[7];
    double share = wanted > 0 ? (double)v[7] / wanted : 0;
    doctor_find(f, share > 0.01 ? DOCTOR_BETTER : DOCTOR_OK,
                share > 0.01 ? "ask for a dedicated host or CPUs; the verdicts count only what exceeds the usual" : "",
                "%.2f %% of the CPU time since it started", 100 * share);
}

void doctor_virtual(const char *root, struct finding *f)
{
    char flags[8192];
    if (!sysfile_field(root, "/proc/cpuinfo", "flags", flags, sizeof flags))
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else if (strstr(flags, " hypervisor"))
        doctor_find(f, DOCTOR_BETTER, "run on the host, or on a dedicated machine", "a virtual machine");
    else
        doctor_find(f, DOCTOR_OK, "", "none");
}

void doctor_clocksource(const char *root, struct finding *f)
{
    char text[64];
    if (!sysfile_line(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", text, sizeof text)) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    bool fast = !strcmp(text, "tsc") || !strcmp(text, "kvm-clock") || !strcmp(text, "arch_sys_counter");
    doctor_find(f, fast ? DOCTOR_OK : DOCTOR_BETTER,
                fast ? "" : "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource", "%s",
                text);
}
