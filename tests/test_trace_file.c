// A Chrome trace is JSON with nested slices, and what its spans move adds up to the cost of the step.
#include "bench/trace_file.h"

#include "bench/open.h"
#include "engine/base/json.h"
#include "tests/files.h"

#include <math.h>

enum { CONTEXT = 20, STEPS = 2 };

static double number(const cJSON *object, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(m))
        fail_msg("no number '%s'", key);
    return m->valuedouble;
}

static const char *text(const cJSON *object, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(m))
        fail_msg("no text '%s'", key);
    return m->valuestring;
}

static void run_step(struct opened *o, struct session *s, struct trace *trace, struct trace_file *t,
                     const struct hardware *hw)
{
    static const int32_t token = 1;
    struct step step = {.session = s, .token = &token, .n_tokens = 1, .out = STEP_OUT_LAST};
    struct batch batch;
    struct error e = {0};
    session_truncate(&o->engine, s, CONTEXT - 1);
    trace->n = 0;
    int64_t begin = o->backend.now_ns(o->backend.self);
    assert_true(engine_step(&o->engine, &step, 1, trace, &e));
    int64_t end = o->backend.now_ns(o->backend.self);
    assert_true(batch_make_uniform(&batch, 1, 1, CONTEXT, CONTEXT, &e));
    assert_true(trace_file_add(t, &o->backend, o->plan, &batch, trace, hw, begin, end, &e));
    batch_free(&batch);
}

// Writes a trace of the tiny model's decode step on the cpu backend, and the step's cost.
static void write_trace(const char *path, const struct hardware *hw, struct cost *cost)
{
    struct opened o = {0};
    struct open_request request = {.model = "tests/golden/qwen3", .backend = "cpu", .seed = 1, .quiet = true};
    struct kv_config kv = kv_config_for(1, CONTEXT, 16, 1, 1);
    struct session session = {0};
    struct trace_row row[1000];
    struct trace trace = {.row = row, .capacity = 1000};
    struct trace_file t;
    struct batch batch;
    struct error e = {0};
    if (!open_model(&o, &request, &e) || !open_engine(&o, &kv, &e) || !session_fill(&o.engine, &session, CONTEXT - 1, 1, &e))
        fail_msg("%s", e.message);
    assert_true(trace_file_open(&t, "a \"title\"", &e));
    for (int i = 0; i < STEPS; i++)
        run_step(&o, &session, &trace, &t, hw);
    assert_int_equal(t.n_steps, STEPS);
    assert_true(trace_file_write(&t, path, &e));
    trace_file_close(&t);
    assert_true(batch_make_uniform(&batch, 1, 1, CONTEXT, CONTEXT, &e));
    assert_true(cost_of_step(o.plan, &batch, NULL, 0, cost, &e));
    batch_free(&batch);
    session_free(&o.engine, &session);
    open_close(&o);
}

static bool inside(const cJSON *inner, const cJSON *outer)
{
    const double us = 0.0015; // times are rounded to ns
    return number(inner, "ts") >= number(outer, "ts") - us &&
           number(inner, "ts") + number(inner, "dur") <= number(outer, "ts") + number(outer, "dur") + us;
}

struct sums {
    int n[3]; // steps, layers, spans
    double weights, kv_read, kv_write, flops;
};

static void check_event(const cJSON *event, const cJSON **step, const cJSON **layer, struct sums *sum)
{
    const char *category = text(event, "cat");
    assert_string_equal(text(event, "ph"), "X");
    assert_true(number(event, "dur") >= 0 && number(event, "pid") == 1 && number(event, "tid") == 1);
    if (!strcmp(category, "step")) {
        assert_true(!*step || number(event, "ts") >= number(*step, "ts") + number(*step, "dur") - 0.0015);
        *step = event;
        sum->n[0]++;
        return;
    }
    assert_true(*step && inside(event, *step));
    if (!strcmp(category, "layer")) {
        *layer = event;
        sum->n[1]++;
        return;
    }
    const cJSON *args = cJSON_GetObjectItem(event, "args");
    assert_string_equal(category, "span");
    assert_true(*text(event, "name") && *text(args, "kernel"));
    sum->weights += number(args, "weight_bytes"), sum->kv_read += number(args, "kv_read_bytes");
    sum->kv_write += number(args, "kv_write_bytes"), sum->flops += number(args, "flops");
    sum->n[2]++;
}

static void check_trace(const char *path, const struct cost *cost, bool has_roof)
{
    cJSON *json;
    struct error e = {0};
    struct sums sum = {0};
    const cJSON *step = NULL, *layer = NULL, *events;
    if (!json_load(path, &json, &e))
        fail_msg("%s", e.message);
    events = cJSON_GetObjectItem(json, "traceEvents");
    assert_true(cJSON_IsArray(events));
    assert_string_equal(text(events->child, "ph"), "M");
    assert_string_equal(text(cJSON_GetObjectItem(events->child, "args"), "name"), "a \"title\"");
    for (const cJSON *event = events->child->next; event; event = event->next)
        check_event(event, &step, &layer, &sum);
    assert_true(sum.n[0] == STEPS && sum.n[1] >= STEPS * 2 && sum.n[2] > STEPS * 10);
    assert_true(layer != NULL);
    assert_true(sum.weights == STEPS * (double)cost->weight_bytes && sum.flops == STEPS * (double)cost_flops(cost));
    assert_true(sum.kv_read == STEPS * (double)cost->kv_read_bytes && sum.kv_write == STEPS * (double)cost->kv_write_bytes);
    const cJSON *last = cJSON_GetArrayItem(events, cJSON_GetArraySize(events) - 1);
    assert_true(has_roof == !!cJSON_GetObjectItem(cJSON_GetObjectItem(last, "args"), "roof_us"));
    cJSON_Delete(json);
}

static void test_with_and_without_a_roof(void **state)
{
    (void)state;
    char folder[64], path[256];
    struct hardware hw;
    struct cost cost;
    struct error e = {0};
    scratch_make(folder);
    scratch_path(folder, "t.trace.json", path);
    write_trace(path, NULL, &cost);
    check_trace(path, &cost, false);
    assert_true(hardware_load(&hw, "h100-sxm", &e));
    write_trace(path, &hw, &cost);
    check_trace(path, &cost, true);
    scratch_remove(folder, "t.trace.json", NULL);
}

static void test_output_that_cannot_be_written(void **state)
{
    (void)state;
    struct trace_file t;
    struct error e = {0};
    assert_true(trace_file_open(&t, "x", &e));
    assert_false(trace_file_write(&t, "/nonexistent/x.trace.json", &e));
    assert_int_equal(e.kind, ERROR_OUTPUT);
    trace_file_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_and_without_a_roof),
        cmocka_unit_test(test_output_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
