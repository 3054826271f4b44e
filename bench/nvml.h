// NVML, the driver's library that tells of a GPU's state; loaded when it is asked for, by nobody who has no GPU.
#ifndef BENCH_NVML_H
#define BENCH_NVML_H

#include <stdbool.h>
#include <stdint.h>

// What is used of libnvidia-ml. Results are 0 where they succeed; energy is in mJ since the driver was loaded (Volta and
// later).
struct nvml {
    int (*init)(void);
    int (*device_by_index)(unsigned index, void **device);
    int (*device_by_uuid)(const char *uuid, void **device);
    int (*energy_mJ)(void *device, unsigned long long *out);
    int (*clock_MHz)(void *device, int which, unsigned *out);
    int (*power_mW)(void *device, unsigned *out);
    int (*temperature_C)(void *device, int sensor, unsigned *out);
    int (*clock_reasons)(void *device, unsigned long long *out); // why the clock is lower than it could be
    const char *(*error_text)(int result);
};

// library: NULL for the driver's own. False: it is not there.
bool nvml_load(struct nvml *n, const char *library);

// The device that CUDA calls number `device` where `visible` (CUDA_VISIBLE_DEVICES, or NULL) leaves some; NULL with one
// line.
void *nvml_device(const struct nvml *n, int32_t device, const char *visible, char why[96]);

// bit, what it is called in results, and whether such a clock says that a number is not what the device can do: a cap on
// power is the usual state of a busy GPU, and the ceilings were measured under it, too.
#define GPU_LIMITS(X)                                                                                                       \
    X(0x004, "power-cap", false)                                                                                            \
    X(0x008, "hardware", true)                                                                                              \
    X(0x010, "sync-boost", false)                                                                                           \
    X(0x020, "software-heat", true)                                                                                         \
    X(0x040, "hardware-heat", true)                                                                                         \
    X(0x080, "power-brake", true)

// What was seen over some looks; NaN and 0 bits where nothing was told.
struct gpu_state {
    double clock_MHz, power_W, temperature_C; // the lowest, the highest, the highest
    unsigned long long limits;                // all that were seen
};
void gpu_state_init(struct gpu_state *s);
void gpu_state_look(struct gpu_state *s, const struct nvml *n, void *device);
void gpu_limits_print(unsigned long long limits, char out[128]); // "power-cap software-heat", "" for none
bool gpu_limits_throttle(unsigned long long limits);

#endif
