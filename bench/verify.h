// Is the engine right? Two questions to any model: does every way of running a sequence give the logits of one forward
// pass over all of it (the protocol), and are those logits the ones somebody else's code computed (the golden reference).
// Differences are relative: the largest |a - b| over the largest |logit| of the reference.
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include "bench/open.h"

struct verify_check {
    char name[48];
    bool control; // a deliberate fault: passed means that it was detected
    bool passed;
    double max_diff, tolerance;
    char detail[128];
};

enum { VERIFY_MAX_CHECKS = 64 };

struct verify_report {
    struct verify_check check[VERIFY_MAX_CHECKS];
    int32_t n, n_failed;
    // Called as each check ends. May be NULL.
    void (*on_check)(void *ctx, const struct verify_check *check);
    void *ctx;
};

struct verify_options {
    struct backend_options device; // what o->backend was opened with
    enum dtype kv;
    uint64_t seed; // of the tokens
};

// The protocol: one forward pass over a sequence of random tokens is the reference; each check runs the sequence in another
// way, and faults are put in, each of which must show. False only if something could not be run at all; what was found is
// in the report. Needs an opened model; leaves an engine of its own open. KV in fewer bits
// than f32 runs on kernels that do not depend on the number of rows: rounding would blow up the last bit of a sum.
bool verify_protocol(struct opened *o, const struct verify_options *options, struct verify_report *report, struct error *e);

// The reference files of `path`: a folder with reference.json and logits.f32, a GGUF file with NAME.json and NAME.logits.f32
// (or any JSON whose "file" is its name) beside it, or such a JSON. Two forms: logits of every position, or cases with the
// ten best of each step.
bool verify_golden(struct opened *o, const struct verify_options *options, const char *path, struct verify_report *report,
                   struct error *e);

// Adds a row, counts it and reports it.
void verify_add(struct verify_report *report, const struct verify_check *check);

// What all checks compute in: the arithmetic that the model was opened for, KV as given.
void verify_choose_types(struct opened *o, enum dtype kv);

#endif
