// From traced spans to a fit, and what the fit would have said of each of them without having seen its shape.
#include "bench/kernels.h"

#include "engine/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const struct kernel_record *x = *(const struct kernel_record *const *)a, *y = *(const struct kernel_record *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static int32_t run_length(struct kernel_record *const *record, int32_t n)
{
    int32_t i = 1;
    while (i < n && !strcmp(record[i]->name, record[0]->name))
        i++;
    return i;
}

// One kernel: its records are record[n]. Too few points are no fit, and no failure.
static bool fit_one(struct fit *fit, struct kernel_record *const *record, int32_t n, struct error *e)
{
    struct fit_kernel k;
    struct fit_sample *sample = malloc((size_t)n * sizeof *sample);
    double *held_out = calloc((size_t)n, sizeof *held_out);
    bool ok = (sample && held_out) || error_set(e, ERROR_MEMORY, "no memory to fit %d samples", n);
    for (int32_t i = 0; ok && i < n; i++)
        sample[i] = record[i]->sample;
    if (ok && fit_solve(&k, record[0]->name, sample, n, held_out, e))
        ok = fit_add(fit, &k, e);
    else if (ok && (ok = e->kind == ERROR_FAILED))
        *e = (struct error){0};
    for (int32_t i = 0; ok && i < n; i++)
        record[i]->held_out_ns = held_out[i];
    free(sample);
    free(held_out);
    return ok;
}

static bool fit_all(const struct kernels *k, struct fit *fit, struct error *e)
{
    struct kernel_record **record = malloc(((size_t)k->n_records + 1) * sizeof *record);
    bool ok = record || error_set(e, ERROR_MEMORY, "no memory to fit %d samples", k->n_records);
    for (int32_t i = 0; ok && i < k->n_records; i++)
        record[i] = &k->record[i];
    if (ok)
        qsort(record, (size_t)k->n_records, sizeof *record, by_name);
    for (int32_t i = 0, n; ok && i < k->n_records; i += n) {
        n = run_length(record + i, k->n_records - i);
        ok = fit_one(fit, record + i, n, e);
    }
    free(record);
    return ok;
}

// Whole steps as the sum of what their spans were held out as.
static bool judge_steps(const struct kernels *k, struct fit *fit, struct error *e)
{
    double *predicted = calloc((size_t)k->n_steps + 1, sizeof *predicted), error = 0, bias = 0;
    if (!predicted)
        return error_set(e, ERROR_MEMORY, "no memory for %d steps", k->n_steps);
    for (int32_t i = 0; i < k->n_records; i++) {
        const struct kernel_record *r = &k->record[i];
        predicted[r->step] += r->held_out_ns > 0 ? r->held_out_ns * r->count : NAN; // a kernel without a fit
    }
    for (int32_t i = 0; i < k->n_steps; i++) {
        double off = predicted[i] / k->step[i].wall_ns - 1;
        if (!isfinite(off))
            continue;
        error += fabs(off), bias += off;
        fit->n_steps++;
    }
    if (fit->n_steps)
        fit->step_error = error / fit->n_steps, fit->step_bias = bias / fit->n_steps;
    free(predicted);
    return true;
}

// Of the fit's own shapes what a fit without them says, median over samples; of the others what the fit says.
static void predict_rows(struct kernels *k, const struct fit *fit)
{
    double held_out[64];
    for (int32_t i = 0, n = 0; i < k->n_records; i++) {
        const struct kernel_record *r = &k->record[i];
        if (r->row < 0)
            continue;
        n = 0;
        for (int32_t other = i; other < k->n_records && n < 64 && k->record[other].sample.point == r->sample.point; other++)
            if (k->record[other].row == r->row)
                held_out[n++] = k->record[other].held_out_ns;
        if (!(k->row[r->row].pred_ns > 0))
            k->row[r->row].pred_ns = stats_median(held_out, n);
    }
    for (int32_t i = 0; i < k->n_rows; i++) {
        struct kernel_row *r = &k->row[i];
        const struct fit_kernel *f = fit_find(fit, r->fit);
        if (f && !(r->pred_ns > 0))
            r->pred_ns = fit_span_ns(f, &(struct fit_work){.bytes_ns = r->bytes_ns,
                                                           .flops_ns = r->flops_ns,
                                                           .act_bytes = r->act_bytes,
                                                           .rows = (double)r->rows});
    }
}

bool kernels_fit(struct kernels *k, struct fit *fit, struct error *e)
{
    *fit = (struct fit){.n = k->n_records};
    if (!fit_all(k, fit, e) || !judge_steps(k, fit, e)) {
        fit_free(fit);
        return false;
    }
    predict_rows(k, fit);
    return true;
}
