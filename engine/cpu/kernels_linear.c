// Linear layers in f32 and bf16: a panel of weights times prepared rows. A tile of rows and outputs stays in registers while
// a piece of the panel passes; the sums wait in memory between pieces, so each runs through all columns in order, and
// neither tile nor company shows in it. The piece stays in the L1 cache while the tiles of more rows pass over it.
#include "engine/cpu/isa.h"
#include "engine/cpu/tile.h"

enum {
    ROW_TILE = 6, // with 4 vectors (AVX2: 2) of outputs: 24 (12) sums, and room for weights and an activation
    // Columns of a piece: 8 KiB of weights where one tile takes all rows and nothing is read twice, else 32 KiB.
    F32_SHORT = 32,
    F32_LONG = 128,
    BF16_SHORT = 64,
    BF16_LONG = 128,
};

// Vectors of outputs that go with n_rows rows.
SPECIALIZE int32_t vectors_for(int32_t n_rows)
{
    return VL == 16 ? 4 : n_rows == 1 ? 8 : n_rows == 2 ? 4 : 2;
}

SPECIALIZE void multiply_f32(bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors)
{
    const float *w = (const float *)(const void *)p->w + p->first;
    vf sum[ROW_TILE][8];
    struct fetch f = fetch_begin(p, PANEL * 4, p->n);
    load_sums(p, n_rows, n_vectors, sum);
    for (int32_t k = 0; k < p->n; k++, w += PANEL) {
        vf weight[8];
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++) {
            weight[v] = vf_load(w + v * VL);
            if (alone)
                fetch_ahead(p, (const uint8_t *)(const void *)(w + v * VL), v);
        }
        if (!alone)
            fetch_share(&f);
#pragma GCC unroll 8
        for (int32_t r = 0; r < n_rows; r++) {
            vf x = vf_set(((const float *)(const void *)(p->x + (uint64_t)r * p->x_stride))[k]);
#pragma GCC unroll 8
            for (int32_t v = 0; v < n_vectors; v++)
                sum[r][v] = vf_fma(weight[v], x, sum[r][v]);
        }
    }
    store_sums(p, n_rows, n_vectors, sum);
}

#ifdef __AVX512BF16__
SPECIALIZE vp pair_at(const uint8_t *row, int32_t i)
{
    uint32_t pair;
    memcpy(&pair, row + (uint64_t)i * PAIR_BYTES, sizeof pair);
    return vp_set(pair);
}
#else
SPECIALIZE vp pair_at(const uint8_t *row, int32_t i)
{
    const float *x = (const float *)(const void *)(row + (uint64_t)i * PAIR_BYTES);
    return (vp){vf_set(x[0]), vf_set(x[1])};
}
#endif

SPECIALIZE void multiply_bf16(bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors)
{
    const uint8_t *w = p->w + p->first * 4;
    vf sum[ROW_TILE][8];
    struct fetch f = fetch_begin(p, PANEL * 4, p->n);
    load_sums(p, n_rows, n_vectors, sum);
    for (int32_t k = 0; k < p->n; k++, w += PANEL * 4) { // pairs
        vp weight[8];
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++) {
            weight[v] = vp_load(w + v * VL * 4);
            if (alone)
                fetch_ahead(p, w + v * VL * 4, v);
        }
        if (!alone)
            fetch_share(&f);
#pragma GCC unroll 8
        for (int32_t r = 0; r < n_rows; r++) {
            vp x = pair_at(p->x + (uint64_t)r * p->x_stride, k);
#pragma GCC unroll 8
            for (int32_t v = 0; v < n_vectors; v++)
                sum[r][v] = vf_dot2(sum[r][v], weight[v], x);
        }
    }
    store_sums(p, n_rows, n_vectors, sum);
}

SPECIALIZE void tile(multiply m, bool alone, const struct piece *p, int32_t n_rows)
{
    switch (n_rows) {
    case 1: strips(m, alone, p, 1, vectors_for(1)); break;
    case 2: strips(m, alone, p, 2, vectors_for(2)); break;
    case 3: strips(m, alone, p, 3, vectors_for(3)); break;
    case 4: strips(m, alone, p, 4, vectors_for(4)); break;
    case 5: strips(m, alone, p, 5, vectors_for(5)); break;
    default: strips(m, alone, p, 6, vectors_for(6)); break;
    }
}

SPECIALIZE void tiles(multiply m, const struct linear_panel *a, struct piece *p)
{
    for (int32_t i = 0, row = 0, n; row < a->n_rows; i++, row += n) {
        n = next_tile(a, p, ROW_TILE, i, row);
        if (a->n_rows <= ROW_TILE)
            tile(m, true, p, n);
        else
            tile(m, false, p, n);
    }
}

void SYM(linear_bf16)(const struct linear_panel *a)
{
    const uint8_t *w = a->w->data + (uint64_t)a->panel * a->w->panel_bytes;
    int32_t n_pairs = (a->w->cols + 1) / 2, step = (a->n_rows <= ROW_TILE ? BF16_SHORT : BF16_LONG) / 2;
    for (int32_t k = 0; k < n_pairs; k += step) {
        struct piece p = {.w = w + (uint64_t)k * PANEL * 4, .x_at = (uint64_t)k * PAIR_BYTES, .more = k > 0};
        p.n = n_pairs - k < step ? n_pairs - k : step;
        p.ahead = ahead_of(p.w, k + step < n_pairs ? p.w + (uint64_t)step * PANEL * 4 : a->ahead);
        tiles(multiply_bf16, a, &p);
    }
}

// Codes to values: VL outputs from `first`, the four columns of quad q.
SPECIALIZE void widen_quad(vi codes, vf scale, vf min, bool with_min, int32_t offset, float *out)
{
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        vf value = vi_to_vf(vi_sub(vi_and(i ? vi_right(codes, 8 * i) : codes, vi_set(255)), vi_set(offset)));
        vf_store(out + i * PANEL, with_min ? vf_fma(scale, value, min) : vf_mul(scale, value));
    }
}

SPECIALIZE void widen_group(enum pack_form form, int32_t parts, const uint8_t *group, const float *row_scale, float *out)
{
    bool four = form == PACK_Q4 || form == PACK_Q4X, x = form == PACK_Q8X || form == PACK_Q4X;
    int32_t head = x ? parts * 2 * PANEL * 4 : form == PACK_INT8 ? 0 : PANEL * 2, offset = four ? x ? 0 : 8 : 128;
    for (int32_t first = 0; first < PANEL; first += VL)
        for (int32_t q = 0; q < GROUP / 4; q++) {
            const float *f = (const float *)(const void *)group + (parts * q / (GROUP / 4)) * 2 * PANEL + first;
            vf scale = form == PACK_INT8 ? vf_load(row_scale + first) : x ? vf_load(f) : vf_load_f16(group + first * 2);
            vf min = x ? vf_load(f + PANEL) : vf_zero();
            vi codes = four ? codes4(group + head, q, first) : codes8(group + head, q, first);
            widen_quad(codes, scale, min, x, offset, out + q * 4 * PANEL + first);
        }
}

// Columns k .. k+n-1 of a panel as f32 [n][PANEL].
SPECIALIZE void widen(enum pack_form form, const struct packed *w, const uint8_t *panel, int32_t k, int32_t n, float *out)
{
    const float *row_scale = (const float *)(const void *)(panel + w->panel_bytes) - PANEL;
    if (form == PACK_F16)
        for (int32_t i = 0; i < n * PANEL; i += VL)
            vf_store(out + i, vf_load_f16(panel + ((uint64_t)k * PANEL + (uint64_t)i) * 2));
    else if (form == PACK_BF16)
        for (int32_t i = 0; i < (n + 1) / 2 * PANEL; i += VL) {
            vi pairs = vi_load(panel + ((uint64_t)k / 2 * PANEL + (uint64_t)i) * 4);
            float *at = out + i / PANEL * 2 * PANEL + i % PANEL;
            vf_store(at, vi_bits(vi_left(pairs, 16)));
            vf_store(at + PANEL, vi_bits(vi_and(pairs, vi_set((int32_t)0xffff0000))));
        }
    else
        for (int32_t i = 0; i < n; i += GROUP) {
            const uint8_t *group = panel + (uint64_t)((k + i) / GROUP) * w->group_bytes;
            if (w->parts == 1)
                widen_group(form, 1, group, row_scale, out + i * PANEL);
            else
                widen_group(form, 2, group, row_scale, out + i * PANEL);
        }
}

// Of all forms, so that there is one copy of the tiles.
static __attribute__((noinline)) void piece_f32(const struct linear_panel *a, struct piece *p)
{
    tiles(multiply_f32, a, p);
}

SPECIALIZE void linear_f32(enum pack_form form, const struct linear_panel *a)
{
    const uint8_t *w = a->w->data + (uint64_t)a->panel * a->w->panel_bytes;
    int32_t cols = a->w->cols, step = a->n_rows <= ROW_TILE ? F32_SHORT : F32_LONG;
    for (int32_t k = 0; k < cols; k += step) {
        struct piece p = {.w = w + (uint64_t)k * PANEL * 4, .x_at = (uint64_t)k * 4, .more = k > 0};
        p.n = cols - k < step ? cols - k : step;
        p.ahead = ahead_of(p.w, k + step < cols ? p.w + (uint64_t)step * PANEL * 4 : a->ahead);
        if (form != PACK_F32) {
            widen(form, a->w, w, k, p.n, a->scratch);
            p.w = (const uint8_t *)a->scratch, p.ahead = 0;
        }
        piece_f32(a, &p);
    }
}

#define F32_KERNEL(name, form)                                                                                              \
    void SYM(linear_f32_##name)(const struct linear_panel *a)                                                               \
    {                                                                                                                       \
        linear_f32(form, a);                                                                                                \
    }
F32_KERNEL(f32, PACK_F32)
F32_KERNEL(f16, PACK_F16)
F32_KERNEL(bf16, PACK_BF16)
F32_KERNEL(int8, PACK_INT8)
F32_KERNEL(q8, PACK_Q8)
F32_KERNEL(q4, PACK_Q4)
F32_KERNEL(q8x, PACK_Q8X)
F32_KERNEL(q4x, PACK_Q4X)

void SYM(prepare_f32)(const float *x, int32_t n, void *row)
{
    memcpy(row, x, (size_t)n * sizeof *x);
}

#ifdef __AVX512BF16__
static void round_pairs(const float *x, uint8_t *row) // 2 * VL values
{
    vi_store(row, (vi)_mm512_cvtne2ps_pbh(vf_load(x + VL), vf_load(x)));
}
#else
// To the nearest, ties to even, as f32_to_bf16; kept as f32.
static vf round_bf16(vf x)
{
    vi bits = vf_bits(x), odd = vi_and(vi_right(bits, 16), vi_set(1));
    bits = vi_add(bits, vi_add(odd, vi_set(0x7fff)));
    return vi_bits(vi_and(bits, vi_set((int32_t)0xffff0000)));
}

static void round_pairs(const float *x, uint8_t *row)
{
    vf_store((float *)(void *)row, round_bf16(vf_load(x)));
    vf_store((float *)(void *)row + VL, round_bf16(vf_load(x + VL)));
}
#endif

void SYM(prepare_bf16)(const float *x, int32_t n, void *row)
{
    uint8_t *to = row;
    int32_t k = 0;
    for (; k + 2 * VL <= n; k += 2 * VL)
        round_pairs(x + k, to + k / 2 * PAIR_BYTES);
    if (k == n)
        return;
    float rest[2 * VL] = {0};
    uint8_t rounded[VL * PAIR_BYTES];
    memcpy(rest, x + k, (size_t)(n - k) * sizeof *x);
    round_pairs(rest, rounded);
    memcpy(to + k / 2 * PAIR_BYTES, rounded, (size_t)((n - k + 1) / 2 * PAIR_BYTES));
}
