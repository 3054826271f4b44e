#include "bench/levels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FLAT 0.9  // of the rate is left an octave later
#define APART 1.3 // times as fast as the next is a plateau of its own: caches differ by 1.5 and more
#define SAME 1.08 // times the rate of main memory is main memory: so far do sets of hundreds of MiB differ

struct plateau {
    int32_t first, last; // points of the curve
};

// A larger set that is read faster says that the smaller one could have been.
static void envelope(const struct curve *c, double out[CURVE_POINTS])
{
    double most = 0;
    for (int32_t i = c->n - 1; i >= 0; i--)
        out[i] = most = c->rate[i] > most ? c->rate[i] : most;
}

// The point an octave above i, or the last one.
static int32_t octave_above(const struct curve *c, int32_t i)
{
    int32_t k = i;
    while (k < c->n - 1 && c->bytes[k] < 2 * c->bytes[i])
        k++;
    return k;
}

static int32_t find_plateaus(const struct curve *c, const double *rate, struct plateau out[CURVE_POINTS])
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n; i++) {
        if (rate[octave_above(c, i)] < FLAT * rate[i])
            continue;
        struct plateau p = {i, i};
        while (p.last < c->n - 1 && rate[p.last + 1] >= FLAT * rate[i])
            p.last++;
        i = p.last;
        if (n && rate[out[n - 1].first] < APART * rate[p.first])
            out[n - 1].last = p.last; // a dent in the same one
        else
            out[n++] = p;
    }
    return n;
}

// The capacity at which this level keeps, of a set of `bytes`, as much as the rate shows: kept = C (F - S) / (F - C).
static double capacity_needed(double bytes, double rate, double fade, double inner, double outer)
{
    double kept = bytes * (1 / outer - 1 / rate) / (1 / outer - 1 / inner);
    kept = kept < 0 ? 0 : kept > bytes ? bytes : kept;
    return kept > 0 ? kept * fade / (fade - bytes + kept) : 0;
}

// The level of plateau p, which is over at point `end`.
static struct hw_level level_of(const struct curve *c, const double *rate, const struct plateau *p, int32_t end,
                                double outer)
{
    double inner = rate[p->first];
    struct hw_level level = {.bytes = c->bytes[p->last], .fade_bytes = c->bytes[end], .bandwidth.value = inner};
    for (int32_t i = p->last + 1; i < end; i++) {
        double needed = capacity_needed((double)c->bytes[i], rate[i], (double)level.fade_bytes, inner, outer);
        level.bytes = needed > (double)level.bytes ? (uint64_t)ceil(needed) : level.bytes;
    }
    return level;
}

static int32_t point_with(const struct curve *c, double rate)
{
    int32_t i = 0;
    while (i < c->n - 1 && c->rate[i] != rate)
        i++;
    return i;
}

int32_t levels_find(const struct curve *c, double memory, struct hw_level level[HARDWARE_LEVELS],
                    int32_t best[HARDWARE_LEVELS])
{
    double rate[CURVE_POINTS];
    struct plateau p[CURVE_POINTS];
    envelope(c, rate);
    int32_t found = find_plateaus(c, rate, p), n = 0;
    for (int32_t i = 0; i < found - 1 && n < HARDWARE_LEVELS; i++) {
        bool last = i == found - 2;
        int32_t end = p[i + 1].first;
        while (last && end < c->n - 1 && rate[end] > SAME * memory)
            end++; // something is kept still
        double outer = last ? memory : rate[end];
        if (rate[p[i].first] <= outer)
            continue; // no faster than what it should be a cache of
        level[n] = level_of(c, rate, &p[i], end, outer);
        best[n++] = point_with(c, rate[p[i].first]);
    }
    return n;
}

void levels_name(struct hw_level *level, int32_t n, const struct cache *cache, int32_t n_caches)
{
    int32_t from = 0; // caches are in order of size, as levels are
    for (int32_t i = 0; i < n; i++) {
        int32_t nearest = -1;
        double distance = 1; // in octaves
        for (int32_t k = from; k < n_caches; k++) {
            double d = fabs(log2((double)level[i].bytes / (double)cache[k].bytes));
            if (d <= distance)
                nearest = k, distance = d;
        }
        if (nearest >= 0)
            snprintf(level[i].name, sizeof level[i].name, "%s", cache[nearest].name), from = nearest + 1;
        else
            snprintf(level[i].name, sizeof level[i].name, "cache%u", (unsigned)(i + 1) % 100);
    }
}
