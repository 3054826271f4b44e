// What goes into the KV cache: QK-norm, rotary embedding and the write of K and V in one pass; copies and fills of blocks.
#include "engine/cuda/values.h"

enum { HEAD_MAX = 256, PER_LANE = HEAD_MAX / 32 };

static __device__ __forceinline__ uint8_t *values_at(const struct cuda_kv &kv, int side, int block, int head)
{
    size_t v = side ? kv.head_bytes[0] * (size_t)kv.n_heads : 0;
    return kv.base + (size_t)block * kv.block_bytes + v + (size_t)head * kv.head_bytes[side];
}

static __device__ __forceinline__ int value_bytes(int type)
{
    return type == DTYPE_FP8 || type == DTYPE_INT8 ? 1 : 2;
}

// int8: the scales of a run lie behind its values.
static __device__ __forceinline__ uint16_t *scales_at(const struct cuda_kv &kv, uint8_t *values)
{
    return reinterpret_cast<uint16_t *>(values + (size_t)kv.block_size * kv.head_dim);
}

// The largest magnitude of a row that the warp holds, over 127, as stored (f16).
static __device__ __forceinline__ uint16_t int8_scale(const float *x, int n)
{
    float high = 0;
    for (int i = 0; i < n; i++)
        high = fmaxf(high, fabsf(x[i]));
    for (int step = 16; step; step >>= 1)
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
    return to_f16(high / 127);
}

// One row of head_dim values, lane i holding values i, i + 32, ...
static __device__ void store_row(const struct cuda_kv &kv, int side, int block, int head, int token, const float *x)
{
    const int lane = threadIdx.x % 32, n = kv.head_dim / 32, type = kv.type[side];
    uint8_t *run = values_at(kv, side, block, head);
    uint8_t *row = run + (size_t)token * kv.head_dim * value_bytes(type);
    float inverse = 1;
    if (type == DTYPE_INT8) {
        uint16_t scale = int8_scale(x, n);
        float d = from_f16(scale);
        inverse = d > 0 ? 1 / d : 0;
        if (lane == 0)
            scales_at(kv, run)[token] = scale;
    } else if (type == DTYPE_FP8) {
        inverse = 1 / kv.scale[side];
    }
    for (int i = 0; i < n; i++) {
        int at = i * 32 + lane;
        float v = x[i] * inverse;
        switch (type) {
        case DTYPE_BF16: reinterpret_cast<uint16_t *>(row)[at] = to_bf16(v); break;
        case DTYPE_F16: reinterpret_cast<uint16_t *>(row)[at] = to_f16(v); break;
        case DTYPE_FP8: row[at] = to_fp8(v); break;
        default: row[at] = (uint8_t)(int8_t)rintf(fminf(fmaxf(v, -127.f), 127.f)); break;
        }
    }
}

static __device__ void load_row(const bf16 *from, int n, float *x)
{
    for (int i = 0; i < n; i++)
        x[i] = from_bf16(from[i * 32 + threadIdx.x % 32]);
}

static __device__ void norm_row(const bf16 *weight, float eps, int n, float *x)
{
    float squares = 0;
    for (int i = 0; i < n; i++)
        squares = fmaf(x[i], x[i], squares);
    float scale = rsqrtf(warp_sum(squares) / (n * 32) + eps);
    for (int i = 0; i < n; i++)
        x[i] = from_bf16(to_bf16(x[i] * scale * from_bf16(weight[i * 32 + threadIdx.x % 32])));
}

// Halves pair up: value i turns with value i + rotary_dim / 2, which another lane or another of this lane's values holds.
static __device__ void turn_row(const struct cuda_rope_kv &a, int row, int n, float *x, float *shared)
{
    const int lane = threadIdx.x % 32, half = a.rotary_dim / 2;
    const float *cos = a.cos + (size_t)row * half, *sin = a.sin + (size_t)row * half;
    for (int i = 0; i < n; i++)
        shared[i * 32 + lane] = x[i];
    __syncwarp();
    for (int i = 0; i < n; i++) {
        int at = i * 32 + lane;
        if (at < half)
            x[i] = x[i] * cos[at] - shared[at + half] * sin[at];
        else if (at < a.rotary_dim)
            x[i] = x[i] * cos[at - half] + shared[at - half] * sin[at - half];
    }
    __syncwarp();
}

static __device__ void write_row(bf16 *to, int n, const float *x)
{
    for (int i = 0; i < n; i++)
        to[i * 32 + threadIdx.x % 32] = to_bf16(x[i]);
}

// One warp per (row, head): q heads first, then k and v.
static __global__ void __launch_bounds__(128) rope_kv_kernel(struct cuda_rope_kv a, struct cuda_kv kv, int writes)
{
    __shared__ float pair[4][HEAD_MAX];
    const int warp = threadIdx.x / 32, row = blockIdx.x, head = blockIdx.y * 4 + warp;
    const int d = a.head_dim, n = d / 32, n_q = a.q ? a.n_q_heads : 0, n_k = a.k ? a.n_kv_heads : 0;
    float x[PER_LANE];
    if (head >= n_q + n_k + (writes ? a.n_kv_heads : 0))
        return;
    const bool is_q = head < n_q, is_k = !is_q && head < n_q + n_k;
    const int h = is_q ? head : is_k ? head - n_q : head - n_q - n_k, heads = is_q ? a.n_q_heads : a.n_kv_heads;
    const size_t at = ((size_t)row * heads + h) * d;
    load_row((is_q ? a.q : is_k ? a.k : a.v) + at, n, x);
    const bf16 *weight = is_q ? a.q_weight : is_k ? a.k_weight : nullptr;
    if (weight)
        norm_row(weight, a.eps, n, x);
    if ((is_q || is_k) && a.cos)
        turn_row(a, row, n, x, pair[warp]);
    if (is_q && a.q_out)
        write_row(a.q_out + at, n, x);
    if (is_k && a.k_out)
        write_row(a.k_out + at, n, x);
    if (is_q || !writes)
        return;
    int pos = a.pos[row], block = a.table[(size_t)a.seq[row] * a.table_stride + pos / kv.block_size];
    store_row(kv, is_k ? 0 : 1, block, h, pos % kv.block_size, x);
}

cudaError_t cuda_rope_kv(const struct cuda_rope_kv *a, cudaStream_t stream)
{
    int heads = (a->q ? a->n_q_heads : 0) + (a->k ? a->n_kv_heads : 0) + (a->kv ? a->n_kv_heads : 0);
    if (a->head_dim % 32 || a->head_dim > HEAD_MAX || (a->cos && a->rotary_dim % 2))
        return cudaErrorInvalidValue;
    struct cuda_kv none = {};
    return CUDA_LAUNCH(rope_kv_kernel, dim3(a->rows, (heads + 3) / 4), dim3(128), 0, stream, *a, a->kv ? *a->kv : none,
                       a->kv != nullptr);
}

static __global__ void turns_kernel(const float *inv_freq, int half, int long_from, float magnitude, const int32_t *pos,
                                    const int32_t *seq, const int32_t *ctx_len, float *cos, float *sin)
{
    int row = blockIdx.x;
    const float *freq = inv_freq + (long_from && ctx_len[seq[row]] > long_from ? half : 0);
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        float angle = (float)pos[row] * freq[i];
        cos[(size_t)row * half + i] = cosf(angle) * magnitude;
        sin[(size_t)row * half + i] = sinf(angle) * magnitude;
    }
}

cudaError_t cuda_turns(const float *inv_freq, int32_t rotary_dim, int32_t long_from, float magnitude, const int32_t *pos,
                       const int32_t *seq, const int32_t *ctx_len, int32_t rows, float *cos, float *sin, cudaStream_t stream)
{
    return CUDA_LAUNCH(turns_kernel, dim3(rows), dim3(64), 0, stream, inv_freq, rotary_dim / 2, long_from, magnitude, pos,
                       seq, ctx_len, cos, sin);
}

static __global__ void copy_kernel(struct cuda_kv kv, int from, int to)
{
    const uint16_t *source = reinterpret_cast<const uint16_t *>(kv.base + (size_t)from * kv.block_bytes);
    uint16_t *target = reinterpret_cast<uint16_t *>(kv.base + (size_t)to * kv.block_bytes);
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < kv.block_bytes / 2;
         i += (size_t)gridDim.x * blockDim.x)
        target[i] = source[i];
}

cudaError_t cuda_kv_copy(const struct cuda_kv *kv, int32_t from, int32_t to, cudaStream_t stream)
{
    return from == to ? cudaSuccess : CUDA_LAUNCH(copy_kernel, dim3(32), dim3(256), 0, stream, *kv, from, to);
}

// As engine/base/rng.h has it.
static __device__ __forceinline__ uint64_t random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Uniform of unit variance, one warp per row.
static __global__ void fill_kernel(struct cuda_kv kv, int block, uint64_t seed)
{
    int token = blockIdx.x, head = blockIdx.y, side = blockIdx.z;
    uint64_t row = random_at(seed, (uint64_t)((side * kv.n_heads + head) * kv.block_size + token));
    float x[PER_LANE];
    for (int i = 0; i < kv.head_dim / 32; i++) {
        uint64_t bits = random_at(row, (uint64_t)(i * 32 + threadIdx.x));
        x[i] = ((float)(bits >> 40) * 0x1p-24f * 2 - 1) * 1.7320508f;
    }
    store_row(kv, side, block, head, token, x);
}

cudaError_t cuda_kv_fill(const struct cuda_kv *kv, int32_t block, uint64_t seed, cudaStream_t stream)
{
    return CUDA_LAUNCH(fill_kernel, dim3(kv->block_size, kv->n_heads, 2), dim3(32), 0, stream, *kv, block, seed);
}

// Four values of a row from one random word, as engine/load/random.c makes them.
static __global__ void random_kernel(uint64_t stream_seed, int cols, int first, bf16 *out)
{
    float limit = sqrtf(3.0f / (float)cols);
    uint64_t row = (uint64_t)first + blockIdx.x, word = row * (uint64_t)cols;
    bf16 *to = out + (size_t)blockIdx.x * cols;
    for (int i = threadIdx.x * 4; i < cols; i += blockDim.x * 4) {
        uint64_t bits = random_at(stream_seed, word + i / 4);
        for (int k = 0; k < 4 && i + k < cols; k++, bits >>= 16) {
            float v = ((float)(int16_t)bits + 0.5f) * 0x1p-15f * limit;
            to[i + k] = (uint16_t)((__float_as_uint(v) + 0x8000) >> 16);
        }
    }
}

cudaError_t cuda_random_bf16(uint64_t stream_seed, int32_t cols, int32_t first, int32_t count, bf16 *out,
                             cudaStream_t stream)
{
    return CUDA_LAUNCH(random_kernel, dim3(count), dim3(256), 0, stream, stream_seed, cols, first, out);
}
