// One warp's tensor core instructions, registers in and out: for the test that holds their layouts against the PTX ISA's
// formulas, on the emulator and on a device.
#ifndef TESTS_CUDA_FRAGMENTS_H
#define TESTS_CUDA_FRAGMENTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Per lane: a [32][4], b [32][2], c and d [32][4]. d = a b + c, mma.m16n8k16 in bf16.
cudaError_t fragments_mma(const uint32_t *a, const uint32_t *b, const float *c, float *d, cudaStream_t stream);
// Four matrices of 8 x 8 values of 16 bits, m [32][8]; r [32][4].
cudaError_t fragments_load(const uint16_t *m, bool transposed, uint32_t *r, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
