// Device memory for tests: what fails is said and ends the test. Include after cmocka.h.
#ifndef TESTS_CUDA_DEVICE_DATA_H
#define TESTS_CUDA_DEVICE_DATA_H

#include <cuda_runtime_api.h>

static inline void ok(cudaError_t e)
{
    if (e)
        fail_msg("%s", cudaGetErrorString(e));
}

// bytes on the device, copied from host where that is not NULL; the caller's to free.
static inline void *device_copy(const void *host, size_t bytes)
{
    void *p;
    ok(cudaMalloc(&p, bytes));
    if (host)
        ok(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    return p;
}

#endif
