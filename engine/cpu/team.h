// A fixed team of pinned threads that runs one function at a time; the caller is member 0. Members spin between calls
// for a short while before they sleep, because waking is dear on virtual machines.
#ifndef ENGINE_CPU_TEAM_H
#define ENGINE_CPU_TEAM_H

#include "engine/base/error.h"

#include <stdint.h>

struct team; // handle

// n_threads 0: one per allowed CPU (affinity mask and cgroup quota respected). cpu_list "0,2-3" or NULL.
bool team_open(struct team **out, int32_t n_threads, const char *cpu_list, struct error *e);
void team_close(struct team *team); // accepts NULL
int32_t team_size(const struct team *team);
int32_t team_cpu(const struct team *team, int32_t member); // CPU number it is pinned to, -1 if not pinned

// Runs work(ctx, member, n_members) on every member and waits for all.
void team_run(struct team *team, void (*work)(void *ctx, int32_t member, int32_t n_members), void *ctx);

// Inside work: waits until every member has arrived.
void team_barrier(struct team *team, int32_t member);

#endif
