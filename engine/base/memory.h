// How much memory this process may still take.
#ifndef ENGINE_BASE_MEMORY_H
#define ENGINE_BASE_MEMORY_H

#include <stdint.h>

// The smaller of what the kernel calls available and what the memory limits of the process's cgroup (version 2 or 1) and
// its ancestors leave, reclaimable file cache counted as free, and what a limited address space (ulimit -v) leaves.
// UINT64_MAX where none is known.
// root: "" or a folder that stands for / (tests).
uint64_t memory_available(const char *root);

#endif
