// Sampling without sorting. Candidates have an order (the likeliest first, the lower id of equals; or by id where nothing is
// cut), and all that sampler.c does is to find the shortest beginning of it that has top_k candidates, or a mass of top_p,
// or more mass than was drawn. Each is found by halving the range of keys, a pass over the row each time, until so few
// candidates are between its ends that a thread each can add up what precedes it. Sums are in double and in a fixed order,
// so that a draw is reproducible. One block per row, after argmax has left the best id in id[].
#include "engine/cuda/values.h"

enum { THREADS = 1024, FEW = 256, ID_BITS = 24 };
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

// What a beginning must have.
struct wanted {
    int count;
    double mass;
    bool beyond; // more than that mass

    __device__ __forceinline__ bool met(const struct measure &m) const
    {
        return m.count >= count && (beyond ? m.mass > mass : m.mass >= mass);
    }
};

struct few {
    uint64_t key[FEW];
    float weight[FEW];
    int n, before[THREADS / 32];
};

static __device__ __forceinline__ bool is_between(const struct row &r, int i, uint64_t low, uint64_t high, float *w,
                                                  uint64_t *key)
{
    *w = weight_of(r, i);
    *key = key_of(r, *w, i);
    return *w > 0 && *key >= low && *key <= high;
}

// How many the threads before this one have.
static __device__ int count_before(int mine, int *warps)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = mine;
    UNROLL
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    for (int i = 0; i < warp; i++)
        sum += warps[i];
    return sum - mine;
}

// The candidates from low to high, FEW of them at most, in an order that does not change.
static __device__ void gather(const struct row &r, uint64_t low, uint64_t high, struct few *few)
{
    float w;
    uint64_t key;
    int mine = 0;
    for (int i = threadIdx.x; i < r.n; i += THREADS)
        mine += is_between(r, i, low, high, &w, &key);
    int at = count_before(mine, few->before);
    for (int i = threadIdx.x; mine && i < r.n; i += THREADS)
        if (is_between(r, i, low, high, &w, &key))
            few->key[at] = key, few->weight[at] = w, at++;
    if (threadIdx.x == THREADS - 1)
        few->n = at;
    __syncthreads();
}

// The first of few that, with all that precedes it, is enough; `high` where none is. The same in every thread.
static __device__ uint64_t first_of_few(struct few *few, struct measure before, const struct wanted &wanted, uint64_t high)
{
    uint64_t mine = high;
    if ((int)threadIdx.x < few->n) {
        const uint64_t key = few->key[threadIdx.x];
        for (int i = 0; i < few->n; i++)
            if (few->key[i] <= key)
                before.mass += (double)few->weight[i], before.count++;
        mine = wanted.met(before) ? key : high;
    }
    __syncthreads();
    if (threadIdx.x < FEW)
        few->key[threadIdx.x] = mine;
    __syncthreads();
    for (int i = 0; i < FEW; i++)
        mine = min(mine, few->key[i]);
    __syncthreads();
    return mine;
}

// The least key up to `last` at which enough is reached, `last` where nothing before it suffices; `all`: of those up to it.
static __device__ uint64_t shortest(const struct row &r, uint64_t last, struct measure all, const struct wanted &wanted,
                                    struct measure *part, struct few *few)
{
    uint64_t low = 0, high = last;
    struct measure before = {0, 0};
    while (low < high && all.count - before.count > FEW) {
        uint64_t middle = low + (high - low) / 2;
        struct measure m = measure_to(r, middle, part);
        if (wanted.met(m))
            high = middle, all = m;
        else
            low = middle + 1, before = m;
    }
    if (low == high)
        return low;
    gather(r, low, high, few);
    return first_of_few(few, before, wanted, high);
}

static __global__ void __launch_bounds__(THREADS)
    sample_kernel(const float *x, int width, const struct choice *choice, int32_t *id)
{
    __shared__ struct measure part[THREADS / 32];
    __shared__ struct few few;
    const struct choice c = choice[blockIdx.x];
    if (c.temperature == 0)
        return;
    const float *logits = x + (size_t)c.out_row * width;
    struct row r = {logits, width, logits[id[blockIdx.x]], c.temperature, !c.top_k && !(c.top_p < 1)};
    uint64_t last = r.by_id ? (uint64_t)width : (uint64_t)ONE_BITS << ID_BITS | ((1u << ID_BITS) - 1);
    struct measure all = measure_to(r, last, part);
    if (!all.count) // an infinite logit, or none that is a number: what argmax says
        return;
    if (c.top_k && c.top_k < all.count) {
        last = shortest(r, last, all, {c.top_k, 0, false}, part, &few);
        all = measure_to(r, last, part);
    }
    if (c.top_p < 1) {
        last = shortest(r, last, all, {1, (double)c.top_p * all.mass, false}, part, &few);
        all = measure_to(r, last, part);
    }
    uint64_t drawn = shortest(r, last, all, {1, (double)c.u * all.mass, true}, part, &few);
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
