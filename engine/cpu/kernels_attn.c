// Attention over one part of the context, and joining parts.
//
// A part has one softmax: all its scores, then all its weights, then the sum of V. Rows of K and of V are visited in the
// order in which they lie in memory - a group of positions, all its heads, the next group - for only long runs are read at
// full speed.
//
// Everything lies in lanes of 32 bits: one f32, two bf16 or four int8, whichever the arithmetic is. A score is the product
// of a row of K with a query, lane by lane, and then the sum of all lanes: sixteen (AVX2: eight) scores are summed together.
// Of V, a lane holds one dimension of one, two or four positions; the weights, rounded to the same type, multiply it. Every
// sum has one order, so a query's result does not depend on the others, on their number, or on how positions are grouped.
//
// f32: all as stored, widened. bf16: q and weights rounded, products exact, sums in f32. int8: q and weights as numbers of
// 14 bits in two digits to the base 128, all sums exact until they become f32.
#include "engine/cpu/attn_rows.h"

// Two or four positions of each dimension from as many rows, inside 128 bits.
SPECIALIZE void interleave(enum arithmetic a, vi *x)
{
    if (a == IN_BF16) {
        vi low = vi_zip16_low(x[0], x[1]);
        x[1] = vi_zip16_high(x[0], x[1]), x[0] = low;
    } else if (a == IN_INT8) {
        vi a0 = vi_zip8_low(x[0], x[1]), a1 = vi_zip8_high(x[0], x[1]);
        vi b0 = vi_zip8_low(x[2], x[3]), b1 = vi_zip8_high(x[2], x[3]);
        x[0] = vi_zip16_low(a0, b0), x[1] = vi_zip16_high(a0, b0);
        x[2] = vi_zip16_low(a1, b1), x[3] = vi_zip16_high(a1, b1);
    }
}

SPECIALIZE int32_t bytes_of(enum dtype type)
{
    return type == DTYPE_F32 ? 4 : type == DTYPE_INT8 ? 1 : 2;
}

// A group of rows, `together` of them interleaved, into w->laid.
SPECIALIZE void lay_rows_of(enum arithmetic a, enum dtype type, int32_t together, const struct work *w, int32_t d,
                            const struct rows *r, const float *scale, const struct rows *ahead)
{
    const int32_t vectors = vectors_of(a, d), values = VL * per_lane(a), whole = d / values;
    uint8_t *out = w->laid;
    for (int32_t j = 0; j < w->group; j += together) {
        const uint8_t *row[4];
        vi x[4];
        for (int32_t i = 0; i < together; i++)
            row[i] = r->base + r->offset[j + i];
        for (int32_t c = 0; c < vectors; c++, out += together * LANES) {
            size_t at = (size_t)(c * values * bytes_of(type));
            for (int32_t i = 0; i < together; i++) {
                float by = type == DTYPE_INT8 && a == IN_F32 ? scale[j + i] : 1;
                x[i] = c < whole ? load_vector(a, type, row[i] + at, by)
                                 : load_end(a, type, row[i] + at, by, (d - c * values) * bytes_of(type));
            }
            if (together > 1)
                interleave(a, x);
            for (int32_t i = 0; i < together; i++)
                vi_store(out + i * LANES, x[i]);
        }
        if (ahead)
            ask(ahead, j, together, d * bytes_of(type));
    }
}

// Heads of the usual size have loops of known length.
SPECIALIZE void lay_rows(enum arithmetic a, enum dtype type, int32_t together, const struct work *w, const struct rows *r,
                         const float *scale, const struct rows *ahead)
{
    if (w->d == 128 && together > 1)
        lay_rows_of(a, type, together, w, 128, r, scale, ahead);
    else
        lay_rows_of(a, type, together, w, w->d, r, scale, ahead);
}

static __attribute__((noinline)) void lay_f32(int side, const struct work *w, const struct rows *r, const float *scale,
                                              const struct rows *ahead)
{
    switch (w->a->kv->type[side]) {
#define X(name, id)                                                                                                         \
    case DTYPE_##id: lay_rows(IN_F32, DTYPE_##id, 1, w, r, scale, ahead); break;
        KV_TYPES(X)
#undef X
    default: break;
    }
}

static const uint64_t *laid_offsets(uint64_t bytes, uint64_t *offset)
{
    for (uint64_t i = 0; i < ATTN_GROUP; i++)
        offset[i] = i * bytes;
    return offset;
}

// Rows of K as score_block wants them: those in storage, or copies in w->laid.
static struct rows lay_k(const struct work *w, const struct rows *r, const float *scale, uint64_t *offset)
{
    enum dtype type = w->a->kv->type[KV_K];
    if (w->d % (VL * per_lane(w->k_in)) == 0 && (w->k_in != IN_F32 || type == DTYPE_F32))
        return *r;
    switch (w->k_in) {
    case IN_BF16: lay_rows(IN_BF16, DTYPE_BF16, 1, w, r, NULL, NULL); break;
    case IN_INT8: lay_rows(IN_INT8, DTYPE_INT8, 1, w, r, NULL, NULL); break;
    case IN_F32: lay_f32(KV_K, w, r, scale, NULL); break;
    }
    return (struct rows){w->laid, laid_offsets((uint64_t)(vectors_of(w->k_in, w->d) * LANES), offset)};
}

static void lay_v(const struct work *w, const struct rows *r, const float *scale, const struct rows *ahead)
{
    switch (w->v_in) {
    case IN_BF16: lay_rows(IN_BF16, DTYPE_BF16, 2, w, r, NULL, ahead); break;
    case IN_INT8: lay_rows(IN_INT8, DTYPE_INT8, 4, w, r, NULL, ahead); break;
    case IN_F32: lay_f32(KV_V, w, r, scale, ahead); break;
    }
}

// The sums of n queries times VL / n positions. One row of `ahead` is asked for with each: asked for
// in bursts, memory is read 5 % slower.
SPECIALIZE void score_block(enum arithmetic a, const uint8_t *q, const struct rows *r, int32_t first, int32_t vectors,
                            int32_t n, const struct rows *ahead, int32_t row_bytes, float *s)
{
    const int32_t per = VL / n, digits = digits_of(a);
    vf sum[VL];
    float all[VL];
#pragma GCC unroll 16
    for (int32_t j = 0; j < per; j++) {
        const uint8_t *row = r->base + r->offset[first + j];
        if (ahead)
            ask(ahead, first + j, 1, row_bytes);
#pragma GCC unroll 4
        for (int32_t i = 0; i < n; i++)
            sum[i * per + j] = vf_zero();
#pragma GCC unroll 2
        for (int32_t g = 0; g < digits; g++) {
#pragma GCC unroll 4
            for (int32_t i = 0; i < n && g; i++)
                sum[i * per + j] = next_digit(sum[i * per + j]);
            for (int32_t c = 0; c < vectors; c++) {
                struct lanes k = load_lanes(a, row + c * LANES);
                if (a == IN_INT8)
                    k.byte = vi_xor(k.byte, vi_set((int32_t)0x80808080));
#pragma GCC unroll 4
                for (int32_t i = 0; i < n; i++)
                    sum[i * per + j] =
                        dot(a, sum[i * per + j], k, load_lanes(a, q + (size_t)((i * digits + g) * vectors + c) * LANES));
            }
        }
    }
    vf_store(all, vf_sums(a == IN_INT8 ? add_integers : vf_add, sum));
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
        memcpy(s + i * CPU_SPLIT, all + i * per, (size_t)per * sizeof *s);
}

// What n queries from `i` on see of the positions first .. end-1, counted from the part's first; from a multiple of `step`.
static void seen(const struct work *w, int32_t i, int32_t n, int32_t first, int32_t end, int32_t step, int32_t *from,
                 int32_t *to)
{
    int32_t begin = w->a->begin[i] - w->first, stop = w->a->end[i + n - 1] - w->first;
    *from = first > begin ? first : begin / step * step;
    *to = end < stop ? end : stop;
}

// Sums of positions from .. to-1 become scores.
static void finish(const struct work *w, int32_t query, const float *scale, int32_t from, int32_t to)
{
    float *s = w->s + (size_t)query * CPU_SPLIT;
    for (int32_t p = from; p < to; p += VL) {
        vf x = vf_load(s + p);
        if (w->k_in == IN_INT8)
            x = vf_mul(vi_to_vf(vi_add(vf_bits(x), vi_set(w->begin[query]))),
                       vf_mul(vf_load(scale + p), vf_set(w->step[query])));
        if (w->a->softcap != 0)
            x = vf_softcap(x, w->a->softcap);
        vf_store(s + p, x);
    }
}

// One step: rows of K of head h at the positions first .. first+group-1.
struct scoring {
    const struct work *w;
    int32_t h, first;
    const struct rows *r, *ahead;
    const float *scale;
};

SPECIALIZE void score_queries(enum arithmetic a, const struct scoring *t, int32_t i, int32_t n, int32_t d)
{
    const struct work *w = t->w;
    const int32_t per = VL / n, query = t->h * w->a->n + i;
    int32_t from, to;
    seen(w, i, n, t->first, t->first + w->group < w->high ? t->first + w->group : w->high, VL, &from, &to);
    for (int32_t p = from; p < to; p += per)
        score_block(a, w->q + (uint64_t)query * w->q_bytes, t->r, p - t->first, vectors_of(a, d), n, i ? NULL : t->ahead,
                    d * 4 / per_lane(a), w->s + (size_t)query * CPU_SPLIT + p);
    for (int32_t k = query; k < query + n && (a == IN_INT8 || w->a->softcap != 0); k++)
        finish(w, k, t->scale, from, to);
}

SPECIALIZE void score_head(enum arithmetic a, const struct scoring *t, int32_t d)
{
    int32_t i = 0, n = t->w->a->n;
    for (; i + 4 <= n; i += 4)
        score_queries(a, t, i, 4, d);
    if (i + 2 <= n) {
        score_queries(a, t, i, 2, d);
        i += 2;
    }
    if (i < n)
        score_queries(a, t, i, 1, d);
}

// Many queries: K's lanes become columns - one lane of all the group's positions side by side - once for all of them, and
// a score is the same tree of the same sums, without shuffles.
SPECIALIZE void turn_rows(enum arithmetic a, const struct scoring *t, int32_t d)
{
    const int32_t vectors = vectors_of(a, d);
    for (int32_t j = 0; j < ATTN_GROUP; j += VL) {
        for (int32_t c = 0; c < vectors; c++) {
            vf x[VL];
            for (int32_t i = 0; i < VL; i++) {
                vi row = vi_load(t->r->base + t->r->offset[j + i] + (size_t)(c * LANES));
                x[i] = vi_bits(a == IN_INT8 ? vi_xor(row, vi_set((int32_t)0x80808080)) : row);
            }
            vf_transpose(x);
            for (int32_t i = 0; i < VL; i++)
                vi_store(t->w->columns + (size_t)((c * VL + i) * ATTN_GROUP + j) * 4, vf_bits(x[i]));
        }
        ask(t->ahead, j, VL, d * 4 / per_lane(a));
    }
}

// Adds the products of lanes `lane` and, where `lanes` is 2, lane + 2 of all vectors: sums of n queries times `wide` vectors
// of positions each.
SPECIALIZE void sum_lanes(enum arithmetic a, const uint8_t *q, uint64_t q_bytes, const uint8_t *k, int32_t lane,
                          int32_t lanes, int32_t vectors, int32_t n, int32_t wide, vf *sum)
{
#pragma GCC unroll 8
    for (int32_t c = 0; c < vectors; c++)
#pragma GCC unroll 2
        for (int32_t m = 0; m < lanes; m++) {
            int32_t at = c * VL + lane + 2 * m;
            struct lanes x[4];
#pragma GCC unroll 4
            for (int32_t v = 0; v < wide; v++)
                x[v] = load_lanes(a, k + (size_t)(at * ATTN_GROUP + v * VL) * 4);
#pragma GCC unroll 4
            for (int32_t i = 0; i < n; i++) {
                struct lanes one = spread_lane(a, q + (uint64_t)i * q_bytes + (size_t)at * 4);
#pragma GCC unroll 4
                for (int32_t v = 0; v < wide; v++)
                    sum[(m * n + i) * wide + v] = dot(a, sum[(m * n + i) * wide + v], x[v], one);
            }
        }
}

// The tree of vf_sums inside four lanes: the even and the odd ones, then both.
SPECIALIZE void sum_four(enum arithmetic a, const uint8_t *q, uint64_t q_bytes, const uint8_t *k, int32_t lane,
                         int32_t vectors, int32_t n, int32_t wide, vf *all)
{
#pragma GCC unroll 2
    for (int32_t odd = 0; odd < 2; odd++) {
        vf x[16];
#pragma GCC unroll 16
        for (int32_t i = 0; i < 2 * n * wide; i++)
            x[i] = vf_zero();
        sum_lanes(a, q, q_bytes, k, lane + odd, 2, vectors, n, wide, x);
#pragma GCC unroll 8
        for (int32_t i = 0; i < n * wide; i++) {
            vf both = vf_add(x[i], x[n * wide + i]);
            all[i] = odd ? vf_add(all[i], both) : both;
        }
    }
}

SPECIALIZE void sum_floats(enum arithmetic a, const uint8_t *q, uint64_t q_bytes, const uint8_t *k, int32_t vectors,
                           int32_t n, int32_t wide, vf *sum)
{
    vf four[VL / 4][8];
#pragma GCC unroll 1
    for (int32_t f = 0; f < VL / 4; f++)
        sum_four(a, q, q_bytes, k, 4 * f, vectors, n, wide, four[f]);
#pragma GCC unroll 8
    for (int32_t i = 0; i < n * wide; i++) {
        sum[i] = vf_add(four[0][i], four[1][i]);
        if (VL == 16)
            sum[i] = vf_add(sum[i], vf_add(four[VL / 4 - 2][i], four[VL / 4 - 1][i]));
    }
}

// Integers: any order is exact.
SPECIALIZE void sum_integers(const uint8_t *q, uint64_t q_bytes, const uint8_t *k, int32_t vectors, int32_t n, int32_t wide,
                             vf *sum)
{
#pragma GCC unroll 16
    for (int32_t i = 0; i < n * wide; i++)
        sum[i] = vf_zero();
    for (int32_t g = 0; g < digits_of(IN_INT8); g++) {
#pragma GCC unroll 16
        for (int32_t i = 0; i < n * wide; i++)
            sum[i] = next_digit(sum[i]); // of 0 at first
        for (int32_t lane = 0; lane < VL; lane++)
            sum_lanes(IN_INT8, q + (size_t)(g * vectors * LANES), q_bytes, k, lane, 1, vectors, n, wide, sum);
    }
}

// n queries from `query` on, `wide` vectors of positions from p on.
SPECIALIZE void score_tile(enum arithmetic a, const struct scoring *t, int32_t query, int32_t n, int32_t p, int32_t wide,
                           int32_t d)
{
    const struct work *w = t->w;
    const uint8_t *q = w->q + (uint64_t)query * w->q_bytes, *k = w->columns + (size_t)(p - t->first) * 4;
    float *s = w->s + (size_t)query * CPU_SPLIT + p;
    vf sum[16];
    if (a == IN_INT8)
        sum_integers(q, w->q_bytes, k, vectors_of(a, d), n, wide, sum);
    else
        sum_floats(a, q, w->q_bytes, k, vectors_of(a, d), n, wide, sum);
#pragma GCC unroll 16
    for (int32_t r = 0; r < n * wide; r++)
        vf_store(s + (size_t)(r / wide * CPU_SPLIT + r % wide * VL), sum[r]);
}

SPECIALIZE void score_columns(enum arithmetic a, const struct scoring *t, int32_t i, int32_t n, int32_t d)
{
    const struct work *w = t->w;
    const int32_t query = t->h * w->a->n + i, wide = a == IN_INT8 && VL == 16 ? 4 : 2; // registers
    int32_t from, to;
    seen(w, i, n, t->first, t->first + w->group < w->high ? t->first + w->group : w->high, VL, &from, &to);
    int32_t p = from;
    for (; p + (wide - 1) * VL < to && p + wide * VL <= t->first + ATTN_GROUP; p += wide * VL)
        score_tile(a, t, query, n, p, wide, d);
    for (; p < to; p += VL)
        score_tile(a, t, query, n, p, 1, d);
    for (int32_t k = query; k < query + n && (a == IN_INT8 || w->a->softcap != 0); k++)
        finish(w, k, t->scale, from, to);
}

SPECIALIZE void score_many(enum arithmetic a, const struct scoring *t, int32_t d)
{
    const int32_t most = VL == 16 ? 4 : 2; // registers
    int32_t i = 0, n = t->w->a->n;
    turn_rows(a, t, d);
    for (; i + most <= n; i += most)
        score_columns(a, t, i, most, d);
    for (; i < n; i++)
        score_columns(a, t, i, 1, d);
}

SPECIALIZE void score_in(enum arithmetic a, const struct scoring *t)
{
    const int32_t d = t->w->d == 128 ? 128 : 0; // heads of the usual size have loops of known length
    if (t->w->group == ATTN_GROUP && d)
        score_many(a, t, d);
    else if (t->w->group == ATTN_GROUP)
        score_many(a, t, t->w->d);
    else if (d)
        score_head(a, t, d);
    else
        score_head(a, t, t->w->d);
}

static void score_part(const struct work *w)
{
    uint64_t laid[ATTN_GROUP];
    float scale[CPU_SPLIT];
    struct step ahead = step_ahead(w, KV_K);
    for (struct step s = first_step(w, KV_K); s.side == KV_K; next_step(w, &s), next_step(w, &ahead)) {
        if (w->a->kv->type[KV_K] == DTYPE_INT8)
            load_scales(w, KV_K, s.head, s.first, s.first + w->group, scale);
        struct rows r = lay_k(w, &s.rows, scale + s.first, laid);
        struct scoring t = {w, s.head, s.first, &r, &ahead.rows, scale};
        switch (w->k_in) {
        case IN_F32: score_in(IN_F32, &t); break;
        case IN_BF16: score_in(IN_BF16, &t); break;
        case IN_INT8: score_in(IN_INT8, &t); break;
        }
    }
}

// The largest score of one query; -infinity where nothing is seen.
static float mask_scores(const struct work *w, int32_t query)
{
    int32_t i = query % w->a->n, begin = w->a->begin[i] - w->first, end = w->a->end[i] - w->first;
    float *s = w->s + (size_t)query * CPU_SPLIT;
    vf high = vf_set(-INFINITY);
    for (int32_t p = w->low; p < w->high; p += VL) {
        vf x = vf_load(s + p);
        if (p < begin || p + VL > end) {
            x = vf_select_range(x, vf_set(-INFINITY), begin - p, end - p);
            vf_store(s + p, x);
        }
        high = vf_max(high, x);
    }
    return vf_highest(high);
}

// Scores of one query become exponentials relative to the largest, in the type that multiplies V: f32, bf16, or, for int8
// that is yet to be split into digits, f32 times the scale of V's row. Returns the largest of the latter.
SPECIALIZE float soften(enum arithmetic a, const struct work *w, float *s, const float *scale, float max, float *sum)
{
    vf top = vf_set(max == -INFINITY ? 0 : max), total = vf_zero(), high = vf_zero();
    for (int32_t p = w->low; p < w->high; p += VL) {
        vf x = vf_sub(vf_load(s + p), top);
        x = a == IN_F32 ? vf_exp(x) : vf_exp2_short(vf_mul(x, vf_set(1.44269504f)));
        total = vf_add(total, x);
        if (a == IN_INT8) {
            x = vf_mul(x, vf_load(scale + p));
            high = vf_max(high, x);
        }
        if (a == IN_BF16)
            vf_store_bf16_normal((uint8_t *)s + 2 * p, x);
        else
            vf_store(s + p, x);
    }
    *sum = vf_sum(total);
    return a == IN_INT8 ? vf_highest(high) : 0;
}

// int8: weights in numbers of 14 bits, the high digits of all positions before the low ones. Returns what one is worth.
static float split_weights(const struct work *w, float *s, float most)
{
    uint8_t digit[2][CPU_SPLIT];
    vf inverse = vf_set(most > 0 ? P_MOST / most : 0);
    for (int32_t p = w->low; p < w->high; p += VL) {
        vi n = vf_to_vi(vf_mul(vf_load(s + p), inverse));
        vi_store_i8(digit[0] + p, vi_right(n, 7));
        vi_store_i8(digit[1] + p, vi_and(n, vi_set(127)));
    }
    memcpy(s, digit, sizeof digit);
    return most / P_MOST;
}

static void soften_part(const struct work *w, const struct attn_part *out)
{
    float scale[CPU_SPLIT];
    for (int32_t i = 0; i < w->a->n_heads * w->a->n; i++) {
        float *s = w->s + (size_t)i * CPU_SPLIT;
        if (w->v_in == IN_INT8 && i % w->a->n == 0)
            load_scales(w, KV_V, i / w->a->n, w->low, w->high, scale);
        out->max[i] = mask_scores(w, i);
        switch (w->v_in) {
        case IN_F32: soften(IN_F32, w, s, NULL, out->max[i], &out->sum[i]); break;
        case IN_BF16: soften(IN_BF16, w, s, NULL, out->max[i], &out->sum[i]); break;
        case IN_INT8: w->worth[i] = split_weights(w, s, soften(IN_INT8, w, s, scale, out->max[i], &out->sum[i])); break;
        }
    }
}

// One step: rows of V of head h at the positions first .. end-1.
struct weighing {
    const struct work *w;
    int32_t h, first, end;
    const struct rows *r, *ahead;
    float *acc;
};

// `wide` vectors of V from vector x on for the positions from j of the group on that share lanes: as laid, or from storage.
SPECIALIZE void load_v(enum arithmetic a, const struct weighing *t, const uint8_t *laid, int32_t j, int32_t x, int32_t wide,
                       vi *v)
{
    const int32_t per = per_lane(a);
#pragma GCC unroll 8
    for (int32_t c = 0; laid && c < wide; c++)
        v[c] = vi_load(laid + c * LANES);
#pragma GCC unroll 8
    for (int32_t c = 0; !laid && c < wide; c += per) {
#pragma GCC unroll 4
        for (int32_t i = 0; i < per; i++)
            v[c + i] = vi_load(t->r->base + t->r->offset[j + i] + (size_t)((x + c) / per) * LANES);
        interleave(a, v + c);
    }
}

// acc = acc + weights times V for n queries from `query` on and `wide` vectors from x on, positions from .. to-1 of the
// part.
SPECIALIZE void weigh(enum arithmetic a, const struct weighing *t, bool laid, int32_t query, int32_t from, int32_t to,
                      int32_t x, int32_t n, int32_t wide)
{
    const int32_t per = per_lane(a), digits = digits_of(a);
    const size_t row = (size_t)(vectors_of(a, t->w->d) * per * LANES); // of the positions that share lanes
    const uint8_t *p = (const uint8_t *)(t->w->s + (size_t)query * CPU_SPLIT) + from / per * 4;
    const uint8_t *v_at = t->w->laid + (size_t)((from - t->first) / per) * row + (size_t)(x * LANES);
    float *acc = t->acc + (uint64_t)query * attn_width(t->w->d) + x * VL;
    vf sum[16];
#pragma GCC unroll 16
    for (int32_t i = 0; i < n * digits * wide; i++)
        sum[i] = a == IN_INT8 ? vf_zero() : vf_load(acc + (uint64_t)(i / wide) * attn_width(t->w->d) + i % wide * VL);
    for (int32_t j = from; j < to; j += per, p += 4, v_at += row) {
        vi v[8];
        load_v(a, t, laid ? v_at : NULL, j - t->first, x, wide, v);
#pragma GCC unroll 8
        for (int32_t i = 0; i < n * digits; i++) {
            struct lanes one = spread_lane(a, p + (size_t)(i / digits * CPU_SPLIT) * 4 + i % digits * CPU_SPLIT);
#pragma GCC unroll 8
            for (int32_t c = 0; c < wide; c++)
                sum[i * wide + c] = dot(a, sum[i * wide + c], one, as_lanes(a, v[c]));
        }
        if (!laid && x == 0)
            ask(t->ahead, j - t->first, per, t->w->d * (a == IN_BF16 ? 2 : 1));
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; i++)
#pragma GCC unroll 8
        for (int32_t c = 0; c < wide; c++) {
            float *out = acc + (uint64_t)i * attn_width(t->w->d) + c * VL;
            vf new = sum[i * digits * wide + c];
            if (a == IN_INT8)
                new = add_integers(vf_load(out), add_integers(next_digit(new), sum[(i * digits + 1) * wide + c]));
            vf_store(out, new);
        }
}

SPECIALIZE void weigh_queries(enum arithmetic a, const struct weighing *t, bool laid, int32_t i, int32_t n, int32_t wide)
{
    const int32_t query = t->h * t->w->a->n + i, vectors = vectors_of(a, t->w->d) * per_lane(a);
    int32_t from, to, x = 0;
    seen(t->w, i, n, t->first, t->end, 4, &from, &to);
    for (; x + wide <= vectors; x += wide)
        weigh(a, t, laid, query, from, to, x, n, wide);
    for (; x < vectors; x += per_lane(a) < wide ? per_lane(a) : wide)
        weigh(a, t, laid, query, from, to, x, n, per_lane(a) < wide ? per_lane(a) : wide);
}

SPECIALIZE void weigh_head(enum arithmetic a, const struct weighing *t, bool laid)
{
    const int32_t most = (VL == 16 ? 16 : 8) / digits_of(a); // registers
    int32_t i = 0, n = t->w->a->n;
    for (; laid && VL == 16 && i + 4 <= n; i += 4)
        weigh_queries(a, t, laid, i, 4, most / 4);
    for (; i + 2 <= n; i += 2)
        weigh_queries(a, t, laid, i, 2, most / 2);
    for (; i < n; i++)
        weigh_queries(a, t, laid, i, 1, most < 8 ? most : 8);
}

// Few queries take V as it is read; for more it is laid out once.
SPECIALIZE void weigh_in(enum arithmetic a, const struct weighing *t, const float *scale)
{
    if (a != IN_F32 && VL == 16 && t->w->a->n <= 2 && t->w->d % (VL * per_lane(a)) == 0) {
        weigh_head(a, t, false);
        return;
    }
    lay_v(t->w, t->r, scale, t->ahead);
    weigh_head(a, t, true);
}

static void weigh_part(const struct work *w, float *acc)
{
    float scale[CPU_SPLIT];
    struct step ahead = step_ahead(w, KV_V);
    for (struct step s = first_step(w, KV_V); s.side == KV_V; next_step(w, &s), next_step(w, &ahead)) {
        int32_t end = w->high < s.first + w->group ? w->high : s.first + w->group;
        struct weighing t = {w, s.head, s.first, end, &s.rows, &ahead.rows, acc};
        if (w->v_in == IN_F32 && w->a->kv->type[KV_V] == DTYPE_INT8)
            load_scales(w, KV_V, s.head, s.first, s.first + w->group, scale);
        switch (w->v_in) {
        case IN_F32: weigh_in(IN_F32, &t, scale + s.first); break;
        case IN_BF16: weigh_in(IN_BF16, &t, scale + s.first); break;
        case IN_INT8: weigh_in(IN_INT8, &t, scale + s.first); break;
        }
    }
}

void SYM(attn)(const struct attn_query *a, const struct attn_rows *rows, const struct attn_rows *after,
               const struct attn_part *out, float *scratch)
{
    struct work w;
    int32_t n = a->n_heads * a->n, begin = a->begin[0] - rows->first, end = a->end[a->n - 1];
    uint64_t width = attn_width(a->kv->head_dim);
    w.a = a, w.d = a->kv->head_dim, w.first = rows->first;
    w.group = a->n > ATTN_FEW ? ATTN_GROUP : ATTN_STEP;
    w.low = begin > 0 ? begin / w.group * w.group : 0, w.high = (end < rows->end ? end : rows->end) - rows->first;
    w.k_in = arithmetic_of(a->kv->type[KV_K], a->compute), w.v_in = arithmetic_of(a->kv->type[KV_V], a->compute);
    lay_out(&w, scratch);
    locate_part(&w, rows, after);
    for (int32_t i = 0; i < n; i++)
        prepare_query(&w, i);
    memset(out->acc, 0, (size_t)n * width * sizeof *out->acc);
    score_part(&w);
    soften_part(&w, out);
    weigh_part(&w, out->acc);
    for (int32_t i = 0; w.v_in == IN_INT8 && i < n; i++)
        for (float *at = out->acc + (uint64_t)i * width, *stop = at + width; at < stop; at += VL)
            vf_store(at, vf_mul(vi_to_vf(vi_load(at)), vf_set(w.worth[i])));
}

// total := total and part seen together (Milakov, Gimelshein 2018). A part in which a query saw nothing changes nothing.
void SYM(attn_join)(const struct attn_part *total, const struct attn_part *part, int32_t n, int32_t head_dim)
{
    uint64_t width = attn_width(head_dim);
    for (int32_t i = 0; i < n; i++) {
        if (part->sum[i] == 0)
            continue;
        float max = fmaxf(total->max[i], part->max[i]);
        float keep = expf(total->max[i] - max), take = expf(part->max[i] - max);
        float *acc = total->acc + (uint64_t)i * width;
        const float *more = part->acc + (uint64_t)i * width;
        for (uint64_t k = 0; k < width; k += VL)
            vf_store(acc + k, vf_fma(vf_load(acc + k), vf_set(keep), vf_mul(vf_load(more + k), vf_set(take))));
        total->sum[i] = total->sum[i] * keep + part->sum[i] * take;
        total->max[i] = max;
    }
}

// Where dimensions 4 g .. 4 g + 3 lie in acc: V's lanes were interleaved inside 128 bits.
SPECIALIZE int32_t place_of(int32_t per, int32_t g)
{
    const int32_t quarters = VL / 4;
    int32_t block = g / (quarters * per), in_block = g % (quarters * per);
    return ((block * per + in_block % per) * quarters + in_block / per) * 4;
}

// What one query weighed, divided by the sum, the dimensions in order.
void SYM(attn_end)(const struct attn_query *a, const struct attn_part *total, int32_t i, float *out)
{
    int32_t d = a->kv->head_dim, per = per_lane(arithmetic_of(a->kv->type[KV_V], a->compute));
    const float *acc = total->acc + (uint64_t)i * attn_width(d);
    float inverse = 1 / total->sum[i];
    for (int32_t g = 0; 4 * g < d; g++) {
        const float *at = acc + place_of(per, g);
        for (int32_t k = 0; k < 4 && 4 * g + k < d; k++)
            out[4 * g + k] = at[k] * inverse;
    }
}
