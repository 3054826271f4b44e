#include "bench/survey.h"

#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What a column of the table of rates shows.
struct memory_column {
    const char *what;
    int32_t threads, page_KiB;
};

// The best of a set, whatever the loop; NaN if there is none.
static double best_of(const struct survey *s, const struct memory_column *c, int64_t set_bytes)
{
    double best = NAN;
    for (int32_t i = 0; i < s->n; i++) {
        const struct survey_row *r = &s->series[i].row;
        if (!strcmp(r->quantity, "memory") && !strcmp(r->what, c->what) && r->threads == c->threads &&
            r->page_KiB == c->page_KiB && llabs(r->set_bytes - set_bytes) < set_bytes / 8)
            best = r->value > best || isnan(best) ? r->value : best;
    }
    return best;
}

static int32_t most_threads(const struct survey *s)
{
    int32_t most = 1;
    for (int32_t i = 0; i < s->n; i++)
        most = s->series[i].row.threads > most ? (int32_t)s->series[i].row.threads : most;
    return most;
}

static void print_cell(FILE *f, double value, double unit)
{
    if (isnan(value))
        fprintf(f, " %9s", "-");
    else
        fprintf(f, " %9.*f", value / unit < 100 ? 1 : 0, value / unit);
}

static void print_memory(FILE *f, const struct survey *s, int32_t all)
{
    const struct memory_column column[] = {{"read", 1, 2048},   {"read", all, 2048},  {"read", all, 4},
                                           {"copy", all, 2048}, {"triad", all, 2048}, {"memcpy", all, 2048}};
    enum { N = sizeof column / sizeof *column };
    fprintf(f, "\nGB/s by the size of what is gone over again and again (copy, triad: read and written)\n  %-9s", "set");
    for (int i = 0; i < N; i++)
        fprintf(f, " %9s", column[i].what);
    fprintf(f, "\n  %-9s", "");
    for (int i = 0; i < N; i++) {
        char head[24];
        snprintf(head, sizeof head, column[i].page_KiB > 4 ? "%dt" : "%dt 4 KiB", column[i].threads);
        fprintf(f, " %9s", head);
    }
    fprintf(f, "\n");
    for (int64_t set = 32 << 10; set <= (int64_t)1 << 30; set *= 2) {
        char size[24];
        if (isnan(best_of(s, &column[1], set)))
            continue;
        snprintf(size, sizeof size, set < 1 << 20 ? "%d KiB" : "%d MiB", (int)(set < 1 << 20 ? set >> 10 : set >> 20));
        fprintf(f, "  %-9s", size);
        for (int i = 0; i < N; i++)
            print_cell(f, best_of(s, &column[i], set), 1e9);
        fprintf(f, "\n");
    }
}

// The row that is alike but for threads (and width).
static double alike(const struct survey *s, const struct survey_row *r, int32_t threads, int64_t bits)
{
    for (int32_t i = 0; i < s->n; i++) {
        const struct survey_row *o = &s->series[i].row;
        if (!strcmp(r->quantity, o->quantity) && !strcmp(r->what, o->what) && !strcmp(r->how, o->how) &&
            o->threads == threads && (bits == RESULT_UNKNOWN || o->bits == bits))
            return o->value;
    }
    return NAN;
}

static bool is_first(const struct survey *s, int32_t i)
{
    const struct survey_row *r = &s->series[i].row;
    for (int32_t k = 0; k < i; k++) {
        const struct survey_row *o = &s->series[k].row;
        if (!strcmp(r->quantity, o->quantity) && !strcmp(r->what, o->what) && !strcmp(r->how, o->how))
            return false;
    }
    return true;
}

static void print_arithmetic(FILE *f, const struct survey *s, int32_t all)
{
    static const int64_t BITS[] = {128, 256, 512};
    fprintf(f, "\nGFLOP/s (GOP/s) in registers, by width of the vectors\n  %-24s %9s %9s %9s  %d thread%s, widest\n", "",
            "128 bit", "256 bit", "512 bit", (int)all, all > 1 ? "s" : "");
    for (int32_t i = 0; i < s->n; i++) {
        const struct survey_row *r = &s->series[i].row;
        if (strcmp(r->quantity, "arithmetic") || !is_first(s, i))
            continue;
        fprintf(f, "  %-6s %-17s", r->what, r->how);
        for (int b = 0; b < 3; b++)
            print_cell(f, alike(s, r, 1, BITS[b]), 1e9);
        double widest = NAN;
        for (int b = 0; b < 3; b++)
            widest = isnan(alike(s, r, all, BITS[b])) ? widest : alike(s, r, all, BITS[b]);
        fprintf(f, "  ");
        print_cell(f, widest, 1e9);
        fprintf(f, "\n");
    }
}

static void print_other(FILE *f, const struct survey *s, const char *quantity, const char *title, double unit, int32_t all)
{
    bool both = all > 1 && strcmp(quantity, "file");
    fprintf(f, "\n%s\n", title);
    if (both)
        fprintf(f, "  %-34s %9s %8dt\n", "", "1t", (int)all);
    for (int32_t i = 0; i < s->n; i++) {
        const struct survey_row *r = &s->series[i].row;
        char name[64];
        if (strcmp(r->quantity, quantity) || !is_first(s, i))
            continue;
        snprintf(name, sizeof name, "%.12s%s%.40s", r->what, *r->what && *r->how ? " " : "", r->how);
        fprintf(f, "  %-34s", name);
        if (*r->note) {
            fprintf(f, " %s\n", r->note);
            continue;
        }
        print_cell(f, alike(s, r, 1, RESULT_UNKNOWN), unit);
        if (both)
            print_cell(f, alike(s, r, all, RESULT_UNKNOWN), unit);
        fprintf(f, "\n");
    }
}

void survey_print(FILE *f, const struct survey *s)
{
    int32_t all = most_threads(s);
    print_memory(f, s, all);
    print_arithmetic(f, s, all);
    print_other(
        f, s, "gemm",
        "GFLOP/s of matrix products (512 rows, 1024 x 3072; kvbench: a layer's), beside the ceilings and none themselves",
        1e9, all);
    print_other(f, s, "team", "Nanoseconds of a team's fork and join, and of a barrier", 1, all);
    print_other(f, s, "file", "GB/s of a file of 192 MiB; what is written directly is on the device", 1e9, all);
}
