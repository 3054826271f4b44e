// Several results side by side: points of the same shape in one row, each time over that of the first result.
#include "bench/report/chart.h"
#include "bench/report/report.h"

#include "bench/html.h"
#include "bench/rows.h"

#include <math.h>
#include <string.h>

// The same work: machine, threads, block size and engine may differ.
static bool same_work(const struct report_point *a, const struct report_point *b)
{
    const struct result *x = &a->stored->result, *y = &b->stored->result;
    return a->batch == b->batch && a->length == b->length && x->n_gen == y->n_gen && x->n_depth == y->n_depth &&
           x->cache == y->cache && !strcmp(x->phase, y->phase) && !strcmp(a->kv, b->kv) && !strcmp(x->weights, y->weights) &&
           !strcmp(x->model, y->model);
}

// What is compared: the measured time, or that of a prediction.
static double time_of(const struct report_point *p)
{
    return isfinite(p->ms) ? p->ms : p->roof;
}

static const struct report_point *find(const struct report_result *r, const struct report_point *like)
{
    for (int32_t i = 0; i < r->recorded.n_rows; i++)
        if (same_work(&r->point[i], like) && isfinite(time_of(&r->point[i])))
            return &r->point[i];
    return NULL;
}

static int32_t results_with(const struct report *r, const struct report_point *like)
{
    int32_t n = 0;
    for (int32_t k = 0; k < r->n; k++)
        n += find(&r->result[k], like) != NULL;
    return n;
}

// The first point of its work, over all results in order, if another result has it too.
static bool is_first(const struct report *r, int32_t result, int32_t point)
{
    const struct report_point *p = &r->result[result].point[point];
    if (!isfinite(time_of(p)) || results_with(r, p) < 2)
        return false;
    for (int32_t k = 0; k < result; k++)
        if (find(&r->result[k], p))
            return false;
    return find(&r->result[result], p) == p;
}

static int32_t count_shared(const struct report *r)
{
    int32_t n = 0;
    for (int32_t k = 0; k < r->n; k++)
        for (int32_t i = 0; i < r->result[k].recorded.n_rows; i++)
            n += is_first(r, k, i);
    return n;
}

// A result that shares no work with another has no columns.
static bool takes_part(const struct report *r, int32_t result)
{
    for (int32_t i = 0; i < r->result[result].recorded.n_rows; i++)
        if (isfinite(time_of(&r->result[result].point[i])) && results_with(r, &r->result[result].point[i]) > 1)
            return true;
    return !result;
}

static void put_text_cell(FILE *f, const char *text)
{
    fputs("<td>", f);
    html_text(f, text);
    fputs("</td>", f);
}

// A result's time, its share of the roof, and behind the first result its time over the first one's.
static void put_result(FILE *f, const struct report_point *p, const struct report_point *base, bool first)
{
    char number[32] = "", share[16] = "", ratio[16] = "";
    double of_roof = p ? report_of_roof(&p->stored->result) : NAN;
    if (isfinite(of_roof))
        snprintf(share, sizeof share, "%.0f", 100 * of_roof);
    if (p && base)
        snprintf(ratio, sizeof ratio, "%.2f", time_of(p) / time_of(base));
    fprintf(f, "<td class=\"r%s\">%s</td><td class=\"r dim\">%s</td>",
            !p                 ? ""
            : !isfinite(p->ms) ? " pre"
            : p->hollow        ? " it"
                               : "",
            p ? html_number(time_of(p), number) : "", share);
    if (!first)
        fprintf(f, "<td class=\"r\">%s</td>", ratio);
}

static void put_work(FILE *f, const struct report *r, const struct report_point *like)
{
    char shape[64];
    const struct report_point *base = find(&r->result[0], like);
    row_shape(&like->stored->result, shape);
    fputs("<tr>", f);
    put_text_cell(f, like->stored->result.model);
    put_text_cell(f, like->stored->result.phase);
    fprintf(f, "<td class=\"r\">%lld</td>", (long long)like->batch);
    put_text_cell(f, shape);
    put_text_cell(f, like->stored->result.weights);
    put_text_cell(f, like->kv);
    for (int32_t k = 0; k < r->n; k++)
        if (takes_part(r, k))
            put_result(f, find(&r->result[k], like), base, !k);
    fputs("</tr>\n", f);
}

static void put_headings(FILE *f, const struct report *r)
{
    fputs("<thead><tr><th scope=\"col\">model</th><th scope=\"col\">phase</th><th scope=\"col\" class=\"r\">batch</th>"
          "<th scope=\"col\">shape</th><th scope=\"col\">weights</th><th scope=\"col\">KV</th>",
          f);
    for (int32_t k = 0; k < r->n; k++) {
        const char *letter = r->result[k].letter;
        if (!takes_part(r, k))
            continue;
        fprintf(f, "<th scope=\"col\" class=\"r\">%s ms</th><th scope=\"col\" class=\"r\">%s %% of roof</th>", letter,
                letter);
        if (k)
            fprintf(f, "<th scope=\"col\" class=\"r\">%s / A</th>", letter);
    }
    fputs("</tr></thead>\n<tbody>", f);
}

static void put_table(FILE *f, const struct report *r)
{
    fputs("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"results side by side\"><table class=\"sort "
          "filter\">",
          f);
    put_headings(f, r);
    for (int32_t k = 0; k < r->n; k++)
        for (int32_t i = 0; i < r->result[k].recorded.n_rows; i++)
            if (is_first(r, k, i))
                put_work(f, r, &r->result[k].point[i]);
    fputs("</tbody></table></div>\n", f);
}

// Each other result's times over those of the first.
static void draw_chart(FILE *f, const struct report *r)
{
    struct chart c = {.title = "The same work, each result against A",
                      .x = {.label = "A, ms", .log = true},
                      .y = {.label = "the other, ms", .log = true},
                      .diagonal = true,
                      .legend = true};
    snprintf(c.note, sizeof c.note, "below the line is faster than A");
    for (int32_t k = 1; k < r->n; k++) {
        const struct report_result *other = &r->result[k];
        struct chart_line *l = chart_add_line(&c, other->letter, CHART_MARKS, chart_ramp(k - 1, r->n - 1), k - 1);
        for (int32_t i = 0; i < r->result[0].recorded.n_rows; i++) {
            const struct report_point *a = &r->result[0].point[i], *b = find(other, a);
            if (b)
                chart_add_point(l, (struct chart_point){.x = time_of(a),
                                                        .y = time_of(b),
                                                        .low = b->low,
                                                        .high = b->high,
                                                        .hollow = a->hollow || b->hollow,
                                                        .tip = b->tip});
        }
    }
    chart_draw(f, &c);
    chart_free(&c);
}

void report_compare(FILE *f, const struct report *r)
{
    if (r->n < 2)
        return;
    int32_t shared = count_shared(r);
    fputs("<section id=\"compare\"><h2>Side by side</h2>\n", f);
    fprintf(f,
            "<p class=\"how\">%d shape%s of work occur%s in more than one result: model, phase, batch, shape, weights and "
            "KV agree. A "
            "ratio below 1 is faster than A, ◇ marks what is predicted, italics what is not ok.</p>\n",
            shared, shared == 1 ? "" : "s", shared == 1 ? "s" : "");
    if (shared) {
        fputs("<div class=\"pictures\">", f);
        draw_chart(f, r);
        fputs("</div>\n", f);
        put_table(f, r);
    }
    fputs("</section>\n", f);
}
