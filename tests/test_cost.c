// Costs against numbers worked by hand, against counting one by one, and under every cover.
#include "engine/base/rng.h"
#include "roofline/cost.h"
#include "tests/tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void make(struct plan *plan, struct model_spec spec, enum dtype weights, enum dtype kv, int32_t tp)
{
    struct plan_options options = plan_options_default(weights);
    struct error e = {0};
    options.kv_k = options.kv_v = kv;
    options.tp = tp;
    if (!plan_make(plan, &spec, &options, &e))
        fail_msg("%s", e.message);
}

static struct cost step_cost(const struct plan *plan, const struct batch *batch)
{
    struct cost cost;
    struct error e = {0};
    if (!cost_of_step(plan, batch, NULL, 0, &cost, &e))
        fail_msg("%s", e.message);
    return cost;
}

static struct cost uniform_cost(const struct plan *plan, int32_t n_seqs, int32_t n_new, int32_t context)
{
    struct batch batch;
    struct error e = {0};
    if (!batch_make_uniform(&batch, n_seqs, n_new, context, 16, &e))
        fail_msg("%s", e.message);
    struct cost cost = step_cost(plan, &batch);
    batch_free(&batch);
    return cost;
}

// tiny: 2 layers, D 64, H 4, K 2, d 16, F 96, V 320. One layer's matrices have 64*64 + 2*64*32 + 64*64 + 3*64*96 = 30720
// values; with norms: 2 * (30720 + 2*64) + 64 + head 64*320 = 82240.
static void test_decode_by_hand(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_BF16, DTYPE_BF16, 1);
    struct cost c = uniform_cost(&plan, 3, 1, 100);
    assert_int_equal(c.weight_bytes, 2 * (82240 + 3 * 64)); // and three rows of the embedding table
    assert_int_equal(c.kv_read_bytes, 3 * 100 * 2 * 2 * 2 * 16 * 2);
    assert_int_equal(c.kv_write_bytes, 3 * 2 * 2 * 2 * 16 * 2);
    assert_int_equal(c.link_bytes, 0);
    assert_int_equal(c.flops[DTYPE_BF16], 3 * (2 * (2 * 30720 + 64 * 320) + 2 * 4 * 4 * 16 * 100));
    assert_int_equal(cost_flops(&c), c.flops[DTYPE_BF16]);
    assert_int_equal(cost_bytes(&c), c.weight_bytes + c.kv_read_bytes + c.kv_write_bytes);
    plan_free(&plan);
}

// A tied head reads the whole table, and the look-up nothing more: each tensor once.
static void test_tied_head(void **state)
{
    struct plan plan;
    struct model_spec spec = tiny_spec();
    (void)state;
    spec.tie_word_embeddings = true;
    make(&plan, spec, DTYPE_BF16, DTYPE_BF16, 1);
    assert_int_equal(uniform_cost(&plan, 3, 1, 10).weight_bytes, 2 * 82240);
    assert_int_equal(uniform_cost(&plan, 1000, 1, 10).weight_bytes, 2 * 82240); // more rows than the table has
    assert_int_equal(uniform_cost(&plan, 3, 1, 10).weight_bytes, plan_weight_bytes(&plan));
    plan_free(&plan);
}

// Prefill of 5 tokens after 3: rows attend 4 + 5 + 6 + 7 + 8 = 30 keys; the rows of the last layer behind attention are one.
static void test_prefill_by_hand(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_F32, DTYPE_F32, 1);
    struct cost c = uniform_cost(&plan, 1, 5, 8);
    uint64_t qkv = 64 * 64 + 2 * 64 * 32, rest = 64 * 64 + 3 * 64 * 96;
    assert_int_equal(c.flops[DTYPE_F32], 2 * (5 * (2 * qkv + rest) + rest + 64 * 320) + 2 * 4 * 4 * 16 * 30);
    assert_int_equal(c.kv_read_bytes, 8 * 2 * 2 * 2 * 16 * 4);
    assert_int_equal(c.kv_write_bytes, 5 * 2 * 2 * 2 * 16 * 4);
    plan_free(&plan);
}

// int8 KV carries one f16 scale per token and head: 18 bytes for 16 values.
static void test_scales(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_BF16, DTYPE_INT8, 1);
    assert_int_equal(uniform_cost(&plan, 1, 1, 50).kv_read_bytes, 50 * 2 * 2 * 2 * 18);
    plan_free(&plan);
}

// tp 2: an all-reduce of [rows, 64] bf16 moves 2 * 1/2 of its bytes; there is one after the embedding and two per layer.
static void test_allreduce(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_BF16, DTYPE_BF16, 2);
    assert_int_equal(uniform_cost(&plan, 3, 1, 10).link_bytes, 5 * 3 * 64 * 2);
    plan_free(&plan);
}

// Pairs and positions one by one, for rows at any ascending positions.
static void count_attended(const struct batch *b, int32_t window, uint64_t *pairs, uint64_t *positions)
{
    *pairs = *positions = 0;
    for (int32_t s = 0; s < b->n_seqs; s++)
        for (int32_t key = 0; key < b->ctx_len[s]; key++) {
            bool read = false;
            for (int32_t r = b->seq_first[s]; r < b->seq_first[s + 1]; r++) {
                bool sees = key <= b->pos[r] && (!window || key > b->pos[r] - window);
                *pairs += sees;
                read |= sees;
            }
            *positions += read;
        }
}

enum { SEQS = 4, ROWS = 24 };

// Sequences of random length, adjacent or scattered rows; the last row of each is an output.
static struct batch random_batch(uint64_t seed, bool scattered)
{
    static int32_t token[SEQS * ROWS], pos[SEQS * ROWS], first[SEQS + 1], ctx[SEQS], out[SEQS];
    int32_t n = 0;
    for (int32_t s = 0; s < SEQS; s++) {
        int32_t rows = 1 + (int32_t)(rng_next(&seed) % ROWS), at = (int32_t)(rng_next(&seed) % 40);
        for (int32_t r = 0; r < rows; r++) {
            at += r ? 1 + (scattered ? (int32_t)(rng_next(&seed) % 5) : 0) : 0;
            token[n] = 0, pos[n++] = at;
        }
        ctx[s] = at + 1, out[s] = n - 1, first[s + 1] = n;
    }
    return (struct batch){.n_tokens = n,
                          .n_seqs = SEQS,
                          .n_out = SEQS,
                          .block_size = 16,
                          .token = token,
                          .pos = pos,
                          .seq_first = first,
                          .ctx_len = ctx,
                          .out_row = out};
}

static void test_attended_keys(void **state)
{
    static const int32_t WINDOW[] = {0, 1, 3, 17, 200};
    (void)state;
    for (size_t i = 0; i < sizeof WINDOW / sizeof *WINDOW; i++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct plan plan;
            struct model_spec spec = tiny_spec();
            struct batch batch = random_batch(seed, seed % 2);
            uint64_t pairs, positions;
            spec.window[0] = spec.window[1] = WINDOW[i];
            make(&plan, spec, DTYPE_BF16, DTYPE_BF16, 1);
            struct cost c = step_cost(&plan, &batch);
            count_attended(&batch, WINDOW[i], &pairs, &positions);
            assert_int_equal(c.kv_read_bytes, positions * 2 * 2 * 2 * 16 * 2);
            uint64_t rows = (uint64_t)batch.n_tokens, qkv = 64 * 64 + 2 * 64 * 32, rest = 64 * 64 + 3 * 64 * 96;
            uint64_t linear = 2 * (rows * (2 * qkv + rest) + SEQS * (rest + 64 * 320));
            assert_int_equal(c.flops[DTYPE_BF16] - linear, 2 * 4 * 4 * 16 * pairs);
            plan_free(&plan);
        }
}

// Adjacent operations grouped by a seed.
static int32_t random_cover(const struct plan *plan, uint64_t seed, struct span *spans)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_ops; n++) {
        int32_t count = 1 + (int32_t)(rng_next(&seed) % 12);
        count = count < plan->n_ops - i ? count : plan->n_ops - i;
        spans[n] = (struct span){.first = i, .count = count};
        i += count;
    }
    return n;
}

static void check_cover_is_free(const struct plan *plan, const struct batch *batch, uint64_t seed)
{
    struct error e = {0};
    struct cost alone = step_cost(plan, batch), c;
    struct span *spans = calloc((size_t)plan->n_ops, sizeof *spans);
    assert_true(cost_of_step(plan, batch, spans, random_cover(plan, seed, spans), &c, &e));
    free(spans);
    assert_int_equal(c.weight_bytes, alone.weight_bytes);
    assert_int_equal(c.kv_read_bytes, alone.kv_read_bytes);
    assert_int_equal(c.kv_write_bytes, alone.kv_write_bytes);
    assert_int_equal(c.link_bytes, alone.link_bytes);
    assert_memory_equal(c.flops, alone.flops, sizeof c.flops);
    assert_true(c.act_bytes <= alone.act_bytes);
}

static void test_same_under_every_cover(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct plan plan;
        struct model_spec spec = tiny_spec();
        struct batch batch = random_batch(seed, seed % 3 == 0);
        spec.tie_word_embeddings = seed % 2;
        spec.qkv_bias = seed % 5 == 0;
        spec.qk_norm = seed % 5 == 0 ? QK_NORM_HEAD : seed % 5 == 1 && seed % 4 ? QK_NORM_ROW : QK_NORM_NONE;
        spec.window[1] = seed % 7 ? 0 : 5;
        spec.norm_place = (enum norm_place)(seed / 3 % 3);
        make(&plan, spec, DTYPE_BF16, DTYPE_BF16, seed % 4 ? 1 : 2);
        check_cover_is_free(&plan, &batch, seed);
        plan_free(&plan);
    }
}

// One span for everything: nothing crosses its edge but the logits.
static void test_activations_at_the_edge(void **state)
{
    struct plan plan;
    struct batch batch = random_batch(7, false);
    struct error e = {0};
    struct cost c;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_BF16, DTYPE_BF16, 1);
    struct span all = {.first = 0, .count = plan.n_ops};
    assert_true(cost_of_step(&plan, &batch, &all, 1, &c, &e));
    assert_int_equal(c.act_bytes, SEQS * 320 * 2);
    // Split behind the embedding: its rows are written once and read once.
    struct span two[] = {{.first = 0, .count = 1}, {.first = 1, .count = plan.n_ops - 1}};
    assert_true(cost_of_step(&plan, &batch, two, 2, &c, &e));
    assert_int_equal(c.act_bytes, SEQS * 320 * 2 + 2 * (uint64_t)batch.n_tokens * 64 * 2);
    plan_free(&plan);
}

static void test_no_cover(void **state)
{
    struct plan plan;
    struct batch batch = random_batch(1, false);
    struct cost c;
    (void)state;
    make(&plan, tiny_spec(), DTYPE_BF16, DTYPE_BF16, 1);
    const struct span bad[][2] = {
        {{.first = 0, .count = 3}, {.first = 4, .count = plan.n_ops - 4}}, // a hole
        {{.first = 0, .count = 3}, {.first = 2, .count = plan.n_ops - 2}}, // twice
        {{.first = 0, .count = 3}, {.first = 3, .count = plan.n_ops}},     // beyond the end
        {{.first = 0, .count = 3}, {.first = 3, .count = 0}},              // empty
        {{.first = 0, .count = 3}, {.first = 3, .count = 2}},              // not all
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        assert_false(cost_of_step(&plan, &batch, bad[i], 2, &c, &e));
        assert_int_equal(e.kind, ERROR_FAILED);
    }
    plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_by_hand),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_prefill_by_hand),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_allreduce),
        cmocka_unit_test(test_attended_keys),
        cmocka_unit_test(test_same_under_every_cover),
        cmocka_unit_test(test_activations_at_the_edge),
        cmocka_unit_test(test_no_cover),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
