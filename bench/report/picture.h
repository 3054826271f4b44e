// What the files share that draw the pictures of one slice of a result (pictures.c, scatter.c).
#ifndef BENCH_REPORT_PICTURE_H
#define BENCH_REPORT_PICTURE_H

#include "bench/report/report.h"

enum { PICTURE_VALUES = 24 };

struct picture {
    const struct report_result *r;
    int32_t slice;
    // Values that occur, ascending: batches and contexts of decode steps, batches of all phases.
    int64_t batch[PICTURE_VALUES], length[PICTURE_VALUES], any_batch[PICTURE_VALUES];
    int32_t n_batches, n_lengths, n_any;
};

int32_t picture_n(const struct picture *p);                                   // rows of the result
const struct report_point *picture_point(const struct picture *p, int32_t i); // row i; NULL: not of this slice
bool picture_measured(const struct picture *p);                               // any of its points is
bool picture_corner(const struct picture *p,
                    const struct report_point *point); // of the smallest or largest batch and length

// Families of operations, as in the pictures of plots/. A span of several belongs to the first family that one of them is
// of.
int picture_family(const char *ops);
const char *picture_family_name(int family);

void picture_roofline(FILE *f, const struct picture *p);
void picture_levels(FILE *f, const struct picture *p);
void picture_parity(FILE *f, const struct picture *p);

#endif
