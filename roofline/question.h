// What kvcalc is asked: a model on so many ranks of a device, at a context; and the answer to it. Plans are made once and
// asked again and again with other contexts and batches: sweeps, break points and comparisons do so.
#ifndef ROOFLINE_QUESTION_H
#define ROOFLINE_QUESTION_H

#include "engine/base/options.h"
#include "roofline/budget.h"
#include "roofline/capacity.h"
#include "roofline/catalogue.h"

enum { QUESTION_MAX_STAGES = 64 };

struct question {
    struct model model;
    struct hardware hardware;
    struct plan_options types;    // tp and the types; weights by what the file stores, or by the rule of checkpoints
    enum dtype weights, expected; // of most matrices; the model's own
    int32_t pp;
    struct plan whole;                      // on one device
    struct plan stage[QUESTION_MAX_STAGES]; // [pp], one rank of each
    uint64_t stored_bytes;                  // of all tensors in the model's files, 0 where there are none
    struct capacity_query query;
    struct budget_query budget;
    bool has_engine;
    struct serving serving;
    int64_t max_model_len;
};

// Reads the options of a question without making plans. Owns the model until question_close.
bool question_read(const struct options *o, struct question *q, struct error *e);
void question_close(struct question *q); // accepts zeroed

// Makes the plans for q->types and q->pp; again after they change.
bool question_plan(struct question *q, struct error *e);

// What an engine makes of it, per rank.
struct engine_answer {
    struct serving_kv kv;
    int64_t blocks_low, blocks_high; // over the band of the budget
    int64_t request_blocks;          // at q->query.context
    uint64_t request_bytes;
    double requests_low, requests_high;        // at q->query.context
    double concurrency_low, concurrency_high;  // at max_model_len, as printed
    int64_t tokens_low, tokens_high;           // "GPU KV cache size" as this version prints it
    int64_t tokens_blocks, tokens_concurrency; // both meanings of it, at the middle of the band
};

struct answer {
    struct capacity capacity; // of the fullest stage; bound and roof are the sum of all stages, each in its turn
    int32_t fullest;
    struct budget budget;
    struct engine_answer engine; // where q->has_engine
};

bool question_ask(const struct question *q, struct answer *a, struct error *e);

// Least time of a prefill of `batch` prompts of q->query.context tokens, ns.
bool question_prefill_ns(const struct question *q, int32_t batch, double *ns, struct error *e);

#endif
