// The attainable ceilings of this machine: read bandwidth and arithmetic peaks, measured by loops that know nothing of the
// engine's kernels; and the short probe beside each sample that says what the ceiling is at that moment.
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include "bench/levels.h"
#include "engine/cpu/probe.h"
#include "roofline/hardware.h"

struct ceilings_options {
    int32_t threads;      // 0: one per allowed CPU
    const char *cpu_list; // or NULL
    int32_t repetitions;  // moments at which each loop is run, at least 3; 0: 7
    double pause_s;       // between moments; 0: 1.4
};

enum { CEILINGS_SECONDS = 12 }; // that measuring them takes, about
#define RAISE_SHARE 0.05        // by which a rate must differ from a ceiling to say something about it

// Read bandwidth: the best of 1, 2, 4 and 8 streams per thread over 4 KiB and 2 MiB pages; peaks: f32, bf16 and int8 where
// the CPU has them. A ceiling is what the machine attains, and a neighbour on it only lowers what is seen: it is the highest
// rate that was reached at two separate moments. Levels by the curve of rates over sizes of sets (levels.h). hw->note says
// which read loop was best.
bool ceilings_measure(struct hardware *hw, const struct ceilings_options *options, struct error *e);

uint64_t ceilings_buffer_bytes(const struct team *team); // of a set that no cache keeps
// The sizes of sets whose rate makes a curve: half octaves from what fits any cache to `most`.
void curve_sizes(struct curve *c, int32_t n_members, uint64_t most);
// The best of n windows.
double ceilings_best_window(struct probe_buffer *buffer, struct team *team, struct probe_loop loop, uint64_t bytes,
                            int32_t n, int64_t ns);

// Where ceilings are kept: FOLDER/ceilings.json, or ceilings-tN.json where a number of threads was asked for.
void ceilings_path(const char *folder, int32_t threads, char out[640]);

// True if `path` (or NULL) holds this machine's ceilings with these threads.
bool ceilings_find(struct hardware *hw, const char *path, const struct ceilings_options *options);

// Keeps what an earlier measurement of the same machine has found higher: a neighbour lowers what is seen, nothing raises
// it. What is within RAISE_SHARE of that is measured again rather than kept, but for the value. For people, what was kept
// though it is further from what was measured now: "read 52.8 (now 41.0)"; "" if nothing.
void ceilings_keep_best(struct hardware *hw, const struct hardware *before, char out[512]);

// The catalogue's entry of a processor that calls itself so ("AMD EPYC 9654 96-Core Processor": epyc-9654); false if it has
// none, as of what virtual machines say ("AMD EPYC").
bool ceilings_catalogued(const char *cpu_model, struct hardware *out);

void ceilings_date(char out[12]); // today, as values have it

// For people: that ceilings spread so widely when they were measured that a neighbour may have been at work; "" if not.
void ceilings_warning(const struct hardware *hw, char out[160]);

// The two highest rates that probes of one ceiling have reached at separate moments.
struct ceiling_best {
    double first, second;
    double was; // the ceiling before it was first raised, 0: never
};
void ceiling_best_add(struct ceiling_best *b, double rate); // the best of one moment
// Raises a ceiling that was beaten by more than RAISE_SHARE at two moments.
bool ceiling_raise(struct hw_value *ceiling, struct ceiling_best *b);

// The ceiling now. Opened once per team size; a probe takes some milliseconds and allocates nothing.
struct ceiling_probe {
    const struct hardware *hw; // the caller's
    struct team *team;
    struct probe_buffer *buffer;
    int32_t streams, threads; // threads: as asked for
};
// hw: from ceilings_measure or its file: the probe runs the read loop that was best then.
bool ceiling_probe_open(struct ceiling_probe *p, const struct hardware *hw, const struct ceilings_options *options,
                        struct error *e);
void ceiling_probe_close(struct ceiling_probe *p); // accepts zeroed
// Bytes/s of a step that streams so many: read from main memory, or a set of that size where levels of hw keep some of it.
double ceiling_probe_read(struct ceiling_probe *p, uint64_t streamed);
double ceiling_probe_flops(struct ceiling_probe *p, enum dtype type); // FLOP/s, 0: no such arithmetic here

#endif
