// Steps, sessions and generation over the null backend, whose logits depend on the whole history as found through the block
// tables: whatever the harness gets wrong changes a token or fails a step.
#include "engine/base/rng.h"
#include "engine/engine.h"
#include "engine/null/null.h"
#include "tests/tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct plan plan;
    struct backend backend;
    struct engine engine;
};

static void setup(struct fixture *f, struct kv_config kv)
{
    struct model_spec spec = tiny_spec();
    struct plan_options options = plan_options_default(DTYPE_F32);
    struct error e = {0};
    assert_true(plan_make(&f->plan, &spec, &options, &e));
    assert_true(null_backend_open(&f->backend, NULL, &e));
    assert_true(engine_open(&f->engine, &f->plan, &f->backend, &kv, &e));
}

// Every test ends here: nothing may still be held.
static void teardown(struct fixture *f)
{
    const struct kv_pool *pool = &f->engine.pool;
    assert_int_equal(pool->n_free, pool->n_blocks);
    for (int32_t i = 0; i < pool->n_blocks; i++)
        assert_int_equal(pool->ref[i], 0);
    engine_close(&f->engine);
    f->backend.close(f->backend.self);
    plan_free(&f->plan);
}

static void make_tokens(int32_t *token, int32_t n, uint64_t seed)
{
    for (int32_t i = 0; i < n; i++)
        token[i] = (int32_t)(rng_at(seed, (uint64_t)i) % 320);
}

static bool step_one(struct fixture *f, struct session *s, const int32_t *token, int32_t n, enum step_out out,
                     struct error *e)
{
    struct step step = {.session = s, .token = token, .n_tokens = n, .out = out};
    return engine_step(&f->engine, &step, 1, NULL, e);
}

// The logits that a fresh session has after these tokens, processed in one step.
static void expect_logits(struct fixture *f, const int32_t *token, int32_t n, float *logits)
{
    struct session fresh = {{0}};
    struct error e;
    assert_true(step_one(f, &fresh, token, n, STEP_OUT_LAST, &e));
    assert_true(engine_logits(&f->engine, 0, logits, &e));
    session_free(&f->engine, &fresh);
}

static void assert_logits(struct fixture *f, int32_t row, const int32_t *token, int32_t n)
{
    float got[320], expected[320];
    struct error e;
    assert_true(engine_logits(&f->engine, row, got, &e));
    expect_logits(f, token, n, expected);
    assert_memory_equal(got, expected, sizeof got);
}

static int64_t count_generated(struct fixture *f, bool use_cache, int32_t *out)
{
    struct session session = {{0}};
    struct sampler sampler;
    struct error e = {0};
    int32_t prompt[100], n_out;
    int64_t before = f->engine.tokens_processed;
    make_tokens(prompt, 100, 1);
    assert_true(sampler_init(&sampler, 0, 0, 1, 0, &e));
    struct token_source source = sampler_source(&sampler);
    struct generate_options options = {.max_tokens = 1000, .use_cache = use_cache};
    assert_true(engine_generate(&f->engine, &session, prompt, 100, &source, &options, out, &n_out, &e));
    assert_int_equal(n_out, 1000);
    assert_int_equal(session.table.n_tokens, 1099);
    session_free(&f->engine, &session);
    return f->engine.tokens_processed - before;
}

// 100 + 999 against the sum of 100 .. 1099.
static void test_a_cache_saves_598401_tokens(void **state)
{
    (void)state;
    struct fixture f;
    static int32_t cached[1000], recomputed[1000];
    setup(&f, (struct kv_config){.n_blocks = 70, .block_size = 16, .max_tokens = 128, .max_seqs = 1, .max_out = 1});
    assert_int_equal(count_generated(&f, true, cached), 1099);
    assert_int_equal(count_generated(&f, false, recomputed), 599500);
    assert_int_equal(null_backend_rows(&f.backend), 1099 + 599500);
    assert_memory_equal(cached, recomputed, sizeof cached);
    teardown(&f);
}

// Three sequences, prefill and decode rows in one step, outputs of all kinds.
static void test_mixed_step(void **state)
{
    (void)state;
    struct fixture f;
    struct session s[3] = {{{0}}};
    struct error e = {0};
    int32_t a[40], b[40], c[40];
    make_tokens(a, 40, 1);
    make_tokens(b, 40, 2);
    make_tokens(c, 40, 3);
    setup(&f, (struct kv_config){.n_blocks = 40, .block_size = 4, .max_tokens = 64, .max_seqs = 3, .max_out = 8});
    assert_true(step_one(&f, &s[0], a, 9, STEP_OUT_NONE, &e));
    assert_true(step_one(&f, &s[1], b, 17, STEP_OUT_LAST, &e));
    struct step steps[] = {{.session = &s[1], .token = b + 17, .n_tokens = 1, .out = STEP_OUT_LAST},
                           {.session = &s[2], .token = c, .n_tokens = 7, .out = STEP_OUT_ALL},
                           {.session = &s[0], .token = a + 9, .n_tokens = 3, .out = STEP_OUT_NONE}};
    int64_t before = f.engine.tokens_processed;
    assert_true(engine_step(&f.engine, steps, 3, NULL, &e));
    assert_int_equal(f.engine.tokens_processed - before, 11);
    assert_int_equal(steps[0].first_out, 0);
    assert_int_equal(steps[1].first_out, 1);
    float logits[320];
    assert_false(engine_logits(&f.engine, 8, logits, &e)); // 8 outputs
    assert_true(engine_logits(&f.engine, 7, logits, &e));
    assert_logits(&f, 0, b, 18);
    assert_true(
        engine_step(&f.engine, (struct step[]){{.session = &s[0], .token = a + 12, .n_tokens = 1, .out = 1}}, 1, NULL, &e));
    assert_logits(&f, 0, a, 13);
    for (int i = 0; i < 3; i++)
        session_free(&f.engine, &s[i]);
    teardown(&f);
}

// Parent and child write into what was one block; both in the same step.
static void test_fork_copies_before_writing(void **state)
{
    (void)state;
    struct fixture f;
    struct session parent = {{0}}, child;
    struct error e = {0};
    int32_t a[20], b[20];
    make_tokens(a, 20, 1);
    memcpy(b, a, sizeof a);
    make_tokens(b + 10, 10, 2);
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 4, .max_tokens = 64, .max_seqs = 2, .max_out = 2});
    assert_true(step_one(&f, &parent, a, 10, STEP_OUT_LAST, &e));
    assert_true(session_fork(&f.engine, &parent, &child, &e));
    for (int32_t i = 10; i < 20; i++) {
        struct step steps[] = {{.session = &child, .token = b + i, .n_tokens = 1, .out = STEP_OUT_LAST},
                               {.session = &parent, .token = a + i, .n_tokens = 1, .out = STEP_OUT_LAST}};
        float got[2][320], expected[320];
        assert_true(engine_step(&f.engine, steps, 2, NULL, &e));
        assert_true(engine_logits(&f.engine, 0, got[0], &e) && engine_logits(&f.engine, 1, got[1], &e));
        expect_logits(&f, b, i + 1, expected);
        assert_memory_equal(got[0], expected, sizeof expected);
        expect_logits(&f, a, i + 1, expected);
        assert_memory_equal(got[1], expected, sizeof expected);
    }
    assert_int_equal(parent.table.block[1], child.table.block[1]);
    assert_int_not_equal(parent.table.block[2], child.table.block[2]);
    session_free(&f.engine, &parent);
    session_free(&f.engine, &child);
    teardown(&f);
}

static void test_truncate_and_go_another_way(void **state)
{
    (void)state;
    struct fixture f;
    struct session s = {{0}};
    struct error e = {0};
    int32_t a[20], b[20];
    make_tokens(a, 20, 1);
    memcpy(b, a, sizeof a);
    make_tokens(b + 6, 14, 2);
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 4, .max_tokens = 64, .max_seqs = 1, .max_out = 1});
    assert_true(step_one(&f, &s, a, 20, STEP_OUT_LAST, &e));
    session_truncate(&f.engine, &s, 6);
    assert_true(step_one(&f, &s, b + 6, 14, STEP_OUT_LAST, &e));
    assert_logits(&f, 0, b, 20);
    session_free(&f.engine, &s);
    teardown(&f);
}

// The pool is one block short for the second session: the step fails, the first session keeps its state, and the same
// step succeeds once there is room.
static void test_no_room_changes_no_session(void **state)
{
    (void)state;
    struct fixture f;
    struct session a = {{0}}, b = {{0}}, fork;
    struct error e = {0};
    int32_t token[20];
    make_tokens(token, 20, 1);
    setup(&f, (struct kv_config){.n_blocks = 5, .block_size = 4, .max_tokens = 64, .max_seqs = 2, .max_out = 2});
    assert_true(step_one(&f, &a, token, 6, STEP_OUT_LAST, &e));
    assert_true(session_fork(&f.engine, &a, &fork, &e));
    assert_true(step_one(&f, &b, token, 8, STEP_OUT_LAST, &e));
    struct step steps[] = {{.session = &fork, .token = token + 6, .n_tokens = 1, .out = STEP_OUT_LAST},
                           {.session = &b, .token = token + 8, .n_tokens = 1, .out = STEP_OUT_LAST}};
    int64_t before = f.engine.tokens_processed;
    assert_false(engine_step(&f.engine, steps, 2, NULL, &e));
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_int_equal(fork.table.n_tokens, 6);
    assert_int_equal(b.table.n_tokens, 8);
    assert_int_equal(f.engine.tokens_processed, before);
    session_free(&f.engine, &a);
    assert_true(engine_step(&f.engine, steps, 2, NULL, &e));
    session_free(&f.engine, &b);
    assert_logits(&f, 0, token, 7); // the copy owed by the failed step was made
    session_free(&f.engine, &fork);
    teardown(&f);
}

static void test_filled_context(void **state)
{
    (void)state;
    struct fixture f;
    struct session s = {{0}}, t = {{0}};
    struct error e = {0};
    int32_t token[] = {5, 6, 7};
    float one[320], two[320];
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 16, .max_tokens = 4, .max_seqs = 1, .max_out = 1});
    assert_true(session_fill(&f.engine, &s, 100, 9, &e));
    assert_int_equal(s.table.n_tokens, 100);
    assert_int_equal(f.engine.tokens_processed, 0);
    assert_false(session_fill(&f.engine, &s, 10, 9, &e)); // not at a block's boundary
    assert_true(step_one(&f, &s, token, 3, STEP_OUT_LAST, &e));
    assert_true(engine_logits(&f.engine, 0, one, &e));
    assert_true(session_fill(&f.engine, &t, 100, 9, &e)); // the same seed, other blocks
    assert_true(step_one(&f, &t, token, 3, STEP_OUT_LAST, &e));
    assert_true(engine_logits(&f.engine, 0, two, &e));
    assert_memory_equal(one, two, sizeof one);
    assert_false(session_fill(&f.engine, &t, 1000, 9, &e));
    session_free(&f.engine, &s);
    session_free(&f.engine, &t);
    teardown(&f);
}

static void test_steps_beyond_what_was_opened(void **state)
{
    (void)state;
    struct fixture f;
    struct session s = {{0}};
    struct error e = {0};
    int32_t token[9] = {0};
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 4, .max_tokens = 8, .max_seqs = 1, .max_out = 2});
    assert_false(step_one(&f, &s, token, 9, STEP_OUT_LAST, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_false(step_one(&f, &s, token, 3, STEP_OUT_ALL, &e));
    assert_false(step_one(&f, &s, token, 0, STEP_OUT_LAST, &e));
    assert_false(engine_step(&f.engine, NULL, 0, NULL, &e));
    assert_int_equal(s.table.n_blocks, 0);
    teardown(&f);
}

struct stop_at {
    int32_t n_left;
};
static bool count_down(void *ctx, int32_t token)
{
    (void)token;
    return --((struct stop_at *)ctx)->n_left > 0;
}

static void test_generation_ends(void **state)
{
    (void)state;
    struct fixture f;
    struct session s = {{0}};
    struct error e = {0};
    struct random_tokens random = {.seed = 4};
    struct token_source source = random_token_source(&random);
    int32_t prompt[] = {1, 2, 3}, out[50], n_out;
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 4, .max_tokens = 8, .max_seqs = 1, .max_out = 1});
    struct generate_options options = {.max_tokens = 50, .use_cache = true};
    assert_true(engine_generate(&f.engine, &s, prompt, 3, &source, &options, out, &n_out, &e));
    assert_int_equal(n_out, 50);
    session_free(&f.engine, &s);
    options.stop = &out[7];
    options.n_stop = 1;
    assert_true(engine_generate(&f.engine, &s, prompt, 3, &source, &options, out, &n_out, &e));
    assert_in_range(n_out, 1, 8);
    session_free(&f.engine, &s);
    struct stop_at stop = {.n_left = 5};
    options = (struct generate_options){.max_tokens = 50, .use_cache = true, .on_token = count_down, .ctx = &stop};
    assert_true(engine_generate(&f.engine, &s, prompt, 3, &source, &options, out, &n_out, &e));
    assert_int_equal(n_out, 5);
    options.use_cache = false;
    assert_false(engine_generate(&f.engine, &s, prompt, 3, &source, &options, out, &n_out, &e)); // not empty
    assert_false(engine_generate(&f.engine, &s, prompt, 0, &source, &options, out, &n_out, &e));
    session_free(&f.engine, &s);
    teardown(&f);
}

// A prompt in chunks of any size, then a second turn that starts with the id not yet processed: always the same ids.
static void test_chunks_and_turns(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {0};
    struct sampler sampler;
    int32_t prompt[30], out[6][8], n_out;
    make_tokens(prompt, 30, 1);
    assert_true(sampler_init(&sampler, 0.8f, 20, 0.9f, 11, &e));
    struct token_source source = sampler_source(&sampler);
    setup(&f, (struct kv_config){.n_blocks = 20, .block_size = 4, .max_tokens = 32, .max_seqs = 1, .max_out = 1});
    for (int32_t i = 0; i < 6; i++) {
        struct session s = {{0}};
        struct generate_options options = {.max_tokens = 4, .use_cache = true, .chunk = 7 * i};
        assert_true(engine_generate(&f.engine, &s, prompt, 30, &source, &options, out[i], &n_out, &e));
        int32_t turn[] = {out[i][3], 8, 9};
        assert_true(engine_generate(&f.engine, &s, turn, 3, &source, &options, out[i] + 4, &n_out, &e));
        assert_memory_equal(out[i], out[0], sizeof out[0]);
        session_free(&f.engine, &s);
    }
    sampler_free(&sampler);
    teardown(&f);
}

static bool choose_by_draw(void *self, const struct choice *choice, int32_t n, int32_t *id, struct error *e)
{
    (void)self, (void)e;
    assert_true(n == 1 && choice->out_row == 0 && choice->temperature == 0.8f && choice->top_k == 20 &&
                choice->top_p == 0.9f);
    *id = (int32_t)(choice->u * 320);
    return true;
}

// A backend that chooses is given the sampler's rule and draw; logits are not asked for.
static void test_a_backend_may_choose(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {0};
    struct sampler sampler;
    struct session s = {{0}};
    const struct generate_options options = {.max_tokens = 5, .use_cache = true};
    int32_t prompt[6], out[5], n_out;
    make_tokens(prompt, 6, 1);
    assert_true(sampler_init(&sampler, 0.8f, 20, 0.9f, 11, &e));
    struct token_source source = sampler_source(&sampler);
    setup(&f, (struct kv_config){.n_blocks = 5, .block_size = 4, .max_tokens = 8, .max_seqs = 1, .max_out = 1});
    f.backend.choose = choose_by_draw, f.backend.read = NULL;
    assert_true(engine_generate(&f.engine, &s, prompt, 6, &source, &options, out, &n_out, &e));
    assert_int_equal(n_out, 5);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(out[i], (int32_t)(rng_uniform(rng_at(11, (uint64_t)(6 + i))) * 320));
    session_free(&f.engine, &s);
    sampler_free(&sampler);
    teardown(&f);
}

static bool supports_no_rope(void *self, const struct op *op, struct error *e)
{
    (void)self;
    return op->kind != OP_ROPE || error_set(e, ERROR_UNSUPPORTED, "rope is not implemented");
}

static void test_opening_refuses_what_the_backend_cannot_do(void **state)
{
    (void)state;
    struct fixture f;
    struct engine engine;
    struct error e = {0};
    struct kv_config kv = {.n_blocks = 4, .block_size = 4, .max_tokens = 8, .max_seqs = 1, .max_out = 1};
    setup(&f, kv);
    struct backend poor = f.backend;
    poor.supports = supports_no_rope;
    assert_false(engine_open(&engine, &f.plan, &poor, &kv, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "tiny"));
    kv.max_seqs = 0;
    assert_false(engine_open(&engine, &f.plan, &f.backend, &kv, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    engine_close(&engine);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cache_saves_598401_tokens),
        cmocka_unit_test(test_mixed_step),
        cmocka_unit_test(test_fork_copies_before_writing),
        cmocka_unit_test(test_truncate_and_go_another_way),
        cmocka_unit_test(test_no_room_changes_no_session),
        cmocka_unit_test(test_filled_context),
        cmocka_unit_test(test_steps_beyond_what_was_opened),
        cmocka_unit_test(test_generation_ends),
        cmocka_unit_test(test_chunks_and_turns),
        cmocka_unit_test(test_a_backend_may_choose),
        cmocka_unit_test(test_opening_refuses_what_the_backend_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
