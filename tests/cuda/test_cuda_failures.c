// Every call of the CUDA runtime and of cuBLAS fails once: what asked says so in one line, the same asked again works, the
// answer is right, and nothing is left behind (host memory: AddressSanitizer sees it).
#include "tests/cuda/emu_runtime.h"
#include "tests/cuda/rig.h"

#include <stdio.h>

enum { PROMPT = CUDA_OWN_ROWS + 4, TRACE = 64 }; // by the libraries

static struct draft step;

struct cycle {
    struct rig rig;
    struct kv_config config;
    struct trace_row row[TRACE];
    int32_t failures; // seen so far
    const char *at;   // what was asked last
};

// One failure at most, and a readable one.
static bool ask(struct cycle *c, const char *what, bool (*try)(struct cycle *, struct error *))
{
    struct error e = {0};
    c->at = what;
    if (try(c, &e))
        return true;
    if (c->failures++ || !*e.message || strchr(e.message, '\n') || (e.kind != ERROR_DEVICE && e.kind != ERROR_MEMORY))
        fail_msg("%s: failure %d: '%s' (kind %d)", what, c->failures, e.message, (int)e.kind);
    return ask(c, what, try);
}

static bool open_device(struct cycle *c, struct error *e)
{
    return kvbench_cuda_plugin_1()->open(&c->rig.backend, &(struct backend_options){.isa = "fixed"}, e);
}

static bool load(struct cycle *c, struct error *e)
{
    return c->rig.backend.load(c->rig.backend.self, &c->rig.plan, c->rig.w, e);
}

static bool open_plan(struct cycle *c, struct error *e)
{
    return c->rig.backend.open(c->rig.backend.self, &c->rig.plan, &c->config, e);
}

static bool fill(struct cycle *c, struct error *e)
{
    return c->rig.backend.fill(c->rig.backend.self, 1, 7, e);
}

static bool copy(struct cycle *c, struct error *e)
{
    return c->rig.backend.move(c->rig.backend.self, &(struct kv_move){0, 0, 1, 2}, 1, e);
}

static bool run(struct cycle *c, struct error *e)
{
    return c->rig.backend.run(c->rig.backend.self, &c->rig.plan, &step.b, NULL, e);
}

static bool run_traced(struct cycle *c, struct error *e)
{
    struct trace trace = {.row = c->row, .capacity = TRACE};
    return c->rig.backend.run(c->rig.backend.self, &c->rig.plan, &step.b, &trace, e);
}

static float logits[VOCAB];

static bool read_logits(struct cycle *c, struct error *e)
{
    return c->rig.backend.read(c->rig.backend.self, 0, logits, e);
}

static int32_t chosen;

static bool choose(struct cycle *c, struct error *e)
{
    const struct choice choice = {.temperature = 1, .top_p = 1, .u = 0.5f};
    return c->rig.backend.choose(c->rig.backend.self, &choice, 1, &chosen, e);
}

// A backend's life: opened, loaded, a prompt, steps captured and traced, answers, closed.
static void live(struct cycle *c, const struct shape *shape)
{
    struct error e;
    struct plan_options o = plan_options_default(shape->weights);
    assert_true(plan_make(&c->rig.plan, &shape->spec, &o, &e));
    c->rig.w = random_model(&c->rig.plan, shape, false);
    c->config = (struct kv_config){4, BLOCK, PROMPT, 1, 1};
    c->rig.block_size = BLOCK, c->rig.stride = c->config.n_blocks;
    ask(c, "opening the device", open_device);
    ask(c, "loading", load);
    ask(c, "opening a plan", open_plan);
    ask(c, "filling", fill);
    ask(c, "copying", copy);
    step_begin(&step, &c->rig);
    step_add(&step, &c->rig, 0, 0, PROMPT, 1);
    step.b.n_out = 1, step.out_row[0] = PROMPT - 1;
    ask(c, "a prompt", run);
    for (int i = 0; i < 3; i++) {
        step_begin(&step, &c->rig);
        step_add(&step, &c->rig, 0, PROMPT + i, 1, 1);
        ask(c, "a step", i == 1 ? run_traced : run);
    }
    ask(c, "reading", read_logits);
    ask(c, "choosing", choose);
    rig_close(&c->rig);
}

static void fail_call(int n)
{
    char value[16];
    snprintf(value, sizeof value, "%d", n);
    setenv("KVEMU_FAIL", value, 1);
}

static void check_memory(const char *after)
{
    size_t available, total;
    unsetenv("KVEMU_FAIL");
    assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
    if (available != total)
        fail_msg("after a failure in %s %zu bytes are not freed", after, total - available);
}

static void test_every_call_may_fail(void **state)
{
    struct shape shape = make_shape(2, 1, 32, *(enum dtype *)*state, DTYPE_BF16);
    float expected[VOCAB];
    int32_t expected_id;
    const int stride = getenv("KVBENCH_SANITIZED") ? 3 : 1; // a third of the calls: it takes long
    int n = 0;
    shape.spec.num_hidden_layers = 1;
    live(&(struct cycle){0}, &shape);
    memcpy(expected, logits, sizeof expected);
    expected_id = chosen;
    check_memory("nothing");
    for (bool fired = true; fired;) {
        struct cycle c = {0};
        const char *at;
        fail_call(n += stride);
        memset(logits, 0, sizeof logits);
        chosen = -1;
        live(&c, &shape);
        fired = emu_injected(), at = c.at;
        check_memory(at);
        assert_memory_equal(expected, logits, sizeof expected);
        assert_int_equal(expected_id, chosen);
    }
    print_message("%d calls\n", n - 1);
    assert_true(n > 100);
}

int main(void)
{
    static enum dtype blocks = DTYPE_Q8_0, fp8 = DTYPE_FP8;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_every_call_may_fail, &blocks),
                                       cmocka_unit_test_prestate(test_every_call_may_fail, &fp8)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(step.table);
    return failed;
}
