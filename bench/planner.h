// From points to plans: which plan a point runs, what the roofline says of it, how much memory it needs and whether that is
// there. Opens models for their shape; measures nothing.
#ifndef BENCH_PLANNER_H
#define BENCH_PLANNER_H

#include "bench/points.h"
#include "engine/load/model.h"
#include "roofline/roofline.h"

struct planner {
    const struct scenario *scenario; // the caller's
    struct model model[SCENARIO_MAX_MODELS];
    bool opened[SCENARIO_MAX_MODELS];
    // The plan made last, kept because neighbours share it.
    bool has_plan;
    int32_t plan_model;
    struct plan_options plan_options;
    struct plan plan;
};

void planner_init(struct planner *p, const struct scenario *s);
void planner_free(struct planner *p); // accepts zeroed

// The opened model of a point (from the catalogue or a path), kept until planner_free. A bare config.json becomes a model of
// that shape with random weights.
struct model *planner_model(struct planner *p, const struct point *point, struct error *e);

// The types a point's plan is made for: what the scenario says, the model's own where it says nothing.
bool planner_options(struct planner *p, const struct point *point, struct plan_options *out, struct error *e);

// The plan of a point. Valid until the next call; plan_make for one of your own.
const struct plan *planner_plan(struct planner *p, const struct point *point, struct error *e);

// The type that holds most bytes of the weights.
enum dtype plan_main_type(const struct plan *plan);

// The roofline of one sample of a point: the sum over its steps. hw as roofline_price takes it.
bool point_price(const struct plan *plan, const struct point *point, const struct hardware *hw, struct prediction *out,
                 struct error *e);

// KV blocks one sample of a point needs with blocks of block_size tokens: `filled` hold the context that is there before,
// `fresh` what the sample writes (partly filled blocks are copied first).
int32_t point_block_size(const struct point *point); // contiguous: one block of the longest length
int64_t point_filled_blocks(const struct point *point);
int64_t point_fresh_blocks(const struct point *point);
// Rows of the largest step, all sequences.
int64_t point_max_rows(const struct point *point);

struct memory_need {
    uint64_t weights, kv, activations; // bytes
    uint64_t total;
};
// What a point needs at least: activations as f32, each slot from its writer to its last reader.
struct memory_need point_memory(const struct plan *plan, const struct point *point);

#endif
