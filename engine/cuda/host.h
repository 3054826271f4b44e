// What the host files of the CUDA backend share: the loaded backend and one step of it. Everything is C11 on the CUDA
// runtime and cuBLAS; it is linked into the plug-in alone (or, under test, against the emulator's runtime).
#ifndef ENGINE_CUDA_HOST_H
#define ENGINE_CUDA_HOST_H

#include "engine/backend.h"
#include "engine/cuda/cover.h"
#include "engine/cuda/kernels.h"

#include <cublasLt.h>
#include <cublas_v2.h>

enum { CUDA_GRAPHS = 64, CUDA_MAX_SPLITS = 64, CUDA_WORKSPACE_BYTES = 32 << 20 };

// The numbers of a step on the device, filled by one copy from pinned memory. All lie in one piece, sized for the largest
// step.
struct step_numbers {
    int32_t *token, *pos, *seq;             // [max_tokens]; seq: sequence of the row
    int32_t *seq_first, *ctx_len, *out_row; // [max_seqs + 1], [max_seqs], [max_out]
    int32_t *table;                         // [n_seqs, table_stride], room for all blocks of the pool each
};

// A decode step captured for a number of sequences, a number of splits of the context and a width of the tables.
struct cuda_graph {
    cudaGraphExec_t exec;
    int32_t n_seqs, splits, table_stride;
    uint64_t last_used;
};

// How cublasLt multiplies a shape in fp8: one algorithm for each octave of rows.
enum cuda_fp8_scales {
    CUDA_FP8_NONE, // not at all
    CUDA_FP8_BY_ROW,
    CUDA_FP8_AFTERWARDS, // cuda_finish applies them
};
struct cuda_fp8_way {
    enum cuda_fp8_scales scales;
    cublasLtMatmulAlgo_t algo;
};
struct cuda_fp8_shape {
    int32_t n_out, n_in;
    bool y_is_f32;
    struct cuda_fp8_way way[32]; // of up to 2^i rows
};

// Who multiplies few rows (choice.c).
enum cuda_choose {
    CUDA_CHOOSE_TIMED,
    CUDA_CHOOSE_FIXED, // the own kernel up to CUDA_OWN_ROWS
    CUDA_CHOOSE_OWN,   // wherever it can
    CUDA_CHOOSE_BLAS,
};
struct cuda_choice {       // of linear layers alike
    uint64_t bytes;        // of weights
    int32_t n_in, timed;   // timed: up to how many rows
    uint16_t kernel;       // enum cuda_span
    uint8_t compute, rows; // enum dtype, enum op_rows
    uint8_t own;           // bit i: at up to 2^i rows the own kernel is the faster
};
enum { CUDA_CHOICES = 32 };

struct cuda {
    struct cudaDeviceProp device;
    cudaStream_t stream;
    cublasHandle_t blas;
    cublasLtHandle_t lt; // NULL until fp8 is multiplied
    void *workspace;

    // Weights (weights.c).
    struct cuda_matrix *matrix; // [n_tensors]; data NULL: a vector
    bf16 **vector;              // [n_tensors] norm weights and biases
    void **owned;               // [2 n_tensors] allocations to free
    int32_t n_tensors, n_owned;
    uint64_t weight_bytes;

    // The plan (backend.c).
    const struct plan *plan; // NULL: none
    struct kv_config config;
    int32_t table_stride; // blocks a sequence has in this step's tables
    struct span *spans;   // [n_ops]
    uint8_t *activations;
    uint64_t *slot_offset, activation_bytes; // [n_slots]
    uint8_t *kv;
    uint64_t kv_bytes, kv_offset[PLAN_MAX_KV_GROUPS], kv_layer_bytes[PLAN_MAX_KV_GROUPS];
    struct cuda_kv kv_shape[PLAN_MAX_KV_GROUPS];
    struct step_numbers host, numbers; // pinned, and on the device
    uint64_t numbers_bytes;
    struct choice *host_asked, *asked; // pinned, and on the device: [max_out], ids [max_out] behind them (tokens.c)
    float *inv_freq[PLAN_MAX_ROPES], *cos[PLAN_MAX_ROPES], *sin[PLAN_MAX_ROPES];
    float *parts;       // decode attention: [max_seqs, H, CUDA_MAX_SPLITS, d + 2]
    bf16 *gathered;     // rows that an operation with ROWS_OUT reads, for cuBLAS
    bf16 *widened;      // a matrix that cuBLAS cannot read as it is stored
    uint8_t *quantized; // rows that cublasLt multiplies in fp8, and their scales; NULL: there are none
    float *row_scale;
    struct cuda_fp8_shape *fp8_shape; // [n_ops]
    int32_t n_fp8_shapes;
    uint64_t scratch_bytes;
    void *scratch[8 + 3 * PLAN_MAX_ROPES];
    int32_t n_scratch;

    enum cuda_choose choose;
    struct cuda_choice choice[CUDA_CHOICES];
    int32_t n_choices;

    struct cuda_graph graph[CUDA_GRAPHS];
    int32_t n_graphs;
    uint64_t steps;
    cudaEvent_t *event; // [n_ops + 1] span edges of a traced step
    int32_t n_out;      // of the last step

    // What looks at steps (instruments.c).
    struct activity *records;       // while a step is recorded
    struct cuda_counters *counters; // while counters count
    char tracing[200];              // why steps cannot be recorded, "": they can
};

// y = x w' of fp8 by cublasLt: w [n_out, n_in], x [rows, n_in] e4m3, n_out and n_in multiples of 16; y bf16 or f32. Scales
// by output and by row, or NULL both: 1.
struct cuda_fp8_product {
    const void *w, *x;
    const float *w_scale, *x_scale;
    void *y;
    int32_t n_out, n_in, rows;
    bool y_is_f32, fast; // fast: sums of fewer bits, where the chip is faster so
};

// One step as the walk sees it.
struct cuda_step {
    struct cuda *cuda;
    const struct batch *batch;
    struct batch_shape shape;
    int32_t splits;
};

// An error of the runtime or of cuBLAS as one of ours: ERROR_MEMORY for exhausted memory, else ERROR_DEVICE. what: "loading
// the weights".
bool cuda_failed(cudaError_t e, const char *what, struct error *out); // returns e == cudaSuccess
bool cuda_blas_failed(cublasStatus_t s, const char *what, struct error *out);

// backend.c: the device, its stream and cuBLAS of a zeroed structure; close accepts what open has left.
bool cuda_open_device(struct cuda *c, int32_t device, struct error *e);
void cuda_close_device(struct cuda *c);

// memory.c: allocations with the sizes in the message where they fail.
bool cuda_allocate(void **out, uint64_t bytes, const char *what, struct error *e);

// weights.c
bool cuda_take_weights(struct cuda *c, const struct plan *plan, const struct tensor *weights, struct error *e);
void cuda_drop_weights(struct cuda *c);

// blas.c: a linear layer by cuBLAS or cublasLt, in the arithmetic of the plan.
cudaError_t cuda_blas_linear(const struct cuda *c, const struct cuda_linear *a, enum dtype compute);

// choice.c: the cover, with linear layers given to whom `name` says: auto (NULL): the faster by timing; fixed, own, blas.
bool cuda_choose_by(struct cuda *c, const char *name, struct error *e);
bool cuda_choose_time(struct cuda *c, struct error *e); // what the opened plan has and was not timed yet
int32_t cuda_choose_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans);

// fp8.c: what of a plan cublasLt multiplies in fp8. Its buffers are taken first: as wide as `widest` says, 0: none.
int32_t cuda_fp8_widest(const struct cuda *c, const struct plan *plan);
bool cuda_fp8_choose_all(struct cuda *c, const struct plan *plan, struct error *e);
void cuda_fp8_free(struct cuda *c);
const struct cuda_fp8_way *cuda_fp8_find(const struct cuda *c, const struct cuda_linear *a, int32_t i); // NULL: widen
cudaError_t cuda_fp8_linear(const struct cuda *c, const struct cuda_linear *a, int32_t i, const struct cuda_fp8_way *way);
bool cuda_fp8_open(struct cuda *c, struct error *e); // cublasLt, once
cublasStatus_t cuda_fp8_choose(const struct cuda *c, const struct cuda_fp8_product *p, cublasLtMatmulAlgo_t *out);
cublasStatus_t cuda_fp8_multiply(const struct cuda *c, const struct cuda_fp8_product *p, const cublasLtMatmulAlgo_t *algo);

// numbers.c: a batch to the device.
bool cuda_numbers_init(struct cuda *c, struct error *e);
void cuda_numbers_free(struct cuda *c);
cudaError_t cuda_numbers_send(struct cuda *c, const struct batch *batch);

// tokens.c
bool cuda_tokens_init(struct cuda *c, struct error *e);
void cuda_tokens_free(struct cuda *c);
bool cuda_choose_tokens(void *self, const struct choice *choices, int32_t n, int32_t *id, struct error *e);

// kv.c
bool cuda_kv_init(struct cuda *c, const struct plan *plan, const struct kv_config *config, struct error *e);
void cuda_kv_free(struct cuda *c);
struct cuda_kv cuda_kv_layer(const struct cuda *c, int32_t group, int32_t layer);

// walk.c: enqueues one span.
cudaError_t cuda_walk_span(const struct cuda_step *s, const struct span *span);

// graph.c: a decode step of this shape as a graph; NULL: none was made yet. One is made of a shape that has run: the first
// launch of a kernel loads it and cuBLAS's first product of a shape chooses its own, neither of which a capture may hold.
cudaGraphExec_t cuda_graph_find(const struct cuda_step *s);
bool cuda_graph_add(const struct cuda_step *s, int32_t n_spans, struct error *e);
bool cuda_graph_capture(const struct cuda_step *s, int32_t n_spans, cudaGraphExec_t *out, struct error *e); // anew
cudaError_t cuda_enqueue(const struct cuda_step *s, int32_t n_spans); // its spans, one launch after another
void cuda_graphs_free(struct cuda *c);

#endif
