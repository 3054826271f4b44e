#include "bench/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_SM = 1, SENSOR_CHIP = 0 }; // as NVML numbers them

static const struct {
    unsigned long long bit;
    const char *name;
    bool throttles;
} LIMIT[] = {
#define X(bit, name, throttles) {bit, name, throttles},
    GPU_LIMITS(X)
#undef X
};
enum { LIMITS = sizeof LIMIT / sizeof *LIMIT };

// A symbol of a library is an object pointer; POSIX lets it be a function's.
static void *symbol(void *library, const char *name, bool *ok)
{
    void *found = dlsym(library, name);
    *ok &= found != NULL;
    return found;
}

// It stays loaded as long as the process: the driver's threads live in it.
bool nvml_load(struct nvml *n, const char *name)
{
    void *library = dlopen(name ? name : "libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    bool ok = library != NULL, renamed = true;
    if (!ok)
        return false;
    *(void **)&n->init = symbol(library, "nvmlInit_v2", &ok);
    *(void **)&n->device_by_index = symbol(library, "nvmlDeviceGetHandleByIndex_v2", &ok);
    *(void **)&n->device_by_uuid = symbol(library, "nvmlDeviceGetHandleByUUID", &ok);
    *(void **)&n->energy_mJ = symbol(library, "nvmlDeviceGetTotalEnergyConsumption", &ok);
    *(void **)&n->clock_MHz = symbol(library, "nvmlDeviceGetClockInfo", &ok);
    *(void **)&n->power_mW = symbol(library, "nvmlDeviceGetPowerUsage", &ok);
    *(void **)&n->temperature_C = symbol(library, "nvmlDeviceGetTemperature", &ok);
    *(void **)&n->error_text = symbol(library, "nvmlErrorString", &ok);
    *(void **)&n->clock_reasons = symbol(library, "nvmlDeviceGetCurrentClocksEventReasons", &renamed);
    if (!renamed) // drivers before 535
        *(void **)&n->clock_reasons = symbol(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &ok);
    return ok;
}

// The list names indices or UUIDs.
static int find(const struct nvml *n, int32_t device, const char *visible, void **out)
{
    const char *p = visible && *visible ? visible : NULL;
    char name[96], *end;
    for (int32_t i = 0; p && i < device; i++)
        p = strchr(p, ',') ? strchr(p, ',') + 1 : "";
    if (!p)
        return n->device_by_index((unsigned)device, out);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
    unsigned long index = strtoul(name, &end, 10);
    return *name && !*end ? n->device_by_index((unsigned)index, out) : n->device_by_uuid(name, out);
}

void *nvml_device(const struct nvml *n, int32_t device, const char *visible, char why[96])
{
    void *found = NULL;
    int result = n->init();
    if (!result)
        result = find(n, device, visible, &found);
    if (!result)
        return found;
    snprintf(why, 96, "NVML: %.80s", n->error_text(result));
    return NULL;
}

void gpu_state_init(struct gpu_state *s)
{
    *s = (struct gpu_state){NAN, NAN, NAN, 0};
}

void gpu_state_look(struct gpu_state *s, const struct nvml *n, void *device)
{
    unsigned value;
    unsigned long long limits;
    if (!n->clock_MHz(device, CLOCK_SM, &value))
        s->clock_MHz = fmin(s->clock_MHz, value); // of NaN and a number the number
    if (!n->power_mW(device, &value))
        s->power_W = fmax(s->power_W, value / 1e3);
    if (!n->temperature_C(device, SENSOR_CHIP, &value))
        s->temperature_C = fmax(s->temperature_C, value);
    if (!n->clock_reasons(device, &limits))
        s->limits |= limits;
}

void gpu_limits_print(unsigned long long limits, char out[128])
{
    size_t n = 0;
    *out = 0;
    for (int i = 0; i < LIMITS; i++)
        if (limits & LIMIT[i].bit && n < 128)
            n += (size_t)snprintf(out + n, 128 - n, "%s%s", n ? " " : "", LIMIT[i].name);
}

bool gpu_limits_throttle(unsigned long long limits)
{
    for (int i = 0; i < LIMITS; i++)
        if (limits & LIMIT[i].bit && LIMIT[i].throttles)
            return true;
    return false;
}
