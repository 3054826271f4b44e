// kvcalc --verify: the cache of the answer, allocated in the block pool of the engine, request by request until no more fit.
#include "engine/kv/pool.h"
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_BLOCKS = 1 << 26 };

// Reserves n positions for each new sequence until the pool refuses. Returns how many were admitted.
static int32_t admit_all(struct kv_pool *pool, int32_t n)
{
    int32_t admitted = 0, capacity = pool->n_blocks + 1;
    struct kv_table *table = calloc((size_t)capacity, sizeof *table);
    while (table && admitted < capacity) {
        struct kv_copy copy;
        struct error full = {0};
        int32_t n_copies = 0;
        if (!kv_table_reserve(pool, &table[admitted], n, &copy, &n_copies, &full))
            break;
        kv_table_append(&table[admitted], n);
        admitted++;
    }
    for (int32_t i = 0; table && i < admitted; i++)
        kv_table_free(pool, &table[i]);
    free(table);
    return table ? admitted : -1;
}

bool kvcalc_verify(const struct question *q, const struct answer *a, int *exit_code, struct error *e)
{
    const struct capacity *c = &a->capacity;
    const struct plan *plan = &q->stage[a->fullest];
    struct kv_pool pool;
    int32_t block = q->query.block ? q->query.block : q->query.context, dcp = q->query.dcp > 1 ? q->query.dcp : 1;
    int32_t positions = (q->query.context + dcp - 1) / dcp;
    if (!c->weights_fit || !c->kv_bytes_per_token)
        return error_set(e, ERROR_UNSUPPORTED, "'--verify': no KV fits that could be allocated");
    for (int32_t g = 0; g < plan->n_kv_groups; g++)
        if (plan->kv_group[g].window || plan->kv_group[g].state_bytes)
            return error_set(e, ERROR_UNSUPPORTED,
                             "'--verify': the pool has one table for all layers, and layers of '%s' "
                             "keep less than the others",
                             plan->model);
    uint64_t blocks = (c->usable_bytes - c->weight_bytes) / ((uint64_t)block * c->kv_bytes_per_token);
    if (blocks < 1 || blocks > MAX_BLOCKS)
        return error_set(e, ERROR_UNSUPPORTED, "'--verify': %" PRIu64 " blocks are none, or more than can be tried", blocks);
    if (!kv_pool_init(&pool, (int32_t)blocks, block, e))
        return false;
    int32_t admitted = admit_all(&pool, positions);
    kv_pool_free(&pool);
    if (admitted < 0)
        return error_set(e, ERROR_MEMORY, "no memory to try %" PRIu64 " blocks", blocks);
    bool equal = admitted == c->max_requests;
    fprintf(stderr,
            "verify: a pool of %" PRIu64 " blocks of %" PRId32 " tokens admits %" PRId32 " requests of %" PRId32
            ", computed %" PRId32 ": %s\n",
            blocks, block, admitted, q->query.context, c->max_requests, equal ? "equal" : "they differ");
    *exit_code = equal ? *exit_code : 1;
    return true;
}
