#include "engine/cpu/team.h"

#include <ctype.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TEAM_MAX = 1024,
    SPINS = 20000, // pauses before a waiting member sleeps: some hundred microseconds
    LINE = 128,    // two cache lines: neighbours are prefetched in pairs
};

// A word that members wait on, alone in its cache lines.
struct signal {
    _Alignas(LINE) atomic_uint value;
    atomic_int sleepers;
};

struct member {
    struct team *team;
    pthread_t thread;
    int32_t index, cpu;
};

struct team {
    struct signal start, done, barrier; // generations: each use adds one
    _Alignas(LINE) atomic_int working;
    _Alignas(LINE) atomic_int arrived;
    int32_t n, spins;
    bool pinned;
    atomic_bool closing;
    void (*work)(void *, int32_t, int32_t);
    void *ctx;
    struct member *member;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void signal_wait(struct signal *s, unsigned seen, int32_t spins)
{
    for (int32_t i = 0; i < spins; i++) {
        if (atomic_load_explicit(&s->value, memory_order_acquire) != seen)
            return;
        pause_cpu();
    }
    atomic_fetch_add(&s->sleepers, 1);
    while (atomic_load(&s->value) == seen)
        syscall(SYS_futex, &s->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); // returns at once if the value has changed
    atomic_fetch_sub(&s->sleepers, 1);
}

static void signal_raise(struct signal *s)
{
    atomic_fetch_add(&s->value, 1);
    if (atomic_load(&s->sleepers))
        syscall(SYS_futex, &s->value, FUTEX_WAKE_PRIVATE, TEAM_MAX, NULL, NULL, 0);
}

static void pin_thread(int32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); // not allowed: run unpinned
}

static void finish(struct team *t)
{
    if (atomic_fetch_sub(&t->working, 1) == 1)
        signal_raise(&t->done);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;
    if (m->cpu >= 0)
        pin_thread(m->cpu);
    for (unsigned seen = 0;; seen++) {
        signal_wait(&t->start, seen, t->spins);
        if (atomic_load(&t->closing))
            return NULL;
        t->work(t->ctx, m->index, t->n);
        finish(t);
    }
}

// The caller is pinned only while it works for the team, so that several teams can be open at once.
void team_run(struct team *t, void (*work)(void *, int32_t, int32_t), void *ctx)
{
    cpu_set_t before;
    bool pinned = t->pinned && !pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    if (pinned)
        pin_thread(t->member[0].cpu);
    t->work = work;
    t->ctx = ctx;
    unsigned seen = atomic_load(&t->done.value);
    atomic_store(&t->working, t->n);
    signal_raise(&t->start);
    work(ctx, 0, t->n);
    finish(t);
    signal_wait(&t->done, seen, t->spins);
    if (pinned)
        (void)pthread_setaffinity_np(pthread_self(), sizeof before, &before);
}

void team_barrier(struct team *t, int32_t member)
{
    (void)member;
    unsigned seen = atomic_load_explicit(&t->barrier.value, memory_order_acquire);
    if (atomic_fetch_add(&t->arrived, 1) == t->n - 1) {
        atomic_store(&t->arrived, 0);
        signal_raise(&t->barrier);
    } else {
        signal_wait(&t->barrier, seen, t->spins);
    }
}

// CPUs that the cgroup's quota pays for, rounded up; INT32_MAX without a quota.
static int32_t quota_cpus(void)
{
    char path[512] = "", line[512];
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3))
            snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/cpu.max", (int)strcspn(line + 3, "\n"), line + 3);
    if (f)
        fclose(f);
    long long quota = -1, period = 100000;
    if ((f = fopen(path, "r")) || (f = fopen("/sys/fs/cgroup/cpu.max", "r"))) {
        if (fscanf(f, "%lld %lld", &quota, &period) < 1) // "max 100000"
            quota = -1;
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"))) { // version 1
        if (fscanf(f, "%lld", &quota) < 1)
            quota = -1;
        fclose(f);
    }
    return quota > 0 && period > 0 ? (int32_t)((quota + period - 1) / period) : INT32_MAX;
}

static bool bad_list(const char *list, struct error *e)
{
    return error_set(e, ERROR_USAGE, "'%s' is no list of CPUs such as 0,2-3", list);
}

// Appends the CPUs of "0,2-3" to cpu[*n].
static bool parse_cpus(const char *list, int32_t *cpu, int32_t *n, struct error *e)
{
    const char *p = list;
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return bad_list(list, e);
        long from = strtol(p, &end, 10), to = from;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            to = strtol(end + 1, &end, 10);
        if (to < from || to >= CPU_SETSIZE)
            return bad_list(list, e);
        for (long c = from; c <= to && *n < TEAM_MAX; c++)
            cpu[(*n)++] = (int32_t)c;
        if (!*end)
            return true;
        if (*end != ',')
            return bad_list(list, e);
        p = end + 1;
    }
}

// The CPUs to use: the list's, which must be allowed, or all that are.
static bool choose_cpus(const char *list, int32_t *cpu, int32_t *n, struct error *e)
{
    cpu_set_t allowed;
    *n = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        *n = online > 0 && online < TEAM_MAX ? (int32_t)online : 1;
        for (int32_t i = 0; i < *n; i++)
            cpu[i] = -1;
        return true;
    }
    if (!list || !*list) {
        for (int32_t c = 0; c < CPU_SETSIZE && *n < TEAM_MAX; c++)
            if (CPU_ISSET((size_t)c, &allowed))
                cpu[(*n)++] = c;
        return true;
    }
    if (!parse_cpus(list, cpu, n, e))
        return false;
    cpu_set_t seen;
    CPU_ZERO(&seen);
    for (int32_t i = 0; i < *n; i++) {
        if (CPU_ISSET((size_t)cpu[i], &seen))
            return error_set(e, ERROR_USAGE, "CPU %d appears twice in '%s'", cpu[i], list);
        if (!CPU_ISSET((size_t)cpu[i], &allowed))
            return error_set(e, ERROR_DEVICE, "CPU %d of '%s' is not one this process may use", cpu[i], list);
        CPU_SET((size_t)cpu[i], &seen);
    }
    return true;
}

static bool start_members(struct team *t, struct error *e)
{
    for (int32_t i = 1; i < t->n; i++)
        if (pthread_create(&t->member[i].thread, NULL, member_main, &t->member[i])) {
            int32_t wanted = t->n;
            t->n = i; // those that run are joined by team_close
            return error_set(e, ERROR_MEMORY, "could not start thread %d of %d", i + 1, wanted);
        }
    return true;
}

bool team_open(struct team **out, int32_t n_threads, const char *cpu_list, struct error *e)
{
    int32_t cpu[TEAM_MAX], n_cpus;
    *out = NULL;
    if (n_threads < 0 || n_threads > TEAM_MAX)
        return error_set(e, ERROR_USAGE, "'threads' is %d, expected 0 to %d", n_threads, TEAM_MAX);
    if (!choose_cpus(cpu_list, cpu, &n_cpus, e))
        return false;
    int32_t quota = quota_cpus(), n = n_threads ? n_threads : n_cpus < quota ? n_cpus : quota;
    struct team *t = aligned_alloc(LINE, (sizeof *t + LINE - 1) / LINE * LINE);
    struct member *member = calloc((size_t)n, sizeof *member);
    if (!t || !member) {
        free(t);
        free(member);
        return error_set(e, ERROR_MEMORY, "no memory for a team of %d threads", n);
    }
    memset(t, 0, sizeof *t);
    t->n = n;
    t->member = member;
    // More members than CPUs: whoever waits gives its CPU away at once, and only a list that the user gave still pins, in
    // turn.
    bool crowded = n > n_cpus || n > quota, listed = cpu_list && *cpu_list;
    t->spins = crowded ? 0 : SPINS;
    t->pinned = cpu[0] >= 0 && (!crowded || listed);
    for (int32_t i = 0; i < n; i++)
        member[i] = (struct member){.team = t, .index = i, .cpu = t->pinned ? cpu[i % n_cpus] : -1};
    *out = t;
    if (start_members(t, e))
        return true;
    team_close(t);
    *out = NULL;
    return false;
}

void team_close(struct team *t)
{
    if (!t)
        return;
    atomic_store(&t->closing, true);
    signal_raise(&t->start);
    for (int32_t i = 1; i < t->n; i++)
        pthread_join(t->member[i].thread, NULL);
    free(t->member);
    free(t);
}

int32_t team_size(const struct team *t)
{
    return t->n;
}

int32_t team_cpu(const struct team *t, int32_t member)
{
    return t->member[member].cpu;
}
