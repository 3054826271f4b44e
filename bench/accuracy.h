// How far roof and pred were from what was measured, by phase and types. No measured point is one that pred was fitted to
// (tests/test_fit.c), so this is an error of prediction, not of a fit.
//
// Two comparisons. Plain: the time at the ceilings of the file against the median; it holds what the machine was below its
// best while it was measured. Paired: each sample's time at the ceiling probed beside it against that sample, their median;
// what a neighbour takes from probe and sample alike is not in it.
#ifndef BENCH_ACCURACY_H
#define BENCH_ACCURACY_H

#include "bench/store.h"

// field, type, unit, description. Errors are relative to the measured time: predicted / measured - 1.
#define ACCURACY_COLUMNS(X)                                                                                                 \
    X(phase, text, "", "decode, prefill or generate")                                                                       \
    X(weights, text, "", "as in the main table")                                                                            \
    X(type_k, text, "", "as in the main table")                                                                             \
    X(n, count, "", "points measured, whatever their verdict")                                                              \
    X(roof_mape, real, "", "mean size of roof_ns / median_ns - 1")                                                          \
    X(roof_bias, real, "", "mean of it, with its sign")                                                                     \
    X(roof_paired_mape, real, "", "mean size of roof_fraction - 1")                                                         \
    X(roof_paired_bias, real, "", "mean of it")                                                                             \
    X(n_pred, count, "", "points that have a pred")                                                                         \
    X(pred_mape, real, "", "mean size of pred_ns / median_ns - 1")                                                          \
    X(pred_bias, real, "", "mean of it")                                                                                    \
    X(pred_paired_mape, real, "", "mean size of pred_fraction - 1")                                                         \
    X(pred_paired_bias, real, "", "mean of it")

struct accuracy {
#define X(field, type, unit, description) result_##type field;
    ACCURACY_COLUMNS(X)
#undef X
};
const struct column *accuracy_columns(int32_t *n);

// One entry for each phase, type of weights and of K in row[n_rows], in order of first appearance; malloc'ed.
bool accuracy_of(const struct stored *row, int32_t n_rows, struct accuracy **out, int32_t *n, struct error *e);
// The same into NAME.meta.json as "accuracy", where there is something to say.
bool accuracy_record(struct store *s, struct error *e);

#endif
