// Device memory: each allocation ends at a guard page, is filled with 0xff, and cannot be touched while host code runs.
// Under AddressSanitizer it is malloc's, so that ASan sees every access of a kernel.
#include "tests/cuda/emu_runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGN = 256, POISONED = 1 << 20 };

struct allocation {
    struct allocation *next;
    char *map, *data;
    size_t map_bytes, bytes; // the map ends with the guard page
};

static struct allocation *first;
static int open_depth;
static const size_t TOTAL = (size_t)8 << 30;
static size_t used;

static void protect(const struct allocation *a, int how)
{
    if (a->map)
        mprotect(a->map, a->map_bytes - PAGE, how);
}

void emu_memory_open(void)
{
    for (struct allocation *a = first; a && !open_depth; a = a->next)
        protect(a, PROT_READ | PROT_WRITE);
    open_depth++;
}

void emu_memory_close(void)
{
    open_depth--;
    for (struct allocation *a = first; a && !open_depth; a = a->next)
        protect(a, PROT_NONE);
}

bool emu_is_device(const void *p, size_t bytes)
{
    const char *c = p;
    for (struct allocation *a = first; a; a = a->next)
        if (c >= a->data && c + bytes <= a->data + a->bytes)
            return true;
    return false;
}

// Whoever reads what nobody wrote sees NaN. Of large allocations the ends alone: pages that are never touched cost nothing
// when the map is protected.
static void poison(char *data, size_t bytes)
{
    size_t end = bytes < 2 * POISONED ? bytes : POISONED;
    memset(data, 0xff, end);
    memset(data + bytes - end, 0xff, end);
}

static bool map(struct allocation *a)
{
    size_t bytes = (a->bytes + ALIGN - 1) / ALIGN * ALIGN + !a->bytes * ALIGN;
#ifdef __SANITIZE_ADDRESS__
    if (posix_memalign((void **)&a->data, ALIGN, bytes))
        return false;
    poison(a->data, bytes);
#else
    a->map_bytes = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    a->map = mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->map == MAP_FAILED)
        return false;
    a->data = a->map + a->map_bytes - PAGE - bytes;
    poison(a->data, bytes);
    mprotect(a->map + a->map_bytes - PAGE, PAGE, PROT_NONE);
    if (!open_depth)
        protect(a, PROT_NONE);
#endif
    return true;
}

cudaError_t CUDARTAPI cudaMalloc(void **p, size_t bytes)
{
    if (emu_capturing())
        return emu_error(cudaErrorStreamCaptureUnsupported);
    struct allocation *a = calloc(1, sizeof *a);
    a->bytes = bytes;
    if (emu_inject() || used + bytes > TOTAL || !map(a)) {
        free(a);
        return emu_error(cudaErrorMemoryAllocation);
    }
    a->next = first, first = a;
    used += bytes;
    *p = a->data;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFree(void *p)
{
    if (!p)
        return cudaSuccess;
    if (emu_capturing())
        return emu_error(cudaErrorStreamCaptureUnsupported);
    emu_drain_all(); // cudaFree waits for the device
    for (struct allocation **link = &first; *link; link = &(*link)->next) {
        struct allocation *a = *link;
        if (a->data != p)
            continue;
        *link = a->next;
        used -= a->bytes;
        if (a->map)
            munmap(a->map, a->map_bytes);
        else
            free(a->data);
        free(a);
        return cudaSuccess;
    }
    return emu_error(cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *available, size_t *total)
{
    if (emu_inject())
        return emu_error(cudaErrorUnknown);
    *total = TOTAL, *available = TOTAL - used;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    if (emu_capturing())
        return emu_error(cudaErrorStreamCaptureUnsupported);
    if (emu_inject() || posix_memalign(p, PAGE, bytes + !bytes))
        return emu_error(cudaErrorMemoryAllocation);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, 0);
}

cudaError_t CUDARTAPI cudaFreeHost(void *p)
{
    emu_drain_all();
    free(p);
    return cudaSuccess;
}
