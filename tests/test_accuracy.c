// Errors of prediction by hand: sizes and signs, by phase and types, with and without a pred.
#include "bench/accuracy.h"
#include "tests/files.h"

#include <math.h>

static void put(struct stored *s, const char *phase, const char *weights, double median, double roof, double fraction,
                double pred, double pred_fraction)
{
    *s = (struct stored){0};
    result_init(&s->result);
    snprintf(s->result.phase, sizeof s->result.phase, "%s", phase);
    snprintf(s->result.weights, sizeof s->result.weights, "%s", weights);
    s->result.median_ns = median, s->result.roof_ns = roof, s->result.roof_fraction = fraction;
    s->result.pred_ns = pred, s->result.pred_fraction = pred_fraction;
}

static void test_by_hand(void **state)
{
    (void)state;
    struct stored row[5];
    struct accuracy *a;
    struct error e = {0};
    int32_t n;
    put(&row[0], "decode", "bf16", 100, 80, 0.9, 110, 1.05);
    put(&row[1], "decode", "bf16", 200, 100, 0.7, 180, 0.95);
    put(&row[2], "prefill", "bf16", 100, 50, 0.5, NAN, NAN);
    put(&row[3], "decode", "int8", 100, 90, 0.9, 100, 1);
    put(&row[4], "decode", "int8", NAN, 90, NAN, NAN, NAN); // failed
    assert_true(accuracy_of(row, 5, &a, &n, &e));
    assert_int_equal(n, 3);
    assert_true(a[0].n == 2 && a[0].n_pred == 2);
    assert_true(fabs(a[0].roof_mape - 0.35) < 1e-12 && fabs(a[0].roof_bias + 0.35) < 1e-12);
    assert_true(fabs(a[0].roof_paired_mape - 0.2) < 1e-12);
    assert_true(fabs(a[0].pred_mape - 0.1) < 1e-12 && fabs(a[0].pred_bias) < 1e-12);
    assert_true(fabs(a[0].pred_paired_mape - 0.05) < 1e-12 && fabs(a[0].pred_paired_bias) < 1e-12);
    assert_true(a[1].n == 1 && a[1].n_pred == 0 && isnan(a[1].pred_mape));
    assert_string_equal(a[1].phase, "prefill");
    assert_true(a[2].n == 1 && a[2].pred_mape == 0);
    free(a);
    struct store store = {.row = row, .n_rows = 5, .meta = cJSON_CreateObject()};
    for (int again = 0; again < 2; again++) { // once, however often
        assert_true(accuracy_record(&store, &e));
        const cJSON *list = cJSON_GetObjectItem(store.meta, "accuracy");
        assert_int_equal(cJSON_GetArraySize(store.meta), 1);
        assert_int_equal(cJSON_GetArraySize(list), 3);
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 1), "pred_mape")));
    }
    cJSON_Delete(store.meta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
