// The CUDA cover, which needs no device: each operation once and in order, the kernels a family's layers must find, how
// strategies follow the rows; and the ways of not having the backend, one line each.
#include "tests/files.h"

#include "engine/cuda/cover.h"
#include "engine/cuda/cuda.h"
#include "roofline/catalogue.h"

static void make_plan(struct plan *plan, const char *model)
{
    struct model m;
    struct error e = {0};
    struct plan_options options = plan_options_default(DTYPE_BF16);
    if (!catalogue_open_model(&m, model, &e) || !plan_make(plan, &m.spec, &options, &e))
        fail_msg("%s", e.message);
    model_close(&m);
}

static int32_t cover(const struct plan *plan, struct batch_shape shape, struct span *spans)
{
    int32_t n = cuda_cover(NULL, plan, &shape, spans), next = 0;
    for (int32_t i = 0; i < n; next += spans[i++].count)
        assert_int_equal(spans[i].first, next);
    assert_int_equal(next, plan->n_ops);
    return n;
}

static int32_t count(const struct span *spans, int32_t n, uint16_t kernel)
{
    int32_t found = 0;
    for (int32_t i = 0; i < n; i++)
        found += spans[i].kernel == kernel;
    return found;
}

// A step of n_seqs sequences with `rows` rows each.
static struct batch_shape shape_of(int32_t n_seqs, int32_t rows)
{
    return (struct batch_shape){n_seqs * rows, n_seqs, n_seqs, rows, 100 + rows};
}

static void test_layers_of_families(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int32_t layers, per_layer; // spans
        uint16_t turned;           // how q and k get their positions
    } CASE[] = {
        // (add+)norm, qkv, rope, attn, o, add+norm, gate+up+act, down; the first norm stands alone, the last add+norm is the
        // head's
        {"qwen3-0.6b", 28, 8, CUDA_SPAN_NORM_ROPE_KV},
        {"llama-3.1-8b", 32, 8, CUDA_SPAN_ROPE_KV},
    };
    for (size_t c = 0; c < sizeof CASE / sizeof *CASE; c++) {
        struct plan plan;
        make_plan(&plan, CASE[c].model);
        struct span *spans = calloc((size_t)plan.n_ops, sizeof *spans);
        int32_t n = cover(&plan, shape_of(1, 1), spans), layers = CASE[c].layers;
        assert_int_equal(n, 1 + layers * CASE[c].per_layer + 2);
        assert_int_equal(count(spans, n, CASE[c].turned), layers);
        assert_int_equal(count(spans, n, CUDA_SPAN_QKV), layers);
        assert_int_equal(count(spans, n, CUDA_SPAN_GATE_UP_ACT), layers);
        assert_int_equal(count(spans, n, CUDA_SPAN_ADD_NORM), 2 * layers);
        assert_int_equal(count(spans, n, CUDA_SPAN_COUNT), 0);
        free(spans);
        plan_free(&plan);
    }
}

static void check_strategies(const struct plan *plan, struct batch_shape shape, uint16_t linear, uint16_t attn,
                             uint16_t head)
{
    struct span *spans = calloc((size_t)plan->n_ops, sizeof *spans);
    int32_t n = cover(plan, shape, spans);
    for (int32_t i = 0; i < n; i++)
        if (spans[i].kernel == CUDA_SPAN_ATTN)
            assert_int_equal(spans[i].strategy, attn);
        else if (plan->op[spans[i].first].kind == OP_LINEAR && plan->op[spans[i].first].rows == ROWS_TOKENS)
            assert_int_equal(spans[i].strategy, linear);
    assert_int_equal(spans[n - 1].kernel, CUDA_SPAN_LINEAR);
    assert_int_equal(spans[n - 1].strategy, head);
    free(spans);
}

static void test_strategies_follow_the_rows(void **state)
{
    (void)state;
    struct plan plan;
    make_plan(&plan, "qwen3-0.6b");
    check_strategies(&plan, shape_of(1, 1), CUDA_STRATEGY_OWN, CUDA_STRATEGY_OWN, CUDA_STRATEGY_OWN);
    check_strategies(&plan, shape_of(CUDA_OWN_ROWS, 1), CUDA_STRATEGY_OWN, CUDA_STRATEGY_OWN, CUDA_STRATEGY_OWN);
    check_strategies(&plan, shape_of(CUDA_OWN_ROWS + 1, 1), CUDA_STRATEGY_BLAS, CUDA_STRATEGY_OWN, CUDA_STRATEGY_BLAS);
    check_strategies(&plan, shape_of(1, 512), CUDA_STRATEGY_BLAS, CUDA_STRATEGY_PREFILL, CUDA_STRATEGY_OWN);
    plan_free(&plan);
}

// Any plan is covered, also one with operations that no kernel takes.
static void test_any_plan_is_covered(void **state)
{
    (void)state;
    static const char *const MODEL[] = {"deepseek-v3", "gemma-2-9b", "phi-3-mini-4k"};
    for (size_t i = 0; i < sizeof MODEL / sizeof *MODEL; i++) {
        struct plan plan;
        char path[1024];
        if (!catalogue_find("models", MODEL[i], path, sizeof path, NULL))
            continue;
        make_plan(&plan, MODEL[i]);
        struct span *spans = calloc((size_t)plan.n_ops, sizeof *spans);
        cover(&plan, shape_of(3, 7), spans);
        free(spans);
        plan_free(&plan);
    }
}

static void refuses(const char *part)
{
    struct backend b;
    struct backend_options options = {0};
    struct error e = {0};
    assert_false(backend_open(&b, "cuda", &options, &e));
    assert_error(&e, ERROR_DEVICE, part);
    assert_true(backend_open(&b, "auto", &options, &e)); // the CPU, with a word about it
    assert_string_equal(b.name, "cpu");
    assert_non_null(strstr(b.note, part));
    backend_close(&b);
}

static void test_ways_of_not_having_it(void **state)
{
    (void)state;
    char folder[64];
    scratch_make(folder);
    setenv("KVBENCH_BACKEND_DIR", folder, 1);
    refuses("is not there");
    scratch_text(folder, CUDA_PLUGIN_FILE, "this is no shared object");
    refuses("no CUDA backend: ");
    unsetenv("KVBENCH_BACKEND_DIR");
    scratch_remove(folder, CUDA_PLUGIN_FILE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_of_families),
        cmocka_unit_test(test_strategies_follow_the_rows),
        cmocka_unit_test(test_any_plan_is_covered),
        cmocka_unit_test(test_ways_of_not_having_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
