// The blocks of GGUF's types taken apart into codes, scales and minimums, 32 values at a time. The formats are told in
// engine/base/dtype_blocks.c.
#include "engine/base/dtype_blocks.h"
#include "engine/cpu/pack.h"

static float scale_at(const uint8_t *p)
{
    return f16_to_f32(dtype_load_u16(p));
}

static void whole(struct pack_group *g, float scale, float min)
{
    g->scale[0] = g->scale[1] = scale;
    g->min[0] = g->min[1] = min;
}

static void nibbles(struct pack_group *g, const uint8_t *q, int offset)
{
    for (int i = 0; i < 16; i++) {
        g->code[i] = (int8_t)((q[i] & 15) - offset);
        g->code[i + 16] = (int8_t)((q[i] >> 4) - offset);
    }
}

static void levels(struct pack_group *g, const uint8_t *q, const int8_t level[16])
{
    for (int i = 0; i < 16; i++) {
        g->code[i] = level[q[i] & 15];
        g->code[i + 16] = level[q[i] >> 4];
    }
}

// Nibbles and, in 4 bytes, the fifth bit of each.
static void fives(struct pack_group *g, const uint8_t *high, const uint8_t *q, int offset)
{
    nibbles(g, q, offset);
    for (int i = 0; i < GROUP; i++)
        g->code[i] = (int8_t)(g->code[i] + ((high[i / 8] >> i % 8 & 1) << 4));
}

static void q8_0(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), 0);
    memcpy(g->code, b + 2, GROUP);
}

static void q4_0(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), 0);
    nibbles(g, b + 2, 8);
}

static void q4_1(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), scale_at(b + 2));
    nibbles(g, b + 4, 0);
}

static void q5_0(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), 0);
    fives(g, b + 2, b + 6, 16);
}

static void q5_1(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), scale_at(b + 2));
    fives(g, b + 4, b + 8, 0);
}

// Run `run` of 32 values of a K type's 256.

static void q2_k(const uint8_t *b, int run, struct pack_group *g)
{
    float d = scale_at(b + 80), dmin = scale_at(b + 82);
    for (int half = 0; half < 2; half++) {
        int s = b[2 * run + half];
        g->scale[half] = d * (float)(s & 15), g->min[half] = -(dmin * (float)(s >> 4));
    }
    for (int i = 0; i < GROUP; i++)
        g->code[i] = (int8_t)(b[16 + 32 * (run / 4) + i] >> 2 * (run % 4) & 3);
}

static int q3_k_scale(const uint8_t *p, int k)
{
    int low = k < 8 ? p[k] & 15 : p[k - 8] >> 4, high = p[8 + k % 4] >> 2 * (k / 4) & 3;
    return (low | high << 4) - 32;
}

// scale * (code - 4): the difference is exact.
static void q3_k(const uint8_t *b, int run, struct pack_group *g)
{
    for (int half = 0; half < 2; half++) {
        g->scale[half] = scale_at(b + 108) * (float)q3_k_scale(b + 96, 2 * run + half);
        g->min[half] = -4 * g->scale[half];
    }
    for (int i = 0; i < GROUP; i++)
        g->code[i] = (int8_t)((b[32 + 32 * (run / 4) + i] >> 2 * (run % 4) & 3) | (b[i] >> run & 1) << 2);
}

static int k4_scale(const uint8_t *p, int r)
{
    return r < 4 ? p[r] & 63 : (p[r + 4] & 15) | p[r - 4] >> 6 << 4;
}

static int k4_min(const uint8_t *p, int r)
{
    return r < 4 ? p[r + 4] & 63 : p[r + 4] >> 4 | p[r] >> 6 << 4;
}

static void q4_k(const uint8_t *b, int run, struct pack_group *g)
{
    whole(g, scale_at(b) * (float)k4_scale(b + 4, run), -(scale_at(b + 2) * (float)k4_min(b + 4, run)));
    for (int i = 0; i < GROUP; i++)
        g->code[i] = (int8_t)(b[16 + 32 * (run / 2) + i] >> 4 * (run % 2) & 15);
}

static void q5_k(const uint8_t *b, int run, struct pack_group *g)
{
    whole(g, scale_at(b) * (float)k4_scale(b + 4, run), -(scale_at(b + 2) * (float)k4_min(b + 4, run)));
    for (int i = 0; i < GROUP; i++)
        g->code[i] = (int8_t)((b[48 + 32 * (run / 2) + i] >> 4 * (run % 2) & 15) | (b[16 + i] >> run & 1) << 4);
}

static void q6_k(const uint8_t *b, int run, struct pack_group *g)
{
    const uint8_t *low = b + 64 * (run / 4) + 32 * (run & 1), *high = b + 128 + 32 * (run / 4);
    for (int half = 0; half < 2; half++)
        g->scale[half] = scale_at(b + 208) * (float)(int8_t)b[192 + 2 * run + half], g->min[half] = 0;
    for (int i = 0; i < GROUP; i++) {
        int q = (low[i] >> 4 * (run % 4 >> 1) & 15) | (high[i] >> 2 * (run % 4) & 3) << 4;
        g->code[i] = (int8_t)(q - 32);
    }
}

static void iq4_nl(const uint8_t *b, struct pack_group *g)
{
    whole(g, scale_at(b), 0);
    levels(g, b + 2, dtype_iq4_level);
}

static void iq4_xs(const uint8_t *b, int run, struct pack_group *g)
{
    int scale = (b[4 + run / 2] >> 4 * (run % 2) & 15) | (dtype_load_u16(b + 2) >> 2 * run & 3) << 4;
    whole(g, scale_at(b) * (float)(scale - 32), 0);
    levels(g, b + 8 + 16 * run, dtype_iq4_level);
}

static void mxfp4(const uint8_t *b, struct pack_group *g)
{
    whole(g, dtype_e8m0_half(b[0]), 0);
    levels(g, b + 1, dtype_mxfp4_level);
}

void pack_take_apart(enum dtype type, const uint8_t *row, int32_t group, struct pack_group *out)
{
    int32_t per_block = dtype_block(type) / GROUP, run = group % per_block;
    const uint8_t *b = row + dtype_row_bytes(type, (uint64_t)(group / per_block) * (uint64_t)dtype_block(type));
    switch (type) {
    case DTYPE_Q8_0: q8_0(b, out); break;
    case DTYPE_INT4:
    case DTYPE_Q4_0: q4_0(b, out); break;
    case DTYPE_Q4_1: q4_1(b, out); break;
    case DTYPE_Q5_0: q5_0(b, out); break;
    case DTYPE_Q5_1: q5_1(b, out); break;
    case DTYPE_Q2_K: q2_k(b, run, out); break;
    case DTYPE_Q3_K: q3_k(b, run, out); break;
    case DTYPE_Q4_K: q4_k(b, run, out); break;
    case DTYPE_Q5_K: q5_k(b, run, out); break;
    case DTYPE_Q6_K: q6_k(b, run, out); break;
    case DTYPE_IQ4_NL: iq4_nl(b, out); break;
    case DTYPE_IQ4_XS: iq4_xs(b, run, out); break;
    case DTYPE_MXFP4: mxfp4(b, out); break;
    default: break;
    }
}
