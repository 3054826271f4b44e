// Which caches a machine has, as the rate of reading shows it: by the size of the set that is gone over again and again.
#ifndef BENCH_LEVELS_H
#define BENCH_LEVELS_H

#include "bench/environment.h"
#include "roofline/hardware.h"

enum { CURVE_POINTS = 48 };

struct curve { // sizes ascend
    int32_t n;
    uint64_t bytes[CURVE_POINTS];
    double rate[CURVE_POINTS]; // bytes/s
};

// Levels are plateaus of the highest rate that a set of that size or a larger one reaches: where an octave costs less than a
// tenth. The last plateau is main memory, read at `memory` bytes/s. A level's capacity is the smallest with which no rate of
// the curve is above hardware_stream's; it fades until the next plateau begins. best[i]: the point of the curve with level
// i's rate. Returns how many; no names, no more about bandwidth than the value.
int32_t levels_find(const struct curve *c, double memory, struct hw_level level[HARDWARE_LEVELS],
                    int32_t best[HARDWARE_LEVELS]);

// Names each level after the cache that is nearest in size and at most a factor of 2 away, each cache once; others are
// "cache1", "cache2": nobody knows of them.
void levels_name(struct hw_level *level, int32_t n, const struct cache *cache, int32_t n_caches);

#endif
