// The KV cache as fixed-size blocks of tokens: a pool that counts references, and per-sequence block tables.
// Owns integers only: where a block's bytes lie is the backend's matter. Contiguous KV is one block of maximum length.
// Refuses to know: models, data types, scheduling.
#ifndef ENGINE_KV_POOL_H
#define ENGINE_KV_POOL_H

#include "engine/base/error.h"

#include <stdint.h>

struct kv_pool {
    int32_t n_blocks, block_size; // blocks; tokens per block
    int32_t n_free;
    int32_t *free_list; // [n_blocks], the first n_free are free; LIFO
    int32_t *ref;       // [n_blocks] references; 0: free
};

bool kv_pool_init(struct kv_pool *pool, int32_t n_blocks, int32_t block_size, struct error *e);
void kv_pool_free(struct kv_pool *pool); // accepts zeroed

// The blocks of one sequence in order: position p lies in block[p / block_size].
struct kv_table {
    int32_t *block; // [capacity], the first n_blocks are held
    int32_t n_blocks, capacity;
    int32_t n_tokens; // positions written
};

void kv_table_free(struct kv_pool *pool, struct kv_table *table); // gives the blocks back; accepts zeroed

// One block must be copied before `to` may be written: from was shared.
struct kv_copy {
    int32_t from, to;
};

// Makes room for n more tokens: allocates blocks, and replaces the last block by a private copy when it is shared and
// partly filled (*n_copies becomes 1 and *copy says what the backend must copy first). Nothing changes on failure
// (ERROR_MEMORY: not enough free blocks). The caller advances n_tokens through kv_table_append.
bool kv_table_reserve(struct kv_pool *pool, struct kv_table *table, int32_t n, struct kv_copy *copy, int32_t *n_copies,
                      struct error *e);
void kv_table_append(struct kv_table *table, int32_t n); // after reserve: n more positions are written

// Shares all blocks of `from` (references grow); copy-on-write happens at the next reserve.
bool kv_table_fork(struct kv_pool *pool, const struct kv_table *from, struct kv_table *to, struct error *e);

// Forgets positions n_tokens.. and gives back blocks that hold none of the rest.
void kv_table_truncate(struct kv_pool *pool, struct kv_table *table, int32_t n_tokens);

#endif
