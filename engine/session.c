// What happens to a session besides steps.
#include "engine/engine.h"

#include "engine/base/rng.h"

// The first block may be a private copy of a partly written one: its old positions must survive, so a session is filled from
// a block boundary on only.
bool session_fill(struct engine *engine, struct session *session, int32_t n_tokens, uint64_t seed, struct error *e)
{
    struct kv_table *table = &session->table;
    struct kv_copy copy;
    int32_t n_copies, first = table->n_tokens / engine->kv.block_size;
    if (table->n_tokens % engine->kv.block_size)
        return error_set(e, ERROR_USAGE, "a session of %d tokens cannot be filled, expected whole blocks of %d",
                         table->n_tokens, engine->kv.block_size);
    if (!kv_table_reserve(&engine->pool, table, n_tokens, &copy, &n_copies, e))
        return false;
    for (int32_t i = first; i < table->n_blocks; i++)
        if (!engine->backend->fill(engine->backend->self, table->block[i], rng_at(seed, (uint64_t)i), e))
            return false;
    kv_table_append(table, n_tokens);
    return true;
}

bool session_fork(struct engine *engine, const struct session *from, struct session *to, struct error *e)
{
    return kv_table_fork(&engine->pool, &from->table, &to->table, e);
}

void session_truncate(struct engine *engine, struct session *session, int32_t n_tokens)
{
    kv_table_truncate(&engine->pool, &session->table, n_tokens);
}

void session_free(struct engine *engine, struct session *session)
{
    kv_table_free(&engine->pool, &session->table);
}
