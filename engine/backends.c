// The backends of this build by name.
#include "engine/backend.h"

#include "engine/base/names.h"
#include "engine/cpu/cpu.h"
#include "engine/cuda/cuda.h"
#include "engine/null/null.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool (*open)(struct backend *, const struct backend_options *, struct error *);
} BACKEND[] = {{"cpu", cpu_backend_open}, {"cuda", cuda_backend_open}, {"null", null_backend_open}};

enum { BACKENDS = sizeof BACKEND / sizeof *BACKEND };

static const char *const NAME[] = {"cpu", "cuda", "null"};

// The device where there is one; where only a part of it is missing, the CPU with a line that says what.
static bool open_best(struct backend *out, const struct backend_options *options, struct error *e)
{
    struct error why = {0};
    if (!cuda_backend_likely())
        return cpu_backend_open(out, options, e);
    if (cuda_backend_open(out, options, &why))
        return true;
    bool ok = cpu_backend_open(out, options, e);
    snprintf(out->note, sizeof out->note, "%.*s", (int)sizeof out->note - 1, why.message);
    return ok;
}

bool backend_open(struct backend *out, const char *name, const struct backend_options *options, struct error *e)
{
    *out = (struct backend){0};
    if (!name || !*name || !strcmp(name, "auto"))
        return open_best(out, options, e);
    for (int i = 0; i < BACKENDS; i++)
        if (!strcmp(name, BACKEND[i].name))
            return BACKEND[i].open(out, options, e);
    const char *near = names_nearest(name, NAME, BACKENDS);
    return error_set(e, ERROR_USAGE, "unknown backend '%s', expected auto, cpu, cuda or null%s%s%s", name,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void backend_close(struct backend *b)
{
    if (b->close)
        b->close(b->self);
    *b = (struct backend){0};
}

const char *const *backend_names(int *n)
{
    *n = BACKENDS;
    return NAME;
}
