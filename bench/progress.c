#include "bench/progress.h"

#include "engine/base/units.h"

#include <stdarg.h>
#include <unistd.h>

// Lines that do not stay are not repeated faster than this where nothing can be redrawn.
enum { QUIET_NS = 5 };
// The weight of the first estimate against what points really took, as a share of the whole.
#define PRIOR 0.1

const char *format_seconds(double seconds, char buffer[24])
{
    if (seconds < 99.5)
        snprintf(buffer, 24, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(buffer, 24, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(buffer, 24, "%.0f h %02d min", seconds / 3600 < 1e6 ? (double)(int)(seconds / 3600) : 1e6,
                 (int)(seconds < 1e9 ? (long)seconds / 60 % 60 : 0));
    return buffer;
}

void progress_begin(struct progress *p, FILE *f, int32_t n_points, double expected_ns)
{
    *p = (struct progress){.f = f, .n_points = n_points, .expected_ns = expected_ns, .began_ns = clock_ns()};
    p->terminal = f && isatty(fileno(f));
}

void progress_expect(struct progress *p, double left_ns)
{
    p->expected_ns = p->done_ns + left_ns;
}

void progress_done(struct progress *p, double expected_ns)
{
    p->done_ns += expected_ns;
}

void progress_skip(struct progress *p, int64_t ns)
{
    p->began_ns += ns;
}

// What was expected counts as evidence, too, so that the first points do not turn the estimate over.
double progress_left_ns(const struct progress *p)
{
    double took = (double)(clock_ns() - p->began_ns), left = p->expected_ns - p->done_ns;
    double prior = PRIOR * p->expected_ns;
    return left > 0 ? left * (took + prior) / (p->done_ns + prior) : 0;
}

static void line_begin(struct progress *p)
{
    fputs(p->terminal ? "\r\033[K" : "", p->f);
    fputs("kvbench: ", p->f);
    p->printed_ns = clock_ns();
}

static void line_end(struct progress *p, bool stays)
{
    fputs(p->terminal && !stays ? "" : "\n", p->f);
    fflush(p->f);
}

void progress_note(struct progress *p, const char *format, ...)
{
    if (!p->f)
        return;
    va_list args;
    va_start(args, format);
    line_begin(p);
    vfprintf(p->f, format, args);
    line_end(p, false);
    va_end(args);
}

void progress_point(struct progress *p, int32_t index, const char *key, int32_t block, int32_t n_blocks, double median_ns,
                    bool finished)
{
    char took[24], left[24];
    double left_ns = progress_left_ns(p);
    bool soon = clock_ns() - p->printed_ns < (int64_t)QUIET_NS * 1000000000;
    if (!p->f || (!p->terminal && !finished && soon))
        return;
    line_begin(p);
    fprintf(p->f, "point %d/%d %s", index + 1, p->n_points, key);
    if (!finished)
        fprintf(p->f, " block %d/%d", block + 1, n_blocks);
    if (median_ns > 0)
        fprintf(p->f, "  %s", format_ns(median_ns, took));
    if (left_ns > 0)
        fprintf(p->f, "  %s left", format_seconds(left_ns / 1e9, left));
    line_end(p, false);
}

void progress_end(struct progress *p)
{
    if (p->f && p->terminal && p->printed_ns) {
        fputs("\r\033[K", p->f);
        fflush(p->f);
    }
}
