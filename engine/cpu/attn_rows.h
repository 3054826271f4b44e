// The rows of K and V that attention reads: in which arithmetic, in what order, where they lie, and what one call works
// with. kernels_attn.c multiplies them. Compiled with it once per instruction set.
#ifndef ENGINE_CPU_ATTN_ROWS_H
#define ENGINE_CPU_ATTN_ROWS_H

#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"
#include <math.h>

enum arithmetic { IN_F32, IN_BF16, IN_INT8 };

enum {
    LANES = (int)sizeof(vi), // bytes of a vector
    Q_MOST = 8191,
    P_MOST = 16383,    // of the numbers in two digits
    AHEAD = 8192,      // bytes between what is read and what is asked for (Zen 5, 2026-11-30: int8 at 4096 lost a sixth)
    AHEAD_BF16 = 4096, // the same where little is computed per byte (8192 lost a twelfth)
};

static inline enum arithmetic arithmetic_of(enum dtype stored, enum dtype compute)
{
    if (compute != DTYPE_BF16 || (stored != DTYPE_BF16 && stored != DTYPE_INT8))
        return IN_F32;
    return stored == DTYPE_BF16 ? IN_BF16 : IN_INT8;
}

SPECIALIZE int32_t per_lane(enum arithmetic a)
{
    return a == IN_F32 ? 1 : a == IN_BF16 ? 2 : 4;
}

SPECIALIZE int32_t digits_of(enum arithmetic a)
{
    return a == IN_INT8 ? 2 : 1;
}

// Vectors that hold a row of n values.
SPECIALIZE int32_t vectors_of(enum arithmetic a, int32_t n)
{
    int32_t values = VL * per_lane(a);
    return (n + values - 1) / values;
}

// One vector of either arithmetic.
struct lanes {
    vf f32;
    vp pair;
    vi byte;
};

SPECIALIZE struct lanes load_lanes(enum arithmetic a, const void *p)
{
    struct lanes x;
    if (a == IN_F32)
        x.f32 = vf_load(p);
    else if (a == IN_BF16)
        x.pair = vp_load(p);
    else
        x.byte = vi_load(p);
    return x;
}

SPECIALIZE struct lanes as_lanes(enum arithmetic a, vi bits)
{
    struct lanes x;
    if (a == IN_F32)
        x.f32 = vi_bits(bits);
    else if (a == IN_BF16)
        x.pair = vp_from(bits);
    else
        x.byte = bits;
    return x;
}

// The lane at p everywhere.
SPECIALIZE struct lanes spread_lane(enum arithmetic a, const void *p)
{
    struct lanes x;
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
    if (a == IN_F32)
        x.f32 = vi_bits(vi_set((int32_t)bits));
    else if (a == IN_BF16)
        x.pair = vp_set(bits);
    else
        x.byte = vi_set((int32_t)bits);
    return x;
}

// sum + a * b per lane. int8: `a` unsigned, the sum an integer.
SPECIALIZE vf dot(enum arithmetic arithmetic, vf sum, struct lanes a, struct lanes b)
{
    switch (arithmetic) {
    case IN_F32: return vf_fma(a.f32, b.f32, sum);
    case IN_BF16: return vf_dot2(sum, a.pair, b.pair);
    default: return vi_bits(vi_dot4(vf_bits(sum), a.byte, b.byte));
    }
}

SPECIALIZE vf add_integers(vf a, vf b)
{
    return vi_bits(vi_add(vf_bits(a), vf_bits(b)));
}

SPECIALIZE vf next_digit(vf sum)
{
    return vi_bits(vi_left(vf_bits(sum), 7));
}

// What one call works with.
struct work {
    const struct attn_query *a;
    int32_t d, first, low,
        high;      // of the part; positions that somebody sees, counted from `first`; low a multiple of a group
    int32_t group; // positions visited at a time
    enum arithmetic k_in, v_in;

    // Where the part's positions lie from head_base() on, and behind them the first of what comes after.
    uint64_t offset[2][CPU_SPLIT + ATTN_GROUP];
    uint64_t scale[2][CPU_SPLIT + ATTN_GROUP]; // int8
    const uint8_t *head_base[2];               // of the first head
    const uint8_t *after_base;

    // Cut out of the scratch memory:
    uint8_t *q;       // [n_heads, n] queries in K's arithmetic: a row of vectors for each digit
    uint64_t q_bytes; // of one
    float *step;      // [n_heads, n] int8: what a sum is worth,
    int32_t *begin;   // [n_heads, n] and what it begins with
    float *s;         // [n_heads, n, CPU_SPLIT] scores, then weights in V's arithmetic
    float *worth;     // [n_heads, n] int8: of those
    uint8_t *laid;    // [ATTN_GROUP] rows of K or V, widened, padded, interleaved
    uint8_t *columns; // lanes of K's rows: [vectors, VL, ATTN_GROUP]
};

static inline uint8_t *cut(uint8_t **scratch, uint64_t bytes)
{
    uint8_t *p = *scratch;
    *scratch += (bytes + 63) / 64 * 64;
    return p;
}

static inline void lay_out(struct work *w, float *scratch)
{
    uint8_t *at = (uint8_t *)scratch;
    uint64_t n = (uint64_t)(w->a->n_heads * w->a->n), width = attn_width(w->d);
    w->q_bytes = (uint64_t)(vectors_of(w->k_in, w->d) * digits_of(w->k_in) * LANES);
    w->q = cut(&at, n * w->q_bytes);
    w->step = (float *)cut(&at, n * 4);
    w->begin = (int32_t *)cut(&at, n * 4);
    w->s = (float *)cut(&at, n * CPU_SPLIT * 4);
    w->worth = (float *)cut(&at, n * 4);
    w->laid = cut(&at, width * ATTN_GROUP * 4);
    w->columns = cut(&at, width * ATTN_GROUP * 4);
}

// Offsets of n positions, of which those from `end` on repeat the last.
static inline void locate(const struct kv_layer *l, int side, const struct attn_rows *a, int32_t n, uint64_t *offset,
                          uint64_t *scale)
{
    int32_t have = a->end - a->first < n ? a->end - a->first : n, i = 0;
    while (i < have) {
        int32_t pos = a->first + i, in_block = pos % l->block_size, stop = i + l->block_size - in_block;
        uint64_t block = (uint64_t)a->table[pos / l->block_size] * l->block_bytes, k = (uint64_t)in_block;
        for (stop = stop < have ? stop : have; i < stop; i++, k++) {
            offset[i] = block + k * l->row_bytes[side];
            scale[i] = block + (uint64_t)l->block_size * l->row_bytes[side] + k * sizeof(uint16_t);
        }
    }
    for (; i < n; i++)
        offset[i] = offset[have - 1], scale[i] = scale[have - 1];
}

static inline void locate_part(struct work *w, const struct attn_rows *part, const struct attn_rows *after)
{
    const struct kv_layer *l = w->a->kv;
    int32_t n = (w->high + ATTN_GROUP - 1) / ATTN_GROUP * ATTN_GROUP;
    for (int side = KV_K; side <= KV_V; side++) {
        locate(l, side, part, n, w->offset[side], w->scale[side]);
        w->head_base[side] = kv_values(l, side, 0, part->head);
    }
    locate(l, KV_K, after, ATTN_GROUP, w->offset[KV_K] + CPU_SPLIT, w->scale[KV_K] + CPU_SPLIT);
    w->after_base = kv_values(l, KV_K, 0, after->head);
}

// q in numbers of 14 bits, in two digits: high * 128 + low, both -64 .. 64. x: [d], zeros up to a whole vector.
static inline void split_query(const float *x, int32_t d, uint8_t *high, uint8_t *low, float *step, int32_t *begin)
{
    vf most = vf_zero(), total = vf_zero();
    for (int32_t i = 0; i < d; i += VL)
        most = vf_max(most, vf_abs(vf_load(x + i)));
    float highest = vf_highest(most);
    vf inverse = vf_set(highest > 0 ? Q_MOST / highest : 0);
    for (int32_t i = 0; i < d; i += VL) {
        vf n = vf_round(vf_mul(vf_load(x + i), inverse)), h = vf_round(vf_mul(n, vf_set(1.0f / 128)));
        vi_store_i8(high + i, vf_to_vi(h));
        vi_store_i8(low + i, vf_to_vi(vf_fma(h, vf_set(-128), n)));
        total = vf_add(total, n);
    }
    *step = highest / Q_MOST;
    *begin = -128 * (int32_t)vf_sum(total); // at most 512 * 8191: exact
}

static inline void prepare_query(const struct work *w, int32_t i)
{
    float x[CPU_MAX_HEAD_DIM + VL];
    uint8_t *out = w->q + (uint64_t)i * w->q_bytes;
    memset(out, 0, w->q_bytes);
    memset(x + w->d, 0, VL * sizeof *x);
    for (int32_t k = 0; k < w->d; k++)
        x[k] = w->a->q[i][k] * w->a->scale;
    if (w->k_in == IN_INT8)
        split_query(x, w->d, out, out + w->q_bytes / 2, &w->step[i], &w->begin[i]);
    for (int32_t k = 0; w->k_in == IN_F32 && k < w->d; k += VL)
        vf_store((float *)(void *)out + k, vf_load(x + k));
    for (int32_t k = 0; w->k_in == IN_BF16 && k < w->d; k += VL)
        vf_store_bf16(out + 2 * k, vf_load(x + k));
}

// Where the rows of a group lie.
struct rows {
    const uint8_t *base;
    const uint64_t *offset; // [group]
};

// Positions are visited group by group, and in each group head by head: that is how they lie in memory.
struct step {
    int32_t side, first, head; // KV_K, then KV_V, then what comes after
    struct rows rows;
};

enum { AFTER = 2 };

static inline void find_rows(const struct work *w, struct step *s)
{
    int side = s->side == AFTER ? KV_K : s->side;
    s->rows.base = (s->side == AFTER ? w->after_base : w->head_base[side]) + (uint64_t)s->head * w->a->kv->head_bytes[side];
    s->rows.offset = w->offset[side] + s->first;
}

static inline struct step first_step(const struct work *w, int side)
{
    struct step s = {.side = side, .first = w->low};
    find_rows(w, &s);
    return s;
}

static inline void next_step(const struct work *w, struct step *s)
{
    if (++s->head == w->a->n_heads) {
        s->head = 0, s->first += w->group;
        if (s->side != AFTER && s->first >= w->high) {
            s->side++;
            s->first = s->side == AFTER ? CPU_SPLIT : w->low;
        } else if (s->side == AFTER && s->first >= CPU_SPLIT + ATTN_GROUP) {
            s->first = CPU_SPLIT;
        }
    }
    find_rows(w, s);
}

// Memory answers slowly: rows are asked for so many bytes before they are read.
static inline struct step step_ahead(const struct work *w, int side)
{
    struct step s = first_step(w, side);
    const int32_t most = (side == KV_K ? w->k_in : w->v_in) == IN_BF16 ? AHEAD_BF16 : AHEAD;
    for (int32_t run = w->group * (int32_t)w->a->kv->row_bytes[side], bytes = 0; bytes < most; bytes += run)
        next_step(w, &s);
    return s;
}

SPECIALIZE void ask(const struct rows *r, int32_t i, int32_t n, int32_t bytes)
{
    for (; n > 0; n--, i++) {
        const uint8_t *at = r->base + r->offset[i];
        for (int32_t k = 0; k < bytes; k += 64)
            _mm_prefetch((const char *)at + k, _MM_HINT_T0);
    }
}

// Scales of positions from .. to-1 of a head, and to the end of a vector.
static inline void load_scales(const struct work *w, int side, int32_t head, int32_t from, int32_t to, float *out)
{
    const uint8_t *base = w->head_base[side] + (uint64_t)head * w->a->kv->head_bytes[side];
    uint16_t half[CPU_SPLIT];
    to = (to + VL - 1) / VL * VL;
    for (int32_t i = from; i < to; i++)
        memcpy(&half[i], base + w->scale[side][i], sizeof *half);
    for (int32_t i = from; i < to; i += VL)
        vf_store(out + i, vf_load_f16(half + i));
}

// VL values of a row as f32.
SPECIALIZE vf widen(enum dtype type, const uint8_t *at, float scale)
{
    switch (type) {
    case DTYPE_F32: return vf_load((const float *)(const void *)at);
    case DTYPE_F16: return vf_load_f16(at);
    case DTYPE_BF16: return vf_load_bf16(at);
    default: return vf_mul(vf_set(scale), vi_to_vf(vi_load_i8(at)));
    }
}

SPECIALIZE vi load_vector(enum arithmetic a, enum dtype type, const uint8_t *at, float scale)
{
    return a == IN_F32 ? vf_bits(widen(type, at, scale)) : vi_load(at);
}

// The last vector of a row: bytes of it, then zeros.
static __attribute__((noinline, unused)) vi load_end(enum arithmetic a, enum dtype type, const uint8_t *at, float scale,
                                                     int32_t bytes)
{
    uint8_t end[LANES] = {0};
    memcpy(end, at, (size_t)bytes);
    if (a != IN_F32)
        return vi_load(end);
    switch (type) {
#define X(name, id)                                                                                                         \
    case DTYPE_##id: return load_vector(IN_F32, DTYPE_##id, end, scale);
        KV_TYPES(X)
#undef X
    default: return vi_load(end);
    }
}

#endif
