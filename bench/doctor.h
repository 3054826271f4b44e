// What a machine lets us measure and what would make numbers better: read from /proc, /sys and /dev, nothing is changed.
// Each check is a function of a root folder, so that tests make machines up.
#ifndef BENCH_DOCTOR_H
#define BENCH_DOCTOR_H

#include "engine/base/json.h"

enum doctor_status {
    DOCTOR_OK,
    DOCTOR_BETTER,   // numbers would be better (less noise, or faster) if it were mended
    DOCTOR_PREVENTS, // something cannot be measured
    DOCTOR_UNKNOWN,  // this system does not say
};
const char *doctor_status_name(enum doctor_status s); // "ok", "could be better", "prevents", "unknown"

struct finding {
    const char *subject, *why; // why it matters, a few words
    enum doctor_status status;
    char found[160]; // what is there
    char mend[160];  // the command that mends it; "": nothing to do, or nothing that can be done
};

enum { DOCTOR_CHECKS_MAX = 40 };
struct diagnosis {
    struct finding finding[DOCTOR_CHECKS_MAX];
    int32_t n;
};

void doctor_examine(struct diagnosis *d, const char *root); // root: "" for this machine
cJSON *doctor_json(const struct diagnosis *d);              // the caller frees

#endif
