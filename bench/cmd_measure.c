#include "bench/cmd_measure.h"

#include "bench/accuracy.h"
#include "bench/dry_run.h"
#include "bench/environment.h"
#include "bench/open.h"
#include "bench/output_file.h"
#include "bench/runner.h"
#include "bench/slope.h"
#include "bench/summary.h"
#include "bench/trust.h"
#include "engine/base/file.h"
#include "engine/base/version.h"
#include "engine/cpu/cpu.h"

#include <signal.h>
#include <stdlib.h>
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

// CPUs that threads will be pinned to, for the record: of the largest number of threads.
static void chosen_cpus(const struct scenario *s, const struct options *o, char out[128])
{
    struct team *team;
    *out = 0;
    int32_t most = s->threads.value[0];
    for (int32_t i = 1; most && i < s->threads.n; i++) // 0 is one per CPU
        most = !s->threads.value[i] || s->threads.value[i] > most ? s->threads.value[i] : most;
    if (!team_open(&team, most, o->cpu_list, NULL))
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

static bool no_kernel(const struct point *p, const char *what, enum dtype type, struct error *e)
{
    return error_set(
        e, ERROR_UNSUPPORTED,
        "'%.160s': the cpu backend has no kernel for %s in %s (kvbench list formats); kvbench predict can price it", p->key,
        what, dtype_name(type));
}

// Types without kernels are refused before weights are made and loaded.
static bool check_types(const struct backend *cpu, struct planner *planner, const struct point_list *points, struct error *e)
{
    for (int32_t i = 0; i < points->n; i++) {
        const struct point *p = &points->point[i];
        const struct plan *plan = planner_plan(planner, p, e);
        if (!plan)
            return false;
        if (!open_check_compute(plan, e))
            return error_prefix(e, "'%.160s'", p->key);
        for (int32_t t = 0; t < plan->n_tensors; t++)
            if (!cpu_can_multiply(cpu, (enum dtype)plan->tensor[t].dtype))
                return no_kernel(p, "weights", (enum dtype)plan->tensor[t].dtype, e);
        if (!cpu_can_keep(cpu, plan->kv_k) || !cpu_can_keep(cpu, plan->kv_v))
            return no_kernel(p, "KV", cpu_can_keep(cpu, plan->kv_k) ? plan->kv_v : plan->kv_k, e);
    }
    return true;
}

// A backend that is not here must be known before old results are moved. Says what predicts instead.
static bool check_backend(const struct runner *r, const struct options *o, struct error *e)
{
    const struct scenario *s = r->scenario;
    struct backend backend;
    struct backend_options device = device_of(o);
    device.threads = s->threads.value[0];
    if (backend_open(&backend, s->backend, &device, e)) {
        bool is_cpu = !strcmp(backend.name, "cpu");
        bool ok = !is_cpu || s->tp > 1 || check_types(&backend, r->planner, r->points, e); // tp is refused by the runner
        backend_close(&backend);
        return ok;
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
struct known_roof {
    const struct runner *runner;
    bool looked, known;
    int32_t threads; // that it was looked up for
    struct hardware hw;
};

static bool find_roof(struct known_roof *k, int32_t threads)
{
    const struct runner *r = k->runner;
    struct ceilings_options options = {.threads = threads, .cpu_list = r->device.cpu_list};
    char path[640] = "";
    if (strcmp(r->scenario->hardware, "auto"))
        return hardware_load(&k->hw, r->scenario->hardware, NULL);
    if (r->ceilings_folder)
        ceilings_path(r->ceilings_folder, threads, path);
    return ceilings_find(&k->hw, path, &options);
}

static const struct hardware *known_roof(void *ctx, const struct point *p)
{
    struct known_roof *k = ctx;
    if (!k->looked || k->threads != p->threads)
        k->known = find_roof(k, p->threads);
    k->looked = true;
    k->threads = p->threads;
    return k->known ? &k->hw : NULL;
}

static bool report(struct runner *r, const struct options *o, bool measured, struct error *e)
{
    struct error late = {0};
    bool stored =
        slopes_record(r->store, &late) && accuracy_record(r->store, &late) && store_finish(r->store, measured, &late);
    if (!measured && e->kind != ERROR_INTERRUPTED)
        return false;
    bool alone = r->store->n_rows == 1 && r->n_failed; // the error says all of it
    enum table_format format = TABLE_TEXT;
    table_format_of(o, &format, NULL); // checked before anything was measured
    if (table_is_data(format))
        summary_rows(stdout, format, r->store);
    else if (r->store->n_rows && !alone)
        summary_print(stdout, r->store, format == TABLE_MD);
    if (!measured) {
        if (r->store->waits)
            error_set(e, ERROR_INTERRUPTED, "interrupted before a point was finished; the older result is untouched");
        else if (r->store->on_disk)
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
    progress_begin(&progress, o->quiet ? NULL : stderr, r->points->n, 0); // until the ceilings are known
    watch_signals();
    bool measured = runner_run(r, e);
    progress_end(&progress);
    bool ok = report(r, o, measured, e);
    store_close(&store);
    return ok;
}

static bool dry_run(struct runner *r, const struct options *o, const char *folder, struct error *e)
{
    struct known_roof roof = {.runner = r};
    struct store done;
    struct dry_run d = {.planner = r->planner, .points = r->points, .roof = known_roof, .ctx = &roof};
    bool json = o->json || !strcmp(o->output, "json");
    if (strcmp(r->scenario->hardware, "auto") && !hardware_load(&roof.hw, r->scenario->hardware, e))
        return false;
    if (!o->resume || !folder)
        return dry_run_print(stdout, &d, json, e);
    if (!store_peek(&done, folder, r->scenario, e))
        return false;
    d.done = &done;
    bool ok = dry_run_print(stdout, &d, json, e);
    store_close(&done);
    return ok;
}

// By key, by number from 1, or by a part of the key that fits no other.
static const struct point *find_point(const struct point_list *points, const char *name, struct error *e)
{
    const struct point *part = NULL;
    char *end;
    int32_t n_parts = 0;
    long number = strtol(name, &end, 10);
    if (!*end && number >= 1 && number <= points->n)
        return &points->point[number - 1];
    for (int32_t i = 0; i < points->n; i++) {
        if (!strcmp(points->point[i].key, name))
            return &points->point[i];
        if (strstr(points->point[i].key, name) && ++n_parts)
            part = &points->point[i];
    }
    if (n_parts == 1)
        return part;
    error_set(e, ERROR_USAGE,
              "'%.100s' fits %d points to trace: expected 1 to %d, or a key such as '%.160s' (see --dry-run)", name, n_parts,
              points->n, points->point[0].key);
    return NULL;
}

static bool set_requests(struct runner *r, const struct options *o, const char *folder, char path[700], struct error *e)
{
    if (o->has_fail_on && !trust_codes_parse(o->fail_on, &r->fail_on, e))
        return error_prefix(e, "--fail-on");
    if (!o->has_trace)
        return true;
    snprintf(path, 700, "%.580s/%.100s.trace.json", folder ? folder : "results", r->scenario->name);
    r->trace_path = path;
    r->trace_point = find_point(r->points, o->trace, e);
    return r->trace_point && (o->dry_run || make_folder(folder ? folder : "results", e));
}

bool cmd_measure(const struct scenario *s, const struct options *o, const char *folder, struct error *e)
{
    struct point_list points = {0};
    struct planner planner;
    char trace_path[700];
    planner_init(&planner, s);
    planner.on_cpu = !strcmp(s->backend, "auto") || !strcmp(s->backend, "cpu");
    struct runner r = {.scenario = s,
                       .points = &points,
                       .planner = &planner,
                       .device = device_of(o),
                       .ceilings_folder = ceilings_folder(o, folder),
                       .stop = &interrupted};
    enum table_format format;
    bool ok = table_format_of(o, &format, e) && point_list_make(&points, s, &planner, o->filter, e) &&
              set_requests(&r, o, folder, trace_path, e) &&
              (o->dry_run ? dry_run(&r, o, folder, e) : check_backend(&r, o, e) && run(&r, o, folder, e));
    planner_free(&planner);
    point_list_free(&points);
    return ok;
}
