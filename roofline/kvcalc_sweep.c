// kvcalc --sweep context|batch [--plot FILE]: one question at many contexts or batches, as a table and as a picture.
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ROWS = 64, FIRST_CONTEXT = 256 };

struct sweep_row {
    int32_t context, batch, max_requests;
    double bound_ms, tokens_per_s, kv_read_share;
};

struct sweep {
    struct sweep_row row[MAX_ROWS];
    int32_t n;
};

static bool add_row(const struct question *q, int32_t context, int32_t batch, struct sweep *out, struct error *e)
{
    struct question at = *q; // shares the plans
    struct answer a;
    at.query.context = context, at.query.batch = batch;
    if (out->n == MAX_ROWS || !question_ask(&at, &a, e))
        return out->n == MAX_ROWS;
    const struct capacity *c = &a.capacity;
    double ns = c->bound_ns > 0 ? c->bound_ns : c->roof_total_ns;
    out->row[out->n++] = (struct sweep_row){.context = context,
                                            .batch = c->batch,
                                            .max_requests = c->max_requests,
                                            .bound_ms = ns / 1e6,
                                            .tokens_per_s = ns > 0 ? c->batch / ns * 1e9 : 0,
                                            .kv_read_share = c->kv_read_share};
    return true;
}

// Powers of two up to what the model was made for, and --context itself.
static bool sweep_context(const struct question *q, struct sweep *out, struct error *e)
{
    int32_t most =
        q->model.spec.max_position_embeddings > q->query.context ? q->model.spec.max_position_embeddings : q->query.context;
    for (int64_t n = FIRST_CONTEXT, before = 0; n / 2 < most; before = n, n *= 2) {
        int32_t here = q->query.context;
        if (here > before && here < n && !add_row(q, here, q->query.batch, out, e))
            return false;
        if (n <= most && !add_row(q, (int32_t)n, q->query.batch, out, e))
            return false;
    }
    return true;
}

// Powers of two up to what fits, and that.
static bool sweep_batch(const struct question *q, struct sweep *out, struct error *e)
{
    struct answer a;
    struct question full = *q;
    full.query.batch = 1;
    if (!question_ask(&full, &a, e))
        return false;
    int32_t most = q->query.batch ? q->query.batch : a.capacity.max_requests;
    for (int64_t n = 1; n <= most; n *= 2)
        if (!add_row(q, q->query.context, (int32_t)n, out, e))
            return false;
    bool power = (most & (most - 1)) == 0;
    return most < 1 || power || add_row(q, q->query.context, most, out, e);
}

static void print_table(const struct question *q, const struct sweep *s)
{
    printf("%s on %s, tp %" PRId32 ", KV %s: decode steps at their bounds\n", q->whole.model, q->hardware.title, q->types.tp,
           dtype_name(q->whole.kv_k));
    printf("%10s %10s %10s %12s %12s %9s\n", "context", "fit", "batch", "bound ms", "tokens/s", "KV share");
    for (int32_t i = 0; i < s->n; i++) {
        const struct sweep_row *r = &s->row[i];
        printf("%10" PRId32 " %10" PRId32, r->context, r->max_requests);
        if (r->batch)
            printf(" %10" PRId32 " %12.3f %12.1f %9.3f\n", r->batch, r->bound_ms, r->tokens_per_s, r->kv_read_share);
        else
            printf("  not one request fits beside the weights; more ranks (--tp) or smaller --weights\n");
    }
}

static bool print_json(const struct sweep *s)
{
    cJSON *rows = cJSON_CreateArray();
    for (int32_t i = 0; i < s->n; i++) {
        const struct sweep_row *r = &s->row[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "context", r->context);
        cJSON_AddNumberToObject(row, "max_requests", r->max_requests);
        cJSON_AddNumberToObject(row, "batch", r->batch);
        cJSON_AddNumberToObject(row, "bound_ns", r->bound_ms * 1e6);
        cJSON_AddNumberToObject(row, "tokens_per_s", r->tokens_per_s);
        cJSON_AddNumberToObject(row, "kv_read_share", r->kv_read_share);
        cJSON_AddItemToArray(rows, row);
    }
    char *text = cJSON_Print(rows);
    bool ok = text && puts(text) >= 0;
    free(text);
    cJSON_Delete(rows);
    return ok;
}

static bool check_picture(const char *path, const char **terminal, struct error *e)
{
    size_t n = strlen(path);
    const char *end = n > 4 ? path + n - 4 : "";
    *terminal = !strcmp(end, ".svg") ? "svg size 800,500 dynamic background 'white'" : "pngcairo size 800,500";
    if (strcmp(end, ".svg") && strcmp(end, ".png"))
        return error_set(e, ERROR_USAGE, "'--plot' is '%.200s', expected a name that ends in .svg or .png", path);
    if (strpbrk(path, "'\"\n\\"))
        return error_set(e, ERROR_USAGE, "'--plot': the name may hold no quotes, backslashes or line ends");
    return true;
}

static void write_script(FILE *f, const struct question *q, const struct sweep *s, bool by_context, const char *terminal,
                         const char *path)
{
    fprintf(f, "set terminal %s\nset output '%s'\n$rows << END\n", terminal, path);
    for (int32_t i = 0; i < s->n; i++)
        fprintf(f, "%d %g %g %g\n", by_context ? s->row[i].context : s->row[i].batch, s->row[i].bound_ms,
                s->row[i].tokens_per_s, 100 * s->row[i].kv_read_share);
    fprintf(
        f,
        "END\nset title \"%s on %s, tp %d: %s\" noenhanced\nset logscale x 2\nset xlabel '%s'\n"
        "set ylabel 'decode step, ms (bound)'\nset y2label 'KV reading, %% of bytes'\nset y2range [0:100]\n"
        "set yrange [0:*]\nset ytics nomirror\nset y2tics\nset key left top\nset grid\n"
        "plot $rows using 1:2 with linespoints title 'bound', $rows using 1:4 axes x1y2 with linespoints title 'KV share'\n",
        q->whole.model, q->hardware.title, q->types.tp, by_context ? "at full load" : "one context",
        by_context ? "context, tokens" : "requests per step");
}

// Runs gnuplot on a script. Whether it was found and content.
static bool run_gnuplot(char *script)
{
    char program[] = "gnuplot", *args[] = {program, script, NULL};
    pid_t child;
    int status = 1;
    return posix_spawnp(&child, program, NULL, NULL, args, environ) == 0 && waitpid(child, &status, 0) == child &&
           status == 0;
}

static bool plot(const struct question *q, const struct sweep *s, bool by_context, const char *path, struct error *e)
{
    const char *terminal;
    char script[] = "/tmp/kvcalc-XXXXXX";
    if (!check_picture(path, &terminal, e))
        return false;
    int file = mkstemp(script);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");
    if (!f)
        return error_set(e, ERROR_OUTPUT, "'--plot': '%s' could not be written", script);
    write_script(f, q, s, by_context, terminal, path);
    bool ok = fclose(f) == 0 && run_gnuplot(script);
    unlink(script);
    return ok || error_set(e, ERROR_OUTPUT, "'--plot': gnuplot is missing, or could not draw '%.200s'", path);
}

bool kvcalc_sweep(const struct options *o, struct question *q, struct error *e)
{
    struct sweep s = {.n = 0};
    bool by_context = !strcmp(o->sweep, "context");
    if (!by_context && strcmp(o->sweep, "batch"))
        return error_set(e, ERROR_USAGE, "'--sweep' is '%.40s', expected context or batch", o->sweep);
    if (!(by_context ? sweep_context : sweep_batch)(q, &s, e))
        return false;
    if (!s.n)
        return error_set(e, ERROR_UNSUPPORTED, "'--sweep': not one request fits");
    if (o->json && !print_json(&s))
        return error_set(e, ERROR_MEMORY, "no memory to print");
    if (!o->json)
        print_table(q, &s);
    return !o->plot || !*o->plot || plot(q, &s, by_context, o->plot, e);
}
