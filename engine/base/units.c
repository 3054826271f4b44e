#include "engine/base/units.h"

#include <stdio.h>
#include <time.h>

bool size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    if (!__builtin_mul_overflow(a, b, out))
        return true;
    *out = UINT64_MAX;
    return false;
}

bool size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (!__builtin_add_overflow(a, b, out))
        return true;
    *out = UINT64_MAX;
    return false;
}

const char *format_bytes(uint64_t bytes, char buffer[24])
{
    static const char *const UNIT[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    snprintf(buffer, 24, unit ? "%.2f %s" : "%.0f %s", value, UNIT[unit]);
    return buffer;
}

const char *format_ns(double ns, char buffer[24])
{
    static const char *const UNIT[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    for (; ns >= 1000 && unit < 3; unit++)
        ns /= 1000;
    snprintf(buffer, 24, "%.3g %s", ns, UNIT[unit]);
    if (ns >= 1000)
        snprintf(buffer, 24, "%.0f %s", ns, UNIT[unit]);
    return buffer;
}

const char *format_ms(double ns, char buffer[24])
{
    double ms = ns / 1e6;
    int decimals = ms >= 99.95 ? 0 : ms >= 9.995 ? 1 : ms >= 0.9995 ? 2 : ms >= 0.09995 ? 3 : 4;
    snprintf(buffer, 24, "%.*f", decimals, ms);
    return buffer;
}

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
