#include "bench/counters.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} COUNTER[COUNTER_COUNT] = {
#define X(id, name, type, config) {name, type, config},
    COUNTERS(X)
#undef X
};

const char *counter_name(enum counter c)
{
    return COUNTER[c].name;
}

// Context switches happen in the kernel, so software events count there too, which may need more permission.
static int open_event(enum counter c, int32_t tid)
{
    struct perf_event_attr attr = {.type = COUNTER[c].type,
                                   .size = sizeof attr,
                                   .config = COUNTER[c].config,
                                   .disabled = 1,
                                   .exclude_kernel = COUNTER[c].type == PERF_TYPE_HARDWARE,
                                   .exclude_hv = 1,
                                   .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// Counters that are absent for the same reason share it.
static void note_absent(struct counters *c, const int why[COUNTER_COUNT])
{
    size_t n = 0;
    for (int i = 0; i < COUNTER_COUNT; i++) {
        bool named = false;
        for (int k = 0; k < i; k++)
            named |= why[k] == why[i];
        if (!why[i] || named)
            continue;
        n += (size_t)snprintf(c->absent + n, sizeof c->absent - n, "%s", n ? "; " : "");
        for (int k = i; k < COUNTER_COUNT && n < sizeof c->absent; k++)
            if (why[k] == why[i])
                n += (size_t)snprintf(c->absent + n, sizeof c->absent - n, "%s%s", k == i ? "" : " ", COUNTER[k].name);
        if (n < sizeof c->absent)
            n += (size_t)snprintf(c->absent + n, sizeof c->absent - n, ": %s (perf_event_open)", strerror(why[i]));
        if (n >= sizeof c->absent)
            return;
    }
}

static bool add_thread(struct counters *c, int32_t tid, int why[COUNTER_COUNT], struct error *e)
{
    int(*grown)[COUNTER_COUNT] = realloc(c->fd, (size_t)(c->n_threads + 1) * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for the counters of %d threads", c->n_threads + 1);
    c->fd = grown;
    for (int i = 0; i < COUNTER_COUNT; i++) {
        grown[c->n_threads][i] = open_event((enum counter)i, tid);
        if (grown[c->n_threads][i] < 0)
            why[i] = errno;
    }
    c->n_threads++;
    return true;
}

bool counters_open(struct counters *c, struct error *e)
{
    int why[COUNTER_COUNT] = {0};
    bool ok = true;
    *c = (struct counters){0};
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *d; ok && folder && (d = readdir(folder));)
        if (*d->d_name != '.')
            ok = add_thread(c, (int32_t)strtol(d->d_name, NULL, 10), why, e);
    if (folder)
        closedir(folder);
    for (int i = 0; i < COUNTER_COUNT; i++)
        c->has[i] = c->n_threads && !why[i];
    note_absent(c, why);
    if (!ok)
        counters_close(c);
    return ok;
}

void counters_close(struct counters *c)
{
    for (int32_t t = 0; t < c->n_threads; t++)
        for (int i = 0; i < COUNTER_COUNT; i++)
            if (c->fd[t][i] >= 0)
                close(c->fd[t][i]);
    free(c->fd);
    *c = (struct counters){0};
}

static void tell_all(struct counters *c, unsigned long request)
{
    for (int32_t t = 0; t < c->n_threads; t++)
        for (int i = 0; i < COUNTER_COUNT; i++)
            if (c->has[i])
                ioctl(c->fd[t][i], request, 0);
}

void counters_start(struct counters *c)
{
    tell_all(c, PERF_EVENT_IOC_RESET);
    tell_all(c, PERF_EVENT_IOC_ENABLE);
}

// A counter that took turns with others is scaled up to the whole time; one that never got its turn is not known.
static double read_event(int fd)
{
    struct {
        uint64_t value, enabled, running;
    } count;
    if (read(fd, &count, sizeof count) != sizeof count)
        return NAN;
    if (count.running == count.enabled)
        return (double)count.value;
    return count.running ? (double)count.value * (double)count.enabled / (double)count.running : NAN;
}

void counters_stop(struct counters *c, double value[COUNTER_COUNT])
{
    tell_all(c, PERF_EVENT_IOC_DISABLE);
    for (int i = 0; i < COUNTER_COUNT; i++) {
        if (!c->has[i])
            value[i] = NAN;
        for (int32_t t = 0; c->has[i] && t < c->n_threads; t++)
            value[i] += read_event(c->fd[t][i]);
    }
}
