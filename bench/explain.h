// Where the time of a measured point went, for people: the parts beyond its roof, signed, and sentences made of them. Works
// on rows, of this process or read again.
#ifndef BENCH_EXPLAIN_H
#define BENCH_EXPLAIN_H

#include "bench/store.h"

// What lies between roof_ns (T2, at the machine's best) and median_ns (T6). What a span could not do better at the rates
// that the probes beside the samples found is the machine's part, so that the others are beyond the roof which
// roof_fraction compares with.
enum explain_part {
    PART_MACHINE,     // the roof at the probed ceilings beyond that at the machine's best
    PART_ACTIVATIONS, // T3 - T2: activations between kernels
    PART_ATTENTION,   // T4 - T3 without the machine's part, of the spans that read KV
    PART_PRODUCTS,    // of those that multiply weights
    PART_OTHERS,      // of all others (norms, the embedding), less what spans overlapped; all kernels where no span is known
    PART_GAPS,        // T5 - T4: between spans
    PART_OBSERVER,    // T6 - T5: the untraced median beyond the traced sample
    PART_COUNT,
};
const char *explain_part_key(enum explain_part part); // "machine", "activations", ...

// The time of some points together, and how it divides: roof_ns + the sum of part_ns is time_ns, to rounding.
struct explanation {
    int32_t n_points;
    bool knows_spans; // of every point
    double time_ns, roof_ns;
    double part_ns[PART_COUNT];
    double by_compute_ns[PART_COUNT]; // of part_ns, what spans account for whose roof is arithmetic
};

// Adds a point; false, leaving *x alone, for one without a roof or without a trace. *x is zeroed at first.
bool explain_add(struct explanation *x, const struct stored *point);
double explain_probed_roof_ns(const struct explanation *x); // roof_ns with the machine's part

// "attention below the read ceiling": what a part is called in *x.
void explain_part_name(const struct explanation *x, enum explain_part part, char out[64]);

// Parts beyond the probed roof in order of their size, the largest first; the machine's is the last.
void explain_order(const struct explanation *x, enum explain_part order[PART_COUNT]);

// "decode at batch 8, context 4096, KV bf16 takes 142 ms: 42 % of the roof (60.1 ms); of the 82 ms beyond, 64 are attention
// below the read ceiling, ..."; says what is missing where there is no roof or no trace.
enum { EXPLAIN_TEXT = 640 };
void explain_sentence(const struct stored *point, char out[EXPLAIN_TEXT]);

// "decode at batch 1 is at 77 to 85 % of the roof; of its time 12 % is ...": the points of one phase and batch that have the
// verdict ok. False if there are none.
bool explain_group_sentence(const struct stored *row, int32_t n, const char *phase, int64_t batch, char out[EXPLAIN_TEXT]);

// "no hard peaks are known for cpu-2t, so none of its 9 points was checked against a bound"; false where all that have a
// roof were.
bool explain_unchecked(const struct stored *row, int32_t n, char out[EXPLAIN_TEXT]);

// The seven times of a row, T0 to T6; ns NAN: unknown.
struct explain_time {
    const char *name, *what;       // "T2", "roof: ..."
    const char *difference_column; // of the difference to the next, or NULL
    double ns, difference_ns;
};
enum { EXPLAIN_TIMES = 7 };
void explain_times(const struct result *r, struct explain_time out[EXPLAIN_TIMES]);

#endif
