#include "bench/energy.h"

#include "bench/sysfile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// RAPL counts in steps of a millisecond, GPUs in steps of up to a tenth of a second.
enum { RAPL_WINDOW_NS = 200 * 1000 * 1000, GPU_WINDOW_NS = 2000 * 1000 * 1000 };

static bool zone_file(const struct energy *x, const struct energy_zone *z, const char *name, int64_t *out)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", z->path, name);
    return sysfile_number(x->root, path, out);
}

// Cores and graphics are parts of a package; psys counts packages again.
static bool is_whole(const char *name)
{
    return !strncmp(name, "package", 7) || !strcmp(name, "dram");
}

static void why_unreadable(struct energy *x, const struct energy_zone *z)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s/energy_uj", x->root, z->path);
    errno = 0;
    bool refused = access(path, R_OK) && errno == EACCES;
    snprintf(x->absent, sizeof x->absent, "%s",
             refused ? "energy_uj of RAPL is readable by root only" : "RAPL gives no number");
}

static void try_zone(struct energy *x, const char *name_of_zone)
{
    char path[160], name[64];
    struct energy_zone z = {0};
    snprintf(z.path, sizeof z.path, "/sys/class/powercap/%.64s", name_of_zone);
    snprintf(path, sizeof path, "%s/name", z.path);
    if (!sysfile_line(x->root, path, name, sizeof name) || !is_whole(name) || x->n_zones == ENERGY_ZONES)
        return;
    if (!zone_file(x, &z, "energy_uj", &z.last_uJ) || !zone_file(x, &z, "max_energy_range_uj", &z.range_uJ)) {
        why_unreadable(x, &z);
        return;
    }
    x->zone[x->n_zones++] = z;
}

// Zones are numbered without gaps: intel-rapl:0 (a package) and intel-rapl:0:0 (a part of it). AMD's carry the same name.
void energy_open(struct energy *x, const char *root)
{
    *x = (struct energy){.window_ns = RAPL_WINDOW_NS};
    snprintf(x->root, sizeof x->root, "%s", root);
    for (int i = 0; i < ENERGY_ZONES / 2; i++) {
        char name[48];
        snprintf(name, sizeof name, "intel-rapl:%d", i);
        try_zone(x, name);
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "intel-rapl:%d:%d", i, k);
            try_zone(x, name);
        }
    }
    if (!x->n_zones && !*x->absent)
        snprintf(x->absent, sizeof x->absent, "this machine shows no RAPL (/sys/class/powercap)");
}

void energy_use_gpu(struct energy *x, const struct nvml *nvml, int32_t device, const char *visible)
{
    *x = (struct energy){.nvml = *nvml, .window_ns = GPU_WINDOW_NS};
    void *gpu = nvml_device(nvml, device, visible, x->absent);
    int result = gpu ? nvml->energy_mJ(gpu, &x->gpu_last_mJ) : 0;
    x->gpu = result ? NULL : gpu;
    if (result)
        snprintf(x->absent, sizeof x->absent, "NVML: %.80s", nvml->error_text(result));
}

void energy_open_gpu(struct energy *x, const char *library, int32_t device, const char *visible)
{
    struct nvml nvml;
    if (nvml_load(&nvml, library))
        energy_use_gpu(x, &nvml, device, visible);
    else
        *x = (struct energy){.absent = "no NVML (libnvidia-ml.so.1)"};
}

bool energy_told(const struct energy *x)
{
    return x->gpu || x->n_zones;
}

void energy_start(struct energy *x)
{
    if (x->gpu)
        (void)x->nvml.energy_mJ(x->gpu, &x->gpu_last_mJ);
    for (int32_t i = 0; i < x->n_zones; i++)
        zone_file(x, &x->zone[i], "energy_uj", &x->zone[i].last_uJ);
}

double energy_stop(struct energy *x)
{
    double sum_uJ = 0;
    unsigned long long now_mJ;
    if (x->gpu)
        return x->nvml.energy_mJ(x->gpu, &now_mJ) ? NAN : (double)(now_mJ - x->gpu_last_mJ) / 1e3;
    for (int32_t i = 0; i < x->n_zones; i++) {
        const struct energy_zone *z = &x->zone[i];
        int64_t now_uJ;
        if (!zone_file(x, z, "energy_uj", &now_uJ))
            return NAN;
        sum_uJ += (double)(now_uJ - z->last_uJ + (now_uJ < z->last_uJ ? z->range_uJ : 0));
    }
    return x->n_zones ? sum_uJ / 1e6 : NAN;
}
