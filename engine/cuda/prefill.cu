// Prefill attention. A block takes ROWS rows - tokens of one sequence times the query heads of one KV head - through the
// context, TILE positions at a time, and while a tile is multiplied the next one is on its way by cp.async. Tiles beyond the
// last row's position and before the first row's window are never read; a warp skips those that none of its rows sees, and
// masks only those that some of its rows see in part.
//
// cp.async cannot convert: bf16 is multiplied where it lands, in two buffers by turns; other types land in buffer 1 as they
// are stored and are widened into buffer 0, at the price of a second barrier per tile.
//
// Rows in shared memory are 16 bytes longer than their values, so that eight rows begin in eight different groups of four
// banks: ldmatrix, which reads 16 bytes of eight rows at a time, meets each bank once; so do cp.async and the widened
// values, eight neighbouring pieces of one row at a time. A fragment of K or V is loaded once for all STRIPS of a warp.
#include "engine/cuda/attn.h"

enum { WARPS = 4, THREADS = WARPS * 32 };

// Heads of 256 have registers for one strip of sums alone.
template <int CHUNKS> struct prefill_shape {
    enum {
        STRIPS = CHUNKS > 4 ? 1 : 2, // of 16 rows, for each warp
        ROWS = WARPS * STRIPS * 16,
        TILE = CHUNKS > 2 ? 32 : 64,
        PIECES = CHUNKS * 4, // of 8 values, in a row
        WIDTH = CHUNKS * 32 + PAD,
        LOOK_UPS = 2 * TILE // threads that look up a row of K or V of a tile each
    };
};

template <int CHUNKS> struct prefill_shared {
    typedef prefill_shape<CHUNKS> S;
    uint16_t q[S::ROWS * S::WIDTH];
    uint16_t tile[2][2][S::TILE * S::WIDTH]; // [K|V][buffer]
    const uint8_t *row[2][2][S::TILE];       // [tile % 2][K|V]: where its rows lie
    float scale[4][2][S::TILE];              // [tile % 4][K|V]: what its values are multiplied by
    int position[S::ROWS];                   // of each row in its sequence; -1: there is no such row
};

// sm_80 has 163 KiB for a block, sm_90 and sm_100 have 227; of an SM's 164 (228) a block takes 1 besides.
template <int CHUNKS> constexpr bool fits(int blocks_per_sm)
{
    return sizeof(struct prefill_shared<CHUNKS>) <= 163 << 10 &&
           blocks_per_sm * ((int)sizeof(struct prefill_shared<CHUNKS>) + 1024) <= 164 << 10;
}
static_assert(fits<1>(2) && fits<2>(2) && fits<3>(2) && fits<4>(2) && fits<8>(1), "shared memory of an SM");

// Row r of the block: its token (row of the batch) and query head; `token` < 0 beyond the last. The longest rows come first,
// so that no long block is left for the end.
struct row_of_block {
    int token, head;
};

static __device__ __forceinline__ int first_row(int rows)
{
    return (gridDim.x - 1 - blockIdx.x) * rows;
}

static __device__ __forceinline__ struct row_of_block find_row(const struct cuda_attn &a, int group, int row)
{
    int seq = blockIdx.z, kv_head = blockIdx.y, token = a.seq_first[seq] + row / group;
    return {token < a.seq_first[seq + 1] ? token : -1, kv_head * group + row % group};
}

template <int CHUNKS> static __device__ void copy_queries(const struct cuda_attn &a, int group, int d, uint16_t *q)
{
    typedef prefill_shape<CHUNKS> S;
    for (int i = threadIdx.x; i < S::ROWS * S::PIECES; i += THREADS) {
        struct row_of_block r = find_row(a, group, first_row(S::ROWS) + i / S::PIECES);
        const bf16 *from = a.q + ((size_t)max(r.token, 0) * a.n_q_heads + r.head) * d + i % S::PIECES * 8;
        copy_async16_or_zero(q + i / S::PIECES * S::WIDTH + i % S::PIECES * 8, from, r.token >= 0);
    }
}

// Where a row of a tile lies, looked up two tiles ahead: the table's entry is there when the copy wants it.
struct place {
    const uint8_t *row;
    float scale;
};

template <int CHUNKS> static __device__ __forceinline__ struct place look_up(const struct head_kv &kv, int tile, int highest)
{
    typedef prefill_shape<CHUNKS> S;
    const int side = threadIdx.x / S::TILE, position = min(tile * S::TILE + (int)threadIdx.x % S::TILE, highest);
    if (threadIdx.x >= S::LOOK_UPS)
        return {nullptr, 0};
    return side ? place{kv.row(1, position), kv.scale(1, position)} : place{kv.row(0, position), kv.scale(0, position)};
}

template <int CHUNKS>
static __device__ __forceinline__ void keep(struct prefill_shared<CHUNKS> &s, int tile, const struct place &p)
{
    typedef prefill_shape<CHUNKS> S;
    const int side = threadIdx.x / S::TILE, t = threadIdx.x % S::TILE;
    if (threadIdx.x < S::LOOK_UPS)
        s.row[tile % 2][side][t] = p.row, s.scale[tile % 4][side][t] = p.scale;
}

template <int CHUNKS, int PIECES> static __device__ __forceinline__ void copy_rows(const uint8_t *const *row, uint16_t *to)
{
    typedef prefill_shape<CHUNKS> S;
    UNROLL
    for (int j = 0; j < S::TILE * PIECES; j += THREADS) { // so that it is known how often
        const int i = j + threadIdx.x;
        if (S::TILE * PIECES % THREADS == 0 || i < S::TILE * PIECES)
            copy_async16(to + i / PIECES * S::WIDTH + i % PIECES * 8, row[i / PIECES] + i % PIECES * 16);
    }
}

template <int CHUNKS>
static __device__ __forceinline__ void copy_tile(const struct cuda_kv &kv, int tile, struct prefill_shared<CHUNKS> &s)
{
    typedef prefill_shape<CHUNKS> S;
    UNROLL
    for (int side = 0; side < 2; side++) {
        uint16_t *to = s.tile[side][kv.type[side] == DTYPE_BF16 ? tile % 2 : 1];
        if (kv_value_bytes(kv.type[side]) == 2)
            copy_rows<CHUNKS, S::PIECES>(s.row[tile % 2][side], to);
        else
            copy_rows<CHUNKS, S::PIECES / 2>(s.row[tile % 2][side], to);
    }
    copy_commit();
}

template <int CHUNKS> static __device__ void widen_tile(const struct cuda_kv &kv, struct prefill_shared<CHUNKS> &s)
{
    typedef prefill_shape<CHUNKS> S;
    UNROLL
    for (int side = 0; side < 2; side++)
        for (int i = threadIdx.x; kv.type[side] != DTYPE_BF16 && i < S::TILE * S::PIECES; i += THREADS) {
            int at = i / S::PIECES * S::WIDTH, x = i % S::PIECES * 8;
            uint4 v = load8(kv.type[side], reinterpret_cast<const uint8_t *>(s.tile[side][1] + at), x);
            *reinterpret_cast<uint4 *>(s.tile[side][0] + at + x) = v;
        }
}

// 16 rows of a warp: their softmax so far and their sums.
template <int CHUNKS> struct strip {
    struct softmax_state state;
    float o[CHUNKS * 4][4];
};

// s = q k' of a warp's strips: A from q, row-major; B from k, whose rows are columns of k'.
template <int CHUNKS, int STRIPS, int TILES>
static __device__ __forceinline__ void multiply_keys(const uint16_t *q, const uint16_t *k, float (&s)[STRIPS][TILES][4])
{
    const int lane = threadIdx.x % 32, width = prefill_shape<CHUNKS>::WIDTH;
    q += lane % 16 * width + lane / 16 * 8;
    k += (lane / 16 * 8 + lane % 8) * width + lane / 8 % 2 * 8;
    UNROLL
    for (int c = 0; c < CHUNKS * 2; c++) { // 16 values of the head at a time
        uint32_t a[STRIPS][4];
        UNROLL
        for (int m = 0; m < STRIPS; m++)
            load_matrices(a[m], q + m * 16 * width + c * 16);
        UNROLL
        for (int t = 0; t < TILES; t += 2) {
            uint32_t r[4];
            load_matrices(r, k + t * 8 * width + c * 16);
            const uint32_t b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
            UNROLL
            for (int m = 0; m < STRIPS; m++) {
                mma_bf16(s[m][t], a[m], b0);
                mma_bf16(s[m][t + 1], a[m], b1);
            }
        }
    }
}

// Scores or probabilities times a factor of their position's.
template <int TILES> static __device__ __forceinline__ void scale_columns(float (&s)[TILES][4], const float *scale)
{
    const int column = threadIdx.x % 4 * 2;
    UNROLL
    for (int i = 0; i < TILES * 4; i++)
        s[i / 4][i % 4] *= scale[i / 4 * 8 + column + i % 2];
}

// o += p v, 16 positions at a time.
template <int CHUNKS, int STRIPS, int TILES>
static __device__ __forceinline__ void multiply_values(const float (&s)[STRIPS][TILES][4], const uint16_t *v,
                                                       struct strip<CHUNKS> (&strip)[STRIPS])
{
    const int lane = threadIdx.x % 32, width = prefill_shape<CHUNKS>::WIDTH;
    v += lane % 16 * width + lane / 16 * 8;
    UNROLL
    for (int t = 0; t < TILES; t += 2) {
        uint32_t p[STRIPS][4];
        UNROLL
        for (int i = 0; i < STRIPS * 4; i++) {
            const float *pair = &s[i / 4][t + i / 2 % 2][i % 2 * 2];
            p[i / 4][i % 4] = to_bf16_pair(pair[0], pair[1]);
        }
        UNROLL
        for (int c = 0; c < CHUNKS * 2; c++) {
            uint32_t r[4];
            load_matrices_transposed(r, v + t * 8 * width + c * 16);
            const uint32_t b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
            UNROLL
            for (int m = 0; m < STRIPS; m++) {
                mma_bf16(strip[m].o[2 * c], p[m], b0);
                mma_bf16(strip[m].o[2 * c + 1], p[m], b1);
            }
        }
    }
}

// Scores to base 2, capped.
template <int TILES>
static __device__ __forceinline__ void finish_scores(const struct cuda_attn &a, float (&s)[TILES][4], const float *k_scale)
{
    const float factor = a.softcap != 0 ? a.scale : a.scale * LOG2_E;
    UNROLL
    for (int i = 0; i < TILES * 4; i++)
        s[i / 4][i % 4] *= factor;
    if (k_scale)
        scale_columns(s, k_scale);
    if (a.softcap == 0)
        return;
    UNROLL
    for (int i = 0; i < TILES * 4; i++)
        s[i / 4][i % 4] = capped(s[i / 4][i % 4], a.softcap) * LOG2_E;
}

// -infinity where a row does not see a position; position: of the strip's rows.
template <int TILES>
static __device__ __forceinline__ void mask_scores(float (&s)[TILES][4], const int *position, int window, int at)
{
    const int g = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    UNROLL
    for (int h = 0; h < 2; h++) {
        const int last = position[g + 8 * h], first = window ? last - window + 1 : 0;
        UNROLL
        for (int t = 0; t < TILES; t++)
            UNROLL
        for (int i = 2 * h; i < 2 * h + 2; i++)
            if (at + t * 8 + column + i % 2 > last || at + t * 8 + column + i % 2 < first)
                s[t][i] = -INFINITY;
    }
}

// Positions of a warp's first and last row; high < low: it has none.
struct reach {
    int low, high;
};

static __device__ __forceinline__ bool sees(const struct reach &r, int window, int at, int tile)
{
    return at <= r.high && (!window || at + tile > r.low - window + 1);
}

static __device__ __forceinline__ bool sees_in_part(const struct reach &r, int window, int at, int tile)
{
    return at + tile - 1 > r.low || (window && at <= r.high - window);
}

template <int CHUNKS, int STRIPS>
static __device__ __forceinline__ void attend_tile(const struct cuda_attn &a, const struct cuda_kv &kv, int tile,
                                                   const struct prefill_shared<CHUNKS> &shared, const struct reach &reach,
                                                   struct strip<CHUNKS> (&strip)[STRIPS])
{
    typedef prefill_shape<CHUNKS> S;
    const bool masks = sees_in_part(reach, a.window, tile * S::TILE, S::TILE);
    const int first = threadIdx.x / 32 * STRIPS * 16; // of the warp's rows
    const uint16_t *at[2];
    const float *scale[2];
    float s[STRIPS][S::TILE / 8][4] = {};
    UNROLL
    for (int side = 0; side < 2; side++) {
        at[side] = shared.tile[side][kv.type[side] == DTYPE_BF16 ? tile % 2 : 0];
        scale[side] = kv_value_bytes(kv.type[side]) == 1 ? shared.scale[tile % 4][side] : nullptr;
    }
    multiply_keys<CHUNKS>(shared.q + first * S::WIDTH, at[0], s);
    UNROLL
    for (int m = 0; m < STRIPS; m++) {
        finish_scores(a, s[m], scale[0]);
        if (masks)
            mask_scores(s[m], shared.position + first + m * 16, a.window, tile * S::TILE);
        soften(s[m], strip[m].state, strip[m].o);
        if (scale[1])
            scale_columns(s[m], scale[1]);
    }
    multiply_values<CHUNKS>(s, at[1], strip);
}

template <int CHUNKS>
static __device__ __forceinline__ void store_strip(const struct cuda_attn &a, int group, int d, int first,
                                                   const struct strip<CHUNKS> &strip)
{
    const int lane = threadIdx.x % 32, column = lane % 4 * 2;
    UNROLL
    for (int h = 0; h < 2; h++) {
        struct row_of_block r = find_row(a, group, first + lane / 4 + 8 * h);
        float sum = quad_sum(strip.state.sum[h]), inverse = sum > 0 ? 1 / sum : 0;
        if (r.token < 0)
            continue;
        uint32_t *to = reinterpret_cast<uint32_t *>(a.out + ((size_t)r.token * a.n_q_heads + r.head) * d + column);
        UNROLL
        for (int c = 0; c < CHUNKS * 4; c++)
            to[c * 4] = to_bf16_pair(strip.o[c][2 * h] * inverse, strip.o[c][2 * h + 1] * inverse);
    }
}

template <int CHUNKS>
static __global__ void __launch_bounds__(THREADS, CHUNKS > 4 ? 1 : 2) prefill_kernel(struct cuda_attn a, struct cuda_kv kv)
{
    typedef prefill_shape<CHUNKS> S;
    DYNAMIC_SHARED(struct prefill_shared<CHUNKS>, shared);
    const int seq = blockIdx.z, group = a.n_q_heads / kv.n_heads, rows = (a.seq_first[seq + 1] - a.seq_first[seq]) * group;
    const int begin = first_row(S::ROWS), end = min(begin + (int)S::ROWS, rows);
    const int warp = threadIdx.x / 32 * S::STRIPS * 16; // its first row
    if (begin >= rows)
        return;
    const struct head_kv of = {&kv, a.table + (size_t)seq * a.table_stride, (int)blockIdx.y};
    const bool widens = kv.type[0] != DTYPE_BF16 || kv.type[1] != DTYPE_BF16;
    struct strip<CHUNKS> strip[S::STRIPS];
    UNROLL
    for (int m = 0; m < S::STRIPS; m++)
        strip[m] = {{{-INFINITY, -INFINITY}, {0, 0}}, {}};
    if (threadIdx.x < S::ROWS) {
        struct row_of_block r = find_row(a, group, begin + threadIdx.x);
        shared->position[threadIdx.x] = r.token >= 0 ? a.pos[r.token] : -1;
    }
    const int lowest = a.pos[find_row(a, group, begin).token], highest = a.pos[find_row(a, group, end - 1).token];
    const int first_tile = a.window ? max(0, lowest - a.window + 1) / S::TILE : 0, last_tile = highest / S::TILE;
    copy_queries<CHUNKS>(a, group, kv.head_dim, shared->q);
    keep(*shared, first_tile, look_up<CHUNKS>(of, first_tile, highest));
    keep(*shared, first_tile + 1, look_up<CHUNKS>(of, first_tile + 1, highest));
    __syncthreads();
    copy_tile(kv, first_tile, *shared);
    struct reach reach = {0, -1};
    if (begin + warp < end)
        reach = {shared->position[warp], shared->position[min(warp + (int)S::STRIPS * 16, end - begin) - 1]};
    for (int tile = first_tile; tile <= last_tile; tile++) {
        copy_wait<0>();
        __syncthreads(); // this tile is there for all, and all are done with the one before
        if (widens) {
            widen_tile(kv, *shared);
            __syncthreads();
        }
        struct place ahead = look_up<CHUNKS>(of, tile + 2, highest);
        if (tile < last_tile)
            copy_tile(kv, tile + 1, *shared);
        if (sees(reach, a.window, tile * S::TILE, S::TILE))
            attend_tile(a, kv, tile, *shared, reach, strip);
        keep(*shared, tile + 2, ahead);
    }
    UNROLL
    for (int m = 0; m < S::STRIPS; m++)
        store_strip(a, group, kv.head_dim, begin + warp + m * 16, strip[m]);
}

template <int CHUNKS> static cudaError_t launch(const struct cuda_attn *a, cudaStream_t stream)
{
    typedef prefill_shape<CHUNKS> S;
    const int group = a->n_q_heads / a->kv->n_heads, bytes = sizeof(struct prefill_shared<CHUNKS>);
    const dim3 grid((a->max_rows * group + S::ROWS - 1) / S::ROWS, a->kv->n_heads, a->n_seqs), block(THREADS);
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
