// Each formula is exact in f32 up to its last operation: an f16 scale times a scale of a few bits times a code fits 24
// bits (Q6_K alone rounds twice, in the order written here, which is the format's own).
#include "engine/base/dtype_blocks.h"

static float scale_at(const uint8_t *p)
{
    return f16_to_f32(dtype_load_u16(p));
}

// In blocks of 32, 16 bytes hold two codes each: low nibbles are values 0..15, high nibbles 16..31.
static int nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

// f16 d, 32 x i8 q; d * q
static void q8_0(const uint8_t *b, float *out)
{
    float d = scale_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)b[2 + i];
}

// f16 d, nibbles; d * (q - 8)
static void q4_0(const uint8_t *b, float *out)
{
    float d = scale_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(nibble(b + 2, i) - 8);
}

// f16 d, f16 m, nibbles; d * q + m
static void q4_1(const uint8_t *b, float *out)
{
    float d = scale_at(b), m = scale_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)nibble(b + 4, i) + m;
}

// The fifth bits of 32 codes stand in 4 bytes, value i in bit i.
static int fifth_bit(const uint8_t *high, int i)
{
    return (high[i / 8] >> i % 8 & 1) << 4;
}

// f16 d, fifth bits, nibbles; d * (q - 16)
static void q5_0(const uint8_t *b, float *out)
{
    float d = scale_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)((nibble(b + 6, i) | fifth_bit(b + 2, i)) - 16);
}

// f16 d, f16 m, fifth bits, nibbles; d * q + m
static void q5_1(const uint8_t *b, float *out)
{
    float d = scale_at(b), m = scale_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(nibble(b + 8, i) | fifth_bit(b + 4, i)) + m;
}

// The K types have 256 values in 8 runs of 32.

// 16 x (4 bits scale, 4 bits min), 64 bytes, f16 d, f16 dmin; d * scale * q - dmin * min. Byte 32 * (run / 4) + i holds the
// bit pairs of four runs.
static void q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b, *q = b + 16;
    float d = scale_at(b + 80), dmin = scale_at(b + 82);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++) {
            int s = scale[2 * run + i / 16];
            *out++ = d * (float)(s & 15) * (float)(q[32 * (run / 4) + i] >> 2 * (run % 4) & 3) - dmin * (float)(s >> 4);
        }
}

// Scale k of 16, 6 bits with an offset of 32: low nibbles in 8 bytes, then high bit pairs in 4.
static int q3_k_scale(const uint8_t *p, int k)
{
    int low = k < 8 ? p[k] & 15 : p[k - 8] >> 4, high = p[8 + k % 4] >> 2 * (k / 4) & 3;
    return (low | high << 4) - 32;
}

// 32 bytes of third bits (run r in bit r), 64 bytes of bit pairs as in Q2_K, 12 bytes of scales, f16 d;
// d * scale * (q - 4)
static void q3_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b, *q = b + 32;
    float d = scale_at(b + 108);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++) {
            int code = (q[32 * (run / 4) + i] >> 2 * (run % 4) & 3) | (high[i] >> run & 1) << 2;
            *out++ = d * (float)q3_k_scale(b + 96, 2 * run + i / 16) * (float)(code - 4);
        }
}

// Scale and min of run r, 6 bits each, in 12 bytes: whole for runs 0..3; of runs 4..7 the low nibbles share a byte and the
// high pairs stand above the scales and mins of the first four.
static int k4_scale(const uint8_t *p, int r)
{
    return r < 4 ? p[r] & 63 : (p[r + 4] & 15) | p[r - 4] >> 6 << 4;
}

static int k4_min(const uint8_t *p, int r)
{
    return r < 4 ? p[r + 4] & 63 : p[r + 4] >> 4 | p[r] >> 6 << 4;
}

// f16 d, f16 dmin, 12 bytes of scales and mins, 128 bytes; d * scale * q - dmin * min. Run r has nibble r % 2 of the bytes
// 32 * (r / 2) ...
static void q4_k(const uint8_t *b, float *out)
{
    const uint8_t *q = b + 16;
    for (int run = 0; run < 8; run++) {
        float d = scale_at(b) * (float)k4_scale(b + 4, run), m = scale_at(b + 2) * (float)k4_min(b + 4, run);
        for (int i = 0; i < 32; i++)
            *out++ = d * (float)(q[32 * (run / 2) + i] >> 4 * (run % 2) & 15) - m;
    }
}

// As Q4_K, with 32 bytes of fifth bits (run r in bit r) before the nibbles.
static void q5_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b + 16, *q = b + 48;
    for (int run = 0; run < 8; run++) {
        float d = scale_at(b) * (float)k4_scale(b + 4, run), m = scale_at(b + 2) * (float)k4_min(b + 4, run);
        for (int i = 0; i < 32; i++)
            *out++ = d * (float)((q[32 * (run / 2) + i] >> 4 * (run % 2) & 15) | (high[i] >> run & 1) << 4) - m;
    }
}

// 128 bytes low nibbles, 64 bytes high bit pairs, 16 x i8 scales, f16 d; d * scale * (q - 32)
static void q6_k(const uint8_t *b, float *out)
{
    const uint8_t *low = b, *high = b + 128;
    const int8_t *scale = (const int8_t *)b + 192;
    float d = scale_at(b + 208);
    for (int half = 0; half < 2; half++, out += 128, low += 64, high += 32, scale += 8)
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < 4; k++) { // k-th run of 32 values: nibble k/2 of byte i + 32*(k%2), bit pair k
                int q = (low[i + 32 * (k & 1)] >> 4 * (k >> 1) & 15) | (high[i] >> 2 * k & 3) << 4;
                out[i + 32 * k] = d * (float)scale[2 * k + i / 16] * (float)(q - 32);
            }
}

const int8_t dtype_iq4_level[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t dtype_mxfp4_level[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// f16 d, nibbles; d * level[q]
static void iq4_nl(const uint8_t *b, float *out)
{
    float d = scale_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)dtype_iq4_level[nibble(b + 2, i)];
}

// f16 d, 16 bits with the high pairs of 8 scales, 4 bytes with their low nibbles, 8 x nibbles; d * (scale - 32) * level[q]
static void iq4_xs(const uint8_t *b, float *out)
{
    for (int run = 0; run < 8; run++) {
        int scale = (b[4 + run / 2] >> 4 * (run % 2) & 15) | (dtype_load_u16(b + 2) >> 2 * run & 3) << 4;
        float d = scale_at(b) * (float)(scale - 32);
        for (int i = 0; i < 32; i++)
            *out++ = d * (float)dtype_iq4_level[nibble(b + 8 + 16 * run, i)];
    }
}

// One exponent byte, nibbles in E2M1 (OCP Microscaling Formats 1.0)
static void mxfp4(const uint8_t *b, float *out)
{
    float d = dtype_e8m0_half(b[0]);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)dtype_mxfp4_level[nibble(b + 1, i)];
}

dtype_block_reader *const dtype_block_to_f32[DTYPE_COUNT] = {
    [DTYPE_Q8_0] = q8_0,     [DTYPE_Q4_0] = q4_0,     [DTYPE_Q4_1] = q4_1,   [DTYPE_Q5_0] = q5_0, [DTYPE_Q5_1] = q5_1,
    [DTYPE_Q2_K] = q2_k,     [DTYPE_Q3_K] = q3_k,     [DTYPE_Q4_K] = q4_k,   [DTYPE_Q5_K] = q5_k, [DTYPE_Q6_K] = q6_k,
    [DTYPE_IQ4_NL] = iq4_nl, [DTYPE_IQ4_XS] = iq4_xs, [DTYPE_MXFP4] = mxfp4, [DTYPE_INT4] = q4_0,
};
