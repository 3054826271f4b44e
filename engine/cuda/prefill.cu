// Prefill attention: 64 rows - tokens of one sequence times the query heads of one KV head - share every tile of 32
// positions in shared memory. Tiles beyond the last row's position and before the first row's window are never read.
#include "engine/cuda/attn.h"

enum { WARPS = 4, ROWS = 16 * WARPS, TILE = 32 };

template <int CHUNKS> struct prefill_shared {
    enum { WIDTH = CHUNKS * 32 + PAD };
    uint16_t q[ROWS * WIDTH], k[TILE * WIDTH], v[TILE * WIDTH];
    float k_scale[TILE], v_scale[TILE];
};

// Row r of the block: its token (row of the batch) and query head; `token` < 0 beyond the last.
struct row_of_block {
    int token, head;
};

static __device__ __forceinline__ struct row_of_block find_row(const struct cuda_attn &a, int group, int r)
{
    int seq = blockIdx.z, kv_head = blockIdx.y, i = blockIdx.x * ROWS + r, token = a.seq_first[seq] + i / group;
    return {token < a.seq_first[seq + 1] ? token : -1, kv_head * group + i % group};
}

template <int CHUNKS> static __device__ void load_queries(const struct cuda_attn &a, int group, int d, uint16_t *q)
{
    enum { WIDTH = CHUNKS * 32 + PAD, PIECES = CHUNKS * 4 };
    for (int i = threadIdx.x; i < ROWS * PIECES; i += WARPS * 32) {
        struct row_of_block r = find_row(a, group, i / PIECES);
        uint4 v = make_uint4(0, 0, 0, 0);
        if (r.token >= 0)
            v = *reinterpret_cast<const uint4 *>(a.q + ((size_t)r.token * a.n_q_heads + r.head) * d + i % PIECES * 8);
        *reinterpret_cast<uint4 *>(q + i / PIECES * WIDTH + i % PIECES * 8) = v;
    }
}

template <int CHUNKS>
static __device__ void load_tile(const struct head_kv &kv, int at, int last, struct prefill_shared<CHUNKS> &s)
{
    enum { WIDTH = CHUNKS * 32 + PAD, PIECES = CHUNKS * 4 };
    for (int i = threadIdx.x; i < TILE * PIECES; i += WARPS * 32) {
        int t = i / PIECES, x = i % PIECES * 8, position = min(at + t, last);
        *reinterpret_cast<uint4 *>(s.k + t * WIDTH + x) = load8(kv.kv->type[0], kv.row(0, position), x);
        *reinterpret_cast<uint4 *>(s.v + t * WIDTH + x) = load8(kv.kv->type[1], kv.row(1, position), x);
    }
    if (threadIdx.x < TILE)
        s.k_scale[threadIdx.x] = kv.scale(0, min(at + (int)threadIdx.x, last));
    else if (threadIdx.x < 2 * TILE)
        s.v_scale[threadIdx.x - TILE] = kv.scale(1, min(at + (int)threadIdx.x - TILE, last));
}

template <int CHUNKS>
static __device__ __forceinline__ void attend_tile(const struct cuda_attn &a, const struct prefill_shared<CHUNKS> &shared,
                                                   int at, const int (&first)[2], const int (&last)[2],
                                                   struct softmax_state &state, float (&o)[CHUNKS * 4][4])
{
    enum { WIDTH = CHUNKS * 32 + PAD };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, column = lane % 4 * 2;
    float s[TILE / 8][4] = {};
    UNROLL
    for (int t = 0; t < TILE / 8; t++) {
        uint4 k[CHUNKS];
        UNROLL
        for (int c = 0; c < CHUNKS; c++)
            k[c] = *reinterpret_cast<const uint4 *>(shared.k + (t * 8 + g) * WIDTH + c * 32 + lane % 4 * 8);
        score_tile<CHUNKS>(shared.q + warp * 16 * WIDTH, k, s[t]);
        UNROLL
        for (int i = 0; i < 4; i++) {
            int x = t * 8 + column + i % 2;
            s[t][i] = masked(s[t][i] * shared.k_scale[x], a.scale, a.softcap, at + x, first[i / 2], last[i / 2]);
        }
    }
    soften(s, state, o);
    UNROLL
    for (int half = 0; half < TILE / 16; half++) {
        float p[2][4];
        UNROLL
        for (int t = 0; t < 2; t++)
            UNROLL
        for (int i = 0; i < 4; i++)
            p[t][i] = s[2 * half + t][i] * shared.v_scale[half * 16 + t * 8 + column + i % 2];
        weigh_tile<CHUNKS>(p, shared.v + half * 16 * WIDTH, o);
    }
}

template <int CHUNKS>
static __device__ void store_rows(const struct cuda_attn &a, int group, int d, const struct softmax_state &state,
                                  const float (&o)[CHUNKS * 4][4])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, column = lane % 4 * 2;
    UNROLL
    for (int h = 0; h < 2; h++) {
        struct row_of_block r = find_row(a, group, warp * 16 + g + 8 * h);
        float inverse = state.sum[h] > 0 ? 1 / state.sum[h] : 0;
        if (r.token < 0)
            continue;
        uint32_t *to = reinterpret_cast<uint32_t *>(a.out + ((size_t)r.token * a.n_q_heads + r.head) * d + column);
        UNROLL
        for (int c = 0; c < CHUNKS * 4; c++)
            to[c * 4] = to_bf16_pair(o[c][2 * h] * inverse, o[c][2 * h + 1] * inverse);
    }
}

template <int CHUNKS>
static __global__ void __launch_bounds__(WARPS * 32) prefill_kernel(struct cuda_attn a, struct cuda_kv kv)
{
    DYNAMIC_SHARED(struct prefill_shared<CHUNKS>, shared);
    const int seq = blockIdx.z, group = a.n_q_heads / kv.n_heads, rows = (a.seq_first[seq + 1] - a.seq_first[seq]) * group;
    const int tile_rows = min((int)ROWS, rows - (int)blockIdx.x * ROWS), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (tile_rows <= 0)
        return;
    const struct head_kv of = {&kv, a.table + (size_t)seq * a.table_stride, (int)blockIdx.y};
    int first[2], last[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
        struct row_of_block r = find_row(a, group, warp * 16 + lane / 4 + 8 * h);
        last[h] = r.token >= 0 ? a.pos[r.token] : -1; // sees nothing
        first[h] = a.window ? max(0, last[h] - a.window + 1) : 0;
    }
    const int lowest = a.pos[find_row(a, group, 0).token], highest = a.pos[find_row(a, group, tile_rows - 1).token];
    const int begin = a.window ? max(0, lowest - a.window + 1) / TILE * TILE : 0;
    struct softmax_state state = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[CHUNKS * 4][4] = {};
    load_queries<CHUNKS>(a, group, kv.head_dim, shared->q);
    for (int at = begin; at <= highest; at += TILE) {
        __syncthreads();
        load_tile<CHUNKS>(of, at, highest, *shared);
        __syncthreads();
        attend_tile<CHUNKS>(a, *shared, at, first, last, state, o);
    }
    store_rows<CHUNKS>(a, group, kv.head_dim, state, o);
}

template <int CHUNKS> static cudaError_t launch(const struct cuda_attn *a, cudaStream_t stream)
{
    const int group = a->n_q_heads / a->kv->n_heads, bytes = sizeof(struct prefill_shared<CHUNKS>);
    const dim3 grid((a->max_rows * group + ROWS - 1) / ROWS, a->kv->n_heads, a->n_seqs), block(WARPS * 32);
    cudaError_t e =
        cudaFuncSetAttribute((const void *)prefill_kernel<CHUNKS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return e ? e : CUDA_LAUNCH(prefill_kernel<CHUNKS>, grid, block, bytes, stream, *a, *a->kv);
}

cudaError_t cuda_attn_prefill(const struct cuda_attn *a, cudaStream_t stream)
{
    switch (a->kv->head_dim) {
    case 32: return launch<1>(a, stream);
    case 64: return launch<2>(a, stream);
    case 96: return launch<3>(a, stream);
    case 128: return launch<4>(a, stream);
    case 256: return launch<8>(a, stream);
    default: return cudaErrorInvalidValue;
    }
}
