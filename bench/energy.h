// Energy counters: of this machine's processors and memory (RAPL through the kernel's powercap), or of a GPU (NVML, which is
// loaded when it is asked for). Absent ones say why.
#ifndef BENCH_ENERGY_H
#define BENCH_ENERGY_H

#include "bench/nvml.h"

enum { ENERGY_ZONES = 32 };
struct energy {
    char root[256]; // of /sys, "" as a rule
    struct energy_zone {
        char path[96];             // "/sys/class/powercap/intel-rapl:0"
        int64_t range_uJ, last_uJ; // the counter wraps around after range
    } zone[ENERGY_ZONES];          // packages, and memory where it is counted beside them
    int32_t n_zones;
    struct nvml nvml; // where gpu is set: it counts instead of the zones
    void *gpu;
    unsigned long long gpu_last_mJ;
    int64_t window_ns; // that the counters need to say something: they are updated in steps
    char absent[96];   // why there is none, or ""
};

void energy_open(struct energy *x, const char *root);
// Of GPU `device` as CUDA numbers those that `visible` (CUDA_VISIBLE_DEVICES, or NULL) leaves. library: NULL for the
// driver's own.
void energy_open_gpu(struct energy *x, const char *library, int32_t device, const char *visible);
void energy_use_gpu(struct energy *x, const struct nvml *nvml, int32_t device, const char *visible); // the same, loaded
bool energy_told(const struct energy *x);

// Joules between start and stop, all zones together or the GPU; NaN: not told. The counters must not wrap around twice
// between the two: at 65 kJ (a common range) and 400 W that takes more than two minutes.
void energy_start(struct energy *x);
double energy_stop(struct energy *x);

#endif
