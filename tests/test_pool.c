// The KV pool: free list, references, copy-on-write. Integers only; the behaviours are those that serving engines
// assert of theirs (fork: the same blocks; append to one side: ceil((s + a) / bs) - floor(s / bs) new blocks and one copy
// iff the last block was partly filled).
#include "engine/base/rng.h"
#include "engine/kv/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

// Everything given back: all blocks free, each once, no references.
static void assert_all_free(const struct kv_pool *pool)
{
    assert_int_equal(pool->n_free, pool->n_blocks);
    for (int32_t i = 0; i < pool->n_blocks; i++)
        assert_int_equal(pool->ref[i], 0);
}

// References are exactly the tables' entries, and the free list holds exactly the blocks without one.
static void assert_consistent(const struct kv_pool *pool, const struct kv_table *tables, int32_t n)
{
    int32_t held[256] = {0}, n_held = 0;
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < tables[t].n_blocks; i++)
            held[tables[t].block[i]]++;
    for (int32_t i = 0; i < pool->n_blocks; i++) {
        assert_int_equal(pool->ref[i], held[i]);
        n_held += held[i] > 0;
    }
    assert_int_equal(pool->n_free, pool->n_blocks - n_held);
    for (int32_t i = 0; i < pool->n_free; i++) {
        assert_int_equal(held[pool->free_list[i]], 0);
        held[pool->free_list[i]] = -1; // a second time would not be 0
    }
}

static void append(struct kv_pool *pool, struct kv_table *table, int32_t n, struct kv_copy *copy, int32_t *n_copies)
{
    struct error e;
    assert_true(kv_table_reserve(pool, table, n, copy, n_copies, &e));
    kv_table_append(table, n);
}

static void test_free_list_is_lifo(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct kv_table a = {0}, b = {0}, c = {0};
    struct kv_copy copy;
    int32_t n_copies;
    assert_true(kv_pool_init(&pool, 5, 4, NULL));
    append(&pool, &a, 8, &copy, &n_copies);
    append(&pool, &b, 4, &copy, &n_copies);
    assert_int_equal(a.block[0], 0);
    assert_int_equal(a.block[1], 1);
    assert_int_equal(b.block[0], 2);
    kv_table_free(&pool, &a);
    append(&pool, &c, 12, &copy, &n_copies); // what was freed last is taken first, in the same order
    assert_int_equal(c.block[0], 0);
    assert_int_equal(c.block[1], 1);
    assert_int_equal(c.block[2], 3);
    kv_table_free(&pool, &b);
    kv_table_free(&pool, &c);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

static void test_failure_changes_nothing(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct kv_table a = {0}, b = {0};
    struct kv_copy copy;
    struct error e;
    int32_t n_copies;
    assert_true(kv_pool_init(&pool, 4, 8, &e));
    append(&pool, &a, 20, &copy, &n_copies); // 3 blocks, the last partly filled
    assert_true(kv_table_fork(&pool, &a, &b, &e));
    // 5 more tokens need a copy of the last block and one more block; only one is free.
    assert_false(kv_table_reserve(&pool, &b, 5, &copy, &n_copies, &e));
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_int_equal(n_copies, 0);
    assert_int_equal(b.n_blocks, 3);
    assert_int_equal(b.n_tokens, 20);
    assert_memory_equal(a.block, b.block, 3 * sizeof *a.block);
    struct kv_table both[] = {a, b};
    assert_consistent(&pool, both, 2);
    append(&pool, &b, 4, &copy, &n_copies); // the copy alone fits
    assert_int_equal(n_copies, 1);
    assert_false(kv_table_reserve(&pool, &a, INT32_MAX, &copy, &n_copies, &e)); // no overflow
    kv_table_free(&pool, &a);
    kv_table_free(&pool, &b);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

static void test_fork_shares_and_freeing_one_keeps_the_other(void **state)
{
    (void)state;
    static const int32_t length[] = {1, 9, 129}, size[] = {1, 8};
    for (int i = 0; i < 6; i++) {
        struct kv_pool pool;
        struct kv_table a = {0}, b;
        struct kv_copy copy;
        int32_t n_copies;
        assert_true(kv_pool_init(&pool, 200, size[i % 2], NULL));
        append(&pool, &a, length[i / 2], &copy, &n_copies);
        int32_t n_free = pool.n_free;
        assert_true(kv_table_fork(&pool, &a, &b, NULL));
        assert_int_equal(pool.n_free, n_free);
        assert_int_equal(b.n_tokens, a.n_tokens);
        assert_int_equal(b.n_blocks, a.n_blocks);
        assert_memory_equal(a.block, b.block, (size_t)a.n_blocks * sizeof *a.block);
        kv_table_free(&pool, &a);
        assert_int_equal(pool.n_free, n_free);
        kv_table_free(&pool, &b);
        assert_all_free(&pool);
        kv_pool_free(&pool);
    }
}

static void check_copy_on_write(int32_t s, int32_t a)
{
    enum { BS = 8 };
    struct kv_pool pool;
    struct kv_table parent = {0}, child;
    struct kv_copy copy = {-1, -1};
    int32_t before[32], n_copies;
    assert_true(kv_pool_init(&pool, 64, BS, NULL));
    append(&pool, &parent, s, &copy, &n_copies);
    assert_int_equal(n_copies, 0);
    memcpy(before, parent.block, (size_t)parent.n_blocks * sizeof *before);
    assert_true(kv_table_fork(&pool, &parent, &child, NULL));
    int32_t n_free = pool.n_free;
    append(&pool, &child, a, &copy, &n_copies);
    assert_memory_equal(parent.block, before, (size_t)parent.n_blocks * sizeof *before);
    assert_int_equal(n_free - pool.n_free, (s + a + BS - 1) / BS - s / BS);
    assert_int_equal(n_copies, s % BS != 0);
    if (n_copies) {
        assert_int_equal(copy.from, before[s / BS]);
        assert_int_equal(copy.to, child.block[s / BS]);
    }
    append(&pool, &parent, a, &copy, &n_copies); // now the only owner of its last block
    assert_int_equal(n_copies, 0);
    kv_table_free(&pool, &parent);
    kv_table_free(&pool, &child);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

static void test_copy_on_write(void **state)
{
    (void)state;
    static const int32_t length[] = {1, 16, 129};
    for (int i = 0; i < 9; i++)
        check_copy_on_write(length[i / 3], length[i % 3]);
}

// Room that was reserved but not written is used before new blocks are taken, and a fork does not share it.
static void test_reserved_room(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct kv_table a = {0}, b;
    struct kv_copy copy;
    int32_t n_copies;
    assert_true(kv_pool_init(&pool, 8, 4, NULL));
    append(&pool, &a, 3, &copy, &n_copies);
    assert_true(kv_table_reserve(&pool, &a, 9, &copy, &n_copies, NULL));
    assert_int_equal(pool.n_free, 5);
    assert_true(kv_table_fork(&pool, &a, &b, NULL));
    assert_int_equal(b.n_blocks, 1);
    kv_table_free(&pool, &b);
    for (int32_t i = 0; i < 9; i++)
        append(&pool, &a, 1, &copy, &n_copies);
    assert_int_equal(pool.n_free, 5);
    kv_table_free(&pool, &a);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

static void test_truncate(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct kv_table a = {0}, b;
    struct kv_copy copy;
    int32_t n_copies;
    assert_true(kv_pool_init(&pool, 8, 4, NULL));
    append(&pool, &a, 16, &copy, &n_copies);
    assert_true(kv_table_fork(&pool, &a, &b, NULL));
    kv_table_truncate(&pool, &b, 6); // into a full block that `a` still needs
    assert_int_equal(b.n_blocks, 2);
    assert_int_equal(pool.n_free, 4);
    append(&pool, &b, 1, &copy, &n_copies);
    assert_int_equal(n_copies, 1);
    assert_int_equal(copy.from, a.block[1]);
    kv_table_truncate(&pool, &b, 100); // no longer than it is
    assert_int_equal(b.n_tokens, 7);
    kv_table_truncate(&pool, &b, 0);
    assert_int_equal(b.n_blocks, 0);
    kv_table_free(&pool, &a);
    kv_table_free(&pool, &b);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

// 20,000 random operations on 8 tables over a pool that is too small for them.
static void test_random_operations_keep_the_books(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct kv_table t[8] = {{0}};
    struct kv_copy copy;
    uint64_t rng = 7;
    int32_t n_copies;
    assert_true(kv_pool_init(&pool, 40, 4, NULL));
    for (int i = 0; i < 20000; i++) {
        struct kv_table *a = &t[rng_next(&rng) % 8], *b = &t[rng_next(&rng) % 8];
        int32_t n = (int32_t)(rng_next(&rng) % 40);
        switch (rng_next(&rng) % 5) {
        case 0:
        case 1:
            if (kv_table_reserve(&pool, a, n, &copy, &n_copies, NULL) && n % 7)
                kv_table_append(a, n);
            break;
        case 2: kv_table_truncate(&pool, a, n); break;
        case 3: kv_table_free(&pool, a); break;
        case 4:
            if (a != b) {
                kv_table_free(&pool, b);
                assert_true(kv_table_fork(&pool, a, b, NULL));
            }
        }
        assert_consistent(&pool, t, 8);
    }
    for (int i = 0; i < 8; i++)
        kv_table_free(&pool, &t[i]);
    assert_all_free(&pool);
    kv_pool_free(&pool);
}

static void test_impossible_pools(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct error e;
    assert_false(kv_pool_init(&pool, 0, 16, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_false(kv_pool_init(&pool, 16, -1, &e));
    kv_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_list_is_lifo),
        cmocka_unit_test(test_failure_changes_nothing),
        cmocka_unit_test(test_fork_shares_and_freeing_one_keeps_the_other),
        cmocka_unit_test(test_copy_on_write),
        cmocka_unit_test(test_reserved_room),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_random_operations_keep_the_books),
        cmocka_unit_test(test_impossible_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
