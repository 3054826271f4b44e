// The backends of this build by name.
#include "engine/backend.h"

#include "engine/base/names.h"
#include "engine/cpu/cpu.h"
#include "engine/null/null.h"

#include <string.h>

static const struct {
    const char *name;
    bool (*open)(struct backend *, const struct backend_options *, struct error *);
} BACKEND[] = {{"cpu", cpu_backend_open}, {"null", null_backend_open}}; // the first is "auto"

enum { BACKENDS = sizeof BACKEND / sizeof *BACKEND };

static const char *const NAME[] = {"cpu", "null"};

bool backend_open(struct backend *out, const char *name, const struct backend_options *options, struct error *e)
{
    *out = (struct backend){0};
    if (!name || !*name || !strcmp(name, "auto"))
        name = BACKEND[0].name;
    for (int i = 0; i < BACKENDS; i++)
        if (!strcmp(name, BACKEND[i].name))
            return BACKEND[i].open(out, options, e);
    if (!strcmp(name, "cuda"))
        return error_set(e, ERROR_DEVICE, "no CUDA backend in this build; `kvbench predict` prices it without a device");
    const char *near = names_nearest(name, NAME, BACKENDS);
    return error_set(e, ERROR_USAGE, "unknown backend '%s', expected auto, cpu or null%s%s%s", name,
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
