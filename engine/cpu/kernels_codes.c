// Linear layers in int8: activations are quantized by row and group of 32 columns, a group's products are summed exactly in
// 32 bits, and the sums of groups in f32, in order. Tiles and pieces are those of kernels_linear.c.
#include "engine/cpu/isa.h"
#include "engine/cpu/tile.h"

#include <math.h>

enum {
    ROW_TILE = 3, // with 4 vectors (AVX2: 2) of outputs, each an integer and an f32 sum
    PIECE = 8,    // groups of 8 bits, twice as many of 4: up to 18 KiB of weights; two pieces stay in the L1 cache
};

// One group of a prepared row: a cache line.
struct quantized {
    int8_t code[GROUP];
    float scale;
    int32_t start8, start4; // where sums begin so that the offsets of weights' codes cancel: +128, and +8 in 4 bits
    int32_t half8[2];       // likewise for each half of the columns
    float sum[2];           // of each half: scale times the sum of codes
    uint32_t unused;
};
_Static_assert(sizeof(struct quantized) == 64, "a cache line");

// The last canonical form: what the X forms are unpacked to, since their types are many and their use is rare.
enum { CANONICAL_HEAD = 4 * PANEL * 4, CANONICAL_BYTES = CANONICAL_HEAD + CODES };

SPECIALIZE const struct quantized *group_of(const struct piece *p, int32_t r, int32_t g)
{
    return (const struct quantized *)(const void *)(p->x + (uint64_t)r * p->x_stride) + g;
}

SPECIALIZE vi quad_of(const struct quantized *x, int32_t quad)
{
    int32_t four;
    memcpy(&four, x->code + quad * 4, sizeof four);
    return vi_set(four);
}

// acc[r][v] += the products of four columns.
SPECIALIZE void dot_quad(bool four, const struct piece *p, const vi *weight, int32_t g, int32_t q, int32_t n_rows,
                         int32_t n_vectors, vi acc[][8])
{
#pragma GCC unroll 8
    for (int32_t r = 0; r < n_rows; r++) {
        vi x = quad_of(group_of(p, r, g), q);
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++)
            acc[r][v] = four ? vi_dot4(acc[r][v], weight[v], x) : vi_dot4_i8(acc[r][v], weight[v], x);
    }
}

// acc[r][v] += the products of one line of codes, [PANEL][4] bytes, of which 4 bits hold two quads.
SPECIALIZE void dot_line(bool four, bool alone, const struct piece *p, const uint8_t *line, int32_t g, int32_t q,
                         struct fetch *f, int32_t n_rows, int32_t n_vectors, vi acc[][8])
{
    vi weight[8], nibble[8];
    line += p->first * 4;
#pragma GCC unroll 8
    for (int32_t v = 0; v < n_vectors; v++) {
        weight[v] = vi_keep(vi_load(line + v * VL * 4));
        if (alone)
            fetch_ahead(p, line + v * VL * 4, v);
    }
    if (!alone)
        fetch_share(f);
    if (!four) {
        dot_quad(false, p, weight, g, q, n_rows, n_vectors, acc);
        return;
    }
#pragma GCC unroll 2
    for (int32_t high = 0; high < 2; high++) {
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++)
            nibble[v] = vi_nibbles(weight[v], high);
        dot_quad(true, p, nibble, g, q + high * GROUP / 8, n_rows, n_vectors, acc);
    }
}

// Loops that wait for memory are short, those that compute are not.
SPECIALIZE void dot_group(bool four, bool alone, const struct piece *p, const uint8_t *codes, int32_t g, int32_t begin,
                          int32_t end, struct fetch *f, int32_t n_rows, int32_t n_vectors, vi acc[][8])
{
    if (alone)
#pragma GCC unroll 2
        for (int32_t q = begin; q < end; q++)
            dot_line(four, true, p, codes + q * PANEL * 4, g, q, f, n_rows, n_vectors, acc);
    else
#pragma GCC unroll 8
        for (int32_t q = begin; q < end; q++)
            dot_line(four, false, p, codes + q * PANEL * 4, g, q, f, n_rows, n_vectors, acc);
}

SPECIALIZE void multiply_codes(enum pack_form form, bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors)
{
    const bool four = form == PACK_Q4;
    const uint64_t head = form == PACK_INT8 ? 0 : PANEL * 2, group_bytes = head + CODES / (four ? 2 : 1);
    const int32_t steps = GROUP / (four ? 8 : 4); // lines
    vf sum[ROW_TILE][8];
    struct fetch f = fetch_begin(p, group_bytes / (uint64_t)steps, p->n * steps);
    load_sums(p, n_rows, n_vectors, sum);
    for (int32_t g = 0; g < p->n; g++) {
        const uint8_t *group = p->w + (uint64_t)g * group_bytes;
        vi acc[ROW_TILE][8];
#pragma GCC unroll 8
        for (int32_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
            for (int32_t v = 0; v < n_vectors; v++)
                acc[r][v] = vi_set(four ? group_of(p, r, g)->start4 : group_of(p, r, g)->start8);
        for (uint64_t i = 0; alone && i < head; i += 64)
            fetch_line(group + i + p->ahead);
        dot_group(four, alone, p, group + head, g, 0, steps, &f, n_rows, n_vectors, acc);
#pragma GCC unroll 8
        for (int32_t v = 0; v < n_vectors; v++) {
            vf scale = form == PACK_INT8 ? vf_zero() : vf_load_f16(group + (p->first + v * VL) * 2);
#pragma GCC unroll 8
            for (int32_t r = 0; r < n_rows; r++) {
                vf both = vf_set(group_of(p, r, g)->scale);
                if (form != PACK_INT8)
                    both = vf_mul(scale, both);
                sum[r][v] = vf_fma(vi_to_vf(acc[r][v]), both, sum[r][v]);
            }
        }
    }
    store_sums(p, n_rows, n_vectors, sum);
}

// Groups of two halves, each with scale and min: y += scale_w * scale_x * dot + min * (scale_x * sum of x).
SPECIALIZE void multiply_canonical(bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors)
{
    vf sum[ROW_TILE][8];
    struct fetch none = fetch_begin(p, 0, 0);
    load_sums(p, n_rows, n_vectors, sum);
    for (int32_t g = 0; g < p->n; g++)
#pragma GCC unroll 2
        for (int32_t half = 0; half < 2; half++) {
            const uint8_t *group = p->w + (uint64_t)g * CANONICAL_BYTES;
            const float *f = (const float *)(const void *)group + half * 2 * PANEL + p->first;
            vi acc[ROW_TILE][8];
#pragma GCC unroll 8
            for (int32_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
                for (int32_t v = 0; v < n_vectors; v++)
                    acc[r][v] = vi_set(group_of(p, r, g)->half8[half]);
            dot_group(false, alone, p, group + CANONICAL_HEAD, g, half * GROUP / 8, (half + 1) * GROUP / 8, &none, n_rows,
                      n_vectors, acc);
#pragma GCC unroll 8
            for (int32_t v = 0; v < n_vectors; v++)
#pragma GCC unroll 8
                for (int32_t r = 0; r < n_rows; r++) {
                    const struct quantized *x = group_of(p, r, g);
                    vf scale = vf_mul(vf_load(f + v * VL), vf_set(x->scale));
                    sum[r][v] = vf_fma(vi_to_vf(acc[r][v]), scale, sum[r][v]);
                    sum[r][v] = vf_fma(vf_load(f + PANEL + v * VL), vf_set(x->sum[half]), sum[r][v]);
                }
        }
    store_sums(p, n_rows, n_vectors, sum);
}

#define MULTIPLY(name, form)                                                                                                \
    SPECIALIZE void multiply_##name(bool alone, const struct piece *p, int32_t n_rows, int32_t n_vectors)                   \
    {                                                                                                                       \
        multiply_codes(form, alone, p, n_rows, n_vectors);                                                                  \
    }
MULTIPLY(int8, PACK_INT8)
MULTIPLY(q8, PACK_Q8)
MULTIPLY(q4, PACK_Q4)

SPECIALIZE void tiles(multiply m, const struct linear_panel *a, struct piece *p)
{
    const int32_t few = VL == 16 ? 4 : 2;
    for (int32_t i = 0, row = 0, n; row < a->n_rows; i++, row += n) {
        n = next_tile(a, p, ROW_TILE, i, row);
        switch (a->n_rows <= ROW_TILE ? -n : n) {
        case -1: strips(m, true, p, 1, 4); break;
        case -2: strips(m, true, p, 2, few); break;
        case -3: strips(m, true, p, 3, few); break;
        case 2: strips(m, false, p, 2, few); break;
        default: strips(m, false, p, 3, few); break;
        }
    }
}

static int32_t n_groups(const struct packed *w)
{
    return (w->cols + GROUP - 1) / GROUP;
}

SPECIALIZE void linear_codes(multiply m, const struct linear_panel *a)
{
    const uint8_t *w = a->w->data + (uint64_t)a->panel * a->w->panel_bytes;
    int32_t n = n_groups(a->w), step = a->w->form == PACK_Q4 ? 2 * PIECE : PIECE;
    for (int32_t g = 0; g < n; g += step) {
        struct piece p = {.w = w + (uint64_t)g * a->w->group_bytes, .more = g > 0};
        p.x_at = (uint64_t)g * sizeof(struct quantized);
        p.n = n - g < step ? n - g : step;
        p.ahead = ahead_of(p.w, g + step < n ? p.w + (uint64_t)step * a->w->group_bytes : a->ahead);
        tiles(m, a, &p);
    }
}

void SYM(linear_int8_q8)(const struct linear_panel *a)
{
    linear_codes(multiply_q8, a);
}

void SYM(linear_int8_q4)(const struct linear_panel *a)
{
    linear_codes(multiply_q4, a);
}

// One scale per output: it comes last.
void SYM(linear_int8_int8)(const struct linear_panel *a)
{
    const uint8_t *end = a->w->data + (uint64_t)(a->panel + 1) * a->w->panel_bytes;
    const float *scale = (const float *)(const void *)end - PANEL;
    linear_codes(multiply_int8, a);
    for (int32_t i = 0; i < a->n_rows * PANEL; i += VL)
        vf_store(a->sum + i, vf_mul(vf_load(a->sum + i), vf_load(scale + i % PANEL)));
}

// One group of an X form with both halves' scales, and codes of 8 bits.
SPECIALIZE void unpack_group(bool four, const uint8_t *group, int32_t parts, uint8_t *out)
{
    const uint8_t *codes = group + parts * 2 * PANEL * 4;
    memcpy(out, group, 2 * PANEL * 4);
    memcpy(out + 2 * PANEL * 4, group + (parts - 1) * 2 * PANEL * 4, 2 * PANEL * 4);
    for (int32_t q = 0; q < GROUP / 4; q++)
        for (int32_t first = 0; first < PANEL; first += VL) {
            vi c = four ? vi_xor(codes4(codes, q, first), vi_set((int32_t)0x80808080)) : codes8(codes, q, first);
            vi_store(out + CANONICAL_HEAD + (q * PANEL + first) * 4, c);
        }
}

SPECIALIZE void linear_x(bool four, const struct linear_panel *a)
{
    enum { STEP = 8 };
    _Static_assert(STEP * CANONICAL_BYTES <= LINEAR_SCRATCH_BYTES, "room for a piece");
    const uint8_t *w = a->w->data + (uint64_t)a->panel * a->w->panel_bytes;
    int32_t n = n_groups(a->w);
    for (int32_t g = 0; g < n; g += STEP) {
        struct piece p = {.w = (const uint8_t *)a->scratch, .x_at = (uint64_t)g * sizeof(struct quantized), .more = g > 0};
        p.n = n - g < STEP ? n - g : STEP;
        for (int32_t i = 0; i < p.n; i++)
            unpack_group(four, w + (uint64_t)(g + i) * a->w->group_bytes, a->w->parts,
                         (uint8_t *)a->scratch + i * CANONICAL_BYTES);
        tiles(multiply_canonical, a, &p);
    }
}

void SYM(linear_int8_q8x)(const struct linear_panel *a)
{
    linear_x(false, a);
}

void SYM(linear_int8_q4x)(const struct linear_panel *a)
{
    linear_x(true, a);
}

// Symmetric absmax: the largest magnitude becomes 127.
static void quantize_group(const float *x, struct quantized *out)
{
    vf high = vf_zero();
    for (int32_t i = 0; i < GROUP; i += VL)
        high = vf_max(high, vf_abs(vf_load(x + i)));
    float max = vf_highest(high), inverse = max > 0 ? 127 / max : 0;
    int32_t sum[2] = {0};
    for (int32_t i = 0; i < GROUP; i += VL) {
        vi code = vf_to_vi(vf_mul(vf_load(x + i), vf_set(inverse)));
        vi_store_i8(out->code + i, code);
        sum[2 * i / GROUP] += vi_sum(code);
    }
    out->scale = max / 127;
    out->start8 = dot4_start(sum[0] + sum[1]);
    out->start4 = -8 * (sum[0] + sum[1]);
    for (int half = 0; half < 2; half++) {
        out->half8[half] = dot4_start(sum[half]);
        out->sum[half] = out->scale * (float)sum[half];
    }
}

void SYM(prepare_int8)(const float *x, int32_t n, void *row)
{
    struct quantized *to = row;
    int32_t k = 0;
    for (; k + GROUP <= n; k += GROUP)
        quantize_group(x + k, to++);
    if (k == n)
        return;
    float rest[GROUP] = {0};
    memcpy(rest, x + k, (size_t)(n - k) * sizeof *x);
    quantize_group(rest, to);
}
