// Matrix products as libraries and the engine's own kernels do them, to stand beside the ceilings.
#include "bench/survey.h"

#include "bench/libraries.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "engine/engine.h"
#include "engine/load/model.h"
#include "roofline/cost.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512, IN = 1024, OUT = 3072, GEMM_LOOKS = 5, MAX_SPANS = 256 };
static const double FLOPS = 2.0 * ROWS * IN * OUT;

// y = x w, all row-major; small values, so that no sum overflows.
struct product {
    void *x, *w, *y;
};

static void product_free(struct product *p)
{
    free(p->x);
    free(p->w);
    free(p->y);
}

static bool product_make(struct product *p, size_t element, struct error *e)
{
    *p = (struct product){calloc(ROWS * IN, element), calloc(IN * OUT, element), calloc(ROWS * OUT, sizeof(float))};
    if (p->x && p->w && p->y)
        return true;
    product_free(p);
    return error_set(e, ERROR_MEMORY, "no memory for a matrix product");
}

static void blas_part(void *ctx, int32_t member, int32_t n_members)
{
    const struct product *p = ctx;
    int first = ROWS * member / n_members, end = ROWS * (member + 1) / n_members;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, end - first, OUT, IN, 1, (const float *)p->x + first * IN, IN,
                p->w, OUT, 0, (float *)p->y + first * OUT, OUT);
}

static bool look_at_blas(struct survey *s, struct team *team, struct error *e)
{
    struct product p;
    struct survey_series *series = survey_next(s, "gemm", "f32", "OpenBLAS", "FLOP/s", team_size(team));
    if (!series)
        return survey_no_memory(e);
    if (!product_make(&p, sizeof(float), e))
        return false;
    openblas_set_num_threads(1); // the team's members share the rows
    team_run(team, blas_part, &p);
    for (int32_t i = 0; i < GEMM_LOOKS; i++) {
        int64_t begin = clock_ns();
        team_run(team, blas_part, &p);
        survey_add(series, FLOPS * 1e9 / (double)(clock_ns() - begin));
    }
    product_free(&p);
    return true;
}

static bool onednn_run(const struct onednn *d, const struct product *p, bool int8)
{
    return int8 ? onednn_u8s8(d, ROWS, OUT, IN, p->x, p->w, p->y) : onednn_f32(d, ROWS, OUT, IN, p->x, p->w, p->y);
}

static bool look_at_onednn_as(struct survey *s, const struct onednn *d, bool int8, int32_t threads, struct error *e)
{
    struct product p;
    struct survey_series *series = survey_next(s, "gemm", int8 ? "int8" : "f32", "oneDNN", "FLOP/s", threads);
    if (!series)
        return survey_no_memory(e);
    if (!product_make(&p, int8 ? 1 : sizeof(float), e))
        return false;
    bool ok = onednn_run(d, &p, int8);
    for (int32_t i = 0; ok && i < GEMM_LOOKS; i++) {
        int64_t begin = clock_ns();
        ok = onednn_run(d, &p, int8);
        survey_add(series, FLOPS * 1e9 / (double)(clock_ns() - begin));
    }
    if (!ok)
        snprintf(series->row.note, sizeof series->row.note, "oneDNN refused");
    product_free(&p);
    return true;
}

static bool look_at_onednn(struct survey *s, struct team *team, struct error *e)
{
    struct onednn d;
    if (!onednn_open(&d))
        return survey_skip(s, "gemm", "", "oneDNN", "libdnnl is not installed", e);
    onednn_threads(&d, team_size(team));
    return look_at_onednn_as(s, &d, false, team_size(team), e) && look_at_onednn_as(s, &d, true, team_size(team), e);
}

// One layer of a model of middling width, so that the engine's own kernels do what they do in a prefill.
static const struct model_spec LAYER = {.name = "one layer",
                                        .family = "llama",
                                        .num_hidden_layers = 2, // the last one's rows are few
                                        .hidden_size = IN,
                                        .intermediate_size = OUT,
                                        .vocab_size = 256,
                                        .num_attention_heads = 16,
                                        .num_key_value_heads = 8,
                                        .head_dim = 64,
                                        .max_position_embeddings = ROWS,
                                        .rms_norm_eps = 1e-6f,
                                        .dtype = DTYPE_F32,
                                        .rope = {.rotary_dim = 64, .theta = 10000},
                                        .bos_token_id = -1};

struct layer {
    struct model model;
    struct plan plan;
    struct weights weights;
    struct backend backend;
    struct engine engine;
    struct cost_walk walk;
    struct batch batch;
    bool has_plan;
};

static void layer_close(struct layer *l)
{
    engine_close(&l->engine);
    backend_close(&l->backend);
    weights_free(&l->weights);
    cost_walk_free(&l->walk);
    batch_free(&l->batch);
    if (l->has_plan)
        plan_free(&l->plan);
    model_close(&l->model);
}

static bool layer_open(struct layer *l, enum dtype type, int32_t threads, const char *cpu_list, struct error *e)
{
    struct plan_options options = plan_options_default(type);
    struct backend_options device = {.threads = threads, .cpu_list = cpu_list};
    struct kv_config kv = {.n_blocks = 1, .block_size = ROWS, .max_tokens = ROWS, .max_seqs = 1, .max_out = 1};
    options.compute = options.act = options.kv_k = options.kv_v = DTYPE_F32;
    options.compute_of = cpu_compute_of;
    *l = (struct layer){0};
    model_open_random(&l->model, &LAYER);
    l->has_plan = plan_make(&l->plan, &l->model.spec, &options, e);
    return l->has_plan && weights_open(&l->weights, &l->model, &l->plan, 1, e) &&
           backend_open(&l->backend, "cpu", &device, e) &&
           l->backend.load(l->backend.self, &l->plan, l->weights.tensor, e) &&
           engine_open(&l->engine, &l->plan, &l->backend, &kv, e) && cost_walk_init(&l->walk, &l->plan, e) &&
           batch_make_uniform(&l->batch, 1, ROWS, ROWS, ROWS, e);
}

static bool layer_step(struct layer *l, struct trace *trace, struct error *e)
{
    static int32_t token[ROWS];
    struct session session = {0};
    struct step step = {.session = &session, .token = token, .n_tokens = ROWS, .out = STEP_OUT_LAST};
    bool ok = engine_step(&l->engine, &step, 1, trace, e);
    session_free(&l->engine, &session);
    return ok;
}

// FLOP/s of the spans that multiply all rows by matrices.
static double layer_rate(struct layer *l, const struct trace *trace)
{
    double flops = 0, ns = 0;
    struct cost cost;
    cost_walk_begin(&l->walk, &l->batch, NULL, 0, NULL);
    for (int32_t i = 0, row = 0; cost_walk_next(&l->walk, &cost); i++) {
        const struct op *op = &l->plan.op[i];
        while (row < trace->n - 1 && trace->row[row + 1].span.first <= i)
            row++;
        const struct trace_row *t = &trace->row[row];
        if (op->kind != OP_LINEAR || op->rows != ROWS_TOKENS)
            continue;
        flops += (double)cost_flops(&cost);
        bool first = true; // of its span
        for (int32_t k = t->span.first; k < i; k++)
            first &= l->plan.op[k].kind != OP_LINEAR;
        ns += first ? (double)(t->end_ns - t->begin_ns) : 0;
    }
    return ns > 0 ? flops * 1e9 / ns : 0;
}

static bool look_at_layer(struct survey *s, struct layer *l, enum dtype type, int32_t threads, struct error *e)
{
    struct trace_row rows[MAX_SPANS];
    char how[64];
    enum dtype compute = cpu_compute_of(type);
    snprintf(how, sizeof how, "kvbench %s, %s weights", cpu_isa_selected(&l->backend), dtype_name(type));
    struct survey_series *series = survey_next(s, "gemm", dtype_name(compute), how, "FLOP/s", threads);
    if (!series)
        return survey_no_memory(e);
    for (int32_t i = 0; i <= GEMM_LOOKS; i++) { // the first one untimed
        struct trace trace = {.row = rows, .capacity = MAX_SPANS};
        if (!layer_step(l, &trace, e))
            return false;
        if (i)
            survey_add(series, layer_rate(l, &trace));
    }
    return true;
}

// What the kernels that run here multiply.
static bool multiplies(enum dtype type, const char *cpu_list)
{
    struct backend backend;
    struct backend_options device = {.threads = 1, .cpu_list = cpu_list};
    bool ok = backend_open(&backend, "cpu", &device, NULL);
    ok = ok && cpu_can_multiply(&backend, type);
    backend_close(&backend);
    return ok;
}

static bool look_at_engine(struct survey *s, struct team *team, const struct survey_options *options, struct error *e)
{
    static const enum dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8, DTYPE_Q8_0, DTYPE_Q4_0};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof TYPES / sizeof *TYPES; i++) {
        struct layer l;
        if (!multiplies(TYPES[i], options->cpu_list))
            continue;
        ok = layer_open(&l, TYPES[i], team_size(team), options->cpu_list, e) &&
             look_at_layer(s, &l, TYPES[i], team_size(team), e);
        layer_close(&l);
    }
    return ok;
}

bool survey_gemm(struct survey *s, struct team *team, const struct survey_options *options, struct error *e)
{
    return look_at_engine(s, team, options, e) && look_at_blas(s, team, e) && look_at_onednn(s, team, e);
}
