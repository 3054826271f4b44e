// Two results against each other, point by point. B against A: a ratio above 1 is slower (or further from the roof).
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "bench/recorded.h"

// field, type, unit, description
#define COMPARE_COLUMNS(X)                                                                                                  \
    X(key, text, "", "the point's name, as in A where it is in both")                                                       \
    X(phase, text, "", "prefill, decode or generate; empty for a line about none")                                          \
    X(change, text, "",                                                                                                     \
      "slower, faster, same, unsure, failed (in B only), mended (in A only), unmeasured, only in A, only in B")             \
    X(a_ns, real, "ns", "median of A")                                                                                      \
    X(b_ns, real, "ns", "median of B")                                                                                      \
    X(a_fraction, real, "", "roof_fraction of A")                                                                           \
    X(b_fraction, real, "", "roof_fraction of B")                                                                           \
    X(ratio, real, "", "B over A in time, or A over B in fraction of the roof: above 1 B is worse")                         \
    X(ratio_low, real, "", "lower end of its interval: block bootstrap, 95 % for all points of the comparison together")    \
    X(ratio_high, real, "", "upper end of it")                                                                              \
    X(a_verdict, text, "", "verdict of A")                                                                                  \
    X(b_verdict, text, "", "verdict of B")

struct compare_row {
#define X(field, type, unit, description) result_##type field;
    COMPARE_COLUMNS(X)
#undef X
};
const struct column *compare_columns(int32_t *n);

// Something that all points of A share, and all of B, but otherwise; or a fact of the machine or the build.
struct compare_setting {
    char name[96], a[160], b[160];
};

struct compare_options {
    double threshold; // slower or faster: beyond this with the whole interval
    bool by_fraction; // of the roof, each sample at the ceiling probed beside it: a slower moment of the machine cancels
};

struct comparison {
    struct compare_row *row; // [n_rows], pairs in A's order, then what is in one alone; owned
    int32_t n_rows, n_pairs;
    int32_t n_slower, n_faster, n_unsure, n_same, n_broken; // broken: failed in B only
    struct compare_row group[3];                            // the points of a phase together: geometric mean of ratios
    int32_t n_groups, group_points[3];
    struct compare_setting *setting; // [n_settings], owned
    int32_t n_settings;
    bool by_fraction; // false where it was asked for, but some points have no probes
};

// Points are one pair where their shape is the same and the settings are that differ from point to point (weights, KV types,
// block, threads, model, ranks); settings that each result has one value of may differ, and are listed. Fails where nothing
// pairs.
bool compare_results(const struct recorded *a, const struct recorded *b, const struct compare_options *options,
                     struct comparison *out, struct error *e);
void comparison_free(struct comparison *c); // accepts zeroed

// B is worse: a point or a phase is slower, or a point fails that did not. Fills *e (exit status 4) and returns false then.
bool comparison_verdict(const struct comparison *c, const struct compare_options *options, struct error *e);

#endif
