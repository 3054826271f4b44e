// The fit: known kernels are found again, through noise and outliers; what is left out is predicted; a file holds all of it;
// and another machine's is not used.
#include "bench/fitted.h"
#include "bench/kernels.h"
#include "engine/base/rng.h"
#include "engine/cpu/cpu.h"
#include "tests/files.h"

#include <glob.h>
#include <math.h>

enum { POINTS = 24, EACH = 5, SAMPLES = POINTS * EACH };

// Points from memory-bound to compute-bound, with samples that spread by `noise`.
static void make_samples(const struct fit_kernel *truth, double noise, struct fit_sample out[SAMPLES])
{
    uint64_t rng = 3;
    for (int32_t i = 0; i < SAMPLES; i++) {
        int32_t p = i / EACH;
        double rows = pow(2, p % 12);
        struct fit_work w = {.bytes_ns = 1e5 * (1 + p % 5), .flops_ns = 2e3 * rows * (1 + p % 5), .rows = rows};
        w.act_bytes = 4096 * rows * (1 + p % 3);
        double off = 1 + noise * (2 * (double)rng_uniform(rng_next(&rng)) - 1);
        out[i] = (struct fit_sample){.work = w, .ns = fit_span_ns(truth, &w) * off, .point = p};
    }
}

static struct fit_kernel solve(const char *name, const struct fit_sample *sample, int32_t n, double *held_out)
{
    struct fit_kernel k;
    struct error e = {0};
    if (!fit_solve(&k, name, sample, n, held_out, &e))
        fail_msg("%s", e.message);
    return k;
}

static void assert_near(double got, double expected, double share)
{
    if (fabs(got - expected) > share * fabs(expected))
        fail_msg("%g, expected %g", got, expected);
}

static const struct fit_kernel TRUTH = {
    .longer = 1.1, .shorter = 0.2, .ratio = 1.4142135623730951, .act = 0.01, .span = 4000};

static void test_known_kernel_is_found(void **state)
{
    (void)state;
    struct fit_sample sample[SAMPLES];
    double held_out[SAMPLES];
    make_samples(&TRUTH, 0, sample);
    struct fit_kernel k = solve("known", sample, SAMPLES, held_out);
    assert_near(k.longer, TRUTH.longer, 0.01);
    assert_near(k.ratio, TRUTH.ratio, 0.01); // it is on the grid
    assert_near(k.shorter, TRUTH.shorter, 0.05);
    assert_near(k.span, TRUTH.span, 0.05);
    assert_true(k.error < 1e-3);
    assert_int_equal(k.n, SAMPLES);
    assert_int_equal(k.n_points, POINTS);
    for (int32_t i = 0; i < SAMPLES; i++)
        assert_near(held_out[i], sample[i].ns, 0.01);
}

// One sample in ten takes ten times as long, as when a hypervisor takes the CPU away.
static void test_outliers_do_not_move_it(void **state)
{
    (void)state;
    struct fit_sample sample[SAMPLES];
    double held_out[SAMPLES], worst = 0;
    make_samples(&TRUTH, 0.04, sample);
    for (int32_t i = 0; i < SAMPLES; i += 10)
        sample[i].ns *= 10;
    struct fit_kernel k = solve("noisy", sample, SAMPLES, held_out);
    for (int32_t i = 0; i < SAMPLES; i++) {
        double right = fit_span_ns(&TRUTH, &sample[i].work);
        worst = fmax(worst, fabs(fit_span_ns(&k, &sample[i].work) / right - 1));
    }
    assert_true(worst < 0.05);
}

// The error is of points that were left out: a fit through noise without a law does not look good.
static void test_error_is_of_unseen_points(void **state)
{
    (void)state;
    struct fit_sample sample[SAMPLES];
    double held_out[SAMPLES];
    make_samples(&TRUTH, 0, sample);
    for (int32_t i = 0; i < SAMPLES; i++)
        sample[i].ns = 1000 * (1 + sample[i].point * 7 % 11); // by point alone, whatever its work
    assert_true(solve("lawless", sample, SAMPLES, held_out).error > 0.2);
}

// Samples of one bandwidth cannot tell whether time goes with bytes or with FLOPs where both grow together. A kernel at a
// quarter of the read ceiling is then not expected to get slower with the memory; one near it is.
static void test_what_is_far_from_memory_is_arithmetic(void **state)
{
    (void)state;
    for (int near = 0; near < 2; near++) {
        struct fit_sample sample[SAMPLES];
        double held_out[SAMPLES];
        for (int32_t i = 0; i < SAMPLES; i++) {
            double bytes = 1e4 * (1 + i / EACH);
            sample[i] = (struct fit_sample){.work = {.bytes_ns = bytes, .flops_ns = bytes, .rows = 1}, .point = i / EACH};
            sample[i].ns = 5000 + bytes * (near ? 1.1 : 4) * (1 + 0.02 * (i % EACH - 2));
        }
        struct fit_kernel k = solve("both", sample, SAMPLES, held_out);
        struct fit_work slow = {.bytes_ns = 2e5, .flops_ns = 1e5, .rows = 1}; // half of the bandwidth
        double time = fit_span_ns(&k, &slow), at_full = 5000 + 1e5 * (near ? 1.1 : 4);
        assert_near(time, near ? 5000 + 2e5 * 1.1 : at_full, 0.12);
    }
}

static void test_nothing_is_negative(void **state)
{
    (void)state;
    struct fit_sample sample[SAMPLES];
    double held_out[SAMPLES];
    make_samples(&TRUTH, 0, sample);
    for (int32_t i = 0; i < SAMPLES; i++)
        sample[i].ns = 1e6 / (1 + sample[i].work.rows); // falls with the work
    struct fit_kernel k = solve("falling", sample, SAMPLES, held_out);
    assert_true(k.longer >= 0 && k.shorter >= 0 && k.act >= 0 && k.row >= 0 && k.span >= 0);
}

static void test_too_few_points(void **state)
{
    (void)state;
    struct fit_sample sample[SAMPLES];
    double held_out[SAMPLES];
    struct fit_kernel k;
    struct error e = {0};
    make_samples(&TRUTH, 0, sample);
    assert_false(fit_solve(&k, "few", sample, 3 * EACH, held_out, &e));
    assert_error(&e, ERROR_FAILED, "3 points");
}

static void test_file(void **state)
{
    (void)state;
    char folder[64], path[256];
    struct error e = {0};
    struct fit_kernel kernel[2] = {TRUTH, TRUTH};
    struct fit f = {.hardware = "a machine, 2 threads", .isa = "avx512", .tool = "v1", .date = "2026-11-29T00:00:00Z"};
    struct fit g;
    f.n = 120, f.n_steps = 7, f.step_error = 0.04, f.step_bias = -0.01;
    f.kernel = kernel, f.n_kernels = 2;
    snprintf(kernel[0].name, sizeof kernel[0].name, "linear/0/bf16/bf16");
    snprintf(kernel[1].name, sizeof kernel[1].name, FIT_STEP);
    scratch_make(folder);
    assert_true(fit_save(&f, scratch_path(folder, "fit.json", path), &e) && fit_load(&g, path, &e));
    assert_string_equal(g.hardware, f.hardware);
    assert_int_equal(g.n_kernels, 2);
    assert_true(g.kernel[0].longer == TRUTH.longer && g.kernel[0].act == TRUTH.act && g.step_bias == f.step_bias);
    assert_non_null(fit_find(&g, FIT_STEP));
    assert_null(fit_find(&g, "linear/0/f32/f32"));
    fit_free(&g);
    static const char *const BAD[] = {"{}", "[]", "{\"kernels\": []}", "{\"kernels\": [1]}",
                                      "{\"kernels\": [{\"name\": \"x\", \"longer\": -1}]}"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        scratch_text(folder, "bad.json", BAD[i]);
        assert_false(fit_load(&g, scratch_path(folder, "bad.json", path), &e));
        assert_null(g.kernel);
    }
    scratch_remove(folder, "fit.json", "bad.json", NULL);
}

static void test_only_this_machine_uses_it(void **state)
{
    (void)state;
    char folder[64], path[256];
    struct error e = {0};
    struct fit_kernel kernel = TRUTH;
    struct fit f = {.hardware = "this one", .isa = "avx2", .tool = "v1", .kernel = &kernel, .n_kernels = 1};
    struct fitted x;
    struct hardware here = {.title = "this one"}, other = {.title = "another one"};
    scratch_make(folder);
    fitted_find(&x, folder, 0, &here, "avx2");
    assert_true(!x.known && !*x.reason); // nothing there, nothing to say
    assert_true(fit_save(&f, scratch_path(folder, "fit.json", path), &e));
    fitted_find(&x, folder, 0, &here, "avx2");
    assert_true(x.known);
    assert_non_null(strstr(x.reason, "by kvbench v1")); // of another version: used, and said
    fitted_free(&x);
    fitted_find(&x, folder, 0, &other, "avx2");
    assert_false(x.known);
    assert_non_null(strstr(x.reason, "another one"));
    fitted_free(&x);
    fitted_find(&x, folder, 0, &here, "avx512");
    assert_false(x.known);
    assert_non_null(strstr(x.reason, "avx512"));
    fitted_free(&x);
    fitted_find(&x, folder, 3, &here, "avx2"); // fit-t3.json is not there
    assert_false(x.known);
    scratch_remove(folder, "fit.json", NULL);
}

static struct model_spec tiny_spec(void)
{
    struct model_spec spec[8];
    assert_true(kernel_fit_models(spec, 8) > 1);
    spec[0].num_hidden_layers = 2;
    return spec[0];
}

// A step is its spans and what lies around them; a kernel nobody has fitted leaves it unpredicted.
static void test_step_is_the_sum_of_its_spans(void **state)
{
    (void)state;
    struct plan plan;
    struct batch batch;
    struct error e = {0};
    struct hardware hw = {.name = "x"};
    struct model_spec spec = tiny_spec();
    struct plan_options options = plan_options_default(DTYPE_BF16);
    struct span span[256];
    struct fit_kernel kernel[64];
    struct fit f = {.kernel = kernel};
    const struct fit_cover cover = {cpu_cover, cpu_kernel_name, NULL};
    hw.bandwidth[ROOF_ATTAINABLE].value = 50e9, hw.peak[ROOF_ATTAINABLE][DTYPE_BF16].value = 1e12;
    assert_true(plan_make(&plan, &spec, &options, &e) && batch_make_uniform(&batch, 3, 1, 100, 100, &e));
    struct batch_shape shape = batch_shape_of(&batch);
    int32_t n = cpu_cover(NULL, &plan, &shape, span);
    for (int32_t i = 0; i < n; i++) { // every kernel takes 1000 ns a span
        char name[FIT_NAME];
        fit_span_name(&plan, &span[i], cpu_kernel_name(NULL, span[i].kernel), name);
        if (fit_find(&f, name))
            continue;
        kernel[f.n_kernels] = (struct fit_kernel){.span = 1000, .ratio = 1};
        memcpy(kernel[f.n_kernels++].name, name, sizeof name);
    }
    double ns;
    char missing[FIT_NAME];
    assert_true(fit_step_ns(&f, &cover, &plan, &batch, &hw, &ns, missing, &e));
    assert_true(ns == 0);
    assert_string_equal(missing, FIT_STEP);
    kernel[f.n_kernels++] = (struct fit_kernel){.name = FIT_STEP, .span = 500, .row = 10};
    assert_true(fit_step_ns(&f, &cover, &plan, &batch, &hw, &ns, missing, &e));
    assert_true(ns == 1000.0 * n + 500 + 3 * 10);
    memset(kernel[0].name, 'z', 4);
    assert_true(fit_step_ns(&f, &cover, &plan, &batch, &hw, &ns, missing, &e));
    assert_true(ns == 0 && *missing);
    batch_free(&batch);
    plan_free(&plan);
}

// No scenario has a point of the fit: neither its batch with its context or prompt, nor a model of its sizes.
static void test_scenarios_do_not_use_the_fits_shapes(void **state)
{
    (void)state;
    glob_t found;
    int32_t n_shapes, compared = 0;
    const struct kernel_shape *shape = kernel_fit_shapes(&n_shapes);
    struct model_spec spec[8];
    int32_t n_models = kernel_fit_models(spec, 8);
    assert_int_equal(glob("configs/*.json", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct scenario s;
        struct planner planner;
        struct point_list list;
        struct error e = {0};
        if (!scenario_load(&s, found.gl_pathv[i], &e))
            fail_msg("%s", e.message);
        planner_init(&planner, &s);
        assert_true(point_list_make(&list, &s, &planner, NULL, &e));
        for (int32_t p = 0; p < list.n; p++, compared++) {
            const struct point *point = &list.point[p];
            for (int32_t k = 0; k < n_shapes; k++)
                if (point->batch == shape[k].batch && point->context == shape[k].context)
                    fail_msg("'%s' of %s is a shape of the fit", point->key, found.gl_pathv[i]);
            const struct model *m = planner_model(&planner, point, &e);
            for (int32_t k = 0; k < n_models; k++)
                assert_int_not_equal(m->spec.hidden_size, spec[k].hidden_size);
        }
        point_list_free(&list);
        planner_free(&planner);
    }
    globfree(&found);
    assert_true(compared > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_kernel_is_found),
        cmocka_unit_test(test_outliers_do_not_move_it),
        cmocka_unit_test(test_error_is_of_unseen_points),
        cmocka_unit_test(test_what_is_far_from_memory_is_arithmetic),
        cmocka_unit_test(test_nothing_is_negative),
        cmocka_unit_test(test_too_few_points),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_only_this_machine_uses_it),
        cmocka_unit_test(test_step_is_the_sum_of_its_spans),
        cmocka_unit_test(test_scenarios_do_not_use_the_fits_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
