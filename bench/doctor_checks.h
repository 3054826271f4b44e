// The checks of bench/doctor.c: each fills found, status and mend of its finding.
#ifndef BENCH_DOCTOR_CHECKS_H
#define BENCH_DOCTOR_CHECKS_H

#include "bench/doctor.h"

// function, subject, why it matters
#define DOCTOR_CHECKS(X)                                                                                                    \
    X(doctor_governor, "CPU governor", "an idle clock is low, and rises late")                                              \
    X(doctor_frequency, "CPU frequency limit", "a limited clock lowers every ceiling")                                      \
    X(doctor_turbo, "turbo", "the clock then depends on heat and on neighbours")                                            \
    X(doctor_smt, "SMT", "two threads share one core's units")                                                              \
    X(doctor_cpuset, "CPUs allowed", "threads beyond them would share CPUs")                                                \
    X(doctor_quota, "CPU quota", "a used-up quota stops all threads for a while")                                           \
    X(doctor_load, "other load", "it takes CPUs, caches and bandwidth")                                                     \
    X(doctor_steal, "steal time", "the hypervisor gives CPUs to others")                                                    \
    X(doctor_virtual, "virtualization", "caches and memory are shared with unseen neighbours")                              \
    X(doctor_clocksource, "clock source", "slow clocks blur short spans")                                                   \
    X(doctor_numa, "NUMA", "memory of another node is slower")                                                              \
    X(doctor_balancing, "NUMA balancing", "pages move while they are measured")                                             \
    X(doctor_thp, "transparent huge pages", "4 KiB pages cost address translation")                                         \
    X(doctor_memory, "memory available", "models and KV need it")                                                           \
    X(doctor_limit, "memory limit", "beyond it the process is killed")                                                      \
    X(doctor_swap, "swap", "what is swapped out comes back at the speed of a disk")                                         \
    X(doctor_ulimit, "ulimits", "weights are mapped, files kept open")                                                      \
    X(doctor_pmu, "hardware counters", "cycles, instructions, cache misses")                                                \
    X(doctor_paranoid, "perf_event_paranoid", "who may count, and what")                                                    \
    X(doctor_schedstat, "scheduler statistics", "they tell when a thread waited for a CPU")                                 \
    X(doctor_rapl, "RAPL", "energy per token")                                                                              \
    X(doctor_gpu, "NVIDIA driver", "measuring on a GPU")                                                                    \
    X(doctor_gpu_access, "NVIDIA permissions", "devices and their counters")

#define X(check, subject, why) void check(const char *root, struct finding *f);
DOCTOR_CHECKS(X)
#undef X

// The first line of a file of this process's control group (version 2, else the root group's, else version 1's).
bool doctor_cgroup_line(const char *root, const char *controller1, const char *name2, const char *name1, char *out,
                        int size);

// Fills all three.
void doctor_find(struct finding *f, enum doctor_status status, const char *mend, const char *found, ...)
    __attribute__((format(printf, 4, 5)));

#endif
