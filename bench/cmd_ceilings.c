// kvbench ceilings: what this machine attains, kept for all that use it, with a table for people.
#include "bench/ceilings.h"
#include "bench/command.h"
#include "bench/device_ceilings.h"
#include "bench/environment.h"
#include "bench/output_file.h"
#include "bench/progress.h"
#include "bench/survey.h"
#include "bench/table.h"
#include "engine/base/file.h"
#include "engine/base/units.h"

#include <stdlib.h>
#include <string.h>

static void print_value(const char *name, const char *unit, const struct hw_value *v, const char *more)
{
    if (v->value > 0)
        printf("  %-8s %9.1f %-8s %9.1f %6.0f %%  %3d  %s%s%s\n", name, v->value / 1e9, unit, v->median / 1e9,
               100 * v->spread, v->n, v->date, *more ? "  " : "", more);
}

// How much a level holds, and what the system says of it.
static void describe_level(const struct hw_level *level, const struct cache *cache, int32_t n, char out[128])
{
    char size[24], stated[24];
    size_t used = (size_t)snprintf(out, 128, "holds %s", format_bytes(level->bytes, size));
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(cache[i].name, level->name)) {
            snprintf(out + used, 128 - used, " (the system says %s), less up to %s", format_bytes(cache[i].bytes, stated),
                     format_bytes(level->fade_bytes, size));
            return;
        }
    snprintf(out + used, 128 - used, " (the system knows of no such cache)");
}

static void print_unseen(const struct hardware *hw, const struct cache *cache, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        bool seen = false;
        for (int32_t k = 0; k < hw->n_levels; k++)
            seen |= !strcmp(cache[i].name, hw->level[k].name);
        if (!seen)
            printf("  %-8s no rate of its own was found\n", cache[i].name);
    }
}

static void print_ceilings(const struct hardware *hw, const struct cache *cache, int32_t n_caches)
{
    printf("  %-8s %9s %-8s %9s %8s  %3s  %s\n", "", "best", "", "median", "spread", "n", "date");
    print_value("memory", "GB/s", &hw->bandwidth[ROOF_ATTAINABLE], "");
    for (int32_t i = hw->n_levels - 1; i >= 0; i--) {
        char text[128];
        describe_level(&hw->level[i], cache, n_caches, text);
        print_value(hw->level[i].name, "GB/s", &hw->level[i].bandwidth, text);
    }
    print_unseen(hw, cache, n_caches);
    for (int t = 0; t < DTYPE_COUNT; t++)
        print_value(dtype_name((enum dtype)t), t == DTYPE_INT8 ? "GOP/s" : "GFLOP/s", &hw->peak[ROOF_ATTAINABLE][t], "");
}

// Beside the datasheet, where the catalogue has the processor.
static void print_catalogue(const struct hardware *hw)
{
    char model[96];
    struct hardware sheet;
    environment_cpu_model(model);
    if (!ceilings_catalogued(model, &sheet)) {
        printf("  '%s' is not in the catalogue: no datasheet to compare with\n", model);
        return;
    }
    double printed = sheet.bandwidth[ROOF_DATASHEET].value, read = hw->bandwidth[ROOF_ATTAINABLE].value;
    printf("  datasheet of %s, all cores: read %.0f %%", sheet.title, 100 * read / printed);
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (hw->peak[ROOF_ATTAINABLE][t].value > 0 && sheet.peak[ROOF_DATASHEET][t].value > 0)
            printf(", %s %.0f %%", dtype_name((enum dtype)t),
                   100 * hw->peak[ROOF_ATTAINABLE][t].value / sheet.peak[ROOF_DATASHEET][t].value);
    printf(" of it\n");
}

static void print_text(const struct hardware *hw, const struct options *o, const char *kept, const struct survey *survey)
{
    struct team *team;
    struct cache cache[ENVIRONMENT_CACHES];
    char warning[160];
    int32_t n_caches = 0;
    if (team_open(&team, o->threads, o->cpu_list, NULL)) {
        n_caches = environment_caches(team, cache);
        team_close(team);
    }
    printf("%s\n  %s\n", hw->title, hw->note);
    print_ceilings(hw, cache, n_caches);
    print_catalogue(hw);
    if (*kept)
        printf("  kept from an earlier measurement, since only disturbance lowers: %s;\n  remove the file to begin anew\n",
               kept);
    ceilings_warning(hw, warning);
    if (*warning)
        printf("  %s, best when nothing else runs\n", warning);
    if (survey->n)
        survey_print(stdout, survey);
}

static void print_json(const struct hardware *hw, const struct survey *survey)
{
    cJSON *json = hardware_json(hw);
    if (survey->n)
        cJSON_AddItemToObject(json, "survey", survey_json(survey));
    table_json_print(json);
}

// results/ceilings.json: results; a bare name: .
static void folder_of(const char *path, char out[640])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, 640, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (!*out)
        snprintf(out, 640, "/");
}

static bool measure(struct hardware *hw, struct survey *survey, const struct options *o, const char *path, struct error *e)
{
    struct ceilings_options ceilings = {.threads = o->threads, .cpu_list = o->cpu_list, .repetitions = o->repetitions};
    char folder[640];
    folder_of(path, folder);
    progress_note(survey->progress, "reads, cache levels and peaks in %d moments, about %d s%s", o->repetitions,
                  CEILINGS_SECONDS, o->quick ? "" : "; then everything else");
    if (!ceilings_measure(hw, &ceilings, e))
        return false;
    struct survey_options options = {
        .threads = o->threads, .cpu_list = o->cpu_list, .folder = folder, .rounds = o->repetitions < 3 ? o->repetitions : 3};
    return o->quick || survey_run(survey, &options, e);
}

// The rows as a table beside the JSON, for pictures: ceilings.json, ceilings.survey.csv.
static bool save_table(const struct survey *survey, const char *path, struct error *e)
{
    char table[700];
    size_t n = strlen(path), stem = n > 5 && !strcmp(path + n - 5, ".json") ? n - 5 : n;
    snprintf(table, sizeof table, "%.*s.survey.csv", (int)stem, path);
    FILE *f = fopen(table, "w");
    if (f)
        survey_csv(f, survey);
    return (f && !fclose(f)) || error_set(e, ERROR_OUTPUT, "'%s' could not be written", table);
}

static bool save(const struct hardware *hw, const struct survey *survey, const char *path, struct error *e)
{
    cJSON *rows = survey->n ? survey_json(survey) : NULL;
    bool ok = hardware_save_survey(hw, rows, path, e) && (!rows || save_table(survey, path, e));
    cJSON_Delete(rows);
    return ok;
}

// Of a CUDA device.
static bool device_ceilings(const struct options *o, struct error *e)
{
    struct hardware hw;
    struct cuda_ceilings c;
    char path[640];
    device_ceilings_path("results", o->device, path);
    if (o->has_out)
        snprintf(path, sizeof path, "%.600s", o->out);
    if ((!o->has_out && !make_folder("results", e)) || !device_ceilings_measure(&hw, &c, o->device, path, e))
        return false;
    if (!o->json) {
        device_ceilings_print(stdout, &hw, &c);
        printf("written to %s\n", path);
        return true;
    }
    cJSON *json = hardware_json(&hw);
    cJSON_AddItemToObject(json, "device", device_ceilings_json(&c));
    table_json_print(json);
    return true;
}

bool cmd_ceilings(const struct options *o, struct error *e)
{
    struct hardware hw, before;
    struct progress progress;
    struct survey survey = {.progress = &progress};
    char path[640], kept[512] = "";
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': ceilings takes flags only", o->arg[0]);
    if (!strcmp(o->backend, "cuda"))
        return device_ceilings(o, e);
    if (strcmp(o->backend, "auto") && strcmp(o->backend, "cpu"))
        return error_set(e, ERROR_USAGE, "'--backend %.40s' has no ceilings, expected cpu or cuda", o->backend);
    ceilings_path("results", o->threads, path);
    if (o->has_out)
        snprintf(path, sizeof path, "%.600s", o->out);
    if (!o->has_out && !make_folder("results", e))
        return false;
    progress_begin(&progress, o->quiet ? NULL : stderr, 0, 0);
    bool ok = measure(&hw, &survey, o, path, e);
    progress_end(&progress);
    if (ok && file_exists(path) && hardware_load(&before, path, NULL))
        ceilings_keep_best(&hw, &before, kept);
    if (ok && survey.n)
        ok = survey_ceilings(&survey, &hw, environment_threads(o->threads, o->cpu_list), e);
    ok = ok && save(&hw, &survey, path, e);
    if (ok && o->json)
        print_json(&hw, &survey);
    else if (ok)
        print_text(&hw, o, kept, &survey);
    if (ok && !o->json)
        printf("written to %s\n", path);
    survey_free(&survey);
    return ok;
}
