// Microbenchmarks of the machine itself: the ceilings. They know nothing of the engine's kernels.
#ifndef ENGINE_CPU_PROBE_H
#define ENGINE_CPU_PROBE_H

#include "engine/base/dtype.h"
#include "engine/cpu/team.h"

struct probe_buffer; // memory that the probes move; first touched by the team, huge pages where possible

bool probe_buffer_open(struct probe_buffer **out, struct team *team, uint64_t bytes, bool huge_pages, struct error *e);
void probe_buffer_close(struct probe_buffer *b); // accepts NULL
uint64_t probe_buffer_bytes(const struct probe_buffer *b);

enum probe_action { PROBE_READ, PROBE_COPY, PROBE_TRIAD, PROBE_MEMCPY, PROBE_ACTIONS }; // triad: a = b + 0.5 c
const char *probe_action_name(enum probe_action action);                                // "read"

struct probe_loop {
    enum probe_action action;
    int32_t streams; // read: 1, 2, 4 or 8 side by side per member
    bool past_cache; // copy and triad: stores go around the caches
};

// Bytes per second of reading `bytes` of the buffer (0: all of it) once with all members.
double probe_read(struct probe_buffer *b, struct team *team, uint64_t bytes, int32_t n_streams);

// Bytes per second, read and written, of members that go over their parts of a working set of `bytes` in whole rounds, for
// `ns` or a round, from the first member's begin to the last one's end. The first window of a set finds caches cold. bytes
// 0: all of the buffer, not in whole rounds but on from where the last window ended. Windows shorter than the pauses a
// hypervisor makes can miss them.
double probe_window(struct probe_buffer *b, struct team *team, struct probe_loop loop, uint64_t bytes, int64_t ns);

// Multiply-adds in registers by one instruction.
struct probe_arithmetic {
    enum dtype type; // F32, BF16 or INT8
    int32_t bits;    // width of a vector
    const char *instruction;
};
// Those that this CPU has, from old and narrow to new and wide within a type; NULL behind the last.
const struct probe_arithmetic *probe_arithmetic(int32_t i);
const struct probe_arithmetic *probe_arithmetic_of(enum dtype type); // the newest and widest of a type, or NULL
// Some rounds of it on this thread; returns the FLOPs done.
double probe_arithmetic_run(const struct probe_arithmetic *a, int64_t rounds);
// FLOP/s of all members for about `ns`; NULL: 0.
double probe_flops(struct team *team, const struct probe_arithmetic *a, int64_t ns);

// Nanoseconds of one fork and join of the team, and of one barrier within it, on average over n.
double probe_fork_join(struct team *team, int32_t n);
double probe_barrier(struct team *team, int32_t n);

#endif
