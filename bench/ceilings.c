#include "bench/ceilings.h"

#include "bench/environment.h"
#include "bench/store.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/stats.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REPETITIONS = 101, FLOPS_NS = 50 * 1000 * 1000, FLOPS_PROBE_NS = 3 * 1000 * 1000 };
#define MIB ((uint64_t)1 << 20)

static const int32_t STREAMS[] = {1, 2, 4, 8};
static const enum dtype PEAK_TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};

struct loop {
    int32_t streams;
    bool huge_pages;
};

// How the note of a hardware file names the best read loop.
#define NOTE_FORMAT "read probe: %d streams, %d KiB pages"

static void write_note(struct hardware *hw, struct loop loop)
{
    snprintf(hw->note, sizeof hw->note, NOTE_FORMAT, loop.streams, loop.huge_pages ? 2048 : 4);
}

static struct loop read_note(const struct hardware *hw)
{
    int streams, kib;
    if (sscanf(hw->note, NOTE_FORMAT, &streams, &kib) != 2 || streams < 1 || streams > 8)
        return (struct loop){.streams = 4, .huge_pages = true};
    return (struct loop){.streams = streams, .huge_pages = kib > 4};
}

static struct hw_value value_of(double *rate, int32_t n)
{
    char now[32];
    struct hw_value v = {.value = stats_median(rate, n), .method = "measured", .n = n};
    if (v.value > 0)
        v.spread = (stats_quantile(rate, n, 0.9) - stats_quantile(rate, n, 0.1)) / v.value;
    utc_now(now);
    snprintf(v.date, sizeof v.date, "%.10s", now);
    return v;
}

// Four times what the caches hold, or seem to (virtual machines see a part of them), so that reading it in turn finds
// nothing there; a quarter of the memory at most.
static uint64_t buffer_bytes(const struct team *team)
{
    uint64_t bytes = 4 * environment_cache_bytes(team), most = memory_available("") / 4;
    bytes = bytes < 256 * MIB ? 256 * MIB : bytes > 2048 * MIB ? 2048 * MIB : bytes;
    return bytes < most ? bytes : most;
}

static bool read_loops(struct team *team, bool huge_pages, int32_t n, struct hw_value *best, struct loop *best_loop,
                       struct error *e)
{
    struct probe_buffer *buffer;
    double rate[MAX_REPETITIONS];
    if (!probe_buffer_open(&buffer, team, buffer_bytes(team), huge_pages, e))
        return false;
    for (size_t s = 0; s < sizeof STREAMS / sizeof *STREAMS; s++) {
        for (int32_t i = -1; i < n; i++) { // the first is not counted
            double r = probe_read(buffer, team, 0, STREAMS[s]);
            rate[i < 0 ? 0 : i] = r;
        }
        struct hw_value v = value_of(rate, n);
        if (v.value > best->value) {
            *best = v;
            *best_loop = (struct loop){.streams = STREAMS[s], .huge_pages = huge_pages};
        }
    }
    probe_buffer_close(buffer);
    return true;
}

static void measure_peaks(struct team *team, int32_t n, struct hardware *hw)
{
    double rate[MAX_REPETITIONS];
    for (size_t t = 0; t < sizeof PEAK_TYPES / sizeof *PEAK_TYPES; t++) {
        for (int32_t i = 0; i < n; i++)
            rate[i] = probe_flops(team, PEAK_TYPES[t], FLOPS_NS);
        if (stats_median(rate, n) > 0)
            hw->peak[ROOF_ATTAINABLE][PEAK_TYPES[t]] = value_of(rate, n);
    }
}

// What says that two files are of the same machine with the same threads.
static void describe(struct hardware *hw, const struct team *team)
{
    char model[96], cpus[128];
    environment_cpu_model(model);
    environment_cpu_vendor(hw->vendor);
    environment_cpus(team, cpus);
    snprintf(hw->name, sizeof hw->name, "cpu-%dt", team_size(team));
    snprintf(hw->title, sizeof hw->title, "%.48s, %d threads%s%.24s", model, team_size(team), *cpus ? ", CPUs " : "", cpus);
    snprintf(hw->kind, sizeof hw->kind, "cpu");
    snprintf(hw->source, sizeof hw->source, "kvbench ceilings");
    hw->memory_bytes = environment_memory_total();
    hw->cache_bytes = environment_cache_bytes(team);
}

static bool measure_with(struct team *team, int32_t n, struct hardware *hw, struct error *e)
{
    struct loop loop = {0};
    struct hw_value best = {0};
    if (!read_loops(team, false, n, &best, &loop, e) || !read_loops(team, true, n, &best, &loop, e))
        return false;
    hw->bandwidth[ROOF_ATTAINABLE] = best;
    write_note(hw, loop);
    measure_peaks(team, n, hw);
    return true;
}

bool ceilings_measure(struct hardware *hw, const struct ceilings_options *options, struct error *e)
{
    struct team *team;
    int32_t n = options->repetitions ? options->repetitions : 7;
    *hw = (struct hardware){0};
    if (!team_open(&team, options->threads, options->cpu_list, e))
        return false;
    describe(hw, team);
    bool ok = measure_with(team, n < 3 ? 3 : n > MAX_REPETITIONS ? MAX_REPETITIONS : n, hw, e);
    team_close(team);
    return ok;
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

bool ceilings_ensure(struct hardware *hw, const char *path, const struct ceilings_options *options, bool *measured,
                     struct error *e)
{
    *measured = false;
    if (path && file_exists(path) && hardware_load(hw, path, NULL) && same_machine(hw, options))
        return true;
    *measured = true;
    return ceilings_measure(hw, options, e) && (!path || hardware_save(hw, path, e));
}

bool ceiling_probe_open(struct ceiling_probe *p, const struct hardware *hw, const struct ceilings_options *options,
                        struct error *e)
{
    struct loop loop = read_note(hw);
    *p = (struct ceiling_probe){.streams = loop.streams};
    if (!team_open(&p->team, options->threads, options->cpu_list, e))
        return false;
    if (probe_buffer_open(&p->buffer, p->team, buffer_bytes(p->team), loop.huge_pages, e))
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

double ceiling_probe_read(struct ceiling_probe *p)
{
    return probe_read(p->buffer, p->team, 0, p->streams);
}

double ceiling_probe_flops(struct ceiling_probe *p, enum dtype type)
{
    return probe_flops(p->team, type, FLOPS_PROBE_NS);
}
