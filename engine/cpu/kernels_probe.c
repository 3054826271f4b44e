// What the machine can do at most: arithmetic that never leaves the registers, and reads that do nothing else.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

// The arithmetic loops are written out, for a compiler may fold them, hoist them or keep sums in memory. `body` is repeated
// for each independent sum \\r (more of them than latency x units); %1 and %2 are its operands. n rounds.
#define CHAINS(n, registers, move, body, x, y)                                                                              \
    __asm__ volatile(".irp r," registers "\n\t" move "\n\t.endr\n"                                                          \
                     "1:\n\t.irp r," registers "\n\t" body "\n\t.endr\n\t"                                                  \
                     "dec %0\n\tjnz 1b"                                                                                     \
                     : "+r"(n)                                                                                              \
                     : "x"(x), "x"(y)                                                                                       \
                     : "cc", CLOBBERS)

#ifdef __AVX512F__

#define REGISTERS "4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27"
#define CLOBBERS                                                                                                            \
    "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", \
        "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"
#define MOVE "vmovaps %1, %%zmm\\r"
enum { SUMS = 24 };

double SYM(flops_f32)(int64_t n)
{
    double flops = (double)n * SUMS * VL * 2;
    CHAINS(n, REGISTERS, MOVE, "vfmadd213ps %2, %1, %%zmm\\r", vf_set(0.999f), vf_set(1e-3f));
    return flops;
}

// vdpbf16ps: two multiply-adds per lane; pairs of 1.
double SYM(flops_bf16)(int64_t n)
{
    double flops = (double)n * SUMS * VL * 4;
    if (!__builtin_cpu_supports("avx512bf16"))
        return 0;
    CHAINS(n, REGISTERS, MOVE, "vdpbf16ps %2, %1, %%zmm\\r", vi_set(0x3f803f80), vi_set(0x3f803f80));
    return flops;
}

// vpdpbusd: four multiply-adds per lane.
double SYM(flops_int8)(int64_t n)
{
    double flops = (double)n * SUMS * VL * 8;
    if (!__builtin_cpu_supports("avx512vnni"))
        return 0;
    CHAINS(n, REGISTERS, MOVE, "vpdpbusd %2, %1, %%zmm\\r", vi_set(0x01010101), vi_set(0x01010101));
    return flops;
}

#else

#define REGISTERS "4,5,6,7,8,9,10,11,12,13,14,15"
#define CLOBBERS "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define MOVE "vmovaps %1, %%ymm\\r"
enum { SUMS = 12 };

double SYM(flops_f32)(int64_t n)
{
    double flops = (double)n * SUMS * VL * 2;
    CHAINS(n, REGISTERS, MOVE, "vfmadd213ps %2, %1, %%ymm\\r", vf_set(0.999f), vf_set(1e-3f));
    return flops;
}

double SYM(flops_bf16)(int64_t n)
{
    (void)n;
    return 0;
}

// Bytes by bytes to pairs in 16 bits, those by 1 to 32 bits, the sum: four multiply-adds per lane.
double SYM(flops_int8)(int64_t n)
{
    double flops = (double)n * SUMS * VL * 8;
    CHAINS(n, REGISTERS, MOVE,
           "vpmaddubsw %1, %1, %%ymm3\n\tvpmaddwd %2, %%ymm3, %%ymm3\n\tvpaddd %%ymm3, %%ymm\\r, %%ymm\\r",
           vi_set(0x01010101), vi_set(0x00010001));
    return flops;
}

#endif

enum { LINE = 64, LINES = 8 }; // cache lines read per round

SPECIALIZE void stream(const uint8_t *p, uint64_t bytes, int32_t n_streams)
{
    const uint64_t part = bytes / (uint64_t)n_streams;
    vf any[LINES];
    for (int i = 0; i < LINES; i++)
        any[i] = vf_zero();
    for (uint64_t at = 0; at < part; at += (uint64_t)(LINES / n_streams * LINE))
#pragma GCC unroll 8
        for (int32_t i = 0; i < LINES; i++) {
            const uint8_t *line = p + (uint64_t)(i % n_streams) * part + at + (uint64_t)(i / n_streams * LINE);
#pragma GCC unroll 2
            for (int32_t k = 0; k < LINE; k += VL * 4)
                any[i] = vi_bits(vi_or(vf_bits(any[i]), vf_bits(vf_load((const float *)(const void *)(line + k)))));
        }
    for (int i = 0; i < LINES; i++)
        __asm__ volatile("" : : "x"(any[i])); // somebody might look at it
}

void SYM(stream)(const uint8_t *p, uint64_t bytes, int32_t n_streams)
{
    switch (n_streams) {
    case 2: stream(p, bytes, 2); break;
    case 4: stream(p, bytes, 4); break;
    case 8: stream(p, bytes, 8); break;
    default: stream(p, bytes, 1); break;
    }
}
