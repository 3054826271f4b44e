// oneDNN's plain C calls, found when the program runs: its products stand beside the engine's and are no part of it.
#ifndef BENCH_LIBRARIES_H
#define BENCH_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

struct onednn {
    void *library; // stays loaded: its threads may outlive a call
    int (*sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                 float *, int64_t);
    int (*u8s8)(char, char, char, int64_t, int64_t, int64_t, float, const uint8_t *, int64_t, uint8_t, const int8_t *,
                int64_t, int8_t, float, int32_t *, int64_t, const int32_t *);
};

bool onednn_open(struct onednn *d); // false: libdnnl is not installed
void onednn_threads(const struct onednn *d, int32_t n);

// y [rows, out] = x [rows, in] w [in, out], all row-major. False: oneDNN refused.
bool onednn_f32(const struct onednn *d, int64_t rows, int64_t out, int64_t in, const float *x, const float *w, float *y);
bool onednn_u8s8(const struct onednn *d, int64_t rows, int64_t out, int64_t in, const uint8_t *x, const int8_t *w,
                 int32_t *y);

#endif
