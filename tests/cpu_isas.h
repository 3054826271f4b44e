// Which kernel tables this machine can run; tests say which they could not.
#ifndef TESTS_CPU_ISAS_H
#define TESTS_CPU_ISAS_H

#include "engine/cpu/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ISA_REF, ISA_AVX2, ISA_AVX2VNNI, ISA_AVX512, ISA_AVX512VNNI, ISA_AVX512BF16, N_ISAS };
static const struct cpu_kernels *const ISA_TABLE[N_ISAS] = {&cpu_kernels_ref,        &cpu_kernels_avx2,
                                                            &cpu_kernels_avx2vnni,   &cpu_kernels_avx512,
                                                            &cpu_kernels_avx512vnni, &cpu_kernels_avx512bf16};

static inline bool isa_runs(int i)
{
    return cpu_kernels_runnable(ISA_TABLE[i]);
}

static inline void isa_report(void)
{
    for (int i = 0; i < N_ISAS; i++)
        print_message("# %s kernels: %s\n", ISA_TABLE[i]->name,
                      isa_runs(i) ? "run" : "NOT RUN, this CPU lacks instructions");
}

#endif
