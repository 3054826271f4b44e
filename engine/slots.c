#include "engine/slots.h"

#include "engine/base/units.h"

#include <stdlib.h>

enum { ALIGN = 256 }; // cache lines, and what devices load at once

struct buffer {
    uint64_t bytes, offset;
    int32_t free_after; // last span that needs it
};

struct planner {
    int32_t *last;       // [n_slots] span of the last use
    int32_t *span_of_op; // [n_ops + 1]
    int32_t *buffer_of;  // [n_slots]
    struct buffer *buffer;
    int32_t n_buffers;
};

static bool slot_bytes(const struct slot *slot, const struct kv_config *config, uint64_t value_bytes, uint64_t *out)
{
    uint64_t rows = (uint64_t)(slot->rows == ROWS_OUT ? config->max_out : config->max_tokens);
    bool fits = size_mul(rows, (uint64_t)slot->width * value_bytes, out) && size_add(*out, ALIGN - 1, out);
    *out &= ~(uint64_t)(ALIGN - 1);
    return fits;
}

// The free buffer nearest in size, grown if it must be; a new one where all are in use.
static int32_t take_buffer(struct planner *p, uint64_t bytes, int32_t span)
{
    int32_t best = -1;
    for (int32_t i = 0; i < p->n_buffers; i++) {
        const struct buffer *b = &p->buffer[i];
        if (b->free_after >= span)
            continue;
        bool fits = b->bytes >= bytes, best_fits = best >= 0 && p->buffer[best].bytes >= bytes;
        if (best < 0 || (fits && (!best_fits || b->bytes < p->buffer[best].bytes)) ||
            (!fits && !best_fits && b->bytes > p->buffer[best].bytes))
            best = i;
    }
    if (best < 0)
        best = p->n_buffers++;
    if (p->buffer[best].bytes < bytes)
        p->buffer[best].bytes = bytes;
    return best;
}

static bool assign(struct planner *p, const struct plan *plan, const struct span *spans, int32_t n_spans,
                   const struct kv_config *config, int32_t value_bytes)
{
    for (int32_t s = 0; s < n_spans; s++)
        for (int32_t i = spans[s].first; i < spans[s].first + spans[s].count; i++)
            p->span_of_op[i] = s;
    p->span_of_op[plan->n_ops] = n_spans; // the logits are read after the last span
    plan_slot_last_use(plan, p->last);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        int16_t slot = plan->op[i].out;
        uint64_t bytes;
        if (slot < 0)
            continue;
        uint64_t each = slot == plan->logits ? sizeof(float) : (uint64_t)value_bytes;
        if (!slot_bytes(&plan->slot[slot], config, each, &bytes))
            return false;
        int32_t b = take_buffer(p, bytes, p->span_of_op[i]);
        p->buffer[b].free_after = p->span_of_op[p->last[slot]];
        p->buffer_of[slot] = b;
    }
    return true;
}

static bool place(struct slot_layout *l, struct planner *p, const struct plan *plan)
{
    bool fits = true;
    l->bytes = 0;
    for (int32_t i = 0; i < p->n_buffers; i++) {
        p->buffer[i].offset = l->bytes;
        fits &= size_add(l->bytes, p->buffer[i].bytes, &l->bytes);
    }
    for (int32_t i = 0; i < plan->n_slots; i++)
        l->offset[i] = p->buffer[p->buffer_of[i]].offset;
    return fits;
}

bool slot_layout_make(struct slot_layout *l, const struct plan *plan, const struct span *spans, int32_t n_spans,
                      const struct kv_config *config, int32_t value_bytes, struct error *e)
{
    size_t n_slots = (size_t)plan->n_slots;
    *l = (struct slot_layout){.offset = calloc(n_slots, sizeof *l->offset)};
    struct planner p = {.last = calloc(n_slots, sizeof *p.last),
                        .span_of_op = calloc((size_t)plan->n_ops + 1, sizeof *p.span_of_op),
                        .buffer_of = calloc(n_slots, sizeof *p.buffer_of),
                        .buffer = calloc(n_slots, sizeof *p.buffer)};
    bool ok = false;
    if (!l->offset || !p.last || !p.span_of_op || !p.buffer_of || !p.buffer)
        error_set(e, ERROR_MEMORY, "no memory for %d activation slots", plan->n_slots);
    else if (!assign(&p, plan, spans, n_spans, config, value_bytes) || !place(l, &p, plan))
        error_set(e, ERROR_MEMORY, "activations of %d rows exceed any memory", config->max_tokens);
    else
        ok = true;
    free(p.last);
    free(p.span_of_op);
    free(p.buffer_of);
    free(p.buffer);
    if (!ok)
        slot_layout_free(l);
    return ok;
}

void slot_layout_free(struct slot_layout *l)
{
    free(l->offset);
    *l = (struct slot_layout){0};
}
