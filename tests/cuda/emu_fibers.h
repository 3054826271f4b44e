// Between the scheduler (emu_fibers.c) and what threads wait for (emu_sync.c).
#ifndef TESTS_CUDA_EMU_FIBERS_H
#define TESTS_CUDA_EMU_FIBERS_H

#include "tests/cuda/emu.h"

enum { EMU_READY, EMU_RUNNING, EMU_WAITING, EMU_DONE };
enum { EMU_WAITS_WARP, EMU_WAITS_BARRIER, EMU_WAITS_MBARRIER };

extern struct emu_fiber emu_fiber[EMU_MAX_THREADS];
extern unsigned emu_threads, emu_live; // of this block: all, and those that have not returned

void emu_wait(int what);                                   // until somebody makes the running thread ready
void emu_make_ready(struct emu_fiber **fiber, unsigned n); // in the order asked for by KVEMU_ORDER
unsigned emu_choose(unsigned n);                           // one of n, by that order
void emu_sync_begin(void);                                 // a block starts
bool emu_sync_progress(void);                              // nobody can run: completes one bulk copy; false: there is none
void emu_sync_exit(struct emu_fiber *f);                   // a thread returns
void emu_sync_end(void);                                   // the block's last thread has returned
void emu_sync_report(void);                                // who waits for what, to stderr

// Happens-before edges for ThreadSanitizer; nothing otherwise.
void emu_acquire(void *tag);
void emu_release(void *tag);

#endif
