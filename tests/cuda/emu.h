// CUDA kernels on the CPU: one fiber per CUDA thread, one block at a time, on one OS thread, so that every run is
// deterministic. engine/cuda/device.h maps what kernels may use onto these functions; emu_runtime.c and emu_blas.c are the
// runtime and cuBLAS that host code is linked against instead of NVIDIA's, on NVIDIA's own headers.
//
//   KVEMU_ORDER=fwd|rev|rand:SEED   order in which threads and blocks run: a missing barrier shows as a changed result
//                                   and when asynchronous copies are made: at the wait, at once, by chance
//   KVEMU_STREAMS=eager|lazy        lazy (default): work runs as late as CUDA allows, so missing synchronization shows
//   KVEMU_FAIL=N                    the N-th call of the runtime fails
//   KVEMU_CHIP=80|90|100            compute capability times 10 (default: 90)
//
// Shared memory is filled with 0xff before each block and device memory when it is allocated: NaN in every float type.
// Not emulated: wgmma, clusters, several blocks at once (none may wait for another), memory order, any timing.
#ifndef TESTS_CUDA_EMU_H
#define TESTS_CUDA_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_MAX_THREADS = 1024, EMU_MAX_COPIES = 128, EMU_SHARED_BYTES = 232448 };

struct emu_dim3 {
    unsigned x, y, z;
};

// An asynchronous copy that its thread has not waited for yet.
struct emu_copy {
    void *to;
    const void *from;
    unsigned bytes, group; // bytes 0: copied already
};

// One CUDA thread.
struct emu_fiber {
    struct emu_dim3 tid;
    unsigned index, lane, warp;
    int source;               // warp collectives: the lane whose `in` this one wants
    uint32_t in[12], out[12]; // operands and results of a warp collective
    struct emu_copy copy[EMU_MAX_COPIES];
    unsigned n_copies, n_groups; // groups committed
    // The scheduler's own.
    void *sp, *stack, *tsan, *fake;
    int state, waits_for;
};

struct emu_block {
    struct emu_dim3 grid, block, bid;
    void *dynamic; // shared memory asked for at launch
    unsigned dynamic_bytes;
};

extern struct emu_fiber *emu_current; // the running thread
extern struct emu_block emu_block;

typedef void (*emu_thunk)(void *args);
typedef void (*emu_collective)(struct emu_fiber **lane, uint32_t mask); // lane[i] is NULL outside the mask

// Runs a grid to its end.
void emu_run_grid(struct emu_dim3 grid, struct emu_dim3 block, unsigned dynamic_bytes, emu_thunk kernel, void *args,
                  const char *name);

// __syncthreads: barrier 0, all threads. Named barriers: `threads` of them arrive.
enum emu_reduction { EMU_COUNT, EMU_AND, EMU_OR, EMU_NONE };
void emu_barrier(unsigned id, unsigned threads);
int emu_barrier_reduce(enum emu_reduction what, int predicate);

// The lanes of `mask` meet; the last to come runs `what` for all of them (NULL: nothing).
void emu_warp(uint32_t mask, emu_collective what);
void emu_shuffle(struct emu_fiber **lane, uint32_t mask); // out = in of the lane `source`
void emu_ballot(struct emu_fiber **lane, uint32_t mask);
// mma.sync m16n8k16 with the fragments of the PTX ISA: in[0..3] A, in[4..5] B, in[6..9] C (f32); out[0..3] D.
void emu_mma_bf16(struct emu_fiber **lane, uint32_t mask);
// ldmatrix.x4(.trans): `in` holds the address of this lane's row of eight 16-bit values; out[0..3] the fragments.
void emu_ldmatrix(struct emu_fiber **lane, uint32_t mask);
void emu_ldmatrix_transposed(struct emu_fiber **lane, uint32_t mask);

// cp.async: copied at the wait, NaN until then; or at once: by KVEMU_ORDER.
void emu_copy_async(void *to, const void *from, unsigned bytes);
void emu_copy_commit(void);
void emu_copy_wait(unsigned pending_groups);

// mbarrier and cp.async.bulk: copies complete when no thread can run any more.
void emu_mbarrier_init(uint64_t *b, unsigned count);
void emu_mbarrier_arrive(uint64_t *b, unsigned expect_bytes);
void emu_mbarrier_wait(uint64_t *b, unsigned parity);
void emu_bulk_load(void *to, const void *from, unsigned bytes, uint64_t *b);

// A launch as the fake runtime queues it: arguments are copied now. Returns a cudaError_t.
int emu_launch(struct emu_dim3 grid, struct emu_dim3 block, size_t dynamic_bytes, void *stream, emu_thunk kernel,
               const void *args, size_t n_args, const void *symbol, const char *name);

// Ends the program with one line that names kernel, block and thread.
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void emu_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
