// What a measured point's numbers are worth: a pure function from evidence to reason codes, so that each rule is tested on
// made-up evidence. The verdict of a point is its first code, or "ok".
#ifndef BENCH_TRUST_H
#define BENCH_TRUST_H

#include "engine/base/error.h"

#include <stdint.h>

// id, code, what it says; the worst first.
#define TRUST_CODES(X)                                                                                                      \
    X(FAILED, "failed", "was not measured")                                                                                 \
    X(OVER_BOUND, "over-bound", "beat what physics allows: the hard peaks or our count are wrong")                          \
    X(UNDERSAMPLED, "undersampled", "too few samples")                                                                      \
    X(CONTENDED, "contended", "its CPUs were shared with other processes or taken by the hypervisor, or its affinity lost") \
    X(THROTTLED, "throttled", "the clock was lower than when the ceilings were measured, or fell meanwhile")                \
    X(CACHE_POLLUTED, "cache-polluted",                                                                                     \
      "memory was slower than its ceiling although arithmetic was not: another user of it")                                 \
    X(CACHE_RESIDENT, "cache-resident",                                                                                     \
      "limited by memory, but half of what it reads or more stays in caches: it says nothing of main memory")               \
    X(NOISY, "noisy", "its samples differ too much")

enum trust_code {
#define X(id, code, says) TRUST_##id,
    TRUST_CODES(X)
#undef X
        TRUST_CODE_COUNT,
};
const char *trust_code_name(enum trust_code code);

// "noisy,contended" to a set of bits (1 << code); codes may be parted by commas or blanks, as results hold them. An unknown
// code is refused by name.
bool trust_codes_parse(const char *text, unsigned *codes, struct error *e);
void trust_codes_print(unsigned codes, char out[128]); // "contended noisy", "" for none

// Thresholds; where they come from is in bench/README.md ("Trust").
#define TRUST_INTERVAL 0.10    // the median's 95 % interval over the median
#define TRUST_SPREAD 0.25      // 90th to 10th percentile of the samples over the median
#define TRUST_WAITED 0.10      // share of the time that the worst thread waited for a CPU
#define TRUST_OTHER 0.10       // share of our CPUs that other processes used, where waiting is not told
#define TRUST_STEAL 0.02       // share of our CPUs that was stolen, beyond twice what is usual here
#define TRUST_SLOW_CLOCK 0.85  // arithmetic over its ceiling
#define TRUST_CLOCK_DRIFT 0.90 // arithmetic (or cpufreq's clock) at the end over that at the beginning
#define TRUST_SLOW_MEMORY 0.75 // read probes over their ceiling, beyond what waiting for CPUs explains
#define TRUST_KEPT 0.5         // share of a step's bytes that caches keep
enum { TRUST_SAMPLES = 3 };

// Unknown numbers are NaN; no rule fires on them.
struct evidence {
    int32_t n_samples;
    double median_ns, interval, spread; // interval, spread: shares of the median
    double bound_ns;
    double waited, other, steal, usual_steal; // shares, as in watch.h
    bool affinity_changed, crowded;           // crowded: more threads than CPUs, so they wait for one another
    double clock_drift;                       // cpufreq: lowest over first
    double arithmetic, arithmetic_drift;      // probe over its ceiling; last block's over the first's
    double read;                              // probe over its ceiling
    const char *gpu_limits;                   // what held a GPU's clock down, where that throttles it; or NULL
    bool memory_limited;                      // the roof says that main memory limits it
    double step_bytes, kept_bytes;            // weights and KV of a step, and how many caches keep until the next
};

struct evidence trust_nothing_known(void); // no rule fires on it but that of too few samples

struct judgement {
    unsigned codes;   // set of 1 << code
    char reason[256]; // one phrase per code, for people
};
void trust_judge(const struct evidence *x, struct judgement *out);

// The code that names the verdict: the worst, or "ok".
const char *trust_verdict(unsigned codes);

#endif
