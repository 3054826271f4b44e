// Where the bytes of the KV cache lie. Per layer: [block][K|V][head][token][head_dim], so that one head of one block is one
// run of memory. int8 keeps the f16 scales of a run behind its values: [token] of them.
#ifndef ENGINE_CPU_STORAGE_H
#define ENGINE_CPU_STORAGE_H

#include "engine/backend.h"

enum { KV_K, KV_V };

// One layer, as kernels see it.
struct kv_layer {
    uint8_t *base;
    uint64_t block_bytes;   // K and V of all heads of one block
    uint64_t head_bytes[2]; // one head of one block, scales included
    uint64_t row_bytes[2];  // one token of one head, without its scale
    enum dtype type[2];     // of K and of V
    int32_t n_heads, head_dim, block_size;
};

// Values of the tokens of one head in one block: [block_size, head_dim].
static inline uint8_t *kv_values(const struct kv_layer *l, int side, int32_t block, int32_t head)
{
    uint64_t v = side == KV_V ? l->head_bytes[KV_K] * (uint64_t)l->n_heads : 0;
    return l->base + (uint64_t)block * l->block_bytes + v + (uint64_t)head * l->head_bytes[side];
}

// Their scales (int8): [block_size].
static inline uint16_t *kv_scales(const struct kv_layer *l, int side, const uint8_t *values)
{
    return (uint16_t *)(uintptr_t)(values + l->row_bytes[side] * (uint64_t)l->block_size);
}

struct kv_storage {
    uint8_t *memory; // one mapping
    uint64_t bytes;
    int32_t n_blocks, n_groups;
    struct kv_group group[PLAN_MAX_KV_GROUPS];
    uint64_t offset[PLAN_MAX_KV_GROUPS];      // of a group's first layer
    uint64_t layer_bytes[PLAN_MAX_KV_GROUPS]; // all blocks of one layer
    struct kv_layer shape[PLAN_MAX_KV_GROUPS];
};

bool kv_storage_init(struct kv_storage *s, const struct plan *plan, const struct kv_config *config, struct error *e);
void kv_storage_free(struct kv_storage *s); // accepts zeroed

struct kv_layer kv_storage_layer(const struct kv_storage *s, int32_t group, int32_t layer);

// All layers of one block.
void kv_storage_copy(struct kv_storage *s, int32_t from, int32_t to);

// Seeded values, uniform with unit variance, rounded to the storage type as a KV_WRITE would.
void kv_storage_fill(struct kv_storage *s, int32_t block, uint64_t seed);

// Zeroed memory, in huge pages where the system gives them. Fails with ERROR_MEMORY and both numbers when the machine has
// less available; `what` names it.
void *memory_map(uint64_t bytes, const char *what, struct error *e);
void memory_unmap(void *memory, uint64_t bytes);

#endif
