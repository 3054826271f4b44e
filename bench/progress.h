// What a long run is doing and how long it will still take: one redrawn line on a terminal, plain lines elsewhere.
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *f; // NULL: quiet
    bool terminal;
    int32_t n_points;
    double expected_ns, done_ns; // of all work, in the same units as progress_done's; 0: unknown
    int64_t began_ns, printed_ns;
};

void progress_begin(struct progress *p, FILE *f, int32_t n_points, double expected_ns);

// Says what is going on (loading, measuring ceilings).
void progress_note(struct progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Point `index` (from 0) is at `key`; `finished`: this line stays. median_ns 0: nothing measured yet.
void progress_point(struct progress *p, int32_t index, const char *key, int32_t block, int32_t n_blocks, double median_ns,
                    bool finished);

// All work from here on, in the units of progress_done: what is left is counted anew.
void progress_expect(struct progress *p, double left_ns);
// Expected work that is behind us; what it really took scales the rest.
void progress_done(struct progress *p, double expected_ns);
// Time that went into something else (loading), which says nothing about the rest.
void progress_skip(struct progress *p, int64_t ns);
double progress_left_ns(const struct progress *p); // 0: unknown

void progress_end(struct progress *p); // leaves the cursor on a fresh line

// "45 s", "6 min 20 s".
const char *format_seconds(double seconds, char buffer[24]);

#endif
