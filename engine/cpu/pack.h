// Matrices as the kernels read them. Rows (outputs) stand in panels of 64, side by side in vector lanes, columns ascending:
// a panel is one stream, and each output is summed over its columns in that one order, however many rows of activations
// there are. The layout is the same for every instruction set. Every stored type has a form here that holds exactly its
// values.
#ifndef ENGINE_CPU_PACK_H
#define ENGINE_CPU_PACK_H

#include "engine/backend.h"

enum {
    PANEL = 64, // outputs
    GROUP = 32, // columns that share a scale, in forms of codes
    CODES = GROUP * PANEL,
};

// A group of codes of 8 bits is [GROUP / 4][PANEL][4], each its value + 128. One of 4 bits is [GROUP / 8][PANEL][4] bytes,
// whose low nibbles are the first half of the columns and whose high nibbles the second.
enum pack_form {
    PACK_F32,  // [cols][PANEL]
    PACK_F16,  // [cols][PANEL]
    PACK_BF16, // [cols / 2][PANEL][2]
    PACK_INT8, // groups of 8 bits, then f32 [PANEL]: scale * code
    PACK_Q8,   // groups of { f16 [PANEL], 8 bits }: scale * code
    PACK_Q4,   // groups of { f16 [PANEL], 4 bits }: scale * (code - 8)
    PACK_Q8X,  // groups of { parts x f32 [2][PANEL], 8 bits }: scale * code + min, rounded once
    PACK_Q4X,  // groups of { parts x f32 [2][PANEL], 4 bits }: the same
    PACK_FORMS,
};

struct packed {
    uint8_t *data; // panels, on cache lines
    enum pack_form form;
    enum dtype type; // as stored
    int32_t rows, cols;
    int32_t parts;        // of a group in the X forms, each with scale and min of its own: 1 or 2
    uint64_t group_bytes; // of GROUP columns of a panel
    uint64_t panel_bytes;
};

// False if there is no form for the type.
bool pack_init(struct packed *p, enum dtype type, int32_t rows, int32_t cols); // leaves data NULL
int32_t pack_panels(const struct packed *p);
uint64_t pack_bytes(const struct packed *p);

// Writes one panel of p->data from its rows as stored. Outputs beyond the last row become 0.
void pack_panel(const struct packed *p, const void *rows, int32_t panel);

// Columns first .. first+n-1 of one row, as dtype_to_f32 has them; first a multiple of GROUP.
void pack_read(const struct packed *p, int32_t row, int32_t first, int32_t n, float *out);

// One group of a stored row of a block type, taken apart: value = scale * code + min of its part, rounded once
// (pack_blocks.c).
struct pack_group {
    float scale[2], min[2]; // of each half; with one part both are the same
    int8_t code[GROUP];
};
void pack_take_apart(enum dtype type, const uint8_t *row, int32_t group, struct pack_group *out);

#endif
