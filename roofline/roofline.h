// Three times of a step (DESIGN section 3) and the backend that prices plans on a simulated clock.
#ifndef ROOFLINE_ROOFLINE_H
#define ROOFLINE_ROOFLINE_H

#include "roofline/cost.h"
#include "roofline/hardware.h"

// All in ns; 0 means unknown (no hard peaks, say).
struct prediction {
    double bound_ns;      // compulsory totals at hard peaks: max(bytes/bandwidth, sum of flops/peak, link)
    double floor_ns;      // sum over operations of their floors at hard peaks (T1)
    double roof_ns;       // sum over operations of max(flops/peak, bytes/bandwidth) at attainable ceilings (T2)
    double roof_total_ns; // max of totals at attainable ceilings
    double spans_ns;      // executed spans with the activations that cross their edges, attainable ceilings (T3)
    struct cost cost;     // of the step under the given cover
    char limit[12];       // what the roof is made of mostly: "bandwidth", "compute" or "link"
};

// spans: the cover priced for T3 (operation by operation when NULL). Attainable values fall back to the datasheet's, then
// the hard ones, where nobody measured; roof_source says which was used ("attainable", "datasheet", "hard").
bool roofline_price(const struct plan *plan, const struct batch *batch, const struct hardware *hw, const struct span *spans,
                    int32_t n_spans, struct prediction *out, struct error *e);
const char *roofline_source(const struct hardware *hw);

// roof of each operation of the plan: op_ns[plan->n_ops]; for the ops table and picture.
bool roofline_price_ops(const struct plan *plan, const struct batch *batch, const struct hardware *hw, double *op_ns,
                        struct error *e);

// A backend whose run() advances a simulated clock by the roof of each span of `cover`'s cover, and writes the trace rows.
// Reads return zeros. hw and cover must outlive it.
bool roofline_backend_open(struct backend *out, const struct hardware *hw,
                           int32_t (*cover)(void *, const struct plan *, const struct batch_shape *, struct span *),
                           struct error *e);

#endif
