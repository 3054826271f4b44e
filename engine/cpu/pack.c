#include "engine/cpu/pack.h"

#include "engine/base/dtype_blocks.h"

#include <math.h>
#include <string.h>

static const struct {
    bool known;
    enum pack_form form;
    int32_t parts;
} FORM[DTYPE_COUNT] = {
    [DTYPE_F32] = {true, PACK_F32, 1},    [DTYPE_F16] = {true, PACK_F16, 1},   [DTYPE_BF16] = {true, PACK_BF16, 1},
    [DTYPE_INT8] = {true, PACK_INT8, 1},  [DTYPE_Q8_0] = {true, PACK_Q8, 1},   [DTYPE_Q5_0] = {true, PACK_Q8, 1},
    [DTYPE_IQ4_NL] = {true, PACK_Q8, 1},  [DTYPE_INT4] = {true, PACK_Q4, 1},   [DTYPE_Q4_0] = {true, PACK_Q4, 1},
    [DTYPE_Q5_1] = {true, PACK_Q8X, 1},   [DTYPE_Q5_K] = {true, PACK_Q8X, 1},  [DTYPE_Q6_K] = {true, PACK_Q8X, 2},
    [DTYPE_IQ4_XS] = {true, PACK_Q8X, 1}, [DTYPE_MXFP4] = {true, PACK_Q8X, 1}, [DTYPE_Q4_1] = {true, PACK_Q4X, 1},
    [DTYPE_Q4_K] = {true, PACK_Q4X, 1},   [DTYPE_Q2_K] = {true, PACK_Q4X, 2},  [DTYPE_Q3_K] = {true, PACK_Q4X, 2},
};

// Bytes of one group's scales, which stand before its codes.
static uint64_t head_bytes(const struct packed *p)
{
    switch (p->form) {
    case PACK_Q8:
    case PACK_Q4: return PANEL * sizeof(uint16_t);
    case PACK_Q8X:
    case PACK_Q4X: return (uint64_t)p->parts * 2 * PANEL * sizeof(float);
    default: return 0;
    }
}

static bool half_bytes(enum pack_form form)
{
    return form == PACK_Q4 || form == PACK_Q4X;
}

bool pack_init(struct packed *p, enum dtype type, int32_t rows, int32_t cols)
{
    *p = (struct packed){.form = FORM[type].form, .type = type, .rows = rows, .cols = cols, .parts = FORM[type].parts};
    uint64_t n = (uint64_t)cols, groups = (n + GROUP - 1) / GROUP;
    switch (p->form) {
    case PACK_F32: p->group_bytes = CODES * 4, p->panel_bytes = n * PANEL * 4; break;
    case PACK_F16: p->group_bytes = CODES * 2, p->panel_bytes = n * PANEL * 2; break;
    case PACK_BF16: p->group_bytes = CODES * 2, p->panel_bytes = (n + 1) / 2 * PANEL * 4; break;
    default:
        p->group_bytes = head_bytes(p) + CODES / (half_bytes(p->form) ? 2 : 1);
        p->panel_bytes = groups * p->group_bytes + (p->form == PACK_INT8 ? PANEL * sizeof(float) : 0);
    }
    return FORM[type].known;
}

int32_t pack_panels(const struct packed *p)
{
    return (p->rows + PANEL - 1) / PANEL;
}

uint64_t pack_bytes(const struct packed *p)
{
    return p->panel_bytes * (uint64_t)pack_panels(p);
}

enum { LINE = 64 }; // bytes of a stored row that are turned at a time: each of its cache lines is read once

// 4-byte units (f32, bf16 pairs) of one row into their lanes; the last one may be half there.
static void turn_words(const uint8_t *row, uint64_t row_bytes, uint64_t from, uint32_t *to)
{
    uint64_t end = from + LINE < row_bytes ? from + LINE : row_bytes;
    for (uint64_t at = from; at < end; at += 4) {
        uint32_t word = 0;
        memcpy(&word, row + at, row_bytes - at < 4 ? row_bytes - at : 4);
        to[at / 4 * PANEL] = word;
    }
}

static void turn_halves(const uint8_t *row, uint64_t row_bytes, uint64_t from, uint16_t *to)
{
    uint64_t end = from + LINE < row_bytes ? from + LINE : row_bytes;
    for (uint64_t at = from; at < end; at += 2)
        memcpy(&to[at / 2 * PANEL], row + at, 2);
}

static void pack_plain(const struct packed *p, const uint8_t *rows, int32_t n, uint8_t *panel)
{
    uint64_t row_bytes = dtype_row_bytes(p->type, (uint64_t)p->cols);
    if (n < PANEL)
        memset(panel, 0, p->panel_bytes);
    for (uint64_t from = 0; from < row_bytes; from += LINE)
        for (int32_t o = 0; o < n; o++) {
            const uint8_t *row = rows + (uint64_t)o * row_bytes;
            if (p->form == PACK_F16)
                turn_halves(row, row_bytes, from, (uint16_t *)(void *)panel + o);
            else
                turn_words(row, row_bytes, from, (uint32_t *)(void *)panel + o);
        }
}

// Codes of one output into its lane of a group.
static void put_codes(const struct packed *p, const int8_t *code, uint8_t *lane)
{
    int offset = p->form == PACK_Q4 ? 8 : 0;
    for (int32_t i = 0; i < GROUP; i++)
        if (!half_bytes(p->form))
            lane[i / 4 * PANEL * 4 + i % 4] = (uint8_t)(code[i] ^ 0x80);
        else if (i < GROUP / 2)
            lane[i / 4 * PANEL * 4 + i % 4] = (uint8_t)((code[i] + offset) | (code[i + GROUP / 2] + offset) << 4);
}

static void put_scales(const struct packed *p, const struct pack_group *g, int32_t o, uint8_t *group)
{
    if (p->form == PACK_Q8 || p->form == PACK_Q4) {
        ((uint16_t *)(void *)group)[o] = f32_to_f16(g->scale[0]); // exact: they were f16
        return;
    }
    float *f = (float *)(void *)group;
    for (int32_t part = 0; part < p->parts; part++) {
        f[part * 2 * PANEL + o] = g->scale[part];
        f[(part * 2 + 1) * PANEL + o] = g->min[part];
    }
}

static void pack_groups(const struct packed *p, const uint8_t *rows, int32_t n, uint8_t *panel)
{
    enum { AT_ONCE = 4 }; // groups of a row that share its cache lines
    static const struct pack_group zero;
    uint64_t row_bytes = dtype_row_bytes(p->type, (uint64_t)p->cols), head = head_bytes(p);
    int32_t n_groups = (p->cols + GROUP - 1) / GROUP;
    for (int32_t first = 0; first < n_groups; first += AT_ONCE)
        for (int32_t o = 0; o < PANEL; o++)
            for (int32_t g = first; g < first + AT_ONCE && g < n_groups; g++) {
                struct pack_group apart = zero;
                uint8_t *group = panel + (uint64_t)g * p->group_bytes;
                if (o < n)
                    pack_take_apart(p->type, rows + (uint64_t)o * row_bytes, g, &apart);
                put_scales(p, &apart, o, group);
                put_codes(p, apart.code, group + head + o * 4);
            }
}

// Values, then one f16 scale per row. The last group may be short.
static void pack_int8(const struct packed *p, const uint8_t *rows, int32_t n, uint8_t *panel)
{
    uint64_t row_bytes = dtype_row_bytes(DTYPE_INT8, (uint64_t)p->cols);
    int32_t n_groups = (p->cols + GROUP - 1) / GROUP;
    float *scale = (float *)(void *)(panel + (uint64_t)n_groups * p->group_bytes);
    for (int32_t o = 0; o < PANEL; o++) {
        const uint8_t *row = rows + (uint64_t)o * row_bytes;
        scale[o] = o < n ? f16_to_f32(dtype_load_u16(row + p->cols)) : 0;
        for (int32_t g = 0; g < n_groups; g++) {
            int8_t code[GROUP] = {0};
            int32_t left = p->cols - g * GROUP;
            if (o < n)
                memcpy(code, row + g * GROUP, (size_t)(left < GROUP ? left : GROUP));
            put_codes(p, code, panel + (uint64_t)g * p->group_bytes + o * 4);
        }
    }
}

void pack_panel(const struct packed *p, const void *rows, int32_t panel)
{
    int32_t first = panel * PANEL, n = p->rows - first < PANEL ? p->rows - first : PANEL;
    uint8_t *to = p->data + (uint64_t)panel * p->panel_bytes;
    switch (p->form) {
    case PACK_F32:
    case PACK_F16:
    case PACK_BF16: pack_plain(p, rows, n, to); break;
    case PACK_INT8: pack_int8(p, rows, n, to); break;
    default: pack_groups(p, rows, n, to); break;
    }
}

static int32_t code_of(const struct packed *p, const uint8_t *lane, int32_t i)
{
    if (!half_bytes(p->form))
        return (int8_t)(lane[i / 4 * PANEL * 4 + i % 4] ^ 0x80);
    int32_t j = i % (GROUP / 2), byte = lane[j / 4 * PANEL * 4 + j % 4];
    return (i < GROUP / 2 ? byte & 15 : byte >> 4) - (p->form == PACK_Q4 ? 8 : 0);
}

static float group_value(const struct packed *p, const uint8_t *panel, int32_t o, int32_t k)
{
    const uint8_t *group = panel + (uint64_t)(k / GROUP) * p->group_bytes;
    const float *f = (const float *)(const void *)group;
    float code = (float)code_of(p, group + head_bytes(p) + o * 4, k % GROUP);
    int32_t part = p->parts * (k % GROUP) / GROUP;
    switch (p->form) {
    case PACK_INT8: {
        uint64_t codes = (uint64_t)((p->cols + GROUP - 1) / GROUP) * p->group_bytes;
        return ((const float *)(const void *)(panel + codes))[o] * code;
    }
    case PACK_Q8:
    case PACK_Q4: return f16_to_f32(((const uint16_t *)(const void *)group)[o]) * code;
    default: return fmaf(f[part * 2 * PANEL + o], code, f[(part * 2 + 1) * PANEL + o]);
    }
}

void pack_read(const struct packed *p, int32_t row, int32_t first, int32_t n, float *out)
{
    const uint8_t *panel = p->data + (uint64_t)(row / PANEL) * p->panel_bytes;
    const uint16_t *halves = (const uint16_t *)(const void *)panel;
    int32_t o = row % PANEL;
    for (int32_t i = 0, k = first; i < n; i++, k++)
        switch (p->form) {
        case PACK_F32: out[i] = ((const float *)(const void *)panel)[(int64_t)k * PANEL + o]; break;
        case PACK_F16: out[i] = f16_to_f32(halves[(int64_t)k * PANEL + o]); break;
        case PACK_BF16: out[i] = bf16_to_f32(halves[((int64_t)(k / 2) * PANEL + o) * 2 + k % 2]); break;
        default: out[i] = group_value(p, panel, o, k); break;
        }
}
