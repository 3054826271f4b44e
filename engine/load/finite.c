// Looking for NaN and infinity at memory speed: an IEEE value is neither unless its exponent is all ones.
#include "engine/load/files.h"

#include <string.h>

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

bool values_finite(enum dtype type, const void *data, uint64_t bytes)
{
    uint64_t block_bytes = dtype_row_bytes(type, (uint64_t)dtype_block(type));
    switch (type) {
    case DTYPE_F32: return words32_finite(data, bytes / 4);
    case DTYPE_F16: return words16_finite(data, bytes / 2, 0x7c00);
    case DTYPE_BF16: return words16_finite(data, bytes / 2, 0x7f80);
    case DTYPE_Q8_0:
    case DTYPE_Q4_0: return scales_finite(data, bytes / block_bytes, block_bytes, 0, 1);
    case DTYPE_Q4_1: return scales_finite(data, bytes / block_bytes, block_bytes, 0, 2);
    case DTYPE_Q6_K: return scales_finite(data, bytes / block_bytes, block_bytes, block_bytes - 2, 1);
    default: return true;
    }
}
