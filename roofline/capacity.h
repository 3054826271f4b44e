// What fits: KV bytes, requests beside the weights, and the least time of a decode step at that load. All per rank.
#ifndef ROOFLINE_CAPACITY_H
#define ROOFLINE_CAPACITY_H

#include "roofline/roofline.h"

struct capacity_query {
    int32_t context;       // positions of each request, the new token included
    int32_t batch;         // requests of the priced step; 0: as many as fit
    int32_t block;         // tokens per KV block; 0: contiguous
    int32_t dcp;           // ranks that share each request's positions, 0 or 1: none
    double util;           // share of the device memory that may be used
    uint64_t weight_bytes; // instead of the plan's, held and read; 0: the plan's
    uint64_t held_bytes;   // instead of the plan's, held only; 0: the plan's
};

// Field names are kvcalc's JSON keys.
struct capacity {
    uint64_t weight_bytes;      // held
    uint64_t weight_read_bytes; // by the priced step
    uint64_t kv_bytes_per_token;
    uint64_t state_bytes_per_request;       // of it, what is there however short the request is
    uint64_t kv_bytes_per_request;          // `context` positions; a windowed layer keeps no more than its window
    uint64_t kv_reserved_bytes_per_request; // the same in whole blocks
    uint64_t memory_bytes, usable_bytes;    // usable: memory x util; 0: unknown
    bool memory_known, weights_fit;
    int32_t max_requests;    // that fit into usable - weights; 0 where !weights_fit
    int32_t batch;           // of the priced step; 0: no request fits, nothing priced
    uint64_t kv_bytes_total; // KV read by that step
    uint64_t flops;
    double bound_ns;      // least time of the step at hard peaks, caches empty when it begins; 0: unknown
    double roof_total_ns; // the same at attainable ceilings
    double kv_read_share; // KV read / (weights + KV read + KV written)
    double intensity;     // FLOP per byte of those
    double ridge;         // FLOP/byte of the datasheet's peak and bandwidth
    const char *limit;    // of bound_ns, else of roof_total_ns: "bandwidth", "compute" or "link"
};

bool capacity_of(const struct plan *plan, const struct hardware *hw, const struct capacity_query *query,
                 struct capacity *out, struct error *e);

// KV bytes of one sequence of n positions on this rank, in whole blocks (block 0: exactly).
uint64_t capacity_kv_bytes(const struct plan *plan, int32_t n, int32_t block);

// Parses "16GiB", "15.01e9", "17179869184", "16 GB" (GB decimal, GiB binary).
bool capacity_parse_bytes(const char *text, uint64_t *out, struct error *e);

#endif
