#include "roofline/cost.h"

#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cost_add(struct cost *sum, const struct cost *c)
{
    size_add(sum->weight_bytes, c->weight_bytes, &sum->weight_bytes);
    sum->expert_spread_bytes += c->expert_spread_bytes;
    size_add(sum->kv_read_bytes, c->kv_read_bytes, &sum->kv_read_bytes);
    size_add(sum->kv_write_bytes, c->kv_write_bytes, &sum->kv_write_bytes);
    size_add(sum->act_bytes, c->act_bytes, &sum->act_bytes);
    sum->act_distance = c->act_distance > sum->act_distance ? c->act_distance : sum->act_distance;
    size_add(sum->link_bytes, c->link_bytes, &sum->link_bytes);
    for (int t = 0; t < DTYPE_COUNT; t++)
        size_add(sum->flops[t], c->flops[t], &sum->flops[t]);
}

uint64_t cost_flops(const struct cost *c)
{
    uint64_t sum = 0;
    for (int t = 0; t < DTYPE_COUNT; t++)
        size_add(sum, c->flops[t], &sum);
    return sum;
}

uint64_t cost_bytes(const struct cost *c)
{
    uint64_t sum;
    size_add(c->weight_bytes, c->kv_read_bytes, &sum);
    size_add(sum, c->kv_write_bytes, &sum);
    return sum;
}

bool cost_countable(const struct cost *c)
{
    return cost_flops(c) != UINT64_MAX && cost_bytes(c) != UINT64_MAX && c->act_bytes != UINT64_MAX;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    size_mul(a, b, &a);
    return a;
}

bool cost_walk_init(struct cost_walk *w, const struct plan *plan, struct error *e)
{
    size_t n_slots = (size_t)plan->n_slots, n_tensors = (size_t)plan->n_tensors;
    *w = (struct cost_walk){.plan = plan};
    w->last_use = calloc(4 * n_slots, sizeof *w->last_use);
    w->charged = calloc(n_tensors, sizeof *w->charged);
    w->written_at = calloc(n_slots, sizeof *w->written_at);
    if (!w->last_use || !w->charged || !w->written_at) {
        cost_walk_free(w);
        return error_set(e, ERROR_MEMORY, "no memory to price '%s'", plan->model);
    }
    w->writer = w->last_use + n_slots;
    w->read_by = w->writer + n_slots;
    w->read_rows = w->read_by + n_slots;
    plan_slot_last_use(plan, w->last_use);
    for (size_t s = 0; s < n_slots; s++)
        w->writer[s] = -1; // what a pipeline stage is handed has none
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].out >= 0)
            w->writer[plan->op[i].out] = i;
    return true;
}

void cost_walk_free(struct cost_walk *w)
{
    free(w->last_use); // the first of four arrays
    free(w->charged);
    free(w->written_at);
    *w = (struct cost_walk){0};
}

// Sum of min(i, window) for i = 1..n: the keys that rows at positions 0..n-1 attend.
static uint64_t pairs_of_prefix(uint64_t n, uint64_t window)
{
    if (!window || n <= window)
        return n * (n + 1) / 2;
    return window * (window + 1) / 2 + (n - window) * window;
}

// Rows at scattered positions (a speculative tree, say): each attends its own stretch, and stretches may overlap.
static void attend_scattered(const int32_t *pos, int32_t n, int32_t window, uint64_t *pairs, uint64_t *positions)
{
    int64_t counted = 0; // positions below this one are counted
    for (int32_t i = 0; i < n; i++) {
        int64_t end = (int64_t)pos[i] + 1, begin = window && end > window ? end - window : 0;
        *pairs += (uint64_t)(end - begin);
        *positions += (uint64_t)(end - (begin > counted ? begin : counted));
        counted = end;
    }
}

// Adds what the n rows of one sequence attend: (row, key) pairs, and the distinct positions among the keys.
static void attend(const int32_t *pos, int32_t n, int32_t window, uint64_t *pairs, uint64_t *positions)
{
    if (n < 1)
        return;
    int64_t first = pos[0], end = (int64_t)pos[n - 1] + 1;
    if (end - first != n) {
        attend_scattered(pos, n, window, pairs, positions);
        return;
    }
    *pairs += pairs_of_prefix((uint64_t)end, (uint64_t)window) - pairs_of_prefix((uint64_t)first, (uint64_t)window);
    *positions += (uint64_t)(window && first + 1 > window ? end - (first + 1 - window) : end);
}

// Chunks of `window` positions: a row attends its own chunk up to itself, which is a prefix of its chunk.
static void attend_chunks(const int32_t *pos, int32_t n, int32_t window, uint64_t *pairs, uint64_t *positions)
{
    for (int32_t i = 0; i < n;) {
        int32_t chunk = pos[i] / window, rows = 1;
        while (i + rows < n && pos[i + rows] / window == chunk)
            rows++;
        uint64_t first = (uint64_t)(pos[i] % window), end = (uint64_t)(pos[i + rows - 1] % window) + 1;
        *pairs += pairs_of_prefix(end, 0) - pairs_of_prefix(first, 0);
        *positions += end;
        i += rows;
    }
}

// An indexer chooses `topk` positions for each row: at most that many are attended, and no more read than there are.
static void attend_chosen(const int32_t *pos, int32_t n, int32_t topk, uint64_t *pairs, uint64_t *positions)
{
    uint64_t end = (uint64_t)pos[n - 1] + 1, chosen = 0;
    for (int32_t i = 0; i < n; i++)
        chosen += pos[i] < topk ? (uint64_t)pos[i] + 1 : (uint64_t)topk;
    *pairs += chosen;
    *positions += chosen < end ? chosen : end;
}

// Every operation exactly once, in order.
static bool check_cover(const struct plan *plan, const struct span *spans, int32_t n_spans, struct error *e)
{
    int32_t next = 0;
    for (int32_t i = 0; i < n_spans; i++) {
        if (spans[i].first != next || spans[i].count < 1 || spans[i].count > plan->n_ops - next)
            return error_set(e, ERROR_FAILED, "span %d is operations %d to %d, expected them from %d on", i, spans[i].first,
                             spans[i].first + spans[i].count - 1, next);
        next += spans[i].count;
    }
    return next == plan->n_ops || error_set(e, ERROR_FAILED, "the spans cover %d of %d operations", next, plan->n_ops);
}

// What the rows of this step attend in one layer of a group.
static void count_positions(struct cost_walk *w, int32_t g)
{
    const struct kv_group *k = &w->plan->kv_group[g];
    const struct batch *b = w->batch;
    w->pairs[g] = w->positions[g] = 0;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        const int32_t *pos = b->pos + b->seq_first[s], n = b->seq_first[s + 1] - b->seq_first[s];
        if (n > 0 && k->topk)
            attend_chosen(pos, n, k->topk, &w->pairs[g], &w->positions[g]);
        else if (k->chunked)
            attend_chunks(pos, n, k->window, &w->pairs[g], &w->positions[g]);
        else
            attend(pos, n, k->window, &w->pairs[g], &w->positions[g]);
    }
}

static void count_scored(struct cost_walk *w)
{
    const struct batch *b = w->batch;
    w->scored_pairs = w->scored = 0;
    for (int32_t s = 0; s < b->n_seqs; s++)
        attend(b->pos + b->seq_first[s], b->seq_first[s + 1] - b->seq_first[s], 0, &w->scored_pairs, &w->scored);
}

bool cost_walk_begin(struct cost_walk *w, const struct batch *batch, const struct span *spans, int32_t n_spans,
                     struct error *e)
{
    const struct plan *plan = w->plan;
    if (spans && !check_cover(plan, spans, n_spans, e))
        return false;
    w->batch = batch, w->spans = spans, w->op = w->span = 0, w->moved = 0;
    for (int32_t s = 0; s < plan->n_slots; s++)
        w->read_by[s] = -1, w->written_at[s] = 0;
    memset(w->charged, 0, (size_t)plan->n_tensors * sizeof *w->charged);
    for (int32_t g = 0; g < plan->n_kv_groups; g++)
        count_positions(w, g);
    count_scored(w);
    return true;
}

static uint64_t rows_of(const struct cost_walk *w, const struct op *op)
{
    uint64_t rows = (uint64_t)(op->rows == ROWS_OUT ? w->batch->n_out : w->batch->n_tokens);
    return op->gathered ? rows * (uint64_t)w->plan->dp : rows;
}

// Up to `bytes` of a tensor, as far as nobody in this step has paid for them.
static uint64_t charge(struct cost_walk *w, int32_t tensor, uint64_t bytes)
{
    if (tensor < 0)
        return 0;
    uint64_t left = tensor_bytes(&w->plan->tensor[tensor]) - w->charged[tensor];
    bytes = bytes < left ? bytes : left;
    w->charged[tensor] += bytes;
    return bytes;
}

static uint64_t slot_bytes(const struct cost_walk *w, int32_t slot, uint64_t rows)
{
    return rows * dtype_row_bytes(w->plan->act, (uint64_t)w->plan->slot[slot].width);
}

// Slots from outside are read once per span; slots made here are written only if somebody needs them later. *distance: of
// what is read, as struct cost has it; what is written has not been anywhere yet.
static uint64_t edge_bytes(struct cost_walk *w, const struct op *op, const struct span *span, uint64_t *distance)
{
    uint64_t bytes = 0, rows = rows_of(w, op);
    for (int k = 0; k < 3; k++) {
        int32_t slot = op->in[k];
        if (slot < 0 || w->writer[slot] >= span->first)
            continue;
        uint64_t paid = w->read_by[slot] == span->first ? (uint64_t)w->read_rows[slot] : 0;
        if (rows <= paid)
            continue;
        uint64_t read = slot_bytes(w, slot, rows - paid), since = w->moved - w->written_at[slot] + read;
        bytes += read;
        *distance = since > *distance ? since : *distance;
        w->read_by[slot] = span->first;
        w->read_rows[slot] = (int32_t)rows;
    }
    if (op->out >= 0 && w->last_use[op->out] >= span->first + span->count)
        bytes += slot_bytes(w, op->out, rows);
    return bytes;
}

static uint64_t row_bytes_of(const struct plan *plan, int32_t tensor)
{
    return dtype_row_bytes((enum dtype)plan->tensor[tensor].dtype, (uint64_t)plan->tensor[tensor].cols);
}

// Latents unfolded to K and V of every head, or queries folded into the latents' space: whichever takes less.
static uint64_t latent_flops(const struct op *op, uint64_t rows, uint64_t positions, uint64_t pairs)
{
    uint64_t H = (uint64_t)op->dim[0], R = (uint64_t)op->dim[1], n = (uint64_t)op->dim[2], r = (uint64_t)op->dim[3],
             v = (uint64_t)op->dim[4];
    uint64_t unfolded = positions * R * (n + v) + pairs * (n + r + v), absorbed = rows * R * (n + v) + pairs * (2 * R + r);
    return product(2 * H, unfolded < absorbed ? unfolded : absorbed);
}

static void cost_of_latent(const struct cost_walk *w, const struct op *op, uint64_t rows, struct cost *out)
{
    const struct kv_group *g = &w->plan->kv_group[op->kv_group];
    uint64_t latent = kv_group_token_bytes(w->plan, g) - kv_group_index_bytes(g);
    out->kv_read_bytes = w->positions[op->kv_group] * latent;
    out->kv_write_bytes = rows * latent;
    out->flops[op->compute] = latent_flops(op, rows, w->positions[op->kv_group], w->pairs[op->kv_group]);
}

static void cost_of_index(const struct cost_walk *w, const struct op *op, uint64_t rows, struct cost *out)
{
    uint64_t key = kv_group_index_bytes(&w->plan->kv_group[op->kv_group]);
    out->kv_read_bytes = w->scored * key;
    out->kv_write_bytes = rows * key;
    out->flops[op->compute] = product(w->scored_pairs, 2 * (uint64_t)op->dim[0] * (uint64_t)op->dim[1]);
}

// A state is updated and read by outer and inner products: 3 of them per row in DeltaNet (S k, k v, S q), 2 in Mamba-2.
static void cost_of_state(const struct cost_walk *w, const struct op *op, uint64_t rows, struct cost *out)
{
    uint64_t state = w->plan->kv_group[op->kv_group].state_bytes * (uint64_t)w->batch->n_seqs;
    uint64_t values = (uint64_t)op->dim[0] * (uint64_t)op->dim[1] * (uint64_t)op->dim[2];
    out->kv_read_bytes = out->kv_write_bytes = state;
    out->flops[op->compute] = 2 * rows * (values * (op->dim[5] ? 2 : 3) + (uint64_t)op->dim[4] * (uint64_t)(op->dim[3] + 1));
}

// Experts that `rows` rows touch when each chooses k of E at random: E (1 - (1 - k/E)^rows).
static void cost_of_experts(struct cost_walk *w, const struct op *op, uint64_t rows, struct cost *out)
{
    double E = op->dim[2], k = op->dim[3], share = 1 - pow(1 - k / E, (double)rows);
    uint64_t all = tensor_bytes(&w->plan->tensor[op->weight]);
    if (op->bias >= 0)
        all += tensor_bytes(&w->plan->tensor[op->bias]);
    out->weight_bytes = rows ? (uint64_t)((double)all * share) : 0;
    out->expert_spread_bytes = rows ? out->weight_bytes - (uint64_t)((double)all * k / E) : 0;
    out->flops[op->compute] =
        2 * rows * (uint64_t)op->dim[3] * (uint64_t)op->dim[4] * (uint64_t)op->dim[0] * (uint64_t)op->dim[1];
}

static void cost_of_op(struct cost_walk *w, const struct op *op, const struct span *span, struct cost *out)
{
    const struct plan *plan = w->plan;
    uint64_t rows = rows_of(w, op), read = UINT64_MAX, *flops = &out->flops[op->compute];
    uint64_t distance = 0, act_bytes = edge_bytes(w, op, span, &distance);
    *out = (struct cost){.act_bytes = act_bytes, .act_distance = distance > act_bytes ? distance : act_bytes};
    switch ((enum op_kind)op->kind) {
    case OP_EMBED:
    case OP_POSITION: read = rows * row_bytes_of(plan, op->weight); break;
    case OP_LINEAR:
    case OP_ROUTE: *flops = product(2 * rows, (uint64_t)op->dim[0] * (uint64_t)op->dim[1]); break;
    case OP_KV_WRITE: out->kv_write_bytes = rows * kv_group_token_bytes(plan, &plan->kv_group[op->kv_group]); break;
    case OP_ATTN:
        out->kv_read_bytes = product(w->positions[op->kv_group], kv_group_token_bytes(plan, &plan->kv_group[op->kv_group]));
        *flops = product(4 * (uint64_t)op->dim[0] * (uint64_t)op->dim[2], w->pairs[op->kv_group]);
        break;
    case OP_ALLREDUCE: // of all ranks' rows, each rank sends 2(n-1)/n (ring: reduce-scatter, then all-gather)
        out->link_bytes = 2 * (uint64_t)(op->dim[1] - 1) * slot_bytes(w, op->in[0], rows) / (uint64_t)op->dim[1];
        break;
    case OP_INDEX: cost_of_index(w, op, rows, out); break;
    case OP_MLA: cost_of_latent(w, op, rows, out); break;
    case OP_STATE: cost_of_state(w, op, rows, out); break;
    case OP_EXPERTS: cost_of_experts(w, op, rows, out); return;
    case OP_NORM:
    case OP_LAYER_NORM:
    case OP_ROPE:
    case OP_ACT:
    case OP_ADD:
    case OP_KIND_COUNT: break;
    }
    out->weight_bytes = charge(w, op->weight, read) + charge(w, op->bias, read);
}

bool cost_walk_next(struct cost_walk *w, struct cost *out)
{
    if (w->op == w->plan->n_ops)
        return false;
    struct span alone = {.first = w->op, .count = 1};
    if (w->spans && w->op == w->spans[w->span].first + w->spans[w->span].count)
        w->span++;
    const struct op *op = &w->plan->op[w->op];
    cost_of_op(w, op, w->spans ? &w->spans[w->span] : &alone, out);
    size_add(w->moved, cost_bytes(out), &w->moved);
    size_add(w->moved, out->act_bytes, &w->moved);
    if (op->out >= 0)
        w->written_at[op->out] = w->moved;
    w->op++;
    return true;
}

bool cost_of_step(const struct plan *plan, const struct batch *batch, const struct span *spans, int32_t n_spans,
                  struct cost *out, struct error *e)
{
    struct cost_walk walk;
    struct cost cost;
    *out = (struct cost){0};
    if (!cost_walk_init(&walk, plan, e))
        return false;
    bool ok = cost_walk_begin(&walk, batch, spans, n_spans, e);
    while (ok && cost_walk_next(&walk, &cost))
        cost_add(out, &cost);
    cost_walk_free(&walk);
    return ok;
}
