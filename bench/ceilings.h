// The attainable ceilings of this machine: read bandwidth and arithmetic peaks, measured by loops that know nothing of the
// engine's kernels; and the short probe beside each sample that says what the ceiling is at that moment.
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include "engine/cpu/probe.h"
#include "roofline/hardware.h"

struct ceilings_options {
    int32_t threads;      // 0: one per allowed CPU
    const char *cpu_list; // or NULL
    int32_t repetitions;  // of each loop, at least 3; 0: 7
};

// Read bandwidth: the best of 1, 2, 4 and 8 streams per thread over 4 KiB and 2 MiB pages, as the median of its repetitions;
// peaks: f32, bf16 and int8 where the CPU has them. Takes some seconds. hw->note says which read loop was best.
bool ceilings_measure(struct hardware *hw, const struct ceilings_options *options, struct error *e);

// Where ceilings are kept: FOLDER/ceilings.json, or ceilings-tN.json where a number of threads was asked for.
void ceilings_path(const char *folder, int32_t threads, char out[640]);

// The ceilings in `path` if they are this machine's with these threads; else measured and, where path is not NULL, saved
// there. *measured says which.
bool ceilings_ensure(struct hardware *hw, const char *path, const struct ceilings_options *options, bool *measured,
                     struct error *e);

// The ceiling now. Opened once per team size; a probe takes some milliseconds and allocates nothing.
struct ceiling_probe {
    struct team *team;
    struct probe_buffer *buffer;
    int32_t streams;
};
// hw: from ceilings_measure or its file: the probe runs the read loop that was best then.
bool ceiling_probe_open(struct ceiling_probe *p, const struct hardware *hw, const struct ceilings_options *options,
                        struct error *e);
void ceiling_probe_close(struct ceiling_probe *p);                    // accepts zeroed
double ceiling_probe_read(struct ceiling_probe *p);                   // bytes/s
double ceiling_probe_flops(struct ceiling_probe *p, enum dtype type); // FLOP/s, 0: no such arithmetic here

#endif
