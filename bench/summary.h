// What a sweep found, on one screen: an aligned table, what to know beside it, where the files are,
// and one sentence.
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

#include "bench/store.h"

void summary_print(FILE *f, const struct store *s);

// All rows as one JSON array.
void summary_json(FILE *f, const struct store *s);

#endif
