#include "engine/base/dtype.h"

#include "engine/base/dtype_blocks.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    int32_t block, block_bytes, row_bytes;
} DTYPE[DTYPE_COUNT] = {
#define X(id, name, block, block_bytes, row_bytes) {name, block, block_bytes, row_bytes},
    DTYPES(X)
#undef X
};

static const struct {
    const char *alias;
    enum dtype type;
} ALIAS[] = {
    {"fp32", DTYPE_F32}, {"float32", DTYPE_F32},   {"float", DTYPE_F32},    {"fp16", DTYPE_F16},    {"float16", DTYPE_F16},
    {"half", DTYPE_F16}, {"bfloat16", DTYPE_BF16}, {"fp8_e4m3", DTYPE_FP8}, {"f8_e4m3", DTYPE_FP8}, {"e4m3", DTYPE_FP8},
};

const char *dtype_name(enum dtype type)
{
    return DTYPE[type].name;
}

bool dtype_parse(const char *name, enum dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (!strcasecmp(name, DTYPE[i].name)) {
            *out = (enum dtype)i;
            return true;
        }
    for (size_t i = 0; i < sizeof ALIAS / sizeof *ALIAS; i++)
        if (!strcasecmp(name, ALIAS[i].alias)) {
            *out = ALIAS[i].type;
            return true;
        }
    return false;
}

int32_t dtype_block(enum dtype type)
{
    return DTYPE[type].block;
}

uint64_t dtype_row_bytes(enum dtype type, uint64_t n)
{
    return n / (uint64_t)DTYPE[type].block * (uint64_t)DTYPE[type].block_bytes + (uint64_t)DTYPE[type].row_bytes;
}

static float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float bf16_to_f32(uint16_t h)
{
    return bits_f32((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) // NaN stays NaN, quiet
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff;
    if (exp == 31)
        return bits_f32(sign | 0x7f800000 | man << 13);
    if (exp)
        return bits_f32(sign | (exp + 112) << 23 | man << 13);
    float sub = (float)man * 0x1p-24f; // subnormal: exact in f32
    return sign ? -sub : sub;
}

uint16_t f32_to_f16(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (mag >= 0x477ff000) // rounds to 65536 or more: infinity
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) // below 2^-14: let f32 addition round the subnormal
        return (uint16_t)(sign | (f32_bits(bits_f32(mag) + 0.5f) - f32_bits(0.5f)));
    mag += 0xc8000fff + (mag >> 13 & 1); // rebias the exponent by -112 and round to nearest even
    return (uint16_t)(sign | mag >> 13);
}

// Fields stand in the order of an f32's: shifting and rebiasing by 120 is exact, subnormals included.
float e4m3_to_f32(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7f;
    if (magnitude == 0x7f)
        return bits_f32(sign | 0x7fc00000);
    return bits_f32(sign | magnitude << 20) * 0x1p120f;
}

uint8_t f32_to_e4m3(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 24 & 0x80, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (magnitude >= f32_bits(448))
        return (uint8_t)(sign | 0x7e);
    if (magnitude < f32_bits(0x1p-6f)) // subnormal: let f32 addition round it
        return (uint8_t)(sign | (f32_bits(bits_f32(magnitude) + 0x1p14f) - f32_bits(0x1p14f)));
    magnitude += 0x7ffff + (magnitude >> 20 & 1); // to nearest even
    return (uint8_t)(sign | ((magnitude >> 20) - (120 << 3)));
}

static void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void int8_to_f32(const uint8_t *row, float *out, size_t n)
{
    float d = f16_to_f32(dtype_load_u16(row + n)); // the scale stands after the values
    for (size_t i = 0; i < n; i++)
        out[i] = d * (float)(int8_t)row[i];
}

bool dtype_to_f32(enum dtype type, const void *row, float *out, size_t n)
{
    const uint8_t *b = row;
    dtype_block_reader *read = dtype_block_to_f32[type];
    switch (type) {
    case DTYPE_F32: memcpy(out, row, n * sizeof *out); return true;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = f16_to_f32(dtype_load_u16(b + 2 * i));
        return true;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            out[i] = bf16_to_f32(dtype_load_u16(b + 2 * i));
        return true;
    case DTYPE_INT8: int8_to_f32(b, out, n); return true;
    default: break;
    }
    if (!read)
        return false;
    for (size_t i = 0; i < n; i += (size_t)DTYPE[type].block, b += DTYPE[type].block_bytes)
        read(b, out + i);
    return true;
}

static float absmax(const float *in, size_t n)
{
    float m = 0;
    for (size_t i = 0; i < n; i++)
        m = fmaxf(m, fabsf(in[i]));
    return m;
}

// Symmetric absmax with the scale already rounded to f16, so that what is stored is what is divided by.
static uint16_t quantize_int8(const float *in, int8_t *q, size_t n)
{
    uint16_t scale = f32_to_f16(absmax(in, n) / 127);
    float d = f16_to_f32(scale), inverse = d > 0 ? 1 / d : 0;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)lrintf(fmaxf(-127, fminf(127, in[i] * inverse)));
    return scale;
}

// The value of largest magnitude maps to -8, as GGUF does, so that the full range of 4 bits is used.
static void quantize_q4_0(const float *in, uint8_t *b)
{
    float extreme = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(in[i]) > fabsf(extreme))
            extreme = in[i];
    uint16_t scale = f32_to_f16(extreme / -8);
    float d = f16_to_f32(scale), inverse = d != 0 ? 1 / d : 0;
    store_u16(b, scale);
    for (int i = 0; i < 16; i++) {
        int low = (int)lrintf(fmaxf(-8, fminf(7, in[i] * inverse))) + 8;
        int high = (int)lrintf(fmaxf(-8, fminf(7, in[i + 16] * inverse))) + 8;
        b[2 + i] = (uint8_t)(low | high << 4);
    }
}

bool dtype_from_f32(enum dtype type, const float *in, void *row, size_t n)
{
    uint8_t *b = row;
    switch (type) {
    case DTYPE_F32: memcpy(row, in, n * sizeof *in); return true;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            store_u16(b + 2 * i, f32_to_f16(in[i]));
        return true;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            store_u16(b + 2 * i, f32_to_bf16(in[i]));
        return true;
    case DTYPE_INT8: store_u16(b + n, quantize_int8(in, (int8_t *)b, n)); return true;
    case DTYPE_Q8_0:
        for (size_t i = 0; i < n; i += 32, b += 34)
            store_u16(b, quantize_int8(in + i, (int8_t *)b + 2, 32));
        return true;
    case DTYPE_INT4:
    case DTYPE_Q4_0:
        for (size_t i = 0; i < n; i += 32, b += 18)
            quantize_q4_0(in + i, b);
        return true;
    default: return false;
    }
}
