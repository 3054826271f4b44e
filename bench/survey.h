// Everything that `kvbench ceilings` looks at, beyond what roofs are made of: the rates of reads, copies and triads by the
// size of the set, with one and all threads and small and large pages; arithmetic by instruction and width; matrix products
// of libraries and of the engine, which stand beside and are no ceilings; what a team's fork and join cost; files.
#ifndef BENCH_SURVEY_H
#define BENCH_SURVEY_H

#include "bench/ceilings.h"
#include "bench/progress.h"
#include "bench/results.h"

// field, type, unit, description
#define SURVEY_COLUMNS(X)                                                                                                   \
    X(quantity, text, "", "memory, arithmetic, gemm, team or file; ceiling: what roofs are made of")                        \
    X(what, text, "",                                                                                                       \
      "memory: read, copy, triad or memcpy; arithmetic and gemm: the type; team: fork+join or barrier; file: read or "      \
      "write")                                                                                                              \
    X(how, text, "", "instruction, library, stores past the cache, streams; file: direct or cached")                        \
    X(threads, count, "", "threads at work")                                                                                \
    X(bits, count, "bits", "arithmetic: width of a vector")                                                                 \
    X(page_KiB, count, "KiB", "memory: pages")                                                                              \
    X(set_bytes, count, "B", "memory: what all threads together go over again and again; file: its size")                   \
    X(value, real, "as unit", "the best of n (of team: the median)")                                                        \
    X(unit, text, "", "B/s (read and written), FLOP/s or ns")                                                               \
    X(n, count, "", "measurements")                                                                                         \
    X(median, real, "as unit", "of them")                                                                                   \
    X(spread, real, "", "(p90 - p10) / median")                                                                             \
    X(date, text, "", "YYYY-MM-DD")                                                                                         \
    X(note, text, "", "why there is no value")

struct survey_row {
#define X(field, type, unit, description) result_##type field;
    SURVEY_COLUMNS(X)
#undef X
};
const struct column *survey_columns(int32_t *n);

enum { SURVEY_LOOKS = 64 };
struct survey_series {
    struct survey_row row;
    int32_t n; // measured
    double value[SURVEY_LOOKS];
};

struct survey {
    struct survey_series *series; // [n]
    int32_t n, capacity, next;    // next: whose turn it is in this round
    struct progress *progress;
};

struct survey_options {
    int32_t threads;      // 0: one per allowed CPU; one thread is looked at, too
    const char *cpu_list; // or NULL
    const char *folder;   // where files are written for a moment
    int32_t rounds;       // moments at which memory and arithmetic are looked at; 0: 3
};

// A part that cannot be looked at here (no space, no library) becomes a row with a note; false if memory or threads fail.
bool survey_run(struct survey *s, const struct survey_options *options, struct error *e);
void survey_free(struct survey *s); // accepts zeroed

// The next series of this round, a new one in the first; its row says no more than this. NULL without memory. Valid until
// the next one is asked for.
struct survey_series *survey_next(struct survey *s, const char *quantity, const char *what, const char *how,
                                  const char *unit, int32_t threads);
void survey_add(struct survey_series *series, double value); // what is too much for it is left out
// A row that says why it has no value.
bool survey_skip(struct survey *s, const char *quantity, const char *what, const char *how, const char *why,
                 struct error *e);
// The ceilings of hw as rows, so that a table of the survey says all: what is "memory", "L3" (set_bytes: what it holds), a
// type.
bool survey_ceilings(struct survey *s, const struct hardware *hw, int32_t threads, struct error *e);
bool survey_no_memory(struct error *e);

// The parts (survey_gemm.c, survey_file.c).
bool survey_gemm(struct survey *s, struct team *team, const struct survey_options *options, struct error *e);
bool survey_files(struct survey *s, const char *folder, struct error *e);

// Tables for people: rates by size of the set, then the rest. threads: of the whole team.
void survey_print(FILE *f, const struct survey *s);

cJSON *survey_json(const struct survey *s); // a list of rows; the caller frees it
void survey_csv(FILE *f, const struct survey *s);

#endif
