#include "engine/cpu/probe.h"

#include "engine/base/units.h"
#include "engine/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ROUND = 64 * 8,        // bytes a read kernel takes per round
    LINES = 3 * ROUND,     // what members' parts are multiples of: three arrays, whole rounds each
    HUGE_PAGE = 2 << 20,   //
    PIECE = 2 << 20,       // bytes of one array between looks at the clock: tens of microseconds
    LEAST_PIECE = 16 << 10 // small sets are gone over again instead
};

// Of one member, on cache lines of its own.
struct place {
    _Alignas(64) uint64_t at; // in each array of its part, where the next window begins
    uint64_t moved;           // bytes in this window
    int64_t begin_ns, end_ns;
};

struct probe_buffer {
    uint8_t *memory;
    uint64_t bytes;
    bool huge_pages;
    struct place *place;    // [members]
    struct probe_loop loop; // of the last window
    uint64_t set;           // of that
};

const char *probe_action_name(enum probe_action action)
{
    static const char *const NAME[PROBE_ACTIONS] = {"read", "copy", "triad", "memcpy"};
    return NAME[action];
}

// Bytes of one member's part of `bytes`, a whole number of rounds in up to three arrays.
static uint64_t part_bytes(uint64_t bytes, int32_t n_members)
{
    return bytes / (uint64_t)n_members / LINES * LINES;
}

static void touch(void *ctx, int32_t member, int32_t n_members)
{
    const struct probe_buffer *b = ctx;
    uint64_t part = part_bytes(b->bytes, n_members);
    memset(b->memory + part * (uint64_t)member, 0, part); // f32 zeros: triads of them stay normal
}

bool probe_buffer_open(struct probe_buffer **out, struct team *team, uint64_t bytes, bool huge_pages, struct error *e)
{
    size_t places = (size_t)team_size(team) * sizeof(struct place);
    *out = NULL;
    struct probe_buffer *b = calloc(1, sizeof *b);
    struct place *place = aligned_alloc(64, places);
    if (b && place) {
        memset(place, 0, places);
        bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        *b = (struct probe_buffer){.bytes = bytes, .huge_pages = huge_pages, .place = place};
        b->memory = memory_map(b->bytes, "the read probe", e);
    } else {
        error_set(e, ERROR_MEMORY, "no memory for a probe");
    }
    if (!b || !place || !b->memory) {
        free(place);
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
    free(b->place);
    free(b);
}

uint64_t probe_buffer_bytes(const struct probe_buffer *b)
{
    return b->bytes;
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

struct moving {
    struct probe_buffer *buffer;
    struct team *team;
    const struct cpu_kernels *kernels;
    int32_t arrays; // that each part consists of
    bool whole;     // rounds
    int64_t ns;
};

// `bytes` of each array from `at` on.
static void move_piece(const struct moving *m, uint8_t *part, uint64_t array, uint64_t at, uint64_t bytes)
{
    const struct probe_loop *loop = &m->buffer->loop;
    uint8_t *a = part + at, *b = a + array, *c = b + array;
    if (loop->action == PROBE_READ)
        m->kernels->stream(a, bytes, loop->streams);
    else if (loop->action == PROBE_MEMCPY)
        memcpy(b, a, bytes);
    else
        m->kernels->move((float *)(void *)a, (float *)(void *)b, loop->action == PROBE_TRIAD ? (float *)(void *)c : NULL,
                         bytes / sizeof(float), loop->past_cache);
}

static void move_part(void *ctx, int32_t member, int32_t n_members)
{
    const struct moving *m = ctx;
    struct probe_buffer *b = m->buffer;
    struct place *place = &b->place[member];
    uint8_t *part = b->memory + part_bytes(b->bytes, n_members) * (uint64_t)member;
    uint64_t array = part_bytes(b->set, n_members) / (uint64_t)m->arrays, at = m->whole ? 0 : place->at, moved = 0;
    team_barrier(m->team, member);
    int64_t begin = clock_ns(), now = begin;
    for (; now - begin < m->ns || !moved || (m->whole && at); now = clock_ns())
        for (uint64_t done = 0; done < LEAST_PIECE;) {
            uint64_t piece = array - at < PIECE ? array - at : PIECE;
            move_piece(m, part, array, at, piece);
            done += piece;
            moved += piece;
            at = at + piece < array ? at + piece : 0;
        }
    *place = (struct place){.at = at, .moved = moved * (uint64_t)m->arrays, .begin_ns = begin, .end_ns = now};
}

static double rate_of(const struct place *place, int32_t n)
{
    int64_t begin = place[0].begin_ns, end = place[0].end_ns;
    double moved = 0;
    for (int32_t i = 0; i < n; i++) {
        moved += (double)place[i].moved;
        begin = place[i].begin_ns < begin ? place[i].begin_ns : begin;
        end = place[i].end_ns > end ? place[i].end_ns : end;
    }
    return moved * 1e9 / (double)(end - begin + (end == begin));
}

double probe_window(struct probe_buffer *b, struct team *team, struct probe_loop loop, uint64_t bytes, int64_t ns)
{
    int32_t n = team_size(team), arrays = loop.action == PROBE_READ ? 1 : loop.action == PROBE_TRIAD ? 3 : 2;
    uint64_t least = (uint64_t)n * LINES * 2;
    bool whole = bytes > 0;
    if (!bytes || bytes > b->bytes)
        bytes = b->bytes;
    if (bytes < least)
        bytes = least;
    if (b->loop.action != loop.action)
        for (int32_t i = 0; i < n; i++)
            b->place[i].at = 0; // of other arrays
    b->set = bytes;
    b->loop = loop;
    team_run(team, move_part, &(struct moving){b, team, cpu_kernels_best(), arrays, whole, ns});
    return rate_of(b->place, n);
}

static void nothing(void *ctx, int32_t member, int32_t n_members)
{
    (void)ctx, (void)member, (void)n_members;
}

double probe_fork_join(struct team *team, int32_t n)
{
    int64_t begin = clock_ns();
    for (int32_t i = 0; i < n; i++)
        team_run(team, nothing, NULL);
    return (double)(clock_ns() - begin) / n;
}

struct meeting {
    struct team *team;
    int32_t n;
};

static void meet(void *ctx, int32_t member, int32_t n_members)
{
    const struct meeting *m = ctx;
    (void)n_members;
    for (int32_t i = 0; i < m->n; i++)
        team_barrier(m->team, member);
}

double probe_barrier(struct team *team, int32_t n)
{
    int64_t begin = clock_ns();
    team_run(team, meet, &(struct meeting){team, n});
    return (double)(clock_ns() - begin) / n;
}
