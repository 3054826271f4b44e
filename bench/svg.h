// Drawing as SVG text: scales, ticks, marks and lines. Colours are not said here: each thing has classes, which the page's
// style sheet gives a colour for light, for dark and for paper. Lengths are units of the canvas, y downwards.
#ifndef BENCH_SVG_H
#define BENCH_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// From values to places on the canvas.
struct svg_scale {
    bool log;
    double low, high; // values, low < high; both above 0 if log
    double from, to;  // places of low and high
};
double svg_place(const struct svg_scale *s, double v);

// Widens low and high to hold v; a scale begins as svg_scale_empty. What is not finite, or not above 0 if log, is left out.
struct svg_scale svg_scale_empty(bool log);
void svg_scale_hold(struct svg_scale *s, double v);
// A little room around what it holds, and no less than `least` times from low to high if log, so that noise is not looked at
// through a magnifying glass; a scale that is not log begins at 0. An empty one becomes 1 to 10.
void svg_scale_finish(struct svg_scale *s, double least);

// Values to label, ascending: 1 2 5 and their like on a log scale, round steps otherwise. Returns how many, at most
// SVG_TICKS.
enum { SVG_TICKS = 24 };
int32_t svg_ticks(const struct svg_scale *s, double tick[SVG_TICKS]);

void svg_line(FILE *f, const char *classes, double x1, double y1, double x2, double y2);
void svg_rect(FILE *f, const char *classes, double x, double y, double width, double height); // closed by the caller: "/>"
void svg_label(FILE *f, const char *classes, double x, double y, const char *text);           // escaped
// A shape of the page's <defs>: #m0 ... #m5. `tip`: what it says when it is pointed at, or NULL.
enum { SVG_SHAPES = 6 };
void svg_mark(FILE *f, const char *classes, int shape, double x, double y, const char *tip);
void svg_shapes(FILE *f); // these <defs>

#endif
