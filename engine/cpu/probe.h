// Microbenchmarks of the machine itself: the ceilings. They know nothing of the engine's kernels.
#ifndef ENGINE_CPU_PROBE_H
#define ENGINE_CPU_PROBE_H

#include "engine/base/dtype.h"
#include "engine/cpu/team.h"

struct probe_buffer; // memory the read probe streams; first touched by the team, huge pages where possible

bool probe_buffer_open(struct probe_buffer **out, struct team *team, uint64_t bytes, bool huge_pages, struct error *e);
void probe_buffer_close(struct probe_buffer *b); // accepts NULL

// Bytes per second of reading `bytes` of the buffer (0: all of it) once with all members, n_streams (1, 2, 4, 8) per member.
double probe_read(struct probe_buffer *b, struct team *team, uint64_t bytes, int32_t n_streams);

// FLOP/s of register-only multiply-adds on all members for about `ns` nanoseconds: F32 (FMA of the widest vectors), BF16
// (vdpbf16ps; 0 where the CPU has none), INT8 (vpdpbusd or the AVX2 sequence). 0: no such arithmetic here.
double probe_flops(struct team *team, enum dtype type, int64_t ns);

#endif
