// Samples of points on an open engine. A bench holds contexts that were filled once; points take turns on it, each in
// several blocks, so that what changes in the machine meanwhile changes all of them.
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench/attribution.h"
#include "bench/ceilings.h"
#include "bench/counters.h"
#include "bench/energy.h"
#include "bench/planner.h"
#include "bench/sample_block.h"
#include "bench/trace_file.h"

#include <signal.h>

struct subject;
struct measure_limits {
    int32_t samples; // wanted in all blocks together
    int32_t warmup;  // untimed samples at the start of each point, at least one
    double seconds;  // of samples, for all blocks together; each block gets one sample however long it takes
    double timeout_s;
    const volatile sig_atomic_t *stop; // not 0: give up with ERROR_INTERRUPTED
    // Called when the samples of a block are taken, from sample `from` on, and before they are traced; or NULL.
    bool (*sampled)(void *ctx, struct subject *s, int32_t from, struct error *e);
    void *ctx;
};

// One point with what was measured of it so far.
struct subject {
    const struct point *point;
    struct prediction price; // of one sample, for the hardware the roof is of
    bool has_price;
    double expected_roof_ns;           // as the time it will take was estimated
    enum dtype probe_type;             // arithmetic to probe where the roof is compute-limited
    bool probes_flops;                 // else bandwidth
    double *sample_ns, *block, *probe; // [n_samples]; probe 0: none
    int32_t n_samples, capacity;
    int32_t n_blocks;                    // blocks done
    int64_t sampled_ns, spent_ns;        // in samples with their probes; in everything
    char test_time[32];                  // of the first sample
    struct attribution traced[N_BLOCKS]; // [n_traced] further samples, with spans traced
    int32_t n_traced;
    struct surroundings beside;    // what the machine did meanwhile
    double counted[COUNTER_COUNT]; // in the last traced sample; NaN: absent
    double energy_J;               // of one sample; NaN: not told
    struct device_counts device;   // of one sample, by the backend's own counters
    char not_counted[160];         // why there are no such counts, or ""
    char tracing[160];             // what the backend says of its traces
    char failure[320];             // why the point was given up, or ""
};
void subject_init(struct subject *s, const struct point *point);
void subject_free(struct subject *s); // accepts zeroed

// Where the time went: of all traced samples, once the last block is done; NULL where none was traced.
const struct attribution *subject_attribution(const struct subject *s);

// Takes over what an interrupted sweep knew of a block: its samples, and what it saw beside them.
bool subject_restore(struct subject *s, const struct sample_block *block, struct error *e);

struct bench {
    struct engine *engine;       // the caller's, opened with points_kv of the points that will take turns
    struct ceiling_probe *probe; // the caller's, or NULL
    struct session *base, *work; // [kv.max_seqs] filled contexts; the copies a point works on
    struct step *steps;          // [kv.max_seqs]
    int32_t *token;              // [max_seqs + longest sequence] seeded random ids
    int32_t n_tokens;
    struct trace trace;
    // The caller's, or NULL; set after bench_open.
    struct watch *watch;
    struct counters *counters;
    struct energy *energy;
    struct trace_file *trace_file; // of trace_point's last samples, which are not timed
    const struct point *trace_point;
};

// Fills the contexts that points[n] need.
bool bench_open(struct bench *b, struct engine *engine, struct ceiling_probe *probe, const struct point *const *points,
                int32_t n, uint64_t seed, struct error *e);
void bench_close(struct bench *b); // accepts zeroed

// The next block of samples, and where hw is given one more sample with spans traced for the attribution (hw as for the
// price; where samples take a second or more only after the last block). A point whose blocks are all there is only traced.
// False with ERROR_INTERRUPTED; what stops this point alone becomes its `failure`.
bool bench_visit(struct bench *b, struct subject *s, const struct measure_limits *limits, const struct hardware *hw,
                 struct error *e);

#endif
