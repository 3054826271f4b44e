// Where activation slots lie in one piece of memory. Slots whose life times do not meet share it; a life time is counted in
// spans, because what works on one span passes its operations at different times.
#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include "engine/backend.h"

struct slot_layout {
    uint64_t *offset; // [n_slots] of rows of slot->width values
    uint64_t bytes;   // of all
};

// spans: the cover the plan will run under. Rows are sized by config->max_tokens and max_out. value_bytes: of one
// activation; logits are f32.
bool slot_layout_make(struct slot_layout *l, const struct plan *plan, const struct span *spans, int32_t n_spans,
                      const struct kv_config *config, int32_t value_bytes, struct error *e);
void slot_layout_free(struct slot_layout *l); // accepts zeroed

#endif
