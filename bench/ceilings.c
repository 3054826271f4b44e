#include "bench/ceilings.h"

#include "bench/environment.h"
#include "bench/levels.h"
#include "bench/store.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "roofline/catalogue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_MOMENTS = 101, FLOPS_PROBE_NS = 3 * 1000 * 1000, READ_PROBE_NS = 2 * 1000 * 1000 };
enum { SELECT_READS = 3, LOOKS = 16 };            // reads by each loop to find the best; windows of a ceiling in one moment
enum { CURVE_LOOKS = 4, CURVE_LEAST = 16 << 10 }; // windows of a point of the curve; bytes of its smallest set per member
// A hypervisor takes a CPU away for some 50 us, up to 1500 times a second (a shared Zen 5 machine, 2026-11): windows of the
// best of which a ceiling is must fit between.
enum { WINDOW_NS = 300 * 1000 };
#define PAUSE_S 1.4        // seven moments span ten seconds
#define NOISY_CEILING 0.25 // of (p90 - p10) / median: more says that something else was at work
#define MIB ((uint64_t)1 << 20)

static const int32_t STREAMS[] = {1, 2, 4, 8};
static const enum dtype PEAK_TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};

struct loop {
    int32_t streams;
    bool huge_pages;
};

// How the note of a hardware file names the best read loop.
#define NOTE_FORMAT "read probe: %d streams, %d KiB pages"

static void write_note(struct hardware *hw, const struct team *team, struct loop loop)
{
    char nodes[64];
    environment_numa(team, nodes);
    snprintf(hw->note, sizeof hw->note, NOTE_FORMAT "; threads %s%s%s", loop.streams, loop.huge_pages ? 2048 : 4,
             team_cpu(team, 0) < 0 ? "not pinned" : "pinned", *nodes ? ", memory nodes " : "", nodes);
}

static struct loop read_note(const struct hardware *hw)
{
    int streams, kib;
    if (sscanf(hw->note, NOTE_FORMAT, &streams, &kib) != 2 || streams < 1 || streams > 8)
        return (struct loop){.streams = 4, .huge_pages = true};
    return (struct loop){.streams = streams, .huge_pages = kib > 4};
}

void ceiling_best_add(struct ceiling_best *b, double rate)
{
    if (rate > b->first) {
        b->second = b->first;
        b->first = rate;
    } else if (rate > b->second)
        b->second = rate;
}

void ceilings_date(char out[12])
{
    char now[32];
    utc_now(now);
    snprintf(out, 12, "%.10s", now);
}

// rate: one per moment.
static struct hw_value value_of(const double *rate, int32_t n)
{
    struct hw_value v = {.method = "measured", .n = n};
    struct ceiling_best best = {0};
    for (int32_t i = 0; i < n; i++)
        ceiling_best_add(&best, rate[i]);
    v.value = best.second;
    v.median = stats_median(rate, n);
    if (v.value > 0)
        v.spread = (stats_quantile(rate, n, 0.9) - stats_quantile(rate, n, 0.1)) / v.median;
    ceilings_date(v.date);
    return v;
}

bool ceiling_raise(struct hw_value *ceiling, struct ceiling_best *b)
{
    if (!(ceiling->value > 0) || b->second <= (1 + RAISE_SHARE) * ceiling->value)
        return false;
    b->was = b->was > 0 ? b->was : ceiling->value;
    ceiling->value = b->second;
    ceilings_date(ceiling->date);
    return true;
}

static double widest_spread(const struct hardware *hw, const char **of)
{
    const struct hw_value *read = &hw->bandwidth[ROOF_ATTAINABLE];
    double widest = strcmp(read->method, "measured") ? 0 : read->spread;
    *of = "read";
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const struct hw_value *peak = &hw->peak[ROOF_ATTAINABLE][t];
        if (!strcmp(peak->method, "measured") && peak->spread > widest)
            widest = peak->spread, *of = dtype_name((enum dtype)t);
    }
    return widest;
}

void ceilings_warning(const struct hardware *hw, char out[160])
{
    const char *of;
    double spread = widest_spread(hw, &of);
    *out = 0;
    if (spread > NOISY_CEILING)
        snprintf(out, 160,
                 "the ceilings of %.48s are uncertain (%s spread over %.0f %%); 'kvbench ceilings' measures them again",
                 hw->name, of, 100 * spread);
}

// Four times what the caches hold, or seem to (virtual machines see a part of them), so that reading it in turn finds
// nothing there; a quarter of the memory at most.
uint64_t ceilings_buffer_bytes(const struct team *team)
{
    uint64_t bytes = 4 * environment_cache_bytes(team), most = memory_available("") / 4;
    bytes = bytes < 256 * MIB ? 256 * MIB : bytes > 2048 * MIB ? 2048 * MIB : bytes;
    return bytes < most ? bytes : most;
}

static bool best_read_loop(struct team *team, bool huge_pages, double *best, struct loop *best_loop, struct error *e)
{
    struct probe_buffer *buffer;
    if (!probe_buffer_open(&buffer, team, ceilings_buffer_bytes(team), huge_pages, e))
        return false;
    for (size_t s = 0; s < sizeof STREAMS / sizeof *STREAMS; s++)
        for (int32_t i = 0; i < SELECT_READS; i++) {
            double rate = probe_read(buffer, team, 0, STREAMS[s]);
            if (rate > *best) {
                *best = rate;
                *best_loop = (struct loop){.streams = STREAMS[s], .huge_pages = huge_pages};
            }
        }
    probe_buffer_close(buffer);
    return true;
}

enum { N_PEAKS = sizeof PEAK_TYPES / sizeof *PEAK_TYPES };
struct moments {
    int32_t n;
    double read[MAX_MOMENTS], peak[N_PEAKS][MAX_MOMENTS];
    struct curve curve;                    // of the best rates
    double set[CURVE_POINTS][MAX_MOMENTS]; // of each point of the curve
};

static void sleep_s(double s)
{
    if (s > 0)
        nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)(1e9 * (s - (double)(time_t)s))}, NULL);
}

static double best_flops(struct team *team, enum dtype type)
{
    double best = 0;
    for (int32_t i = 0; i < LOOKS; i++) {
        double rate = probe_flops(team, probe_arithmetic_of(type), WINDOW_NS);
        best = rate > best ? rate : best;
    }
    return best;
}

double ceilings_best_window(struct probe_buffer *buffer, struct team *team, struct probe_loop loop, uint64_t bytes,
                            int32_t n, int64_t ns)
{
    double best = 0;
    for (int32_t i = 0; i < n; i++) {
        double rate = probe_window(buffer, team, loop, bytes, ns);
        best = rate > best ? rate : best;
    }
    return best;
}

// The first round finds it cold.
static double best_of_set(struct team *team, struct probe_buffer *buffer, int32_t streams, uint64_t bytes)
{
    const struct probe_loop wide = {.action = PROBE_READ, .streams = streams}, narrow = {.action = PROBE_READ, .streams = 2};
    probe_window(buffer, team, wide, bytes, 0);
    double a = ceilings_best_window(buffer, team, wide, bytes, CURVE_LOOKS, WINDOW_NS);
    double b = streams == 2 ? 0 : ceilings_best_window(buffer, team, narrow, bytes, CURVE_LOOKS, WINDOW_NS);
    return a > b ? a : b;
}

void curve_sizes(struct curve *c, int32_t n_members, uint64_t most)
{
    *c = (struct curve){0};
    for (double bytes = (double)CURVE_LEAST * n_members; bytes <= (double)most && c->n < CURVE_POINTS; bytes *= M_SQRT2)
        c->bytes[c->n++] = (uint64_t)bytes;
}

static void look_at(struct team *team, struct probe_buffer *buffer, struct loop loop, int32_t i, struct moments *m)
{
    m->read[i] = ceilings_best_window(buffer, team, (struct probe_loop){.action = PROBE_READ, .streams = loop.streams}, 0,
                                      LOOKS, WINDOW_NS);
    for (int32_t t = 0; t < N_PEAKS; t++)
        m->peak[t][i] = best_flops(team, PEAK_TYPES[t]);
    for (int32_t k = 0; k < m->curve.n; k++)
        m->set[k][i] = best_of_set(team, buffer, loop.streams, m->curve.bytes[k]);
}

// All ceilings in each moment, so that a neighbour who comes and goes meets some of the moments only.
static void look(struct team *team, struct probe_buffer *buffer, struct loop loop, double pause_s, struct moments *m)
{
    curve_sizes(&m->curve, team_size(team), probe_buffer_bytes(buffer));
    for (int32_t i = 0; i < m->n; i++) {
        int64_t begin = clock_ns();
        look_at(team, buffer, loop, i, m);
        if (i < m->n - 1)
            sleep_s(pause_s - (double)(clock_ns() - begin) / 1e9);
    }
}

// What caches give, by the curve; named after those the system knows of.
static void put_levels(struct hardware *hw, const struct team *team, struct moments *m)
{
    struct cache cache[ENVIRONMENT_CACHES];
    int32_t best[HARDWARE_LEVELS], n_caches = environment_caches(team, cache);
    for (int32_t k = 0; k < m->curve.n; k++)
        m->curve.rate[k] = value_of(m->set[k], m->n).value;
    hw->n_levels = levels_find(&m->curve, hw->bandwidth[ROOF_ATTAINABLE].value, hw->level, best);
    for (int32_t i = 0; i < hw->n_levels; i++)
        hw->level[i].bandwidth = value_of(m->set[best[i]], m->n);
    levels_name(hw->level, hw->n_levels, cache, n_caches);
}

// What says that two files are of the same machine with the same threads.
static void describe(struct hardware *hw, const struct team *team)
{
    char model[96], cpus[128];
    environment_cpu_model(model);
    environment_cpu_vendor(hw->vendor);
    environment_cpus(team, cpus);
    snprintf(hw->name, sizeof hw->name, "cpu-%dt", team_size(team));
    snprintf(hw->title, sizeof hw->title, "%.48s, %d thread%s%s%.24s", model, team_size(team),
             team_size(team) == 1 ? "" : "s", *cpus ? ", CPUs " : "", cpus);
    snprintf(hw->kind, sizeof hw->kind, "cpu");
    snprintf(hw->source, sizeof hw->source, "kvbench ceilings");
    hw->memory_bytes = environment_memory_total();
    hw->cache_bytes = environment_cache_bytes(team);
}

static void put_moments(struct hardware *hw, const struct team *team, struct loop loop, struct moments *m)
{
    hw->bandwidth[ROOF_ATTAINABLE] = value_of(m->read, m->n);
    for (int32_t t = 0; t < N_PEAKS; t++)
        if (stats_median(m->peak[t], m->n) > 0)
            hw->peak[ROOF_ATTAINABLE][PEAK_TYPES[t]] = value_of(m->peak[t], m->n);
    put_levels(hw, team, m);
    write_note(hw, team, loop);
}

static bool measure_with(struct team *team, int32_t n, double pause_s, struct hardware *hw, struct error *e)
{
    struct loop loop = {0};
    struct probe_buffer *buffer = NULL;
    struct moments *m = calloc(1, sizeof *m);
    double best = 0;
    bool ok = m || error_set(e, ERROR_MEMORY, "no memory for the moments of a ceiling");
    ok = ok && best_read_loop(team, false, &best, &loop, e) && best_read_loop(team, true, &best, &loop, e) &&
         probe_buffer_open(&buffer, team, ceilings_buffer_bytes(team), loop.huge_pages, e);
    if (ok) {
        m->n = n;
        look(team, buffer, loop, pause_s, m);
        put_moments(hw, team, loop, m);
    }
    probe_buffer_close(buffer);
    free(m);
    return ok;
}

bool ceilings_measure(struct hardware *hw, const struct ceilings_options *options, struct error *e)
{
    struct team *team;
    int32_t n = options->repetitions ? options->repetitions : 7;
    *hw = (struct hardware){0};
    if (!team_open(&team, options->threads, options->cpu_list, e))
        return false;
    describe(hw, team);
    double pause_s = options->pause_s > 0 ? options->pause_s : PAUSE_S;
    bool ok = measure_with(team, n < 3 ? 3 : n > MAX_MOMENTS ? MAX_MOMENTS : n, pause_s, hw, e);
    team_close(team);
    return ok;
}

static void keep_value(const char *name, double unit, struct hw_value *now, const struct hw_value *before, char out[512])
{
    size_t n = strlen(out);
    double measured = now->value;
    if (!(before->value > now->value))
        return;
    if (before->value <= (1 + RAISE_SHARE) * now->value) {
        now->value = before->value;
        return;
    }
    *now = *before;
    snprintf(out + n, 512 - n, "%s%.16s %.4g (now %.4g)", n ? ", " : "", name, before->value / unit, measured / unit);
}

// Levels are one finding: those of the measurement that tells more of them apart, else of each the larger.
static void keep_levels(struct hardware *hw, const struct hardware *before, char out[512])
{
    if (hw->n_levels < before->n_levels) {
        memcpy(hw->level, before->level, sizeof hw->level);
        hw->n_levels = before->n_levels;
    }
    for (int32_t i = 0; i < hw->n_levels && hw->n_levels == before->n_levels; i++) {
        struct hw_level *level = &hw->level[i];
        const struct hw_level *was = &before->level[i];
        level->bytes = was->bytes > level->bytes ? was->bytes : level->bytes;
        level->fade_bytes = was->fade_bytes > level->fade_bytes ? was->fade_bytes : level->fade_bytes;
        keep_value(level->name, 1e9, &level->bandwidth, &was->bandwidth, out);
    }
}

void ceilings_keep_best(struct hardware *hw, const struct hardware *before, char out[512])
{
    *out = 0;
    if (strcmp(hw->title, before->title))
        return;
    keep_value("read", 1e9, &hw->bandwidth[ROOF_ATTAINABLE], &before->bandwidth[ROOF_ATTAINABLE], out);
    keep_levels(hw, before, out);
    for (int t = 0; t < DTYPE_COUNT; t++)
        keep_value(dtype_name((enum dtype)t), 1e9, &hw->peak[ROOF_ATTAINABLE][t], &before->peak[ROOF_ATTAINABLE][t], out);
}

// Its title as words of the model's name.
static bool names_it(const char *cpu_model, const char *title)
{
    const char *at = strstr(cpu_model, title);
    size_t n = strlen(title);
    return n && at && (at == cpu_model || at[-1] == ' ') && (!at[n] || at[n] == ' ');
}

bool ceilings_catalogued(const char *cpu_model, struct hardware *out)
{
    struct catalogue_row *rows;
    int n;
    bool found = false;
    if (!catalogue_list("hardware", &rows, &n, NULL))
        return false;
    for (int i = 0; i < n && !found; i++)
        found = hardware_load(out, rows[i].name, NULL) && !strcmp(out->kind, "cpu") && names_it(cpu_model, out->title);
    free(rows);
    return found;
}

static bool same_machine(const struct hardware *hw, const struct ceilings_options *options)
{
    struct team *team;
    struct hardware here = {0};
    if (!team_open(&team, options->threads, options->cpu_list, NULL))
        return false;
    describe(&here, team);
    team_close(team);
    return !strcmp(hw->title, here.title) && hw->bandwidth[ROOF_ATTAINABLE].value > 0;
}

void ceilings_path(const char *folder, int32_t threads, char out[640])
{
    char suffix[24] = "";
    if (threads)
        snprintf(suffix, sizeof suffix, "-t%d", threads);
    snprintf(out, 640, "%.580s/ceilings%s.json", folder, suffix);
}

bool ceilings_find(struct hardware *hw, const char *path, const struct ceilings_options *options)
{
    return path && file_exists(path) && hardware_load(hw, path, NULL) && same_machine(hw, options);
}

bool ceiling_probe_open(struct ceiling_probe *p, const struct hardware *hw, const struct ceilings_options *options,
                        struct error *e)
{
    struct loop loop = read_note(hw);
    *p = (struct ceiling_probe){.hw = hw, .streams = loop.streams, .threads = options->threads};
    if (!team_open(&p->team, options->threads, options->cpu_list, e))
        return false;
    if (probe_buffer_open(&p->buffer, p->team, ceilings_buffer_bytes(p->team), loop.huge_pages, e))
        return true;
    ceiling_probe_close(p);
    return false;
}

void ceiling_probe_close(struct ceiling_probe *p)
{
    probe_buffer_close(p->buffer);
    team_close(p->team);
    *p = (struct ceiling_probe){0};
}

// What levels keep is probed as it is kept: by going over a set again that was just gone over.
double ceiling_probe_read(struct ceiling_probe *p, uint64_t streamed)
{
    struct probe_loop loop = {.action = PROBE_READ, .streams = p->streams};
    if (!streamed || hardware_from_memory(p->hw, streamed))
        return probe_read(p->buffer, p->team, 0, p->streams);
    probe_window(p->buffer, p->team, loop, streamed, 0);
    return probe_window(p->buffer, p->team, loop, streamed, READ_PROBE_NS);
}

double ceiling_probe_flops(struct ceiling_probe *p, enum dtype type)
{
    return probe_flops(p->team, probe_arithmetic_of(type), FLOPS_PROBE_NS);
}
