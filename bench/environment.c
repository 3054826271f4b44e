#include "bench/environment.h"

#include "bench/sysfile.h"
#include "engine/base/memory.h"
#include "engine/cpu/cpu.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cblas.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utf8proc.h>

// "Name:  123 kB" in bytes; 0 if absent.
static uint64_t read_kib(const char *path, const char *name)
{
    char text[64];
    return sysfile_field("", path, name, text, sizeof text) ? strtoull(text, NULL, 10) * 1024 : 0;
}

uint64_t environment_memory_total(void)
{
    return read_kib("/proc/meminfo", "MemTotal");
}

uint64_t environment_peak_memory(void)
{
    return read_kib("/proc/self/status", "VmHWM");
}

void environment_cpu_model(char out[96])
{
    if (!sysfile_field("", "/proc/cpuinfo", "model name", out, 96))
        snprintf(out, 96, "unknown CPU");
}

void environment_cpu_vendor(char out[32])
{
    sysfile_field("", "/proc/cpuinfo", "vendor_id", out, 32);
}

int32_t environment_threads(int32_t threads, const char *cpu_list)
{
    struct team *team;
    if (!team_open(&team, threads, cpu_list, NULL))
        return 0;
    int32_t n = team_size(team);
    team_close(team);
    return n;
}

void environment_cpus(const struct team *team, char out[128])
{
    int n = 0;
    out[0] = 0;
    for (int32_t i = 0; i < team_size(team) && n < 100; i++) {
        int32_t first = team_cpu(team, i), last = first;
        if (first < 0)
            continue;
        while (i + 1 < team_size(team) && team_cpu(team, i + 1) == last + 1)
            i++, last++;
        n += snprintf(out + n, 128 - (size_t)n, first == last ? "%s%d" : "%s%d-%d", n ? "," : "", first, last);
    }
}

static uint64_t parse_cache_size(const char *text)
{
    char *unit;
    uint64_t n = strtoull(text, &unit, 10);
    return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
}

// One cache of a CPU: false behind the last. *first: the lowest of the CPUs that share it.
static bool read_cache(int32_t cpu, int32_t index, struct cache *out, int32_t *first)
{
    static const char *const FILES[] = {"size", "type", "level", "shared_cpu_list"};
    char path[128], text[4][64];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, FILES[i]);
        if (!sysfile_line("", path, text[i], sizeof text[i]))
            return false;
    }
    *out = (struct cache){.bytes = strcmp(text[1], "Instruction") ? parse_cache_size(text[0]) : 0};
    snprintf(out->name, sizeof out->name, "L%.4s", text[2]);
    *first = (int32_t)strtol(text[3], NULL, 10);
    return true;
}

int32_t environment_caches(const struct team *team, struct cache out[ENVIRONMENT_CACHES])
{
    int32_t n = 0;
    struct cache cache;
    for (int32_t index = 0, first; index < ENVIRONMENT_CACHES; index++) {
        bool counted[1024] = {0}; // by the lowest CPU that shares it
        out[n] = (struct cache){0};
        for (int32_t i = 0; i < team_size(team); i++) {
            int32_t cpu = team_cpu(team, i);
            if (!read_cache(cpu < 0 ? 0 : cpu, index, &cache, &first))
                return n;
            memcpy(out[n].name, cache.name, sizeof cache.name);
            if (first >= 0 && first < 1024 && !counted[first]) // not pinned: one CPU's cache is all that can be said
                counted[first] = true, out[n].bytes += cache.bytes;
        }
        n += out[n].bytes > 0;
    }
    return n;
}

uint64_t environment_cache_bytes(const struct team *team)
{
    struct cache cache[ENVIRONMENT_CACHES];
    int32_t n = environment_caches(team, cache);
    return n ? cache[n - 1].bytes : 0;
}

// The nodes of the memory that CPUs are near to, "0" or "0-1"; "" where the system does not say.
void environment_numa(const struct team *team, char out[64])
{
    bool used[64] = {0};
    size_t n = 0;
    *out = 0;
    for (int32_t i = 0; i < team_size(team) && team_cpu(team, i) >= 0; i++)
        for (int32_t node = 0; node < 64; node++) {
            char path[96];
            snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%d", node, team_cpu(team, i));
            used[node] |= !access(path, F_OK);
        }
    for (int32_t node = 0; node < 64 && n < 56; node++)
        if (used[node])
            n += (size_t)snprintf(out + n, 64 - n, "%s%d", n ? "," : "", node);
}

static void add_text(cJSON *json, const char *key, const char *text)
{
    cJSON_AddItemToObject(json, key, text && *text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static void add_line_of(cJSON *json, const char *key, const char *path)
{
    char text[512];
    sysfile_line("", path, text, sizeof text);
    add_text(json, key, text);
}

static void add_field_of(cJSON *json, const char *key, const char *path, const char *name)
{
    char text[8192];
    sysfile_field("", path, name, text, sizeof text);
    add_text(json, key, text);
}

static void add_bytes(cJSON *json, const char *key, uint64_t bytes)
{
    cJSON_AddItemToObject(json, key, bytes && bytes != UINT64_MAX ? cJSON_CreateNumber((double)bytes) : cJSON_CreateNull());
}

// cpu.max of the process's own cgroup (version 2), or the quota of version 1: "max 100000", "200000 100000".
static void add_quota(cJSON *json)
{
    char group[512], path[640], quota[128] = "";
    if (sysfile_line("", "/proc/self/cgroup", group, sizeof group) && !strncmp(group, "0::", 3)) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group + 3);
        if (!sysfile_line("", path, quota, sizeof quota))
            sysfile_line("", "/sys/fs/cgroup/cpu.max", quota, sizeof quota);
    } else {
        sysfile_line("", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota);
    }
    add_text(json, "cgroup_cpu_quota", quota);
}

static void add_cpu(cJSON *json, const char *isa, const char *cpus)
{
    add_field_of(json, "cpu", "/proc/cpuinfo", "model name");
    add_field_of(json, "cpu_flags", "/proc/cpuinfo", "flags");
    add_text(json, "isa", isa);
    add_text(json, "isa_best", cpu_isa_best());
    add_text(json, "cpus", cpus);
    cJSON_AddNumberToObject(json, "cpus_online", (double)sysconf(_SC_NPROCESSORS_ONLN));
    add_line_of(json, "numa_nodes", "/sys/devices/system/node/online");
    add_line_of(json, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    add_line_of(json, "transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled");
    add_field_of(json, "huge_pages_total", "/proc/meminfo", "HugePages_Total");
    add_quota(json);
}

static void add_libraries(cJSON *json)
{
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
#ifdef __clang__
    add_text(json, "compiler", __VERSION__);
#else
    add_text(json, "compiler", "GCC " __VERSION__);
#endif
    add_text(json, "openblas", openblas_get_config());
    add_text(json, "openblas_core", openblas_get_corename());
    add_text(json, "OPENBLAS_CORETYPE", getenv("OPENBLAS_CORETYPE"));
    add_text(json, "cjson", cJSON_Version());
    add_text(json, "pcre2", pcre2);
    add_text(json, "utf8proc", utf8proc_version());
}

cJSON *environment_json(const char *isa, const char *cpus)
{
    cJSON *json = cJSON_CreateObject();
    struct utsname u;
    double load[3];
    add_cpu(json, isa, cpus);
    add_text(json, "kernel", uname(&u) ? NULL : u.release);
    add_libraries(json);
    add_bytes(json, "memory_total_bytes", environment_memory_total());
    add_bytes(json, "memory_available_bytes", memory_available(""));
    if (getloadavg(load, 3) == 3)
        cJSON_AddItemToObject(json, "load_average", cJSON_CreateDoubleArray(load, 3));
    return json;
}
