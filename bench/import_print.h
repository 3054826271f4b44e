// Imported rows for people: a table, what was assumed, and how far the roofs are from the numbers.
#ifndef BENCH_IMPORT_PRINT_H
#define BENCH_IMPORT_PRINT_H

#include "bench/store.h"

void import_print_table(FILE *f, const struct store *s, bool markdown);

// Counts, fractions of the roof by phase with the error of the roof as a forecast, assumptions, rows that need a look.
void import_print_summary(FILE *f, const struct store *s);

#endif
