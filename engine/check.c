#include "engine/check.h"

bool check_op(const char *backend, const struct op *op, struct error *e)
{
    if (op->kind == OP_ALLREDUCE)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend runs one rank, the plan is made for %d", backend, op->dim[1]);
    if (op->kind > OP_ALLREDUCE && op->kind < OP_KIND_COUNT)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend has no operation '%s': the model can be priced, not run",
                         backend, op_kind_name((enum op_kind)op->kind));
    if (op->kind == OP_ATTN && op->weight >= 0)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend has no attention sinks", backend);
    if (op->kind == OP_ACT && op->in[1] < 0)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend has no feed-forward without a gate", backend);
    if (op->kind == OP_ATTN && op->dim[0] % op->dim[1])
        return error_set(e, ERROR_UNSUPPORTED, "%d query heads do not divide into %d KV heads", op->dim[0], op->dim[1]);
    if (op->kind == OP_ROPE && (op->dim[2] % 2 || op->dim[2] > op->dim[1]))
        return error_set(e, ERROR_UNSUPPORTED, "rotary_dim %d is odd or exceeds head_dim %d", op->dim[2], op->dim[1]);
    return op->kind < OP_KIND_COUNT || error_set(e, ERROR_UNSUPPORTED, "unknown operation %d", op->kind);
}

bool check_tensor(const char *backend, const struct plan *plan, int32_t i, const struct tensor *t, struct error *e)
{
    const struct tensor_spec *spec = &plan->tensor[i];
    const char *name = tensor_role_name((enum tensor_role)spec->role);
    if (!t->data && !t->read)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend computes and needs weights, '%s' has none", backend, name);
    return (t->rows == spec->rows && t->cols == spec->cols) ||
           error_set(e, ERROR_FILE, "'%s' is %d x %d, the plan expects %d x %d", name, t->rows, t->cols, spec->rows,
                     spec->cols);
}

bool check_opened(const char *backend, const struct plan *opened, const struct plan *asked, struct error *e)
{
    if (!opened)
        return error_set(e, ERROR_USAGE, "the %s backend has no plan yet", backend);
    return asked == opened || error_set(e, ERROR_USAGE, "the %s backend was opened with another plan", backend);
}

static bool check_sizes(const struct kv_config *k, const struct batch *b, struct error *e)
{
    if (b->n_tokens < 1 || b->n_tokens > k->max_tokens || b->n_seqs < 1 || b->n_seqs > k->max_seqs || b->n_out < 0 ||
        b->n_out > k->max_out)
        return error_set(e, ERROR_USAGE, "a step of %d rows, %d sequences and %d outputs exceeds %d, %d and %d", b->n_tokens,
                         b->n_seqs, b->n_out, k->max_tokens, k->max_seqs, k->max_out);
    if (b->block_size != k->block_size || !b->table)
        return error_set(e, ERROR_USAGE, "blocks of %d tokens, loaded for %d", b->table ? b->block_size : 0, k->block_size);
    return (b->seq_first[0] == 0 && b->seq_first[b->n_seqs] == b->n_tokens) ||
           error_set(e, ERROR_USAGE, "sequences have rows %d to %d, the step has %d", b->seq_first[0],
                     b->seq_first[b->n_seqs], b->n_tokens);
}

// The blocks that positions 0 .. ctx_len-1 of a sequence lie in.
static bool check_table(const struct kv_config *k, const struct batch *b, int32_t seq, struct error *e)
{
    int32_t n = (b->ctx_len[seq] + b->block_size - 1) / b->block_size;
    const int32_t *table = b->table + (size_t)seq * (size_t)b->table_stride;
    if (n > b->table_stride || n > k->n_blocks)
        return error_set(e, ERROR_USAGE, "sequence %d has %d blocks, its table %d", seq, n, b->table_stride);
    for (int32_t i = 0; i < n; i++)
        if (table[i] < 0 || table[i] >= k->n_blocks)
            return error_set(e, ERROR_USAGE, "sequence %d names block %d of %d", seq, table[i], k->n_blocks);
    return true;
}

static bool check_rows(const struct plan *plan, const struct batch *b, int32_t seq, struct error *e)
{
    for (int32_t r = b->seq_first[seq]; r < b->seq_first[seq + 1]; r++) {
        if (b->pos[r] < 0 || b->pos[r] >= b->ctx_len[seq])
            return error_set(e, ERROR_USAGE, "row %d stands at position %d of %d", r, b->pos[r], b->ctx_len[seq]);
        if (b->token[r] < 0 || b->token[r] >= plan->vocab_size)
            return error_set(e, ERROR_USAGE, "token id %d is outside the vocabulary of %d", b->token[r], plan->vocab_size);
    }
    return true;
}

bool check_batch(const struct plan *plan, const struct kv_config *kv, const struct batch *b, struct error *e)
{
    if (!check_sizes(kv, b, e))
        return false;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        if (b->seq_first[s] > b->seq_first[s + 1])
            return error_set(e, ERROR_USAGE, "sequence %d begins at row %d and ends at %d", s, b->seq_first[s],
                             b->seq_first[s + 1]);
        if (!check_table(kv, b, s, e) || !check_rows(plan, b, s, e))
            return false;
    }
    for (int32_t i = 0; i < b->n_out; i++)
        if (b->out_row[i] < 0 || b->out_row[i] >= b->n_tokens)
            return error_set(e, ERROR_USAGE, "row %d is wanted of a step of %d", b->out_row[i], b->n_tokens);
    return true;
}

bool check_block(const struct kv_config *kv, int32_t block, struct error *e)
{
    return (block >= 0 && block < kv->n_blocks) ||
           error_set(e, ERROR_USAGE, "block %d is not one of %d", block, kv->n_blocks);
}

bool check_move(const char *backend, const struct kv_config *kv, const struct kv_move *m, struct error *e)
{
    if (m->from_tier || m->to_tier)
        return error_set(e, ERROR_UNSUPPORTED, "the %s backend has one tier of KV", backend);
    return check_block(kv, m->from_block, e) && check_block(kv, m->to_block, e);
}

bool check_out_row(int32_t out_row, int32_t n_out, struct error *e)
{
    return (out_row >= 0 && out_row < n_out) ||
           error_set(e, ERROR_USAGE, "output row %d is not one of the last step's %d", out_row, n_out);
}
