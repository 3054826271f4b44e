// Linear layers over few rows, on tensor cores: 16 outputs are the rows of A, up to 8, 16 or 32 rows of x the columns of B.
// More rows go in passes of 32: blocks of one tile follow one another, so that all but the first find its weights in L2.
//
// A and B fragments want pairs that lie 8 apart in k. Since any order of k gives the same sum if both sides keep it, lane
// (g, q) takes 16 adjacent bytes of its row at k0 + q * VALUES, and hands its pairs to one mma after another: weights
// stream from memory in whole 16-byte loads, past shared memory. The warps of a block divide k and add up in shared memory,
// in order, so a result depends on nothing but its own row and weights.
#include "engine/cuda/values.h"

enum { WARPS = 8, OUTPUTS = 16 };

struct tile {
    int matrix, first; // outputs first .. first + 15 of w[matrix]
};

// Tiles of all matrices, one after another; with an activation a tile is the same outputs of both.
static __device__ __forceinline__ struct tile find_tile(const struct cuda_linear &a, int tile)
{
    int i = 0;
    for (; !a.act && i + 1 < a.n; i++) {
        int tiles = (a.w[i].n_out + OUTPUTS - 1) / OUTPUTS;
        if (tile < tiles)
            break;
        tile -= tiles;
    }
    return {i, tile * OUTPUTS};
}

static __device__ __forceinline__ const bf16 *row_of(const struct cuda_linear &a, int r)
{
    return a.x + (size_t)(a.row ? a.row[r] : r) * a.w[0].n_in;
}

// 16 bytes of row `row` from value k; zeros beyond the matrix.
template <int TYPE> static __device__ __forceinline__ uint4 load_weights(const struct cuda_matrix &w, int row, int k)
{
    if (row >= w.n_out || k >= w.n_in)
        return make_uint4(0, 0, 0, 0);
    size_t at = ((size_t)row * w.n_in + k) * 16 / stored<TYPE>::VALUES;
    return load_stream(static_cast<const char *>(w.data) + at);
}

// Zero nibbles mean -8: their scale must be 0 beyond the matrix.
static __device__ __forceinline__ float load_scale(const struct cuda_matrix &w, int row, int k)
{
    return row < w.n_out && k < w.n_in ? scale_at(w, row, k) : 0;
}

// sum[c] += 16 outputs x 8 rows of x from row `row`, over this warp's part of k.
template <int TYPE, int COLUMNS>
static __device__ __forceinline__ void multiply(const struct cuda_linear &a, const struct cuda_matrix &w, int first, int row,
                                                int warp, float (&sum)[COLUMNS][4])
{
    typedef stored<TYPE> T;
    // AHEAD: steps of k that are loaded before they are multiplied: 128 bytes of each lane, 64 where widening takes
    // registers.
    enum { STEP = 4 * T::VALUES, PAIRS = T::VALUES / 2, AHEAD = T::VALUES > 16 ? 2 : 4 };
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const int steps = (w.n_in + STEP - 1) / STEP;
    const int begin = steps * warp / WARPS, end = steps * (warp + 1) / WARPS;
    const bf16 *x[COLUMNS];
    UNROLL
    for (int c = 0; c < COLUMNS; c++)
        x[c] = row + c * 8 + g < a.rows ? row_of(a, row + c * 8 + g) : nullptr;
    for (int s = begin; s < end; s += AHEAD) {
        uint4 raw[AHEAD][2];
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            UNROLL
        for (int h = 0; h < 2; h++) {
            int k = (s + i) * STEP + q * T::VALUES;
            raw[i][h] = load_weights<TYPE>(w, first + g + 8 * h, s + i < end ? k : w.n_in);
        }
        UNROLL
        for (int i = 0; i < AHEAD; i++) {
            int k = (s + i) * STEP + q * T::VALUES;
            bool inside = s + i < end && k < w.n_in;
            uint32_t low[PAIRS], high[PAIRS];
            T::widen(raw[i][0], load_scale(w, first + g, inside ? k : w.n_in), low);
            T::widen(raw[i][1], load_scale(w, first + g + 8, inside ? k : w.n_in), high);
            UNROLL
            for (int c = 0; c < COLUMNS; c++)
                UNROLL
            for (int v = 0; v < T::VALUES; v += 8) {
                uint4 y = make_uint4(0, 0, 0, 0);
                if (inside && x[c])
                    y = *reinterpret_cast<const uint4 *>(x[c] + k + v);
                const uint32_t a0[4] = {low[v / 2], high[v / 2], low[v / 2 + 1], high[v / 2 + 1]};
                const uint32_t a1[4] = {low[v / 2 + 2], high[v / 2 + 2], low[v / 2 + 3], high[v / 2 + 3]};
                const uint32_t b0[2] = {y.x, y.y}, b1[2] = {y.z, y.w};
                mma_bf16(sum[c], a0, b0);
                mma_bf16(sum[c], a1, b1);
            }
        }
    }
}

static __device__ __forceinline__ float finished(const struct cuda_linear &a, int matrix, int output, float v)
{
    if (a.bias[matrix])
        v += from_bf16(a.bias[matrix][output]);
    return capped(v * a.factor, a.softcap);
}

static __device__ __forceinline__ void store(const struct cuda_linear &a, int matrix, int output, int row, float v)
{
    size_t at = (size_t)row * a.w[matrix].n_out + output;
    if (a.y_is_f32)
        static_cast<float *>(a.y[matrix])[at] = v;
    else
        static_cast<bf16 *>(a.y[matrix])[at] = to_bf16(v);
}

// MATRICES: 2 with an activation, else 1.
template <int TYPE, int COLUMNS, int MATRICES>
__global__ void __launch_bounds__(WARPS * 32) linear_kernel(struct cuda_linear a)
{
    __shared__ float part[WARPS][MATRICES][COLUMNS * 8][OUTPUTS + 1];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const int first_row = blockIdx.x * COLUMNS * 8, rows = min(a.rows - first_row, COLUMNS * 8);
    struct tile t = find_tile(a, blockIdx.y);
    UNROLL
    for (int m = 0; m < MATRICES; m++) {
        float sum[COLUMNS][4] = {};
        multiply<TYPE, COLUMNS>(a, a.w[t.matrix + m], t.first, first_row, warp, sum);
        UNROLL
        for (int c = 0; c < COLUMNS; c++)
            UNROLL
        for (int i = 0; i < 4; i++)
            part[warp][m][c * 8 + 2 * q + i % 2][g + 8 * (i / 2)] = sum[c][i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * OUTPUTS; i += WARPS * 32) {
        int local = i / OUTPUTS, row = first_row + local, o = i % OUTPUTS, output = t.first + o;
        float v[MATRICES];
        if (output >= a.w[t.matrix].n_out)
            continue;
        UNROLL
        for (int m = 0; m < MATRICES; m++) {
            v[m] = 0;
            for (int w = 0; w < WARPS; w++)
                v[m] += part[w][m][local][o];
            v[m] = finished(a, t.matrix + m, output, v[m]);
        }
        if (MATRICES == 2)
            a.act_out[(size_t)row * a.w[0].n_out + output] = to_bf16(activate(a.act - 1, v[0]) * v[MATRICES - 1]);
        else
            store(a, t.matrix, output, row, v[0]);
    }
}

template <int TYPE, int COLUMNS> static cudaError_t launch(const struct cuda_linear *a, int tiles, cudaStream_t stream)
{
    const dim3 grid((a->rows + COLUMNS * 8 - 1) / (COLUMNS * 8), tiles), block(WARPS * 32);
    return a->act ? CUDA_LAUNCH((linear_kernel<TYPE, COLUMNS, 2>), grid, block, 0, stream, *a)
                  : CUDA_LAUNCH((linear_kernel<TYPE, COLUMNS, 1>), grid, block, 0, stream, *a);
}

template <int TYPE> static cudaError_t launch(const struct cuda_linear *a, cudaStream_t stream)
{
    int tiles = 0;
    for (int i = 0; i < (a->act ? 1 : a->n); i++)
        tiles += (a->w[i].n_out + OUTPUTS - 1) / OUTPUTS;
    return a->rows <= 8    ? launch<TYPE, 1>(a, tiles, stream)
           : a->rows <= 16 ? launch<TYPE, 2>(a, tiles, stream)
                           : launch<TYPE, 4>(a, tiles, stream);
}

// All matrices of one layer that share an input have one stored type, or go one by one.
static bool alike(const struct cuda_linear *a)
{
    for (int i = 1; i < a->n; i++)
        if (stored_type(a->w[i].type) != stored_type(a->w[0].type))
            return false;
    return true;
}

static cudaError_t one_by_one(const struct cuda_linear *a, cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    for (int i = 0; i < a->n && !e; i++) {
        struct cuda_linear one = *a;
        one.w[0] = a->w[i], one.bias[0] = a->bias[i], one.y[0] = a->y[i];
        one.n = 1, one.act = 0;
        e = cuda_linear(&one, stream);
    }
    struct cuda_linear rest = *a;
    rest.bias[0] = rest.bias[1] = rest.bias[2] = NULL, rest.factor = 1, rest.softcap = 0;
    return e || !a->act ? e : cuda_finish(&rest, stream);
}

cudaError_t cuda_linear(const struct cuda_linear *a, cudaStream_t stream)
{
    if (a->rows < 1 || a->rows > CUDA_LINEAR_MAX_ROWS || a->w[0].n_in % 32)
        return cudaErrorInvalidValue;
    if (!alike(a))
        return one_by_one(a, stream);
    switch (stored_type(a->w[0].type)) {
    case DTYPE_BF16: return launch<DTYPE_BF16>(a, stream);
    case DTYPE_F16: return launch<DTYPE_F16>(a, stream);
    case DTYPE_FP8: return launch<DTYPE_FP8>(a, stream);
    case DTYPE_INT8: return launch<DTYPE_INT8>(a, stream);
    case DTYPE_Q4_0: return launch<DTYPE_Q4_0>(a, stream);
    default: return cudaErrorInvalidValue;
    }
}
