// What the machine can compute at most: multiply-adds that never leave the registers, a loop for each instruction and vector
// width. Written out, for a compiler may fold such loops, hoist them or keep sums in memory; and so that one file holds the
// instructions of all CPUs, whatever the compiler was told of this one.
#include "engine/cpu/probe.h"

#include "engine/base/units.h"

#include <cpuid.h>
#include <stdlib.h>

// 13 independent sums in registers 3 to 15: more than latency x units (4 x 2 for FMA, 6 x 2 for vdpbf16ps).
enum { SUMS = 13 };
#define EACH_SUM(body) ".irp r,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" body "\n\t.endr\n\t"
#define CLOBBERS                                                                                                            \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",     \
        "xmm14", "xmm15"

// n rounds of `body` for each sum \\r; registers 0 and 1 hold the operands, 2 is free. `v`: xmm, ymm or zmm.
#define LOOP(name, v, body)                                                                                                 \
    static void name(int64_t n, const uint32_t *operands)                                                                   \
    {                                                                                                                       \
        __asm__ volatile("vmovups (%1), %%" v "0\n\tvmovups 64(%1), %%" v "1\n\t" EACH_SUM(                                 \
                             "vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r") "1:\n\t" EACH_SUM(body) "dec %0\n\tjnz 1b\n\tvzeroupper" \
                         : "+r"(n)                                                                                          \
                         : "r"(operands)                                                                                    \
                         : "cc", "memory", CLOBBERS);                                                                       \
    }
#define ONE(instruction, v) instruction " %%" v "1, %%" v "0, %%" v "\\r"
// Bytes by bytes to pairs in 16 bits, those by 1 to 32 bits, the sum.
#define THREE(v)                                                                                                            \
    "vpmaddubsw %%" v "0, %%" v "0, %%" v "2\n\tvpmaddwd %%" v "1, %%" v "2, %%" v "2\n\tvpaddd %%" v "2, %%" v "\\r, %%" v \
    "\\r"

// Where there is no AVX: a multiplication and an addition.
static void sse_128(int64_t n, const uint32_t *operands)
{
    __asm__ volatile("movups (%1), %%xmm0\n\tmovups 64(%1), %%xmm1\n\t" EACH_SUM("xorps %%xmm\\r, %%xmm\\r") //
                     "1:\n\t" EACH_SUM("mulps %%xmm0, %%xmm\\r\n\taddps %%xmm1, %%xmm\\r") "dec %0\n\tjnz 1b"
                     : "+r"(n)
                     : "r"(operands)
                     : "cc", "memory", CLOBBERS);
}

LOOP(fma_128, "xmm", ONE("vfmadd213ps", "xmm"))
LOOP(fma_256, "ymm", ONE("vfmadd213ps", "ymm"))
LOOP(fma_512, "zmm", ONE("vfmadd213ps", "zmm"))
LOOP(bf16_128, "xmm", ONE("vdpbf16ps", "xmm"))
LOOP(bf16_256, "ymm", ONE("vdpbf16ps", "ymm"))
LOOP(bf16_512, "zmm", ONE("vdpbf16ps", "zmm"))
LOOP(maddubs_128, "xmm", THREE("xmm"))
LOOP(maddubs_256, "ymm", THREE("ymm"))
LOOP(maddubs_512, "zmm", THREE("zmm"))
LOOP(avx_vnni_128, "xmm", ONE("%{vex%} vpdpbusd", "xmm"))
LOOP(avx_vnni_256, "ymm", ONE("%{vex%} vpdpbusd", "ymm"))
LOOP(vnni_128, "xmm", ONE("%{evex%} vpdpbusd", "xmm"))
LOOP(vnni_256, "ymm", ONE("%{evex%} vpdpbusd", "ymm"))
LOOP(vnni_512, "zmm", ONE("vpdpbusd", "zmm"))

static bool always(void)
{
    return true;
}
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
static bool has_fma(void)
{
    return has_avx2() && __builtin_cpu_supports("fma");
}
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
static bool has_avx512bw(void)
{
    return __builtin_cpu_supports("avx512bw");
}
static bool has_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}
static bool has_bf16_narrow(void)
{
    return has_bf16() && __builtin_cpu_supports("avx512vl");
}
static bool has_vnni(void)
{
    return __builtin_cpu_supports("avx512vnni");
}
static bool has_vnni_narrow(void)
{
    return has_vnni() && __builtin_cpu_supports("avx512vl");
}
static bool has_avx_vnni(void) // older compilers have no name for it
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1 << 4;
}

// Operands: repeated 32-bit patterns that keep sums finite and normal.
enum {
    F32_BELOW_1 = 0x3f7fbe77,
    F32_SMALL = 0x3a83126f,
    BF16_ONES = 0x3f803f80,
    BYTE_ONES = 0x01010101,
    WORD_ONES = 0x00010001
};

static const struct loop {
    struct probe_arithmetic is;
    int32_t multiplies; // per 32-bit lane
    uint32_t x, y;
    bool (*has)(void);
    void (*run)(int64_t n, const uint32_t *operands);
} LOOPS[] = {
    {{DTYPE_F32, 128, "sse"}, 1, F32_BELOW_1, F32_SMALL, always, sse_128},
    {{DTYPE_F32, 128, "fma"}, 1, F32_BELOW_1, F32_SMALL, has_fma, fma_128},
    {{DTYPE_F32, 256, "fma"}, 1, F32_BELOW_1, F32_SMALL, has_fma, fma_256},
    {{DTYPE_F32, 512, "fma"}, 1, F32_BELOW_1, F32_SMALL, has_avx512, fma_512},
    {{DTYPE_BF16, 128, "avx512-bf16"}, 2, BF16_ONES, BF16_ONES, has_bf16_narrow, bf16_128},
    {{DTYPE_BF16, 256, "avx512-bf16"}, 2, BF16_ONES, BF16_ONES, has_bf16_narrow, bf16_256},
    {{DTYPE_BF16, 512, "avx512-bf16"}, 2, BF16_ONES, BF16_ONES, has_bf16, bf16_512},
    {{DTYPE_INT8, 128, "maddubs"}, 4, BYTE_ONES, WORD_ONES, has_avx2, maddubs_128},
    {{DTYPE_INT8, 256, "maddubs"}, 4, BYTE_ONES, WORD_ONES, has_avx2, maddubs_256},
    {{DTYPE_INT8, 512, "maddubs"}, 4, BYTE_ONES, WORD_ONES, has_avx512bw, maddubs_512},
    {{DTYPE_INT8, 128, "avx-vnni"}, 4, BYTE_ONES, BYTE_ONES, has_avx_vnni, avx_vnni_128},
    {{DTYPE_INT8, 256, "avx-vnni"}, 4, BYTE_ONES, BYTE_ONES, has_avx_vnni, avx_vnni_256},
    {{DTYPE_INT8, 128, "avx512-vnni"}, 4, BYTE_ONES, BYTE_ONES, has_vnni_narrow, vnni_128},
    {{DTYPE_INT8, 256, "avx512-vnni"}, 4, BYTE_ONES, BYTE_ONES, has_vnni_narrow, vnni_256},
    {{DTYPE_INT8, 512, "avx512-vnni"}, 4, BYTE_ONES, BYTE_ONES, has_vnni, vnni_512},
};
enum { N_LOOPS = sizeof LOOPS / sizeof *LOOPS, ROUNDS = 2000 }; // rounds between looks at the clock: some microseconds

const struct probe_arithmetic *probe_arithmetic(int32_t i)
{
    for (int32_t k = 0; k < N_LOOPS; k++)
        if (LOOPS[k].has() && !i--)
            return &LOOPS[k].is;
    return NULL;
}

const struct probe_arithmetic *probe_arithmetic_of(enum dtype type)
{
    const struct probe_arithmetic *found = NULL;
    for (int32_t k = 0; k < N_LOOPS; k++)
        if (LOOPS[k].is.type == type && LOOPS[k].has())
            found = &LOOPS[k].is;
    return found;
}

double probe_arithmetic_run(const struct probe_arithmetic *a, int64_t rounds)
{
    const struct loop *loop = (const struct loop *)(const void *)a; // its first member
    uint32_t operands[32];
    for (int i = 0; i < 16; i++)
        operands[i] = loop->x, operands[16 + i] = loop->y;
    loop->run(rounds, operands);
    return (double)rounds * SUMS * 2 * loop->multiplies * (loop->is.bits / 32);
}

struct computing {
    const struct probe_arithmetic *arithmetic;
    struct team *team;
    int64_t ns;
    struct work *work; // [members]
};
struct work { // of one member, on a cache line of its own
    _Alignas(64) double flops;
    int64_t begin_ns, end_ns;
};

static void compute(void *ctx, int32_t member, int32_t n_members)
{
    (void)n_members;
    const struct computing *c = ctx;
    double done = 0;
    team_barrier(c->team, member);
    int64_t begin = clock_ns(), now = begin;
    for (; now - begin < c->ns; now = clock_ns())
        done += probe_arithmetic_run(c->arithmetic, ROUNDS);
    c->work[member] = (struct work){.flops = done, .begin_ns = begin, .end_ns = now};
}

double probe_flops(struct team *team, const struct probe_arithmetic *a, int64_t ns)
{
    int32_t n = team_size(team);
    struct computing c = {a, team, ns, aligned_alloc(64, (size_t)n * sizeof *c.work)};
    double flops = 0;
    int64_t begin = INT64_MAX, end = 0;
    if (c.work && a) {
        team_run(team, compute, &c);
        for (int32_t i = 0; i < n; i++) {
            flops += c.work[i].flops;
            begin = c.work[i].begin_ns < begin ? c.work[i].begin_ns : begin;
            end = c.work[i].end_ns > end ? c.work[i].end_ns : end;
        }
    }
    free(c.work);
    return flops > 0 ? flops * 1e9 / (double)(end - begin + (end == begin)) : 0;
}
