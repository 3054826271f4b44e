// kvbench bench: each kernel beside its floor, and the fit that `pred` is made of.
#include "bench/command.h"
#include "bench/environment.h"
#include "bench/fitted.h"
#include "bench/kernels_table.h"
#include "bench/open.h"
#include "bench/output_file.h"
#include "bench/store.h"
#include "bench/table.h"
#include "engine/base/file.h"
#include "engine/base/version.h"
#include "engine/cpu/cpu.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static bool choose_weights(const struct options *o, struct weights_list *list, struct error *e)
{
    static const enum dtype USUAL[] = {DTYPE_BF16, DTYPE_INT8, DTYPE_INT4};
    list->n = 0;
    for (int32_t i = 0; i < o->weights.n && list->n < SCENARIO_MAX_LIST; i++)
        if (!open_parse_type(o->weights.value[i], &list->value[list->n++], e))
            return error_prefix(e, "'--weights'");
    for (size_t i = 0; !o->weights.n && i < sizeof USUAL / sizeof *USUAL; i++)
        list->value[list->n++] = USUAL[i];
    return true;
}

static bool find_ceilings(struct hardware *hw, const struct options *o, const char *folder, struct progress *p,
                          struct error *e)
{
    struct ceilings_options options = {.threads = o->threads, .cpu_list = o->cpu_list};
    char path[640];
    ceilings_path(folder, o->threads, path);
    if (ceilings_find(hw, path, &options))
        return true;
    progress_note(p, "measuring this machine's ceilings, which takes about %d seconds", CEILINGS_SECONDS);
    return ceilings_measure(hw, &options, e) && hardware_save(hw, path, e);
}

// What an older run has left keeps its date.
static bool move_old(const char *path, const char *folder, const char *name, const char *now, struct error *e)
{
    char old[700];
    if (!file_exists(path))
        return true;
    snprintf(old, sizeof old, "%.500s/old", folder);
    if (!make_folder(old, e))
        return false;
    snprintf(old, sizeof old, "%.500s/old/%.40s-before-%.32s", folder, name, now);
    return !rename(path, old) || error_set(e, ERROR_OUTPUT, "'%s' cannot be moved to '%s': %s", path, old, strerror(errno));
}

static bool write_rows(const struct kernels *k, const char *folder, const char *now, struct error *e)
{
    char path[640];
    int32_t n;
    const struct column *column = kernel_columns(&n);
    snprintf(path, sizeof path, "%.600s/kernels.jsonl", folder);
    if (!move_old(path, folder, "kernels.jsonl", now, e))
        return false;
    FILE *f = fopen(path, "we");
    if (f)
        table_rows(f, TABLE_JSONL, column, n, k->row, sizeof *k->row, k->n_rows);
    bool ok = f && !ferror(f);
    if (f && fclose(f))
        ok = false;
    return ok || error_set(e, ERROR_OUTPUT, "'%s' cannot be written: %s", path, strerror(errno));
}

static bool write_meta(const struct kernels *k, const struct options *o, const char *folder, const char *now,
                       struct error *e)
{
    char path[640], cpus[128] = "";
    cJSON *meta = cJSON_CreateObject(), *tool = cJSON_AddObjectToObject(meta, "tool");
    if (k->probe.team)
        environment_cpus(k->probe.team, cpus);
    cJSON_AddStringToObject(tool, "name", "kvbench");
    cJSON_AddStringToObject(tool, "version", kvbench_version);
    cJSON_AddStringToObject(meta, "finished", now);
    cJSON_AddBoolToObject(meta, "quick", o->quick);
    cJSON_AddItemToObject(meta, "environment", environment_json(k->isa, cpus));
    cJSON_AddItemToObject(meta, "ceilings", hardware_json(k->hw));
    char *text = cJSON_Print(meta);
    snprintf(path, sizeof path, "%.600s/kernels.meta.json", folder);
    bool ok = text ? write_file(path, text, e) : error_set(e, ERROR_MEMORY, "no memory for '%s'", path);
    cJSON_free(text);
    cJSON_Delete(meta);
    return ok;
}

// Kernels that were not benched now keep what was found before, as long as it is of the same machine, kernels and version.
static bool keep_older(struct fit *fit, const char *path, struct error *e)
{
    struct fit old = {0};
    struct error ignored = {0};
    bool ok = true;
    if (!file_exists(path) || !fit_load(&old, path, &ignored))
        return true;
    bool same = !strcmp(old.hardware, fit->hardware) && !strcmp(old.isa, fit->isa) && !strcmp(old.tool, fit->tool);
    for (int32_t i = 0; ok && same && i < old.n_kernels; i++)
        ok = fit_find(fit, old.kernel[i].name) || fit_add(fit, &old.kernel[i], e);
    fit_free(&old);
    return ok;
}

static bool make_fit(struct kernels *k, struct fit *fit, const char *folder, const char *now, struct error *e)
{
    char path[640];
    if (!k->n_records)
        return true;
    progress_note(k->progress, "fitting %d samples", k->n_records);
    if (!kernels_fit(k, fit, e))
        return false;
    snprintf(fit->hardware, sizeof fit->hardware, "%s", k->hw->title);
    snprintf(fit->isa, sizeof fit->isa, "%s", k->isa);
    snprintf(fit->tool, sizeof fit->tool, "%s", kvbench_version);
    snprintf(fit->date, sizeof fit->date, "%s", now);
    fitted_path(folder, k->device.threads, path);
    return keep_older(fit, path, e) && fit_save(fit, path, e);
}

static void print(const struct kernels *k, const struct fit *fit, enum table_format format, const char *folder)
{
    int32_t n;
    const struct column *column = kernel_columns(&n);
    if (table_is_data(format)) {
        table_rows(stdout, format, column, n, k->row, sizeof *k->row, k->n_rows);
        return;
    }
    printf("%s, %s: read %.1f GB/s, bf16 %.0f GFLOP/s, int8 %.0f GOP/s\n\n", k->hw->title, k->isa,
           hardware_bandwidth(k->hw, ROOF_ATTAINABLE) / 1e9, hardware_peak(k->hw, ROOF_ATTAINABLE, DTYPE_BF16) / 1e9,
           hardware_peak(k->hw, ROOF_ATTAINABLE, DTYPE_INT8) / 1e9);
    kernels_print(stdout, k, format == TABLE_MD);
    if (fit->n_kernels)
        kernels_print_fit(stdout, fit, format == TABLE_MD);
    printf("\nsamples: %s/kernels.jsonl, .meta.json%s\n", folder,
           fit->n_kernels ? "; fit.json is what pred_ns is made of" : "");
}

static bool run(struct kernels *k, const struct options *o, const char *folder, enum table_format format, struct error *e)
{
    struct hardware hw;
    struct kernel_jobs jobs;
    struct weights_list weights;
    struct fit fit = {0};
    char now[32];
    k->hw = &hw;
    bool ok = choose_weights(o, &weights, e) && find_ceilings(&hw, o, folder, k->progress, e) &&
              kernel_jobs_make(&jobs, o->model, &weights, &hw, o->quick, e) && kernels_measure(k, &jobs, e) &&
              kernels_compare(k, e);
    utc_now(now);
    ok = ok && make_fit(k, &fit, folder, now, e) && write_rows(k, folder, now, e) && write_meta(k, o, folder, now, e);
    progress_end(k->progress);
    if (ok)
        print(k, &fit, format, folder);
    fit_free(&fit);
    return ok;
}

bool cmd_bench(const struct options *o, struct error *e)
{
    enum table_format format;
    struct progress progress;
    struct kernels k = {.progress = &progress,
                        .device = {.threads = o->threads, .cpu_list = o->cpu_list, .isa = o->isa},
                        .stop = &interrupted,
                        .rounds = !o->quick  ? 7
                                  : o->model ? 3
                                             : 5,
                        .point_s = !o->quick ? 1 : 0.5,
                        .seed = (uint64_t)o->seed};
    const char *folder = o->has_folder ? o->folder : "results";
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': bench takes flags only", o->arg[0]);
    if (!table_format_of(o, &format, e) || !make_folder(folder, e))
        return false;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    progress_begin(&progress, o->quiet ? NULL : stderr, 0, 0);
    bool ok = run(&k, o, folder, format, e);
    kernels_free(&k);
    return ok;
}
