// The roofline of imported work. A step is priced as everywhere (roofline/); here its costs are scaled to what the source
// states: bits of a weight, bytes of a step, an n-th of the work on each of n devices, steps that are many alike.
#ifndef BENCH_IMPORT_PRICE_H
#define BENCH_IMPORT_PRICE_H

#include "bench/import.h"
#include "roofline/roofline.h"

struct import_work {
    const struct plan *plan; // weights in 16 bit; of one rank where `ranks`
    const struct hardware *hw;
    enum import_kind kind;
    int32_t devices;
    bool ranks;          // plan is one rank's; else each device does an n-th of everything and links are free
    double weight_scale; // true bytes of a weight over those of the plan
    int64_t batch;       // IMPORT_SERVE: at most so many requests at a time
    int64_t n_prompt, n_gen, n_depth;
    bool steps_follow; // as the facts have it
    double requests, tokens_per_step;
};

struct import_price {
    struct prediction prediction; // of all of it, on one device
    double datasheet_ns;          // the bound at printed peaks
};

bool import_price(const struct import_work *w, struct import_price *out, struct error *e);

// Bytes that weights and KV of the batch need on one device at the end.
double import_memory(const struct import_work *w);
// Requests of mean context that fit beside the weights: no schedule has more of them at a time, on average.
int64_t import_capacity(const struct import_work *w);

#endif
