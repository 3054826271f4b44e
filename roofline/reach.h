// Where something begins to fit, or stops: the smallest tp, the KV types and the longest context that reach a number of
// requests; the largest batches within limits of time. Times are bounds: what they exclude no engine reaches, what they
// admit an engine may still miss.
#ifndef ROOFLINE_REACH_H
#define ROOFLINE_REACH_H

#include "roofline/question.h"

struct reach {
    int32_t tp;          // smallest power of two that reaches the requests; 0: none
    int64_t tp_requests; // what fits with it, or at the most
    int32_t n_kv;
    enum dtype kv[DTYPE_COUNT]; // types that reach them at the question's tp
    int64_t kv_requests[DTYPE_COUNT];
    int32_t context;    // longest at which they fit; 0: none
    int32_t tpot_batch; // largest within the limit; -1: not asked
    int32_t ttft_batch; // likewise
};

// Limits in ms; 0: not asked.
void reach_find(const struct question *q, int32_t requests, double tpot_ms, double ttft_ms, struct reach *out);

#endif
