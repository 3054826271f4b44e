#include "bench/survey.h"

#include "bench/store.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, MEMORY_LOOKS = 2, ARITHMETIC_LOOKS = 4, TEAM_LOOKS = 15, TEAM_ROUNDS = 200 };
enum { WINDOW_NS = 300 * 1000 };
#define MOST_SET ((uint64_t)256 << 20)
// Seconds that parts take, for the time that is left: of one team and page size in one round; of products, of files.
#define MEMORY_S 0.8
#define GEMM_S 2.0
#define FILES_S 3.0

static const struct column SURVEY[] = {
#define X(field, type, unit, description) {#field, unit, description, COLUMN_##type, offsetof(struct survey_row, field)},
    SURVEY_COLUMNS(X)
#undef X
};

const struct column *survey_columns(int32_t *n)
{
    *n = (int32_t)(sizeof SURVEY / sizeof *SURVEY);
    return SURVEY;
}

void survey_free(struct survey *s)
{
    free(s->series);
    *s = (struct survey){0};
}

bool survey_no_memory(struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for the rows of a survey");
}

static bool make_room(struct survey *s)
{
    int32_t capacity = s->capacity ? 2 * s->capacity : 256;
    if (s->n < s->capacity)
        return true;
    struct survey_series *grown = realloc(s->series, (size_t)capacity * sizeof *grown);
    if (!grown)
        return false;
    s->series = grown;
    s->capacity = capacity;
    return true;
}

struct survey_series *survey_next(struct survey *s, const char *quantity, const char *what, const char *how,
                                  const char *unit, int32_t threads)
{
    if (s->next < s->n)
        return &s->series[s->next++];
    if (!make_room(s))
        return NULL;
    s->next = ++s->n;
    struct survey_series *series = &s->series[s->n - 1];
    series->n = 0;
    series->row = (struct survey_row){.threads = threads,
                                      .bits = RESULT_UNKNOWN,
                                      .page_KiB = RESULT_UNKNOWN,
                                      .set_bytes = RESULT_UNKNOWN,
                                      .n = RESULT_UNKNOWN,
                                      .value = NAN,
                                      .median = NAN,
                                      .spread = NAN};
    snprintf(series->row.quantity, sizeof series->row.quantity, "%s", quantity);
    snprintf(series->row.what, sizeof series->row.what, "%s", what);
    snprintf(series->row.how, sizeof series->row.how, "%s", how);
    snprintf(series->row.unit, sizeof series->row.unit, "%s", unit);
    return series;
}

void survey_add(struct survey_series *series, double value)
{
    if (series->n < SURVEY_LOOKS)
        series->value[series->n++] = value;
}

bool survey_skip(struct survey *s, const char *quantity, const char *what, const char *how, const char *why, struct error *e)
{
    struct survey_series *series = survey_next(s, quantity, what, how, "", 0);
    if (!series)
        return survey_no_memory(e);
    series->row.threads = RESULT_UNKNOWN;
    snprintf(series->row.note, sizeof series->row.note, "%s", why);
    return true;
}

// Memory.

static const struct memory_loop {
    const char *how;
    struct probe_loop loop;
} LOOPS[] = {{"2 streams", {.action = PROBE_READ, .streams = 2}},
             {"4 streams", {.action = PROBE_READ, .streams = 4}},
             {"", {.action = PROBE_COPY}},
             {"past the cache", {.action = PROBE_COPY, .past_cache = true}},
             {"", {.action = PROBE_TRIAD}},
             {"past the cache", {.action = PROBE_TRIAD, .past_cache = true}},
             {"libc", {.action = PROBE_MEMCPY}}};

static void look_at_set(struct survey_series *series, struct probe_buffer *buffer, struct team *team, struct probe_loop loop)
{
    uint64_t bytes = (uint64_t)series->row.set_bytes;
    probe_window(buffer, team, loop, bytes, 0); // finds it cold
    for (int32_t i = 0; i < MEMORY_LOOKS; i++)
        survey_add(series, probe_window(buffer, team, loop, bytes, WINDOW_NS));
}

static bool look_at_loop(struct survey *s, struct team *team, struct probe_buffer *buffer, const struct memory_loop *loop,
                         int32_t page_KiB, struct error *e)
{
    struct curve c;
    curve_sizes(&c, team_size(team), probe_buffer_bytes(buffer));
    for (int32_t i = 0; i < c.n; i++) {
        const char *what = probe_action_name(loop->loop.action);
        struct survey_series *series = survey_next(s, "memory", what, loop->how, "B/s", team_size(team));
        if (!series)
            return survey_no_memory(e);
        series->row.page_KiB = page_KiB;
        series->row.set_bytes = (int64_t)c.bytes[i];
        look_at_set(series, buffer, team, loop->loop);
    }
    return true;
}

static bool look_at_memory(struct survey *s, struct team *team, int32_t page_KiB, struct error *e)
{
    struct probe_buffer *buffer;
    uint64_t bytes = ceilings_buffer_bytes(team);
    if (!probe_buffer_open(&buffer, team, bytes < MOST_SET ? bytes : MOST_SET, page_KiB > 4, e))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof LOOPS / sizeof *LOOPS; i++)
        ok = look_at_loop(s, team, buffer, &LOOPS[i], page_KiB, e);
    probe_buffer_close(buffer);
    return ok;
}

// Arithmetic and teams.

static bool look_at_arithmetic(struct survey *s, struct team *team, struct error *e)
{
    const struct probe_arithmetic *a;
    for (int32_t i = 0; (a = probe_arithmetic(i)); i++) {
        struct survey_series *series =
            survey_next(s, "arithmetic", dtype_name(a->type), a->instruction, "FLOP/s", team_size(team));
        if (!series)
            return survey_no_memory(e);
        series->row.bits = a->bits;
        for (int32_t k = 0; k < ARITHMETIC_LOOKS; k++)
            survey_add(series, probe_flops(team, a, WINDOW_NS));
    }
    return true;
}

static bool look_at_team(struct survey *s, struct team *team, struct error *e)
{
    static const struct {
        const char *what;
        double (*probe)(struct team *, int32_t);
    } COST[] = {{"fork+join", probe_fork_join}, {"barrier", probe_barrier}};
    for (int c = 0; c < 2; c++) {
        struct survey_series *series = survey_next(s, "team", COST[c].what, "", "ns", team_size(team));
        if (!series)
            return survey_no_memory(e);
        for (int32_t i = 0; i < TEAM_LOOKS; i++)
            survey_add(series, COST[c].probe(team, TEAM_ROUNDS));
    }
    return true;
}

// One thread, and all of them where that is more.
struct teams {
    struct team *team[2];
    int32_t n;
};

static bool open_teams(struct teams *t, const struct survey_options *o, struct error *e)
{
    *t = (struct teams){.n = 1};
    if (!team_open(&t->team[0], 1, o->cpu_list, e) || !team_open(&t->team[1], o->threads, o->cpu_list, e))
        return false;
    t->n = team_size(t->team[1]) > 1 ? 2 : 1;
    return true;
}

static void close_teams(struct teams *t)
{
    for (int i = 0; i < 2; i++)
        team_close(t->team[i]);
}

static void say(struct survey *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct survey *s, const char *format, ...)
{
    char text[160], left[24];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    progress_note(s->progress, "%s, %s left", text, format_seconds(progress_left_ns(s->progress) / 1e9, left));
}

// All of memory and arithmetic in each round, so that a neighbour who comes and goes meets some rounds only.
static bool look_round(struct survey *s, const struct teams *t, int32_t round, int32_t rounds, struct error *e)
{
    static const int32_t PAGES[] = {4, 2048};
    s->next = 0;
    for (int32_t i = 0; i < t->n; i++) {
        for (int page = 0; page < 2; page++) {
            say(s, "memory, threads: %d, pages of %d KiB, round %d/%d", team_size(t->team[i]), PAGES[page], round + 1,
                rounds);
            if (!look_at_memory(s, t->team[i], PAGES[page], e))
                return false;
            progress_done(s->progress, MEMORY_S * 1e9);
        }
        if (!look_at_arithmetic(s, t->team[i], e))
            return false;
    }
    return true;
}

static bool look_once(struct survey *s, const struct teams *t, const struct survey_options *o, struct error *e)
{
    for (int32_t i = 0; i < t->n; i++) {
        say(s, "matrix products, threads: %d", team_size(t->team[i]));
        if (!look_at_team(s, t->team[i], e) || !survey_gemm(s, t->team[i], o, e))
            return false;
        progress_done(s->progress, GEMM_S * 1e9);
    }
    say(s, "files in %s", o->folder);
    return survey_files(s, o->folder, e);
}

static void finish(struct survey_series *series)
{
    struct survey_row *row = &series->row;
    char now[32];
    if (!series->n)
        return;
    utc_now(now);
    snprintf(row->date, sizeof row->date, "%.10s", now);
    row->n = series->n;
    row->median = stats_median(series->value, series->n);
    row->value = strcmp(row->unit, "ns") ? stats_quantile(series->value, series->n, 1) : row->median;
    row->spread =
        (stats_quantile(series->value, series->n, 0.9) - stats_quantile(series->value, series->n, 0.1)) / row->median;
}

bool survey_run(struct survey *s, const struct survey_options *options, struct error *e)
{
    struct teams t;
    int32_t rounds = options->rounds ? options->rounds : ROUNDS;
    bool ok = open_teams(&t, options, e);
    progress_skip(s->progress, clock_ns() - s->progress->began_ns); // what was before says nothing of what comes
    progress_expect(s->progress, 1e9 * (t.n * (2 * rounds * MEMORY_S + GEMM_S) + FILES_S));
    for (int32_t i = 0; ok && i < rounds; i++)
        ok = look_round(s, &t, i, rounds, e);
    ok = ok && look_once(s, &t, options, e);
    for (int32_t i = 0; ok && i < s->n; i++)
        finish(&s->series[i]);
    close_teams(&t);
    return ok;
}

static bool add_ceiling(struct survey *s, const char *what, const char *unit, const struct hw_value *v, uint64_t bytes,
                        int32_t threads, struct error *e)
{
    if (!(v->value > 0))
        return true;
    s->next = s->n; // behind all others
    struct survey_series *series = survey_next(s, "ceiling", what, v->method, unit, threads);
    if (!series)
        return survey_no_memory(e);
    struct survey_row *row = &series->row;
    row->value = v->value, row->median = v->median, row->spread = v->spread, row->n = v->n;
    row->set_bytes = bytes ? (int64_t)bytes : RESULT_UNKNOWN;
    snprintf(row->date, sizeof row->date, "%s", v->date);
    return true;
}

bool survey_ceilings(struct survey *s, const struct hardware *hw, int32_t threads, struct error *e)
{
    bool ok = add_ceiling(s, "memory", "B/s", &hw->bandwidth[ROOF_ATTAINABLE], 0, threads, e);
    for (int32_t i = 0; ok && i < hw->n_levels; i++)
        ok = add_ceiling(s, hw->level[i].name, "B/s", &hw->level[i].bandwidth, hw->level[i].bytes, threads, e);
    for (int t = 0; ok && t < DTYPE_COUNT; t++)
        ok = add_ceiling(s, dtype_name((enum dtype)t), "FLOP/s", &hw->peak[ROOF_ATTAINABLE][t], 0, threads, e);
    return ok;
}

cJSON *survey_json(const struct survey *s)
{
    int32_t n;
    const struct column *column = survey_columns(&n);
    cJSON *list = cJSON_CreateArray();
    for (int32_t i = 0; i < s->n; i++)
        cJSON_AddItemToArray(list, row_json(column, n, &s->series[i].row));
    return list;
}

void survey_csv(FILE *f, const struct survey *s)
{
    int32_t n;
    const struct column *column = survey_columns(&n);
    csv_header(f, column, n);
    for (int32_t i = 0; i < s->n; i++)
        csv_row(f, column, n, &s->series[i].row);
}
