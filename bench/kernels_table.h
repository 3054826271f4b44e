// Kernels and their fit on one screen.
#ifndef BENCH_KERNELS_TABLE_H
#define BENCH_KERNELS_TABLE_H

#include "bench/kernels.h"

void kernels_print(FILE *f, const struct kernels *k, bool markdown);
void kernels_print_fit(FILE *f, const struct fit *fit, bool markdown);

#endif
