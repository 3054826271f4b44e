// Buffers of activation slots (engine/slots.h says which share memory).
#ifndef ENGINE_CPU_SLOTS_H
#define ENGINE_CPU_SLOTS_H

#include "engine/backend.h"

struct slots {
    float **data; // [n_slots] rows of slot->width values
    float *memory;
    uint64_t bytes;
};

// spans: the cover the plan will run under. Rows are sized by config->max_tokens and max_out.
bool slots_init(struct slots *s, const struct plan *plan, const struct span *spans, int32_t n_spans,
                const struct kv_config *config, struct error *e);
void slots_free(struct slots *s); // accepts zeroed

#endif
