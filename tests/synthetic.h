// Rows of results with known times, for tests of what is made of them.
#ifndef TESTS_SYNTHETIC_H
#define TESTS_SYNTHETIC_H

#include "bench/store.h"
#include "engine/base/rng.h"
#include "engine/base/stats.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Normal with mean 0 and deviation 1 (Box and Muller).
static inline double synthetic_normal(uint64_t *rng)
{
    double u = ((double)(rng_next(rng) >> 11) + 0.5) * 0x1p-53, v = (double)(rng_next(rng) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

// What store_open wants of a meta file.
static inline cJSON *synthetic_meta(const struct scenario *s)
{
    char hash[17];
    cJSON *meta = cJSON_CreateObject();
    scenario_hash(s, hash);
    cJSON_AddStringToObject(meta, "scenario_hash", hash);
    return meta;
}

struct synthetic_noise {
    double sample, block; // deviations, as shares of the time: of each sample, and of all samples of one block
    uint64_t rng;
};

// A decode point of `ns` in 9 samples of 3 blocks; noise NULL: exactly that.
static inline struct result synthetic_point(int64_t batch, int64_t context, double ns, struct synthetic_noise *noise)
{
    struct result r;
    double *list = calloc(27, sizeof *list), shift = 0;
    result_init(&r);
    snprintf(r.key, sizeof r.key, "decode/b%d/c%d/bf16/kv-bf16/blk16", (int)batch, (int)context);
    snprintf(r.model, sizeof r.model, "m");
    snprintf(r.phase, sizeof r.phase, "decode");
    snprintf(r.backend, sizeof r.backend, "cpu");
    snprintf(r.hardware, sizeof r.hardware, "box");
    snprintf(r.weights, sizeof r.weights, "bf16");
    snprintf(r.type_k, sizeof r.type_k, "bf16");
    snprintf(r.type_v, sizeof r.type_v, "bf16");
    snprintf(r.verdict, sizeof r.verdict, "ok");
    snprintf(r.limit, sizeof r.limit, "bandwidth");
    r.batch = batch, r.context = context, r.n_prompt = 0, r.n_gen = 1, r.n_depth = context - 1, r.cache = 1, r.block = 16;
    r.threads = 2, r.tp = 1, r.n_samples = 9, r.n_blocks = 3;
    for (int i = 0; i < 9; i++) {
        if (noise && i % 3 == 0)
            shift = noise->block * synthetic_normal(&noise->rng);
        list[i] = noise ? ns * (1 + shift + noise->sample * synthetic_normal(&noise->rng)) : ns;
        list[9 + i] = i / 3;
        list[18 + i] = 50e9;
    }
    r.median_ns = stats_median(list, 9);
    double **slot[] = {&r.samples_ns.value, &r.samples_block.value, &r.samples_probe.value};
    for (int i = 0; i < 3; i++) {
        *slot[i] = malloc(9 * sizeof **slot[i]);
        for (int k = 0; k < 9; k++)
            (*slot[i])[k] = list[9 * i + k];
    }
    r.samples_ns.n = r.samples_block.n = r.samples_probe.n = 9;
    free(list);
    return r;
}

#endif
