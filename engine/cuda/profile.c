#include "engine/cuda/profile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct cupti functions;
static bool loaded;
static char why_not[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

// A symbol of a library is an object pointer; POSIX lets it be a function's.
static bool find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    if (symbol)
        memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

// CUPTI opens this by its bare name, which finds nothing where CUPTI itself came from a folder of its own.
static void load_neighbour(const void *of_cupti)
{
    Dl_info where;
    char path[1024];
    const char *slash = dladdr(of_cupti, &where) && where.dli_fname ? strrchr(where.dli_fname, '/') : NULL;
    if (!slash)
        return;
    snprintf(path, sizeof path, "%.*s/libnvperf_host.so", (int)(slash - where.dli_fname), where.dli_fname);
    (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void load_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver)
        return;
    find(driver, "cuCtxGetCurrent", &functions.cuCtxGetCurrent);
    find(driver, "cuCtxGetDevice", &functions.cuCtxGetDevice);
}

// Both stay loaded: neither survives being unloaded.
static void load(void)
{
    const char *missing = NULL;
    void *library = dlopen(CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why_not, sizeof why_not, "no CUPTI: %.180s", dlerror());
        return;
    }
#define X(function)                                                                                                         \
    if (!find(library, #function, &functions.function))                                                                     \
        missing = #function;
    CUPTI_FUNCTIONS(X)
#undef X
    if (missing) {
        snprintf(why_not, sizeof why_not, CUPTI_LIBRARY " has no %s", missing);
        return;
    }
    load_neighbour(dlsym(library, "cuptiGetTimestamp"));
    load_driver();
    loaded = true;
}

const struct cupti *cupti_load(struct error *e)
{
    pthread_once(&once, load);
    if (!loaded)
        error_set(e, ERROR_UNSUPPORTED, "%s", why_not);
    return loaded ? &functions : NULL;
}

static const char *advice(CUptiResult result)
{
    switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        return "; counters want root, CAP_SYS_ADMIN or the driver's NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: return "; another profiler is attached";
    default: return "";
    }
}

bool cupti_failed(const struct cupti *c, CUptiResult result, const char *what, struct error *e)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS)
        return true;
    (void)c->cuptiGetResultString(result, &text);
    return error_set(e, ERROR_DEVICE, "%s by CUPTI: %s (%d)%s", what, text ? text : "unknown", (int)result, advice(result));
}
