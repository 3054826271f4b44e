// What was found, for people: shares of the floor as a matrix, and the fit.
#include "bench/kernels_table.h"

#include "bench/table.h"

#include <math.h>
#include <string.h>

static const int32_t ROWS[] = {1, 2, 4, 8, 16, 32, 64, 512, 2048};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static bool shown(const struct kernel_row *r)
{
    return strncmp(r->model, "fit-", 4) != 0;
}

static bool same_line(const struct kernel_row *a, const struct kernel_row *b)
{
    return !strcmp(a->model, b->model) && !strcmp(a->op, b->op) && !strcmp(a->kernel, b->kernel) &&
           !strcmp(a->weights, b->weights) && !strcmp(a->kv, b->kv);
}

// Behind the last attention of a prefill one row is left: such spans stand with the decode steps' already.
static bool all_rows(const struct kernel_row *r)
{
    return !strcmp(r->phase, "decode") || r->rows > 1;
}

static bool attends(const struct kernel_row *r)
{
    return !strcmp(r->op, "attn");
}

static bool begins_line(const struct kernels *k, int32_t i, bool attention)
{
    const struct kernel_row *r = &k->row[i];
    if (!shown(r) || attends(r) != attention || !(r->floor_ns > 0))
        return false;
    for (int32_t before = 0; before < i; before++)
        if (same_line(&k->row[before], r))
            return false;
    return true;
}

static const struct kernel_row *find_rows(const struct kernels *k, const struct kernel_row *like, int32_t rows)
{
    for (int32_t i = 0; i < k->n_rows; i++)
        if (same_line(&k->row[i], like) && all_rows(&k->row[i]) && k->row[i].rows == rows)
            return &k->row[i];
    return NULL;
}

static void put_share(struct table *t, const struct kernel_row *r)
{
    if (r && isfinite(r->fraction))
        table_cell(t, "%.0f %%", 100 * r->fraction);
    else
        table_cell(t, "-");
}

static void print_linear(FILE *f, const struct kernels *k, bool markdown)
{
    struct table t = {0};
    char name[N_ROWS][16];
    table_column(&t, "model", true, false);
    table_column(&t, "weights", true, false);
    table_column(&t, "operations", true, false);
    table_column(&t, "kernel", true, false);
    for (int i = 0; i < N_ROWS; i++) {
        snprintf(name[i], sizeof name[i], "%d", ROWS[i]);
        table_column(&t, name[i], false, false);
    }
    for (int32_t i = 0; i < k->n_rows; i++) {
        const struct kernel_row *r = &k->row[i];
        if (!begins_line(k, i, false) || r->weight_bytes < 1 << 16) // norms and the like have no floor to speak of
            continue;
        table_cell(&t, "%s", r->model);
        table_cell(&t, "%s", r->weights);
        table_cell(&t, "%.40s", r->op);
        table_cell(&t, "%s", r->kernel);
        for (int c = 0; c < N_ROWS; c++)
            put_share(&t, find_rows(k, r, ROWS[c]));
    }
    fprintf(
        f, "linear layers by rows: share of the floor, which is the longer of bytes and FLOPs at the ceilings probed beside "
           "each sample\n");
    table_print(f, &t, markdown);
    table_free(&t);
}

static void print_attention(FILE *f, const struct kernels *k, bool markdown)
{
    struct table t = {0};
    static const char *const NAME[] = {"model", "KV", "phase", "batch", "context", "us", "GB/s", "GFLOP/s", "of floor"};
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++)
        table_column(&t, NAME[i], i < 3, false);
    for (int32_t i = 0; i < k->n_rows; i++) {
        const struct kernel_row *r = &k->row[i];
        if (!shown(r) || !attends(r) || !all_rows(r) || r->context < 512)
            continue;
        table_cell(&t, "%s", r->model);
        table_cell(&t, "%s", r->kv);
        table_cell(&t, "%s", r->phase);
        table_cell(&t, "%d", (int)r->batch);
        table_cell(&t, "%d", (int)r->context);
        table_cell(&t, "%.1f", r->median_ns / 1e3);
        table_cell(&t, "%.1f", r->effective_GBps);
        table_cell(&t, "%.1f", r->effective_GFLOPps);
        put_share(&t, r);
    }
    fprintf(f, "\nattention, one layer\n");
    table_print(f, &t, markdown);
    table_free(&t);
}

void kernels_print(FILE *f, const struct kernels *k, bool markdown)
{
    print_linear(f, k, markdown);
    print_attention(f, k, markdown);
}

static void put_efficiency(struct table *t, double multiple)
{
    if (multiple > 0)
        table_cell(t, "%.0f %%", 100 / multiple);
    else
        table_cell(t, "-");
}

void kernels_print_fit(FILE *f, const struct fit *fit, bool markdown)
{
    struct table t = {0};
    static const char *const NAME[] = {"kernel", "bytes",   "FLOPs",  "hidden", "ns/KiB",
                                       "ns/row", "us/span", "points", "error"};
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++)
        table_column(&t, NAME[i], !i, false);
    for (int32_t i = 0; i < fit->n_kernels; i++) {
        const struct fit_kernel *x = &fit->kernel[i];
        table_cell(&t, "%s", x->name);
        put_efficiency(&t, x->longer);
        put_efficiency(&t, x->longer * x->ratio);
        table_cell(&t, "%.0f %%", x->longer > 0 ? 100 * (1 - x->shorter / x->longer) : 0);
        table_cell(&t, "%.2f", 1024 * x->act);
        table_cell(&t, "%.1f", x->row);
        table_cell(&t, "%.2f", x->span / 1e3);
        table_cell(&t, "%d", x->n_points);
        table_cell(&t, "%.1f %%", 100 * x->error);
    }
    fprintf(
        f,
        "\nthe fit: what kernels make of the ceilings, how much of the shorter time is hidden behind the longer, what else "
        "they take;\nerror: of shapes that were left out\n");
    table_print(f, &t, markdown);
    if (fit->n_steps)
        fprintf(f, "whole steps, each predicted without its shape: %.1f %% off in the mean, bias %+.1f %% (%d steps)\n",
                100 * fit->step_error, 100 * fit->step_bias, fit->n_steps);
    table_free(&t);
}
