// Decode attention: one row per sequence. A block reads one part of the context of one KV head for up to 16 query heads of
// its group; its warps take tiles of 16 positions by turns and are joined in order, as are the parts of the context
// afterwards.
//
// As in linear.cu, A and B of S = Q K' may take k (here: the values of a head) in any common order, so lane (g, q) takes 8
// adjacent values of its row at c * 32 + q * 8, straight from memory, and hands its four pairs to two mma. P V needs its own
// order: V goes through shared memory.
#include "engine/cuda/attn.h"

enum { WARPS = 4, HEADS = 16, TILE = 16 };

// Whole tiles of 16 positions of the context that part `split` of `splits` takes: [begin, end).
static __device__ __forceinline__ void part_of(int first, int last, int split, int splits, int *begin, int *end)
{
    int low = first / TILE * TILE, tiles = (last + TILE - low) / TILE, each = (tiles + splits - 1) / splits;
    *begin = low + split * each * TILE;
    *end = min(*begin + each * TILE, last + 1);
}

template <int CHUNKS> static __device__ void load_queries(const bf16 *q, int n, int head_dim, uint16_t *to)
{
    const int per_row = CHUNKS * 4, width = CHUNKS * 32 + PAD;
    for (int i = threadIdx.x; i < HEADS * per_row; i += WARPS * 32) {
        int r = i / per_row, at = i % per_row * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (r < n)
            v = *reinterpret_cast<const uint4 *>(q + (size_t)r * head_dim + at);
        *reinterpret_cast<uint4 *>(to + r * width + at) = v;
    }
}

// s += q k' for one tile of 8 positions and PART chunks of the head. q: shared, [16, CHUNKS * 32 + PAD], at the first of
// these chunks; k: this lane's position (row g of the tile).
template <int CHUNKS, int PART>
static __device__ __forceinline__ void score_tile(const uint16_t *q, const uint4 (&k)[PART], float (&s)[4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, at = lane % 4 * 8;
    UNROLL
    for (int c = 0; c < PART; c++) {
        const int width = CHUNKS * 32 + PAD;
        uint4 low = *reinterpret_cast<const uint4 *>(q + g * width + c * 32 + at);
        uint4 high = *reinterpret_cast<const uint4 *>(q + (g + 8) * width + c * 32 + at);
        const uint32_t a0[4] = {low.x, high.x, low.y, high.y}, a1[4] = {low.z, high.z, low.w, high.w};
        const uint32_t b0[2] = {k[c].x, k[c].y}, b1[2] = {k[c].z, k[c].w};
        mma_bf16(s, a0, b0);
        mma_bf16(s, a1, b1);
    }
}

// o += p v for 16 positions: s holds the probabilities of two tiles of 8; v: shared, [16, CHUNKS * 32 + PAD].
template <int CHUNKS>
static __device__ __forceinline__ void weigh_tile(const float (&s)[2][4], const uint16_t *v, float (&o)[CHUNKS * 4][4])
{
    const int lane = threadIdx.x % 32, width = CHUNKS * 32 + PAD;
    const uint32_t p[4] = {to_bf16_pair(s[0][0], s[0][1]), to_bf16_pair(s[0][2], s[0][3]), to_bf16_pair(s[1][0], s[1][1]),
                           to_bf16_pair(s[1][2], s[1][3])};
    UNROLL
    for (int n = 0; n < CHUNKS * 2; n++) { // 16 values of the head at a time
        uint32_t r[4];
        load_matrices_transposed(r, v + (lane % 16) * width + n * 16 + lane / 16 * 8);
        const uint32_t b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
        mma_bf16(o[2 * n], p, b0);
        mma_bf16(o[2 * n + 1], p, b1);
    }
}

// A score as softmax wants it: scaled, capped, base 2; -infinity outside first .. last.
static __device__ __forceinline__ float masked(float s, float scale, float softcap, int position, int first, int last)
{
    return position >= first && position <= last ? capped(s * scale, softcap) * LOG2_E : -INFINITY;
}

// One tile of 16 positions from `at`: scores, softmax, weighted sum.
template <int CHUNKS>
static __device__ __forceinline__ void attend_tile(const struct cuda_attn &a, const struct head_kv &kv, int at, int first,
                                                   int last, const uint16_t *q, uint16_t *v_tile,
                                                   struct softmax_state &state, float (&o)[CHUNKS * 4][4])
{
    // Heads of 256 have no registers for all of a tile at once.
    enum {
        WIDTH = CHUNKS * 32 + PAD,
        PIECES = CHUNKS * 4,
        K_TILES = CHUNKS > 4 ? 1 : 2,
        K_PART = CHUNKS > 4 ? 4 : CHUNKS,
        V_LOADS = CHUNKS > 4 ? 4 : CHUNKS * 2
    };
    const int lane = threadIdx.x % 32, g = lane / 4, column = lane % 4 * 2;
    float s[2][4] = {};
    for (int i = lane; i < TILE * PIECES;
         i += 32 * V_LOADS) { // positions beyond the context read its last row: masked below
        uint4 v[V_LOADS];
        UNROLL
        for (int j = 0; j < V_LOADS; j++)
            v[j] = load8(kv.kv->type[1], kv.row(1, min(at + (i + j * 32) / PIECES, last)), (i + j * 32) % PIECES * 8);
        UNROLL
        for (int j = 0; j < V_LOADS; j++)
            *reinterpret_cast<uint4 *>(v_tile + (i + j * 32) / PIECES * WIDTH + (i + j * 32) % PIECES * 8) = v[j];
    }
    UNROLL
    for (int t = 0; t < 2; t += K_TILES)
        ROLLED
    for (int from = 0; from < CHUNKS; from += K_PART) {
        uint4 k[K_TILES][K_PART];
        UNROLL
        for (int j = 0; j < K_TILES; j++)
            UNROLL
        for (int c = 0; c < K_PART; c++)
            k[j][c] = load8(kv.kv->type[0], kv.row(0, min(at + (t + j) * 8 + g, last)), (from + c) * 32 + lane % 4 * 8);
        UNROLL
        for (int j = 0; j < K_TILES; j++)
            score_tile<CHUNKS>(q + from * 32, k[j], s[t + j]);
    }
    UNROLL
    for (int t = 0; t < 2; t++)
        UNROLL
    for (int i = 0; i < 4; i++) {
        int position = at + t * 8 + column + i % 2;
        s[t][i] = masked(s[t][i] * kv.scale(0, min(position, last)), a.scale, a.softcap, position, first, last);
    }
    soften(s, state, o);
    UNROLL
    for (int t = 0; t < 2; t++)
        UNROLL
    for (int i = 0; i < 4; i++)
        s[t][i] *= kv.scale(1, min(at + t * 8 + column + i % 2, last));
    __syncwarp();
    weigh_tile<CHUNKS>(s, v_tile, o);
    __syncwarp();
}

// The warps' results added up in shared memory: max [WARPS, 16], sum [WARPS, 16], o [16, CHUNKS * 32].
template <int CHUNKS>
static __device__ void join_warps(const struct softmax_state &state, const float (&o)[CHUNKS * 4][4], float *max, float *sum,
                                  float *joined)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    UNROLL
    for (int h = 0; h < 2; h++) {
        float total = quad_sum(state.sum[h]);
        if (q == 0)
            max[warp * HEADS + g + 8 * h] = state.max[h], sum[warp * HEADS + g + 8 * h] = total;
    }
    __syncthreads();
    float factor[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
        float high = -INFINITY;
        for (int w = 0; w < WARPS; w++)
            high = fmaxf(high, max[w * HEADS + g + 8 * h]);
        factor[h] = high == -INFINITY ? 0 : exp2f(state.max[h] - high);
    }
    for (int w = 0; w < WARPS; w++) {
        UNROLL
        for (int c = 0; c < CHUNKS * 4; c++)
            UNROLL
        for (int i = 0; i < 4 && warp == w; i++) {
            float *at = joined + (g + 8 * (i / 2)) * CHUNKS * 32 + c * 8 + 2 * q + i % 2;
            *at = (w ? *at : 0) + o[c][i] * factor[i / 2];
        }
        __syncthreads();
    }
}

template <int CHUNKS>
static __global__ void __launch_bounds__(WARPS * 32) decode_kernel(struct cuda_attn a, struct cuda_kv kv)
{
    enum { WIDTH = CHUNKS * 32 + PAD };
    __shared__ __align__(16) uint16_t q[HEADS * WIDTH], v_tile[WARPS][TILE * WIDTH];
    float *joined = reinterpret_cast<float *>(v_tile[0]); // once the warps have left their tiles
    __shared__ float high_of[WARPS * HEADS], sum_of[WARPS * HEADS];
    const int group = a.n_q_heads / kv.n_heads, passes = (group + HEADS - 1) / HEADS, d = kv.head_dim;
    const int split = blockIdx.x, kv_head = blockIdx.y / passes, first_head = blockIdx.y % passes * HEADS;
    const int out_row = blockIdx.z, row = a.row ? a.row[out_row] : out_row, n = min((int)HEADS, group - first_head);
    const int last = a.pos[row], first = a.window && last >= a.window ? last - a.window + 1 : 0,
              head = kv_head * group + first_head;
    const struct head_kv of = {&kv, a.table + (size_t)a.seq[row] * a.table_stride, kv_head};
    int begin, end;
    part_of(first, last, split, a.splits, &begin, &end);
    struct softmax_state state = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[CHUNKS * 4][4] = {};
    load_queries<CHUNKS>(a.q + ((size_t)row * a.n_q_heads + head) * d, n, d, q);
    __syncthreads();
    for (int at = begin + (int)threadIdx.x / 32 * TILE; at < end; at += WARPS * TILE)
        attend_tile<CHUNKS>(a, of, at, first, min(last, end - 1), q, v_tile[threadIdx.x / 32], state, o);
    join_warps<CHUNKS>(state, o, high_of, sum_of, joined);
    for (int i = threadIdx.x; i < n * d; i += WARPS * 32) {
        int h = i / d, x = i % d;
        float high = -INFINITY, total = 0;
        for (int w = 0; w < WARPS; w++)
            high = fmaxf(high, high_of[w * HEADS + h]);
        for (int w = 0; w < WARPS && high != -INFINITY; w++)
            total += sum_of[w * HEADS + h] * exp2f(high_of[w * HEADS + h] - high);
        if (a.splits == 1) {
            a.out[((size_t)out_row * a.n_q_heads + head + h) * d + x] = to_bf16(total > 0 ? joined[h * d + x] / total : 0);
            continue;
        }
        float *part = a.parts + (((size_t)out_row * a.n_q_heads + head + h) * a.splits + split) * (d + 2);
        part[x] = joined[h * d + x];
        if (x == 0)
            part[d] = high, part[d + 1] = total;
    }
}

// The parts of a head, in order.
static __global__ void combine_kernel(const float *parts, int splits, int d, bf16 *out)
{
    const float *p = parts + (size_t)blockIdx.x * splits * (d + 2);
    float high = -INFINITY, total = 0;
    for (int s = 0; s < splits; s++)
        high = fmaxf(high, p[s * (d + 2) + d]);
    for (int s = 0; s < splits; s++)
        total += p[s * (d + 2) + d + 1] > 0 ? p[s * (d + 2) + d + 1] * exp2f(p[s * (d + 2) + d] - high) : 0;
    for (int x = threadIdx.x; x < d; x += blockDim.x) {
        float v = 0;
        for (int s = 0; s < splits; s++)
            if (p[s * (d + 2) + d + 1] > 0)
                v += p[s * (d + 2) + x] * exp2f(p[s * (d + 2) + d] - high);
        out[(size_t)blockIdx.x * d + x] = to_bf16(total > 0 ? v / total : 0);
    }
}

int32_t cuda_attn_splits(int32_t rows, int32_t n_kv_heads, int32_t max_ctx, int32_t n_sms)
{
    enum { BLOCKS_PER_SM = 4, LEAST = 256, MOST = 64 }; // positions of a part; parts
    int32_t context = LEAST;
    while (context < max_ctx) // so that contexts of one octave share a graph
        context *= 2;
    int32_t wanted = (BLOCKS_PER_SM * n_sms + rows * n_kv_heads - 1) / (rows * n_kv_heads), most = context / LEAST;
    int32_t splits = wanted < most ? wanted : most;
    return splits < 1 ? 1 : splits > MOST ? MOST : splits;
}

cudaError_t cuda_attn_decode(const struct cuda_attn *a, cudaStream_t stream)
{
    const int group = a->n_q_heads / a->kv->n_heads, passes = (group + HEADS - 1) / HEADS;
    const dim3 grid(a->splits, a->kv->n_heads * passes, a->rows), block(WARPS * 32);
    cudaError_t e;
    switch (a->kv->head_dim) {
    case 32: e = CUDA_LAUNCH(decode_kernel<1>, grid, block, 0, stream, *a, *a->kv); break;
    case 64: e = CUDA_LAUNCH(decode_kernel<2>, grid, block, 0, stream, *a, *a->kv); break;
    case 96: e = CUDA_LAUNCH(decode_kernel<3>, grid, block, 0, stream, *a, *a->kv); break;
    case 128: e = CUDA_LAUNCH(decode_kernel<4>, grid, block, 0, stream, *a, *a->kv); break;
    case 256: e = CUDA_LAUNCH(decode_kernel<8>, grid, block, 0, stream, *a, *a->kv); break;
    default: return cudaErrorInvalidValue;
    }
    if (e || a->splits == 1)
        return e;
    return CUDA_LAUNCH(combine_kernel, dim3(a->rows * a->n_q_heads), dim3(128), 0, stream, (const float *)a->parts,
                       a->splits, a->kv->head_dim, a->out);
}
