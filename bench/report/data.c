// From rows to points: times per step, what belongs together in one picture, and what a point says when it is pointed at.
#include "bench/report/report.h"

#include "bench/html.h"
#include "bench/rows.h"
#include "engine/base/dtype.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool report_is(const struct report_point *p, const char *phase)
{
    return !strcmp(p->stored->result.phase, phase);
}

double report_of_roof(const struct result *r)
{
    return isfinite(r->roof_fraction) ? r->roof_fraction : r->roof_ns / r->median_ns;
}

static int64_t count_or(int64_t v, int64_t fallback)
{
    return v == RESULT_UNKNOWN ? fallback : v;
}

// A sample of a decode point may hold several steps; prefill and generate are one.
static double steps_of(const struct result *r)
{
    return !strcmp(r->phase, "decode") && count_or(r->n_gen, 1) > 1 ? (double)r->n_gen : 1;
}

// Types from wide to narrow, then what is no type of ours.
static int width_rank(const char *kv)
{
    static const char *const ORDER[] = {"f32", "bf16", "f16", "fp8", "int8"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(kv, ORDER[i]))
            return i;
    return 5;
}

static void add(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *out, size_t size, const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, size - n, format, args);
    va_end(args);
}

static void add_time(struct report_point *p)
{
    const struct result *r = &p->stored->result;
    char a[32], b[32], c[32];
    add(p->tip, sizeof p->tip, "\n%s ms", html_number(p->ms, a));
    if (isfinite(p->low) && isfinite(p->high))
        add(p->tip, sizeof p->tip, " (%s to %s)", html_number(p->low, b), html_number(p->high, c));
    if (isfinite(r->tokens_per_s))
        add(p->tip, sizeof p->tip, ", %s tokens/s", html_number(r->tokens_per_s, a));
    if (isfinite(report_of_roof(r)))
        add(p->tip, sizeof p->tip, "\n%.0f %% of roof", 100 * report_of_roof(r));
}

static void make_tip(struct report_point *p)
{
    const struct result *r = &p->stored->result;
    char shape[64], number[32];
    row_shape(r, shape);
    snprintf(p->tip, sizeof p->tip, "%.20s, batch %d, %s%s%s", r->phase, (int)p->batch, shape, *p->kv ? ", KV " : "", p->kv);
    if (isfinite(p->ms))
        add_time(p);
    const struct {
        const char *name;
        double ms;
    } time[] = {{"roof", p->roof}, {"prediction", p->pred}, {"bound", p->bound}};
    for (int i = 0; i < 3; i++)
        if (isfinite(time[i].ms))
            add(p->tip, sizeof p->tip, "\n%s %s ms", time[i].name, html_number(time[i].ms, number));
    if (*r->verdict)
        add(p->tip, sizeof p->tip, "\n%.80s", *r->codes ? r->codes : r->verdict);
}

static double tokens_per_step(const struct result *r)
{
    double batch = (double)count_or(r->batch, 1);
    if (!strcmp(r->phase, "decode"))
        return batch;
    double prompt = (double)count_or(r->n_prompt, 0), generated = (double)count_or(r->n_gen, 0);
    return batch * (generated > 0 ? generated : prompt);
}

static void make_point(struct report_point *p, const struct stored *stored, int32_t id)
{
    const struct result *r = &stored->result;
    double steps = steps_of(r), ns_per_ms = 1e6 * steps;
    bool decode = !strcmp(r->phase, "decode");
    *p = (struct report_point){.stored = stored, .id = id, .batch = count_or(r->batch, 1), .tokens = tokens_per_step(r)};
    p->length = count_or(decode ? r->context : r->n_prompt, 0);
    row_kv(r, p->kv);
    p->hollow = *r->verdict && strcmp(r->verdict, "ok") && strcmp(r->verdict, "predicted") && strcmp(r->verdict, "reported");
    p->ms = r->median_ns / ns_per_ms;
    p->low = r->median_low_ns / ns_per_ms;
    p->high = r->median_high_ns / ns_per_ms;
    p->roof = r->roof_ns / ns_per_ms;
    p->bound = r->bound_ns / ns_per_ms;
    p->pred = r->pred_ns / ns_per_ms;
    make_tip(p);
}

// Slices.

static bool same_slice(const struct result *a, const struct result *b)
{
    return a->threads == b->threads && a->tp == b->tp && a->block == b->block && !strcmp(a->model, b->model) &&
           !strcmp(a->hardware, b->hardware) && !strcmp(a->weights, b->weights) && !strcmp(a->compute, b->compute) &&
           !strcmp(a->backend, b->backend);
}

static void name_slice(struct report_slice *s)
{
    const struct result *r = s->first;
    snprintf(s->name, sizeof s->name, "%.80s", r->model);
    if (*r->weights)
        add(s->name, sizeof s->name, ", weights %.16s", r->weights);
    if (*r->compute && strcmp(r->compute, r->weights))
        add(s->name, sizeof s->name, " computed in %.16s", r->compute);
    if (*r->hardware)
        add(s->name, sizeof s->name, ", %.60s", r->hardware);
    if (*r->backend && strcmp(r->backend, "cpu"))
        add(s->name, sizeof s->name, ", backend %.16s", r->backend);
    if (count_or(r->threads, 0) > 0)
        add(s->name, sizeof s->name, ", %d thread%s", (int)r->threads, r->threads == 1 ? "" : "s");
    if (count_or(r->tp, 1) > 1)
        add(s->name, sizeof s->name, ", %d ranks", (int)r->tp);
    if (r->block != RESULT_UNKNOWN)
        add(s->name, sizeof s->name, r->block ? ", KV in blocks of %d" : ", KV contiguous", (int)r->block);
}

static void assign_slices(struct report_result *r)
{
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct result *row = &r->recorded.row[i].result;
        int32_t s = 0;
        while (s < r->n_slices && !same_slice(r->slice[s].first, row))
            s++;
        if (s == r->n_slices)
            r->slice[r->n_slices++] = (struct report_slice){.first = row};
        r->slice[s].n_points++;
        r->point[i].slice = s;
    }
    for (int32_t s = 0; s < r->n_slices; s++)
        name_slice(&r->slice[s]);
}

// Most threads, then most points, then the order of the file.
static bool before(const struct report_slice *a, const struct report_slice *b)
{
    if (a->first->threads != b->first->threads)
        return a->first->threads > b->first->threads;
    return a->n_points != b->n_points ? a->n_points > b->n_points : a->first < b->first;
}

static int compare_slices(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

static void order_slices(struct report_result *r)
{
    qsort(r->slice, (size_t)r->n_slices, sizeof *r->slice, compare_slices);
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        for (int32_t s = 0; s < r->n_slices; s++)
            if (same_slice(r->slice[s].first, &r->recorded.row[i].result))
                r->point[i].slice = s;
}

static bool same_place(const struct report_point *a, const struct report_point *b)
{
    return a->slice == b->slice && a->batch == b->batch && a->length == b->length && !strcmp(a->kv, b->kv) &&
           !strcmp(a->stored->result.phase, b->stored->result.phase);
}

// Other numbers of steps and other depths stand in the tables only.
static void choose_shown(struct report_result *r)
{
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        struct report_point *p = &r->point[i];
        p->shown = p->stored->result.cache != 0 && (isfinite(p->ms) || isfinite(p->roof));
        for (int32_t k = 0; p->shown && k < i; k++)
            p->shown = !r->point[k].shown || !same_place(&r->point[k], p);
    }
}

// Pictures of one KV type show the widest.
static void choose_main(struct report_result *r)
{
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        struct report_point *p = &r->point[i];
        p->main = p->shown;
        for (int32_t k = 0; p->main && k < r->recorded.n_rows; k++) {
            const struct report_point *q = &r->point[k];
            bool rival = q->shown && q->slice == p->slice && !strcmp(q->stored->result.phase, p->stored->result.phase);
            p->main = !rival || width_rank(q->kv) >= width_rank(p->kv);
        }
    }
}

// Hardware.

const struct hardware *report_hardware(const struct report_result *r, const struct result *row)
{
    for (int32_t i = 0; i < r->n_hw; i++)
        if (!strcmp(r->hw[i].name, row->hardware))
            return &r->hw[i];
    return NULL;
}

// Whether a slice before it is of the same hardware: then that was looked for already.
static bool asked_before(const struct report_result *r, int32_t slice)
{
    for (int32_t s = 0; s < slice; s++)
        if (!strcmp(r->slice[s].first->hardware, r->slice[slice].first->hardware))
            return true;
    return false;
}

// Recorded ceilings; where a row's are not among them (predictions, imports), the catalogue's of that name.
static bool find_hardware(struct report_result *r, struct error *e)
{
    r->hw = calloc((size_t)r->recorded.n_hw + (size_t)r->n_slices + 1, sizeof *r->hw);
    if (!r->hw)
        return error_set(e, ERROR_MEMORY, "no memory for the report");
    for (; r->n_hw < r->recorded.n_hw; r->n_hw++)
        r->hw[r->n_hw] = r->recorded.hw[r->n_hw];
    for (int32_t s = 0; s < r->n_slices; s++) {
        const struct result *row = r->slice[s].first;
        bool named = *row->hardware && strcmp(row->hardware, "auto") && !strpbrk(row->hardware, "/.");
        if (named && !asked_before(r, s) && !report_hardware(r, row) && hardware_load(&r->hw[r->n_hw], row->hardware, NULL))
            r->n_hw++;
    }
    return true;
}

static const char *machine_of(const struct report_result *r)
{
    const struct result *row = r->slice[0].first;
    const struct hardware *hw = report_hardware(r, row);
    if (hw)
        return *hw->title ? hw->title : hw->name;
    return *row->hardware ? row->hardware : row->backend;
}

// A result of many models or machines is called as its files are.
static void name_result(struct report_result *r)
{
    const struct result *first = r->slice[0].first;
    bool one = true;
    for (int32_t s = 1; s < r->n_slices; s++)
        one &= !strcmp(r->slice[s].first->model, first->model) && !strcmp(r->slice[s].first->hardware, first->hardware);
    if (one || r->n_slices <= 3)
        snprintf(r->title, sizeof r->title, "%.70s on %.80s", first->model, machine_of(r));
    else
        snprintf(r->title, sizeof r->title, "%s", r->recorded.name);
}

static bool open_result(struct report_result *r, const char *path, int32_t place, struct error *e)
{
    if (!recorded_read(&r->recorded, path, e))
        return false;
    size_t n = (size_t)r->recorded.n_rows + 1;
    r->point = calloc(n, sizeof *r->point);
    r->slice = calloc(n, sizeof *r->slice);
    if (!r->point || !r->slice)
        return error_set(e, ERROR_MEMORY, "no memory for the report of '%s'", path);
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        make_point(&r->point[i], &r->recorded.row[i], i);
    assign_slices(r);
    order_slices(r);
    choose_shown(r);
    choose_main(r);
    r->letter[0] = (char)('A' + place);
    if (!find_hardware(r, e))
        return false;
    name_result(r);
    return true;
}

bool report_open(struct report *r, const char *const *path, int32_t n, struct error *e)
{
    *r = (struct report){.result = calloc((size_t)n + 1, sizeof *r->result)};
    bool ok = r->result || error_set(e, ERROR_MEMORY, "no memory for the report");
    for (int32_t i = 0; ok && i < n; i++) {
        r->n++;
        ok = open_result(&r->result[i], path[i], i, e);
    }
    if (!ok)
        report_close(r);
    return ok;
}

void report_close(struct report *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        recorded_free(&r->result[i].recorded);
        free(r->result[i].point);
        free(r->result[i].slice);
        free(r->result[i].hw);
    }
    free(r->result);
    *r = (struct report){0};
}

static void insert(int64_t *list, int32_t *n, int64_t v, int32_t most)
{
    int32_t at = 0;
    while (at < *n && list[at] < v)
        at++;
    if (*n == most || (at < *n && list[at] == v))
        return;
    memmove(&list[at + 1], &list[at], (size_t)(*n - at) * sizeof *list);
    list[at] = v;
    ++*n;
}

int32_t report_values(const struct report_result *r, int32_t slice, const char *phase, enum report_axis axis, int64_t *out,
                      int32_t most)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct report_point *p = &r->point[i];
        if (p->shown && p->slice == slice && (!phase || report_is(p, phase)))
            insert(out, &n, axis == REPORT_BATCH ? p->batch : p->length, most);
    }
    return n;
}
