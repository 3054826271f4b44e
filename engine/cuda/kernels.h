// Launchers of the CUDA kernels: C on this side, one .cu file each on the other. Every pointer below is to device memory
// unless it says host; everything is enqueued on `stream`, nothing waits, nothing allocates, all of it can be captured in a
// graph. A launcher returns the launch's error; cudaErrorInvalidValue: a shape it does not take (the cover asked amiss).
//
// Activations are bf16, sums f32, logits f32. Letters as in engine/op.h: T rows, O output rows, H query heads, K KV heads,
// d head_dim. `row` arguments are NULL or say which row of the input is row i of the output (batch->out_row).
#ifndef ENGINE_CUDA_KERNELS_H
#define ENGINE_CUDA_KERNELS_H

#include "engine/base/dtype.h"
#include "engine/token_source.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t bf16; // bits

// A matrix as the kernels read it: values of one row are adjacent, scales lie apart, so that both load 16 bytes at a time.
//   bf16, f16      data [n_out, n_in]
//   fp8  (e4m3)    data [n_out, n_in] bytes, scale [n_out] f32
//   int8           data [n_out, n_in] bytes, scale [n_out] f16
//   q8_0           data [n_out, n_in] bytes, scale [n_out, n_in / 32] f16
//   int4, q4_0     data [n_out, n_in / 2] bytes: of 32 values the 16 bytes of a block as the file has them, value = (nibble
//   - 8) * scale;
//                  scale [n_out, n_in / 32] f16
struct cuda_matrix {
    const void *data, *scale;
    int32_t type; // enum dtype
    int32_t n_out, n_in;
};

// y = x w' + bias, times factor, then soft-capped at `softcap` (0: not). Up to three matrices over one input.
struct cuda_linear {
    struct cuda_matrix w[3];
    const bf16 *bias[3]; // [n_out] or NULL
    void *y[3];          // [rows, n_out] bf16, or f32 where y_is_f32
    int32_t n;           // matrices
    const bf16 *x;       // [rows, n_in]
    const int32_t *row;  // which row of x
    int32_t rows;
    bool y_is_f32;
    float factor, softcap;
    int32_t act; // enum act_kind + 1: act_out = act(x w[0]') * (x w[1]'), y[0] and y[1] are scratch; 0: none
    bf16 *act_out;
    const float *row_scale[3]; // cuda_finish: y[i] still lacks row_scale[i][row] * w[i].scale[output]; NULL: it does not
};
enum { CUDA_LINEAR_MAX_ROWS = 64 };
cudaError_t cuda_linear(const struct cuda_linear *a, cudaStream_t stream); // rows 1..CUDA_LINEAR_MAX_ROWS; n_in % 32 == 0

// For large numbers of rows cuBLAS multiplies bf16, or fp8 with fp8; these give it what it wants and finish what it leaves.
cudaError_t cuda_widen(const struct cuda_matrix *w, int32_t first, int32_t count, bf16 *out,
                       cudaStream_t stream); // rows of w
cudaError_t cuda_finish(const struct cuda_linear *a,
                        cudaStream_t stream); // scales, bias, factor, softcap on y, and the activation
// y = e4m3 of x / scale, scale[r] = the largest of |x[r]| / 448 (1 where all are 0), so that a row knows nothing of others.
// width % 8 == 0.
cudaError_t cuda_quantize(const bf16 *x, const int32_t *row, int32_t rows, int32_t width, uint8_t *y, float *scale,
                          cudaStream_t stream);
cudaError_t cuda_gather(const bf16 *x, const int32_t *row, int32_t rows, int32_t width, bf16 *y, cudaStream_t stream);

// y[T, width] = table[token[t]] * factor
cudaError_t cuda_embed(const struct cuda_matrix *table, const int32_t *token, int32_t rows, float factor, bf16 *y,
                       cudaStream_t stream);

// sum = a + factor * b (skipped where b is NULL: sum = a, and sum_out may be NULL); y = RMSNorm(sum) * weight (skipped where
// weight is NULL). Norm over each of n_groups groups of `size` values of a row.
struct cuda_add_norm {
    const bf16 *a, *b, *weight; // [., n_groups * size] twice, [size]
    const int32_t *row_a, *row_b;
    bf16 *sum_out, *y;
    int32_t rows, n_groups, size;
    float factor, eps;
};
cudaError_t cuda_add_norm(const struct cuda_add_norm *a, cudaStream_t stream);

// act(gate) * up
cudaError_t cuda_act(const bf16 *gate, const bf16 *up, int32_t rows, int32_t width, int32_t act, bf16 *y,
                     cudaStream_t stream);

// One layer's KV: [block][K|V][head][token][d]; int8: behind the values of a (block, side, head) run its f16 scales [token];
// fp8 (e4m3): one f32 scale per side for all.
struct cuda_kv {
    uint8_t *base;
    uint64_t block_bytes, head_bytes[2]; // of K and V of all heads; of one head on one side
    int32_t type[2];                     // enum dtype: bf16, f16, fp8, int8
    float scale[2];                      // fp8
    int32_t n_heads, head_dim, block_size;
};

// QK-norm (weights NULL: none), rotary embedding (cos NULL: none) and the write of K and V under the rows' positions.
struct cuda_rope_kv {
    const bf16 *q, *k, *v;           // [T, H d], [T, K d], [T, K d]
    bf16 *q_out;                     // [T, H d]; NULL: q is left alone
    bf16 *k_out;                     // [T, K d]; NULL: the turned k goes to the cache alone
    const bf16 *q_weight, *k_weight; // [d]
    float eps;
    const float *cos, *sin; // [T, rotary_dim / 2], made once a step by cuda_turns
    int32_t rotary_dim, n_q_heads, n_kv_heads, head_dim, rows;
    const int32_t *pos, *seq, *table; // [T] position, [T] sequence of each row, [n_seqs, table_stride]
    int32_t table_stride;
    const struct cuda_kv *kv; // host; NULL: nothing is written
};
cudaError_t cuda_rope_kv(const struct cuda_rope_kv *a, cudaStream_t stream);

// inv_freq [2, rotary_dim / 2]: the second for sequences whose ctx_len exceeds `long_from` (0: never).
cudaError_t cuda_turns(const float *inv_freq, int32_t rotary_dim, int32_t long_from, float magnitude, const int32_t *pos,
                       const int32_t *seq, const int32_t *ctx_len, int32_t rows, float *cos, float *sin,
                       cudaStream_t stream);

// Attention of rows over the paged KV of their sequences, causal, within `window` positions where it is not 0.
struct cuda_attn {
    const bf16 *q;                    // [T, H d]
    bf16 *out;                        // [O or T, H d]
    const int32_t *row;               // which rows of q, NULL: all
    const struct cuda_kv *kv;         // host
    const int32_t *pos, *seq, *table; // [T], [T], [n_seqs, table_stride]
    const int32_t *seq_first;         // [n_seqs + 1] first row of each sequence (prefill)
    int32_t table_stride, rows, n_seqs, n_q_heads, window;
    int32_t max_ctx, max_rows; // of the longest sequence: sizes the grid; rows beyond a sequence's own leave at once
    float scale, softcap;
    float *parts;   // decode: [rows, H, splits, d + 2] f32
    int32_t splits; // decode: cuda_attn_splits()
};
int32_t cuda_attn_splits(int32_t rows, int32_t n_kv_heads, int32_t max_ctx, int32_t n_sms); // host arithmetic
cudaError_t cuda_attn_decode(const struct cuda_attn *a, cudaStream_t stream);               // one row per sequence
cudaError_t cuda_attn_prefill(const struct cuda_attn *a, cudaStream_t stream);              // tiles of rows, tensor cores

// id[i] = index of the largest of row choice[i].out_row of x [., width] (the first of equals).
enum { CUDA_ARGMAX_PARTS = 64 };
cudaError_t cuda_argmax(const float *x, int32_t width, const struct choice *choice, int32_t n, int32_t *id,
                        void *scratch, // [n, CUDA_ARGMAX_PARTS] pairs of 4 bytes
                        cudaStream_t stream);

// id[i] drawn by choice[i], the rules those of engine/sampler.c; id holds what cuda_argmax said, which stays where the
// temperature is 0. width < 2^24; the choices' ranges are the caller's to check.
cudaError_t cuda_sample(const float *x, int32_t width, const struct choice *choice, int32_t n, int32_t *id,
                        cudaStream_t stream);

// Values that engine/load/random.c would give rows first .. of tensor (stream, cols): bf16 only.
cudaError_t cuda_random_bf16(uint64_t stream_seed, int32_t cols, int32_t first, int32_t count, bf16 *out,
                             cudaStream_t stream);

// Blocks of KV: copies (copy-on-write) within a layer, and seeded values of unit variance as kv fill gives them.
cudaError_t cuda_kv_copy(const struct cuda_kv *kv, int32_t from, int32_t to, cudaStream_t stream);
cudaError_t cuda_kv_fill(const struct cuda_kv *kv, int32_t block, uint64_t seed, cudaStream_t stream);

// Ceilings: reads `bytes` once (write-free), copies, and empty launches. n_blocks: of the grid.
cudaError_t cuda_probe_read(const void *p, uint64_t bytes, int32_t n_blocks, float *sink, cudaStream_t stream);
cudaError_t cuda_probe_nothing(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
