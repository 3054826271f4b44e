// Pictures with two axes, from tables: what is drawn is data, and one function draws all of them.
#ifndef BENCH_REPORT_CHART_H
#define BENCH_REPORT_CHART_H

#include "bench/svg.h"

struct chart_point {
    double x, y, low, high; // low, high: interval of y; NaN: none
    bool hollow;            // its verdict is not ok
    const char *tip;        // or NULL
};

enum chart_style {
    CHART_MEASURED, // marks with intervals, joined
    CHART_MARKS,    // marks with intervals
    CHART_ROOF,     // a dashed line
    CHART_BOUND,    // a dotted line
    CHART_CEILING,  // a grey line: of the machine, not of points
    CHART_LEVEL,    // the same of one memory level, thin, in its colour and with its name where it begins
};

enum { CHART_PLAIN = -1 }; // no colour of its own
struct chart_line {
    char name[96];
    enum chart_style style;
    int colour, shape;         // colour: class cN, or CHART_PLAIN (levels)
    struct chart_point *point; // [n], in order of x; owned by the chart
    int32_t n;
};

struct chart_axis {
    const char *label;
    bool log;
    const int64_t *value; // [n_values] that occur, each labelled; NULL: round ticks
    int32_t n_values;
    double least; // that it must reach down to; 0: what the points need
    struct svg_scale scale;
};

struct chart {
    const char *title;
    char note[256]; // what else to know of it
    struct chart_axis x, y;
    struct chart_line *line; // [n]
    int32_t n;
    bool diagonal; // parity: equality as a line, within 10 and 25 % as bands, and one scale for both axes
    bool legend;   // each line is named above the picture, not at its end
};

struct chart_line *chart_add_line(struct chart *c, const char *name, enum chart_style style, int colour, int shape);
void chart_add_point(struct chart_line *l, struct chart_point p); // left out if not finite and above 0
void chart_draw(FILE *f, struct chart *c);                        // as a <figure>; nothing if no line has a point
void chart_free(struct chart *c);

// Class of the colour of value i of n ordered ones: from dark to light over the ramp.
int chart_ramp(int32_t i, int32_t n);

#endif
