// Data types of weights, activations and KV, their sizes and exact conversion to and from f32.
//
// A row of n values takes n / block * block_bytes + row_bytes bytes. `row_bytes` is what a row carries once (int8: one
// f16 scale per row: per token and head in a KV cache, per output row in a weight). Block formats are GGUF's, and int4 is
// Q4_0 by a plain name; nvfp4 is 16 values with one fp8 scale; fp8_ds_mla packs an MLA row: 512 fp8 values with 4 f32
// scales, then 64 in bf16.
#ifndef ENGINE_BASE_DTYPE_H
#define ENGINE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//        id    name    block  block_bytes  row_bytes
#define DTYPES(X)                                                                                                           \
    X(F32, "f32", 1, 4, 0)                                                                                                  \
    X(F16, "f16", 1, 2, 0)                                                                                                  \
    X(BF16, "bf16", 1, 2, 0)                                                                                                \
    X(FP8, "fp8", 1, 1, 0)                                                                                                  \
    X(INT8, "int8", 1, 1, 2)                                                                                                \
    X(INT4, "int4", 32, 18, 0)                                                                                              \
    X(Q8_0, "q8_0", 32, 34, 0)                                                                                              \
    X(Q4_0, "q4_0", 32, 18, 0)                                                                                              \
    X(Q4_1, "q4_1", 32, 20, 0)                                                                                              \
    X(Q5_0, "q5_0", 32, 22, 0)                                                                                              \
    X(Q5_1, "q5_1", 32, 24, 0)                                                                                              \
    X(Q2_K, "q2_k", 256, 84, 0)                                                                                             \
    X(Q3_K, "q3_k", 256, 110, 0)                                                                                            \
    X(Q4_K, "q4_k", 256, 144, 0)                                                                                            \
    X(Q5_K, "q5_k", 256, 176, 0)                                                                                            \
    X(Q6_K, "q6_k", 256, 210, 0)                                                                                            \
    X(IQ4_NL, "iq4_nl", 32, 18, 0)                                                                                          \
    X(IQ4_XS, "iq4_xs", 256, 136, 0)                                                                                        \
    X(MXFP4, "mxfp4", 32, 17, 0)                                                                                            \
    X(NVFP4, "nvfp4", 16, 9, 0)                                                                                             \
    X(FP8_DS_MLA, "fp8_ds_mla", 576, 656, 0)

enum dtype {
#define X(id, name, block, block_bytes, row_bytes) DTYPE_##id,
    DTYPES(X)
#undef X
        DTYPE_COUNT,
};

const char *dtype_name(enum dtype type);

// Finds a type by name (any case; "fp32", "fp16", "float16", "bfloat16", "float32", "fp8_e4m3" too). False if unknown.
bool dtype_parse(const char *name, enum dtype *out);

// Values per block: a row's length must be a multiple of it.
int32_t dtype_block(enum dtype type);

// Bytes of one row of n values, its scales included. n must be a multiple of dtype_block(type).
uint64_t dtype_row_bytes(enum dtype type, uint64_t n);

// Converts one row of n values to f32, exactly. False if this type has no conversion (fp8, nvfp4: priced, not computed).
bool dtype_to_f32(enum dtype type, const void *row, float *out, size_t n);

// Rounds one row of n values to the type (nearest even for f16, bf16; symmetric absmax for int8). False if none.
bool dtype_from_f32(enum dtype type, const float *in, void *row, size_t n);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
// OCP e4m3: no infinity, what exceeds 448 becomes it, NaN stays NaN. The codes alone: fp8 rows have scales elsewhere.
float e4m3_to_f32(uint8_t code);
uint8_t f32_to_e4m3(float f);

#endif
