#include "roofline/fit.h"

#include "engine/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 5, REWEIGHTINGS = 6, RATIOS = 25 };
// Tried for r: from FLOPs four times as well used as bytes to sixteen times as badly.
#define RATIO_LOW 0.25
#define RATIO_HIGH 16.0
// Huber's constant: 95 % as precise as least squares where errors are normal.
#define HUBER 1.345
// Squared errors that differ by a smaller share differ by rounding.
#define SAME 1e-9
// Fits whose errors differ by less cannot be told apart.
#define ALIKE 1.1
#define BEYOND 4
// Errors below this share are never called outliers.
#define LEAST_SCALE 0.005

// With the sum of both in place of the shorter, no set of coefficients that are not negative charges more for the shorter
// than for the longer.
static void terms_of(const struct fit_work *w, double ratio, double x[TERMS])
{
    double flops = ratio * w->flops_ns;
    x[0] = fmax(w->bytes_ns, flops);
    x[1] = w->bytes_ns + flops;
    x[2] = w->act_bytes;
    x[3] = w->rows;
    x[4] = 1;
}

static double value_of(const double x[TERMS], const double k[TERMS])
{
    double sum = 0;
    for (int i = 0; i < TERMS; i++)
        sum += k[i] * x[i];
    return sum;
}

// Gaussian elimination of the terms in `use` with pivots on the diagonal, which is 1. False where terms are not independent.
static bool solve_terms(const double a[TERMS][TERMS], const double b[TERMS], int use, double k[TERMS])
{
    double m[TERMS][TERMS + 1];
    int id[TERMS], n = 0;
    for (int i = 0; i < TERMS; i++)
        if (use & 1 << i)
            id[n++] = i;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            m[i][j] = a[id[i]][id[j]];
        m[i][n] = b[id[i]];
    }
    for (int i = 0; i < n; i++) {
        if (m[i][i] < 1e-9)
            return false;
        for (int r = i + 1; r < n; r++)
            for (int j = n; j >= i; j--)
                m[r][j] -= m[r][i] / m[i][i] * m[i][j];
    }
    memset(k, 0, TERMS * sizeof *k);
    for (int i = n - 1; i >= 0; i--) {
        double sum = m[i][n];
        for (int j = i + 1; j < n; j++)
            sum -= m[i][j] * k[id[j]];
        k[id[i]] = sum / m[i][i];
    }
    return true;
}

// The best of all sets of terms whose solution has no negative coefficient: with five terms, trying all 31 is the simplest
// exact way to non-negative least squares.
static void solve_non_negative(const double a[TERMS][TERMS], const double b[TERMS], double k[TERMS])
{
    double least = 0;
    memset(k, 0, TERMS * sizeof *k);
    for (int use = 1; use < 1 << TERMS; use++) {
        double trial[TERMS], rest = 0;
        bool negative = !solve_terms(a, b, use, trial);
        for (int i = 0; i < TERMS && !negative; i++) {
            negative = trial[i] < 0;
            rest -= trial[i] * b[i]; // at a solution the squared error is a constant less this
        }
        if (negative || rest >= least * (1 + SAME)) // both below 0; of sets that are alike the first, which is the smaller
            continue;
        least = rest;
        memcpy(k, trial, sizeof trial);
    }
}

struct problem {
    const struct fit_sample *sample; // [n]
    int32_t n;
    const int32_t *fold;    // [n], or NULL
    int32_t without;        // fold that is left out
    double *weight, *error; // [n]
};

static bool left_out(const struct problem *p, int32_t i)
{
    return p->fold && p->fold[i] == p->without;
}

// One weighted fit of x / t to 1, with columns scaled to unit length.
static void solve_weighted(const struct problem *p, double ratio, double k[TERMS])
{
    double a[TERMS][TERMS] = {{0}}, b[TERMS] = {0}, scale[TERMS], x[TERMS];
    for (int32_t s = 0; s < p->n; s++) {
        if (left_out(p, s))
            continue;
        terms_of(&p->sample[s].work, ratio, x);
        for (int i = 0; i < TERMS; i++) {
            double row = p->weight[s] * x[i] / p->sample[s].ns;
            b[i] += row;
            for (int j = 0; j < TERMS; j++)
                a[i][j] += row * x[j] / p->sample[s].ns;
        }
    }
    for (int i = 0; i < TERMS; i++)
        scale[i] = a[i][i] > 0 ? sqrt(a[i][i]) : 1;
    for (int i = 0; i < TERMS; i++) {
        b[i] /= scale[i];
        for (int j = 0; j < TERMS; j++)
            a[i][j] /= scale[i] * scale[j];
    }
    solve_non_negative(a, b, k);
    for (int i = 0; i < TERMS; i++)
        k[i] /= scale[i];
}

// Mean relative error of the samples that count; their errors into p->error, those that do not first.
static double relative_errors(const struct problem *p, double ratio, const double k[TERMS], int32_t *n_used)
{
    double x[TERMS], sum = 0;
    *n_used = 0;
    for (int32_t i = 0; i < p->n; i++) {
        terms_of(&p->sample[i].work, ratio, x);
        double error = fabs(value_of(x, k) / p->sample[i].ns - 1);
        if (left_out(p, i))
            continue;
        p->error[(*n_used)++] = error;
        sum += fmin(error, 1);
    }
    return *n_used ? sum / *n_used : 0;
}

static void reweight(const struct problem *p, double ratio, const double k[TERMS])
{
    int32_t n;
    double x[TERMS];
    relative_errors(p, ratio, k, &n);
    double scale = 1.4826 * stats_median(p->error, n), limit = HUBER * fmax(scale, LEAST_SCALE);
    for (int32_t i = 0; i < p->n; i++) {
        terms_of(&p->sample[i].work, ratio, x);
        double error = fabs(value_of(x, k) / p->sample[i].ns - 1);
        p->weight[i] = error <= limit ? 1 : limit / error;
    }
}

static double solve_at(const struct problem *p, double ratio, double k[TERMS])
{
    int32_t n;
    for (int32_t i = 0; i < p->n; i++)
        p->weight[i] = 1;
    for (int i = 0; i < REWEIGHTINGS; i++) {
        solve_weighted(p, ratio, k);
        reweight(p, ratio, k);
    }
    return relative_errors(p, ratio, k, &n);
}

static double ratio_at(int i)
{
    return RATIO_LOW * pow(RATIO_HIGH / RATIO_LOW, (double)i / (RATIOS - 1));
}

// How far its use of the read ceiling is from all of it; more than all is hard to believe.
static double distance(const double k[TERMS])
{
    double multiple = k[0] + k[1];
    return multiple >= 1 ? log(multiple) : multiple > 0 ? -BEYOND * log(multiple) : INFINITY;
}

// The ratio with the least error. Where bytes and FLOPs grow together, as attention's do, many fit alike: of these the one
// that makes the best use of memory, since a kernel far from the read ceiling is held up by its instructions.
static void solve(const struct problem *p, struct fit_kernel *out)
{
    bool both = false;
    double error[RATIOS], k[RATIOS][TERMS], least = INFINITY;
    for (int32_t i = 0; i < p->n; i++)
        both |= p->sample[i].work.bytes_ns > 0 && p->sample[i].work.flops_ns > 0;
    int n = both ? RATIOS : 1, best = -1;
    for (int i = 0; i < n; i++) {
        error[i] = solve_at(p, both ? ratio_at(i) : 1, k[i]);
        least = fmin(least, error[i]);
    }
    for (int i = 0; i < n; i++)
        if (error[i] <= ALIKE * least && (best < 0 || distance(k[i]) < distance(k[best])))
            best = i;
    out->ratio = both ? ratio_at(best) : 1;
    out->longer = k[best][0] + k[best][1], out->shorter = k[best][1];
    out->act = k[best][2], out->row = k[best][3], out->span = k[best][4];
}

double fit_span_ns(const struct fit_kernel *f, const struct fit_work *work)
{
    double x[TERMS], k[TERMS] = {f->longer - f->shorter, f->shorter, f->act, f->row, f->span};
    terms_of(work, f->ratio, x);
    return value_of(x, k);
}

// Points are dealt to folds in turn, so that each fold has small and large ones.
static int32_t deal(const struct fit_sample *sample, int32_t n, int32_t *fold)
{
    int32_t n_points = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t before = 0;
        while (before < i && sample[before].point != sample[i].point)
            before++;
        fold[i] = before < i ? fold[before] : n_points++ % FIT_FOLDS;
    }
    return n_points;
}

// The mean relative error of samples, each by a fit that has not seen its point.
static double cross_validate(struct problem *p, const int32_t *fold, double *held_out)
{
    double sum = 0;
    p->fold = fold;
    for (p->without = 0; p->without < FIT_FOLDS; p->without++) {
        struct fit_kernel k = {0};
        solve(p, &k);
        for (int32_t i = 0; i < p->n; i++) {
            if (fold[i] != p->without)
                continue;
            held_out[i] = fit_span_ns(&k, &p->sample[i].work);
            sum += fabs(held_out[i] / p->sample[i].ns - 1);
        }
    }
    p->fold = NULL;
    return sum / p->n;
}

bool fit_solve(struct fit_kernel *k, const char *name, const struct fit_sample *sample, int32_t n, double *held_out,
               struct error *e)
{
    struct problem p = {.sample = sample, .n = n};
    size_t room = (size_t)(n > 0 ? n : 0) + 1;
    int32_t *fold = malloc(room * sizeof *fold);
    p.weight = malloc(room * sizeof *p.weight);
    p.error = malloc(room * sizeof *p.error);
    *k = (struct fit_kernel){.n = n};
    snprintf(k->name, sizeof k->name, "%s", name);
    bool ok = (fold && p.weight && p.error) || error_set(e, ERROR_MEMORY, "no memory to fit %d samples", n);
    if (ok) {
        k->n_points = deal(sample, n, fold);
        ok = k->n_points >= FIT_MIN_POINTS ||
             error_set(e, ERROR_FAILED, "'%s': %d points, expected %d or more", name, k->n_points, FIT_MIN_POINTS);
    }
    if (ok) {
        solve(&p, k);
        k->error = cross_validate(&p, fold, held_out);
    }
    free(fold);
    free(p.weight);
    free(p.error);
    return ok;
}
