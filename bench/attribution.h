// Where the time of a measured sample went (DESIGN section 3): seven times and the six signed differences between them,
// never clamped or scaled, which sum to T6 - T0 by construction because all are whole nanoseconds.
#ifndef BENCH_ATTRIBUTION_H
#define BENCH_ATTRIBUTION_H

#include "roofline/roofline.h"

enum attribution_time {
    T_BOUND,    // T0 compulsory totals at hard peaks
    T_FLOOR,    // T1 sum of operations' floors at hard peaks
    T_ROOF,     // T2 the same at attainable ceilings
    T_SPANS,    // T3 executed spans, with the activations that cross their edges
    T_BUSY,     // T4 union of traced span intervals
    T_TRACED,   // T5 wall time of the traced run
    T_UNTRACED, // T6 median of untraced samples
    T_COUNT,
};

// difference[i] = time[i + 1] - time[i]
enum attribution_difference { D_SERIALIZATION, D_CEILING, D_EXECUTED, D_SHORTFALL, D_GAPS, D_OBSERVER, D_COUNT };
const char *attribution_difference_name(enum attribution_difference d); // "serialization"

// Like spans of all steps together: same operations by name, same kernel.
struct attribution_op {
    char label[96]; // op_label of its operations, joined by '+'
    uint16_t kernel;
    int32_t count;           // spans
    int64_t time_ns;         // traced, in the sample that was chosen
    int64_t low_ns, high_ns; // of all traced samples
    double roof_ns, spans_ns;
    double limit_ns;   // roof of the span that `limit` is of
    const char *limit; // what the longest of their roofs is: "bandwidth", "compute" or "link"
    struct cost cost;
};

struct attribution {
    int32_t n_samples; // traced ones
    bool has_hard;     // false: time[T_BOUND], time[T_FLOOR] and the first two differences mean nothing (0)
    int64_t time_ns[T_COUNT];
    int64_t difference_ns[D_COUNT];
    struct cost cost;          // of all steps, under the executed cover
    struct attribution_op *op; // [n_ops], in order of first appearance; owned
    int32_t n_ops;
    double sum_ns[T_SPANS + 1]; // T0..T3 as added so far
};

// A sample may have several steps: init, add_step for each traced step, finish once.
void attribution_init(struct attribution *a);
void attribution_free(struct attribution *a); // accepts zeroed

// trace: of this one step; its rows must cover the plan (rows of one span may be split into parts).
bool attribution_add_step(struct attribution *a, const struct plan *plan, const struct batch *batch,
                          const struct trace *trace, const struct hardware *hw, struct error *e);

// traced_ns: wall time of all traced steps; median_ns: of the untraced samples.
void attribution_finish(struct attribution *a, int64_t traced_ns, int64_t median_ns);

// Several traced samples of one point, sample[n] (n >= 1), all finished: the last keeps its prices, made at the latest
// ceilings, and takes the traced times of the one whose wall time is the median (of two the faster), so that operations
// still sum to T4. The others only say how far an operation varied. Samples whose spans differ are left out.
void attribution_choose(struct attribution *sample, int32_t n, int64_t median_ns);

// Operations of a span by op_label, joined by '+'.
void attribution_label(const struct plan *plan, const struct span *span, char *out, size_t size);

// Sum of the differences that mean something: T6 - T0, or T6 - T2 without hard peaks.
int64_t attribution_total_ns(const struct attribution *a);

#endif
