// Everything between the matrix products: embedding, norms, rotary embedding, KV writes, activation, residuals.
#include "engine/cpu/walk.h"

#include <math.h>

static int32_t seq_of_row(const struct batch *b, int32_t row)
{
    int32_t low = 0, high = b->n_seqs - 1;
    while (low < high) {
        int32_t middle = (low + high + 1) / 2;
        if (b->seq_first[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// cos and sin of each row's angles, once per step for all layers. The product is rounded to f32 as in the published models.
static void turn_table(const struct share *w, int32_t which)
{
    const struct step *s = w->step;
    const struct turns *turns = &s->cpu->turns[which];
    const struct rope_spec *rope = &s->cpu->plan->rope[which];
    float magnitude = rope->magnitude != 0 ? rope->magnitude : 1;
    int32_t half = rope->rotary_dim / 2, first, end;
    share_range(w, s->batch->n_tokens, 1, &first, &end);
    for (int32_t t = first; t < end; t++) {
        const float *inv_freq = turns->inv_freq[rope_is_long(rope, s->batch->ctx_len[seq_of_row(s->batch, t)])];
        for (int32_t i = 0; i < half; i++) {
            float angle = (float)s->batch->pos[t] * inv_freq[i];
            turns->cos[(size_t)t * (size_t)half + (size_t)i] = cosf(angle) * magnitude;
            turns->sin[(size_t)t * (size_t)half + (size_t)i] = sinf(angle) * magnitude;
        }
    }
}

void walk_embed(const struct share *w, const struct span *span)
{
    struct step *s = w->step;
    const struct op *op = &s->cpu->plan->op[span->first];
    const struct packed *table = &s->cpu->packed[op->weight];
    int32_t first, end;
    for (int32_t i = 0; i < s->cpu->plan->n_ropes; i++)
        turn_table(w, i);
    share_range(w, rows_of(s, op), 1, &first, &end);
    for (int32_t r = first; r < end; r++) {
        pack_read(table, s->batch->token[r], 0, table->cols, out_row(s, op, r));
        if (op->param[0] != 1)
            s->cpu->kernels->scale(out_row(s, op, r), op->param[0], 0, table->cols);
    }
}

static void norm_group(const struct step *s, const struct op *op, int32_t row, int32_t group)
{
    int32_t at = group * op->dim[1];
    s->cpu->kernels->norm(in_row(s, op, 0, row) + at, s->cpu->vector[op->weight], op->param[0], out_row(s, op, row) + at,
                          op->dim[1]);
}

void walk_norm(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    int32_t first, end;
    share_range(w, rows_of(w->step, op) * op->dim[0], 1, &first, &end);
    for (int32_t i = first; i < end; i++)
        norm_group(w->step, op, i / op->dim[0], i % op->dim[0]);
}

static void rope_head(const struct step *s, const struct op *op, int32_t row, int32_t head)
{
    size_t table = (size_t)row * (size_t)(op->dim[2] / 2);
    int32_t at = head * op->dim[1];
    const struct turns *turns = &s->cpu->turns[op->dim[3]];
    s->cpu->kernels->rope(in_row(s, op, 0, row) + at, turns->cos + table, turns->sin + table, out_row(s, op, row) + at,
                          op->dim[1], op->dim[2]);
}

void walk_rope(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    int32_t first, end;
    share_range(w, rows_of(w->step, op) * op->dim[0], 1, &first, &end);
    for (int32_t i = first; i < end; i++)
        rope_head(w->step, op, i / op->dim[0], i % op->dim[0]);
}

// K and V of one head of one row, under the row's position.
static void kv_write_head(const struct step *s, const struct op *op, int32_t row, int32_t head)
{
    const struct batch *b = s->batch;
    struct kv_layer l = kv_storage_layer(&s->cpu->kv, op->kv_group, op->kv_layer);
    int32_t pos = b->pos[row], token = pos % l.block_size;
    const int32_t *table = b->table + (size_t)seq_of_row(b, row) * (size_t)b->table_stride;
    for (int side = KV_K; side <= KV_V; side++) {
        uint8_t *values = kv_values(&l, side, table[pos / l.block_size], head);
        s->cpu->kernels->kv_store[l.type[side]](in_row(s, op, side, row) + head * l.head_dim,
                                                values + (uint64_t)token * l.row_bytes[side],
                                                kv_scales(&l, side, values) + token, l.head_dim);
    }
}

void walk_kv_write(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    int32_t first, end;
    share_range(w, rows_of(w->step, op) * op->dim[0], 1, &first, &end);
    for (int32_t i = first; i < end; i++)
        kv_write_head(w->step, op, i / op->dim[0], i % op->dim[0]);
}

// Every head of q and k on its own: norm (where the model has one), turn, and for k also the write.
void walk_rope_kv(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    const struct op *norm_q = op->kind == OP_NORM ? op : NULL, *rope_q = norm_q ? op + 2 : op, *rope_k = rope_q + 1;
    const struct op *write = rope_k + 1;
    int32_t n_q = rope_q->dim[0], n_heads = n_q + rope_k->dim[0], first, end;
    share_range(w, rows_of(w->step, rope_q) * n_heads, 1, &first, &end);
    for (int32_t i = first; i < end; i++) {
        int32_t row = i / n_heads, head = i % n_heads, of_q = head < n_q;
        head -= of_q ? 0 : n_q;
        if (norm_q)
            norm_group(w->step, of_q ? norm_q : norm_q + 1, row, head);
        rope_head(w->step, of_q ? rope_q : rope_k, row, head);
        if (!of_q)
            kv_write_head(w->step, write, row, head);
    }
}

static void values(const struct cpu_kernels *k, const struct op *op, const float *a, const float *b, float *y, int32_t n)
{
    if (op->kind == OP_ADD)
        k->add(a, b, op->param[0], y, n);
    else
        k->act_mul[op->dim[1]](a, b, y, n);
}

// ACT and ADD: the member's part of all values, in whole rows where there are enough.
void walk_values(const struct share *w, const struct span *span)
{
    const struct op *op = &w->step->cpu->plan->op[span->first];
    int32_t width = op->dim[0], n_rows = rows_of(w->step, op), first, end;
    bool by_row = n_rows >= w->n_members;
    share_range(w, by_row ? n_rows : width, by_row ? 1 : 16, &first, &end);
    for (int32_t r = by_row ? first : 0; r < (by_row ? end : n_rows); r++) {
        int32_t at = by_row ? 0 : first, n = by_row ? width : end - first;
        values(w->step->cpu->kernels, op, in_row(w->step, op, 0, r) + at, in_row(w->step, op, 1, r) + at,
               out_row(w->step, op, r) + at, n);
    }
}
