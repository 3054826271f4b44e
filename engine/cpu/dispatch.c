// Which kernel table runs: the CPU decides, or the caller.
#include "engine/cpu/kernels.h"

#include "engine/base/names.h"
#include "engine/cpu/cpu.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

static bool always(void)
{
    return true;
}

static bool has_f16c(void) // older compilers have no name for it
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

enum { LEAF7_AVX_VNNI = 1 << 4, LEAF7_AVX512_BF16 = 1 << 5 };

// Bits of CPUID leaf 7, second page, EAX: compilers have no names for all of them yet.
static bool has_leaf7(unsigned bit)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & bit;
}

static bool has_avx2vnni(void)
{
    return has_avx2() && has_leaf7(LEAF7_AVX_VNNI);
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void)
{
    return has_avx512vnni() && has_leaf7(LEAF7_AVX512_BF16);
}

// From plain to best.
static const struct {
    const struct cpu_kernels *kernels;
    bool (*runnable)(void);
} TABLE[] = {{&cpu_kernels_ref, always},
             {&cpu_kernels_avx2, has_avx2},
             {&cpu_kernels_avx2vnni, has_avx2vnni},
             {&cpu_kernels_avx512, has_avx512},
             {&cpu_kernels_avx512vnni, has_avx512vnni},
             {&cpu_kernels_avx512bf16, has_avx512bf16}};

enum { TABLES = sizeof TABLE / sizeof *TABLE };

bool cpu_kernels_runnable(const struct cpu_kernels *k)
{
    for (int i = 0; i < TABLES; i++)
        if (TABLE[i].kernels == k)
            return TABLE[i].runnable();
    return false;
}

const struct cpu_kernels *cpu_kernels_best(void)
{
    int i = TABLES - 1;
    while (!TABLE[i].runnable())
        i--;
    return TABLE[i].kernels;
}

const char *cpu_isa_best(void)
{
    return cpu_kernels_best()->name;
}

const struct cpu_kernels *cpu_kernels_select(const char *isa, struct error *e)
{
    const char *names[TABLES + 1] = {"auto"};
    if (!isa || !*isa || !strcmp(isa, "auto"))
        isa = getenv("KVBENCH_ISA");
    if (!isa || !*isa || !strcmp(isa, "auto"))
        return cpu_kernels_best();
    for (int i = 0; i < TABLES; i++) {
        names[i + 1] = TABLE[i].kernels->name;
        if (strcmp(isa, TABLE[i].kernels->name))
            continue;
        if (TABLE[i].runnable())
            return TABLE[i].kernels;
        error_set(e, ERROR_DEVICE, "this CPU has not all instructions of the '%s' kernels, only those of '%s'", isa,
                  cpu_kernels_best()->name);
        return NULL;
    }
    const char *near = names_nearest(isa, names, TABLES + 1);
    error_set(e, ERROR_USAGE,
              "unknown instruction set '%s', expected auto, ref, avx2, avx2vnni, avx512, avx512vnni or avx512bf16%s%s%s",
              isa, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return NULL;
}
