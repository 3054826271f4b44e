#include "engine/base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// The number after `key` at the start of a line ("" : the file's first word). False if absent or not a number ("max").
static bool read_number(const char *folder, const char *file, const char *key, uint64_t *out)
{
    char path[1024], line[256];
    size_t n = strlen(key);
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *end;
        found = !strncmp(line, key, n) && (*out = strtoull(line + n, &end, 10), end != line + n);
    }
    if (f)
        fclose(f);
    return found;
}

struct cgroup_files {
    const char *limit, *usage, *reclaimable;
};
static const struct cgroup_files V2 = {"memory.max", "memory.current", "inactive_file "};
static const struct cgroup_files V1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

static uint64_t left_in(const char *folder, const struct cgroup_files *files)
{
    uint64_t limit, usage, reclaimable = 0;
    if (!read_number(folder, files->limit, "", &limit) || !read_number(folder, files->usage, "", &usage))
        return UINT64_MAX;
    read_number(folder, "memory.stat", files->reclaimable, &reclaimable);
    usage = usage > reclaimable ? usage - reclaimable : 0;
    return limit > usage ? limit - usage : 0;
}

// The least that `path` below `mount` or one of its ancestors leaves.
static uint64_t least_left(const char *mount, const char *path, const struct cgroup_files *files)
{
    char folder[1024];
    uint64_t least = UINT64_MAX;
    size_t n_mount = strlen(mount);
    snprintf(folder, sizeof folder, "%s%s", mount, path);
    for (char *slash = folder + strlen(folder);; slash = strrchr(folder, '/')) {
        if (!slash || slash < folder + n_mount)
            break;
        *slash = 0;
        uint64_t left = left_in(folder, files);
        least = left < least ? left : least;
    }
    return least;
}

// /proc/self/cgroup: "0::/path" for version 2, "7:memory:/path" or "7:cpu,memory:/path" for version 1.
static uint64_t cgroup_left(const char *root)
{
    char path[1024], line[1024], mount[1024];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *at = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!at)
            continue;
        *at++ = 0;
        bool v2 = !controllers[1], v1 = strstr(controllers, "memory") != NULL;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, v2 ? "" : "/memory");
        uint64_t left = v2 || v1 ? least_left(mount, at, v2 ? &V2 : &V1) : UINT64_MAX;
        least = left < least ? left : least;
    }
    if (f)
        fclose(f);
    return least;
}

// What RLIMIT_AS (ulimit -v) leaves of the address space.
static uint64_t address_space_left(void)
{
    struct rlimit limit;
    uint64_t kib;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        !read_number("/proc/self", "status", "VmSize:", &kib))
        return UINT64_MAX;
    return limit.rlim_cur > kib * 1024 ? limit.rlim_cur - kib * 1024 : 0;
}

uint64_t memory_available(const char *root)
{
    char folder[1024];
    uint64_t kib, least = cgroup_left(root), space = *root ? UINT64_MAX : address_space_left();
    least = space < least ? space : least;
    snprintf(folder, sizeof folder, "%s/proc", root);
    if (read_number(folder, "meminfo", "MemAvailable:", &kib) && kib < UINT64_MAX / 1024 && kib * 1024 < least)
        least = kib * 1024;
    return least;
}
