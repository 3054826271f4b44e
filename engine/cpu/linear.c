// Linear layers. Few rows: each member streams its slice of the weights as stored, CPU_ROWS rows at a time. Many rows:
// each member widens panels of its slice to f32 and lets single-threaded BLAS multiply.
#include "engine/cpu/walk.h"

#include "engine/base/memory.h"
#include "engine/base/units.h"

#include <cblas.h>
#include <string.h>

static const float *bias_of(const struct cpu *c, const struct op *op)
{
    return op->bias >= 0 ? c->vector[op->bias] : NULL;
}

static void rows_kernel(const struct share *w, const struct op *op, int32_t row, int32_t n, int32_t first, int32_t end)
{
    const struct cpu *c = w->step->cpu;
    const struct tensor *t = &c->tensor[op->weight];
    const float *x[CPU_ROWS];
    float *y[CPU_ROWS];
    for (int32_t r = 0; r < n; r++) {
        x[r] = in_row(w->step, op, 0, row + r);
        y[r] = out_row(w->step, op, row + r);
    }
    struct linear_rows a = {.w = t, .bias = bias_of(c, op), .x = x, .y = y, .n_rows = n};
    c->kernels->linear[t->dtype](&a, first, end);
}

// More than CPU_ROWS rows take turns at one panel of weights, which stays in the cache meanwhile.
static void linear_by_rows(const struct share *w, const struct op *op, int32_t first, int32_t end)
{
    int32_t n_rows = rows_of(w->step, op), panel = n_rows > CPU_ROWS ? CPU_PANEL : end - first;
    for (int32_t o = first; o < end; o += panel)
        for (int32_t r = 0; r < n_rows; r += CPU_ROWS)
            rows_kernel(w, op, r, n_rows - r < CPU_ROWS ? n_rows - r : CPU_ROWS, o, o + panel < end ? o + panel : end);
}

// Where row 0 of the input lies when rows are adjacent, or of their gathered copy.
static const float *gemm_input(const struct step *s, const struct op *op)
{
    const struct slot *slot = &s->cpu->plan->slot[op->in[0]];
    bool gathered = op->rows == ROWS_OUT && slot->rows == ROWS_TOKENS && s->batch->n_out != s->batch->n_tokens;
    return gathered ? s->cpu->gather : in_row(s, op, 0, 0);
}

static void gemm_panel(const struct share *w, const struct op *op, const float *x, int32_t first, int32_t end)
{
    const struct cpu *c = w->step->cpu;
    const struct tensor *t = &c->tensor[op->weight];
    int32_t n_in = op->dim[0], n_out = op->dim[1], n_rows = rows_of(w->step, op);
    uint64_t row_bytes = dtype_row_bytes(t->dtype, (uint64_t)n_in);
    const float *panel = (const float *)t->data + (t->dtype == DTYPE_F32 ? (size_t)first * (size_t)n_in : 0);
    if (t->dtype != DTYPE_F32) {
        float *wide = member_scratch(w);
        for (int32_t o = first; o < end; o++)
            c->kernels->to_f32[t->dtype]((const uint8_t *)t->data + (uint64_t)o * row_bytes,
                                         wide + (size_t)(o - first) * (size_t)n_in, n_in);
        panel = wide;
    }
    float *y = out_row(w->step, op, 0) + first;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n_rows, end - first, n_in, 1, x, n_in, panel, n_in, 0, y, n_out);
    const float *bias = bias_of(c, op);
    for (int32_t r = 0; bias && r < n_rows; r++)
        c->kernels->add(y + (size_t)r * (size_t)n_out, bias + first, 1, y + (size_t)r * (size_t)n_out, end - first);
}

// Outputs first .. end-1 of one layer, all rows.
static void linear_part(const struct share *w, const struct op *op, uint16_t strategy, int32_t first, int32_t end)
{
    const float *x = strategy == CPU_STRATEGY_GEMM ? gemm_input(w->step, op) : NULL;
    if (!x)
        linear_by_rows(w, op, first, end);
    for (int32_t o = first; x && o < end; o += CPU_PANEL)
        gemm_panel(w, op, x, o, o + CPU_PANEL < end ? o + CPU_PANEL : end);
    bool plain = op->param[0] == 1 && op->param[1] == 0;
    for (int32_t r = 0; !plain && r < rows_of(w->step, op); r++)
        w->step->cpu->kernels->scale(out_row(w->step, op, r) + first, op->param[0], op->param[1], end - first);
}

// sgemm wants adjacent rows: copies the rows wanted by a ROWS_OUT operation side by side.
static void gather_input(const struct share *w, const struct span *span, const struct op *op)
{
    struct step *s = w->step;
    if (span->strategy != CPU_STRATEGY_GEMM || gemm_input(s, op) != s->cpu->gather)
        return;
    int32_t first, end, width = op->dim[0];
    share_range(w, rows_of(s, op), 1, &first, &end);
    for (int32_t r = first; r < end; r++)
        memcpy(s->cpu->gather + (size_t)r * (size_t)width, in_row(s, op, 0, r), (size_t)width * sizeof(float));
    team_barrier(s->cpu->team, w->member);
}

// One layer, or several over one input: their outputs are numbered through and cut evenly.
void walk_linear(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    int32_t total = 0, first, end;
    for (int32_t i = 0; i < span->count; i++)
        total += op[i].dim[1];
    gather_input(w, span, op);
    share_range(w, total, 16, &first, &end);
    for (int32_t i = 0, base = 0; i < span->count; base += op[i++].dim[1]) {
        int32_t from = first > base ? first - base : 0, to = end - base < op[i].dim[1] ? end - base : op[i].dim[1];
        if (from < to)
            linear_part(w, &op[i], span->strategy, from, to);
    }
}

void walk_linear_add(const struct share *w, const struct span *span)
{
    const struct cpu *c = w->step->cpu;
    const struct op *op = &c->plan->op[span->first], *add = op + 1;
    int32_t first, end;
    gather_input(w, span, op);
    share_range(w, op->dim[1], 16, &first, &end);
    if (first == end)
        return;
    linear_part(w, op, span->strategy, first, end);
    for (int32_t r = 0; r < rows_of(w->step, add); r++)
        c->kernels->add(in_row(w->step, add, 0, r) + first, in_row(w->step, add, 1, r) + first, add->param[0],
                        out_row(w->step, add, r) + first, end - first);
}

void walk_gate_up_act(const struct share *w, const struct span *span)
{
    const struct cpu *c = w->step->cpu;
    const struct op *op = &c->plan->op[span->first], *act = op + 2;
    int32_t first, end;
    gather_input(w, span, op);
    share_range(w, act->dim[0], 16, &first, &end);
    if (first == end)
        return;
    linear_part(w, op, span->strategy, first, end);
    linear_part(w, op + 1, span->strategy, first, end);
    for (int32_t r = 0; r < rows_of(w->step, act); r++)
        c->kernels->act_mul[act->dim[1]](in_row(w->step, act, 0, r) + first, in_row(w->step, act, 1, r) + first,
                                         out_row(w->step, act, r) + first, end - first);
}

uint64_t linear_scratch_floats(const struct plan *plan)
{
    int32_t widest = 0;
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == OP_LINEAR && plan->op[i].dim[0] > widest)
            widest = plan->op[i].dim[0];
    return (uint64_t)widest * CPU_PANEL;
}

static void small_gemm(void *ctx, int32_t member, int32_t n_members)
{
    (void)ctx, (void)member, (void)n_members;
    enum { N = 32 };
    float a[N * N] = {0}, b[N * N] = {0}, c[N * N] = {0};
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
}

// OpenBLAS maps one buffer for each thread that calls it, and retries for ever where there is no room for it.
bool linear_warm_up(struct team *team, struct error *e)
{
    enum { BUFFER_MIB = 129 };
    uint64_t needed = (uint64_t)team_size(team) * BUFFER_MIB << 20, available = memory_available("");
    char a[24], b[24];
    if (available < needed)
        return error_set(e, ERROR_MEMORY, "%d threads need %s for OpenBLAS, %s is available", team_size(team),
                         format_bytes(needed, a), format_bytes(available, b));
    openblas_set_num_threads(1); // the team's members call it side by side
    team_run(team, small_gemm, NULL);
    return true;
}

const char *cpu_blas_name(void)
{
    return openblas_get_config(); // version, options and the core it chose (OPENBLAS_CORETYPE)
}
