// Linear layers over few rows, and weights widened to f32. Outputs are taken TILE_OUT at a time and rows TILE_ROWS at a
// time; every output has one vector of partial sums that runs through k in order, so neither tile size nor neighbours show.
#include "engine/cpu/isa.h"
#include "engine/cpu/weights.h"

enum { TILE_OUT = 4, TILE_ROWS = VL == 16 ? 4 : 3 }; // sums, x and w fit 32 or 16 registers

// The last n % VL values of a row of plain values, padded with zeros to a whole vector.
SPECIALIZE vf load_tail(load_weights load, const uint8_t *row, int32_t size, int32_t n)
{
    uint8_t tail[VL * 4] = {0};
    int32_t done = n / VL * VL;
    memcpy(tail, row + (size_t)done * (size_t)size, (size_t)(n - done) * (size_t)size);
    return load(tail, 0, 0);
}

// sum[o][r] += w[o] * x[r] for the vectors at k + j.
SPECIALIZE void multiply(load_weights load, const uint8_t *w, size_t row_bytes, const float *const *x, int32_t k, int32_t j,
                         int32_t n_out, int32_t n_rows, vf sum[TILE_OUT][TILE_ROWS])
{
    vf row[TILE_ROWS];
#pragma GCC unroll 4
    for (int32_t r = 0; r < n_rows; r++)
        row[r] = vf_load(x[r] + k + j);
#pragma GCC unroll 4
    for (int32_t o = 0; o < n_out; o++) {
        vf weights = load(w + (size_t)o * row_bytes, (uint32_t)k, (uint32_t)j);
#pragma GCC unroll 4
        for (int32_t r = 0; r < n_rows; r++)
            sum[o][r] = vf_fma(weights, row[r], sum[o][r]);
    }
}

SPECIALIZE void multiply_tail(load_weights load, const uint8_t *w, size_t row_bytes, int32_t size, const float *const *x,
                              int32_t n, int32_t n_out, int32_t n_rows, vf sum[TILE_OUT][TILE_ROWS])
{
    int32_t done = n / VL * VL;
#pragma GCC unroll 4
    for (int32_t o = 0; o < n_out; o++) {
        vf weights = load_tail(load, w + (size_t)o * row_bytes, size, n);
#pragma GCC unroll 4
        for (int32_t r = 0; r < n_rows; r++)
            sum[o][r] = vf_fma(weights, vf_load_n(x[r] + done, n - done), sum[o][r]);
    }
}

// The same stretch of the next tile of outputs: rows are too short for the hardware to see a stream.
SPECIALIZE void prefetch_rows(const uint8_t *w, size_t row_bytes, size_t at, int32_t n_out)
{
#pragma GCC unroll 4
    for (int32_t o = 0; o < n_out; o++)
        _mm_prefetch((const char *)w + (size_t)o * row_bytes + at, _MM_HINT_T0);
}

// n_out outputs from `first` of n_rows rows from `row`; both counts constants.
SPECIALIZE void tile(load_weights load, int32_t size, const struct linear_rows *a, size_t row_bytes, int32_t first,
                     int32_t row, int32_t n_out, int32_t n_rows)
{
    const uint8_t *w = (const uint8_t *)a->w->data + (size_t)first * row_bytes;
    const float *const *x = a->x + row;
    int32_t n = a->w->cols, k = 0;
    vf sum[TILE_OUT][TILE_ROWS];
#pragma GCC unroll 4
    for (int32_t o = 0; o < n_out; o++)
#pragma GCC unroll 4
        for (int32_t r = 0; r < n_rows; r++)
            sum[o][r] = vf_zero();
    size_t ahead = (size_t)n_out * row_bytes, stride = GROUP * row_bytes / (size_t)n;
    for (; k + GROUP <= n; k += GROUP, ahead += stride) {
        prefetch_rows(w, row_bytes, ahead, n_out);
#pragma GCC unroll 4
        for (int32_t j = 0; j < GROUP; j += VL)
            multiply(load, w, row_bytes, x, k, j, n_out, n_rows, sum);
    }
    for (; size && k + VL <= n; k += VL)
        multiply(load, w, row_bytes, x, k, 0, n_out, n_rows, sum);
    if (size && k < n)
        multiply_tail(load, w, row_bytes, size, x, n, n_out, n_rows, sum);
#pragma GCC unroll 4
    for (int32_t o = 0; o < n_out; o++)
#pragma GCC unroll 4
        for (int32_t r = 0; r < n_rows; r++)
            a->y[row + r][first + o] = vf_sum(sum[o][r]) + (a->bias ? a->bias[first + o] : 0);
}

SPECIALIZE void tile_rows(load_weights load, int32_t size, const struct linear_rows *a, size_t row_bytes, int32_t first,
                          int32_t n_out)
{
    int32_t row = 0;
    for (; row + TILE_ROWS <= a->n_rows; row += TILE_ROWS)
        tile(load, size, a, row_bytes, first, row, n_out, TILE_ROWS);
    switch (a->n_rows - row) {
    case 3: tile(load, size, a, row_bytes, first, row, n_out, 3); break;
    case 2: tile(load, size, a, row_bytes, first, row, n_out, 2); break;
    case 1: tile(load, size, a, row_bytes, first, row, n_out, 1); break;
    }
}

// size: bytes per value of plain types, whose rows may end inside a vector; 0: block types, whose rows do not.
SPECIALIZE void linear(load_weights load, enum dtype type, int32_t size, const struct linear_rows *a, int32_t first,
                       int32_t end)
{
    size_t row_bytes = dtype_row_bytes(type, (uint64_t)a->w->cols);
    int32_t o = first;
    for (; o + TILE_OUT <= end; o += TILE_OUT)
        tile_rows(load, size, a, row_bytes, o, TILE_OUT);
    for (; o < end; o++)
        tile_rows(load, size, a, row_bytes, o, 1);
}

SPECIALIZE void to_f32(load_weights load, int32_t size, const void *row, float *out, int32_t n)
{
    int32_t k = 0;
    for (; k + GROUP <= n; k += GROUP)
#pragma GCC unroll 4
        for (int32_t j = 0; j < GROUP; j += VL)
            vf_store(out + k + j, load(row, (uint32_t)k, (uint32_t)j));
    for (; size && k + VL <= n; k += VL)
        vf_store(out + k, load(row, (uint32_t)k, 0));
    if (size && k < n)
        vf_store_n(out + k, load_tail(load, row, size, n), n - k);
}

#define WEIGHT_KERNELS(name, type, size)                                                                                    \
    void SYM(linear_##name)(const struct linear_rows *a, int32_t first, int32_t end)                                        \
    {                                                                                                                       \
        linear(weights_##name, type, size, a, first, end);                                                                  \
    }                                                                                                                       \
    void SYM(to_f32_##name)(const void *row, float *out, int32_t n)                                                         \
    {                                                                                                                       \
        to_f32(weights_##name, size, row, out, n);                                                                          \
    }
WEIGHT_KERNELS(f32, DTYPE_F32, 4)
WEIGHT_KERNELS(f16, DTYPE_F16, 2)
WEIGHT_KERNELS(bf16, DTYPE_BF16, 2)
WEIGHT_KERNELS(q8_0, DTYPE_Q8_0, 0)
WEIGHT_KERNELS(q4_0, DTYPE_Q4_0, 0)
WEIGHT_KERNELS(q4_1, DTYPE_Q4_1, 0)
WEIGHT_KERNELS(q6_k, DTYPE_Q6_K, 0)

// Types whose codes take longer to read: TILE_OUT rows of weights are widened piece by piece, then meet all rows of x. Sums
// run as above.
enum { PIECE = 256 };

static void linear_widened(void (*widen)(const void *, float *, int32_t), enum dtype type, const struct linear_rows *a,
                           int32_t first, int32_t n_out)
{
    size_t row_bytes = dtype_row_bytes(type, (uint64_t)a->w->cols);
    const uint8_t *row = (const uint8_t *)a->w->data + (size_t)first * row_bytes;
    float w[TILE_OUT][PIECE];
    vf sum[CPU_ROWS][TILE_OUT];
    memset(w, 0, sizeof w);
    memset(sum, 0, sizeof sum);
    for (int32_t k = 0; k < a->w->cols; k += PIECE) {
        int32_t n = a->w->cols - k < PIECE ? a->w->cols - k : PIECE;
        for (int32_t o = 0; o < n_out; o++)
            widen(row + (size_t)o * row_bytes + dtype_row_bytes(type, (uint64_t)k), w[o], n);
        for (int32_t r = 0; r < a->n_rows; r++)
            for (int32_t j = 0; j < n; j += VL) {
                vf x = vf_load(a->x[r] + k + j);
#pragma GCC unroll 4
                for (int32_t o = 0; o < TILE_OUT; o++)
                    sum[r][o] = vf_fma(vf_load(w[o] + j), x, sum[r][o]);
            }
    }
    for (int32_t r = 0; r < a->n_rows; r++)
        for (int32_t o = 0; o < n_out; o++)
            a->y[r][first + o] = vf_sum(sum[r][o]) + (a->bias ? a->bias[first + o] : 0);
}

#define WIDENED_KERNELS(name, type)                                                                                         \
    void SYM(to_f32_##name)(const void *row, float *out, int32_t n)                                                         \
    {                                                                                                                       \
        to_f32(weights_##name, 0, row, out, n);                                                                             \
    }                                                                                                                       \
    void SYM(linear_##name)(const struct linear_rows *a, int32_t first, int32_t end)                                        \
    {                                                                                                                       \
        for (int32_t o = first; o < end; o += TILE_OUT)                                                                     \
            linear_widened(SYM(to_f32_##name), type, a, o, end - o < TILE_OUT ? end - o : TILE_OUT);                        \
    }
WIDENED_KERNELS(q5_0, DTYPE_Q5_0)
WIDENED_KERNELS(q5_1, DTYPE_Q5_1)
WIDENED_KERNELS(q2_k, DTYPE_Q2_K)
WIDENED_KERNELS(q3_k, DTYPE_Q3_K)
WIDENED_KERNELS(q4_k, DTYPE_Q4_K)
WIDENED_KERNELS(q5_k, DTYPE_Q5_K)
WIDENED_KERNELS(iq4_nl, DTYPE_IQ4_NL)
WIDENED_KERNELS(iq4_xs, DTYPE_IQ4_XS)
WIDENED_KERNELS(mxfp4, DTYPE_MXFP4)
