// Benching a tiny model: every span of its steps is a row, their bytes and FLOPs are the step's, and they make a fit.
#include "bench/kernels.h"
#include "tests/files.h"

#include <math.h>

static const struct kernel_shape SHAPE[] = {{1, 0, 8}, {2, 0, 20}, {3, 0, 40}, {5, 0, 12}, {1, 16, 16}, {2, 24, 24}};
enum { N_SHAPES = sizeof SHAPE / sizeof *SHAPE };

static struct hardware some_hardware(void)
{
    struct hardware hw = {.name = "test", .title = "test"};
    hw.bandwidth[ROOF_ATTAINABLE].value = 20e9;
    hw.peak[ROOF_ATTAINABLE][DTYPE_F32].value = 100e9;
    hw.peak[ROOF_ATTAINABLE][DTYPE_BF16].value = 100e9;
    return hw;
}

static struct kernel_job tiny_job(void)
{
    struct model_spec spec[8];
    struct kernel_job job = {.name = "tiny", .weights = DTYPE_BF16, .kv = DTYPE_BF16, .shape = SHAPE, .n_shapes = N_SHAPES};
    assert_true(kernel_fit_models(spec, 8) > 0);
    job.spec = spec[0];
    job.spec.hidden_size = 64, job.spec.intermediate_size = 128, job.spec.vocab_size = 320, job.spec.num_hidden_layers = 2;
    job.fits = true;
    return job;
}

// What the rows of one shape read in a step, all spans together.
static double weights_of(const struct kernels *k, const struct kernel_shape *s)
{
    double sum = 0;
    for (int32_t i = 0; i < k->n_rows; i++)
        if (k->row[i].batch == s->batch && k->row[i].context == s->context)
            sum += k->row[i].weight_bytes * (double)k->row[i].count;
    return sum;
}

static double weights_of_step(const struct kernel_job *job, const struct kernel_shape *s)
{
    struct plan plan;
    struct batch batch;
    struct cost cost;
    struct error e;
    struct plan_options options = plan_options_default(job->weights);
    assert_true(plan_make(&plan, &job->spec, &options, &e));
    assert_true(batch_make_uniform(&batch, s->batch, s->n_prompt ? s->n_prompt : 1, s->context, s->context, &e));
    assert_true(cost_of_step(&plan, &batch, NULL, 0, &cost, &e));
    batch_free(&batch);
    plan_free(&plan);
    return (double)cost.weight_bytes;
}

static void test_rows_and_fit(void **state)
{
    (void)state;
    struct hardware hw = some_hardware();
    struct progress progress;
    struct error e = {0};
    struct fit fit;
    static struct kernel_jobs jobs;
    jobs.job[jobs.n++] = tiny_job();
    struct kernels k = {.hw = &hw, .device = {.threads = 1}, .progress = &progress, .rounds = 3, .point_s = 0.1, .seed = 1};
    progress_begin(&progress, NULL, 0, 0);
    if (!kernels_measure(&k, &jobs, &e))
        fail_msg("%s", e.message);
    assert_true(k.n_rows > 6 * N_SHAPES);
    assert_int_equal(k.n_steps, 3 * N_SHAPES);
    assert_int_equal(k.n_points, N_SHAPES);
    for (int32_t i = 0; i < k.n_rows; i++) {
        const struct kernel_row *r = &k.row[i];
        assert_true(r->count > 0 && r->median_ns > 0 && r->n_samples == 3 && r->samples_ns.n == 3 && r->rows > 0);
        assert_true(r->floor_ns >= r->bytes_ns && r->floor_ns >= r->flops_ns && *r->fit && *r->kernel && *r->op);
    }
    for (int32_t i = 0; i < N_SHAPES; i++)
        assert_true(weights_of(&k, &SHAPE[i]) == weights_of_step(&jobs.job[0], &SHAPE[i]));
    if (!kernels_fit(&k, &fit, &e))
        fail_msg("%s", e.message);
    assert_int_equal(fit.n_steps, k.n_steps);
    assert_non_null(fit_find(&fit, FIT_STEP));
    assert_true(isfinite(fit.step_error) && fit.step_error >= fabs(fit.step_bias));
    for (int32_t i = 0; i < k.n_rows; i++)
        assert_true(k.row[i].pred_ns > 0);
    fit_free(&fit);
    kernels_free(&k);
    assert_true(!k.row && !k.n_rows);
}

static void test_interrupted(void **state)
{
    (void)state;
    static struct kernel_jobs jobs;
    volatile sig_atomic_t stop = 1;
    struct hardware hw = some_hardware();
    struct progress progress;
    struct error e = {0};
    jobs.job[jobs.n++] = tiny_job();
    struct kernels k = {.hw = &hw, .device = {.threads = 1}, .progress = &progress, .stop = &stop, .rounds = 3, .seed = 1};
    progress_begin(&progress, NULL, 0, 0);
    assert_false(kernels_measure(&k, &jobs, &e));
    assert_int_equal(e.kind, ERROR_INTERRUPTED);
    kernels_free(&k);
}

static void test_jobs(void **state)
{
    (void)state;
    static struct kernel_jobs jobs;
    struct hardware hw = some_hardware();
    struct weights_list types = {.n = 2, .value = {DTYPE_BF16, DTYPE_INT4}};
    struct error e = {0};
    hw.cache_bytes = (uint64_t)32 << 20;
    assert_true(kernel_jobs_make(&jobs, NULL, &types, &hw, false, &e));
    for (int32_t i = 0; i < jobs.n; i++) { // layers beyond what the cache keeps
        struct plan plan;
        struct plan_options options = plan_options_default(jobs.job[i].weights);
        assert_true(plan_make(&plan, &jobs.job[i].spec, &options, &e));
        assert_true(plan_weight_bytes(&plan) > 4 * hw.cache_bytes);
        assert_int_equal(jobs.job[i].fits, !strncmp(jobs.job[i].name, "fit-", 4));
        plan_free(&plan);
    }
    int32_t all = jobs.n;
    assert_true(kernel_jobs_make(&jobs, "fit", &types, &hw, false, &e) && jobs.n < all && jobs.job[0].fits);
    assert_true(kernel_jobs_make(&jobs, NULL, &types, &hw, true, &e) && !jobs.job[jobs.n - 1].fits);
    assert_false(kernel_jobs_make(&jobs, "gpt-2", &types, &hw, false, &e));
    assert_error(&e, ERROR_USAGE, "'gpt-2', expected qwen3-0.6b, llama-3-8b or fit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_fit),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
