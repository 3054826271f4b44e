// Threads that come and go with one loop, for work at load time. (Steps of the engine have a standing team:
// engine/cpu/team.h.)
#include "engine/load/files.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256 };

struct loop {
    void (*work)(void *ctx, int64_t i);
    void *ctx;
    int64_t n;
    atomic_llong next;
};

static void *run_loop(void *arg)
{
    struct loop *loop = arg;
    for (int64_t i; (i = atomic_fetch_add(&loop->next, 1)) < loop->n;)
        loop->work(loop->ctx, i);
    return NULL;
}

static int32_t allowed_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

void parallel_for(int32_t threads, int64_t n, void (*work)(void *ctx, int64_t i), void *ctx)
{
    struct loop loop = {.work = work, .ctx = ctx, .n = n};
    pthread_t helper[MAX_THREADS];
    int64_t wanted = threads > 0 ? threads : allowed_cpus();
    wanted = wanted < n ? wanted : n;
    wanted = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    int32_t n_helpers = 0;
    while (n_helpers < wanted - 1 && !pthread_create(&helper[n_helpers], NULL, run_loop, &loop))
        n_helpers++;
    run_loop(&loop); // the caller works too, alone if no thread could be had
    for (int32_t i = 0; i < n_helpers; i++)
        pthread_join(helper[i], NULL);
}
