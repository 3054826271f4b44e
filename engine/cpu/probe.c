#include "engine/cpu/probe.h"

#include "engine/base/units.h"
#include "engine/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUND = 64 * 8, HUGE_PAGE = 2 << 20 }; // bytes a read kernel takes per round

struct probe_buffer {
    uint8_t *memory;
    uint64_t bytes; // a multiple of ROUND for each member
    bool huge_pages;
};

// Bytes of one member's part of `bytes`, a whole number of rounds.
static uint64_t part_bytes(uint64_t bytes, int32_t n_members)
{
    return bytes / (uint64_t)n_members / ROUND * ROUND;
}

static void touch(void *ctx, int32_t member, int32_t n_members)
{
    const struct probe_buffer *b = ctx;
    uint64_t part = part_bytes(b->bytes, n_members);
    memset(b->memory + part * (uint64_t)member, 1 + member, part);
}

bool probe_buffer_open(struct probe_buffer **out, struct team *team, uint64_t bytes, bool huge_pages, struct error *e)
{
    *out = NULL;
    struct probe_buffer *b = calloc(1, sizeof *b);
    if (!b)
        return error_set(e, ERROR_MEMORY, "no memory for a probe");
    *b = (struct probe_buffer){.bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, .huge_pages = huge_pages};
    b->memory = memory_map(b->bytes, "the read probe", e);
    if (!b->memory) {
        free(b);
        return false;
    }
    if (!huge_pages)
        (void)madvise(b->memory, b->bytes, MADV_NOHUGEPAGE);
    team_run(team, touch, b);
    *out = b;
    return true;
}

void probe_buffer_close(struct probe_buffer *b)
{
    if (!b)
        return;
    memory_unmap(b->memory, b->bytes);
    free(b);
}

struct reading {
    const struct probe_buffer *buffer;
    uint64_t bytes;
    int32_t n_streams;
    void (*stream)(const uint8_t *, uint64_t, int32_t);
};

static void read_part(void *ctx, int32_t member, int32_t n_members)
{
    const struct reading *r = ctx;
    // Each member reads what it touched first, however much of it.
    uint64_t whole = part_bytes(r->buffer->bytes, n_members), part = part_bytes(r->bytes, n_members);
    r->stream(r->buffer->memory + whole * (uint64_t)member, part, r->n_streams);
}

double probe_read(struct probe_buffer *b, struct team *team, uint64_t bytes, int32_t n_streams)
{
    if (!bytes || bytes > b->bytes)
        bytes = b->bytes;
    struct reading r = {b, bytes, n_streams, cpu_kernels_best()->stream};
    int64_t begin = clock_ns();
    team_run(team, read_part, &r);
    int64_t ns = clock_ns() - begin;
    return (double)(part_bytes(bytes, team_size(team)) * (uint64_t)team_size(team)) * 1e9 / (double)(ns + !ns);
}

struct computing {
    double (*flops)(int64_t n);
    int64_t ns;
    double *rate; // [members] FLOP/s
};

// Some microseconds of work between looks at the clock.
static void compute(void *ctx, int32_t member, int32_t n_members)
{
    (void)n_members;
    const struct computing *c = ctx;
    enum { STEPS = 2000 };
    double done = 0;
    int64_t begin = clock_ns(), now = begin;
    for (; now - begin < c->ns; now = clock_ns())
        done += c->flops(STEPS);
    c->rate[member] = done * 1e9 / (double)(now - begin);
}

// The widest arithmetic of a type that this CPU has (AVX-512 does not imply its integer products); NULL: none.
static double (*widest(enum dtype type))(int64_t)
{
    const struct cpu_kernels *const wide_to_narrow[] = {&cpu_kernels_avx512, &cpu_kernels_avx2, &cpu_kernels_ref};
    for (int i = 0; i < 3; i++) {
        double (*flops)(int64_t) = wide_to_narrow[i]->flops[type];
        if (flops && cpu_kernels_runnable(wide_to_narrow[i]) && flops(1) > 0)
            return flops;
    }
    return NULL;
}

double probe_flops(struct team *team, enum dtype type, int64_t ns)
{
    int32_t n = team_size(team);
    struct computing c = {widest(type), ns, calloc((size_t)n, sizeof *c.rate)};
    double sum = 0;
    if (c.rate && c.flops) {
        team_run(team, compute, &c);
        for (int32_t i = 0; i < n; i++)
            sum += c.rate[i];
    }
    free(c.rate);
    return sum;
}
