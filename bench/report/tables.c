// The tables of a result: points, verdicts, ceilings, machine; and what each column means.
#include "bench/report/report.h"

#include "bench/explain.h"
#include "bench/html.h"
#include "bench/rows.h"
#include "bench/trust.h"
#include "engine/base/units.h"

#include <math.h>
#include <string.h>

static void put_cell(FILE *f, const char *classes, const char *text)
{
    fprintf(f, "<td%s%s%s>", *classes ? " class=\"" : "", classes, *classes ? "\"" : "");
    html_text(f, text);
    fputs("</td>", f);
}

static void put_number_cell(FILE *f, double v)
{
    char number[32];
    put_cell(f, "r", html_number(v, number));
}

static void put_count_cell(FILE *f, int64_t v)
{
    char text[32] = "";
    if (v != RESULT_UNKNOWN)
        snprintf(text, sizeof text, "%lld", (long long)v);
    put_cell(f, "r", text);
}

// Points.

static void put_phase(FILE *f, const struct report_result *r, const struct report_point *p)
{
    fprintf(f, "<td><a href=\"#%s%d\">", r->letter, p->id);
    html_text(f, p->stored->result.phase);
    fputs("</a></td>", f);
}

static void put_batch(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_count_cell(f, p->stored->result.batch);
}

static void put_shape(FILE *f, const struct report_result *r, const struct report_point *p)
{
    char shape[64];
    (void)r;
    row_shape(&p->stored->result, shape);
    put_cell(f, "", shape);
}

static void put_model(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_cell(f, "", p->stored->result.model);
}

static void put_weights(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_cell(f, "", p->stored->result.weights);
}

static void put_kv(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_cell(f, "", p->kv);
}

static void put_backend(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_cell(f, "", p->stored->result.backend);
}

static void put_hardware(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_cell(f, "", p->stored->result.hardware);
}

static void put_threads(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_count_cell(f, p->stored->result.threads);
}

static void put_block(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_count_cell(f, p->stored->result.block);
}

static void put_median(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.median_ns / 1e6);
}

// Half of the median's 95 % interval, in percent of it.
static void put_interval(FILE *f, const struct report_result *r, const struct report_point *p)
{
    char text[32] = "";
    double half = 50 * (p->high - p->low) / p->ms;
    (void)r;
    if (isfinite(half))
        snprintf(text, sizeof text, "%.1f", half);
    put_cell(f, "r dim", text);
}

static void put_rate(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.tokens_per_s);
}

static void put_fraction(FILE *f, const struct report_result *r, const struct report_point *p)
{
    double share = report_of_roof(&p->stored->result);
    (void)r;
    if (!isfinite(share)) {
        put_cell(f, "r", "");
        return;
    }
    double width = share < 0 ? 0 : share > 1 ? 100 : 100 * share;
    fprintf(f, "<td class=\"r share\"><i style=\"--w:%.1f%%\"></i>%.0f</td>", width, 100 * share);
}

static void put_roof(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.roof_ns / 1e6);
}

static void put_pred(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.pred_ns / 1e6);
}

static void put_bound(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.bound_ns / 1e6);
}

static void put_GBps(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.effective_GBps);
}

static void put_GFLOPps(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    put_number_cell(f, p->stored->result.effective_GFLOPps);
}

// A word and a shape, so that colour is not alone in saying it.
static void put_verdict_mark(FILE *f, const char *verdict)
{
    static const char *const KNOWN[] = {"ok", "predicted", "reported", "failed", "over-bound"};
    static const char *const CLASS[] = {"ok", "pre", "pre", "bad", "bad"};
    static const char *const SIGN[] = {"\u25cf", "\u25c7", "\u25c6", "\u2715", "\u2715"};
    int k = 0;
    while (k < 5 && strcmp(verdict, KNOWN[k]))
        k++;
    fprintf(f, "<span class=\"v %s\"><b aria-hidden=\"true\">%s</b>", k < 5 ? CLASS[k] : "warn", k < 5 ? SIGN[k] : "\u25cb");
    html_text(f, *verdict ? verdict : "none");
    fputs("</span>", f);
}

static void put_verdict(FILE *f, const struct report_result *r, const struct report_point *p)
{
    (void)r;
    fputs("<td>", f);
    put_verdict_mark(f, p->stored->result.verdict);
    fputs("</td>", f);
}

static bool known(const struct column *column, const struct result *row)
{
    const void *at = (const char *)row + column->offset;
    switch (column->type) {
    case COLUMN_text: return *(const char *)at;
    case COLUMN_count: return *(const result_count *)at != RESULT_UNKNOWN;
    case COLUMN_real: return isfinite(*(const result_real *)at);
    case COLUMN_reals: return ((const result_reals *)at)->n > 0;
    }
    return false;
}

static const struct column *column_of(const char *name)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(column[i].name, name))
            return &column[i];
    return NULL;
}

// name: of the result's column whose description the heading has. A column is left out where no row knows `needs` (NULL:
// name), and one that `differs` where all rows have the same.
static const struct heading {
    const char *title, *name;
    bool number, differs;
    void (*put)(FILE *f, const struct report_result *r, const struct report_point *p);
    const char *needs;
} HEADING[] = {
    {"phase", "phase", false, false, put_phase, NULL},
    {"model", "model", false, true, put_model, NULL},
    {"engine", "backend", false, true, put_backend, NULL},
    {"hardware", "hardware", false, true, put_hardware, NULL},
    {"batch", "batch", true, false, put_batch, NULL},
    {"shape", "context", false, false, put_shape, NULL},
    {"weights", "weights", false, true, put_weights, NULL},
    {"KV", "type_k", false, false, put_kv, NULL},
    {"block", "block", true, true, put_block, NULL},
    {"threads", "threads", true, true, put_threads, NULL},
    {"ms", "median_ns", true, false, put_median, NULL},
    {"± %", "median_high_ns", true, false, put_interval, NULL},
    {"tokens/s", "tokens_per_s", true, false, put_rate, NULL},
    {"% of roof", "roof_fraction", true, false, put_fraction, "median_ns"},
    {"roof ms", "roof_ns", true, false, put_roof, NULL},
    {"pred ms", "pred_ns", true, false, put_pred, NULL},
    {"bound ms", "bound_ns", true, false, put_bound, NULL},
    {"GB/s", "effective_GBps", true, false, put_GBps, NULL},
    {"GFLOP/s", "effective_GFLOPps", true, false, put_GFLOPps, NULL},
    {"verdict", "verdict", false, false, put_verdict, NULL},
};
enum { N_HEADINGS = sizeof HEADING / sizeof *HEADING };

static bool same_value(const struct column *column, const struct result *a, const struct result *b)
{
    const char *x = (const char *)a + column->offset, *y = (const char *)b + column->offset;
    return column->type == COLUMN_text ? !strcmp(x, y) : !memcmp(x, y, sizeof(result_count));
}

static bool is_shown(const struct report_result *r, const struct heading *h)
{
    const struct column *column = column_of(h->needs ? h->needs : h->name);
    bool any = false, differ = false;
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        any |= known(column, &r->recorded.row[i].result);
        differ |= !same_value(column, &r->recorded.row[i].result, &r->recorded.row[0].result);
    }
    return any && (differ || !h->differs);
}

static void begin_table(FILE *f, const char *classes, const char *label)
{
    fprintf(f, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    html_text(f, label);
    fprintf(f, "\"><table class=\"%s\">", classes);
}

static void put_heading(FILE *f, const struct heading *h)
{
    fprintf(f, "<th scope=\"col\"%s title=\"", h->number ? " class=\"r\"" : "");
    html_text(f, column_of(h->name)->description);
    fprintf(f, "\">%s</th>", h->title);
}

void report_points(FILE *f, const struct report_result *r)
{
    bool shown[N_HEADINGS];
    begin_table(f, "sort filter", "every point");
    fputs("<thead><tr>", f);
    for (int k = 0; k < N_HEADINGS; k++) {
        shown[k] = is_shown(r, &HEADING[k]);
        if (shown[k])
            put_heading(f, &HEADING[k]);
    }
    fputs("</tr></thead>\n<tbody>", f);
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        fprintf(f, "<tr%s>", r->point[i].hollow ? " class=\"noisy\"" : "");
        for (int k = 0; k < N_HEADINGS; k++)
            if (shown[k])
                HEADING[k].put(f, r, &r->point[i]);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

// Verdicts: how many of each, then each that needs a word, with its reason.

static void put_counts(FILE *f, const struct report_result *r)
{
    fputs("<p class=\"counts\">", f);
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const char *verdict = r->recorded.row[i].result.verdict;
        int32_t n = 0, k = 0;
        while (k < i && strcmp(r->recorded.row[k].result.verdict, verdict))
            k++;
        for (int32_t m = i; k == i && m < r->recorded.n_rows; m++)
            n += !strcmp(r->recorded.row[m].result.verdict, verdict);
        if (!n)
            continue;
        fprintf(f, "%d ", n);
        put_verdict_mark(f, verdict);
        fputs(" ", f);
    }
    fputs("</p>\n", f);
}

// What the codes that occur say.
static void put_codes(FILE *f, const struct report_result *r)
{
    static const char *const SAYS[] = {
#define X(id, code, says) says,
        TRUST_CODES(X)
#undef X
    };
    unsigned all = 0;
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct result *row = &r->recorded.row[i].result;
        unsigned codes = 0;
        if (trust_codes_parse(*row->codes ? row->codes : row->verdict, &codes, NULL))
            all |= codes;
    }
    for (int code = 0; code < TRUST_CODE_COUNT; code++)
        if (all & 1u << code) {
            fputs("<p class=\"note\">", f);
            html_format(f, "%s: %s", trust_code_name((enum trust_code)code), SAYS[code]);
            fputs("</p>\n", f);
        }
}

void report_verdicts(FILE *f, const struct report_result *r)
{
    bool any = false;
    char unchecked[EXPLAIN_TEXT];
    put_counts(f, r);
    put_codes(f, r);
    if (explain_unchecked(r->recorded.row, r->recorded.n_rows, unchecked)) {
        fputs("<p class=\"note\">", f);
        html_text(f, unchecked);
        fputs("</p>\n", f);
    }
    for (int32_t i = 0; i < r->recorded.n_rows; i++) {
        const struct result *row = &r->recorded.row[i].result;
        if (!*row->reason)
            continue;
        fprintf(f, "%s<li><a href=\"#%s%d\">", any ? "" : "<ul class=\"reasons\">", r->letter, i);
        html_text(f, row->key);
        fputs("</a> ", f);
        put_verdict_mark(f, row->verdict);
        fputs(" <span>", f);
        html_text(f, row->reason);
        fputs("</span></li>\n", f);
        any = true;
    }
    fputs(any ? "</ul>\n" : "", f);
    const cJSON *notes = json_member(r->recorded.meta, "notes");
    for (const cJSON *m = cJSON_IsArray(notes) ? notes->child : NULL; m; m = m->next)
        if (cJSON_IsString(m)) {
            fputs("<p class=\"note\">", f);
            html_text(f, m->valuestring);
            fputs("</p>\n", f);
        }
}

// Ceilings.

static void put_ceiling(FILE *f, const struct hardware *hw, bool several, const char *what, enum roof_kind kind,
                        const struct hw_value *v, const char *unit)
{
    char rate[32], spread[32] = "";
    if (!(v->value > 0))
        return;
    if (v->spread > 0)
        snprintf(spread, sizeof spread, "%.1f", 100 * v->spread);
    fputs("<tr>", f);
    if (several)
        put_cell(f, "", hw->name);
    put_cell(f, "", what);
    put_cell(f, "", roof_kind_name(kind));
    put_cell(f, "r", html_rate(v->value, unit, rate));
    put_cell(f, "r dim", v->median > 0 ? html_rate(v->median, unit, rate) : "");
    fputs("<td class=\"wrap\">", f);
    html_text(f, v->method);
    fputs(*v->source ? " <span class=\"dim\">" : "", f);
    html_text(f, v->source);
    fputs(*v->source ? "</span></td>" : "</td>", f);
    put_count_cell(f, v->n > 0 ? v->n : RESULT_UNKNOWN);
    put_cell(f, "r", spread);
    put_cell(f, "", v->date);
    fputs("</tr>\n", f);
}

static void put_ceilings(FILE *f, const struct hardware *hw, bool several)
{
    for (enum roof_kind kind = 0; kind < ROOF_KINDS; kind++) {
        put_ceiling(f, hw, several, "read bandwidth", kind, &hw->bandwidth[kind], "B/s");
        for (int t = 0; t < DTYPE_COUNT; t++) {
            char what[64];
            snprintf(what, sizeof what, "arithmetic in %.32s", dtype_name((enum dtype)t));
            put_ceiling(f, hw, several, what, kind, &hw->peak[kind][t], "FLOP/s");
        }
    }
    for (int32_t i = 0; i < hw->n_levels; i++) {
        char what[64], size[24];
        snprintf(what, sizeof what, "read from %.16s, %s", hw->level[i].name, format_bytes(hw->level[i].bytes, size));
        put_ceiling(f, hw, several, what, ROOF_ATTAINABLE, &hw->level[i].bandwidth, "B/s");
    }
}

void report_ceilings(FILE *f, const struct report_result *r)
{
    if (!r->n_hw) {
        fputs("<p class=\"none\">No ceilings are recorded beside these rows.</p>\n", f);
        return;
    }
    begin_table(f, "sort", "ceilings");
    fputs(r->n_hw > 1 ? "<thead><tr><th scope=\"col\">machine</th>" : "<thead><tr>", f);
    fputs("<th scope=\"col\">ceiling</th><th scope=\"col\">kind</th>"
          "<th scope=\"col\" class=\"r\">value</th><th scope=\"col\" class=\"r\">median</th><th "
          "scope=\"col\">method</th><th scope=\"col\" class=\"r\">n</th>"
          "<th scope=\"col\" class=\"r\">spread %</th><th scope=\"col\">date</th></tr></thead>\n<tbody>",
          f);
    for (int32_t i = 0; i < r->n_hw; i++)
        put_ceilings(f, &r->hw[i], r->n_hw > 1);
    fputs("</tbody></table></div>\n", f);
    for (int32_t i = 0; i < r->n_hw; i++) {
        const struct hardware *hw = &r->hw[i];
        fputs("<p class=\"note\">", f);
        html_format(f, "%s: %s%s%s", hw->name, *hw->title ? hw->title : hw->name, *hw->note ? "; " : "", hw->note);
        fputs("</p>\n", f);
    }
}

// The record of the machine: whatever it holds, by its own names.

static void put_json_value(FILE *f, const cJSON *m)
{
    if (cJSON_IsString(m)) {
        html_text(f, m->valuestring);
    } else if (cJSON_IsNumber(m)) {
        html_format(f, m->valuedouble == floor(m->valuedouble) ? "%.0f" : "%.4g", m->valuedouble);
    } else if (cJSON_IsBool(m)) {
        fputs(cJSON_IsTrue(m) ? "yes" : "no", f);
    } else if (cJSON_IsNull(m)) {
        fputs("<span class=\"dim\">not known</span>", f);
    } else if (cJSON_IsArray(m)) {
        for (const cJSON *k = m->child; k; k = k->next) {
            put_json_value(f, k);
            fputs(k->next ? ", " : "", f);
        }
    } else {
        char *text = cJSON_PrintUnformatted(m);
        html_text(f, text ? text : "");
        cJSON_free(text);
    }
}

// Bytes are also said in binary units.
static void put_size(FILE *f, const cJSON *m)
{
    size_t n = strlen(m->string);
    char size[24];
    if (cJSON_IsNumber(m) && n > 6 && !strcmp(m->string + n - 6, "_bytes") && m->valuedouble >= 1024 &&
        m->valuedouble < 1e18)
        fprintf(f, " <span class=\"dim\">%s</span>", format_bytes((uint64_t)m->valuedouble, size));
}

static void put_facts(FILE *f, const cJSON *object)
{
    fputs("<dl class=\"facts\">", f);
    for (const cJSON *m = cJSON_IsObject(object) ? object->child : NULL; m; m = m->next) {
        bool lengthy = cJSON_IsString(m) && strlen(m->valuestring) > 160;
        fputs("<div><dt>", f);
        html_text(f, m->string);
        fputs(lengthy ? "</dt><dd><details><summary>all</summary>" : "</dt><dd>", f);
        put_json_value(f, m);
        put_size(f, m);
        fputs(lengthy ? "</details></dd></div>\n" : "</dd></div>\n", f);
    }
    fputs("</dl>\n", f);
}

void report_machine(FILE *f, const struct report_result *r)
{
    static const char *const KEY[] = {"tool", "started", "finished", "scenario_hash", "scenario"};
    const cJSON *environment = json_member(r->recorded.meta, "environment");
    if (environment)
        put_facts(f, environment);
    else
        fputs("<p class=\"none\">No record of the machine lies beside these rows.</p>\n", f);
    for (size_t i = 0; i < sizeof KEY / sizeof *KEY; i++) {
        const cJSON *m = json_member(r->recorded.meta, KEY[i]);
        if (!m)
            continue;
        bool whole = cJSON_IsObject(m);
        fprintf(f, whole ? "<details class=\"record\"><summary>%s</summary>" : "<p class=\"note\">%s: ", KEY[i]);
        if (whole)
            put_facts(f, m);
        else
            put_json_value(f, m);
        fputs(whole ? "</details>\n" : "</p>\n", f);
    }
}

void report_columns(FILE *f)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    begin_table(f, "columns", "columns of the results");
    fputs("<thead><tr><th scope=\"col\">column</th><th scope=\"col\">unit</th><th "
          "scope=\"col\">meaning</th></tr></thead>\n<tbody>",
          f);
    for (int32_t i = 0; i < n; i++) {
        fputs("<tr>", f);
        put_cell(f, "code", column[i].name);
        put_cell(f, "dim", column[i].unit);
        put_cell(f, "wrap", column[i].description);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}
