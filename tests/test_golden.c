// The engine against logits of independent implementations, on every instruction set this machine runs; and that a wrong
// model would be noticed.
#include "bench/verify.h"
#include "engine/base/file.h"
#include "tests/golden_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void open_golden(struct opened *o, const char *path, const char *isa)
{
    struct open_request request = {.model = path, .backend = "cpu", .device = {.threads = 2, .isa = isa}};
    struct error e = {0};
    if (!open_model(o, &request, &e))
        fail_msg("%s", e.message);
}

static void run(struct opened *o, const char *path, struct verify_report *report)
{
    struct verify_options options = {.kv = DTYPE_F32};
    struct error e = {0};
    *report = (struct verify_report){0};
    if (!verify_golden(o, &options, path, report, &e))
        fail_msg("%s", e.message);
    assert_int_equal(report->n, 3); // one pass, with cache, greedy ids
}

static void assert_passes(const char *path, const char *isa)
{
    struct opened o;
    struct verify_report report;
    open_golden(&o, path, isa);
    run(&o, path, &report);
    for (int32_t i = 0; i < report.n; i++)
        if (!report.check[i].passed)
            fail_msg("%s, %s, %s: %g (%s)", path, isa, report.check[i].name, report.check[i].max_diff,
                     report.check[i].detail);
    open_close(&o);
}

static void run_isa(const char *isa)
{
    struct backend backend;
    struct backend_options options = {.threads = 1, .isa = isa};
    struct error e = {0};
    if (!backend_open(&backend, "cpu", &options, &e)) {
        print_message("%s\n", e.message);
        skip();
    }
    backend_close(&backend);
    for (int i = 0; i < GOLDEN_MODELS; i++)
        assert_passes(GOLDEN_MODEL[i], isa);
}

static void test_ref(void **state)
{
    (void)state;
    run_isa("ref");
}

static void test_avx2(void **state)
{
    (void)state;
    run_isa("avx2");
}

static void test_avx2vnni(void **state)
{
    (void)state;
    run_isa("avx2vnni");
}

static void test_avx512(void **state)
{
    (void)state;
    run_isa("avx512");
}

static void test_avx512vnni(void **state)
{
    (void)state;
    run_isa("avx512vnni");
}

static void test_avx512bf16(void **state)
{
    (void)state;
    run_isa("avx512bf16");
}

enum fault { THETA, EPS, ONE_WEIGHT, WINDOW, ROTARY_PAIRS, FAULTS };

// Small wrongs that a port of such a model may have.
static void put_in(struct opened *o, enum fault fault)
{
    struct model_spec *s = &o->model.spec;
    switch (fault) {
    case THETA: s->rope.theta *= 1.01; break;
    case EPS: s->rms_norm_eps = 1e-3f; break;
    case ONE_WEIGHT: {
        int32_t id = 1; // the first norm
        struct tensor *t = &o->weights.tensor[id];
        float *copy = malloc((size_t)t->cols * sizeof *copy);
        struct error e = {0};
        assert_true(copy && t->dtype == DTYPE_F32 && tensor_read(t, 0, 1, copy, &e));
        copy[3] *= 1.05f;
        *t = (struct tensor){.data = copy, .dtype = DTYPE_F32, .rows = t->rows, .cols = t->cols};
        assert_true(o->backend.load(o->backend.self, o->plan, o->weights.tensor, &e));
        break;
    }
    case WINDOW: s->window[s->num_hidden_layers - 1]--; break;
    case ROTARY_PAIRS: s->rope.rotary_dim -= 2; break;
    case FAULTS: break;
    }
}

static void test_wrong_models_are_noticed(void **state)
{
    (void)state;
    for (enum fault f = 0; f < FAULTS; f++) {
        const char *path = f == WINDOW ? "tests/golden/mistral-swa" : "tests/golden/llama-gqa";
        struct opened o;
        struct verify_report report;
        open_golden(&o, path, "auto");
        put_in(&o, f);
        run(&o, path, &report);
        assert_false(report.check[0].passed);
        assert_false(report.check[1].passed);
        assert_in_range(report.n_failed, 2, 3);
        if (f == ONE_WEIGHT)
            free((void *)o.weights.tensor[1].data);
        open_close(&o);
    }
}

static void test_missing_and_foreign_references(void **state)
{
    (void)state;
    static const char *const path[] = {"tests/golden", "tests/golden/nothing.gguf", "tests/golden/qwen3/config.json",
                                       "tests/golden/gguf_blocks.json"};
    struct verify_options options = {.kv = DTYPE_F32};
    struct verify_report report = {0};
    struct opened o;
    struct error e;
    open_golden(&o, "tests/golden/llama-gqa", "auto");
    for (int i = 0; i < 4; i++) {
        assert_false(verify_golden(&o, &options, path[i], &report, &e));
        assert_int_equal(e.kind, ERROR_FILE);
    }
    assert_int_equal(report.n, 0);
    // Somebody else's logits are read, and disagree.
    assert_true(verify_golden(&o, &options, "tests/golden/llama-mha", &report, &e));
    assert_true(report.n_failed >= 2);
    open_close(&o);
}

// The real model, where `make model` has fetched it.
static void test_real_model(void **state)
{
    (void)state;
    static const char *const path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    struct verify_options options = {.kv = DTYPE_F32};
    struct verify_report report = {0};
    struct opened o;
    struct error e = {0};
    if (!file_exists(path)) {
        print_message("'%s' is not here, `make model` fetches it\n", path);
        skip();
    }
    open_golden(&o, path, "auto");
    assert_true(verify_golden(&o, &options, "tests/golden/smollm2.json", &report, &e));
    assert_int_equal(report.n, 12);
    assert_int_equal(report.n_failed, 0);
    open_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx2vnni),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512vnni),
        cmocka_unit_test(test_avx512bf16),
        cmocka_unit_test(test_wrong_models_are_noticed),
        cmocka_unit_test(test_missing_and_foreign_references),
        cmocka_unit_test(test_real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
