// The witness itself: it must see what is wrong with a batch, cover at random, and replay.
#include "engine/null/null.h"
#include "tests/tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BS = 4, CONTEXT = 10, N_SEQS = 2 };

struct fixture {
    struct plan plan;
    struct backend backend;
    struct batch batch; // two prefills of CONTEXT tokens
};

static void setup(struct fixture *f)
{
    struct model_spec spec = tiny_spec();
    struct plan_options options = plan_options_default(DTYPE_BF16);
    struct kv_config kv = {.n_blocks = 8, .block_size = BS, .max_tokens = 32, .max_seqs = 4, .max_out = 4};
    assert_true(plan_make(&f->plan, &spec, &options, NULL));
    assert_true(null_backend_open(&f->backend, NULL, NULL));
    assert_true(f->backend.open(f->backend.self, &f->plan, &kv, NULL));
    assert_true(batch_make_uniform(&f->batch, N_SEQS, CONTEXT, CONTEXT, BS, NULL));
}

static void teardown(struct fixture *f)
{
    batch_free(&f->batch);
    f->backend.close(f->backend.self);
    plan_free(&f->plan);
}

static bool run(struct fixture *f, struct trace *trace, struct error *e)
{
    return f->backend.run(f->backend.self, &f->plan, &f->batch, trace, e);
}

// One more token for each sequence after the prefill.
static void next_step(struct fixture *f, struct batch *b)
{
    batch_free(b);
    assert_true(batch_make_uniform(b, N_SEQS, 1, CONTEXT + 1, BS, NULL));
    assert_int_equal(f->batch.table_stride, 3);
}

static void test_it_refuses_broken_batches(void **state)
{
    (void)state;
    struct fixture f;
    struct error e;
    setup(&f);
    struct {
        const int32_t *array;
        int32_t at, value;
    } wrong[] = {
        {f.batch.token, 3, -1},        {f.batch.token, 3, 320},   {f.batch.pos, 5, 6},        {f.batch.pos, 0, -1},
        {f.batch.seq_first, 0, 1},     {f.batch.seq_first, 1, 0}, {f.batch.seq_first, 2, 19}, {f.batch.ctx_len, 1, 9},
        {f.batch.ctx_len, 1, 11},      {f.batch.out_row, 0, -1},  {f.batch.out_row, 1, 9},    {f.batch.out_row, 1, 20},
        {f.batch.table, 0, 8},         {f.batch.table, 4, -1},    {&f.batch.n_seqs, 0, 5},    {&f.batch.block_size, 0, 8},
        {&f.batch.table_stride, 0, 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int32_t *at = (int32_t *)wrong[i].array + wrong[i].at, right = *at;
        *at = wrong[i].value;
        assert_false(run(&f, NULL, &e));
        assert_int_equal(e.kind, ERROR_FAILED);
        *at = right;
    }
    assert_int_equal(null_backend_rows(&f.backend), 0);
    assert_true(run(&f, NULL, &e));
    assert_int_equal(null_backend_rows(&f.backend), N_SEQS * CONTEXT);
    teardown(&f);
}

static void test_it_sees_wrong_tables(void **state)
{
    (void)state;
    struct fixture f;
    struct error e;
    setup(&f);
    assert_true(run(&f, NULL, &e));
    next_step(&f, &f.batch);
    int32_t *table = (int32_t *)f.batch.table;
    for (int32_t i = 0; i < 2; i++) { // two entries of one sequence swapped
        int32_t right = table[i];
        table[i] = table[i + 1], table[i + 1] = right;
        assert_false(run(&f, NULL, &e));
        table[i + 1] = table[i], table[i] = right;
    }
    assert_true(run(&f, NULL, &e));
    table[2] = 7; // a block never written
    assert_false(run(&f, NULL, &e));
    teardown(&f);
}

static void test_logits_are_the_history(void **state)
{
    (void)state;
    struct fixture f;
    float first[320], second[320], again[320];
    setup(&f);
    ((int32_t *)f.batch.token)[0] = 1; // the sequences differ in their first token alone
    assert_true(run(&f, NULL, NULL));
    assert_true(f.backend.read(f.backend.self, 0, first, NULL) && f.backend.read(f.backend.self, 1, second, NULL));
    assert_memory_not_equal(first, second, sizeof first);
    assert_true(run(&f, NULL, NULL));
    assert_true(f.backend.read(f.backend.self, 0, again, NULL));
    assert_memory_equal(first, again, sizeof first);
    assert_false(f.backend.read(f.backend.self, N_SEQS, again, NULL));
    teardown(&f);
}

static void test_random_covers(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    struct batch_shape shape = batch_shape_of(&f.batch);
    struct span span[64];
    int32_t different = 0;
    assert_true(f.plan.n_ops <= 64);
    assert_int_equal(f.backend.cover(f.backend.self, &f.plan, &shape, span), f.plan.n_ops);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        null_backend_set_cover(&f.backend, seed);
        int32_t n = f.backend.cover(f.backend.self, &f.plan, &shape, span), next = 0;
        for (int32_t i = 0; i < n; next += span[i++].count)
            assert_int_equal(span[i].first, next);
        assert_int_equal(next, f.plan.n_ops);
        assert_in_range(n, 2, f.plan.n_ops - 1);
        different += n != f.plan.n_ops / 2;
        assert_true(run(&f, NULL, NULL));
    }
    assert_true(different > 10);
    teardown(&f);
}

static void test_trace_and_pace(void **state)
{
    (void)state;
    struct fixture f;
    struct trace_row row[64];
    struct trace trace = {.row = row, .capacity = 64};
    setup(&f);
    null_backend_set_step_ns(&f.backend, 2000000);
    int64_t begin = f.backend.now_ns(f.backend.self);
    assert_true(run(&f, &trace, NULL));
    assert_true(f.backend.now_ns(f.backend.self) - begin >= 2000000);
    assert_int_equal(trace.n, f.plan.n_ops);
    for (int32_t i = 1; i < trace.n; i++)
        assert_true(row[i].begin_ns >= row[i - 1].end_ns && row[i].end_ns >= row[i].begin_ns);
    assert_true(row[trace.n - 1].end_ns - row[0].begin_ns >= 2000000);
    teardown(&f);
}

static void test_replay_by_key(void **state)
{
    (void)state;
    struct fixture f;
    struct error e;
    struct trace_row row[64];
    struct trace trace = {.row = row, .capacity = 64};
    struct null_record record[2] = {{.ns = 7000000000}, {.ns = 30000}};
    setup(&f);
    record[0].shape = batch_shape_of(&f.batch);
    struct batch decode = {0};
    next_step(&f, &decode);
    record[1].shape = batch_shape_of(&decode);
    null_backend_set_replay(&f.backend, record, 2);
    assert_int_equal(f.backend.now_ns(f.backend.self), 0);
    assert_true(run(&f, &trace, &e)); // 7 simulated seconds
    assert_int_equal(f.backend.now_ns(f.backend.self), 7000000000);
    assert_int_equal(row[trace.n - 1].end_ns, 7000000000);
    assert_true(f.backend.run(f.backend.self, &f.plan, &decode, NULL, &e));
    assert_int_equal(f.backend.now_ns(f.backend.self), 7000030000);
    null_backend_set_replay(&f.backend, record, 1);
    assert_false(f.backend.run(f.backend.self, &f.plan, &decode, NULL, &e));
    assert_non_null(strstr(e.message, "no recorded step"));
    batch_free(&decode);
    teardown(&f);
}

static void test_moves_and_fills(void **state)
{
    (void)state;
    struct fixture f;
    struct error e;
    setup(&f);
    assert_true(run(&f, NULL, &e));
    next_step(&f, &f.batch);
    struct kv_move copy = {.from_block = f.batch.table[2], .to_block = 7};
    ((int32_t *)f.batch.table)[2] = 7;
    assert_true(f.backend.move(f.backend.self, &copy, 1, &e));
    assert_true(run(&f, NULL, &e));
    copy.to_block = 8;
    assert_false(f.backend.move(f.backend.self, &copy, 1, &e));
    copy = (struct kv_move){.from_block = 1, .to_block = 2, .to_tier = 1};
    assert_false(f.backend.move(f.backend.self, &copy, 1, &e));
    assert_false(f.backend.fill(f.backend.self, 8, 1, &e));
    for (int32_t i = 0; i < 8; i++) // any context may be assembled of filled blocks
        assert_true(f.backend.fill(f.backend.self, i, 1, &e));
    assert_true(run(&f, NULL, &e));
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_refuses_broken_batches),
        cmocka_unit_test(test_it_sees_wrong_tables),
        cmocka_unit_test(test_logits_are_the_history),
        cmocka_unit_test(test_random_covers),
        cmocka_unit_test(test_trace_and_pace),
        cmocka_unit_test(test_replay_by_key),
        cmocka_unit_test(test_moves_and_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
