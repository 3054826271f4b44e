// Perplexity against logits of an independent implementation, and what cannot be measured.
#include "bench/perplexity.h"
#include "engine/base/json.h"
#include "tests/files.h"

#include <math.h>

static const char MODEL[] = "tests/golden/llama-gqa";

// The teacher-forced sequence of the reference: prompt and all generated ids but the last.
static int32_t read_sequence(int32_t *id, int32_t capacity)
{
    static const char *const KEY[] = {"prompt", "greedy"};
    cJSON *json;
    const cJSON *item;
    struct error e;
    int32_t n = 0;
    assert_true(json_load("tests/golden/llama-gqa/reference.json", &json, &e));
    for (int k = 0; k < 2; k++)
        cJSON_ArrayForEach(item, json_member(json, KEY[k]))
        {
            assert_true(n < capacity);
            id[n++] = item->valueint;
        }
    cJSON_Delete(json);
    return n - 1;
}

// Mean of -log softmax(reference row)[next id], in the most obvious way.
static double reference_nll(const int32_t *id, int32_t n)
{
    size_t size;
    float *logits = (float *)(void *)slurp("tests/golden/llama-gqa/logits.f32", &size);
    int32_t vocab = (int32_t)(size / sizeof(float)) / n;
    double nll = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        const float *row = logits + (size_t)i * (size_t)vocab;
        double sum = 0;
        for (int32_t k = 0; k < vocab; k++)
            sum += exp((double)row[k]);
        nll += log(sum) - (double)row[id[i + 1]];
    }
    free(logits);
    return nll / (n - 1);
}

static void open_tiny(struct opened *o)
{
    struct open_request request = {.model = MODEL, .backend = "cpu", .device = {.threads = 1}};
    struct error e = {0};
    if (!open_model(o, &request, &e))
        fail_msg("%s", e.message);
}

static void test_equals_the_reference(void **state)
{
    (void)state;
    struct opened o;
    struct perplexity p;
    struct error e = {0};
    int32_t id[256] = {0}, n = read_sequence(id, 128);
    struct perplexity_options options = {.window = n, .kv = DTYPE_F32};
    memcpy(id + n, id, (size_t)n * sizeof *id); // two windows that do not see each other
    open_tiny(&o);
    assert_true(perplexity_measure(&o, &options, id, 2 * n + 1, &p, &e));
    assert_int_equal(p.n_windows, 2);
    double expected = reference_nll(id, n);
    assert_true(fabs(p.nll[0] - expected) < 1e-4 && p.nll[1] == p.nll[0]);
    assert_true(fabs(p.mean - p.nll[0]) < 1e-12 && fabs(p.value - exp(expected)) < 1e-3 * p.value);
    perplexity_free(&p);
    options.windows = 1;
    assert_true(perplexity_measure(&o, &options, id, 2 * n, &p, &e));
    assert_int_equal(p.n_windows, 1);
    perplexity_free(&p);
    id[1] = (id[1] + 1) % o.plan->vocab_size; // and another text has another number
    assert_true(perplexity_measure(&o, &options, id, n, &p, &e));
    assert_true(fabs(p.mean - expected) > 1e-4);
    perplexity_free(&p);
    open_close(&o);
}

static void refuse(struct opened *o, struct perplexity_options options, const int32_t *id, int32_t n, enum error_kind kind,
                   const char *part)
{
    struct perplexity p;
    struct error e = {0};
    assert_false(perplexity_measure(o, &options, id, n, &p, &e));
    assert_error(&e, kind, part);
}

static void test_refusals(void **state)
{
    (void)state;
    struct opened o;
    int32_t id[64] = {0};
    open_tiny(&o);
    refuse(&o, (struct perplexity_options){.window = 1}, id, 64, ERROR_USAGE, "'--window' is 1");
    refuse(&o, (struct perplexity_options){.window = 1 << 30}, id, 64, ERROR_USAGE, "the context of");
    refuse(&o, (struct perplexity_options){.window = 8, .windows = -1}, id, 64, ERROR_USAGE, "'--windows' is -1");
    refuse(&o, (struct perplexity_options){.window = 8}, id, 7, ERROR_USAGE, "7 tokens, fewer than one window of 8");
    id[3] = o.plan->vocab_size;
    refuse(&o, (struct perplexity_options){.window = 8}, id, 64, ERROR_FILE, "outside the model's vocabulary");
    open_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_reference),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
