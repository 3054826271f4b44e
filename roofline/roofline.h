// Three times of a step (DESIGN section 3) and the backend that prices plans on a simulated clock.
#ifndef ROOFLINE_ROOFLINE_H
#define ROOFLINE_ROOFLINE_H

#include "roofline/cost.h"
#include "roofline/hardware.h"

// The best known ceiling where it is not known as attainable: attainable, else datasheet, else hard.
enum roof_kind roofline_bandwidth_kind(const struct hardware *hw);
enum roof_kind roofline_peak_kind(const struct hardware *hw, enum dtype compute);

// All in ns; 0 means unknown (bound and floor without hard peaks, the others without any).
struct prediction {
    double bound_ns; // T0: max(bytes/bandwidth, FLOPs/peak, link) of the step's totals at hard peaks. What the cache can
                     // keep from one step to the next is not charged, so that a repeated step cannot beat it
    double floor_ns; // T1: sum over operations of their floors at hard peaks, what levels keep not charged
    double roof_ns;  // T2: sum over operations of max(FLOPs/peak, bytes/bandwidth, link) at attainable ceilings, the
                     // bandwidth by how much the whole step streams before it comes back (hardware_stream)
    double roof_total_ns;  // max of totals at attainable ceilings
    double spans_ns;       // T3: as roof, with the activations that cross the edges of executed spans
    double roof_spread;    // relative spread of the ceilings behind roof_ns, weighted by time; 0 if not measured
    uint64_t stream_bytes; // weights and KV of the (largest) step: what lies between two uses of any of them
    struct cost cost;      // of the step under the given cover
    char limit[12];        // what the roof is made of mostly: "bandwidth", "compute" or "link"
    char source[12];       // the weakest kind of ceiling it rests on: "attainable", "datasheet" or "hard"
};

// Fails (ERROR_UNSUPPORTED) where the hardware states nothing about something the cost needs: a peak, a link.
bool roofline_check(const struct hardware *hw, const struct cost *cost, struct error *e);

// The time of a step's totals, all resources at work at once.
struct roof_time {
    double ns;         // 0: unknown
    const char *limit; // "bandwidth", "compute" or "link": the slowest
};
// At hard peaks. `repeated`: of a measured point (T0): the step before was alike, so what the cache can keep of it need not
// be read, and its rows may have chosen the same experts; else caches start empty, and experts are as random rows touch
// them.
struct roof_time roofline_bound(const struct hardware *hw, const struct cost *total, bool repeated);
// At the best known ceilings. `repeated`: as above, so that caches give what they keep.
struct roof_time roofline_attainable(const struct hardware *hw, const struct cost *total, bool repeated);

// spans: the cover priced for T3 (operation by operation when NULL).
bool roofline_price(const struct plan *plan, const struct batch *batch, const struct hardware *hw, const struct span *spans,
                    int32_t n_spans, struct prediction *out, struct error *e);

// The same, operation by operation: ops[plan->n_ops].
struct op_price {
    struct cost cost;
    double roof_ns, span_ns;   // sums of these are the prediction's roof_ns and spans_ns
    double bytes_ns, flops_ns; // of roof_ns: weights and KV, and arithmetic; roof_ns is the longest (or a link's time)
    const char *limit;         // what roof_ns is: "bandwidth", "compute" or "link"
};
bool roofline_price_ops(const struct plan *plan, const struct batch *batch, const struct hardware *hw,
                        const struct span *spans, int32_t n_spans, struct op_price *ops, struct error *e);

// The same on a walk made before: allocates nothing.
bool roofline_price_walk(struct cost_walk *walk, const struct batch *batch, const struct hardware *hw,
                         const struct span *spans, int32_t n_spans, struct op_price *ops, struct error *e);

// From costs that are known already (counted for a step, then scaled, say): fills the times of ops[n] and sums them up.
bool roofline_price_costs(const struct hardware *hw, struct op_price *ops, int32_t n, struct prediction *out,
                          struct error *e);

// Another backend's cover and the names of its kernels, as struct backend has them.
struct roofline_cover {
    void *self;
    int32_t (*cover)(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans);
    const char *(*kernel_name)(void *self, uint16_t kernel);
};

// A backend whose run() advances a simulated clock by the price (T3) of each span of a cover, and writes the trace rows.
// cover NULL: operation by operation. Reads return zeros. hw and the cover's self must outlive it.
bool roofline_backend_open(struct backend *out, const struct hardware *hw, const struct roofline_cover *cover,
                           struct error *e);

#endif
