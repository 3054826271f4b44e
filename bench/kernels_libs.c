// What libraries make of the same matrix products: beside the engine's kernels, never a ceiling. OpenBLAS in f32, its one
// thread called by each member of the team; oneDNN in int8 (u8 x s8) where libdnnl is installed. Neither repacks weights
// beforehand here, and oneDNN's bf16 has no plain call.
#include "bench/kernels.h"

#include "bench/libraries.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKS = 5, LEAST_LOOKS = 3, SETTLE_NS = 10 * 1000 * 1000 };
#define COPIES_BYTES ((uint64_t)128 << 20) // copies of the weights take turns, so that they come from memory
#define LONG_S 0.5                         // from here on three looks are enough

// y [rows, out] = x [rows, in] w [in, out] or w [out, in], as the library likes it best.
struct product {
    int64_t rows, in, out;
    uint64_t element; // bytes
    void *x, *w, *y;
    int32_t n_copies, turn;
};

static void product_free(struct product *p)
{
    free(p->x);
    free(p->w);
    free(p->y);
}

static uint64_t weight_bytes(const struct product *p)
{
    return (uint64_t)p->in * (uint64_t)p->out * p->element;
}

// Ones, so that nothing is denormal and every page is there.
static bool product_make(struct product *p, struct error *e)
{
    p->n_copies = (int32_t)(COPIES_BYTES / weight_bytes(p)) + 1;
    uint64_t n_w = weight_bytes(p) / p->element * (uint64_t)p->n_copies, n_x = (uint64_t)(p->rows * p->in);
    p->x = malloc(n_x * p->element);
    p->w = malloc(n_w * p->element);
    p->y = calloc((size_t)(p->rows * p->out), sizeof(float));
    if (!p->x || !p->w || !p->y) {
        product_free(p);
        return error_set(e, ERROR_MEMORY, "no memory for a product with %llu weights", (unsigned long long)n_w);
    }
    memset(p->x, 1, n_x * p->element);
    memset(p->w, 1, n_w * p->element);
    for (uint64_t i = 0; p->element == sizeof(float) && i < n_x; i++)
        ((float *)p->x)[i] = 1;
    for (uint64_t i = 0; p->element == sizeof(float) && i < n_w; i++)
        ((float *)p->w)[i] = 1;
    return true;
}

static const void *next_weights(struct product *p)
{
    p->turn = (p->turn + 1) % p->n_copies;
    return (const uint8_t *)p->w + (uint64_t)p->turn * weight_bytes(p);
}

struct blas_call {
    const struct product *p;
    const float *w; // [out, in]
};

static void blas_part(void *ctx, int32_t member, int32_t n_members)
{
    const struct blas_call *c = ctx;
    const struct product *p = c->p;
    int64_t first = p->out * member / n_members, end = p->out * (member + 1) / n_members;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->rows, (int)(end - first), (int)p->in, 1, p->x, (int)p->in,
                c->w + first * p->in, (int)p->in, 0, (float *)p->y + first, (int)p->out);
}

// One product by the library; onednn NULL: OpenBLAS.
static bool multiply(struct product *p, struct team *team, const struct onednn *onednn)
{
    const void *w = next_weights(p);
    if (onednn)
        return onednn_u8s8(onednn, p->rows, p->out, p->in, p->x, w, p->y);
    struct blas_call call = {p, w};
    team_run(team, blas_part, &call);
    return true;
}

static void describe(struct kernel_row *r, const struct kernel_row *like, const struct product *p, bool int8)
{
    *r = (struct kernel_row){.pred_ns = NAN, .act_bytes = NAN};
    memcpy(r->model, like->model, sizeof r->model);
    memcpy(r->op, like->op, sizeof r->op);
    memcpy(r->phase, like->phase, sizeof r->phase);
    snprintf(r->kernel, sizeof r->kernel, int8 ? "onednn" : "openblas");
    snprintf(r->weights, sizeof r->weights, int8 ? "int8" : "f32");
    snprintf(r->compute, sizeof r->compute, int8 ? "int8" : "f32");
    r->batch = like->batch, r->context = like->context, r->rows = like->rows, r->count = 1;
    r->n_in = like->n_in, r->n_out = like->n_out;
    r->weight_bytes = (double)weight_bytes(p);
    r->flops = 2.0 * (double)p->rows * (double)p->in * (double)p->out;
}

static bool take_looks(struct kernels *k, struct kernel_row *r, struct product *p, const struct onednn *onednn,
                       struct error *e)
{
    double ns[LOOKS], read[LOOKS], flops[LOOKS];
    int32_t n = 0;
    bool ok = multiply(p, k->probe.team, onednn);
    for (; ok && n < (n && ns[0] > LONG_S * 1e9 ? LEAST_LOOKS : LOOKS); n++) {
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL); // the library's threads spin for a while, too
        read[n] = ceiling_probe_read(&k->probe, COPIES_BYTES * 4);
        flops[n] = ceiling_probe_flops(&k->probe, onednn ? DTYPE_INT8 : DTYPE_F32);
        int64_t begin = clock_ns();
        ok = multiply(p, k->probe.team, onednn);
        ns[n] = (double)(clock_ns() - begin);
    }
    return !ok || kernel_row_samples(r, ns, read, flops, n, e);
}

static bool compare_row(struct kernels *k, const struct kernel_row *like, const struct onednn *onednn, struct error *e)
{
    struct product p = {.rows = like->rows, .in = like->n_in, .out = like->n_out, .element = onednn ? 1 : sizeof(float)};
    struct kernel_row row;
    if (k->stop && *k->stop)
        return error_set(e, ERROR_INTERRUPTED, "interrupted");
    if (!product_make(&p, e))
        return false;
    describe(&row, like, &p, onednn);
    bool ok = take_looks(k, &row, &p, onednn, e);
    product_free(&p);
    if (ok && row.n_samples)
        return kernels_add(k, &row, e);
    kernel_row_free(&row);
    return ok;
}

// One row for each shape: the types of the engine's own do not matter.
static bool is_first(const struct kernels *k, int32_t i)
{
    const struct kernel_row *r = &k->row[i];
    if (!(r->n_in > 0) || !strncmp(r->model, "fit-", 4) || (!strcmp(r->phase, "prefill") && r->rows == 1))
        return false;
    for (int32_t before = 0; before < i; before++) {
        const struct kernel_row *b = &k->row[before];
        if (!strcmp(b->model, r->model) && !strcmp(b->op, r->op) && b->rows == r->rows)
            return false;
    }
    return true;
}

bool kernels_compare(struct kernels *k, struct error *e)
{
    struct onednn onednn;
    bool has_onednn = onednn_open(&onednn), ok = true;
    openblas_set_num_threads(1);
    if (has_onednn)
        onednn_threads(&onednn, team_size(k->probe.team));
    progress_note(k->progress, "OpenBLAS%s at the same shapes", has_onednn ? " and oneDNN" : "");
    for (int32_t i = 0, n = k->n_rows; ok && i < n; i++) {
        if (!is_first(k, i))
            continue;
        struct kernel_row like = k->row[i]; // rows move as they are added
        ok = compare_row(k, &like, NULL, e) && (!has_onednn || compare_row(k, &like, &onednn, e));
    }
    return ok;
}
