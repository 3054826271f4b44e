// Rows looked up, gathered, widened; what cuBLAS leaves to do; activations.
#include "engine/cuda/values.h"

enum { THREADS = 256 };

// 16 bytes of a matrix as bf16.
template <int TYPE>
static __device__ __forceinline__ void widen_row(const struct cuda_matrix &w, int row, float factor, bf16 *out)
{
    typedef stored<TYPE> T;
    for (int k = threadIdx.x * T::VALUES; k < w.n_in; k += blockDim.x * T::VALUES) {
        uint32_t pair[T::VALUES / 2];
        size_t at = ((size_t)row * w.n_in + k) * 16 / T::VALUES;
        uint4 raw = *reinterpret_cast<const uint4 *>(static_cast<const char *>(w.data) + at);
        T::widen(raw, scale_at(w, row, k), pair);
        for (int i = 0; i < T::VALUES / 2; i++) {
            uint32_t p = factor == 1 ? pair[i] : to_bf16_pair(first_of(pair[i]) * factor, second_of(pair[i]) * factor);
            reinterpret_cast<uint32_t *>(out)[(k / 2) + i] = p;
        }
    }
}

// Row token[i] (or first + i) of the matrix to row i.
template <int TYPE>
static __global__ void rows_kernel(struct cuda_matrix w, const int32_t *token, int first, float factor, bf16 *out)
{
    int row = token ? token[blockIdx.x] : first + (int)blockIdx.x;
    widen_row<TYPE>(w, row, factor, out + (size_t)blockIdx.x * w.n_in);
}

static cudaError_t rows(const struct cuda_matrix *w, const int32_t *token, int first, int count, float factor, bf16 *out,
                        cudaStream_t stream)
{
    const dim3 grid(count), block(128);
    switch (stored_type(w->type)) {
    case DTYPE_BF16: return CUDA_LAUNCH(rows_kernel<DTYPE_BF16>, grid, block, 0, stream, *w, token, first, factor, out);
    case DTYPE_F16: return CUDA_LAUNCH(rows_kernel<DTYPE_F16>, grid, block, 0, stream, *w, token, first, factor, out);
    case DTYPE_FP8: return CUDA_LAUNCH(rows_kernel<DTYPE_FP8>, grid, block, 0, stream, *w, token, first, factor, out);
    case DTYPE_INT8: return CUDA_LAUNCH(rows_kernel<DTYPE_INT8>, grid, block, 0, stream, *w, token, first, factor, out);
    case DTYPE_Q4_0: return CUDA_LAUNCH(rows_kernel<DTYPE_Q4_0>, grid, block, 0, stream, *w, token, first, factor, out);
    default: return cudaErrorInvalidValue;
    }
}

cudaError_t cuda_widen(const struct cuda_matrix *w, int32_t first, int32_t count, bf16 *out, cudaStream_t stream)
{
    return rows(w, NULL, first, count, 1, out, stream);
}

cudaError_t cuda_embed(const struct cuda_matrix *table, const int32_t *token, int32_t n, float factor, bf16 *y,
                       cudaStream_t stream)
{
    return rows(table, token, 0, n, factor, y, stream);
}

static __global__ void gather_kernel(const bf16 *x, const int32_t *row, int width, bf16 *y)
{
    const bf16 *from = x + (size_t)row[blockIdx.x] * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[(size_t)blockIdx.x * width + i] = from[i];
}

cudaError_t cuda_gather(const bf16 *x, const int32_t *row, int32_t n, int32_t width, bf16 *y, cudaStream_t stream)
{
    return CUDA_LAUNCH(gather_kernel, dim3(n), dim3(THREADS), 0, stream, x, row, width, y);
}

static __device__ __forceinline__ float largest_of(uint4 v, float largest)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        largest = fmaxf(largest, fmaxf(fabsf(first_of(word_of(v, i))), fabsf(second_of(word_of(v, i)))));
    return largest;
}

static __device__ __forceinline__ uint32_t to_fp8_quad(uint32_t low, uint32_t high, float scale)
{
    return to_fp8(first_of(low) / scale) | (uint32_t)to_fp8(second_of(low) / scale) << 8 |
           (uint32_t)to_fp8(first_of(high) / scale) << 16 | (uint32_t)to_fp8(second_of(high) / scale) << 24;
}

static __global__ void __launch_bounds__(THREADS)
    quantize_kernel(const bf16 *x, const int32_t *row, int width, uint8_t *y, float *scale)
{
    __shared__ float part[THREADS / 32];
    const uint4 *from = reinterpret_cast<const uint4 *>(x + (size_t)(row ? row[blockIdx.x] : (int)blockIdx.x) * width);
    uint2 *to = reinterpret_cast<uint2 *>(y + (size_t)blockIdx.x * width);
    float largest = 0;
    for (int i = threadIdx.x; i < width / 8; i += THREADS)
        largest = largest_of(from[i], largest);
    largest = block_largest<THREADS>(largest, part);
    float s = largest > 0 ? largest / 448 : 1;
    for (int i = threadIdx.x; i < width / 8; i += THREADS) {
        uint4 v = from[i];
        to[i] = make_uint2(to_fp8_quad(v.x, v.y, s), to_fp8_quad(v.z, v.w, s));
    }
    if (threadIdx.x == 0)
        scale[blockIdx.x] = s;
}

cudaError_t cuda_quantize(const bf16 *x, const int32_t *row, int32_t n, int32_t width, uint8_t *y, float *scale,
                          cudaStream_t stream)
{
    if (width % 8)
        return cudaErrorInvalidValue;
    return CUDA_LAUNCH(quantize_kernel, dim3(n), dim3(THREADS), 0, stream, x, row, width, y, scale);
}

static __global__ void finish_kernel(struct cuda_linear a)
{
    const int m = blockIdx.y, width = a.w[m].n_out, row = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        size_t at = (size_t)row * width + i;
        float v = a.y_is_f32 ? static_cast<float *>(a.y[m])[at] : from_bf16(static_cast<bf16 *>(a.y[m])[at]);
        if (a.row_scale[m])
            v *= a.row_scale[m][row] * scale_at(a.w[m], i, 0);
        v = capped((v + (a.bias[m] ? from_bf16(a.bias[m][i]) : 0)) * a.factor, a.softcap);
        if (a.y_is_f32)
            static_cast<float *>(a.y[m])[at] = v;
        else
            static_cast<bf16 *>(a.y[m])[at] = to_bf16(v);
    }
}

static __global__ void act_kernel(const bf16 *gate, const bf16 *up, int width, int act, bf16 *y)
{
    size_t at = (size_t)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[at + i] = to_bf16(activate(act, from_bf16(gate[at + i])) * from_bf16(up[at + i]));
}

cudaError_t cuda_act(const bf16 *gate, const bf16 *up, int32_t n, int32_t width, int32_t act, bf16 *y, cudaStream_t stream)
{
    return CUDA_LAUNCH(act_kernel, dim3(n), dim3(THREADS), 0, stream, gate, up, width, act, y);
}

cudaError_t cuda_finish(const struct cuda_linear *a, cudaStream_t stream)
{
    bool changes = a->factor != 1 || a->softcap != 0;
    for (int i = 0; i < a->n; i++)
        changes |= a->bias[i] || a->row_scale[i];
    cudaError_t e = changes ? CUDA_LAUNCH(finish_kernel, dim3(a->rows, a->n), dim3(THREADS), 0, stream, *a) : cudaSuccess;
    return e || !a->act ? e
                        : cuda_act(static_cast<bf16 *>(a->y[0]), static_cast<bf16 *>(a->y[1]), a->rows, a->w[0].n_out,
                                   a->act - 1, a->act_out, stream);
}
