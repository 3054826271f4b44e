// What the kernels of linear layers share: a piece of a panel, and tiles of sums over it. Included by kernels_*.c.
#ifndef ENGINE_CPU_TILE_H
#define ENGINE_CPU_TILE_H

#include "engine/cpu/kernels.h"
#include "engine/cpu/simd.h"

#ifdef __AVX512BF16__
enum { PAIR_BYTES = 4 }; // two activations in bf16
#else
enum { PAIR_BYTES = 8 }; // likewise rounded, but widened to f32 again
#endif

// Some columns of a panel, and the rows of one tile.
struct piece {
    const uint8_t *w, *x; // of the piece and of the tile's first row
    uint64_t x_stride, x_at;
    float *sum;            // [rows][PANEL] of the tile
    int32_t n;             // columns, pairs or groups
    int32_t first;         // output within the panel
    bool more;             // not the first piece: sums go on
    int64_t ahead;         // from here to what is read after this piece, fetched meanwhile; 0: nothing
    int32_t turn, n_turns; // of the tiles, and their strips, that pass over this piece and fetch a share each
};

// Adds a piece to the sums of n_rows x (n_vectors x VL outputs); alone: one tile takes all rows. All but the piece
// constants.
typedef void (*multiply)(bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors);

SPECIALIZE void load_sums(const struct piece *p, int32_t n_rows, int32_t n_vectors, vf sum[][8])
{
#pragma GCC unroll 8
    for (int32_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++)
            sum[r][v] = p->more ? vf_load(p->sum + r * PANEL + p->first + v * VL) : vf_zero();
}

SPECIALIZE void store_sums(const struct piece *p, int32_t n_rows, int32_t n_vectors, vf sum[][8])
{
#pragma GCC unroll 8
    for (int32_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++)
            vf_store(p->sum + r * PANEL + p->first + v * VL, sum[r][v]);
}

// From a piece to the next, which is NULL where there is none.
SPECIALIZE int64_t ahead_of(const uint8_t *w, const uint8_t *next)
{
    return next ? (int64_t)((uintptr_t)next - (uintptr_t)w) : 0;
}

// In assembly: compilers move prefetches together, and a crowd of them holds up the loads behind it (one row of Q8_0: 42
// GB/s where prefetches and loads that take turns reach 50). No branches around them either: what is seldom taken is put
// elsewhere.
SPECIALIZE void fetch_line(const uint8_t *at)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*at));
}

// A tile alone fetches beside each vector of weights (the v-th of a step) what lies ahead of it.
SPECIALIZE void fetch_ahead(const struct piece *p, const uint8_t *vector, int32_t v)
{
    if (v * VL % 16 == 0)
        fetch_line(vector + p->ahead);
}

// In company a tile fetches its share, one stretch, evenly over its steps.
struct fetch {
    const uint8_t *next;
    uint64_t pace; // bytes per step
};

SPECIALIZE struct fetch fetch_begin(const struct piece *p, uint64_t step_bytes, int32_t n_steps)
{
    uint64_t pace = p->ahead ? step_bytes / (uint64_t)p->n_turns : 0;
    return (struct fetch){p->w + p->ahead + pace * (uint64_t)n_steps * (uint64_t)p->turn, pace};
}

SPECIALIZE void fetch_share(struct fetch *f)
{
    fetch_line(f->next);
    fetch_line(f->next + 64);
    f->next += f->pace;
}

// Rows are parted evenly over tiles of at most `most`: a tile of one or two at the end would wait for its own sums. Returns
// how many rows tile `i` takes from `row`.
SPECIALIZE int32_t next_tile(const struct linear_panel *a, struct piece *p, int32_t most, int32_t i, int32_t row)
{
    p->n_turns = (a->n_rows + most - 1) / most, p->turn = i;
    p->x = a->x + (uint64_t)row * a->x_stride + p->x_at;
    p->x_stride = a->x_stride;
    p->sum = a->sum + (int64_t)row * PANEL;
    return (a->n_rows - row + p->n_turns - i - 1) / (p->n_turns - i);
}

// All outputs of the panel, n_vectors at a time.
SPECIALIZE void strips(multiply m, bool alone, const struct piece *piece, int32_t n_rows, int32_t n_vectors)
{
    const int32_t n = PANEL / (n_vectors * VL);
    struct piece p = *piece;
    p.turn *= n, p.n_turns *= n;
    for (; p.first < PANEL; p.first += n_vectors * VL, p.turn++)
        m(alone, &p, n_rows, n_vectors);
}

// Keeps weights in their register for all rows: compilers would rather load them again; and loads in order among prefetches.
SPECIALIZE vi vi_keep(vi x)
{
    __asm__ volatile("" : "+v"(x));
    return x;
}

// The codes of VL outputs from `first`, four columns each.
SPECIALIZE vi codes8(const uint8_t *codes, int32_t quad, int32_t first)
{
    return vi_load(codes + (quad * PANEL + first) * 4);
}

SPECIALIZE vi codes4(const uint8_t *codes, int32_t quad, int32_t first)
{
    vi bytes = vi_load(codes + (quad % (GROUP / 8) * PANEL + first) * 4);
    return vi_nibbles(bytes, quad >= GROUP / 8);
}

#endif
