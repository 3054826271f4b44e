// kvbench report: results as one self-contained HTML page.
#include "bench/command.h"

#include "bench/output_file.h"
#include "bench/report/report.h"

#include <stdlib.h>
#include <string.h>

// Beside the first result.
static const char *default_path(const struct report *r, char out[640])
{
    const struct recorded *first = &r->result[0].recorded;
    const char *slash = strrchr(first->path, '/');
    snprintf(out, 640, "%.*s%s.html", slash ? (int)(slash - first->path) + 1 : 0, first->path, first->name);
    return out;
}

static bool write_page(const struct report *r, const char *path, struct error *e)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return error_set(e, ERROR_MEMORY, "no memory for the page");
    report_write(f, r);
    bool ok = !fclose(f) || error_set(e, ERROR_MEMORY, "no memory for the page");
    if (ok && !strcmp(path, "-"))
        fputs(text, stdout);
    else if (ok)
        ok = write_file(path, text, e);
    free(text);
    return ok;
}

bool cmd_report(const struct options *o, struct error *e)
{
    struct report r;
    char beside[640];
    if (o->n_args < 1 || o->n_args > 26)
        return error_set(e, ERROR_USAGE, "report of what? expected 1 to 26 results, such as results/cpu.jsonl");
    if (!report_open(&r, o->arg, o->n_args, e))
        return false;
    const char *path = o->has_out ? o->out : default_path(&r, beside);
    bool ok = write_page(&r, path, e);
    if (ok && strcmp(path, "-"))
        printf("%s\n", path);
    report_close(&r);
    return ok;
}
