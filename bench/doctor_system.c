// What the doctor looks at next: memory, counters, devices, limits.
#include "bench/doctor_checks.h"
#include "bench/energy.h"
#include "bench/sysfile.h"
#include "engine/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_kib(const char *root, const char *name, uint64_t *bytes)
{
    char text[64];
    bool found = sysfile_field(root, "/proc/meminfo", name, text, sizeof text);
    *bytes = found ? strtoull(text, NULL, 10) * 1024 : 0;
    return found;
}

static int32_t numa_nodes(const char *root)
{
    char text[128];
    int32_t node[64];
    return sysfile_line(root, "/sys/devices/system/node/online", text, sizeof text) ? sysfile_list(text, node, 64) : 0;
}

void doctor_numa(const char *root, struct finding *f)
{
    char cpus[128] = "", mend[160];
    int32_t n = numa_nodes(root);
    sysfile_line(root, "/sys/devices/system/node/node0/cpulist", cpus, sizeof cpus);
    snprintf(mend, sizeof mend, "numactl --membind 0 kvbench ... --cpu-list %.60s", cpus);
    if (!n)
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else
        doctor_find(f, n > 1 ? DOCTOR_BETTER : DOCTOR_OK, n > 1 ? mend : "", "%d node%s", n, n == 1 ? "" : "s");
}

void doctor_balancing(const char *root, struct finding *f)
{
    int64_t on;
    if (!sysfile_number(root, "/proc/sys/kernel/numa_balancing", &on))
        doctor_find(f, DOCTOR_OK, "", "none");
    else if (on && numa_nodes(root) > 1)
        doctor_find(f, DOCTOR_BETTER, "sudo sysctl kernel.numa_balancing=0", "on");
    else
        doctor_find(f, DOCTOR_OK, "", on ? "on, without effect on one node" : "off");
}

void doctor_thp(const char *root, struct finding *f)
{
    char text[64], *begin;
    if (!sysfile_line(root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) ||
        !(begin = strchr(text, '['))) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    begin[strcspn(begin, "]")] = 0; // "always [madvise] never"
    bool never = !strcmp(begin + 1, "never");
    doctor_find(f, never ? DOCTOR_BETTER : DOCTOR_OK,
                never ? "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" : "", "%s", begin + 1);
}

void doctor_memory(const char *root, struct finding *f)
{
    uint64_t total, available;
    char a[24], b[24];
    if (!read_kib(root, "MemTotal", &total) || !read_kib(root, "MemAvailable", &available)) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
        return;
    }
    bool little = available < total / 4;
    doctor_find(f, little ? DOCTOR_BETTER : DOCTOR_OK, little ? "ps -eo pid,rss,comm --sort=-rss | head   # and end it" : "",
                "%s of %s", format_bytes(available, a), format_bytes(total, b));
}

void doctor_limit(const char *root, struct finding *f)
{
    char text[64], limit[24];
    uint64_t total, bytes;
    read_kib(root, "MemTotal", &total);
    bool told = doctor_cgroup_line(root, "memory", "memory.max", "memory.limit_in_bytes", text, sizeof text);
    bytes = told ? strtoull(text, NULL, 10) : 0; // "max"
    if (!bytes || bytes >= total)
        doctor_find(f, DOCTOR_OK, "", "none");
    else
        doctor_find(f, DOCTOR_BETTER,
                    "docker update --memory 0 CONTAINER   # or: systemctl set-property UNIT MemoryMax=infinity", "%s",
                    format_bytes(bytes, limit));
}

void doctor_swap(const char *root, struct finding *f)
{
    uint64_t total, unused;
    char used[24];
    if (!read_kib(root, "SwapTotal", &total) || !read_kib(root, "SwapFree", &unused))
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else if (total > unused)
        doctor_find(f, DOCTOR_BETTER, "sudo swapoff -a", "%s in use", format_bytes(total - unused, used));
    else
        doctor_find(f, DOCTOR_OK, "", total ? "not used" : "none");
}

// "Max address space   unlimited   unlimited   bytes": the soft limit; UINT64_MAX: none.
static bool soft_limit(const char *root, const char *name, uint64_t *out)
{
    char path[600], line[160];
    bool found = false;
    snprintf(path, sizeof path, "%.560s/proc/self/limits", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        found = !strncmp(line, name, strlen(name));
        const char *value = line + strlen(name) + (found ? strspn(line + strlen(name), " ") : 0);
        if (found)
            *out = strncmp(value, "unlimited", 9) ? strtoull(value, NULL, 10) : UINT64_MAX;
    }
    if (file)
        fclose(file);
    return found;
}

void doctor_ulimit(const char *root, struct finding *f)
{
    uint64_t space, files;
    if (!soft_limit(root, "Max address space", &space) || !soft_limit(root, "Max open files", &files))
        doctor_find(f, DOCTOR_UNKNOWN, "", "not told");
    else if (space != UINT64_MAX)
        doctor_find(f, DOCTOR_PREVENTS, "ulimit -v unlimited", "address space limited: large models cannot be mapped");
    else if (files < 256)
        doctor_find(f, DOCTOR_BETTER, "ulimit -n 1024", "%llu open files", (unsigned long long)files);
    else
        doctor_find(f, DOCTOR_OK, "", "address space unlimited, %llu open files", (unsigned long long)files);
}

void doctor_pmu(const char *root, struct finding *f)
{
    bool there = sysfile_exists(root, "/sys/bus/event_source/devices/cpu") ||
                 sysfile_exists(root, "/sys/bus/event_source/devices/cpu_core") ||
                 sysfile_exists(root, "/sys/bus/event_source/devices/armv8_pmuv3_0");
    doctor_find(f, there ? DOCTOR_OK : DOCTOR_PREVENTS,
                there ? "" : "give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or run on the host",
                there ? "there" : "none: cycles, instructions and llc_misses stay empty");
}

// CAP_PERFMON or CAP_SYS_ADMIN.
static bool may_count_all(const char *root)
{
    char text[32];
    if (!sysfile_field(root, "/proc/self/status", "CapEff", text, sizeof text))
        return false;
    return strtoull(text, NULL, 16) & (1ull << 38 | 1ull << 21);
}

void doctor_paranoid(const char *root, struct finding *f)
{
    int64_t level;
    const char *mend = "sudo sysctl kernel.perf_event_paranoid=1";
    if (!sysfile_number(root, "/proc/sys/kernel/perf_event_paranoid", &level))
        doctor_find(f, DOCTOR_PREVENTS, "", "this kernel has no perf events");
    else if (level <= 1 || may_count_all(root))
        doctor_find(f, DOCTOR_OK, "", level <= 1 ? "%lld" : "%lld, but this process may", (long long)level);
    else if (level == 2)
        doctor_find(f, DOCTOR_PREVENTS, mend, "2: user space only, no context switches");
    else
        doctor_find(f, DOCTOR_PREVENTS, mend, "%lld: nothing may be counted", (long long)level);
}

void doctor_schedstat(const char *root, struct finding *f)
{
    bool there = sysfile_exists(root, "/proc/self/schedstat");
    doctor_find(f, there ? DOCTOR_OK : DOCTOR_BETTER, there ? "" : "a kernel with CONFIG_SCHED_INFO",
                there ? "there" : "none: contention shows in clock ticks of 10 ms only");
}

void doctor_rapl(const char *root, struct finding *f)
{
    struct energy x;
    energy_open(&x, root);
    if (x.n_zones)
        doctor_find(f, DOCTOR_OK, "", "%d zone%s", x.n_zones, x.n_zones == 1 ? "" : "s");
    else
        doctor_find(f, DOCTOR_PREVENTS,
                    strstr(x.absent, "root only") ? "sudo chmod a+r /sys/class/powercap/*/energy_uj" : "", "%s", x.absent);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  ...": the first word that begins with a digit and has a dot.
static void driver_version(const char *line, char out[32])
{
    snprintf(out, 32, "unknown");
    for (const char *p = line; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (*p >= '0' && *p <= '9' && memchr(p, '.', n) && n < 32) {
            snprintf(out, 32, "%.*s", (int)n, p);
            return;
        }
        p += n;
    }
}

void doctor_gpu(const char *root, struct finding *f)
{
    char line[256], version[32];
    if (!sysfile_line(root, "/proc/driver/nvidia/version", line, sizeof line)) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "none: no NVIDIA GPU, or its driver is not loaded (lspci | grep -i nvidia)");
        return;
    }
    driver_version(line, version);
    doctor_find(f, DOCTOR_OK, "", "%s", version);
}

void doctor_gpu_access(const char *root, struct finding *f)
{
    char path[600], text[16];
    if (!sysfile_exists(root, "/proc/driver/nvidia/version")) {
        doctor_find(f, DOCTOR_UNKNOWN, "", "no driver");
        return;
    }
    snprintf(path, sizeof path, "%.580s/dev/nvidiactl", root);
    if (access(path, R_OK | W_OK)) {
        doctor_find(f, DOCTOR_PREVENTS,
                    errno == EACCES ? "sudo usermod -aG video $USER" : "nvidia-modprobe   # or: docker run --gpus all",
                    "/dev/nvidiactl: %s", strerror(errno));
        return;
    }
    bool admin =
        sysfile_field(root, "/proc/driver/nvidia/params", "RmProfilingAdminOnly", text, sizeof text) && *text == '1';
    if (admin && !may_count_all(root))
        doctor_find(f, DOCTOR_PREVENTS,
                    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee /etc/modprobe.d/nvidia.conf",
                    "counters for administrators only");
    else
        doctor_find(f, DOCTOR_OK, "", "devices open, counters allowed");
}
