// Attention over one part of the context, and rounding of K and V to storage.
//
// Tiles of ATTN_TILE positions are widened to f32 once for all queries: K transposed ([head_dim][position], so that a score
// needs no sum across lanes), V as it is. Then S = q K^T, an online softmax, and acc = acc * correction + P V. Tiles start
// at multiples of ATTN_TILE and every sum has one order, so a query's result does not depend on the others.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

#include <math.h>

enum { COLUMNS = ATTN_TILE / VL, QUERIES = VL == 16 ? 4 : 2, WIDE = 4 }; // vectors per tile; register tiles of both products

// The rows of a tile in storage; beyond the end a row of zeros.
struct tile_rows {
    const uint8_t *row[ATTN_TILE];
    float scale[ATTN_TILE];
};

static const uint8_t ZEROS[CPU_MAX_HEAD_DIM * 4];

static void find_rows(const struct attn_query *a, int side, int32_t first, int32_t end, struct tile_rows *t)
{
    const struct kv_layer *l = a->kv;
    for (int32_t i = 0; i < ATTN_TILE;) {
        int32_t pos = first + i, in_block = pos % l->block_size, stop = i + l->block_size - in_block;
        if (pos >= end) {
            t->row[i] = ZEROS, t->scale[i++] = 1;
            continue;
        }
        const uint8_t *values = kv_values(l, side, a->table[pos / l->block_size], a->head);
        for (; i < stop && i < ATTN_TILE && first + i < end; i++, in_block++) {
            t->row[i] = values + (uint64_t)in_block * l->row_bytes[side];
            t->scale[i] = l->type[side] == DTYPE_INT8 ? f16_to_f32(kv_scales(l, side, values)[in_block]) : 1;
        }
    }
}

SPECIALIZE vf load_kv(enum dtype type, const uint8_t *row, float scale, int32_t i)
{
    switch (type) {
    case DTYPE_F32: return vf_load((const float *)(const void *)row + i);
    case DTYPE_F16: return vf_load_f16(row + 2 * (size_t)i);
    case DTYPE_BF16: return vf_load_bf16(row + 2 * (size_t)i);
    default: return vf_mul(vf_set(scale), vi_to_vf(vi_load_i8(row + i)));
    }
}

// The next tile is asked for while this one is widened: memory answers slowly, and in the shadow of work.
SPECIALIZE void prefetch_kv(enum dtype type, const uint8_t *row, int32_t i)
{
    _mm_prefetch((const char *)row + i * (type == DTYPE_F32 ? 4 : type == DTYPE_INT8 ? 1 : 2), _MM_HINT_T0);
}

// The last n < VL values of a row from i, padded with zeros.
SPECIALIZE vf load_kv_n(enum dtype type, const uint8_t *row, float scale, int32_t i, int32_t n)
{
    int32_t size = type == DTYPE_F32 ? 4 : type == DTYPE_INT8 ? 1 : 2;
    uint8_t part[VL * 4] = {0};
    memcpy(part, row + (size_t)i * (size_t)size, (size_t)n * (size_t)size);
    return load_kv(type, part, scale, 0);
}

// VL dimensions of VL positions, transposed; n < VL: the last n of a head.
SPECIALIZE void widen_k_square(enum dtype type, const uint8_t *const *row, const float *scale, const uint8_t *const *next,
                               int32_t i, int32_t n, float *k)
{
    vf r[VL];
#pragma GCC unroll 16
    for (int32_t j = 0; j < VL; j++) {
        r[j] = n < VL ? load_kv_n(type, row[j], scale[j], i, n) : load_kv(type, row[j], scale[j], i);
        prefetch_kv(type, next[j], i);
    }
    vf_transpose(r);
#pragma GCC unroll 16
    for (int32_t j = 0; j < VL; j++)
        vf_store(k + (size_t)(i + j) * ATTN_TILE, r[j]);
}

SPECIALIZE void widen_k(enum dtype type, const struct tile_rows *t, const struct tile_rows *next, int32_t d, float *k)
{
    for (int32_t first = 0; first < ATTN_TILE; first += VL) {
        int32_t i = 0;
        for (; i + VL <= d; i += VL)
            widen_k_square(type, t->row + first, t->scale + first, next->row + first, i, VL, k + first);
        if (i < d)
            widen_k_square(type, t->row + first, t->scale + first, next->row + first, i, d - i, k + first);
    }
}

SPECIALIZE void widen_v(enum dtype type, const struct tile_rows *t, const struct tile_rows *next, int32_t d, int32_t width,
                        float *v)
{
    for (int32_t j = 0; j < ATTN_TILE; j++, v += width) {
        int32_t i = 0;
        for (; i + VL <= d; i += VL) {
            vf_store(v + i, load_kv(type, t->row[j], t->scale[j], i));
            prefetch_kv(type, next->row[j], i);
        }
        if (i < d)
            vf_store(v + i, load_kv_n(type, t->row[j], t->scale[j], i, d - i));
    }
}

static void widen(enum dtype type, int side, const struct tile_rows *t, const struct tile_rows *next, int32_t d,
                  int32_t width, float *out)
{
    switch (type) {
#define X(name, id)                                                                                                         \
    case DTYPE_##id:                                                                                                        \
        side == KV_K ? widen_k(DTYPE_##id, t, next, d, out) : widen_v(DTYPE_##id, t, next, d, width, out);                  \
        break;
        KV_TYPES(X)
#undef X
    default: break;
    }
}

// s[n][ATTN_TILE] = scale * q k. Even and odd dimensions are summed apart: two chains hide the latency of few queries.
SPECIALIZE void scores(const float *const *q, const float *k, int32_t d, float scale, int32_t n, float *s)
{
    vf even[QUERIES][COLUMNS], odd[QUERIES][COLUMNS];
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < COLUMNS; c++)
            even[i][c] = odd[i][c] = vf_zero();
    for (int32_t x = 0; x < d; x += 2, k += 2 * ATTN_TILE) {
#pragma GCC unroll 4
        for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
            for (int32_t c = 0; c < COLUMNS; c++) {
                even[i][c] = vf_fma(vf_set(q[i][x]), vf_load(k + c * VL), even[i][c]);
                odd[i][c] = vf_fma(vf_set(q[i][x + 1]), vf_load(k + ATTN_TILE + c * VL), odd[i][c]);
            }
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < COLUMNS; c++)
            vf_store(s + i * ATTN_TILE + c * VL, vf_mul(vf_add(even[i][c], odd[i][c]), vf_set(scale)));
}

// acc[n][d] = acc * correction + p v for WIDE or one vector of columns, positions in order.
SPECIALIZE void weigh(const float *p, const float *v, int32_t width, const float *correction, float *acc, int32_t d,
                      int32_t n, int32_t wide)
{
    vf sum[QUERIES][WIDE];
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < wide; c++)
            sum[i][c] = vf_mul(vf_load(acc + (size_t)i * (size_t)d + c * VL), vf_set(correction[i]));
    for (int32_t t = 0; t < ATTN_TILE; t++, v += width)
#pragma GCC unroll 4
        for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
            for (int32_t c = 0; c < wide; c++)
                sum[i][c] = vf_fma(vf_set(p[i * ATTN_TILE + t]), vf_load(v + c * VL), sum[i][c]);
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < wide; c++)
            vf_store(acc + (size_t)i * (size_t)d + c * VL, sum[i][c]);
}

// The columns beyond the last whole vector of a head.
static void weigh_rest(const float *p, const float *v, int32_t width, float correction, float *acc, int32_t n)
{
    vf sum = vf_mul(vf_load_n(acc, n), vf_set(correction));
    for (int32_t t = 0; t < ATTN_TILE; t++)
        sum = vf_fma(vf_set(p[t]), vf_load(v + (size_t)t * (size_t)width), sum);
    vf_store_n(acc, sum, n);
}

SPECIALIZE void weigh_all(const float *p, const float *v, int32_t width, const float *correction, float *acc, int32_t d,
                          int32_t n)
{
    int32_t x = 0;
    for (; x + WIDE * VL <= d; x += WIDE * VL)
        weigh(p, v + x, width, correction, acc + x, d, n, WIDE);
    for (; x + VL <= d; x += VL)
        weigh(p, v + x, width, correction, acc + x, d, n, 1);
    for (int32_t i = 0; x < d && i < n; i++)
        weigh_rest(p + i * ATTN_TILE, v + x, width, correction[i], acc + (size_t)i * (size_t)d + x, d - x);
}

// Scores of one query become probabilities relative to the largest seen so far; returns what earlier sums shrink by.
static float soften(float *s, int32_t begin, int32_t end, float *max, float *sum)
{
    vf x[COLUMNS], high = vf_set(-INFINITY), total = vf_zero();
    for (int32_t c = 0; c < COLUMNS; c++) {
        x[c] = vf_select_range(vf_load(s + c * VL), vf_set(-INFINITY), begin - c * VL, end - c * VL);
        high = vf_max(high, x[c]);
    }
    float highest = vf_highest(high), new_max = highest > *max ? highest : *max;
    float old = *max - new_max, all[VL];
    vf_store(all, vf_exp(vf_set(old)));
    for (int32_t c = 0; c < COLUMNS; c++) {
        x[c] = vf_exp(vf_sub(x[c], vf_set(new_max)));
        total = vf_add(total, x[c]);
        vf_store(s + c * VL, x[c]);
    }
    *sum = *sum * all[0] + vf_sum(total);
    *max = new_max;
    return all[0];
}

// The queries low .. high-1 see something of the tile. Rows come in order of position, so they are adjacent.
static void seeing(const struct attn_query *a, int32_t first, int32_t end, int32_t *low, int32_t *high)
{
    for (*low = 0; *low < a->n && a->end[*low] <= first; (*low)++)
        continue;
    for (*high = a->n; *high > *low && a->begin[*high - 1] >= end; (*high)--)
        continue;
}

static void cap(float *s, int32_t n, float softcap)
{
    for (int32_t i = 0; i < n; i += VL)
        vf_store(s + i, vf_softcap(vf_load(s + i), softcap));
}

struct tile {
    int32_t first, end;       // positions
    struct tile_rows rows[2]; // of K and V
};

static void find_tile(const struct attn_query *a, int32_t first, int32_t end, struct tile *t)
{
    t->first = first, t->end = end;
    find_rows(a, KV_K, first, end, &t->rows[KV_K]);
    find_rows(a, KV_V, first, end, &t->rows[KV_V]);
}

static void attend_tile(const struct attn_query *a, const struct tile *t, const struct tile *next,
                        const struct attn_part *out, float *scratch)
{
    int32_t d = a->kv->head_dim, width = (d + VL - 1) / VL * VL, low, high, i;
    float *k = scratch, *v = k + (size_t)width * ATTN_TILE, *s = v + (size_t)width * ATTN_TILE;
    float *correction = s + (size_t)a->n * ATTN_TILE;
    seeing(a, t->first, t->end, &low, &high);
    if (low == high)
        return;
    widen(a->kv->type[KV_K], KV_K, &t->rows[KV_K], &next->rows[KV_K], d, width, k);
    widen(a->kv->type[KV_V], KV_V, &t->rows[KV_V], &next->rows[KV_V], d, width, v);
    for (i = low; i + QUERIES <= high; i += QUERIES)
        scores(a->q + i, k, d, a->scale, QUERIES, s + (size_t)i * ATTN_TILE);
    for (; i < high; i++)
        scores(a->q + i, k, d, a->scale, 1, s + (size_t)i * ATTN_TILE);
    if (a->softcap != 0)
        cap(s + (size_t)low * ATTN_TILE, (high - low) * ATTN_TILE, a->softcap);
    for (i = low; i < high; i++) {
        int32_t end = a->end[i] < t->end ? a->end[i] : t->end;
        correction[i] =
            soften(s + (size_t)i * ATTN_TILE, a->begin[i] - t->first, end - t->first, &out->max[i], &out->sum[i]);
    }
    for (i = low; i + QUERIES <= high; i += QUERIES)
        weigh_all(s + (size_t)i * ATTN_TILE, v, width, correction + i, out->acc + (size_t)i * (size_t)d, d, QUERIES);
    for (; i < high; i++)
        weigh_all(s + (size_t)i * ATTN_TILE, v, width, correction + i, out->acc + (size_t)i * (size_t)d, d, 1);
}

void SYM(attn)(const struct attn_query *a, int32_t first, int32_t end, const struct attn_part *out, float *scratch)
{
    struct tile tile[2];
    int32_t last = a->end[a->n - 1]; // the tile after the part's last is most likely wanted soon
    for (int32_t i = 0; i < a->n; i++)
        out->max[i] = -INFINITY, out->sum[i] = 0;
    memset(out->acc, 0, (size_t)a->n * (size_t)a->kv->head_dim * sizeof *out->acc);
    find_tile(a, first, first + ATTN_TILE < end ? first + ATTN_TILE : end, &tile[0]);
    for (int32_t t = first, i = 0; t < end; t += ATTN_TILE, i ^= 1) {
        int32_t limit = t + ATTN_TILE < end ? end : last, stop = t + 2 * ATTN_TILE;
        find_tile(a, t + ATTN_TILE, stop < limit ? stop : limit, &tile[i ^ 1]);
        attend_tile(a, &tile[i], &tile[i ^ 1], out, scratch);
    }
}

void SYM(kv_store_f32)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    memcpy(values, in, (size_t)n * sizeof *in);
}

void SYM(kv_store_f16)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store_f16((uint8_t *)values + 2 * (size_t)i, vf_load(in + i));
    dtype_from_f32(DTYPE_F16, in + i, (uint8_t *)values + 2 * (size_t)i, (size_t)(n - i));
}

// To nearest even: add half of the last place kept, less one where it is even. (The NaN that arithmetic makes stays one.)
void SYM(kv_store_bf16)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    int32_t i = 0;
    for (; i + VL <= n; i += VL) {
        vi x = vf_bits(vf_load(in + i)), odd = vi_and(vi_right(x, 16), vi_set(1));
        vi_store_u16((uint8_t *)values + 2 * (size_t)i, vi_right(vi_add(x, vi_add(vi_set(0x7fff), odd)), 16));
    }
    dtype_from_f32(DTYPE_BF16, in + i, (uint8_t *)values + 2 * (size_t)i, (size_t)(n - i));
}

// Symmetric by the largest magnitude, with the scale as stored (f16): what dtype_from_f32 does.
void SYM(kv_store_int8)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    vf high = vf_zero();
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        high = vf_max(high, vf_abs(vf_load(in + i)));
    if (i < n)
        high = vf_max(high, vf_abs(vf_load_n(in + i, n - i)));
    *scale = f32_to_f16(vf_highest(high) / 127);
    float d = f16_to_f32(*scale);
    vf inverse = vf_set(d > 0 ? 1 / d : 0);
    for (i = 0; i < n; i += VL) {
        int32_t left = n - i;
        vf x = vf_mul(left < VL ? vf_load_n(in + i, left) : vf_load(in + i), inverse);
        uint8_t q[VL];
        vi_store_i8(q, vf_to_vi(vf_min(vf_max(x, vf_set(-127)), vf_set(127))));
        memcpy((uint8_t *)values + i, q, (size_t)(left < VL ? left : VL));
    }
}
