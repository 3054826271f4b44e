#include "engine/base/stats.h"

#include "engine/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile_sorted(const double *x, int32_t n, double q)
{
    double at = q * (n - 1);
    int32_t i = (int32_t)floor(at);
    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

double stats_quantile(const double *x, int32_t n, double q)
{
    double *sorted = n > 0 ? malloc((size_t)n * sizeof *sorted) : NULL;
    if (!sorted)
        return 0;
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_double);
    double value = quantile_sorted(sorted, n, q);
    free(sorted);
    return value;
}

double stats_median(const double *x, int32_t n)
{
    return stats_quantile(x, n, 0.5);
}

double stats_mean(const double *x, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / n : 0;
}

double stats_stddev(const double *x, int32_t n)
{
    double mean = stats_mean(x, n), sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

static int32_t resample(const double *x, const int32_t *block, int32_t n, int32_t n_blocks, uint64_t *rng, double *out)
{
    int32_t count = 0;
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t drawn = (int32_t)(rng_next(rng) % (uint64_t)n_blocks);
        for (int32_t i = 0; i < n; i++)
            if (block[i] == drawn)
                out[count++] = x[i];
    }
    return count;
}

void stats_median_interval(const double *x, const int32_t *block, int32_t n, int32_t n_blocks, double level, double *low,
                           double *high)
{
    enum { RESAMPLES = 1000 };
    *low = *high = stats_median(x, n);
    if (n < 2 || n_blocks < 1)
        return;
    double *medians = malloc(RESAMPLES * sizeof *medians);
    double *draw = malloc((size_t)n * (size_t)n_blocks * sizeof *draw);
    uint64_t rng = 1;
    for (int32_t r = 0; medians && draw && r < RESAMPLES; r++)
        medians[r] = stats_median(draw, resample(x, block, n, n_blocks, &rng, draw));
    if (medians && draw) {
        *low = stats_quantile(medians, RESAMPLES, (1 - level) / 2);
        *high = stats_quantile(medians, RESAMPLES, (1 + level) / 2);
    }
    free(medians);
    free(draw);
}
