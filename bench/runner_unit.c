#include "bench/runner_unit.h"

#include "bench/device_ceilings.h"
#include "bench/environment.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "engine/null/null.h"

#include <stdlib.h>
#include <string.h>

// Ceilings that probes beside samples have beaten.

static bool keep_ceilings(struct runner *r, struct error *e)
{
    char path[640];
    if (r->ceilings_folder) {
        ceilings_path(r->ceilings_folder, r->probe.threads, path);
        if (!hardware_save(&r->hardware, path, e))
            return false;
    }
    return store_hardware(r->store, &r->hardware, e);
}

static void describe_raise(const struct runner *r, const char *what, double was, double is, char out[160])
{
    snprintf(out, 160, "%s ceiling of %s raised from %.3g to %.3g %s, as probes beside samples reached that", what,
             r->hardware.name, was / 1e9, is / 1e9, strcmp(what, "read") ? "GFLOP/s" : "GB/s");
}

bool unit_raise_ceiling(struct unit *u, const struct subject *s, int32_t from, struct error *e)
{
    struct runner *r = u->runner;
    enum dtype type = hardware_compute_type(&r->hardware, s->probe_type);
    struct ceiling_best *best = s->probes_flops ? &r->peak[type] : &r->read;
    struct hw_value *attained =
        s->probes_flops ? r->hardware.peak[ROOF_ATTAINABLE] + type : r->hardware.bandwidth + ROOF_ATTAINABLE;
    double was = attained->value, rate = 0;
    for (int32_t i = from; i < s->n_samples; i++)
        rate = s->probe[i] > rate ? s->probe[i] : rate;
    if (!s->probes_flops && !hardware_from_memory(&r->hardware, s->price.stream_bytes))
        return true; // the probe was of a cache
    ceiling_best_add(best, rate);
    if (!r->has_probe || !ceiling_raise(attained, best))
        return true;
    describe_raise(r, s->probes_flops ? dtype_name(type) : "read", was, attained->value, r->raised);
    return keep_ceilings(r, e);
}

// Once for each ceiling, however often it was raised.
static void note_raises(struct runner *r)
{
    char text[160];
    if (r->read.was > 0) {
        describe_raise(r, "read", r->read.was, r->hardware.bandwidth[ROOF_ATTAINABLE].value, text);
        store_note(r->store, "%s", text);
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (r->peak[t].was > 0) {
            describe_raise(r, dtype_name((enum dtype)t), r->peak[t].was, r->hardware.peak[ROOF_ATTAINABLE][t].value, text);
            store_note(r->store, "%s", text);
        }
}

// Opening.

static bool is_auto(const char *name)
{
    return !strcmp(name, "auto");
}

static bool is_cuda(const struct unit *u)
{
    return !strcmp(u->opened.backend.name, "cuda");
}

// A device's ceilings have no probe beside samples: it would need the memory and the time of the device.
static bool find_device_ceilings(struct runner *r, const struct unit *u, struct error *e)
{
    char path[640] = "";
    struct cuda_ceilings raw;
    if (r->ceilings_folder)
        device_ceilings_path(r->ceilings_folder, r->device.device, path);
    if (device_ceilings_find(&r->hardware, *path ? path : NULL, u->opened.backend.device))
        return true;
    progress_note(r->progress, "measuring the device's ceilings, which takes about %d seconds", DEVICE_CEILINGS_SECONDS);
    return device_ceilings_measure(&r->hardware, &raw, r->device.device, *path ? path : NULL, e);
}

static bool find_ceilings(struct runner *r, const struct ceilings_options *options, struct error *e)
{
    char path[640] = "", warning[160];
    if (r->ceilings_folder)
        ceilings_path(r->ceilings_folder, options->threads, path);
    if (!ceilings_find(&r->hardware, *path ? path : NULL, options)) {
        progress_note(r->progress, "measuring this machine's ceilings, which takes about %d seconds", CEILINGS_SECONDS);
        if (!ceilings_measure(&r->hardware, options, e) || (*path && !hardware_save(&r->hardware, path, e)))
            return false;
    }
    ceilings_warning(&r->hardware, warning);
    if (*warning)
        store_note(r->store, "%s", warning);
    return true;
}

// The hardware of the roof; on this machine's CPU also the probe that is paired with each sample.
static bool open_hardware(struct runner *r, struct unit *u, struct error *e)
{
    struct ceilings_options options = {.threads = r->points->point[u->first].threads, .cpu_list = r->device.cpu_list};
    if (!is_auto(r->scenario->hardware)) {
        r->has_hardware = hardware_load(&r->hardware, r->scenario->hardware, e);
        return r->has_hardware && store_hardware(r->store, &r->hardware, e);
    }
    if (u->opened.backend.weightless)
        return true; // it does no work that this machine's ceilings could bound
    if (is_cuda(u)) {
        r->has_hardware = find_device_ceilings(r, u, e);
        return r->has_hardware && store_hardware(r->store, &r->hardware, e);
    }
    r->has_hardware = find_ceilings(r, &options, e);
    r->has_probe = r->has_hardware && ceiling_probe_open(&r->probe, &r->hardware, &options, e);
    r->read = (struct ceiling_best){0};
    memset(r->peak, 0, sizeof r->peak);
    if (!r->has_probe)
        return false;
    if (u->context.isa && r->ceilings_folder)
        fitted_find(&r->fitted, r->ceilings_folder, options.threads, &r->hardware, u->context.isa);
    if (u->context.isa && !r->fitted.known && !*r->fitted.reason)
        fitted_find(&r->fitted, "results", options.threads, &r->hardware, u->context.isa);
    if (*r->fitted.reason)
        store_note(r->store, "%s", r->fitted.reason);
    u->context.fitted = r->fitted.known ? &r->fitted : NULL;
    return store_hardware(r->store, &r->hardware, e);
}

// What watches and counts, once all threads are there: the backend's and the probe's.
static bool open_instruments(struct runner *r, struct unit *u, struct error *e)
{
    char cpus[128] = "";
    if (r->has_probe) {
        environment_cpus(r->probe.team, cpus);
        u->context.cache_bytes = environment_cache_bytes(r->probe.team);
        u->context.crowded = u->context.threads > environment_threads(0, r->device.cpu_list);
    }
    if (!watch_open(&u->watch, "", cpus, e) || !counters_open(&u->counters, e))
        return false;
    if (is_cuda(u))
        energy_open_gpu(&u->energy, NULL, r->device.device, getenv("CUDA_VISIBLE_DEVICES"));
    else
        energy_open(&u->energy, "");
    u->context.watch = &u->watch, u->context.counters = &u->counters, u->context.energy = &u->energy;
    return true;
}

void unit_close(struct unit *u)
{
    struct runner *r = u->runner;
    watch_close(&u->watch);
    counters_close(&u->counters);
    open_close(&u->opened);
    if (r->has_probe) {
        note_raises(r);
        ceiling_probe_close(&r->probe);
    }
    fitted_free(&r->fitted);
    r->has_probe = r->has_hardware = false;
}

// More threads than CPUs measures their turns on the CPUs; whoever asks for it should know.
static void note_threads(struct runner *r, int32_t threads)
{
    int32_t cpus = environment_threads(0, r->device.cpu_list);
    if (threads <= cpus)
        return;
    progress_note(r->progress, "%d threads share %d CPUs", threads, cpus);
    store_note(r->store, "%d threads shared %d CPUs", threads, cpus);
}

// With the ceilings known, what the points from this unit on will take.
static bool expect_rest(struct runner *r, const struct unit *u, struct error *e)
{
    double left = 0;
    for (int32_t i = u->first; i < r->points->n; i++) {
        const struct point *p = &r->points->point[i];
        struct prediction price = {0};
        const struct plan *plan = r->has_hardware ? planner_plan(r->planner, p, e) : NULL;
        if (r->has_hardware && (!plan || !point_price(plan, p, &r->hardware, &price, e)))
            return false;
        left += store_find(r->store, p->key) ? 0 : expected_point_ns(r->scenario, price.roof_ns);
    }
    progress_expect(r->progress, left);
    return true;
}

bool unit_open(struct unit *u, struct error *e)
{
    struct runner *r = u->runner;
    const struct point *p = &r->points->point[u->first];
    struct open_request request = {.model = r->scenario->model[p->model],
                                   .backend = r->scenario->backend,
                                   .device = r->device,
                                   .weights = p->own_weights ? NULL : dtype_name(p->weights),
                                   .seed = (uint64_t)r->scenario->seed,
                                   .quiet = !r->progress->f};
    request.device.threads = p->threads;
    progress_note(r->progress, "loading '%s'", request.model);
    u->context = (struct row_context){.scenario = r->scenario,
                                      .backend = is_auto(r->scenario->backend) ? NULL : r->scenario->backend};
    if (!open_model(&u->opened, &request, e))
        return false;
    u->context.backend = u->opened.backend.name;
    u->context.load_ns = u->opened.weights.load_ns, u->context.repack_ns = u->opened.weights.repack_ns;
    if (!strcmp(u->opened.backend.name, "cpu")) {
        u->context.isa = cpu_isa_selected(&u->opened.backend);
        u->context.threads = environment_threads(p->threads, r->device.cpu_list);
        note_threads(r, u->context.threads);
    }
    if (!strcmp(u->opened.backend.name, "null"))
        null_backend_set_step_ns(&u->opened.backend, r->device_ns);
    if (!open_hardware(r, u, e))
        return false;
    if (r->has_hardware)
        u->context.hw = &r->hardware;
    return open_instruments(r, u, e) && expect_rest(r, u, e);
}
