// Energy counters of this machine's processors and memory: RAPL through the kernel's powercap. Absent ones say why.
#ifndef BENCH_ENERGY_H
#define BENCH_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

enum { ENERGY_ZONES = 32 };
struct energy {
    char root[256]; // of /sys, "" as a rule
    struct energy_zone {
        char path[96];             // "/sys/class/powercap/intel-rapl:0"
        int64_t range_uJ, last_uJ; // the counter wraps around after range
    } zone[ENERGY_ZONES];          // packages, and memory where it is counted beside them
    int32_t n_zones;
    char absent[96]; // why there is none, or ""
};

void energy_open(struct energy *x, const char *root);

// Joules between start and stop, all zones together; NaN: not told. The counters must not wrap around twice between the two:
// at 65 kJ (a common range) and 400 W that takes more than two minutes.
void energy_start(struct energy *x);
double energy_stop(struct energy *x);

#endif
