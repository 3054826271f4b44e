#include "bench/compare.h"

#include "bench/scenario.h"
#include "engine/base/rng.h"
#include "engine/base/stats.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 4000 };
#define LEVEL 0.05

static const struct column COMPARE[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct compare_row, field)},
    COMPARE_COLUMNS(X)
#undef X
};

const struct column *compare_columns(int32_t *n)
{
    *n = (int32_t)(sizeof COMPARE / sizeof *COMPARE);
    return COMPARE;
}

// Which points are one.

// What may differ as a whole between two results without making them strangers.
enum setting { MODEL, WEIGHTS, TYPE_K, TYPE_V, BLOCK, THREADS, TP, N_SETTINGS };
static const char *const SETTING[N_SETTINGS] = {"model", "weights", "type_k", "type_v", "block", "threads", "tp"};

static void setting_of(const struct result *r, enum setting s, char out[160])
{
    const char *const text[N_SETTINGS] = {r->model, r->weights, r->type_k, r->type_v};
    const int64_t number[N_SETTINGS] = {[BLOCK] = r->block, [THREADS] = r->threads, [TP] = r->tp};
    if (s < BLOCK)
        snprintf(out, 160, "%.159s", text[s]);
    else if (number[s] == RESULT_UNKNOWN)
        *out = 0;
    else
        snprintf(out, 160, "%lld", (long long)number[s]);
}

// The one value that all points have which know it; false where there are several.
static bool shared_setting(const struct recorded *r, enum setting s, char out[160])
{
    char value[160];
    *out = 0;
    for (int32_t i = 0; i < r->n_rows; i++) {
        setting_of(&r->row[i].result, s, value);
        if (*out && *value && strcmp(out, value))
            return false;
        if (*value)
            memcpy(out, value, sizeof value);
    }
    return true;
}

static bool same_shape(const struct result *a, const struct result *b)
{
    return !strcmp(a->phase, b->phase) && a->batch == b->batch && a->context == b->context && a->n_prompt == b->n_prompt &&
           a->n_gen == b->n_gen && a->n_depth == b->n_depth && a->cache == b->cache;
}

static bool same_point(const struct result *a, const struct result *b, const bool free_setting[N_SETTINGS])
{
    char x[160], y[160];
    if (!same_shape(a, b))
        return false;
    for (int s = 0; s < N_SETTINGS; s++) {
        setting_of(a, (enum setting)s, x);
        setting_of(b, (enum setting)s, y);
        if (!free_setting[s] && strcmp(x, y))
            return false;
    }
    return true;
}

// Facts that differ.

static bool add_setting(struct comparison *c, const char *name, const char *a, const char *b, struct error *e)
{
    struct compare_setting *grown = realloc(c->setting, (size_t)(c->n_settings + 1) * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for what differs");
    c->setting = grown;
    grown += c->n_settings++;
    snprintf(grown->name, sizeof grown->name, "%s", name);
    snprintf(grown->a, sizeof grown->a, "%s", a);
    snprintf(grown->b, sizeof grown->b, "%s", b);
    return true;
}

static bool has_word(const char *list, const char *word, size_t n)
{
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

// The words of `list` that `other` lacks.
static void only_words(const char *list, const char *other, char out[160])
{
    char word[64];
    size_t used = 0;
    *out = 0;
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (!has_word(other, word, strlen(word)) && used < 150)
            used += (size_t)snprintf(out + used, 160 - used, "%s%s", used ? " " : "only: ", word);
        at += n;
    }
}

static void leaf_text(const cJSON *m, char out[160])
{
    if (!m || cJSON_IsNull(m))
        snprintf(out, 160, "-");
    else if (cJSON_IsString(m))
        snprintf(out, 160, "%.159s", m->valuestring);
    else if (cJSON_IsNumber(m))
        snprintf(out, 160, "%.6g", m->valuedouble);
    else
        snprintf(out, 160, "%s", cJSON_IsTrue(m) ? "true" : "false");
}

// What differs between any two runs, and what stands elsewhere.
static bool is_passing(const char *path)
{
    static const char *const PASSING[] = {"started",          "finished",
                                          "scenario_hash",    "notes",
                                          "load_average",     "available",
                                          "ceilings[",        ".date",
                                          ".spread",          ".n",
                                          "scenario.name",    "slopes",
                                          "accuracy",         "scenario.sections",
                                          "scenario.model",   "scenario.weights",
                                          "scenario.threads", "budget_s",
                                          "free_bytes"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof PASSING / sizeof *PASSING; i++) {
        size_t k = strlen(PASSING[i]);
        if (PASSING[i][0] == '.' ? n >= k && !strcmp(path + n - k, PASSING[i]) : strstr(path, PASSING[i]) != NULL)
            return true;
    }
    return false;
}

static bool is_leaf(const cJSON *m)
{
    return !m || !(cJSON_IsObject(m) || cJSON_IsArray(m));
}

static bool compare_leaves(struct comparison *c, const char *path, const cJSON *a, const cJSON *b, struct error *e)
{
    char x[160], y[160];
    if (is_passing(path))
        return true;
    leaf_text(a, x);
    leaf_text(b, y);
    bool same = a && b && cJSON_Compare(a, b, true);
    if (same || (!strcmp(x, y) && !(cJSON_IsString(a) && strlen(x) == 159)))
        return true;
    if (cJSON_IsString(a) && cJSON_IsString(b) && strlen(a->valuestring) > 80) { // CPU flags
        only_words(a->valuestring, b->valuestring, x);
        only_words(b->valuestring, a->valuestring, y);
    }
    return add_setting(c, path, x, y, e);
}

static const cJSON *member_at(const cJSON *in, const char *key, int index)
{
    if (cJSON_IsArray(in))
        return cJSON_GetArrayItem(in, index);
    return cJSON_IsObject(in) ? cJSON_GetObjectItemCaseSensitive(in, key) : NULL;
}

// Every leaf of either tree once. Depth is what a meta file has, and at most 8.
static bool compare_trees(struct comparison *c, const char *path, const cJSON *a, const cJSON *b, int depth, struct error *e)
{
    if ((is_leaf(a) && is_leaf(b)) || depth == 8)
        return compare_leaves(c, path, is_leaf(a) ? a : NULL, is_leaf(b) ? b : NULL, e);
    for (int side = 0; side < 2; side++) {
        const cJSON *in = side ? b : a, *other = side ? a : b;
        int index = 0;
        for (const cJSON *m = is_leaf(in) ? NULL : in->child; m; m = m->next, index++) {
            char below[96];
            const cJSON *twin = member_at(other, m->string ? m->string : "", index);
            if (side && twin)
                continue; // seen from a
            if (m->string)
                snprintf(below, sizeof below, "%.60s%s%.32s", path, *path ? "." : "", m->string);
            else
                snprintf(below, sizeof below, "%.60s[%d]", path, index);
            if (!compare_trees(c, below, side ? twin : m, side ? m : twin, depth + 1, e))
                return false;
        }
    }
    return true;
}

// Ceilings of a machine of one name, where they are further apart than measuring them again would make them.
static bool compare_ceilings(struct comparison *c, const struct recorded *a, const struct recorded *b, struct error *e)
{
    for (int32_t i = 0; i < a->n_hw; i++)
        for (int32_t k = 0; k < b->n_hw; k++) {
            char name[96], x[160], y[160];
            double p = a->hw[i].bandwidth[ROOF_ATTAINABLE].value, q = b->hw[k].bandwidth[ROOF_ATTAINABLE].value;
            if (strcmp(a->hw[i].name, b->hw[k].name) || !(fabs(p - q) > 0.05 * p))
                continue;
            snprintf(name, sizeof name, "read ceiling of %.60s", a->hw[i].name);
            snprintf(x, sizeof x, "%.3g GB/s", p / 1e9);
            snprintf(y, sizeof y, "%.3g GB/s", q / 1e9);
            if (!add_setting(c, name, x, y, e))
                return false;
        }
    return true;
}

// A table without its meta file says nothing of the machine: that much differs, not each fact that the other one knows.
static bool compare_meta(struct comparison *c, const struct recorded *a, const struct recorded *b, struct error *e)
{
    bool in_a = a->meta && a->meta->child, in_b = b->meta && b->meta->child;
    if (in_a && in_b)
        return compare_trees(c, "", a->meta, b->meta, 0, e);
    return in_a == in_b || add_setting(c, "meta file", in_a ? "there" : "none", in_b ? "there" : "none", e);
}

static bool compare_settings(struct comparison *c, const struct recorded *a, const struct recorded *b,
                             bool free_setting[N_SETTINGS], struct error *e)
{
    char x[160], y[160];
    for (int s = 0; s < N_SETTINGS; s++) {
        bool shared = shared_setting(a, (enum setting)s, x) && shared_setting(b, (enum setting)s, y);
        free_setting[s] = shared && strcmp(x, y);
        if (free_setting[s] && *x && *y && !add_setting(c, SETTING[s], x, y, e))
            return false;
    }
    return compare_ceilings(c, a, b, e) && compare_meta(c, a, b, e);
}

// Ratios.

// What is resampled: times, or the roof's share of each.
struct sampled {
    double *value; // [n]
    const double *block;
    int32_t n, n_blocks;
};

static bool sampled_of(const struct result *r, bool by_fraction, struct sampled *s)
{
    int32_t n = r->samples_ns.n;
    bool probed = r->samples_probe.n == n && r->roof_fraction > 0;
    *s = (struct sampled){.block = r->samples_block.value, .n = n};
    if (n < 1 || r->samples_block.n != n || (by_fraction && !probed) || !(s->value = calloc((size_t)n, sizeof *s->value)))
        return false;
    for (int32_t i = 0; i < n; i++) { // what a sample took in units of the probe beside it falls as the fraction rises
        s->value[i] = by_fraction ? r->samples_ns.value[i] * r->samples_probe.value[i] : r->samples_ns.value[i];
        s->n_blocks = s->block[i] >= s->n_blocks ? (int32_t)s->block[i] + 1 : s->n_blocks;
    }
    double scale = by_fraction ? 1 / (stats_median(s->value, n) * r->roof_fraction) : 1;
    for (int32_t i = 0; i < n; i++)
        s->value[i] *= scale; // its median is 1 / roof_fraction
    return true;
}

static double resampled_median(const struct sampled *s, uint64_t *rng, double *draw)
{
    int32_t count = 0;
    for (int32_t b = 0; b < s->n_blocks; b++) {
        double drawn = (double)(rng_next(rng) % (uint64_t)s->n_blocks);
        for (int32_t i = 0; i < s->n; i++)
            if (s->block[i] == drawn)
                draw[count++] = s->value[i];
    }
    return stats_median(draw, count);
}

// Logarithms of RESAMPLES ratios. The same blocks are drawn for every pair, for points of one moment share it.
static bool resample_ratios(const struct sampled *a, const struct sampled *b, double *log_ratio)
{
    size_t size_a = (size_t)a->n * (size_t)a->n_blocks, size_b = (size_t)b->n * (size_t)b->n_blocks;
    double *draw = calloc(size_a > size_b ? size_a : size_b, sizeof *draw);
    uint64_t rng_a = 1, rng_b = 1ull << 32;
    for (int32_t i = 0; draw && i < RESAMPLES; i++) {
        double x = resampled_median(a, &rng_a, draw), y = resampled_median(b, &rng_b, draw);
        log_ratio[i] = x > 0 && y > 0 ? log(y / x) : 0; // blocks without samples
    }
    free(draw);
    return draw;
}

static void set_change(struct compare_row *row, double threshold)
{
    const char *change = "same";
    if (row->ratio_low > 1 + threshold)
        change = "slower";
    else if (row->ratio_high < 1 / (1 + threshold))
        change = "faster";
    else if (row->ratio > 1 + threshold || row->ratio < 1 / (1 + threshold))
        change = "unsure";
    snprintf(row->change, sizeof row->change, "%s", change);
}

// Intervals hold for all pairs together (Bonferroni), or a long list would always hold some that look slower.
static void set_ratio(struct compare_row *row, double ratio, const double *log_ratio, int32_t n_pairs, double threshold)
{
    double tail = LEVEL / 2 / n_pairs;
    row->ratio = ratio;
    row->ratio_low = exp(stats_quantile(log_ratio, RESAMPLES, tail));
    row->ratio_high = exp(stats_quantile(log_ratio, RESAMPLES, 1 - tail));
    set_change(row, threshold);
}

static bool failed(const struct result *r)
{
    return !(r->median_ns > 0);
}

static void describe(struct compare_row *row, const struct result *a, const struct result *b)
{
    const struct result *r = a ? a : b;
    *row = (struct compare_row){.a_ns = NAN, .b_ns = NAN, .a_fraction = NAN, .b_fraction = NAN};
    row->ratio = row->ratio_low = row->ratio_high = NAN;
    memcpy(row->key, r->key, sizeof row->key);
    memcpy(row->phase, r->phase, sizeof row->phase);
    if (a) {
        row->a_ns = a->median_ns, row->a_fraction = a->roof_fraction;
        memcpy(row->a_verdict, a->verdict, sizeof row->a_verdict);
    }
    if (b) {
        row->b_ns = b->median_ns, row->b_fraction = b->roof_fraction;
        memcpy(row->b_verdict, b->verdict, sizeof row->b_verdict);
    }
    if (!a || !b)
        snprintf(row->change, sizeof row->change, a ? "only in A" : "only in B");
    else if (failed(a) || failed(b))
        snprintf(row->change, sizeof row->change, "%s",
                 failed(a) && failed(b) ? "unmeasured"
                 : failed(a)            ? "mended"
                                        : "failed");
}

struct pair {
    const struct result *a, *b;
    bool measured; // both
};

struct pairing {
    struct pair *pair; // [n]
    bool *taken;       // [b->n_rows]
    int32_t n, n_measured;
};

static int32_t find_twin(const struct recorded *b, const struct result *a, const bool *taken,
                         const bool free_setting[N_SETTINGS])
{
    for (int32_t i = 0; i < b->n_rows; i++)
        if (!taken[i] && !strcmp(b->row[i].result.key, a->key) && same_shape(a, &b->row[i].result))
            return i;
    for (int32_t i = 0; i < b->n_rows; i++)
        if (!taken[i] && same_point(a, &b->row[i].result, free_setting))
            return i;
    return -1;
}

static bool make_pairs(struct pairing *p, const struct recorded *a, const struct recorded *b,
                       const bool free_setting[N_SETTINGS], struct error *e)
{
    p->pair = calloc((size_t)a->n_rows + 1, sizeof *p->pair);
    p->taken = calloc((size_t)b->n_rows + 1, sizeof *p->taken);
    if (!p->pair || !p->taken)
        return error_set(e, ERROR_MEMORY, "no memory for %d pairs", a->n_rows);
    for (int32_t i = 0; i < a->n_rows; i++) {
        int32_t twin = find_twin(b, &a->row[i].result, p->taken, free_setting);
        if (twin < 0)
            continue;
        struct pair *pair = &p->pair[p->n++];
        p->taken[twin] = true;
        pair->a = &a->row[i].result, pair->b = &b->row[twin].result;
        pair->measured = !failed(pair->a) && !failed(pair->b);
        p->n_measured += pair->measured;
    }
    return p->n || error_set(e, ERROR_USAGE, "no point of '%.160s' is one of '%.160s', such as '%.120s'", a->path, b->path,
                             a->row[0].result.key);
}

static bool can_compare(const struct pairing *p, bool by_fraction)
{
    for (int32_t i = 0; i < p->n; i++) {
        struct sampled a = {0}, b = {0};
        bool ok =
            !p->pair[i].measured || (sampled_of(p->pair[i].a, by_fraction, &a) && sampled_of(p->pair[i].b, by_fraction, &b));
        free(a.value);
        free(b.value);
        if (!ok)
            return false;
    }
    return true;
}

static bool compare_pair(struct comparison *c, struct compare_row *row, const struct pair *pair, int32_t n_pairs,
                         double threshold, double *log_ratio)
{
    struct sampled a = {0}, b = {0};
    bool ok = sampled_of(pair->a, c->by_fraction, &a) && sampled_of(pair->b, c->by_fraction, &b) &&
              resample_ratios(&a, &b, log_ratio);
    if (ok)
        set_ratio(row, stats_median(b.value, b.n) / stats_median(a.value, a.n), log_ratio, n_pairs, threshold);
    free(a.value);
    free(b.value);
    return ok;
}

// Medians alone, of files without samples: nothing says how sure they are.
static void compare_medians(struct compare_row *row, double threshold)
{
    row->ratio = row->ratio_low = row->ratio_high = row->b_ns / row->a_ns;
    set_change(row, threshold);
}

// A phase as a whole: the mean of logarithms over its pairs, resample by resample.
struct phase_sum {
    double log_ratio[RESAMPLES], log_sum;
    int32_t n;
};

static void add_to_phase(struct phase_sum *s, const struct compare_row *row, const double *log_ratio)
{
    for (int32_t i = 0; i < RESAMPLES; i++)
        s->log_ratio[i] += log_ratio[i];
    s->log_sum += log(row->ratio);
    s->n++;
}

static void put_phases(struct comparison *c, struct phase_sum *sum, double threshold)
{
    for (enum phase phase = PHASE_DECODE; phase <= PHASE_GENERATE; phase++) {
        struct phase_sum *s = &sum[phase];
        struct compare_row *row = &c->group[c->n_groups];
        if (s->n < 2)
            continue;
        for (int32_t i = 0; i < RESAMPLES; i++)
            s->log_ratio[i] /= s->n;
        snprintf(row->key, sizeof row->key, "all of %s", phase_name(phase));
        snprintf(row->phase, sizeof row->phase, "%s", phase_name(phase));
        set_ratio(row, exp(s->log_sum / s->n), s->log_ratio, 1, threshold);
        c->group_points[c->n_groups++] = s->n;
    }
}

static enum phase phase_of(const struct result *r)
{
    enum phase phase = PHASE_DECODE;
    while (phase < PHASE_GENERATE && strcmp(r->phase, phase_name(phase)))
        phase++;
    return phase;
}

static void count_change(struct comparison *c, const struct compare_row *row)
{
    c->n_slower += !strcmp(row->change, "slower");
    c->n_faster += !strcmp(row->change, "faster");
    c->n_unsure += !strcmp(row->change, "unsure");
    c->n_same += !strcmp(row->change, "same");
    c->n_broken += !strcmp(row->change, "failed");
}

static bool compare_pairs(struct comparison *c, const struct pairing *p, double threshold, struct error *e)
{
    double *log_ratio = malloc(RESAMPLES * sizeof *log_ratio);
    struct phase_sum *sum = calloc(PHASE_GENERATE + 1, sizeof *sum);
    bool ok = (log_ratio && sum) || error_set(e, ERROR_MEMORY, "no memory for %d resamples", RESAMPLES);
    for (int32_t i = 0; ok && i < p->n; i++) {
        struct compare_row *row = &c->row[c->n_rows++];
        describe(row, p->pair[i].a, p->pair[i].b);
        if (p->pair[i].measured) {
            if (compare_pair(c, row, &p->pair[i], p->n_measured, threshold, log_ratio))
                add_to_phase(&sum[phase_of(p->pair[i].a)], row, log_ratio);
            else
                compare_medians(row, threshold);
        }
        count_change(c, row);
    }
    c->n_pairs = c->n_rows;
    if (ok)
        put_phases(c, sum, threshold);
    free(log_ratio);
    free(sum);
    return ok;
}

static void add_lone(struct comparison *c, const struct recorded *a, const struct recorded *b, const struct pairing *p)
{
    for (int32_t i = 0; i < a->n_rows; i++) {
        int32_t k = 0;
        while (k < p->n && p->pair[k].a != &a->row[i].result)
            k++;
        if (k == p->n)
            describe(&c->row[c->n_rows++], &a->row[i].result, NULL);
    }
    for (int32_t i = 0; i < b->n_rows; i++)
        if (!p->taken[i])
            describe(&c->row[c->n_rows++], NULL, &b->row[i].result);
}

bool compare_results(const struct recorded *a, const struct recorded *b, const struct compare_options *options,
                     struct comparison *out, struct error *e)
{
    bool free_setting[N_SETTINGS];
    struct pairing p = {0};
    *out = (struct comparison){.row = calloc((size_t)a->n_rows + (size_t)b->n_rows + 1, sizeof *out->row)};
    bool ok = (out->row || error_set(e, ERROR_MEMORY, "no memory for the comparison")) &&
              compare_settings(out, a, b, free_setting, e) && make_pairs(&p, a, b, free_setting, e);
    if (ok) {
        out->by_fraction = options->by_fraction && can_compare(&p, true);
        ok = compare_pairs(out, &p, options->threshold, e);
    }
    if (ok)
        add_lone(out, a, b, &p);
    else
        comparison_free(out);
    free(p.pair);
    free(p.taken);
    return ok;
}

void comparison_free(struct comparison *c)
{
    free(c->row);
    free(c->setting);
    *c = (struct comparison){0};
}

static const struct compare_row *first_worse(const struct comparison *c)
{
    const struct compare_row *worst = NULL;
    for (int32_t i = 0; i < c->n_pairs; i++)
        if (!strcmp(c->row[i].change, "slower") && (!worst || c->row[i].ratio > worst->ratio))
            worst = &c->row[i];
    for (int32_t i = 0; !worst && i < c->n_groups; i++)
        if (!strcmp(c->group[i].change, "slower"))
            worst = &c->group[i];
    return worst;
}

bool comparison_verdict(const struct comparison *c, const struct compare_options *options, struct error *e)
{
    const struct compare_row *worst = first_worse(c);
    if (worst)
        return error_set(e, ERROR_REGRESSION,
                         "%d of %d points slower by more than %g %%, most '%.160s': %.3g times (%.3g to %.3g)", c->n_slower,
                         c->n_pairs, 100 * options->threshold, worst->key, worst->ratio, worst->ratio_low,
                         worst->ratio_high);
    for (int32_t i = 0; i < c->n_pairs && c->n_broken; i++)
        if (!strcmp(c->row[i].change, "failed"))
            return error_set(e, ERROR_REGRESSION, "%d of %d points failed that did not, first '%.160s'", c->n_broken,
                             c->n_pairs, c->row[i].key);
    return true;
}
