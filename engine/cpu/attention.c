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

// How the attention of one step is cut up: tiles of rows, times chunks of KV heads, times parts of the context.
struct cutting {
    const struct op *op;
    struct kv_layer layer;
    int32_t group, heads;       // query heads of a KV head; KV heads of a chunk
    int32_t n_chunks, n_splits; // of all heads; of the longest context
    int32_t n_queries;          // of the largest tile and chunk
    bool parts_apart;           // parts are handed out, too, and joined afterwards
};

// Blocks hold one head's rows after the other's: few queries take so many heads at a time that memory is read in long runs,
// as long as every member finds work often enough.
static int32_t heads_at_a_time(const struct share *w, const struct cutting *c, int32_t n_heads, int32_t rows)
{
    int32_t heads = c->layer.block_size < CPU_SPLIT ? CPU_QUERIES / rows : 1;
    heads = heads > n_heads ? n_heads : heads > 1 ? heads : 1;
    while (heads > 1 && w->step->cpu->n_tiles * c->n_splits * ((n_heads + heads - 1) / heads) < CPU_PIECES * w->n_members)
        heads = (heads + 1) / 2;
    return heads;
}

static uint64_t part_floats(int32_t n, int32_t head_dim)
{
    return 2 * (((uint64_t)n + 15) / 16 * 16) + (uint64_t)n * attn_width(head_dim);
}

static int32_t most_splits(const struct batch *b)
{
    int32_t most = 0;
    for (int32_t s = 0; s < b->n_seqs; s++)
        most = b->ctx_len[s] > most ? b->ctx_len[s] : most;
    return (most + CPU_SPLIT - 1) / CPU_SPLIT;
}

// The same for every member.
static struct cutting cut(const struct share *w, const struct op *op)
{
    const struct cpu *c = w->step->cpu;
    struct cutting k = {.op = op, .layer = kv_storage_layer(&c->kv, op->kv_group, op->kv_layer)};
    k.group = op->dim[0] / op->dim[1];
    k.n_splits = most_splits(w->step->batch);
    k.heads = heads_at_a_time(w, &k, op->dim[1], c->tile_rows * k.group);
    k.n_chunks = (op->dim[1] + k.heads - 1) / k.heads;
    k.n_queries = c->tile_rows * k.group * k.heads;
    uint64_t units = (uint64_t)c->n_tiles * (uint64_t)k.n_chunks, parts = units * (uint64_t)k.n_splits;
    k.parts_apart = k.n_splits > 1 && units < (uint64_t)(4 * CPU_PIECES * w->n_members) &&
                    parts * part_floats(k.n_queries, op->dim[2]) <= CPU_PARTS;
    return k;
}

static float *take(float **scratch, uint64_t n)
{
    float *p = *scratch;
    *scratch += (n + 15) / 16 * 16;
    return p;
}

static struct attn_part take_part(float **scratch, int32_t n, int32_t head_dim)
{
    return (struct attn_part){take(scratch, (uint64_t)n), take(scratch, (uint64_t)n),
                              take(scratch, (uint64_t)n * attn_width(head_dim))};
}

// What one tile of one chunk asks for; arrays live in the member's scratch.
struct piece {
    const struct attn_tile *tile;
    struct attn_query query;
    struct attn_rows rows;  // all that somebody sees
    struct attn_part part;  // of the split being computed
    struct attn_part total; // joined so far
    float *scratch;
    int32_t first_split, end_split;
};

// Lists the queries: for each KV head of the chunk and each row of the tile the heads of its group.
static void list_queries(const struct step *s, const struct cutting *c, struct piece *p, float **scratch)
{
    int32_t d = c->op->dim[2], window = c->op->dim[3], n = p->tile->n_rows * c->group;
    const float **q = (const float **)take(scratch, (uint64_t)(n * p->query.n_heads) * 2); // pointers take two floats
    int32_t *begin = (int32_t *)take(scratch, (uint64_t)n), *end = (int32_t *)take(scratch, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        int32_t row = p->tile->first_row + i / c->group, pos = s->batch->pos[row];
        for (int32_t h = 0; h < p->query.n_heads; h++)
            q[h * n + i] = in_row(s, c->op, 0, row) + ((p->rows.head + h) * c->group + i % c->group) * d;
        begin[i] = window && pos >= window ? pos - window + 1 : 0;
        end[i] = pos + 1;
    }
    p->query.n = n, p->query.q = q, p->query.begin = begin, p->query.end = end;
    p->rows.first = begin[0], p->rows.end = end[n - 1];
    p->first_split = begin[0] / CPU_SPLIT, p->end_split = (end[n - 1] + CPU_SPLIT - 1) / CPU_SPLIT;
}

// Tile and chunk number `unit`, the last tile first: later tiles of a sequence see more.
static void piece_begin(const struct share *w, const struct cutting *c, int32_t unit, struct piece *p)
{
    const struct batch *b = w->step->batch;
    float *scratch = member_scratch(w);
    int32_t head = unit % c->n_chunks * c->heads, left = c->op->dim[1] - head;
    p->tile = &w->step->cpu->tile[w->step->cpu->n_tiles - 1 - unit / c->n_chunks];
    p->rows.table = b->table + (size_t)p->tile->seq * (size_t)b->table_stride;
    p->rows.head = head;
    p->query = (struct attn_query){.kv = &c->layer,
                                   .compute = (enum dtype)c->op->compute,
                                   .n_heads = left < c->heads ? left : c->heads,
                                   .scale = c->op->param[0],
                                   .softcap = c->op->param[1]};
    list_queries(w->step, c, p, &scratch);
    p->part = take_part(&scratch, c->n_queries, c->op->dim[2]);
    p->total = take_part(&scratch, c->n_queries, c->op->dim[2]);
    p->scratch = scratch;
}

static int32_t queries_of(const struct piece *p)
{
    return p->query.n_heads * p->query.n;
}

static struct attn_rows rows_of_split(const struct piece *p, int32_t split)
{
    struct attn_rows r = p->rows;
    r.first = split * CPU_SPLIT;
    r.end = r.first + CPU_SPLIT < r.end ? r.first + CPU_SPLIT : r.end;
    return r;
}

static void part_clear(const struct attn_part *p, int32_t n, int32_t head_dim)
{
    for (int32_t i = 0; i < n; i++)
        p->max[i] = -INFINITY, p->sum[i] = 0;
    memset(p->acc, 0, (uint64_t)n * attn_width(head_dim) * sizeof *p->acc);
}

static void piece_end(const struct share *w, const struct cutting *c, const struct piece *p)
{
    int32_t n = p->query.n;
    for (int32_t i = 0; i < queries_of(p); i++) {
        int32_t head = (p->rows.head + i / n) * c->group + i % n % c->group;
        float *out = out_row(w->step, c->op, p->tile->first_row + i % n / c->group) + head * c->op->dim[2];
        w->step->cpu->kernels->attn_end(&p->query, &p->total, i, out);
    }
}

static void whole_piece(const struct share *w, const struct cutting *c, int32_t unit)
{
    const struct cpu_kernels *k = w->step->cpu->kernels;
    struct piece p;
    piece_begin(w, c, unit, &p);
    part_clear(&p.total, queries_of(&p), c->op->dim[2]);
    for (int32_t split = p.first_split; split < p.end_split; split++) {
        struct attn_rows rows = rows_of_split(&p, split),
                         after = split + 1 < p.end_split ? rows_of_split(&p, split + 1) : rows;
        k->attn(&p.query, &rows, &after, &p.part, p.scratch);
        k->attn_join(&p.total, &p.part, queries_of(&p), c->op->dim[2]);
    }
    piece_end(w, c, &p);
}

// The part of (unit, split) in the shared scratch: every one has room for the step's largest.
static struct attn_part shared_part(const struct share *w, const struct cutting *c, int32_t unit, int32_t split)
{
    uint64_t index = (uint64_t)unit * (uint64_t)c->n_splits + (uint64_t)split;
    float *p = w->step->cpu->parts + index * part_floats(c->n_queries, c->op->dim[2]);
    return take_part(&p, c->n_queries, c->op->dim[2]);
}

// The next (unit, split) from the queue in which anything is seen, as *p; false: none is left.
static bool draw(const struct share *w, const struct cutting *c, int32_t n_units, struct piece *p, int32_t *unit,
                 int32_t *split)
{
    int32_t n = n_units * c->n_splits;
    for (int32_t i = share_next(w, n); i < n; i = share_next(w, n)) {
        // chunks of a part follow one another: they lie side by side
        *split = i / c->n_chunks % c->n_splits;
        *unit = i / c->n_chunks / c->n_splits * c->n_chunks + i % c->n_chunks;
        piece_begin(w, c, *unit, p);
        if (*split >= p->first_split && *split < p->end_split)
            return true;
    }
    return false;
}

// Parts handed out one by one, then joined in order. The next is drawn before this one is computed, so that its rows can be
// asked for.
static void parts_apart(const struct share *w, const struct cutting *c, int32_t n_units)
{
    const struct cpu_kernels *k = w->step->cpu->kernels;
    struct piece p;
    int32_t unit, split, first, end;
    bool more = draw(w, c, n_units, &p, &unit, &split);
    while (more) {
        int32_t this_unit = unit, this_split = split;
        more = draw(w, c, n_units, &p, &unit, &split);
        struct attn_rows after = more ? rows_of_split(&p, split) : (struct attn_rows){0};
        piece_begin(w, c, this_unit, &p);
        struct attn_part part = shared_part(w, c, this_unit, this_split);
        struct attn_rows rows = rows_of_split(&p, this_split);
        k->attn(&p.query, &rows, more ? &after : &rows, &part, p.scratch);
    }
    team_barrier(w->step->cpu->team, w->member);
    share_range(w, n_units, 1, &first, &end);
    for (unit = first; unit < end; unit++) {
        piece_begin(w, c, unit, &p);
        part_clear(&p.total, queries_of(&p), c->op->dim[2]);
        for (split = p.first_split; split < p.end_split; split++) {
            struct attn_part part = shared_part(w, c, unit, split);
            k->attn_join(&p.total, &part, queries_of(&p), c->op->dim[2]);
        }
        piece_end(w, c, &p);
    }
}

void walk_attn(const struct share *w, const struct span *span)
{
    struct cutting c = cut(w, &w->step->cpu->plan->op[span->first]);
    int32_t n_units = w->step->cpu->n_tiles * c.n_chunks;
    if (c.parts_apart) {
        parts_apart(w, &c, n_units);
        return;
    }
    for (int32_t i = share_next(w, n_units); i < n_units; i = share_next(w, n_units))
        whole_piece(w, &c, i);
}

uint64_t attention_scratch_floats(const struct plan *plan)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_ATTN)
            continue;
        int32_t group = op->dim[0] / op->dim[1], n = group > CPU_QUERIES ? group : CPU_QUERIES;
        uint64_t floats = 2 * part_floats(n, op->dim[2]) + 8 * ((uint64_t)n + 16) + attn_scratch_floats(n, op->dim[2]);
        most = floats > most ? floats : most;
    }
    return most;
}
