#include "engine/kv/pool.h"

#include <stdlib.h>
#include <string.h>

bool kv_pool_init(struct kv_pool *pool, int32_t n_blocks, int32_t block_size, struct error *e)
{
    *pool = (struct kv_pool){0};
    if (n_blocks < 1 || block_size < 1)
        return error_set(e, ERROR_USAGE, "a KV pool of %d blocks of %d tokens is impossible, expected 1 or more of each",
                         n_blocks, block_size);
    pool->free_list = malloc((size_t)n_blocks * sizeof *pool->free_list);
    pool->ref = calloc((size_t)n_blocks, sizeof *pool->ref);
    if (!pool->free_list || !pool->ref) {
        kv_pool_free(pool);
        return error_set(e, ERROR_MEMORY, "no memory for the records of %d KV blocks", n_blocks);
    }
    pool->n_blocks = pool->n_free = n_blocks;
    pool->block_size = block_size;
    for (int32_t i = 0; i < n_blocks; i++)
        pool->free_list[i] = n_blocks - 1 - i; // block 0 is taken first
    return true;
}

void kv_pool_free(struct kv_pool *pool)
{
    free(pool->free_list);
    free(pool->ref);
    *pool = (struct kv_pool){0};
}

static int32_t take(struct kv_pool *pool)
{
    int32_t block = pool->free_list[--pool->n_free];
    pool->ref[block] = 1;
    return block;
}

static void release(struct kv_pool *pool, int32_t block)
{
    if (--pool->ref[block] == 0)
        pool->free_list[pool->n_free++] = block;
}

static int32_t blocks_for(const struct kv_pool *pool, int32_t n_tokens)
{
    return (int32_t)(((int64_t)n_tokens + pool->block_size - 1) / pool->block_size);
}

// Last to first, so that the next sequence takes the blocks in the same order again.
static void release_from(struct kv_pool *pool, struct kv_table *table, int32_t first)
{
    while (table->n_blocks > first)
        release(pool, table->block[--table->n_blocks]);
}

void kv_table_free(struct kv_pool *pool, struct kv_table *table)
{
    release_from(pool, table, 0);
    free(table->block);
    *table = (struct kv_table){0};
}

static bool grow_table(struct kv_table *table, int32_t n_blocks, struct error *e)
{
    if (n_blocks <= table->capacity)
        return true;
    int32_t capacity = n_blocks < INT32_MAX / 2 && n_blocks < 2 * table->capacity ? 2 * table->capacity : n_blocks;
    int32_t *grown = realloc(table->block, (size_t)capacity * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for a table of %d KV blocks", capacity);
    table->block = grown;
    table->capacity = capacity;
    return true;
}

// The block that the next position lies in, if it holds positions already and another table shares it; else -1.
static int32_t shared_tail(const struct kv_pool *pool, const struct kv_table *table)
{
    int32_t tail = table->n_tokens / pool->block_size;
    bool shared = table->n_tokens % pool->block_size && pool->ref[table->block[tail]] > 1;
    return shared ? tail : -1;
}

bool kv_table_reserve(struct kv_pool *pool, struct kv_table *table, int32_t n, struct kv_copy *copy, int32_t *n_copies,
                      struct error *e)
{
    *n_copies = 0;
    if (n < 0 || n > INT32_MAX - table->n_tokens)
        return error_set(e, ERROR_USAGE, "%d more tokens after %d do not fit a sequence", n, table->n_tokens);
    int32_t n_blocks = blocks_for(pool, table->n_tokens + n);
    int32_t tail = n ? shared_tail(pool, table) : -1;
    int32_t missing = n_blocks > table->n_blocks ? n_blocks - table->n_blocks : 0;
    int32_t needed = missing + (tail >= 0);
    if (needed > pool->n_free)
        return error_set(e, ERROR_MEMORY, "KV pool exhausted: %d tokens need %d more blocks of %d, %d of %d are free", n,
                         needed, pool->block_size, pool->n_free, pool->n_blocks);
    if (!grow_table(table, n_blocks, e))
        return false;
    if (tail >= 0) {
        *copy = (struct kv_copy){.from = table->block[tail], .to = take(pool)};
        *n_copies = 1;
        release(pool, copy->from);
        table->block[tail] = copy->to;
    }
    while (table->n_blocks < n_blocks)
        table->block[table->n_blocks++] = take(pool);
    return true;
}

void kv_table_append(struct kv_table *table, int32_t n)
{
    table->n_tokens += n;
}

bool kv_table_fork(struct kv_pool *pool, const struct kv_table *from, struct kv_table *to, struct error *e)
{
    // Blocks that `from` has reserved but not written stay its own.
    int32_t n_blocks = blocks_for(pool, from->n_tokens);
    *to = (struct kv_table){0};
    if (!grow_table(to, n_blocks, e))
        return false;
    for (int32_t i = 0; i < n_blocks; i++) {
        to->block[i] = from->block[i];
        pool->ref[from->block[i]]++;
    }
    to->n_blocks = n_blocks;
    to->n_tokens = from->n_tokens;
    return true;
}

void kv_table_truncate(struct kv_pool *pool, struct kv_table *table, int32_t n_tokens)
{
    if (n_tokens < table->n_tokens)
        table->n_tokens = n_tokens > 0 ? n_tokens : 0;
    release_from(pool, table, blocks_for(pool, table->n_tokens));
}
