// A decode step's time against its context: time = a + b * context for each batch, KV type, model, weights, threads. What b
// says of the KV (how fast it is read, as how many bytes) stands beside what is true, and a beside the weights' time.
#ifndef BENCH_SLOPE_H
#define BENCH_SLOPE_H

#include "bench/store.h"
#include "bench/table.h"

enum { SLOPE_MIN_CONTEXTS = 3 };

// field, type, unit, description
#define SLOPE_COLUMNS(X)                                                                                                    \
    X(model, text, "", "as in the main table")                                                                              \
    X(backend, text, "", "as in the main table")                                                                            \
    X(isa, text, "", "as in the main table")                                                                                \
    X(hardware, text, "", "as in the main table")                                                                           \
    X(weights, text, "", "as in the main table")                                                                            \
    X(type_k, text, "", "type of K in the cache")                                                                           \
    X(type_v, text, "", "type of V in the cache")                                                                           \
    X(batch, count, "sequences", "sequences in one step")                                                                   \
    X(block, count, "tokens", "tokens per KV block; 0: contiguous")                                                         \
    X(threads, count, "", "threads used")                                                                                   \
    X(tp, count, "ranks", "tensor-parallel ranks")                                                                          \
    X(n_contexts, count, "", "contexts measured")                                                                           \
    X(context_low, count, "tokens", "the shortest of them")                                                                 \
    X(context_high, count, "tokens", "the longest of them")                                                                 \
    X(a_ns, real, "ns", "time of a step without context: a of median_ns = a + b * context (weighted Theil-Sen)")            \
    X(a_low_ns, real, "ns", "lower end of its 95 % interval (Student's t over the fits of each block of samples)")          \
    X(a_high_ns, real, "ns", "upper end of it")                                                                             \
    X(b_ns, real, "ns", "time for each further position of all sequences: b")                                               \
    X(b_low_ns, real, "ns", "lower end of its 95 % interval")                                                               \
    X(b_high_ns, real, "ns", "upper end of it")                                                                             \
    X(worst, real, "", "largest distance of a point from the line, as a share of its time")                                 \
    X(kv_bytes_per_token, real, "B", "KV that one more position of one sequence adds to a step")                            \
    X(kv_seen_bytes_per_token, real, "B", "what b would read at the read ceiling: b * read_GBps / batch")                   \
    X(kv_GBps, real, "GB/s", "batch * kv_bytes_per_token / b: how fast KV is read")                                         \
    X(kv_low_GBps, real, "GB/s", "lower end of its 95 % interval")                                                          \
    X(kv_high_GBps, real, "GB/s", "upper end of it; empty where b may be 0")                                                \
    X(read_GBps, real, "GB/s", "the read ceiling behind roof_ns")                                                           \
    X(weights_ns, real, "ns", "the weights' time at the read ceiling, to compare a with")                                   \
    X(reason, text, "", "why there is no fit, or what to know of it")

struct slope {
#define X(field, type, unit, description) result_##type field;
    SLOPE_COLUMNS(X)
#undef X
};
const struct column *slope_columns(int32_t *n);

// Every group of decode points (one step a sample, not failed) in row[n], in their order; groups of fewer than
// SLOPE_MIN_CONTEXTS contexts too, with the reason. hw[n_hw]: the ceilings roofs were made of; where the points' own is not
// among them the read ceiling comes from the roofs. *slopes is malloc'ed.
bool slopes_fit(const struct stored *row, int32_t n, const struct hardware *hw, int32_t n_hw, struct slope **slopes,
                int32_t *n_slopes, struct error *e);

// The slopes of a result into its meta, as "slopes"; nothing where no group has a line.
bool slopes_record(struct store *s, struct error *e);

// For people; what needs saying below it.
void slope_table(struct table *t, const struct slope *slope, int32_t n);
#define SLOPE_LEGEND                                                                                                        \
    "a: a step without context, and its multiple of the weights' time at the read ceiling; b: each further position.\n"     \
    "KV GB/s: how fast KV is read, and its share of the read ceiling; seen: what b could read there, beside what is true"
// "decode at batch 8, KV bf16: 32.1 ms + 26.9 us per position ..." in one or two sentences.
void slope_sentence(const struct slope *s, char out[512]);

// The bare fit: y = a + b x, robust against single outliers. Weights fall with y, since times vary in proportion to
// themselves. False for fewer than two different x.
bool slope_line(const double *x, const double *y, int32_t n, double *a, double *b);

// Half the 95 % interval of a mean of x[n] by Student's t; NAN for fewer than two.
double slope_half_interval(const double *x, int32_t n);

#endif
