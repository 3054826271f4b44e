// Kernels with planted bugs, and right ones beside them: what the emulator is worth.
#ifndef TESTS_CUDA_PLANTED_H
#define TESTS_CUDA_PLANTED_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum planted {
    PLANTED_NOTHING,        // out[i] = in[PLANTED_N - 1 - i], through shared memory
    PLANTED_NO_BARRIER,     // __syncthreads is missing
    PLANTED_OUT_OF_BOUNDS,  // the last thread reads one value behind its array
    PLANTED_WRONG_MASK,     // half a warp shuffles under the mask of a whole one
    PLANTED_SPLIT_BARRIER,  // half the block waits at a barrier of all
    PLANTED_UNAWAITED_COPY, // an asynchronous copy is read before it is waited for
    PLANTED_MISALIGNED,     // 16 bytes from an address of 4
    PLANTED_COLD_CAPTURE,   // a kernel's first launch is captured
    // By a pipeline: a tile is on its way while the one before is read.
    PLANTED_PIPELINE,     // nothing is wrong with it
    PLANTED_SHORT_WAIT,   // it waits for one tile too few
    PLANTED_EARLY_REFILL, // a buffer is filled again while others read it
    PLANTED_COUNT,
};
enum { PLANTED_N = 128 };

// in, out: [PLANTED_N] on the device.
cudaError_t planted_launch(enum planted bug, const float *in, float *out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
