// What the operating system did to this process while a block of samples was measured: how long its threads waited for a CPU
// that something else had, what else ran on its CPUs, what the hypervisor took, whether its affinity was changed. Read at
// the edges of a block, never within a sample.
#ifndef BENCH_WATCH_H
#define BENCH_WATCH_H

#include "engine/base/error.h"

#include <stdint.h>

// Sums over the blocks of a point. A value that this machine does not tell is negative.
struct disturbance {
    int64_t wall_ns;            // that was watched; 0: nothing was
    int64_t waited_ns;          // ready to run without a CPU: of the thread that waited most
    int64_t other_cpu_ns;       // other processes, on all our CPUs together; to some 10 ms per block and CPU
    int64_t steal_ns;           // taken by the hypervisor, on all our CPUs together; as coarse
    int64_t involuntary;        // context switches of all our threads
    double first_kHz, last_kHz; // clock of our CPUs by cpufreq, mean: at the first edge, the lowest after it; 0: untold
    bool affinity_changed;      // a thread may not run any more where it could when watching began
};

struct watched_thread {
    int32_t tid;
    char cpus[128]; // it may run on, as the system prints it
    int64_t waited_ns;
};

struct watch {
    char root[256];                // of /proc and /sys, "" as a rule
    int32_t cpu[1024], n_cpus;     // that our threads run on
    struct watched_thread *thread; // [n_threads] of this process, those that work
    int32_t n_threads;
    double usual_steal; // share of the time that this machine's CPUs worked or wanted to, since it started
    // At the begin of the block.
    int64_t begin_ns, own_cpu_ns, busy_ns, steal_ns, involuntary;
};

// After the threads that will be watched have started. cpus: "0-3,8" as environment_cpus prints it, or "" for all.
bool watch_open(struct watch *w, const char *root, const char *cpus, struct error *e);
void watch_close(struct watch *w); // accepts zeroed

void watch_begin(struct watch *w, struct disturbance *d);
void watch_end(struct watch *w, struct disturbance *d); // adds what happened since watch_begin

// Shares of the watched time, NaN: not told. Of one thread; of all n_cpus CPUs.
double disturbance_waited(const struct disturbance *d);
double disturbance_other(const struct disturbance *d, int32_t n_cpus);
double disturbance_steal(const struct disturbance *d, int32_t n_cpus);

#endif
