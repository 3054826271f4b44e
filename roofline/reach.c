#include "roofline/reach.h"

#include <string.h>

enum { MAX_TP = 256, MAX_BATCH = 1 << 20, MAX_PREFILL_TOKENS = 1 << 24 };

// Requests that fit on all ranks together under other types, or -1 if the model cannot be parted so.
static int64_t requests_of(const struct question *q, int32_t tp, enum dtype kv)
{
    struct question other = *q;
    struct answer a;
    struct error e = {0};
    memset(&other.whole, 0, sizeof other.whole);
    memset(other.stage, 0, sizeof other.stage);
    other.types.tp = tp, other.query.batch = 1; // only what fits is asked
    if (kv != DTYPE_COUNT)
        other.types.kv_k = other.types.kv_v = kv;
    bool ok = question_plan(&other, &e) && question_ask(&other, &a, &e);
    int64_t n = ok ? (int64_t)a.capacity.max_requests * (q->types.dp_attention ? tp : 1) : -1;
    plan_free(&other.whole);
    for (int32_t s = 0; s < other.pp; s++)
        plan_free(&other.stage[s]);
    return n;
}

static void find_tp(const struct question *q, int32_t wanted, struct reach *out)
{
    for (int32_t tp = 1; tp <= MAX_TP && !out->tp; tp *= 2) {
        int64_t n = requests_of(q, tp, DTYPE_COUNT);
        out->tp_requests = n > out->tp_requests ? n : out->tp_requests;
        out->tp = n >= wanted ? tp : 0;
    }
}

static void find_kv(const struct question *q, int32_t wanted, struct reach *out)
{
    static const enum dtype TYPES[] = {DTYPE_BF16, DTYPE_FP8,  DTYPE_FP8_DS_MLA, DTYPE_INT8,
                                       DTYPE_Q8_0, DTYPE_INT4, DTYPE_NVFP4,      DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        int64_t n = requests_of(q, q->types.tp, TYPES[i]);
        if (n < wanted)
            continue;
        out->kv_requests[out->n_kv] = n;
        out->kv[out->n_kv++] = TYPES[i];
    }
}

// Requests only get fewer as contexts get longer.
static void find_context(const struct question *q, int32_t wanted, struct reach *out)
{
    struct question other = *q; // shares the plans; it is asked, not closed
    int32_t low = 0, high = 1 << 28;
    while (low + 1 < high) {
        struct answer a;
        struct error e = {0};
        int32_t middle = low + (high - low) / 2;
        other.query.context = middle, other.query.batch = 1;
        bool fits = question_ask(&other, &a, &e) &&
                    (int64_t)a.capacity.max_requests * (q->types.dp_attention ? q->types.tp : 1) >= wanted;
        *(fits ? &low : &high) = middle;
    }
    out->context = low;
}

static double tpot_ns(const struct question *q, int32_t batch)
{
    struct question other = *q;
    struct answer a;
    struct error e = {0};
    other.query.batch = batch;
    if (!question_ask(&other, &a, &e))
        return -1;
    return a.capacity.bound_ns > 0 ? a.capacity.bound_ns : a.capacity.roof_total_ns;
}

static double ttft_ns(const struct question *q, int32_t batch)
{
    double ns;
    struct error e = {0};
    return question_prefill_ns(q, batch, &ns, &e) ? ns : -1;
}

// The largest batch whose time is within the limit; times only grow with the batch.
static int32_t largest_batch(const struct question *q, double limit_ns, int32_t most,
                             double (*time)(const struct question *, int32_t))
{
    int32_t low = 0, high = 1;
    while (high <= most && time(q, high) >= 0 && time(q, high) <= limit_ns)
        low = high, high *= 2;
    high = high < most + 1 ? high : most + 1;
    while (low + 1 < high) {
        int32_t middle = low + (high - low) / 2;
        double ns = time(q, middle);
        *(ns >= 0 && ns <= limit_ns ? &low : &high) = middle;
    }
    return low;
}

void reach_find(const struct question *q, int32_t requests, double tpot_ms, double ttft_ms, struct reach *out)
{
    int32_t prompts = MAX_PREFILL_TOKENS / q->query.context;
    *out = (struct reach){.tpot_batch = -1, .ttft_batch = -1};
    if (requests) {
        find_tp(q, requests, out);
        find_kv(q, requests, out);
        find_context(q, requests, out);
    }
    if (tpot_ms > 0)
        out->tpot_batch = largest_batch(q, tpot_ms * 1e6, MAX_BATCH, tpot_ns);
    if (ttft_ms > 0)
        out->ttft_batch = largest_batch(q, ttft_ms * 1e6, prompts > 1 ? prompts : 1, ttft_ns);
}
