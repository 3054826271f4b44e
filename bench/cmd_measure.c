#include "bench/cmd_measure.h"

#include "bench/dry_run.h"
#include "bench/environment.h"
#include "bench/runner.h"
#include "bench/summary.h"
#include "engine/base/file.h"
#include "engine/base/version.h"
#include "engine/cpu/cpu.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

// The first signal lets the running step finish and everything be flushed; the second ends the process at once. Nobody
// reading the progress any more (a pipe into head) is no reason to stop.
static void watch_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static struct backend_options device_of(const struct options *o)
{
    return (struct backend_options){.cpu_list = o->cpu_list, .isa = o->isa, .device = o->device};
}

// CPUs that threads will be pinned to, for the record.
static void chosen_cpus(const struct scenario *s, const struct options *o, char out[128])
{
    struct team *team;
    *out = 0;
    if (!team_open(&team, s->threads.value[0], o->cpu_list, NULL))
        return;
    environment_cpus(team, out);
    team_close(team);
}

static cJSON *make_meta(const struct scenario *s, const struct options *o)
{
    cJSON *meta = cJSON_CreateObject();
    char hash[17], now[32], cpus[128];
    scenario_hash(s, hash);
    utc_now(now);
    chosen_cpus(s, o, cpus);
    cJSON_AddNumberToObject(meta, "schema_version", RESULT_SCHEMA_VERSION);
    cJSON *tool = cJSON_AddObjectToObject(meta, "tool");
    cJSON_AddStringToObject(tool, "name", "kvbench");
    cJSON_AddStringToObject(tool, "version", kvbench_version);
    cJSON_AddBoolToObject(tool, "dirty", strstr(kvbench_version, "-dirty") != NULL);
    cJSON_AddStringToObject(meta, "started", now);
    cJSON_AddStringToObject(meta, "scenario_hash", hash);
    cJSON_AddItemToObject(meta, "scenario", scenario_json(s));
    cJSON_AddItemToObject(meta, "environment", environment_json(strcmp(o->isa, "auto") ? o->isa : cpu_isa_best(), cpus));
    cJSON_AddNullToObject(meta, "ceilings");
    return meta;
}

// A backend that is not here must be known before old results are moved. Says what predicts instead.
static bool check_backend(const struct scenario *s, const struct options *o, struct error *e)
{
    struct backend backend;
    struct backend_options device = device_of(o);
    device.threads = s->threads.value[0];
    if (backend_open(&backend, s->backend, &device, e)) {
        backend_close(&backend);
        return true;
    }
    if (e->kind == ERROR_DEVICE) {
        e->message[strcspn(e->message, ";")] = 0; // what is missing; the advice is ours
        size_t n = strlen(e->message);
        snprintf(e->message + n, sizeof e->message - n, "; 'kvbench predict %.200s' predicts without it",
                 o->n_args ? o->arg[0] : "...");
    }
    return false;
}

// Ceilings lie beside the results. NULL where they cannot be kept.
static const char *ceilings_folder(const struct options *o, const char *folder)
{
    if (!folder && (o->dry_run || make_folder("results", NULL)))
        folder = "results";
    return folder;
}

// The roof's hardware as far as it is known before anything is measured.
static bool known_hardware(const struct runner *r, struct hardware *hw)
{
    char path[640] = "";
    if (strcmp(r->scenario->hardware, "auto"))
        return hardware_load(hw, r->scenario->hardware, NULL);
    if (r->ceilings_folder)
        ceilings_path(r->ceilings_folder, r->scenario->threads.value[0], path);
    return file_exists(path) && hardware_load(hw, path, NULL);
}

static double expected_ns(struct runner *r)
{
    struct hardware hw;
    double sum = 0;
    bool known = known_hardware(r, &hw);
    for (int32_t i = 0; i < r->points->n; i++) {
        const struct point *p = &r->points->point[i];
        struct prediction price = {0};
        const struct plan *plan = known ? planner_plan(r->planner, p, NULL) : NULL;
        if (!store_find(r->store, p->key) && (!plan || point_price(plan, p, &hw, &price, NULL)))
            sum += expected_point_ns(r->scenario, price.roof_ns);
    }
    return sum;
}

static bool report(struct runner *r, const struct options *o, bool measured, struct error *e)
{
    struct error late = {0};
    bool stored = store_finish(r->store, measured, &late);
    if (!measured && e->kind != ERROR_INTERRUPTED)
        return false;
    if (o->json)
        summary_json(stdout, r->store);
    else
        summary_print(stdout, r->store);
    if (!measured) {
        if (r->store->on_disk)
            error_set(e, ERROR_INTERRUPTED, "interrupted, %d of %d points are kept: go on with --resume", r->store->n_rows,
                      r->points->n);
        return false;
    }
    if (!stored)
        *e = late;
    return stored && runner_verdict(r, e);
}

static bool run(struct runner *r, const struct options *o, const char *folder, struct error *e)
{
    struct store store;
    struct progress progress;
    if (!store_open(&store, folder, r->scenario, o->resume, make_meta(r->scenario, o), e))
        return false;
    r->store = &store;
    r->progress = &progress;
    progress_begin(&progress, o->quiet ? NULL : stderr, r->points->n, expected_ns(r));
    watch_signals();
    bool measured = runner_run(r, e);
    progress_end(&progress);
    bool ok = report(r, o, measured, e);
    store_close(&store);
    return ok;
}

static bool dry_run(struct runner *r, const struct options *o, struct error *e)
{
    struct hardware hw;
    bool known = known_hardware(r, &hw);
    if (!known && strcmp(r->scenario->hardware, "auto"))
        return hardware_load(&hw, r->scenario->hardware, e); // says why not
    return dry_run_print(stdout, r->planner, r->points, known ? &hw : NULL, o->json, e);
}

bool cmd_measure(const struct scenario *s, const struct options *o, const char *folder, struct error *e)
{
    struct point_list points;
    struct planner planner;
    if (!point_list_make(&points, s, o->filter, e))
        return false;
    planner_init(&planner, s);
    struct runner r = {.scenario = s,
                       .points = &points,
                       .planner = &planner,
                       .device = device_of(o),
                       .ceilings_folder = ceilings_folder(o, folder),
                       .stop = &interrupted};
    bool ok = o->dry_run ? dry_run(&r, o, e) : check_backend(s, o, e) && run(&r, o, folder, e);
    planner_free(&planner);
    point_list_free(&points);
    return ok;
}
