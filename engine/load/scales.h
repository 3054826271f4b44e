// Scales of weights in FP8: one per tensor, per row or per block of rows and columns, beside the weights in a Hugging Face
// folder. The values are what the stored ones are times their scale.
#ifndef ENGINE_LOAD_SCALES_H
#define ENGINE_LOAD_SCALES_H

#include "engine/load/model.h"
#include "engine/load/stored.h"

struct scales {
    const struct stored_tensor *stored; // NULL: all are 1
    int64_t rows_per, cols_per;         // value (r, c) has scale (r / rows_per, c / cols_per)
    int64_t per_row;                    // scales in a row of them
};

// Finds "NAME_scale_inv" or "NAME_scale" of a stored tensor NAME and checks its shape. None where it is not FP8.
bool scales_find(struct scales *s, const struct model *m, const struct stored_tensor *weight, struct error *e);

// Row r of n FP8 (e4m3) values as f32. Codes that are no number give NaN.
void scales_row(const struct scales *s, const uint8_t *row, int64_t r, int32_t n, float *out);

#endif
