// Pictures of horizontal bars made of parts, in percent: a row per point, parts below 0 to the left of it.
#ifndef BENCH_REPORT_BARS_H
#define BENCH_REPORT_BARS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { BARS_PARTS = 9 };

struct bar {
    char label[48], end[48]; // left of it, and behind it
    double part[BARS_PARTS]; // percent; 0: none
    char *tip[BARS_PARTS];   // owned, or NULL
    double low, high;        // interval about 100; NaN: none
    bool hollow;             // of a point that is not ok
    bool gap;                // room before it: another group
};

struct bars {
    const char *title, *note, *axis;
    const char *part_name[BARS_PARTS]; // NULL ends them
    const char *colour;                // prefix of the parts' colour classes: "f" for f0, f1, ...
    struct bar *bar;                   // [n]
    int32_t n;
    bool reference; // a line at 100
};

struct bar *bars_add(struct bars *b);          // zeroed, without interval; NULL: no memory
void bars_draw(FILE *f, const struct bars *b); // as a <figure>; nothing if there are none
void bars_free(struct bars *b);

#endif
