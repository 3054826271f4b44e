#include "bench/doctor.h"

#include "bench/doctor_checks.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    void (*look)(const char *root, struct finding *f);
    const char *subject, *why;
} CHECK[] = {
#define X(check, subject, why) {check, subject, why},
    DOCTOR_CHECKS(X)
#undef X
};
enum { N_CHECKS = sizeof CHECK / sizeof *CHECK };
_Static_assert((int)N_CHECKS <= (int)DOCTOR_CHECKS_MAX, "a diagnosis holds every finding");

const char *doctor_status_name(enum doctor_status s)
{
    static const char *const NAME[] = {"ok", "could be better", "prevents", "unknown"};
    return NAME[s];
}

void doctor_find(struct finding *f, enum doctor_status status, const char *mend, const char *found, ...)
{
    va_list args;
    f->status = status;
    snprintf(f->mend, sizeof f->mend, "%s", mend);
    va_start(args, found);
    vsnprintf(f->found, sizeof f->found, found, args);
    va_end(args);
}

void doctor_examine(struct diagnosis *d, const char *root)
{
    *d = (struct diagnosis){.n = N_CHECKS};
    for (int i = 0; i < N_CHECKS; i++) {
        d->finding[i] = (struct finding){.subject = CHECK[i].subject, .why = CHECK[i].why};
        CHECK[i].look(root, &d->finding[i]);
    }
}

cJSON *doctor_json(const struct diagnosis *d)
{
    cJSON *list = cJSON_CreateArray();
    for (int32_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->finding[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "subject", f->subject);
        cJSON_AddStringToObject(item, "status", doctor_status_name(f->status));
        cJSON_AddStringToObject(item, "found", f->found);
        cJSON_AddStringToObject(item, "why", f->why);
        cJSON_AddItemToObject(item, "mend", *f->mend ? cJSON_CreateString(f->mend) : cJSON_CreateNull());
        cJSON_AddItemToArray(list, item);
    }
    return list;
}
