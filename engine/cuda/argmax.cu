// The likeliest token of each row: parts of a row by blocks of their own, then the best of the parts. A number beats NaN,
// the first of equals wins.
#include "engine/cuda/values.h"

enum { THREADS = 256 };

struct best {
    float value;
    int32_t id; // INT32_MAX: none yet
};

static __device__ __forceinline__ bool beats(const struct best &a, const struct best &b)
{
    if (b.id == INT32_MAX || a.id == INT32_MAX)
        return a.id != INT32_MAX;
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan)
        return b_nan;
    return a_nan || a.value == b.value ? a.id < b.id : a.value > b.value;
}

// Of all threads, in thread 0.
static __device__ __forceinline__ struct best block_best(struct best mine, struct best *part)
{
    UNROLL
    for (int step = 16; step; step >>= 1) {
        struct best other = {__shfl_xor_sync(0xffffffffu, mine.value, step), __shfl_xor_sync(0xffffffffu, mine.id, step)};
        if (beats(other, mine))
            mine = other;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int i = 1; i < (int)blockDim.x / 32 && threadIdx.x == 0; i++)
        if (beats(part[i], mine))
            mine = part[i];
    return mine;
}

static __global__ void __launch_bounds__(THREADS)
    parts_kernel(const float *x, int n, const struct choice *choice, struct best *parts)
{
    __shared__ struct best part[THREADS / 32];
    const float *row = x + (size_t)choice[blockIdx.y].out_row * n;
    struct best mine = {0, INT32_MAX};
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += CUDA_ARGMAX_PARTS * THREADS) {
        struct best here = {row[i], i};
        if (beats(here, mine))
            mine = here;
    }
    mine = block_best(mine, part);
    if (threadIdx.x == 0)
        parts[(size_t)blockIdx.y * CUDA_ARGMAX_PARTS + blockIdx.x] = mine;
}

static __global__ void __launch_bounds__(CUDA_ARGMAX_PARTS) row_kernel(const struct best *parts, int32_t *id)
{
    __shared__ struct best part[CUDA_ARGMAX_PARTS / 32];
    struct best mine = block_best(parts[(size_t)blockIdx.x * CUDA_ARGMAX_PARTS + threadIdx.x], part);
    if (threadIdx.x == 0)
        id[blockIdx.x] = mine.id;
}

cudaError_t cuda_argmax(const float *x, int32_t width, const struct choice *choice, int32_t n, int32_t *id, void *scratch,
                        cudaStream_t stream)
{
    struct best *parts = static_cast<struct best *>(scratch);
    if (n < 1 || width < 1)
        return cudaErrorInvalidValue;
    cudaError_t e = CUDA_LAUNCH(parts_kernel, dim3(CUDA_ARGMAX_PARTS, n), dim3(THREADS), 0, stream, x, width, choice, parts);
    return e ? e : CUDA_LAUNCH(row_kernel, dim3(n), dim3(CUDA_ARGMAX_PARTS), 0, stream, parts, id);
}
