// Facts of the machine a measurement was taken on, as the record of a sweep keeps them. What is not known here is null.
#ifndef BENCH_ENVIRONMENT_H
#define BENCH_ENVIRONMENT_H

#include "engine/base/json.h"
#include "engine/cpu/team.h"

// CPU model and flags, NUMA, cgroup quota, governor, huge pages, kernel, compiler, libraries, memory, load. The caller frees
// it. `isa`: the kernel set in use, or NULL; `cpus`: those the threads are pinned to (environment_cpus), or NULL.
cJSON *environment_json(const char *isa, const char *cpus);

void environment_cpu_model(char out[96]); // "AMD EPYC 9654 96-Core Processor", or "unknown CPU"
void environment_cpu_vendor(char out[32]);

// Members of a team that is opened so; 0 if none can be.
int32_t environment_threads(int32_t threads, const char *cpu_list);

// The CPUs a team's members are pinned to: "0-3,8", or "" where they are not pinned.
void environment_cpus(const struct team *team, char out[128]);

// Memory nodes of those CPUs: "0", "0,1"; "" where the system does not say.
void environment_numa(const struct team *team, char out[64]);

// A cache as the system describes it (Linux: from CPUID), of all CPUs of a team together.
struct cache {
    char name[8]; // "L2"
    uint64_t bytes;
};
enum { ENVIRONMENT_CACHES = 8 };
// Data caches of a team, the innermost first, each shared one counted once. Returns how many.
int32_t environment_caches(const struct team *team, struct cache out[ENVIRONMENT_CACHES]);

// Bytes of the last-level caches that these members share, each counted once; 0: unknown.
uint64_t environment_cache_bytes(const struct team *team);

uint64_t environment_memory_total(void);
uint64_t environment_peak_memory(void); // VmHWM of this process

#endif
