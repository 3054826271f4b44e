// From what was measured of a point to its row of results: statistics, verdict, and where the time went.
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "bench/fitted.h"
#include "bench/measure.h"
#include "bench/results.h"

// Probes that differ from the ceiling by more than this share of it are worth a remark.
#define FAR_PROBE 0.2

// What is the same for all points of one engine.
struct row_context {
    const struct scenario *scenario;
    const struct plan *plan;
    const char *backend, *isa;   // isa: or NULL
    const struct hardware *hw;   // the roof's, or NULL
    const struct fitted *fitted; // what pred is made of, or NULL
    int32_t threads;             // used; 0: unknown
    uint64_t memory_bytes;       // held by the backend
    int64_t load_ns, repack_ns;  // of the weights; load_ns 0: none were loaded
    uint64_t cache_bytes;        // last-level caches of the CPUs used; 0: unknown, or not this machine's roof
    bool crowded;                // more threads than CPUs
    // What watched and counted its points; or NULL.
    const struct watch *watch;
    const struct counters *counters;
    const struct energy *energy;
};

// Names and shapes only: also for points that could not be measured.
void row_describe(struct result *r, const struct row_context *c, const struct point *point);

// What the roofline says of it.
void row_priced(struct result *r, const struct prediction *p);

// Everything that was measured; the verdict with its reason. The row owns its lists.
bool row_measured(struct result *r, const struct row_context *c, const struct subject *s, struct error *e);

// Verdict and code "failed" with a reason.
void row_failed(struct result *r, const char *reason);

// Tokens that tokens_per_s counts: the generated ones where there are any.
double row_tokens(const struct result *r);

// For people: "context 512", "128 + 16 tokens, no cache". KV: "int8", "int8:bf16".
void row_shape(const struct result *r, char out[64]);
void row_kv(const struct result *r, char out[64]);

// Adds to the reason; text "" adds nothing.
void row_remark(struct result *r, const char *text);

// The operations of a traced sample: malloc'ed rows, none where there is no attribution (NULL).
bool op_rows(const struct result *r, const struct attribution *a, const struct backend *backend, struct op_result **rows,
             int32_t *n, struct error *e);

#endif
