#include "bench/command.h"
#include "bench/doctor.h"
#include "bench/harness.h"
#include "bench/table.h"

#include <stdlib.h>

static void print_findings(const struct diagnosis *d)
{
    int count[DOCTOR_UNKNOWN + 1] = {0};
    for (int32_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->finding[i];
        count[f->status]++;
        printf("%-24s %-16s %s\n", f->subject, f->status == DOCTOR_UNKNOWN ? "-" : doctor_status_name(f->status), f->found);
        if (f->status == DOCTOR_BETTER || f->status == DOCTOR_PREVENTS)
            printf("%-24s %-16s matters: %s\n", "", "", f->why);
        if (*f->mend)
            printf("%-24s %-16s mend: %s\n", "", "", f->mend);
    }
    printf("\n%d ok, %d could be better, %d prevent something, %d not told\n", count[DOCTOR_OK], count[DOCTOR_BETTER],
           count[DOCTOR_PREVENTS], count[DOCTOR_UNKNOWN]);
}

static bool print_harness(const struct options *o, struct error *e)
{
    struct harness_cost cost;
    if (!harness_measure(&cost, o->traced_model, e))
        return false;
    if (o->json)
        table_json_print(harness_json(&cost));
    else
        harness_print(stdout, &cost);
    return true;
}

bool cmd_doctor(const struct options *o, struct error *e)
{
    struct diagnosis d;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': doctor takes flags only", o->arg[0]);
    if (o->harness)
        return print_harness(o, e);
    doctor_examine(&d, o->has_root ? o->root : "");
    if (o->json)
        table_json_print(doctor_json(&d));
    else
        print_findings(&d);
    return true;
}
