// How well a model predicts a text: the number by which weight and KV types are compared for quality.
#ifndef BENCH_PERPLEXITY_H
#define BENCH_PERPLEXITY_H

#include "bench/open.h"

struct perplexity_options {
    int32_t window;  // tokens per window, 2 or more; each window stands on its own, without BOS
    int32_t windows; // at most so many, from the start of the text; 0: all whole windows
    enum dtype kv;
    void (*on_window)(void *ctx, int32_t index, double nll); // may be NULL
    void *ctx;
};

struct perplexity {
    int32_t n_windows;
    double *nll;  // [n_windows] mean negative log-likelihood of each window's window - 1 predictions
    double mean;  // of all predictions
    double value; // e^mean
};

// Opens an engine over *o for it. Fails if the text has no whole window. perplexity_free accepts zeroed.
bool perplexity_measure(struct opened *o, const struct perplexity_options *options, const int32_t *id, int32_t n,
                        struct perplexity *out, struct error *e);
void perplexity_free(struct perplexity *p);

#endif
