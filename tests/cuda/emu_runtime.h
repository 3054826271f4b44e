// Parts of the fake runtime: memory (emu_memory.c), streams, events, graphs and launches (emu_runtime.c), cuBLAS
// (emu_blas.c, emu_blaslt.c).
#ifndef TESTS_CUDA_EMU_RUNTIME_H
#define TESTS_CUDA_EMU_RUNTIME_H

#include "tests/cuda/emu.h"

#include <cuda_runtime_api.h>

// Work in a stream. `args` follows it in memory.
struct emu_op {
    struct emu_op *next;
    void (*run)(struct emu_op *op);
    // Waits and records.
    struct CUevent_st *event;
    struct CUstream_st *other;
    uint64_t position;
    // Copies and sets.
    void *to;
    const void *from;
    size_t bytes;
    int value;
    // Launches.
    struct emu_dim3 grid, block;
    emu_thunk kernel;
    const char *name;
    // Kernels, cuBLAS's too, for who observes.
    bool computes, by_driver;
    uint32_t correlation;      // of the call that enqueued it
    const struct emu_op *node; // of an executable graph that this is a run of
    size_t n_args;
    _Alignas(16) char args[];
};

struct emu_op *emu_op_make(void (*run)(struct emu_op *), const void *args, size_t n_args);
cudaError_t emu_push(cudaStream_t stream, struct emu_op *op); // takes the op; captures or queues it
void emu_drain_all(void);
bool emu_capturing(void);             // does any stream capture: then nothing may be allocated, freed or waited for
bool emu_in_capture(cudaStream_t s);  // does this one
bool emu_inject(void);                // is this the call that KVEMU_FAIL wants to fail
bool emu_injected(void);              // has that call come
int emu_chip(void);                   // compute capability times 10, by KVEMU_CHIP
cudaError_t emu_error(cudaError_t e); // remembers it for cudaGetLastError

// Who is told of what CUPTI tells of: nodes captured and (with the original) copied, calls, and kernels run.
struct emu_observer {
    void (*node)(const struct emu_op *node, const struct emu_op *original);
    void (*call)(uint32_t correlation, bool of_driver);
    void (*kernel)(const struct emu_op *node, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns);
};
extern const struct emu_observer *emu_observer; // NULL: nobody
uint64_t emu_clock_ns(void);

// Device memory can be touched between these two only: a host that follows a device pointer faults.
void emu_memory_open(void);
void emu_memory_close(void);
bool emu_is_device(const void *p, size_t bytes);

#endif
