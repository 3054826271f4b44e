#include "engine/cpu/slots.h"

#include "engine/cpu/storage.h"
#include "engine/slots.h"

#include <stdlib.h>

bool slots_init(struct slots *s, const struct plan *plan, const struct span *spans, int32_t n_spans,
                const struct kv_config *config, struct error *e)
{
    struct slot_layout layout;
    *s = (struct slots){0};
    if (!slot_layout_make(&layout, plan, spans, n_spans, config, sizeof(float), e))
        return false;
    s->bytes = layout.bytes;
    s->data = calloc((size_t)plan->n_slots, sizeof *s->data);
    if (!s->data)
        error_set(e, ERROR_MEMORY, "no memory for %d activation slots", plan->n_slots);
    else
        s->memory = memory_map(s->bytes, "the activations", e);
    for (int32_t i = 0; s->memory && i < plan->n_slots; i++)
        s->data[i] = s->memory + layout.offset[i] / sizeof(float);
    slot_layout_free(&layout);
    if (s->memory)
        return true;
    slots_free(s);
    return false;
}

void slots_free(struct slots *s)
{
    memory_unmap(s->memory, s->bytes);
    free(s->data);
    *s = (struct slots){0};
}
