// Which kernel table runs: the CPU decides, or the caller.
#include "engine/cpu/kernels.h"

#include "engine/base/names.h"
#include "engine/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static const struct cpu_kernels *const TABLE[] = {&cpu_kernels_ref}; // plain to best

enum { TABLES = sizeof TABLE / sizeof *TABLE };

bool cpu_kernels_runnable(const struct cpu_kernels *k)
{
    (void)k;
    return true;
}

static const struct cpu_kernels *best(void)
{
    int i = TABLES - 1;
    while (i > 0 && !cpu_kernels_runnable(TABLE[i]))
        i--;
    return TABLE[i];
}

const char *cpu_isa_best(void)
{
    return best()->name;
}

const struct cpu_kernels *cpu_kernels_select(const char *isa, struct error *e)
{
    const char *names[TABLES + 1] = {"auto"};
    if (!isa || !*isa || !strcmp(isa, "auto"))
        isa = getenv("KVBENCH_ISA");
    if (!isa || !*isa || !strcmp(isa, "auto"))
        return best();
    for (int i = 0; i < TABLES; i++) {
        names[i + 1] = TABLE[i]->name;
        if (strcmp(isa, TABLE[i]->name))
            continue;
        if (cpu_kernels_runnable(TABLE[i]))
            return TABLE[i];
        error_set(e, ERROR_DEVICE, "this CPU has not all instructions of the '%s' kernels, only those of '%s'", isa,
                  best()->name);
        return NULL;
    }
    const char *near = names_nearest(isa, names, TABLES + 1);
    error_set(e, ERROR_USAGE, "unknown instruction set '%s', expected auto, ref, avx2 or avx512%s%s%s", isa,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return NULL;
}

uint64_t attn_scratch_floats(int32_t n, int32_t head_dim)
{
    (void)n, (void)head_dim;
    return 0;
}
