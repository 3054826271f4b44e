// Seeded random weights, made in the type they are stored in. Word w of row r of tensor t depends on (seed, t, r, w) alone,
// so any division into rows and threads gives the same bytes.
//
// Matrices are uniform in +-sqrt(3 / cols), which has variance 1 / cols: a row keeps the scale of what it multiplies, and
// deep models neither explode nor vanish. Norms are 1, biases 0.
#include "engine/base/rng.h"
#include "engine/load/files.h"

#include <math.h>
#include <string.h>

static bool is_bias(const struct tensor_spec *t)
{
    return strstr(tensor_role_name((enum tensor_role)t->role), "_bias") != NULL;
}

static void fill_vector(const struct tensor_spec *t, void *row)
{
    float value = is_bias(t) ? 0 : 1;
    uint16_t half = (enum dtype)t->dtype == DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    for (int32_t i = 0; i < t->cols; i++)
        if (t->dtype == DTYPE_F32)
            memcpy((float *)row + i, &value, sizeof value);
        else
            memcpy((uint16_t *)row + i, &half, sizeof half);
}

static void fill_f32(float *out, int32_t n, float limit, uint64_t stream, uint64_t word)
{
    for (int32_t i = 0; i < n; i += 2) {
        uint64_t bits = rng_at(stream, word++);
        for (int32_t k = 0; k < 2 && i + k < n; k++, bits >>= 32)
            out[i + k] = ((float)(int32_t)bits + 0.5f) * 0x1p-31f * limit;
    }
}

// One random word makes four values. + 0.5 makes the range symmetric.
static void fill_halves(uint16_t *out, int32_t n, float limit, bool bf16, uint64_t stream, uint64_t word)
{
    for (int32_t i = 0; i < n; i += 4) {
        uint64_t bits = rng_at(stream, word++);
        for (int32_t k = 0; k < 4 && i + k < n; k++, bits >>= 16) {
            float v = ((float)(int16_t)bits + 0.5f) * 0x1p-15f * limit;
            uint32_t u;
            memcpy(&u, &v, sizeof u);
            out[i + k] = bf16 ? (uint16_t)((u + 0x8000) >> 16) : f32_to_f16(v);
        }
    }
}

static void fill_bytes(uint8_t *out, uint64_t n, uint64_t stream, uint64_t word)
{
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t bits = rng_at(stream, word++);
        memcpy(out + i, &bits, n - i < 8 ? n - i : 8);
    }
}

static void put_f16(uint8_t *at, float v)
{
    uint16_t h = f32_to_f16(v);
    memcpy(at, &h, sizeof h);
}

static void put_f16s(uint8_t *at, float scale, float min)
{
    put_f16(at, scale);
    put_f16(at + 2, min);
}

// Scales of 6 bits with an offset of 32, all of them 1: low nibbles 1, high pairs 2.
static void put_scales_33(uint8_t *low, uint8_t *high, size_t n_low, size_t n_high)
{
    memset(low, 0x11, n_low);
    memset(high, 0xaa, n_high);
}

// Uniform values of 8 bits, rounded to e4m3: codes drawn at random would hold NaN and powers of ten beside each other.
static void fill_fp8(uint8_t *out, int32_t n, float limit, uint64_t stream, uint64_t word)
{
    uint8_t code[256];
    for (int i = 0; i < 256; i++)
        code[i] = f32_to_e4m3(((float)(int8_t)i + 0.5f) / 128 * limit);
    fill_bytes(out, (uint64_t)n, stream, word);
    for (int32_t i = 0; i < n; i++)
        out[i] = code[out[i]];
}

// Every code of the quantized types is a valid value, so only the scales need care. They give the variance of the uniform
// range, limit^2 / 3, whose square root is 67.4 / 116.8 of the limit for IQ4's levels, and so on.
static void set_scales(enum dtype type, uint8_t *block, float limit)
{
    switch (type) {
    case DTYPE_Q8_0: put_f16(block, limit / 128); break;
    case DTYPE_INT4:
    case DTYPE_Q4_0: put_f16(block, limit / 8); break;
    case DTYPE_Q4_1: put_f16s(block, limit / 8, limit * (-7.5f / 8)); break; // 16 steps, centred
    case DTYPE_Q5_0: put_f16(block, limit / 16); break;
    case DTYPE_Q5_1: put_f16s(block, limit / 16, limit * (-15.5f / 16)); break;
    case DTYPE_Q2_K: // every scale and min of a K type is 1
        memset(block, 0x11, 16);
        put_f16s(block + 80, limit / 1.936f, limit * (1.5f / 1.936f));
        break;
    case DTYPE_Q3_K:
        put_scales_33(block + 96, block + 104, 8, 4);
        put_f16(block + 108, limit / 4.062f);
        break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        put_f16s(block, limit / (type == DTYPE_Q4_K ? 8 : 16), limit * (type == DTYPE_Q4_K ? 7.5f / 8 : 15.5f / 16));
        memset(block + 4, 1, 8);
        memset(block + 12, 0x11, 4);
        break;
    case DTYPE_IQ4_NL: put_f16(block, limit / 116.8f); break;
    case DTYPE_IQ4_XS:
        put_f16(block, limit / 116.8f);
        put_scales_33(block + 4, block + 2, 4, 2);
        break;
    case DTYPE_MXFP4: *block = (uint8_t)(lrintf(log2f(limit / 10.14f)) + 128); break; // the nearest there is
    case DTYPE_Q6_K:
        memset(block + 192, 1, 16);
        put_f16(block + 208, limit / 32);
        break;
    default: break;
    }
}

static void fill_blocks(enum dtype type, uint8_t *row, int32_t cols, float limit, uint64_t stream, uint64_t word)
{
    uint64_t bytes = dtype_row_bytes(type, (uint64_t)cols);
    fill_bytes(row, bytes, stream, word);
    if (type == DTYPE_INT8)
        put_f16(row + cols, limit / 128); // one scale per row, after the values
    uint64_t block_bytes = dtype_row_bytes(type, (uint64_t)dtype_block(type));
    for (uint64_t at = 0; dtype_block(type) > 1 && at < bytes; at += block_bytes)
        set_scales(type, row + at, limit);
}

static void fill_row(const struct tensor_spec *t, void *row, uint64_t stream, uint64_t word)
{
    float limit = sqrtf(3 / (float)t->cols);
    switch ((enum dtype)t->dtype) {
    case DTYPE_F32: fill_f32(row, t->cols, limit, stream, word); break;
    case DTYPE_F16: fill_halves(row, t->cols, limit, false, stream, word); break;
    case DTYPE_BF16: fill_halves(row, t->cols, limit, true, stream, word); break;
    case DTYPE_FP8: fill_fp8(row, t->cols, limit, stream, word); break;
    default: fill_blocks((enum dtype)t->dtype, row, t->cols, limit, stream, word); break;
    }
}

uint64_t random_stream(uint64_t seed, int32_t id)
{
    return rng_at(seed, (uint64_t)id);
}

void random_fill(const struct tensor_spec *t, int32_t id, uint64_t seed, int32_t first, int32_t count, void *row)
{
    if (t->rows == 1) {
        fill_vector(t, row);
        return;
    }
    uint64_t stream = random_stream(seed, id), words = (uint64_t)t->cols; // at least as many as a row draws
    uint64_t row_bytes = dtype_row_bytes((enum dtype)t->dtype, (uint64_t)t->cols);
    for (int32_t i = 0; i < count; i++)
        fill_row(t, (uint8_t *)row + (uint64_t)i * row_bytes, stream, (uint64_t)(first + i) * words);
}
