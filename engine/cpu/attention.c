// Attention over paged KV. Work is (rows of one sequence) x (KV head): the KV is read once for all query heads of its group
// and all rows of the tile. The context is cut into parts of CPU_SPLIT positions that are joined in order, so a result
// depends on the row's own context only: not on threads, chunks or neighbours. When there is less work than threads, the
// parts are handed out too and joined afterwards, in the same order.
#include "engine/cpu/walk.h"

#include <math.h>
#include <string.h>

void attention_prepare(struct step *s)
{
    struct cpu *c = s->cpu;
    const struct batch *b = s->batch;
    int32_t group = 1; // largest group of query heads over the plan
    for (int32_t i = 0; i < c->plan->n_ops; i++)
        if (c->plan->op[i].kind == OP_ATTN && c->plan->op[i].dim[0] / c->plan->op[i].dim[1] > group)
            group = c->plan->op[i].dim[0] / c->plan->op[i].dim[1];
    int32_t height = group < CPU_QUERIES ? CPU_QUERIES / group : 1;
    c->n_tiles = c->tile_rows = 0;
    for (int32_t q = 0; q < b->n_seqs; q++)
        for (int32_t r = b->seq_first[q]; r < b->seq_first[q + 1]; r += height) {
            int32_t left = b->seq_first[q + 1] - r, n = left < height ? left : height;
            c->tile[c->n_tiles++] = (struct attn_tile){q, r, n};
            c->tile_rows = n > c->tile_rows ? n : c->tile_rows;
        }
}

// What one tile of one KV head asks for; arrays live in the member's scratch.
struct tile_work {
    struct attn_query query;
    struct attn_part part;  // of the split being computed
    struct attn_part total; // joined so far
    float *scratch;
    int32_t first_split, end_split;
};

static float *take(float **scratch, size_t n)
{
    float *p = *scratch;
    *scratch += (n + 15) / 16 * 16;
    return p;
}

static struct attn_part take_part(float **scratch, int32_t n, int32_t head_dim)
{
    return (struct attn_part){take(scratch, (size_t)n), take(scratch, (size_t)n),
                              take(scratch, (size_t)n * (size_t)head_dim)};
}

static int32_t queries_at_most(const struct op *op)
{
    int32_t group = op->dim[0] / op->dim[1];
    return group > CPU_QUERIES ? group : CPU_QUERIES;
}

static uint64_t part_floats(int32_t n, int32_t head_dim)
{
    return 2 * (((uint64_t)n + 15) / 16 * 16) + ((uint64_t)n * (uint64_t)head_dim + 15) / 16 * 16;
}

// Lists the queries: for each row of the tile the heads of the group.
static void list_queries(const struct step *s, const struct op *op, const struct attn_tile *tile, int32_t head,
                         struct tile_work *w, float **scratch)
{
    int32_t group = op->dim[0] / op->dim[1], d = op->dim[2], window = op->dim[3], n = tile->n_rows * group;
    const float **q = (const float **)take(scratch, (size_t)n * 2); // pointers take two floats
    int32_t *begin = (int32_t *)take(scratch, (size_t)n), *end = (int32_t *)take(scratch, (size_t)n);
    int32_t low = INT32_MAX, high = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t row = tile->first_row + i / group, pos = s->batch->pos[row];
        q[i] = in_row(s, op, 0, row) + (head * group + i % group) * d;
        begin[i] = window && pos >= window ? pos - window + 1 : 0;
        end[i] = pos + 1;
        low = begin[i] < low ? begin[i] : low;
        high = end[i] > high ? end[i] : high;
    }
    w->query.n = n, w->query.q = q, w->query.begin = begin, w->query.end = end;
    w->first_split = low / CPU_SPLIT, w->end_split = (high + CPU_SPLIT - 1) / CPU_SPLIT;
}

static void tile_begin(const struct share *w, const struct op *op, const struct kv_layer *layer, int32_t tile, int32_t head,
                       struct tile_work *t)
{
    const struct batch *b = w->step->batch;
    const struct attn_tile *a = &w->step->cpu->tile[tile];
    float *scratch = member_scratch(w);
    t->query = (struct attn_query){.kv = layer,
                                   .table = b->table + (size_t)a->seq * (size_t)b->table_stride,
                                   .head = head,
                                   .scale = op->param[0],
                                   .softcap = op->param[1]};
    list_queries(w->step, op, a, head, t, &scratch);
    t->part = take_part(&scratch, t->query.n, op->dim[2]);
    t->total = take_part(&scratch, t->query.n, op->dim[2]);
    t->scratch = scratch;
}

static void split_range(const struct tile_work *t, int32_t split, int32_t *first, int32_t *end)
{
    int32_t last = 0;
    for (int32_t i = 0; i < t->query.n; i++)
        last = t->query.end[i] > last ? t->query.end[i] : last;
    *first = split * CPU_SPLIT;
    *end = *first + CPU_SPLIT < last ? *first + CPU_SPLIT : last;
}

static void part_clear(const struct attn_part *p, int32_t n, int32_t head_dim)
{
    for (int32_t i = 0; i < n; i++)
        p->max[i] = -INFINITY, p->sum[i] = 0;
    memset(p->acc, 0, (size_t)n * (size_t)head_dim * sizeof *p->acc);
}

// total := total and part seen together (Milakov, Gimelshein 2018). A part in which a query saw nothing changes nothing.
static void part_join(const struct attn_part *total, const struct attn_part *part, int32_t n, int32_t head_dim)
{
    for (int32_t i = 0; i < n; i++) {
        if (part->sum[i] == 0)
            continue;
        float max = fmaxf(total->max[i], part->max[i]);
        float keep = expf(total->max[i] - max), take = expf(part->max[i] - max);
        float *acc = total->acc + (size_t)i * (size_t)head_dim;
        const float *more = part->acc + (size_t)i * (size_t)head_dim;
        for (int32_t k = 0; k < head_dim; k++)
            acc[k] = acc[k] * keep + more[k] * take;
        total->sum[i] = total->sum[i] * keep + part->sum[i] * take;
        total->max[i] = max;
    }
}

static void tile_end(const struct step *s, const struct op *op, const struct attn_tile *tile, int32_t head,
                     const struct tile_work *t)
{
    int32_t group = op->dim[0] / op->dim[1], d = op->dim[2];
    for (int32_t i = 0; i < t->query.n; i++) {
        float *out = out_row(s, op, tile->first_row + i / group) + (head * group + i % group) * d;
        float inverse = 1 / t->total.sum[i];
        for (int32_t k = 0; k < d; k++)
            out[k] = t->total.acc[(size_t)i * (size_t)d + (size_t)k] * inverse;
    }
}

static void whole_tile(const struct share *w, const struct op *op, const struct kv_layer *layer, int32_t tile, int32_t head)
{
    const struct cpu *c = w->step->cpu;
    struct tile_work t;
    tile_begin(w, op, layer, tile, head, &t);
    part_clear(&t.total, t.query.n, op->dim[2]);
    for (int32_t split = t.first_split; split < t.end_split; split++) {
        int32_t first, end;
        split_range(&t, split, &first, &end);
        c->kernels->attn(&t.query, first, end, &t.part, t.scratch);
        part_join(&t.total, &t.part, t.query.n, op->dim[2]);
    }
    tile_end(w->step, op, &c->tile[tile], head, &t);
}

// The part of a (tile, head, split) in the shared scratch: every one has room for the step's largest tile.
static struct attn_part shared_part(const struct cpu *c, const struct op *op, int32_t index)
{
    int32_t n = c->tile_rows * (op->dim[0] / op->dim[1]);
    float *p = c->parts + (uint64_t)index * part_floats(n, op->dim[2]);
    return take_part(&p, n, op->dim[2]);
}

// Parts handed out one by one, then joined in order.
static void split_tiles(const struct share *w, const struct op *op, const struct kv_layer *layer, int32_t n_splits)
{
    const struct cpu *c = w->step->cpu;
    int32_t n_heads = op->dim[1], n_work = c->n_tiles * n_heads, n_parts = n_work * n_splits, first, end;
    struct tile_work t;
    for (int32_t i = share_next(w, n_parts); i < n_parts; i = share_next(w, n_parts)) {
        int32_t split = i % n_splits, head = i / n_splits % n_heads;
        tile_begin(w, op, layer, i / n_splits / n_heads, head, &t);
        if (split < t.first_split || split >= t.end_split)
            continue;
        struct attn_part part = shared_part(c, op, i);
        split_range(&t, split, &first, &end);
        c->kernels->attn(&t.query, first, end, &part, t.scratch);
    }
    team_barrier(c->team, w->member);
    share_range(w, n_work, 1, &first, &end);
    for (int32_t i = first; i < end; i++) {
        tile_begin(w, op, layer, i / n_heads, i % n_heads, &t);
        part_clear(&t.total, t.query.n, op->dim[2]);
        for (int32_t split = t.first_split; split < t.end_split; split++) {
            struct attn_part part = shared_part(c, op, i * n_splits + split);
            part_join(&t.total, &part, t.query.n, op->dim[2]);
        }
        tile_end(w->step, op, &c->tile[i / n_heads], i % n_heads, &t);
    }
}

static int32_t most_splits(const struct batch *b)
{
    int32_t most = 0;
    for (int32_t s = 0; s < b->n_seqs; s++)
        most = b->ctx_len[s] > most ? b->ctx_len[s] : most;
    return (most + CPU_SPLIT - 1) / CPU_SPLIT;
}

void walk_attn(const struct share *w, const struct span *span)
{
    const struct cpu *c = w->step->cpu;
    const struct op *op = &c->plan->op[span->first];
    struct kv_layer layer = kv_storage_layer(&c->kv, op->kv_group, op->kv_layer);
    int32_t n_heads = op->dim[1], n_work = c->n_tiles * n_heads, n_splits = most_splits(w->step->batch);
    uint64_t room = CPU_PARTS / part_floats(c->tile_rows * (op->dim[0] / n_heads), op->dim[2]);
    if (n_work % w->n_members && n_work < 4 * w->n_members && n_splits > 1 &&
        (uint64_t)n_work * (uint64_t)n_splits <= room) {
        split_tiles(w, op, &layer, n_splits);
        return;
    }
    // Later tiles of a sequence see more: the longest are taken first.
    for (int32_t i = share_next(w, n_work); i < n_work; i = share_next(w, n_work))
        whole_tile(w, op, &layer, c->n_tiles - 1 - i / n_heads, i % n_heads);
}

uint64_t attention_scratch_floats(const struct plan *plan)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_ATTN)
            continue;
        int32_t n = queries_at_most(op);
        uint64_t floats = 2 * part_floats(n, op->dim[2]) + 8 * ((uint64_t)n + 16) + attn_scratch_floats(n, op->dim[2]);
        most = floats > most ? floats : most;
    }
    return most;
}
