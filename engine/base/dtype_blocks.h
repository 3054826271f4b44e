// The block formats of GGUF: how the bytes of one block become its values. For dtype.c and the kernels.
#ifndef ENGINE_BASE_DTYPE_BLOCKS_H
#define ENGINE_BASE_DTYPE_BLOCKS_H

#include "engine/base/dtype.h"

#include <string.h>

typedef void dtype_block_reader(const uint8_t *block, float *out);
extern dtype_block_reader *const dtype_block_to_f32[DTYPE_COUNT]; // NULL: not a block format

static inline uint16_t dtype_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

// The 16 levels that codes of 4 bits choose from; MXFP4's (E2M1) are twice what they stand for.
extern const int8_t dtype_iq4_level[16], dtype_mxfp4_level[16];

// 2^(e - 128): half of what an E8M0 exponent means, which evens out the doubled levels.
static inline float dtype_e8m0_half(uint8_t e)
{
    uint32_t u = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

#endif
