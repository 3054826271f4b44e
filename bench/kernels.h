// How long each kernel takes, beside its floor: whole steps of small models are traced, so that kernels run as they do in
// the engine, on weights and KV that come from memory. Two kinds of models: the shapes of real ones with few layers, to be
// looked at, and shapes of nobody's, whose samples make the fit (roofline/fit.h).
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "bench/ceilings.h"
#include "bench/measure.h"
#include "bench/progress.h"
#include "bench/results.h"
#include "roofline/fit.h"

// One row per kernel and shape. field, type, unit, description
#define KERNEL_COLUMNS(X)                                                                                                   \
    X(model, text, "", "whose shape it is; fit-*: a shape that only the fit uses")                                          \
    X(op, text, "", "operations of the span, joined by +")                                                                  \
    X(kernel, text, "", "kernel that ran them; openblas, onednn: those libraries, for comparison")                          \
    X(weights, text, "", "type of the matrices")                                                                            \
    X(kv, text, "", "type of K and V")                                                                                      \
    X(compute, text, "", "arithmetic of linear layers")                                                                     \
    X(phase, text, "", "decode or prefill")                                                                                 \
    X(batch, count, "sequences", "sequences in the step")                                                                   \
    X(context, count, "tokens", "positions that the last row attends")                                                      \
    X(rows, count, "", "rows of the span")                                                                                  \
    X(n_in, count, "", "inputs of its linear layers; 0: none")                                                              \
    X(n_out, count, "", "their outputs, together")                                                                          \
    X(count, count, "", "spans of this kind in one step")                                                                   \
    X(bytes_ns, real, "ns", "its weights and KV at the read ceiling probed beside it; median")                              \
    X(flops_ns, real, "ns", "its arithmetic at the arithmetic ceiling probed beside it; median")                            \
    X(floor_ns, real, "ns", "of one span: the longer of its bytes and its FLOPs at the ceilings probed beside it; median")  \
    X(median_ns, real, "ns", "of one span: median of the samples")                                                          \
    X(fraction, real, "", "floor over time, each floor at the ceilings probed beside its sample; median")                   \
    X(fraction_low, real, "", "10th percentile of it")                                                                      \
    X(fraction_high, real, "", "90th percentile of it")                                                                     \
    X(weight_bytes, real, "B", "weights that one span reads")                                                               \
    X(kv_bytes, real, "B", "KV that it reads and writes")                                                                   \
    X(act_bytes, real, "B", "activations across its edges")                                                                 \
    X(flops, real, "FLOP", "arithmetic it does")                                                                            \
    X(effective_GBps, real, "GB/s", "(weight_bytes + kv_bytes) / median_ns")                                                \
    X(effective_GFLOPps, real, "GFLOP/s", "flops / median_ns")                                                              \
    X(fit, text, "", "kernel of the fit that it belongs to")                                                                \
    X(pred_ns, real, "ns", "by the fit, at the ceilings probed beside it; of the fit's own shapes by a fit without them")   \
    X(n_samples, count, "", "traced samples")                                                                               \
    X(samples_ns, reals, "ns", "every sample, of one span")                                                                 \
    X(samples_read, reals, "B/s", "read ceiling probed beside each sample")                                                 \
    X(samples_flops, reals, "FLOP/s", "arithmetic ceiling probed beside each sample")

struct kernel_row {
#define X(field, type, unit, description) result_##type field;
    KERNEL_COLUMNS(X)
#undef X
};
const struct column *kernel_columns(int32_t *n);
void kernel_row_free(struct kernel_row *r);

struct kernel_shape {
    int32_t batch, n_prompt, context; // n_prompt 0: one token of each sequence attends `context` positions
};

struct kernel_job {
    char name[32];
    struct model_spec spec; // with as many layers as leave the caches nothing of one step to the next
    enum dtype weights, kv;
    const struct kernel_shape *shape; // [n_shapes]
    int32_t n_shapes;
    bool fits;           // its samples make the fit
    bool attention_only; // the rest is shown by another job
};

enum { KERNEL_MAX_JOBS = 64 };
struct kernel_jobs {
    struct kernel_job job[KERNEL_MAX_JOBS];
    int32_t n;
};

// The shapes of Qwen3-0.6B and Llama-3-8B, and those of the fit, by types of weights. which: a model's name, or "fit" alone;
// NULL: all. quick: few shapes, and of NULL the small model alone.
bool kernel_jobs_make(struct kernel_jobs *jobs, const char *which, const struct weights_list *weights,
                      const struct hardware *hw, bool quick, struct error *e);
// The fit's shapes as points, for a test that no scenario has any of them.
const struct kernel_shape *kernel_fit_shapes(int32_t *n);
int32_t kernel_fit_models(struct model_spec *spec, int32_t max); // how many

// What a fit is made of.
struct kernel_record {
    char name[FIT_NAME];
    struct fit_sample sample;
    int32_t step, count; // of which traced step it is a part, how many times
    int32_t row;         // index of its kernel_row, -1: none
    double held_out_ns;
};
struct kernel_step { // one traced step
    double wall_ns;
};

struct kernels {
    // The caller's.
    struct hardware *hw; // raised where probes beat it
    struct backend_options device;
    struct progress *progress;
    const volatile sig_atomic_t *stop;
    int32_t rounds; // samples of each shape
    double point_s; // that samples of one shape may take, three at least
    uint64_t seed;
    // What came out.
    struct kernel_row *row; // [n_rows]
    int32_t n_rows, row_capacity;
    struct kernel_record *record; // [n_records] of the fit's shapes
    int32_t n_records, record_capacity;
    struct kernel_step *step; // [n_steps] likewise
    int32_t n_steps, step_capacity, n_points;
    char isa[16];
    // While it runs.
    struct ceiling_probe probe;
    int32_t job_index;
};
bool kernels_measure(struct kernels *k, const struct kernel_jobs *jobs, struct error *e);
void kernels_free(struct kernels *k); // accepts zeroed

// OpenBLAS in f32, and oneDNN in int8 where libdnnl is installed, at the shapes of the linear layers that are shown: more
// rows, behind kernels_measure.
bool kernels_compare(struct kernels *k, struct error *e);

// Takes over the row's lists.
bool kernels_add(struct kernels *k, const struct kernel_row *row, struct error *e);
// n times of one span, with the ceilings probed beside them, into a row that says what it does.
bool kernel_row_samples(struct kernel_row *r, const double *ns, const double *read, const double *flops, int32_t n,
                        struct error *e);

// Everything but `hardware`, `isa`, `tool` and `date` of a fit; pred_ns of the rows.
bool kernels_fit(struct kernels *k, struct fit *fit, struct error *e);

#endif
