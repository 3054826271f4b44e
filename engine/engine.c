// Opening an engine, and one step of many sessions.
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

struct step_buffers {
    int32_t *token, *pos; // [max_tokens]
    int32_t *seq_first;   // [max_seqs + 1]
    int32_t *ctx_len;     // [max_seqs]
    int32_t *out_row;     // [max_out]
    int32_t *table;       // [max_seqs, table_stride]
    int32_t table_stride;
    struct kv_move *move; // [max_seqs]
};

static void buffers_free(struct step_buffers *b)
{
    if (!b)
        return;
    free(b->token);
    free(b->pos);
    free(b->seq_first);
    free(b->ctx_len);
    free(b->out_row);
    free(b->table);
    free(b->move);
    free(b);
}

static struct step_buffers *buffers_make(const struct kv_config *kv)
{
    struct step_buffers *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->token = malloc((size_t)kv->max_tokens * sizeof *b->token);
    b->pos = malloc((size_t)kv->max_tokens * sizeof *b->pos);
    b->seq_first = malloc(((size_t)kv->max_seqs + 1) * sizeof *b->seq_first);
    b->ctx_len = malloc((size_t)kv->max_seqs * sizeof *b->ctx_len);
    b->out_row = malloc((size_t)kv->max_out * sizeof *b->out_row);
    b->move = malloc((size_t)kv->max_seqs * sizeof *b->move);
    if (b->token && b->pos && b->seq_first && b->ctx_len && b->out_row && b->move)
        return b;
    buffers_free(b);
    return NULL;
}

bool engine_supports(const struct plan *plan, const struct backend *backend, struct error *e)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (!backend->supports(backend->self, &plan->op[i], e))
            return error_prefix(e, "'%s' on backend '%s'", plan->model, backend->name);
    return true;
}

bool engine_open(struct engine *engine, const struct plan *plan, struct backend *backend, const struct kv_config *kv,
                 struct error *e)
{
    *engine = (struct engine){.plan = plan, .backend = backend, .kv = *kv};
    if (kv->max_tokens < 1 || kv->max_seqs < 1 || kv->max_out < 1)
        return error_set(e, ERROR_USAGE, "steps of at most %d tokens, %d sequences, %d outputs: expected 1 or more of each",
                         kv->max_tokens, kv->max_seqs, kv->max_out);
    if (!engine_supports(plan, backend, e) || !kv_pool_init(&engine->pool, kv->n_blocks, kv->block_size, e))
        return false;
    engine->buffers = buffers_make(kv);
    bool ok = engine->buffers || error_set(e, ERROR_MEMORY, "no memory for steps of %d tokens", kv->max_tokens);
    ok = ok && backend->open(backend->self, plan, kv, e);
    if (!ok)
        engine_close(engine);
    return ok;
}

void engine_close(struct engine *engine)
{
    buffers_free(engine->buffers);
    kv_pool_free(&engine->pool);
    *engine = (struct engine){0};
}

static int32_t outputs_of(const struct step *s)
{
    return s->out == STEP_OUT_ALL ? s->n_tokens : s->out == STEP_OUT_LAST;
}

static bool check_limits(const struct engine *engine, const struct step *steps, int32_t n_steps, struct error *e)
{
    const struct kv_config *kv = &engine->kv;
    int64_t n_tokens = 0, n_out = 0;
    for (int32_t i = 0; i < n_steps; i++) {
        if (steps[i].n_tokens < 1)
            return error_set(e, ERROR_USAGE, "sequence %d of a step has %d tokens, expected 1 or more", i,
                             steps[i].n_tokens);
        n_tokens += steps[i].n_tokens;
        n_out += outputs_of(&steps[i]);
    }
    if (n_steps < 1 || n_steps > kv->max_seqs || n_tokens > kv->max_tokens || n_out > kv->max_out)
        return error_set(e, ERROR_USAGE,
                         "a step of %lld tokens, %d sequences, %lld outputs; the engine was opened for %d, %d, %d",
                         (long long)n_tokens, n_steps, (long long)n_out, kv->max_tokens, kv->max_seqs, kv->max_out);
    return true;
}

// Makes room in every session. Copies already owed are made even when a later session finds no room: its table is
// consistent then, and the step can be repeated.
static bool reserve(struct engine *engine, struct step *steps, int32_t n_steps, struct error *e)
{
    struct step_buffers *b = engine->buffers;
    int32_t n_moves = 0, n_copies = 0;
    bool ok = true;
    for (int32_t i = 0; i < n_steps && ok; i++) {
        struct kv_copy copy;
        ok = kv_table_reserve(&engine->pool, &steps[i].session->table, steps[i].n_tokens, &copy, &n_copies, e);
        if (n_copies)
            b->move[n_moves++] = (struct kv_move){.from_block = copy.from, .to_block = copy.to};
    }
    return (!n_moves || engine->backend->move(engine->backend->self, b->move, n_moves, e)) && ok;
}

static bool grow_tables(struct engine *engine, const struct step *steps, int32_t n_steps, struct error *e)
{
    struct step_buffers *b = engine->buffers;
    int32_t longest = 1;
    for (int32_t i = 0; i < n_steps; i++)
        if (steps[i].session->table.n_blocks > longest)
            longest = steps[i].session->table.n_blocks;
    if (longest <= b->table_stride)
        return true;
    int32_t stride = longest > engine->kv.n_blocks / 2 ? engine->kv.n_blocks : 2 * longest;
    free(b->table);
    b->table = malloc((size_t)stride * (size_t)engine->kv.max_seqs * sizeof *b->table);
    b->table_stride = b->table ? stride : 0;
    return b->table || error_set(e, ERROR_MEMORY, "no memory for block tables of %d entries", stride);
}

// Appends the rows of one session to the batch.
static void add_session(struct step_buffers *b, struct step *s, int32_t seq, struct batch *batch)
{
    const struct kv_table *table = &s->session->table;
    int32_t first_row = batch->n_tokens;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        b->token[first_row + i] = s->token[i];
        b->pos[first_row + i] = table->n_tokens + i;
    }
    s->first_out = batch->n_out;
    for (int32_t i = s->n_tokens - outputs_of(s); i < s->n_tokens; i++)
        b->out_row[batch->n_out++] = first_row + i;
    b->seq_first[seq] = first_row;
    b->ctx_len[seq] = table->n_tokens + s->n_tokens;
    memcpy(b->table + (size_t)seq * (size_t)b->table_stride, table->block, (size_t)table->n_blocks * sizeof *b->table);
    batch->n_tokens += s->n_tokens;
}

static struct batch build_batch(const struct engine *engine, struct step *steps, int32_t n_steps)
{
    struct step_buffers *b = engine->buffers;
    struct batch batch = {.n_seqs = n_steps,
                          .block_size = engine->kv.block_size,
                          .table_stride = b->table_stride,
                          .token = b->token,
                          .pos = b->pos,
                          .seq_first = b->seq_first,
                          .ctx_len = b->ctx_len,
                          .out_row = b->out_row,
                          .table = b->table};
    for (int32_t i = 0; i < n_steps; i++)
        add_session(b, &steps[i], i, &batch);
    b->seq_first[n_steps] = batch.n_tokens;
    return batch;
}

bool engine_step(struct engine *engine, struct step *steps, int32_t n_steps, struct trace *trace, struct error *e)
{
    if (!check_limits(engine, steps, n_steps, e) || !reserve(engine, steps, n_steps, e) ||
        !grow_tables(engine, steps, n_steps, e))
        return false;
    struct batch batch = build_batch(engine, steps, n_steps);
    if (!engine->backend->run(engine->backend->self, engine->plan, &batch, trace, e))
        return false;
    for (int32_t i = 0; i < n_steps; i++)
        kv_table_append(&steps[i].session->table, steps[i].n_tokens);
    engine->tokens_processed += batch.n_tokens;
    return true;
}

bool engine_logits(struct engine *engine, int32_t out_row, float *logits, struct error *e)
{
    return engine->backend->read(engine->backend->self, out_row, logits, e);
}
