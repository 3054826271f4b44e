// kvbench report: results as one self-contained HTML page. This header has what all of its files share: the results in
// points that pictures and tables can use.
#ifndef BENCH_REPORT_REPORT_H
#define BENCH_REPORT_REPORT_H

#include "bench/recorded.h"

// A row as pictures need it: milliseconds per step, unknown values NaN.
struct report_point {
    const struct stored *stored;
    int32_t id;            // place in its result, from 0
    int32_t slice;         // of its result
    int64_t batch, length; // length: decode: context; else prompt tokens
    char kv[64];           // "int8", "int8:bf16"
    bool hollow;           // its verdict is not ok: drawn so
    bool shown;            // has a time, a KV cache, and is the first of its place in its slice
    bool main;             // shown, and of the KV type that pictures of one type show
    double ms, low, high;  // measured, with its interval
    double roof, bound, pred;
    double tokens; // per step, of all sequences
    char tip[320]; // what it says when it is pointed at, in lines
};

// Points that one picture can show together: same model, machine, threads, weights, block size.
struct report_slice {
    char name[320]; // what they have in common, for people
    const struct result *first;
    int32_t n_points;
};

struct report_result {
    struct recorded recorded;
    char letter[2];             // "A", "B"
    char title[160];            // "qwen3-0.6b on AMD EPYC, 2 threads"
    struct report_point *point; // [recorded.n_rows]
    struct report_slice *slice; // [n_slices], the most important one first
    int32_t n_slices;
    struct hardware *hw; // [n_hw] of its rows: recorded, or of the catalogue
    int32_t n_hw;
};

struct report {
    struct report_result *result; // [n]
    int32_t n;
};

// Reads the files and derives the points. Fails by the first file that cannot be read.
bool report_open(struct report *r, const char *const *path, int32_t n, struct error *e);
void report_close(struct report *r); // accepts zeroed

// The page, the same for the same files: nothing in it says when or where it was made.
void report_write(FILE *f, const struct report *r);

// The hardware a row's roof is of; NULL: not known.
const struct hardware *report_hardware(const struct report_result *r, const struct result *row);

// Distinct values of a slice's points, ascending: batch sizes, lengths. Returns how many, at most `most`.
enum report_axis { REPORT_BATCH, REPORT_LENGTH };
int32_t report_values(const struct report_result *r, int32_t slice, const char *phase, enum report_axis axis, int64_t *out,
                      int32_t most);

double report_of_roof(const struct result *row); // share of the roof that a point attains; NaN: unknown
bool report_is(const struct report_point *p, const char *phase);

// Parts of the page. report_pictures: of one slice, with its title where there are several.
void report_pictures(FILE *f, const struct report_result *r, int32_t slice);
void report_compare(FILE *f, const struct report *r);
void report_points(FILE *f, const struct report_result *r);
void report_slopes(FILE *f, const struct report_result *r);
void report_verdicts(FILE *f, const struct report_result *r);
void report_ceilings(FILE *f, const struct report_result *r);
void report_machine(FILE *f, const struct report_result *r);
void report_details(FILE *f, const struct report_result *r);
void report_columns(FILE *f);

#endif
