// Order statistics of samples.
#ifndef ENGINE_BASE_STATS_H
#define ENGINE_BASE_STATS_H

#include <stdint.h>

// The q-quantile (0..1) of x[n] by linear interpolation between order statistics; 0 if n is 0. x is left as it is.
double stats_quantile(const double *x, int32_t n, double q);
double stats_median(const double *x, int32_t n);
double stats_mean(const double *x, int32_t n);

// Sample standard deviation (n - 1); 0 if n < 2.
double stats_stddev(const double *x, int32_t n);

// Percentile interval of the median of x[n] by resampling whole blocks: x[i] belongs to block[i] (0..n_blocks-1).
// Samples of one block share their moment, so only blocks are independent. 1000 resamples, fixed seed.
void stats_median_interval(const double *x, const int32_t *block, int32_t n, int32_t n_blocks, double level, double *low,
                           double *high);

#endif
