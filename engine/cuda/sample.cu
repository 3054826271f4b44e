// Sampling without sorting. Candidates have an order (the likeliest first, the lower id of equals; or by id where nothing is
// cut), and all that sampler.c does is to find the shortest beginning of it that has top_k candidates, or a mass of top_p,
// or more mass than was drawn. Each is found by halving the range of keys, a pass over the row per bit; sums are in double
// and in a fixed order, so that a draw is reproducible. One block per row, after argmax has left the best id in id[].
#include "engine/cuda/values.h"

enum { THREADS = 1024, ID_BITS = 24 };
#define ONE_BITS 0x3f800000u // of 1.0f, the largest weight

struct row {
    const float *x;
    int n;
    float best, temperature;
    bool by_id;
};

struct measure {
    double mass;
    int count;
};

// exp((x - best) / temperature), as sampler.c has it: 0 for NaN and what could never be drawn.
static __device__ __forceinline__ float weight_of(const struct row &r, int i)
{
    float w = expf((r.x[i] - r.best) / r.temperature);
    return w > 0 ? w : 0;
}

static __device__ __forceinline__ uint64_t key_of(const struct row &r, float weight, int i)
{
    return r.by_id ? (uint64_t)i : (uint64_t)(ONE_BITS - __float_as_uint(weight)) << ID_BITS | (uint64_t)i;
}

// Of the candidates up to `key`, the same in every thread.
static __device__ struct measure measure_to(const struct row &r, uint64_t key, struct measure *part)
{
    struct measure m = {0, 0}, sum = {0, 0};
    for (int i = threadIdx.x; i < r.n; i += THREADS) {
        float w = weight_of(r, i);
        if (w > 0 && key_of(r, w, i) <= key)
            m.mass += (double)w, m.count++;
    }
    UNROLL
    for (int step = 16; step; step >>= 1) {
        m.mass += __shfl_xor_sync(0xffffffffu, m.mass, step);
        m.count += __shfl_xor_sync(0xffffffffu, m.count, step);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = m;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++)
        sum.mass += part[i].mass, sum.count += part[i].count;
    __syncthreads();
    return sum;
}

// The least key up to `last` at which enough is reached; `last` where nothing before it suffices.
static __device__ uint64_t shortest(const struct row &r, uint64_t last, int count, double mass, bool beyond,
                                    struct measure *part)
{
    uint64_t low = 0, high = last;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct measure m = measure_to(r, middle, part);
        bool enough = m.count >= count && (beyond ? m.mass > mass : m.mass >= mass);
        if (enough)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static __global__ void __launch_bounds__(THREADS)
    sample_kernel(const float *x, int width, const struct choice *choice, int32_t *id)
{
    __shared__ struct measure part[THREADS / 32];
    const struct choice c = choice[blockIdx.x];
    if (c.temperature == 0)
        return;
    const float *logits = x + (size_t)c.out_row * width;
    struct row r = {logits, width, logits[id[blockIdx.x]], c.temperature, !c.top_k && !(c.top_p < 1)};
    uint64_t last = r.by_id ? (uint64_t)width : (uint64_t)ONE_BITS << ID_BITS | ((1u << ID_BITS) - 1);
    struct measure all = measure_to(r, last, part);
    if (!all.count) // an infinite logit, or none that is a number: what argmax says
        return;
    if (c.top_k && c.top_k < all.count)
        last = shortest(r, last, c.top_k, 0, false, part);
    if (c.top_p < 1)
        last = shortest(r, last, 1, (double)c.top_p * measure_to(r, last, part).mass, false, part);
    all = measure_to(r, last, part);
    uint64_t drawn = shortest(r, last, 1, (double)c.u * all.mass, true, part);
    if (threadIdx.x == 0)
        id[blockIdx.x] = (int32_t)(drawn & ((1u << ID_BITS) - 1));
}

cudaError_t cuda_sample(const float *x, int32_t width, const struct choice *choice, int32_t n, int32_t *id,
                        cudaStream_t stream)
{
    return n < 1 || width < 1 || width >= 1 << ID_BITS
               ? cudaErrorInvalidValue
               : CUDA_LAUNCH(sample_kernel, dim3(n), dim3(THREADS), 0, stream, x, width, choice, id);
}
