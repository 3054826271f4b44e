// Steps traced through CUPTI, from end to end: a CUPTI of the test's own tells of what the emulator captures, copies, calls
// and runs. What CUPTI itself does only a device can show; here it is what its documentation says, or something else.
#include "engine/cuda/instruments.h"
#include "engine/cuda/profile.h"
#include "tests/cuda/emu_runtime.h"
#include "tests/cuda/rig.h"

#include <stdio.h>

enum { KERNELS = 4096, RECORDS = 4096, KINDS = 64, SPANS = 256 };

// Another CUPTI than the documented one.
enum oddity { AS_DOCUMENTED, OTHER_IDS, NO_KERNELS, REFUSES };

static struct {
    enum oddity oddity;
    bool enabled[KINDS];
    CUpti_CallbackFunc callback;
    void *self;
    CUpti_BuffersCallbackRequestFunc want;
    CUpti_BuffersCallbackCompleteFunc take;
    uint64_t pushed; // external id + 1; 0: none
    CUpti_ActivityKernel10 kernel[KERNELS];
    CUpti_ActivityExternalCorrelation external[RECORDS];
    int n_kernels, n_external, n_opened;
} fake;

static void tell_node(const struct emu_op *node, const struct emu_op *original)
{
    CUpti_GraphData graph = {.node = (CUgraphNode)(uintptr_t)node, .originalNode = (CUgraphNode)(uintptr_t)original};
    CUpti_ResourceData data = {.resourceDescriptor = &graph};
    fake.callback(fake.self, CUPTI_CB_DOMAIN_RESOURCE,
                  original ? CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED : CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &data);
}

static void tell_call(uint32_t correlation, bool of_driver)
{
    if (fake.pushed && fake.enabled[of_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME])
        fake.external[fake.n_external++] = (CUpti_ActivityExternalCorrelation){
            .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, .externalId = fake.pushed - 1, .correlationId = correlation};
}

static void tell_kernel(const struct emu_op *node, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns)
{
    if (fake.oddity != NO_KERNELS && fake.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL])
        fake.kernel[fake.n_kernels++] =
            (CUpti_ActivityKernel10){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                     .start = begin_ns,
                                     .end = end_ns,
                                     .correlationId = correlation,
                                     .graphNodeId = (uint64_t)(uintptr_t)node + (node && fake.oddity == OTHER_IDS)};
}

static const struct emu_observer OBSERVER = {tell_node, tell_call, tell_kernel};

static CUptiResult CUPTIAPI subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *self)
{
    if (fake.oddity == REFUSES)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    fake.callback = callback, fake.self = self;
    fake.n_opened++;
    *out = (CUpti_SubscriberHandle)(uintptr_t)1;
    emu_observer = &OBSERVER;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI unsubscribe(CUpti_SubscriberHandle subscriber)
{
    (void)subscriber;
    emu_observer = NULL;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI enable_callback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                            CUpti_CallbackId id)
{
    (void)enable, (void)subscriber, (void)domain, (void)id;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI node_id(CUgraphNode node, uint64_t *id)
{
    *id = (uint64_t)(uintptr_t)node;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI register_callbacks(CUpti_BuffersCallbackRequestFunc want, CUpti_BuffersCallbackCompleteFunc take)
{
    fake.want = want, fake.take = take;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI enable(CUpti_ActivityKind kind)
{
    fake.enabled[kind] = true;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI disable(CUpti_ActivityKind kind)
{
    fake.enabled[kind] = false;
    return CUPTI_SUCCESS;
}

static void deliver(const void *record, size_t bytes)
{
    uint8_t *buffer;
    size_t room, most;
    fake.want(&buffer, &room, &most);
    assert_true(room >= bytes);
    memcpy(buffer, record, bytes);
    fake.take(NULL, 0, buffer, room, bytes);
}

static CUptiResult CUPTIAPI flush(uint32_t flag)
{
    (void)flag;
    for (int i = 0; i < fake.n_kernels; i++)
        deliver(&fake.kernel[i], sizeof fake.kernel[i]);
    for (int i = 0; i < fake.n_external; i++)
        deliver(&fake.external[i], sizeof fake.external[i]);
    fake.n_kernels = fake.n_external = 0;
    return CUPTI_SUCCESS;
}

// A record per buffer.
static CUptiResult CUPTIAPI next_record(uint8_t *buffer, size_t bytes, CUpti_Activity **record)
{
    (void)bytes;
    if (*record)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)buffer;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI dropped(CUcontext context, uint32_t stream, size_t *n)
{
    (void)context, (void)stream;
    *n = 0;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI push(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    (void)kind;
    fake.pushed = id + 1;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI pop(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
    (void)kind;
    *id = fake.pushed - 1;
    fake.pushed = 0;
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI timestamp(uint64_t *ns)
{
    *ns = emu_clock_ns();
    return CUPTI_SUCCESS;
}

static CUptiResult CUPTIAPI result_string(CUptiResult result, const char **text)
{
    *text = result ? "refused" : "fine";
    return CUPTI_SUCCESS;
}

// By the linker, instead of the one that loads NVIDIA's.
const struct cupti *__wrap_cupti_load(struct error *e);
const struct cupti *__wrap_cupti_load(struct error *e)
{
    static const struct cupti FAKE = {.cuptiGetResultString = result_string,
                                      .cuptiGetTimestamp = timestamp,
                                      .cuptiSubscribe = subscribe,
                                      .cuptiUnsubscribe = unsubscribe,
                                      .cuptiEnableCallback = enable_callback,
                                      .cuptiGetGraphNodeId = node_id,
                                      .cuptiActivityRegisterCallbacks = register_callbacks,
                                      .cuptiActivityEnable = enable,
                                      .cuptiActivityDisable = disable,
                                      .cuptiActivityFlushAll = flush,
                                      .cuptiActivityGetNextRecord = next_record,
                                      .cuptiActivityGetNumDroppedRecords = dropped,
                                      .cuptiActivityPushExternalCorrelationId = push,
                                      .cuptiActivityPopExternalCorrelationId = pop};
    (void)e;
    return &FAKE;
}

static struct draft step;

// n rows of one sequence, run and then traced: the same logits, every operation once, times that do not go back. Returns why
// steps are not recorded.
static const char *trace_step(struct rig *r, int32_t n)
{
    static struct trace_row rows[SPANS];
    struct trace trace = {.row = rows, .capacity = SPANS};
    float plain[VOCAB], traced[VOCAB];
    int32_t next = 0;
    step_begin(&step, r);
    step_add(&step, r, 0, 0, n, MAX_SEQS);
    step_run(&step, r, NULL);
    read_row(r, n - 1, plain);
    step_run(&step, r, &trace);
    read_row(r, n - 1, traced);
    assert_memory_equal(plain, traced, sizeof plain);
    for (int32_t i = 0; i < trace.n; i++) {
        assert_int_equal(rows[i].span.first, next);
        assert_true(rows[i].end_ns > rows[i].begin_ns); // it has run
        assert_true(!i || rows[i].begin_ns >= rows[i - 1].end_ns);
        next += rows[i].span.count;
    }
    assert_int_equal(next, r->plan.n_ops);
    assert_null(emu_observer);
    return cuda_tracing(r->backend.self);
}

static void open_rig(struct rig *r, enum oddity oddity)
{
    struct shape shape = make_shape(4, 2, 32, DTYPE_BF16, DTYPE_BF16);
    memset(&fake, 0, sizeof fake);
    fake.oddity = oddity;
    rig_open(r, &shape, ON_CUDA);
}

// A decode step is a graph; a prompt of few rows is launched by ours, one of many by cuBLAS.
static void test_as_documented(void **state)
{
    (void)state;
    static const int32_t ROWS[] = {1, 5, 30};
    struct rig r = {0};
    open_rig(&r, AS_DOCUMENTED);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        assert_string_equal(trace_step(&r, ROWS[i]), "");
        assert_int_equal(fake.n_opened, i + 1);
    }
    rig_close(&r);
}

// The step is traced by events all the same, and CUPTI is asked no more.
static void test_odd_records(void **state)
{
    (void)state;
    static const char *const SAYS[] = {[OTHER_IDS] = "no span", [NO_KERNELS] = "no kernel", [REFUSES] = "another profiler"};
    for (int oddity = OTHER_IDS; oddity <= REFUSES; oddity++) {
        struct rig r = {0};
        open_rig(&r, (enum oddity)oddity);
        for (int i = 0; i < 2; i++) {
            const char *why = trace_step(&r, 1);
            if (!strstr(why, SAYS[oddity]) || strncmp(why, "launches one by one", 19))
                fail_msg("'%s' does not say '%s'", why, SAYS[oddity]);
            assert_int_equal(fake.n_opened, oddity != REFUSES);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_documented), cmocka_unit_test(test_odd_records)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(step.table);
    return failed;
}
