#include "roofline/capacity.h"

#include "roofline/kv_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// n positions in whole blocks.
static uint64_t in_blocks(int32_t n, int32_t block)
{
    uint64_t positions = (uint64_t)n, size = (uint64_t)block;
    return block > 0 ? (positions + size - 1) / size * size : positions;
}

uint64_t capacity_kv_bytes(const struct plan *plan, int32_t n, int32_t block)
{
    struct kv_layout layout = kv_layout_of_plan(plan);
    uint64_t bytes = kv_layout_state_bytes(&layout);
    for (int32_t i = 0; i < layout.n; i++) {
        const struct kv_layers *k = &layout.layers[i];
        bytes += in_blocks(kv_layers_kept(k, n), block) * (uint64_t)k->n_layers * k->token_bytes;
    }
    return bytes;
}

// Positions of a request that this rank holds.
static int32_t share_of(const struct capacity_query *query)
{
    int32_t dcp = query->dcp > 1 ? query->dcp : 1;
    return query->context / dcp + (query->context % dcp > 0);
}

static void count_requests(const struct hardware *hw, const struct capacity_query *query, struct capacity *out)
{
    out->memory_known = hw->memory_bytes > 0;
    out->memory_bytes = hw->memory_bytes;
    out->usable_bytes = (uint64_t)((double)hw->memory_bytes * query->util);
    out->weights_fit = out->memory_known && out->weight_bytes <= out->usable_bytes;
    if (!out->weights_fit)
        return;
    if (!out->kv_reserved_bytes_per_request) // a pipeline stage without attention
        return (void)(out->max_requests = INT32_MAX);
    uint64_t n = (out->usable_bytes - out->weight_bytes) / out->kv_reserved_bytes_per_request;
    out->max_requests = n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

// The totals of a decode step of out->batch requests, whatever number of weight bytes is said to be read.
static bool cost_of_load(const struct plan *plan, const struct capacity_query *query, int32_t n, struct cost *cost,
                         struct error *e)
{
    struct batch batch;
    // One block per sequence: a cost does not depend on blocks, and the table stays small.
    if (!batch_make_uniform(&batch, n, 1, share_of(query), share_of(query), e))
        return false;
    bool ok = cost_of_step(plan, &batch, NULL, 0, cost, e);
    batch_free(&batch);
    if (ok && query->weight_bytes)
        cost->weight_bytes = query->weight_bytes;
    return ok;
}

static bool price_load(const struct plan *plan, const struct hardware *hw, const struct capacity_query *query,
                       struct capacity *out, struct error *e)
{
    struct cost cost;
    out->batch = query->batch ? query->batch : out->max_requests;
    if (!out->batch)
        return true;
    if (!cost_of_load(plan, query, out->batch, &cost, e))
        return false;
    if (!roofline_check(hw, &cost, e))
        return false;
    struct roof_time bound = roofline_bound(hw, &cost, false), attainable = roofline_attainable(hw, &cost, false);
    out->weight_read_bytes = cost.weight_bytes;
    out->kv_bytes_total = cost.kv_read_bytes;
    out->flops = cost_flops(&cost);
    out->kv_read_share = (double)cost.kv_read_bytes / (double)cost_bytes(&cost);
    out->intensity = (double)out->flops / (double)cost_bytes(&cost);
    out->bound_ns = bound.ns;
    out->roof_total_ns = attainable.ns;
    out->limit = bound.ns > 0 ? bound.limit : attainable.limit;
    return true;
}

static double ridge_of(const struct hardware *hw, enum dtype compute)
{
    double datasheet = hardware_ridge(hw, ROOF_DATASHEET, compute);
    return datasheet > 0 ? datasheet : hardware_ridge(hw, roofline_bandwidth_kind(hw), compute);
}

bool capacity_of(const struct plan *plan, const struct hardware *hw, const struct capacity_query *query,
                 struct capacity *out, struct error *e)
{
    *out = (struct capacity){.limit = ""};
    if (query->context < 1 || query->batch < 0 || query->block < 0)
        return error_set(e, ERROR_USAGE, "context %d, batch %d or block %d is out of range", query->context, query->batch,
                         query->block);
    if (!(query->util > 0 && query->util <= 1))
        return error_set(e, ERROR_USAGE, "'util' is %g, expected more than 0 and at most 1", query->util);
    out->weight_bytes = query->weight_bytes ? query->weight_bytes
                        : query->held_bytes ? query->held_bytes
                                            : plan_weight_bytes(plan);
    out->kv_bytes_per_token = plan_kv_bytes_per_token(plan);
    struct kv_layout layout = kv_layout_of_plan(plan);
    out->state_bytes_per_request = kv_layout_state_bytes(&layout);
    out->kv_bytes_per_request = capacity_kv_bytes(plan, share_of(query), 0);
    out->kv_reserved_bytes_per_request = capacity_kv_bytes(plan, share_of(query), query->block);
    out->ridge = ridge_of(hw, plan_compute_type(plan));
    count_requests(hw, query, out);
    return price_load(plan, hw, query, out, e);
}

static const struct {
    const char *name;
    double bytes;
} UNIT[] = {
    {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
    {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};

bool capacity_parse_bytes(const char *text, uint64_t *out, struct error *e)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end != text)
        end += strspn(end, " ");
    for (size_t i = 0; end != text && !errno && i < sizeof UNIT / sizeof *UNIT; i++) {
        double bytes = value * UNIT[i].bytes;
        if (strcasecmp(end, UNIT[i].name) || !(bytes >= 1 && bytes < 0x1p63))
            continue;
        *out = (uint64_t)(bytes + 0.5);
        return true;
    }
    return error_set(e, ERROR_USAGE, "'%.60s' is no number of bytes, expected such as 16GiB, 15.01e9 or 17179869184", text);
}
