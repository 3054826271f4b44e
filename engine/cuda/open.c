// Finding and loading the CUDA plug-in. It stays loaded: the CUDA libraries do not survive being unloaded.
#include "engine/cuda/cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *plugin_folder(void)
{
    const char *folder = getenv("KVBENCH_BACKEND_DIR");
    return folder && *folder ? folder : NULL;
}

static bool has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver != NULL; // kept open: the plug-in is about to want it
}

bool cuda_backend_likely(void)
{
    return plugin_folder() || has_driver();
}

// The folder of this program, without a slash at its end.
static bool program_folder(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    *strrchr(out, '/') = 0;
    return true;
}

static bool find_plugin(char path[PATH_MAX], struct error *e)
{
    char program[PATH_MAX];
    const char *folder = plugin_folder();
    if (folder) {
        snprintf(path, PATH_MAX, "%s/" CUDA_PLUGIN_FILE, folder);
        return !access(path, R_OK) ||
               error_set(e, ERROR_DEVICE, "no CUDA backend: '%s' (KVBENCH_BACKEND_DIR) is not there", path);
    }
    static const char *const WHERE[] = {"", "/../lib/kvbench"};
    for (size_t i = 0; program_folder(program, sizeof program) && i < sizeof WHERE / sizeof *WHERE; i++)
        if (snprintf(path, PATH_MAX, "%s%s/" CUDA_PLUGIN_FILE, program, WHERE[i]) < PATH_MAX && !access(path, R_OK))
            return true;
    return error_set(e, ERROR_DEVICE,
                     "no CUDA backend: " CUDA_PLUGIN_FILE
                     " is not beside kvbench; `make` builds it where the CUDA toolkit is "
                     "(make deps-cuda)");
}

static const struct cuda_plugin *load_plugin(struct error *e)
{
    char path[PATH_MAX];
    cuda_plugin_entry entry = NULL;
    if (!find_plugin(path, e))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, CUDA_PLUGIN_SYMBOL) : NULL;
    if (!symbol) {
        error_set(e, ERROR_DEVICE, "no CUDA backend: %s", dlerror());
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry);
    const struct cuda_plugin *plugin = entry();
    if (plugin->abi == CUDA_PLUGIN_ABI && plugin->bytes == cuda_plugin_bytes())
        return plugin;
    error_set(e, ERROR_DEVICE, "no CUDA backend: '%s' is of another build of kvbench: make it again", path);
    return NULL;
}

static const struct cuda_plugin *find(struct error *e)
{
    if (cuda_backend_likely())
        return load_plugin(e);
    error_set(e, ERROR_DEVICE, "no NVIDIA driver (libcuda.so.1); `kvbench predict` prices a CUDA device without having one");
    return NULL;
}

bool cuda_backend_open(struct backend *out, const struct backend_options *options, struct error *e)
{
    const struct cuda_plugin *plugin = find(e);
    return plugin && plugin->open(out, options, e);
}

bool cuda_device_ceilings(int32_t device, struct cuda_ceilings *out, struct error *e)
{
    const struct cuda_plugin *plugin = find(e);
    return plugin && plugin->ceilings(device, out, e);
}
