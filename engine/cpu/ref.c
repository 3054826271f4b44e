// The reference kernels: each reads like its formula. Nobody optimizes them; the others are tested against them.
#include "engine/cpu/kernels.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 }; // weights converted at a time: a multiple of every block size

static float dot(const float *a, const float *b, int32_t n)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// y = W x, with x rounded as the arithmetic says.
static void ref_linear(const struct linear_panel *a)
{
    memset(a->sum, 0, (size_t)(a->n_rows * PANEL) * sizeof *a->sum);
    for (int32_t o = 0; o < PANEL && a->panel * PANEL + o < a->w->rows; o++)
        for (int32_t k = 0; k < a->w->cols; k += PIECE) {
            float w[PIECE];
            int32_t n = a->w->cols - k < PIECE ? a->w->cols - k : PIECE;
            pack_read(a->w, a->panel * PANEL + o, k, n, w);
            for (int32_t r = 0; r < a->n_rows; r++)
                a->sum[r * PANEL + o] += dot(w, (const float *)(const void *)(a->x + (uint64_t)r * a->x_stride) + k, n);
        }
}

static void ref_prepare_f32(const float *x, int32_t n, void *row)
{
    memcpy(row, x, (size_t)n * sizeof *x);
}

static void ref_prepare_bf16(const float *x, int32_t n, void *row)
{
    float *y = row;
    for (int32_t i = 0; i < n; i++)
        y[i] = bf16_to_f32(f32_to_bf16(x[i]));
}

// Each group of 32: the largest magnitude becomes 127.
static void ref_prepare_int8(const float *x, int32_t n, void *row)
{
    float *y = row;
    for (int32_t first = 0; first < n; first += GROUP) {
        int32_t end = first + GROUP < n ? first + GROUP : n;
        float max = 0;
        for (int32_t i = first; i < end; i++)
            max = fmaxf(max, fabsf(x[i]));
        for (int32_t i = first; i < end; i++)
            y[i] = max > 0 ? max / 127 * rintf(x[i] * (127 / max)) : 0;
    }
}

static void ref_kv_store_f32(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    dtype_from_f32(DTYPE_F32, in, values, (size_t)n);
}

static void ref_kv_store_f16(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    dtype_from_f32(DTYPE_F16, in, values, (size_t)n);
}

static void ref_kv_store_bf16(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    dtype_from_f32(DTYPE_BF16, in, values, (size_t)n);
}

static void ref_kv_store_int8(const float *in, void *values, uint16_t *scale, int32_t n)
{
    uint8_t row[CPU_MAX_HEAD_DIM + sizeof *scale];
    dtype_from_f32(DTYPE_INT8, in, row, (size_t)n);
    memcpy(values, row, (size_t)n);
    memcpy(scale, row + n, sizeof *scale);
}

static void ref_kv_store_fp8(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    for (int32_t i = 0; i < n; i++)
        ((uint8_t *)values)[i] = f32_to_e4m3(in[i]);
}

// K or V of one position of one head.
static void kv_load(const struct kv_layer *l, const int32_t *table, int32_t head, int side, int32_t pos, float *out)
{
    uint8_t *values = kv_values(l, side, table[pos / l->block_size], head);
    int32_t token = pos % l->block_size;
    uint8_t row[4 * CPU_MAX_HEAD_DIM + sizeof(uint16_t)];
    memcpy(row, values + (uint64_t)token * l->row_bytes[side], l->row_bytes[side]);
    if (l->type[side] == DTYPE_INT8)
        memcpy(row + l->row_bytes[side], kv_scales(l, side, values) + token, sizeof(uint16_t));
    for (int32_t i = 0; i < l->head_dim && l->type[side] == DTYPE_FP8; i++)
        out[i] = e4m3_to_f32(row[i]);
    if (l->type[side] != DTYPE_FP8)
        dtype_to_f32(l->type[side], row, out, (size_t)l->head_dim);
}

// softmax(scale * q K^T) V over `rows` of one head, not divided: the largest score, the sum of exponentials, the weighted
// sum.
static void attend(const struct attn_query *a, const float *q, const struct attn_rows *rows, float *max, float *sum,
                   float *acc)
{
    int32_t d = a->kv->head_dim;
    float score[CPU_SPLIT], row[CPU_MAX_HEAD_DIM];
    *max = -INFINITY, *sum = 0;
    memset(acc, 0, (size_t)d * sizeof *acc);
    for (int32_t p = rows->first; p < rows->end; p++) {
        kv_load(a->kv, rows->table, rows->head, KV_K, p, row);
        float *s = &score[p - rows->first];
        *s = a->scale * dot(q, row, d);
        if (a->softcap != 0)
            *s = a->softcap * tanhf(*s / a->softcap);
        *max = fmaxf(*max, *s);
    }
    for (int32_t p = rows->first; p < rows->end; p++) {
        float weight = expf(score[p - rows->first] - *max);
        *sum += weight;
        kv_load(a->kv, rows->table, rows->head, KV_V, p, row);
        for (int32_t i = 0; i < d; i++)
            acc[i] += weight * row[i];
    }
}

// In f32, whatever a->compute says: the exact answer that rounded arithmetic is measured against.
static void ref_attn(const struct attn_query *a, const struct attn_rows *rows, const struct attn_rows *after,
                     const struct attn_part *out, float *scratch)
{
    (void)after, (void)scratch;
    for (int32_t i = 0; i < a->n_heads * a->n; i++) {
        int32_t begin = a->begin[i % a->n], end = a->end[i % a->n];
        struct attn_rows seen = *rows;
        seen.head += i / a->n;
        seen.first = begin > rows->first ? begin : rows->first, seen.end = end < rows->end ? end : rows->end;
        attend(a, a->q[i], &seen, &out->max[i], &out->sum[i], out->acc + (uint64_t)i * attn_width(a->kv->head_dim));
    }
}

// Milakov, Gimelshein 2018: total := total and part seen together. A part in which a query saw nothing changes nothing.
static void ref_attn_join(const struct attn_part *total, const struct attn_part *part, int32_t n, int32_t head_dim)
{
    for (int32_t i = 0; i < n; i++) {
        if (part->sum[i] == 0)
            continue;
        float max = fmaxf(total->max[i], part->max[i]);
        float keep = expf(total->max[i] - max), take = expf(part->max[i] - max);
        for (int32_t k = 0; k < head_dim; k++) {
            uint64_t at = (uint64_t)i * attn_width(head_dim) + (uint64_t)k;
            total->acc[at] = total->acc[at] * keep + part->acc[at] * take;
        }
        total->sum[i] = total->sum[i] * keep + part->sum[i] * take;
        total->max[i] = max;
    }
}

static void ref_attn_end(const struct attn_query *a, const struct attn_part *total, int32_t query, float *out)
{
    for (int32_t k = 0; k < a->kv->head_dim; k++)
        out[k] = total->acc[(uint64_t)query * attn_width(a->kv->head_dim) + (uint64_t)k] / total->sum[query];
}

// Zhang, Sennrich 2019: y = x / sqrt(mean(x^2) + eps) * weight
static void ref_norm(const float *x, const float *weight, float eps, float *y, int32_t n)
{
    float scale = 1 / sqrtf(dot(x, x, n) / (float)n + eps);
    for (int32_t i = 0; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

// Su et al. 2021, halves paired: (x_i, x_{i+h}) turns by the angle of pair i; values beyond rotary_dim stay.
static void ref_rope(const float *x, const float *cos, const float *sin, float *y, int32_t n, int32_t rotary_dim)
{
    int32_t h = rotary_dim / 2;
    for (int32_t i = 0; i < h; i++) {
        float a = x[i], b = x[i + h];
        y[i] = a * cos[i] - b * sin[i];
        y[i + h] = b * cos[i] + a * sin[i];
    }
    for (int32_t i = rotary_dim; i < n; i++)
        y[i] = x[i];
}

static void ref_silu_mul(const float *gate, const float *up, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

// Hendrycks, Gimpel 2016: the approximation of x * Phi(x) by tanh.
static void ref_gelu_tanh_mul(const float *gate, const float *up, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float x = gate[i], u = sqrtf(2 / 3.14159265f) * (x + 0.044715f * x * x * x);
        y[i] = x * (1 + tanhf(u)) / 2 * up[i];
    }
}

static void ref_add(const float *a, const float *b, float factor, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = a[i] + factor * b[i];
}

static void ref_scale(float *x, float factor, float softcap, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        x[i] *= factor;
        if (softcap != 0)
            x[i] = softcap * tanhf(x[i] / softcap);
    }
}

static void ref_stream(const uint8_t *p, uint64_t bytes, int32_t n_streams)
{
    volatile uint64_t any = 0;
    uint64_t sum = 0, word, part = bytes / (uint64_t)n_streams;
    for (uint64_t at = 0; at < part; at += sizeof word)
        for (int32_t i = 0; i < n_streams; i++) {
            memcpy(&word, p + (uint64_t)i * part + at, sizeof word);
            sum |= word;
        }
    any = sum;
    (void)any;
}

static void ref_move(float *to, const float *a, const float *b, uint64_t n, bool past_cache)
{
    (void)past_cache;
    for (uint64_t i = 0; i < n; i++)
        to[i] = b ? a[i] + 0.5f * b[i] : a[i];
}

const struct cpu_kernels cpu_kernels_ref = {
    .name = "ref",
    .linear = {[DTYPE_F32] =
                   {
#define X(name, form) [form] = ref_linear,
                       F32_KERNELS(X)},
               [DTYPE_BF16] = {[PACK_BF16] = ref_linear},
               [DTYPE_INT8] = {INT8_KERNELS(X)}},
#undef X
    .prepare = {[DTYPE_F32] = ref_prepare_f32, [DTYPE_BF16] = ref_prepare_bf16, [DTYPE_INT8] = ref_prepare_int8},
    .row_bytes = {[DTYPE_F32] = 4, [DTYPE_BF16] = 4, [DTYPE_INT8] = 4},
    .kv_store = {[DTYPE_F32] = ref_kv_store_f32,
                 [DTYPE_F16] = ref_kv_store_f16,
                 [DTYPE_BF16] = ref_kv_store_bf16,
                 [DTYPE_FP8] = ref_kv_store_fp8, // this table's alone, for comparison with devices that have it
                 [DTYPE_INT8] = ref_kv_store_int8},
    .attn = ref_attn,
    .attn_join = ref_attn_join,
    .attn_end = ref_attn_end,
    .norm = ref_norm,
    .rope = ref_rope,
    .act_mul = {[ACT_SILU] = ref_silu_mul, [ACT_GELU_TANH] = ref_gelu_tanh_mul},
    .add = ref_add,
    .scale = ref_scale,
    .stream = ref_stream,
    .move = ref_move,
};
