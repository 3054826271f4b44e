// From plans to the fit's terms, and from a fit to the time of a step.
#include "roofline/fit.h"

#include <stdlib.h>
#include <string.h>

static const struct op *find_op(const struct plan *plan, const struct span *span, enum op_kind kind)
{
    for (int32_t i = span->first; i < span->first + span->count; i++)
        if (plan->op[i].kind == kind)
            return &plan->op[i];
    return NULL;
}

static void types_of(const struct plan *plan, const struct span *span, char out[48])
{
    const struct op *linear = find_op(plan, span, OP_LINEAR), *attn = find_op(plan, span, OP_ATTN);
    const struct op *embed = find_op(plan, span, OP_EMBED), *kv = attn ? attn : find_op(plan, span, OP_KV_WRITE);
    const char *k = dtype_name(plan->kv_k), *v = dtype_name(plan->kv_v), *w;
    if (kv) {
        bool differ = strcmp(k, v);
        snprintf(out, 48, "%s%s%s/%s", k, differ ? ":" : "", differ ? v : "",
                 attn ? dtype_name((enum dtype)attn->compute) : "");
        return;
    }
    const struct op *op = linear ? linear : embed;
    w = op ? dtype_name((enum dtype)plan->tensor[op->weight].dtype) : "";
    snprintf(out, 48, "%s/%s", w, linear ? dtype_name((enum dtype)linear->compute) : "");
}

void fit_span_name(const struct plan *plan, const struct span *span, const char *kernel, char out[FIT_NAME])
{
    char types[48];
    types_of(plan, span, types);
    snprintf(out, FIT_NAME, "%.28s/%d/%s", kernel, span->strategy, types);
}

struct fit_work fit_span_work(const struct plan *plan, const struct batch *batch, const struct span *span,
                              const struct op_price *ops)
{
    struct fit_work w = {.rows = plan->op[span->first].rows == ROWS_OUT ? batch->n_out : batch->n_tokens};
    for (int32_t i = span->first; i < span->first + span->count; i++) {
        w.bytes_ns += ops[i].bytes_ns, w.flops_ns += ops[i].flops_ns;
        w.act_bytes += (double)ops[i].cost.act_bytes;
    }
    return w;
}

const struct fit_kernel *fit_find(const struct fit *f, const char *name)
{
    for (int32_t i = 0; i < f->n_kernels; i++)
        if (!strcmp(f->kernel[i].name, name))
            return &f->kernel[i];
    return NULL;
}

static bool add_kernel(const struct fit *f, const char *name, const struct fit_work *work, double *ns,
                       char missing[FIT_NAME])
{
    const struct fit_kernel *k = fit_find(f, name);
    if (k)
        *ns += fit_span_ns(k, work);
    else
        memcpy(missing, name, strlen(name) + 1);
    return k;
}

static bool add_spans(const struct fit *f, const struct fit_cover *cover, const struct plan *plan, const struct batch *batch,
                      const struct span *span, int32_t n, const struct op_price *ops, double *ns, char missing[FIT_NAME])
{
    bool known = true;
    for (int32_t i = 0; known && i < n; i++) {
        char name[FIT_NAME];
        struct fit_work work = fit_span_work(plan, batch, &span[i], ops);
        fit_span_name(plan, &span[i], cover->kernel_name(cover->self, span[i].kernel), name);
        known = add_kernel(f, name, &work, ns, missing);
    }
    struct fit_work around = {.rows = batch->n_tokens};
    return known && add_kernel(f, FIT_STEP, &around, ns, missing);
}

bool fit_step_ns(const struct fit *f, const struct fit_cover *cover, const struct plan *plan, const struct batch *batch,
                 const struct hardware *hw, double *ns, char missing[FIT_NAME], struct error *e)
{
    struct batch_shape shape = batch_shape_of(batch);
    struct span *span = calloc((size_t)plan->n_ops, sizeof *span);
    struct op_price *ops = calloc((size_t)plan->n_ops, sizeof *ops);
    bool ok = (span && ops) || error_set(e, ERROR_MEMORY, "no memory to predict '%s'", plan->model);
    int32_t n = ok ? cover->cover(cover->self, plan, &shape, span) : 0;
    *ns = 0;
    *missing = 0;
    ok = ok && roofline_price_ops(plan, batch, hw, span, n, ops, e);
    if (ok && !add_spans(f, cover, plan, batch, span, n, ops, ns, missing))
        *ns = 0;
    free(span);
    free(ops);
    return ok;
}
