// Text and numbers for HTML and SVG. What comes from files goes through html_text, always.
#ifndef BENCH_HTML_H
#define BENCH_HTML_H

#include <stdio.h>

// Escaped for elements and for quoted attributes; bytes that are no UTF-8 and control characters become U+FFFD.
void html_text(FILE *f, const char *text);

// printf whose every argument is escaped with the rest; markup goes through fprintf.
void html_format(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

// "0.0123", "4.56", "78.9", "12345": three digits or all before the point; "" if it is not finite.
const char *html_number(double v, char out[32]);

// "82.0 GB/s", "1.07 TFLOP/s": a rate in base units, with a prefix of thousands.
const char *html_rate(double v, const char *unit, char out[32]);

#endif
