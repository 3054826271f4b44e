#include "bench/points.h"

#include "bench/planner.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 20000 };

static void append(char *key, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *key, size_t size, const char *format, ...)
{
    size_t n = strlen(key);
    va_list args;
    va_start(args, format);
    vsnprintf(key + n, size - n, format, args);
    va_end(args);
}

static void append_shape(struct point *p)
{
    size_t size = sizeof p->key;
    if (p->phase == PHASE_DECODE)
        append(p->key, size, "/c%d", p->context);
    else
        append(p->key, size, "/p%d", p->n_prompt);
    if (p->phase == PHASE_GENERATE)
        append(p->key, size, "/n%d", p->n_gen);
    if (!p->cache)
        append(p->key, size, "/nocache");
}

// The types that will run where a planner can tell them.
static void name_types(const struct point *p, const struct plan *plan, char weights[32], char kv[32])
{
    snprintf(weights, 32, "%s", p->own_weights ? "auto" : dtype_name(p->weights));
    kv_type_format(p->own_kv ? (struct kv_type){.own_k = true, .own_v = true} : p->kv, kv);
    if (!plan)
        return;
    snprintf(weights, 32, "%s", dtype_name(plan_weight_type(plan)));
    kv_type_format((struct kv_type){.k = plan->kv_k, .v = plan->kv_v}, kv);
}

static void set_key(struct point *p, const struct scenario *s, const struct plan *plan)
{
    size_t size = sizeof p->key;
    char weights[32], kv[32];
    *p->key = 0;
    if (s->n_models > 1) { // the last part of a path names a model well enough
        const char *slash = strrchr(s->model[p->model], '/');
        append(p->key, size, "%.60s/", slash && slash[1] ? slash + 1 : s->model[p->model]);
    }
    append(p->key, size, "%s/b%d", phase_name(p->phase), p->batch);
    append_shape(p);
    name_types(p, plan, weights, kv);
    append(p->key, size, "/%s/kv-%s/blk%d", weights, kv, p->block);
    if (p->phase == PHASE_DECODE && p->n_gen != 1)
        append(p->key, size, "/n%d", p->n_gen);
    if (p->phase != PHASE_DECODE && p->n_depth)
        append(p->key, size, "/d%d", p->n_depth);
    if (p->threads)
        append(p->key, size, "/t%d", p->threads);
}

static bool set_keys(struct point_list *list, const struct scenario *s, struct planner *planner, struct error *e)
{
    for (int32_t i = 0; i < list->n; i++) {
        const struct plan *plan = planner ? planner_plan(planner, &list->point[i], e) : NULL;
        if (planner && !plan)
            return false;
        set_key(&list->point[i], s, plan);
    }
    return true;
}

static int32_t at_least_one(int32_t n)
{
    return n ? n : 1;
}

// The lists of a section as digits of one number, the last counting fastest: the order in which points are written.
enum { DIGITS = 7 };
static void section_radix(const struct section *s, int32_t radix[DIGITS])
{
    const int32_t n[DIGITS] = {s->block.n, at_least_one(s->kv.n), s->batch.n, s->n_depth.n, s->n_prompt.n, s->n_gen.n,
                               s->cache.n};
    memcpy(radix, n, sizeof n);
}

static int64_t section_size(const struct section *s)
{
    int32_t radix[DIGITS];
    int64_t size = 1;
    section_radix(s, radix);
    for (int i = 0; i < DIGITS; i++) // each radix is at most 64: the product stays far below overflow when capped
        size = size > MAX_POINTS ? size : size * radix[i];
    return size;
}

static struct point point_at(const struct section *s, int64_t index)
{
    int32_t radix[DIGITS], digit[DIGITS];
    section_radix(s, radix);
    for (int i = DIGITS - 1; i >= 0; i--) {
        digit[i] = (int32_t)(index % radix[i]);
        index /= radix[i];
    }
    struct point p = {.phase = s->phase,
                      .block = s->block.value[digit[0]],
                      .own_kv = !s->kv.n,
                      .batch = s->batch.value[digit[2]],
                      .n_depth = s->n_depth.value[digit[3]],
                      .n_prompt = s->n_prompt.value[digit[4]],
                      .n_gen = s->n_gen.value[digit[5]],
                      .cache = s->cache.value[digit[6]] != 0};
    if (s->kv.n)
        p.kv = s->kv.value[digit[1]];
    p.context = point_step_context(&p, 0);
    return p;
}

static int64_t count_points(const struct scenario *s)
{
    int64_t outer = (int64_t)s->n_models * at_least_one(s->weights.n) * s->threads.n, inner = 0;
    for (int32_t i = 0; i < s->n_sections; i++)
        inner += section_size(&s->section[i]);
    return outer * inner;
}

static bool within_limit(const struct section *s, const struct point *p)
{
    int64_t tokens = (int64_t)p->batch * point_step_context(p, point_steps(p) - 1);
    return !s->max_kv_tokens || tokens <= s->max_kv_tokens;
}

static void add_sections(struct point_list *list, const struct scenario *s, int32_t model, int32_t weights, int32_t threads)
{
    for (int32_t i = 0; i < s->n_sections; i++)
        for (int64_t k = 0, n = section_size(&s->section[i]); k < n; k++) {
            struct point p = point_at(&s->section[i], k);
            if (!within_limit(&s->section[i], &p))
                continue;
            p.model = model;
            p.own_weights = !s->weights.n;
            p.weights = s->weights.n ? s->weights.value[weights] : DTYPE_F32;
            p.threads = s->threads.value[threads];
            list->point[list->n++] = p;
        }
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp((*(const struct point *const *)a)->key, (*(const struct point *const *)b)->key);
}

// Keys are what --resume goes by, so each must stand for one point.
static bool check_unique(const struct point_list *list, const struct scenario *s, struct error *e)
{
    const struct point **sorted = malloc((size_t)list->n * sizeof *sorted);
    bool ok = sorted || error_set(e, ERROR_MEMORY, "no memory for %d points", list->n);
    for (int32_t i = 0; ok && i < list->n; i++)
        sorted[i] = &list->point[i];
    if (ok)
        qsort(sorted, (size_t)list->n, sizeof *sorted, compare_keys);
    for (int32_t i = 1; ok && i < list->n; i++)
        if (!strcmp(sorted[i - 1]->key, sorted[i]->key))
            ok = error_set(e, ERROR_USAGE, "'%s': point '%s' appears twice, expected each value once", s->where,
                           sorted[i]->key);
    free(sorted);
    return ok;
}

static pcre2_code *compile(const char *filter, struct error *e)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)filter, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
    PCRE2_UCHAR why[128] = "";
    if (!re) {
        pcre2_get_error_message(code, why, sizeof why);
        error_set(e, ERROR_USAGE, "'--filter' is '%.100s': %s at character %zu", filter, (const char *)why, (size_t)at);
    }
    return re;
}

static bool keep_matching(struct point_list *list, const char *filter, struct error *e)
{
    pcre2_code *re = compile(filter, e);
    if (!re)
        return false;
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(re, NULL);
    int32_t kept = 0;
    for (int32_t i = 0; match && i < list->n; i++)
        if (pcre2_match(re, (PCRE2_SPTR)list->point[i].key, PCRE2_ZERO_TERMINATED, 0, 0, match, NULL) >= 0)
            list->point[kept++] = list->point[i];
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    if (!match)
        return error_set(e, ERROR_MEMORY, "no memory for '--filter'");
    if (!kept)
        error_set(e, ERROR_USAGE, "'--filter' is '%.100s': none of %d points matches, such as '%s'", filter, list->n,
                  list->point[0].key);
    list->n = kept;
    return kept;
}

bool point_list_make(struct point_list *list, const struct scenario *s, struct planner *planner, const char *filter,
                     struct error *e)
{
    *list = (struct point_list){0};
    int64_t n = count_points(s);
    if (n < 1 || n > MAX_POINTS)
        return error_set(e, ERROR_USAGE, "'%s': more than %d points, or none", s->where, MAX_POINTS);
    if (!(list->point = calloc((size_t)n, sizeof *list->point)))
        return error_set(e, ERROR_MEMORY, "no memory for %lld points", (long long)n);
    for (int32_t m = 0; m < s->n_models; m++)
        for (int32_t w = 0; w < at_least_one(s->weights.n); w++)
            for (int32_t t = 0; t < s->threads.n; t++)
                add_sections(list, s, m, w, t);
    bool any = list->n || error_set(e, ERROR_USAGE, "'%s': every point has more than 'max_kv_tokens' positions", s->where);
    if (any && set_keys(list, s, planner, e) && check_unique(list, s, e) && (!filter || keep_matching(list, filter, e)))
        return true;
    point_list_free(list);
    return false;
}

void point_list_free(struct point_list *list)
{
    free(list->point);
    *list = (struct point_list){0};
}

int32_t point_steps(const struct point *p)
{
    return (p->n_prompt > 0) + p->n_gen;
}

int32_t point_step_context(const struct point *p, int32_t i)
{
    return p->n_depth + (p->n_prompt ? p->n_prompt : 1) + i;
}

int32_t point_step_rows(const struct point *p, int32_t i)
{
    if (!p->cache)
        return point_step_context(p, i) - p->n_depth;
    return i == 0 && p->n_prompt ? p->n_prompt : 1;
}
