// The points of a scenario: what one row of results is about. The product of models, weights, threads and each section's
// lists, in the order they are written.
#ifndef BENCH_POINTS_H
#define BENCH_POINTS_H

#include "bench/scenario.h"

struct planner;

struct point {
    char key[160]; // "decode/b8/c1024/bf16/kv-int8/blk16": stable, unique in its scenario; see point_list_make
    int32_t model; // index into scenario->model
    enum phase phase;
    int32_t batch, n_prompt, n_gen, n_depth;
    int32_t context;    // positions attended by the (first) decode step; prefill: by the last row
    int32_t block;      // 0: contiguous
    bool cache;         // false: every step recomputes the prefix
    bool own_weights;   // the model's own type: `weights` is not set
    enum dtype weights; // where !own_weights
    bool own_kv;        // the type that goes with the weights
    struct kv_type kv;  // where !own_kv
    int32_t threads;
};

struct point_list {
    struct point *point; // [n]
    int32_t n;
};

// planner: opens the models, so that keys name the types that will run; NULL: the model's own types are called "auto".
// filter: a PCRE2 regular expression that keys must match, or NULL. Keys are PHASE/bBATCH/SHAPE/WEIGHTS/kv-TYPE/blkSIZE with
// SHAPE cCONTEXT (decode), pTOKENS (prefill) or pTOKENS/nTOKENS (generate, with /nocache where so); the model stands in
// front where the scenario has several, /nSTEPS, /dDEPTH and /tTHREADS follow where they are not the default. Fails if
// nothing is left.
bool point_list_make(struct point_list *list, const struct scenario *s, struct planner *planner, const char *filter,
                     struct error *e);
void point_list_free(struct point_list *list); // accepts zeroed

// Decode steps of one sample, and the rows each runs per sequence: step 0 is the prompt where there is one.
int32_t point_steps(const struct point *p);
// Rows per sequence of step i, and the positions its last row attends.
int32_t point_step_rows(const struct point *p, int32_t i);
int32_t point_step_context(const struct point *p, int32_t i);

#endif
