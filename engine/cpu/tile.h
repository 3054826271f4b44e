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
    const uint8_t *ahead;  // what is read after this piece, fetched meanwhile; NULL: nothing
    uint64_t ahead_bytes;  // of a group there (kernels_codes.c)
    int32_t turn, n_tiles; // the tiles that pass over a piece fetch in turn, so that memory is never idle
};

// Adds a piece to the sums of n_rows x (n_vectors x VL outputs); both counts constants.
typedef void (*multiply)(const struct piece *p, int32_t n_rows, int32_t n_vectors);

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

// Steps of a tile until it is its turn to fetch.
SPECIALIZE int32_t first_turn(const struct piece *p)
{
    return p->ahead ? p->turn : -1;
}

// One step's part of what comes next, n_lines cache lines from byte `at`.
SPECIALIZE void fetch(const struct piece *p, int32_t *wait, uint64_t at, int32_t n_lines)
{
    if ((*wait)-- != 0)
        return;
#pragma GCC unroll 8
    for (int32_t i = 0; i < n_lines; i++)
        _mm_prefetch((const char *)p->ahead + at + i * 64, _MM_HINT_T0);
    *wait = p->n_tiles - 1;
}

// Rows are parted evenly over tiles of at most `most`: a tile of one or two at the end would wait for its own sums. Returns
// how many rows tile `i` takes from `row`.
SPECIALIZE int32_t next_tile(const struct linear_panel *a, struct piece *p, int32_t most, int32_t i, int32_t row)
{
    p->n_tiles = (a->n_rows + most - 1) / most, p->turn = i;
    p->x = a->x + (uint64_t)row * a->x_stride + p->x_at;
    p->x_stride = a->x_stride;
    p->sum = a->sum + (int64_t)row * PANEL;
    return (a->n_rows - row + p->n_tiles - i - 1) / (p->n_tiles - i);
}

// All outputs of the panel, n_vectors at a time.
SPECIALIZE void strips(multiply m, const struct piece *piece, int32_t n_rows, int32_t n_vectors)
{
    struct piece p = *piece;
    for (p.first = 0; p.first < PANEL; p.first += n_vectors * VL) {
        m(&p, n_rows, n_vectors);
        p.ahead = NULL;
    }
}

// Keeps weights in their register for all rows: compilers would rather load them again.
SPECIALIZE vi vi_keep(vi x)
{
    __asm__("" : "+x"(x));
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
