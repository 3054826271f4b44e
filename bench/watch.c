#include "bench/watch.h"

#include "bench/sysfile.h"
#include "engine/base/units.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { UNTOLD = -1 };

// Time of a thread in the queue of a CPU (the second number of schedstat, ns).
static int64_t thread_waited(const struct watch *w, int32_t tid)
{
    char path[64], text[128];
    long long ran, waited;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    if (!sysfile_line(w->root, path, text, sizeof text) || sscanf(text, "%lld %lld", &ran, &waited) != 2)
        return UNTOLD;
    return waited;
}

static bool thread_cpus(const struct watch *w, int32_t tid, char out[128])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    return sysfile_field(w->root, path, "Cpus_allowed_list", out, 128);
}

struct cpu_times {
    int64_t busy, idle, steal; // clock ticks
};

// "cpu0 user nice system idle iowait irq softirq steal ..."
static bool parse_cpu_line(const char *line, int32_t *cpu, struct cpu_times *t)
{
    long long v[8] = {0};
    int n = 0;
    if (line[3] == ' ' || sscanf(line, "cpu%d%n", cpu, &n) != 1) // the first line is of all together
        return false;
    if (sscanf(line + n, "%lld %lld %lld %lld %lld %lld %lld %lld", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) < 4)
        return false;
    *t = (struct cpu_times){.busy = v[0] + v[1] + v[2] + v[5] + v[6], .idle = v[3] + v[4], .steal = v[7]};
    return true;
}

static bool is_ours(const struct watch *w, int32_t cpu)
{
    for (int32_t i = 0; i < w->n_cpus; i++)
        if (w->cpu[i] == cpu)
            return true;
    return !w->n_cpus;
}

// Ticks of our CPUs together; false if they are not told.
static bool our_times(const struct watch *w, struct cpu_times *sum)
{
    char path[300], line[512];
    bool any = false;
    *sum = (struct cpu_times){0};
    snprintf(path, sizeof path, "%s/proc/stat", w->root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && !strncmp(line, "cpu", 3)) { // CPUs stand first
        struct cpu_times t;
        int32_t cpu;
        if (!parse_cpu_line(line, &cpu, &t) || !is_ours(w, cpu))
            continue;
        sum->busy += t.busy, sum->idle += t.idle, sum->steal += t.steal;
        any = true;
    }
    if (f)
        fclose(f);
    return any;
}

static int64_t ticks_ns(int64_t ticks)
{
    return ticks * (1000 * 1000 * 1000 / sysconf(_SC_CLK_TCK));
}

static int64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t involuntary_switches(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : u.ru_nivcsw;
}

static double mean_clock_kHz(const struct watch *w)
{
    double sum = 0;
    for (int32_t i = 0; i < w->n_cpus; i++) {
        char path[96];
        int64_t kHz;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", w->cpu[i]);
        if (!sysfile_number(w->root, path, &kHz))
            return 0;
        sum += (double)kHz / w->n_cpus;
    }
    return sum;
}

static bool add_thread(struct watch *w, int32_t tid)
{
    struct watched_thread *grown = realloc(w->thread, (size_t)(w->n_threads + 1) * sizeof *grown);
    if (!grown)
        return false;
    w->thread = grown;
    grown[w->n_threads] = (struct watched_thread){.tid = tid};
    thread_cpus(w, tid, grown[w->n_threads++].cpus);
    return true;
}

static bool find_threads(struct watch *w, struct error *e)
{
    char path[300];
    bool ok = true;
    snprintf(path, sizeof path, "%s/proc/self/task", w->root);
    DIR *folder = opendir(path);
    for (struct dirent *d; ok && folder && (d = readdir(folder));)
        if (*d->d_name != '.')
            ok = add_thread(w, (int32_t)strtol(d->d_name, NULL, 10));
    if (folder)
        closedir(folder);
    return ok || error_set(e, ERROR_MEMORY, "no memory to watch %d threads", w->n_threads + 1);
}

static bool is_pinned(const struct watched_thread *t)
{
    return *t->cpus && !strpbrk(t->cpus, ",-");
}

// Where threads are pinned, those and the first one do the work; others, such as a library's that found nothing to do, spin
// and give way, which looks like waiting.
static void keep_workers(struct watch *w)
{
    int32_t first = 0, n = 0, pinned = 0;
    for (int32_t i = 0; i < w->n_threads; i++) {
        first = w->thread[i].tid < w->thread[first].tid ? i : first;
        pinned += is_pinned(&w->thread[i]);
    }
    for (int32_t i = 0; pinned && i < w->n_threads; i++)
        if (i == first || is_pinned(&w->thread[i]))
            w->thread[n++] = w->thread[i];
    w->n_threads = pinned ? n : w->n_threads;
}

bool watch_open(struct watch *w, const char *root, const char *cpus, struct error *e)
{
    struct cpu_times t;
    *w = (struct watch){0};
    snprintf(w->root, sizeof w->root, "%s", root);
    w->n_cpus = sysfile_list(cpus, w->cpu, (int32_t)(sizeof w->cpu / sizeof *w->cpu));
    if (our_times(w, &t) && t.busy + t.steal)
        w->usual_steal = (double)t.steal / (double)(t.busy + t.steal);
    if (!find_threads(w, e)) {
        watch_close(w);
        return false;
    }
    keep_workers(w);
    return true;
}

void watch_close(struct watch *w)
{
    free(w->thread);
    *w = (struct watch){0};
}

void watch_begin(struct watch *w, struct disturbance *d)
{
    struct cpu_times t;
    bool told = our_times(w, &t);
    for (int32_t i = 0; i < w->n_threads; i++)
        w->thread[i].waited_ns = thread_waited(w, w->thread[i].tid);
    if (!d->first_kHz)
        d->first_kHz = d->last_kHz = mean_clock_kHz(w);
    w->busy_ns = told ? ticks_ns(t.busy) : UNTOLD;
    w->steal_ns = told ? ticks_ns(t.steal) : UNTOLD;
    w->own_cpu_ns = own_cpu_ns();
    w->involuntary = involuntary_switches();
    w->begin_ns = clock_ns();
}

static void add(int64_t *sum, int64_t more, bool told)
{
    *sum = told && *sum >= 0 ? *sum + (more > 0 ? more : 0) : UNTOLD;
}

// A thread that has ended since is not asked.
static void add_threads(struct watch *w, struct disturbance *d)
{
    int64_t most = UNTOLD;
    char cpus[128];
    for (int32_t i = 0; i < w->n_threads; i++) {
        const struct watched_thread *t = &w->thread[i];
        int64_t now = thread_waited(w, t->tid);
        if (now >= 0 && t->waited_ns >= 0 && now - t->waited_ns > most)
            most = now - t->waited_ns;
        d->affinity_changed |= thread_cpus(w, t->tid, cpus) && strcmp(cpus, t->cpus);
    }
    add(&d->waited_ns, most, most >= 0);
}

void watch_end(struct watch *w, struct disturbance *d)
{
    struct cpu_times t;
    int64_t wall = clock_ns() - w->begin_ns, own = own_cpu_ns() - w->own_cpu_ns;
    bool told = our_times(w, &t) && w->busy_ns >= 0;
    double kHz = mean_clock_kHz(w);
    d->wall_ns += wall;
    add(&d->other_cpu_ns, ticks_ns(t.busy) - w->busy_ns - own, told);
    add(&d->steal_ns, ticks_ns(t.steal) - w->steal_ns, told);
    d->involuntary += involuntary_switches() - w->involuntary;
    if (kHz > 0 && kHz < d->last_kHz)
        d->last_kHz = kHz;
    add_threads(w, d);
}

static double share(int64_t ns, const struct disturbance *d, int32_t n)
{
    return d->wall_ns > 0 && ns >= 0 ? (double)ns / ((double)d->wall_ns * (n > 0 ? n : 1)) : NAN;
}

double disturbance_waited(const struct disturbance *d)
{
    return share(d->waited_ns, d, 1);
}

double disturbance_other(const struct disturbance *d, int32_t n_cpus)
{
    return share(d->other_cpu_ns, d, n_cpus);
}

double disturbance_steal(const struct disturbance *d, int32_t n_cpus)
{
    return share(d->steal_ns, d, n_cpus);
}
