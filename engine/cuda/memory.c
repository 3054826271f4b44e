#include "engine/base/units.h"
#include "engine/cuda/host.h"

bool cuda_failed(cudaError_t e, const char *what, struct error *out)
{
    if (e == cudaSuccess)
        return true;
    (void)cudaGetLastError(); // forget it
    return error_set(out, e == cudaErrorMemoryAllocation ? ERROR_MEMORY : ERROR_DEVICE, "%s on the GPU: %s (%s)", what,
                     cudaGetErrorString(e), cudaGetErrorName(e));
}

bool cuda_blas_failed(cublasStatus_t s, const char *what, struct error *out)
{
    return s == CUBLAS_STATUS_SUCCESS || error_set(out, s == CUBLAS_STATUS_ALLOC_FAILED ? ERROR_MEMORY : ERROR_DEVICE,
                                                   "%s by cuBLAS: %s", what, cublasGetStatusString(s));
}

bool cuda_allocate(void **out, uint64_t bytes, const char *what, struct error *e)
{
    char want[24], have[24];
    size_t available = 0, total;
    *out = NULL;
    if (bytes == UINT64_MAX || cudaMalloc(out, bytes ? bytes : 1)) {
        (void)cudaGetLastError();
        if (cudaMemGetInfo(&available, &total))
            available = 0;
        return error_set(e, ERROR_MEMORY, "%s needs %s on the GPU, %s are free", what, format_bytes(bytes, want),
                         format_bytes(available, have));
    }
    return true;
}
