// What kernels really take: a small physical model of each, fitted to traced spans. It is what `pred` is made of.
//
// A span's time is    a max(B, r F) + b min(B, r F) + c A + d N + o    where
//   B, F   the times of its weights and KV, and of its arithmetic, at the attainable ceilings (roofline.h)
//   A, N   bytes of activations across its edges, and its rows
//   a, a r what bytes and FLOPs take in multiples of those times: 1 / a and 1 / (a r) are the efficiencies
//   b      how much of the shorter is not hidden behind the longer: 0 is perfect overlap, a is none, and there is no more
//   c, d   ns per byte of activations and per row; o ns per span
// All but r are found by non-negative least squares of relative errors, Huber-weighted; r by trying a grid.
#ifndef ROOFLINE_FIT_H
#define ROOFLINE_FIT_H

#include "roofline/roofline.h"

struct fit_work { // of one span
    double bytes_ns, flops_ns, act_bytes, rows;
};

struct fit_sample {
    struct fit_work work; // at the ceilings of its own moment
    double ns;            // traced
    int32_t point;        // samples of one point are left out together when the fit is checked
};

enum { FIT_NAME = 96 };
struct fit_kernel {
    char name[FIT_NAME];                           // fit_span_name
    double longer, shorter, ratio, act, row, span; // a, b, r, c, d, o
    int32_t n, n_points;                           // samples, and points they are of
    double error;                                  // mean relative error of points that were left out
};

// The fit of one kernel; name, counts and error are set too. held_out[n]: each sample's time by a fit that has not seen its
// point (cross-validation). False with ERROR_FAILED for fewer than FIT_MIN_POINTS points.
enum { FIT_MIN_POINTS = 4, FIT_FOLDS = 5 };
bool fit_solve(struct fit_kernel *k, const char *name, const struct fit_sample *sample, int32_t n, double *held_out,
               struct error *e);
double fit_span_ns(const struct fit_kernel *k, const struct fit_work *work);

// Kernel, strategy, types and arithmetic of a span: "gate+up+act/0/bf16/bf16", "attn/1/int8:bf16/bf16". What is alike in all
// of them is one kernel to the fit.
void fit_span_name(const struct plan *plan, const struct span *span, const char *kernel, char out[FIT_NAME]);
struct fit_work fit_span_work(const struct plan *plan, const struct batch *batch, const struct span *span,
                              const struct op_price *ops);

// Between two steps and around their spans: a constant and so much for each row. Fitted like a kernel of this name.
#define FIT_STEP "step"

// What a machine's kernels were fitted to. Plain data but for the list.
struct fit {
    char hardware[96];            // struct hardware's title: machine, threads, CPUs
    char isa[16];                 // kernel set
    char tool[64];                // version that measured
    char date[32];                // RFC 3339
    int32_t n;                    // samples
    int32_t n_steps;              // whole steps that were predicted from fits without their points
    double step_error, step_bias; // mean relative error of these, and mean signed
    struct fit_kernel *kernel;    // [n_kernels]
    int32_t n_kernels;
};
void fit_free(struct fit *f); // accepts zeroed
bool fit_add(struct fit *f, const struct fit_kernel *k, struct error *e);
const struct fit_kernel *fit_find(const struct fit *f, const char *name); // NULL: never fitted

// A file holds one fit. ERROR_FILE for what is none.
bool fit_load(struct fit *f, const char *path, struct error *e);
bool fit_save(const struct fit *f, const char *path, struct error *e);

// How a backend covers a plan, and what it calls its kernels.
struct fit_cover {
    int32_t (*cover)(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans);
    const char *(*kernel_name)(void *self, uint16_t kernel);
    void *self;
};

// The time of one step: its spans at these ceilings and what lies between them. *ns is 0, and `missing` names it, where a
// kernel was never fitted.
bool fit_step_ns(const struct fit *f, const struct fit_cover *cover, const struct plan *plan, const struct batch *batch,
                 const struct hardware *hw, double *ns, char missing[FIT_NAME], struct error *e);

#endif
