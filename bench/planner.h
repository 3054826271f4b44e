// From points to plans: which plan a point runs, what the roofline says of it, how much memory it needs and whether that is
// there. Opens models for their shape; measures nothing.
#ifndef BENCH_PLANNER_H
#define BENCH_PLANNER_H

#include "bench/points.h"
#include "engine/engine.h"
#include "engine/load/model.h"
#include "roofline/roofline.h"

struct planner {
    const struct scenario *scenario; // the caller's
    bool on_cpu;                     // plans are for a CPU: arithmetic by the weights' type, activations in f32
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

// The roofline of one sample of a point: the sum over its steps. hw as roofline_price takes it.
bool point_price(const struct plan *plan, const struct point *point, const struct hardware *hw, struct prediction *out,
                 struct error *e);

// The KV pool and largest step that serve points[n], one after another, all with the same KV types and block size. Their
// contexts are filled once: sequence s holds points_depth positions, and each point works on copies cut to its own depth.
struct kv_config points_kv(const struct point *const *points, int32_t n);
int32_t points_depth(const struct point *const *points, int32_t n, int32_t seq);

struct memory_need {
    uint64_t weights, kv, activations; // bytes
    uint64_t total;                    // UINT64_MAX on overflow
};
struct memory_need points_memory(const struct plan *plan, const struct point *const *points, int32_t n);

#endif
