// What a sweep found, on one screen: an aligned table, what to know beside it, where the files are,
// and one sentence.
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

#include "bench/store.h"
#include "bench/table.h"

void summary_print(FILE *f, const struct store *s, bool markdown);

// All columns of all rows, in a data format.
void summary_rows(FILE *f, enum table_format format, const struct store *s);

#endif
