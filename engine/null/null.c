#include "engine/null/null.h"

#include "engine/base/rng.h"
#include "engine/base/units.h"

#include <stdlib.h>
#include <string.h>

enum { UNWRITTEN = 0 }; // a tag; those of written positions are odd
enum { FILLED = -1 };   // a token: made by fill(), follows anything

// The KV of one position.
struct mark {
    uint64_t tag; // of the sequence up to here
    int32_t token;
    int32_t position; // in its sequence
};

struct null {
    const struct plan *plan;
    struct kv_config kv;
    struct mark *mark;  // [n_blocks, block_size]
    uint64_t *out_tag;  // [max_out] of the last run
    struct span *spans; // [n_ops]
    int32_t n_out;
    int64_t rows;
    uint64_t cover_seed;
    int64_t step_ns;
    const struct null_record *record;
    int32_t n_records;
    int64_t simulated_ns;
};

static uint64_t tag_after(uint64_t tag, int32_t token, int32_t position)
{
    return rng_at(tag ^ (uint64_t)(uint32_t)token << 32, (uint64_t)position) | 1;
}

static bool null_supports(void *self, const struct op *op, struct error *e)
{
    (void)self;
    return op->kind < OP_KIND_COUNT || error_set(e, ERROR_UNSUPPORTED, "unknown operation %d", op->kind);
}

static int32_t null_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    const struct null *null = self;
    int32_t n = 0;
    (void)shape;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        bool joins = n && null->cover_seed && rng_at(null->cover_seed, (uint64_t)i) & 1;
        if (joins)
            spans[n - 1].count++;
        else
            spans[n++] = (struct span){.first = i, .count = 1};
    }
    return n;
}

static void unload(struct null *null)
{
    free(null->mark);
    free(null->out_tag);
    free(null->spans);
    null->mark = NULL;
    null->out_tag = NULL;
    null->spans = NULL;
}

static bool null_start(void *self, const struct plan *plan, const struct kv_config *kv, struct error *e)
{
    struct null *null = self;
    unload(null);
    null->plan = plan;
    null->kv = *kv;
    null->n_out = 0;
    null->mark = calloc((size_t)kv->n_blocks * (size_t)kv->block_size, sizeof *null->mark);
    null->out_tag = calloc((size_t)kv->max_out, sizeof *null->out_tag);
    null->spans = calloc((size_t)plan->n_ops, sizeof *null->spans);
    if (null->mark && null->out_tag && null->spans)
        return true;
    unload(null);
    return error_set(e, ERROR_MEMORY, "no memory to mark %d KV blocks of %d tokens", kv->n_blocks, kv->block_size);
}

static bool broken(struct error *e, const char *what, int32_t at)
{
    return error_set(e, ERROR_FAILED, "null backend: %s (%d)", what, at);
}

static bool check_rows(const struct null *null, const struct batch *b, struct error *e)
{
    if (b->n_tokens < 1 || b->n_tokens > null->kv.max_tokens || b->n_seqs < 1 || b->n_seqs > null->kv.max_seqs ||
        b->n_out < 0 || b->n_out > null->kv.max_out)
        return broken(e, "the step is empty or larger than it was loaded for", b->n_tokens);
    if (b->seq_first[0] != 0 || b->seq_first[b->n_seqs] != b->n_tokens)
        return broken(e, "sequences do not span the rows", b->seq_first[b->n_seqs]);
    for (int32_t i = 0; i < b->n_tokens; i++)
        if (b->token[i] < 0 || b->token[i] >= null->plan->vocab_size)
            return broken(e, "token outside the vocabulary in row", i);
    for (int32_t i = 0; i < b->n_out; i++)
        if (b->out_row[i] < 0 || b->out_row[i] >= b->n_tokens || (i && b->out_row[i] <= b->out_row[i - 1]))
            return broken(e, "output rows are not ascending rows of the step at", i);
    return true;
}

static bool check_positions(const struct batch *b, int32_t seq, struct error *e)
{
    int32_t first = b->seq_first[seq], end = b->seq_first[seq + 1];
    if (first >= end)
        return broken(e, "no rows in sequence", seq);
    if (b->pos[first] < 0 || b->ctx_len[seq] != b->pos[end - 1] + 1)
        return broken(e, "context length is not 1 + the last position of sequence", seq);
    for (int32_t i = first + 1; i < end; i++)
        if (b->pos[i] != b->pos[i - 1] + 1)
            return broken(e, "positions are not consecutive at row", i);
    return true;
}

static struct mark *mark_at(const struct null *null, const struct batch *b, int32_t seq, int32_t position)
{
    int32_t block = b->table[(int64_t)seq * b->table_stride + position / b->block_size];
    return &null->mark[(int64_t)block * b->block_size + position % b->block_size];
}

static bool follows(const struct mark *before, const struct mark *m, int32_t position)
{
    if (m->token == FILLED)
        return true;
    uint64_t tag = before ? before->tag : UNWRITTEN;
    return m->position == position && m->tag == tag_after(tag, m->token, position);
}

// The blocks of a sequence are in the pool, and each goes on where the one before ended.
static bool check_table(const struct null *null, const struct batch *b, int32_t seq, struct error *e)
{
    int32_t n_old = b->pos[b->seq_first[seq]], n_all = b->ctx_len[seq];
    if (b->block_size != null->kv.block_size || (n_all - 1) / b->block_size >= b->table_stride)
        return broken(e, "block size or table length of sequence", seq);
    for (int32_t p = 0; p < n_all; p += b->block_size) {
        int32_t block = b->table[(int64_t)seq * b->table_stride + p / b->block_size];
        if (block < 0 || block >= null->kv.n_blocks)
            return broken(e, "table entry outside the pool in sequence", seq);
        if (p < n_old && !follows(p ? mark_at(null, b, seq, p - 1) : NULL, mark_at(null, b, seq, p), p))
            return broken(e, "a KV block does not continue the one before in sequence", seq);
    }
    if (n_old && mark_at(null, b, seq, n_old - 1)->tag == UNWRITTEN)
        return broken(e, "the last position before the step was never written in sequence", seq);
    return true;
}

// What KV_WRITE and ATTN do for all others. Without a table each step stands alone.
static void write_marks(struct null *null, const struct batch *b, int32_t seq, int32_t *next_out)
{
    int32_t first = b->seq_first[seq], n_old = b->pos[first];
    uint64_t tag = n_old && b->table ? mark_at(null, b, seq, n_old - 1)->tag : UNWRITTEN;
    for (int32_t i = first; i < b->seq_first[seq + 1]; i++) {
        tag = tag_after(tag, b->token[i], b->pos[i]);
        if (b->table)
            *mark_at(null, b, seq, b->pos[i]) = (struct mark){.tag = tag, .token = b->token[i], .position = b->pos[i]};
        if (*next_out < b->n_out && b->out_row[*next_out] == i)
            null->out_tag[(*next_out)++] = tag;
    }
}

static bool check_spans(const struct plan *plan, const struct span *spans, int32_t n, struct error *e)
{
    int32_t next = 0;
    for (int32_t i = 0; i < n; next += spans[i++].count)
        if (spans[i].first != next || spans[i].count < 1)
            return broken(e, "a cover skips or repeats operations at span", i);
    return next == plan->n_ops || broken(e, "a cover ends before the plan, at operation", next);
}

static bool same_shape(const struct batch_shape *a, const struct batch_shape *b)
{
    return a->n_tokens == b->n_tokens && a->n_seqs == b->n_seqs && a->n_out == b->n_out && a->max_rows == b->max_rows &&
           a->max_ctx == b->max_ctx;
}

static bool replay(struct null *null, const struct batch_shape *shape, struct error *e)
{
    for (int32_t i = 0; i < null->n_records; i++)
        if (same_shape(&null->record[i].shape, shape)) {
            null->simulated_ns += null->record[i].ns;
            return true;
        }
    return error_set(e, ERROR_FAILED, "null backend: no recorded step of %d tokens, %d sequences, %d outputs, context %d",
                     shape->n_tokens, shape->n_seqs, shape->n_out, shape->max_ctx);
}

static int64_t null_now_ns(void *self)
{
    const struct null *null = self;
    return null->record ? null->simulated_ns : clock_ns();
}

// The time of a step, spread over its spans by their number of operations.
static void report(struct trace *trace, const struct plan *plan, const struct span *spans, int32_t n, int64_t begin,
                   int64_t end)
{
    for (int32_t i = 0; trace && i < n; i++) {
        int64_t from = begin + (end - begin) * spans[i].first / plan->n_ops;
        int64_t to = begin + (end - begin) * (spans[i].first + spans[i].count) / plan->n_ops;
        trace_add(trace, (struct trace_row){.span = spans[i], .begin_ns = from, .end_ns = to});
    }
}

static bool null_run(void *self, const struct plan *plan, const struct batch *batch, struct trace *trace, struct error *e)
{
    struct null *null = self;
    struct batch_shape shape = batch_shape_of(batch);
    int64_t begin = null_now_ns(null);
    int32_t n_spans = null_cover(null, plan, &shape, null->spans), next_out = 0;
    if (!check_rows(null, batch, e) || !check_spans(plan, null->spans, n_spans, e))
        return false;
    for (int32_t s = 0; s < batch->n_seqs; s++)
        if (!check_positions(batch, s, e) || (batch->table && !check_table(null, batch, s, e)))
            return false;
    if (null->record && !replay(null, &shape, e))
        return false;
    for (int32_t s = 0; s < batch->n_seqs; s++)
        write_marks(null, batch, s, &next_out);
    null->n_out = batch->n_out;
    null->rows += batch->n_tokens;
    while (null_now_ns(null) - begin < null->step_ns && !null->record)
        ;
    report(trace, plan, null->spans, n_spans, begin, null_now_ns(null));
    return true;
}

static bool null_move(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    struct null *null = self;
    size_t bytes = (size_t)null->kv.block_size * sizeof *null->mark;
    for (int32_t i = 0; i < n; i++) {
        const struct kv_move *m = &moves[i];
        bool inside = m->from_block >= 0 && m->from_block < null->kv.n_blocks && m->to_block >= 0 &&
                      m->to_block < null->kv.n_blocks && m->from_block != m->to_block;
        if (!inside || m->from_tier || m->to_tier)
            return broken(e, "a move leaves the pool or its tier at", i);
        memcpy(null->mark + (int64_t)m->to_block * null->kv.block_size,
               null->mark + (int64_t)m->from_block * null->kv.block_size, bytes);
    }
    return true;
}

static bool null_fill(void *self, int32_t block, uint64_t seed, struct error *e)
{
    struct null *null = self;
    if (block < 0 || block >= null->kv.n_blocks)
        return broken(e, "fill outside the pool", block);
    for (int32_t i = 0; i < null->kv.block_size; i++)
        null->mark[(int64_t)block * null->kv.block_size + i] =
            (struct mark){.tag = rng_at(seed, (uint64_t)i) | 1, .token = FILLED, .position = i};
    return true;
}

static bool null_read(void *self, int32_t out_row, float *logits, struct error *e)
{
    const struct null *null = self;
    if (out_row < 0 || out_row >= null->n_out)
        return broken(e, "the last step had no output row", out_row);
    for (int32_t i = 0; i < null->plan->vocab_size; i++)
        logits[i] = rng_uniform(rng_at(null->out_tag[out_row], (uint64_t)i));
    return true;
}

static const char *null_kernel_name(void *self, uint16_t kernel)
{
    (void)self, (void)kernel;
    return "null";
}

static uint64_t null_memory_bytes(void *self)
{
    const struct null *null = self;
    return null->mark ? (uint64_t)null->kv.n_blocks * (uint64_t)null->kv.block_size * sizeof *null->mark : 0;
}

static void null_close(void *self)
{
    unload(self);
    free(self);
}

bool null_backend_open(struct backend *out, const struct backend_options *options, struct error *e)
{
    struct null *null = calloc(1, sizeof *null);
    (void)options;
    if (!null)
        return error_set(e, ERROR_MEMORY, "no memory for the null backend");
    *out = (struct backend){.name = "null",
                            .self = null,
                            .weightless = true,
                            .supports = null_supports,
                            .cover = null_cover,
                            .open = null_start,
                            .run = null_run,
                            .move = null_move,
                            .fill = null_fill,
                            .read = null_read,
                            .now_ns = null_now_ns,
                            .kernel_name = null_kernel_name,
                            .memory_bytes = null_memory_bytes,
                            .close = null_close};
    return true;
}

void null_backend_set_cover(struct backend *b, uint64_t seed)
{
    ((struct null *)b->self)->cover_seed = seed;
}

void null_backend_set_step_ns(struct backend *b, int64_t ns)
{
    ((struct null *)b->self)->step_ns = ns;
}

int64_t null_backend_rows(const struct backend *b)
{
    return ((const struct null *)b->self)->rows;
}

void null_backend_set_replay(struct backend *b, const struct null_record *rows, int32_t n)
{
    struct null *null = b->self;
    null->record = rows;
    null->n_records = n;
    null->simulated_ns = 0;
}
