#include "engine/backend.h"

#include <stdlib.h>
#include <string.h>

struct batch_shape batch_shape_of(const struct batch *b)
{
    struct batch_shape s = {.n_tokens = b->n_tokens, .n_seqs = b->n_seqs, .n_out = b->n_out};
    for (int32_t i = 0; i < b->n_seqs; i++) {
        int32_t rows = b->seq_first[i + 1] - b->seq_first[i];
        s.max_rows = rows > s.max_rows ? rows : s.max_rows;
        s.max_ctx = b->ctx_len[i] > s.max_ctx ? b->ctx_len[i] : s.max_ctx;
    }
    return s;
}

bool tensor_read(const struct tensor *t, int32_t first, int32_t count, void *out, struct error *e)
{
    uint64_t row_bytes = dtype_row_bytes(t->dtype, (uint64_t)t->cols);
    if (!t->data)
        return t->read(t->ctx, first, count, out, e);
    memcpy(out, (const uint8_t *)t->data + (uint64_t)first * row_bytes, (size_t)((uint64_t)count * row_bytes));
    return true;
}

bool batch_make_uniform(struct batch *b, int32_t n_seqs, int32_t n_new, int32_t context, int32_t block_size, struct error *e)
{
    *b = (struct batch){0};
    if (n_seqs < 1 || n_new < 1 || context < n_new || block_size < 1)
        return error_set(e, ERROR_USAGE, "a batch of %d sequences with %d new tokens at context %d is impossible", n_seqs,
                         n_new, context);
    int64_t n_tokens = (int64_t)n_seqs * n_new, stride = ((int64_t)context + block_size - 1) / block_size;
    int64_t n_table = stride * n_seqs, n_values = 2 * n_tokens + 3 * (int64_t)n_seqs + 1 + n_table;
    if (n_values > INT32_MAX / 4)
        return error_set(e, ERROR_USAGE, "a batch of %d sequences with %d new tokens at context %d is too large", n_seqs,
                         n_new, context);
    int32_t *token = calloc((size_t)n_values, sizeof *token);
    if (!token)
        return error_set(e, ERROR_MEMORY, "no memory for a batch of %lld tokens", (long long)n_tokens);
    int32_t *pos = token + n_tokens, *seq_first = pos + n_tokens, *ctx_len = seq_first + n_seqs + 1,
            *out_row = ctx_len + n_seqs;
    int32_t *table = out_row + n_seqs;
    for (int32_t s = 0; s < n_seqs; s++) {
        seq_first[s + 1] = (s + 1) * n_new;
        ctx_len[s] = context;
        out_row[s] = (s + 1) * n_new - 1;
        for (int32_t i = 0; i < n_new; i++)
            pos[s * n_new + i] = context - n_new + i;
    }
    for (int64_t i = 0; i < n_table; i++)
        table[i] = (int32_t)i;
    *b = (struct batch){.n_tokens = (int32_t)n_tokens,
                        .n_seqs = n_seqs,
                        .n_out = n_seqs,
                        .block_size = block_size,
                        .table_stride = (int32_t)stride,
                        .token = token,
                        .pos = pos,
                        .seq_first = seq_first,
                        .ctx_len = ctx_len,
                        .out_row = out_row,
                        .table = table};
    return true;
}

void batch_free(struct batch *b)
{
    free((void *)b->token); // the first array of the one allocation
    *b = (struct batch){0};
}

void trace_add(struct trace *t, struct trace_row row)
{
    if (!t)
        return;
    if (t->n < t->capacity)
        t->row[t->n++] = row;
    else
        t->n_dropped++;
}
