#include "engine/cpu/slots.h"

#include "engine/base/units.h"
#include "engine/cpu/storage.h"

#include <stdlib.h>

enum { LINE = 64 };

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

static bool slot_bytes(const struct slot *slot, const struct kv_config *config, uint64_t *out)
{
    uint64_t rows = (uint64_t)(slot->rows == ROWS_OUT ? config->max_out : config->max_tokens);
    bool fits = size_mul(rows, (uint64_t)slot->width * sizeof(float), out) && size_add(*out, LINE - 1, out);
    *out &= ~(uint64_t)(LINE - 1);
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
                   const struct kv_config *config)
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
        if (!slot_bytes(&plan->slot[slot], config, &bytes))
            return false;
        int32_t b = take_buffer(p, bytes, p->span_of_op[i]);
        p->buffer[b].free_after = p->span_of_op[p->last[slot]];
        p->buffer_of[slot] = b;
    }
    return true;
}

static bool map_buffers(struct slots *s, struct planner *p, const struct plan *plan, struct error *e)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < p->n_buffers; i++) {
        p->buffer[i].offset = sum;
        if (!size_add(sum, p->buffer[i].bytes, &sum))
            break;
    }
    s->bytes = sum;
    s->memory = memory_map(sum, "the activations", e);
    if (!s->memory)
        return false;
    for (int32_t i = 0; i < plan->n_slots; i++)
        s->data[i] = s->memory + p->buffer[p->buffer_of[i]].offset / sizeof(float);
    return true;
}

bool slots_init(struct slots *s, const struct plan *plan, const struct span *spans, int32_t n_spans,
                const struct kv_config *config, struct error *e)
{
    *s = (struct slots){.data = calloc((size_t)plan->n_slots, sizeof *s->data)};
    size_t n_slots = (size_t)plan->n_slots;
    struct planner p = {.last = calloc(n_slots, sizeof *p.last),
                        .span_of_op = calloc((size_t)plan->n_ops + 1, sizeof *p.span_of_op),
                        .buffer_of = calloc(n_slots, sizeof *p.buffer_of),
                        .buffer = calloc(n_slots, sizeof *p.buffer)};
    bool ok = false;
    if (!s->data || !p.last || !p.span_of_op || !p.buffer_of || !p.buffer)
        error_set(e, ERROR_MEMORY, "no memory for %d activation slots", plan->n_slots);
    else if (!assign(&p, plan, spans, n_spans, config))
        error_set(e, ERROR_MEMORY, "activations of %d rows exceed any memory", config->max_tokens);
    else
        ok = map_buffers(s, &p, plan, e);
    free(p.last);
    free(p.span_of_op);
    free(p.buffer_of);
    free(p.buffer);
    if (!ok)
        slots_free(s);
    return ok;
}

void slots_free(struct slots *s)
{
    memory_unmap(s->memory, s->bytes);
    free(s->data);
    *s = (struct slots){0};
}
