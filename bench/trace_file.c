#include "bench/trace_file.h"

#include "bench/output_file.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for a trace file");
}

bool trace_file_open(struct trace_file *t, const char *title, struct error *e)
{
    *t = (struct trace_file){0};
    t->f = open_memstream(&t->text, &t->size);
    if (!t->f)
        return no_memory(e);
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": ",
          t->f);
    json_write_text(t->f, title, strlen(title));
    fputs("}}", t->f);
    return true;
}

void trace_file_close(struct trace_file *t)
{
    if (t->f)
        fclose(t->f);
    free(t->text);
    *t = (struct trace_file){0};
}

// A complete event, its braces left open for args.
static void begin_slice(struct trace_file *t, const char *name, const char *category, int64_t begin_ns, int64_t end_ns)
{
    fputs(",\n{\"name\": ", t->f);
    json_write_text(t->f, name, strlen(name));
    fprintf(t->f, ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f", category,
            (double)(begin_ns - t->origin_ns) / 1e3, (double)(end_ns - begin_ns) / 1e3);
    t->n_events++;
}

static void write_step(struct trace_file *t, const struct batch *b, int64_t begin_ns, int64_t end_ns)
{
    char name[32];
    snprintf(name, sizeof name, "step %d", ++t->n_steps);
    begin_slice(t, name, "step", begin_ns, end_ns);
    fprintf(t->f, ", \"args\": {\"tokens\": %d, \"sequences\": %d, \"context\": %d}}", b->n_tokens, b->n_seqs,
            b->ctx_len[0]);
}

// Rows of one layer are adjacent.
static void write_layers(struct trace_file *t, const struct plan *plan, const struct trace *trace)
{
    for (int32_t i = 0, end; i < trace->n; i = end) {
        int layer = plan->op[trace->row[i].span.first].layer;
        int64_t last_ns = trace->row[i].end_ns;
        for (end = i + 1; end < trace->n && plan->op[trace->row[end].span.first].layer == layer; end++)
            last_ns = trace->row[end].end_ns > last_ns ? trace->row[end].end_ns : last_ns;
        if (layer < 0)
            continue;
        char name[32];
        snprintf(name, sizeof name, "layer %d", layer);
        begin_slice(t, name, "layer", trace->row[i].begin_ns, last_ns);
        fputs("}", t->f);
    }
}

static void label_of(const struct plan *plan, const struct span *span, char out[160])
{
    size_t n = 0;
    *out = 0;
    for (int32_t i = span->first; i < span->first + span->count && n < 160; i++)
        n += (size_t)snprintf(out + n, 160 - n, "%s%s", n ? "+" : "", op_label(plan, &plan->op[i]));
}

static struct op_price span_price(const struct op_price *ops, const struct span *span)
{
    struct op_price sum = {.limit = ops[span->first].limit};
    for (int32_t i = span->first; i < span->first + span->count; i++) {
        if (ops[i].roof_ns > sum.roof_ns - ops[i].roof_ns && ops[i].limit)
            sum.limit = ops[i].limit;
        sum.roof_ns += ops[i].roof_ns;
        cost_add(&sum.cost, &ops[i].cost);
    }
    return sum;
}

static void write_span(struct trace_file *t, const struct backend *backend, const struct plan *plan,
                       const struct trace_row *row, const struct op_price *ops)
{
    char label[160];
    const struct span *span = &row->span;
    struct op_price p = span_price(ops, span);
    const char *kernel = backend->kernel_name(backend->self, span->kernel);
    double ns = (double)(row->end_ns > row->begin_ns ? row->end_ns - row->begin_ns : 1);
    label_of(plan, span, label);
    begin_slice(t, label, "span", row->begin_ns, row->end_ns);
    fputs(", \"args\": {\"kernel\": ", t->f);
    json_write_text(t->f, kernel, strlen(kernel));
    fprintf(t->f, ", \"layer\": %d, \"operation\": %d, \"operations\": %d, \"part\": %d", plan->op[span->first].layer,
            span->first, span->count, row->part);
    fprintf(t->f, ", \"weight_bytes\": %llu, \"kv_read_bytes\": %llu, \"kv_write_bytes\": %llu, \"act_bytes\": %llu",
            (unsigned long long)p.cost.weight_bytes, (unsigned long long)p.cost.kv_read_bytes,
            (unsigned long long)p.cost.kv_write_bytes, (unsigned long long)p.cost.act_bytes);
    fprintf(t->f, ", \"flops\": %llu, \"GBps\": %.3f, \"GFLOPps\": %.3f", (unsigned long long)cost_flops(&p.cost),
            (double)cost_bytes(&p.cost) / ns, (double)cost_flops(&p.cost) / ns);
    if (p.roof_ns > 0)
        fprintf(t->f, ", \"roof_us\": %.3f, \"limit\": \"%s\"", p.roof_ns / 1e3, p.limit);
    fputs("}}", t->f);
}

// The executed cover: parts of a split span stand one after the other.
static int32_t cover_of(const struct trace *trace, struct span *spans)
{
    int32_t n = 0;
    for (int32_t i = 0; i < trace->n; i++)
        if (!n || trace->row[i].span.first != spans[n - 1].first)
            spans[n++] = trace->row[i].span;
    return n;
}

static bool price_ops(const struct plan *plan, const struct batch *batch, const struct hardware *hw,
                      const struct span *spans, int32_t n_spans, struct op_price *ops, struct error *e)
{
    struct cost_walk walk;
    if (hw)
        return roofline_price_ops(plan, batch, hw, spans, n_spans, ops, e);
    if (!cost_walk_init(&walk, plan, e))
        return false;
    bool ok = cost_walk_begin(&walk, batch, spans, n_spans, e);
    for (int32_t i = 0; ok && i < plan->n_ops && cost_walk_next(&walk, &ops[i].cost); i++)
        ;
    cost_walk_free(&walk);
    return ok;
}

bool trace_file_add(struct trace_file *t, const struct backend *backend, const struct plan *plan, const struct batch *batch,
                    const struct trace *trace, const struct hardware *hw, int64_t begin_ns, int64_t end_ns, struct error *e)
{
    struct span *spans = calloc((size_t)trace->n + 1, sizeof *spans);
    struct op_price *ops = calloc((size_t)plan->n_ops, sizeof *ops);
    bool ok = spans && ops ? price_ops(plan, batch, hw, spans, cover_of(trace, spans), ops, e) : no_memory(e);
    if (!t->n_steps)
        t->origin_ns = begin_ns;
    if (ok) {
        write_step(t, batch, begin_ns, end_ns);
        write_layers(t, plan, trace);
        for (int32_t i = 0; i < trace->n; i++)
            write_span(t, backend, plan, &trace->row[i], ops);
    }
    free(spans);
    free(ops);
    return ok;
}

bool trace_file_write(struct trace_file *t, const char *path, struct error *e)
{
    fputs("\n]}\n", t->f);
    bool written = !fflush(t->f) && !ferror(t->f);
    return written ? write_file(path, t->text, e) : no_memory(e);
}
