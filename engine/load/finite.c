// Looking for NaN and infinity at memory speed: an IEEE value is neither unless its exponent is all ones.
#include "engine/load/files.h"

#include <string.h>

// e4m3 has one pattern of each sign for NaN and none for infinity.
static bool bytes_finite(const uint8_t *p, uint64_t n)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++)
        bad |= (p[i] & 0x7f) == 0x7f;
    return !bad;
}

static bool words16_finite(const uint8_t *p, uint64_t n, uint16_t exponent)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t v;
        memcpy(&v, p + 2 * i, sizeof v);
        bad |= (v & exponent) == exponent;
    }
    return !bad;
}

static bool words32_finite(const uint8_t *p, uint64_t n)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, p + 4 * i, sizeof v);
        bad |= (v & 0x7f800000) == 0x7f800000;
    }
    return !bad;
}

// n_scales f16 values at `offset` of each block.
static bool scales_finite(const uint8_t *p, uint64_t n_blocks, uint64_t block_bytes, uint64_t offset, uint64_t n_scales)
{
    bool finite = true;
    for (uint64_t i = 0; i < n_blocks; i++)
        finite &= words16_finite(p + i * block_bytes + offset, n_scales, 0x7c00);
    return finite;
}

// MXFP4: 12 * 2^(e - 128), its largest value, is above f32 for the highest exponents.
static bool exponents_finite(const uint8_t *p, uint64_t n_blocks, uint64_t block_bytes)
{
    bool finite = true;
    for (uint64_t i = 0; i < n_blocks; i++)
        finite &= p[i * block_bytes] <= 252;
    return finite;
}

// Where the blocks of each type have their f16 numbers.
static const struct {
    enum dtype type;
    uint8_t offset, n;
} SCALES[] = {
    {DTYPE_Q8_0, 0, 1}, {DTYPE_Q4_0, 0, 1},   {DTYPE_Q4_1, 0, 2},   {DTYPE_Q5_0, 0, 1},
    {DTYPE_Q5_1, 0, 2}, {DTYPE_Q2_K, 80, 2},  {DTYPE_Q3_K, 108, 1}, {DTYPE_Q4_K, 0, 2},
    {DTYPE_Q5_K, 0, 2}, {DTYPE_Q6_K, 208, 1}, {DTYPE_IQ4_NL, 0, 1}, {DTYPE_IQ4_XS, 0, 1},
};

bool values_finite(enum dtype type, const void *data, uint64_t bytes)
{
    uint64_t block_bytes = dtype_row_bytes(type, (uint64_t)dtype_block(type));
    switch (type) {
    case DTYPE_F32: return words32_finite(data, bytes / 4);
    case DTYPE_F16: return words16_finite(data, bytes / 2, 0x7c00);
    case DTYPE_BF16: return words16_finite(data, bytes / 2, 0x7f80);
    case DTYPE_FP8: return bytes_finite(data, bytes);
    case DTYPE_MXFP4: return exponents_finite(data, bytes / block_bytes, block_bytes);
    default: break;
    }
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++)
        if (SCALES[i].type == type)
            return scales_finite(data, bytes / block_bytes, block_bytes, SCALES[i].offset, SCALES[i].n);
    return true;
}
