// kvbench verify: the checks as a table or as JSON.
#include "bench/command.h"
#include "bench/table.h"
#include "bench/verify.h"

#include "engine/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_check(void *ctx, const struct verify_check *c)
{
    char name[64];
    (void)ctx;
    snprintf(name, sizeof name, "%s%s", c->control ? "control: " : "", c->name);
    printf("  %-6s  %-33s %9.2e %s %.0e  %s%s\n", c->passed ? "ok" : "FAILED", name, c->max_diff,
           c->max_diff <= c->tolerance ? "<=" : "> ", c->tolerance,
           !c->control ? ""
           : c->passed ? "detected: "
                       : "not detected: ",
           c->detail);
    fflush(stdout);
}

static void print_header(const struct opened *o, const struct verify_options *options, bool golden)
{
    printf("%s on %s, %s KV: largest difference over largest logit%s\n", o->model.spec.name, o->backend.name,
           dtype_name(options->kv), golden ? " of the reference" : " of one forward pass");
}

static cJSON *json_of_check(const struct verify_check *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", c->name);
    cJSON_AddStringToObject(json, "kind", c->control ? "control" : "check");
    cJSON_AddBoolToObject(json, "passed", c->passed);
    if (c->control)
        cJSON_AddBoolToObject(json, "detected", c->passed);
    if (isfinite(c->max_diff))
        cJSON_AddNumberToObject(json, "max_diff", c->max_diff);
    else
        cJSON_AddNullToObject(json, "max_diff");
    cJSON_AddNumberToObject(json, "tolerance", c->tolerance);
    cJSON_AddStringToObject(json, "detail", c->detail);
    return json;
}

static void print_json(const struct opened *o, const struct verify_options *options, const struct verify_report *report)
{
    cJSON *json = cJSON_CreateObject(), *checks = cJSON_AddArrayToObject(json, "checks");
    cJSON_AddStringToObject(json, "model", o->model.spec.name);
    cJSON_AddStringToObject(json, "backend", o->backend.name);
    cJSON_AddStringToObject(json, "kv", dtype_name(options->kv));
    cJSON_AddBoolToObject(json, "passed", !report->n_failed);
    cJSON_AddNumberToObject(json, "n_failed", report->n_failed);
    for (int32_t i = 0; i < report->n; i++)
        cJSON_AddItemToArray(checks, json_of_check(&report->check[i]));
    table_json_print(json);
}

static bool report_all(struct opened *o, const struct options *options, const struct verify_options *v, struct error *e)
{
    struct verify_report report = {.on_check = options->json ? NULL : print_check};
    if (!options->json) {
        print_header(o, v, options->golden);
        open_print_loading(stdout, o);
    }
    bool ok = options->golden ? verify_golden(o, v, options->golden, &report, e) : verify_protocol(o, v, &report, e);
    if (!ok)
        return false;
    if (options->json)
        print_json(o, v, &report);
    else
        printf("%d checks, %d failed\n", report.n, report.n_failed);
    return !report.n_failed ||
           error_set(e, ERROR_FAILED, "'%s': %d of %d checks disagree", options->model, report.n_failed, report.n);
}

bool cmd_verify(const struct options *o, struct error *e)
{
    struct open_request request = open_request_of(o);
    struct verify_options options = {.device = request.device, .kv = DTYPE_F32, .seed = (uint64_t)o->seed};
    struct opened opened;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s'", o->arg[0]);
    if (o->kv.n > 1)
        return error_set(e, ERROR_USAGE, "'--kv': verify takes one type at a time");
    if (o->kv.n && !open_parse_type(o->kv.value[0], &options.kv, e))
        return error_prefix(e, "'--kv'");
    if (!open_model(&opened, &request, e))
        return false;
    bool ok = report_all(&opened, o, &options, e);
    open_close(&opened);
    return ok;
}
