// The device's counters through a range profiler of the test's own: what is called in which order, what is added up, and
// that a call which fails is one line and leaves nothing open.
#include "engine/cuda/counters.h"
#include "engine/cuda/profile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IMAGE_BYTES = 100 };

static struct {
    int calls, fails_at; // the call that fails; 0: none
    const char *chip;
    size_t passes;
    uint16_t level; // the only one that is taken; 0 and 1: both
    bool unsupported, partial;
    int hosts, profilers, ranges, started;
    char order[64]; // a letter for each call
} fake;

static CUptiResult call(char letter, bool right)
{
    assert_true(right);
    assert_true(fake.calls < 63);
    fake.order[fake.calls++] = letter;
    return fake.calls == fake.fails_at ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}

// Each function checks its parameters as the headers describe them. Last: what it does when it does not fail.
#define FAKE(name, type, letter, right, ...)                                                                                \
    static CUptiResult CUPTIAPI name(type##_Params *p)                                                                      \
    {                                                                                                                       \
        CUptiResult r = call(letter, p->structSize == type##_Params_STRUCT_SIZE && !p->pPriv && (right));                   \
        if (!r) {                                                                                                           \
            __VA_ARGS__;                                                                                                    \
        }                                                                                                                   \
        return r;                                                                                                           \
    }

#define HOST ((CUpti_Profiler_Host_Object *)(uintptr_t)11)
#define RANGES ((CUpti_RangeProfiler_Object *)(uintptr_t)12)
#define CONTEXT ((CUcontext)(uintptr_t)13)

FAKE(initialize, CUpti_Profiler_Initialize, 'i', true, )
FAKE(supported, CUpti_Profiler_DeviceSupported, 's', p->cuDevice == 3 && p->api == CUPTI_PROFILER_RANGE_PROFILING,
     p->isSupported = fake.unsupported ? CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED : CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
     p->architecture = p->sli = p->vGpu = p->confidentialCompute = p->cmp = p->wsl = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
     p->vGpu = p->isSupported)
FAKE(chip_name, CUpti_Device_GetChipName, 'c', p->deviceIndex == 3, p->pChipName = fake.chip)
FAKE(availability, CUpti_Profiler_GetCounterAvailability, 'a', p->ctx == CONTEXT && !fake.profilers,
     p->counterAvailabilityImageSize = IMAGE_BYTES;
     if (p->pCounterAvailabilityImage) memset(p->pCounterAvailabilityImage, 1, IMAGE_BYTES))
FAKE(host_open, CUpti_Profiler_Host_Initialize, 'h',
     p->profilerType == CUPTI_PROFILER_TYPE_RANGE_PROFILER && !strcmp(p->pChipName, fake.chip) &&
         p->pCounterAvailabilityImage[IMAGE_BYTES - 1] == 1,
     p->pHostObject = HOST, fake.hosts++)
FAKE(host_close, CUpti_Profiler_Host_Deinitialize, 'H', fake.hosts-- == 1 && p->pHostObject == HOST, )
FAKE(add_metrics, CUpti_Profiler_Host_ConfigAddMetrics, 'm',
     p->pHostObject == HOST && !strcmp(p->ppMetricNames[0], "dram__bytes_read.sum"), )
FAKE(config_size, CUpti_Profiler_Host_GetConfigImageSize, 'z', p->pHostObject == HOST, p->configImageSize = IMAGE_BYTES)
FAKE(config_image, CUpti_Profiler_Host_GetConfigImage, 'g', p->configImageSize == IMAGE_BYTES,
     memset(p->pConfigImage, 2, IMAGE_BYTES))
FAKE(passes, CUpti_Profiler_Host_GetNumOfPasses, 'n', p->pConfigImage[IMAGE_BYTES - 1] == 2, p->numOfPasses = fake.passes)
FAKE(enable, CUpti_RangeProfiler_Enable, 'E', p->ctx == CONTEXT, p->pRangeProfilerObject = RANGES, fake.profilers++)
FAKE(disable, CUpti_RangeProfiler_Disable, 'D', fake.profilers-- == 1 && p->pRangeProfilerObject == RANGES, )
FAKE(data_size, CUpti_RangeProfiler_GetCounterDataSize, 'y',
     p->pRangeProfilerObject == RANGES && p->maxNumOfRanges == 1 && p->maxNumRangeTreeNodes >= p->maxNumOfRanges,
     p->counterDataSize = IMAGE_BYTES)
FAKE(data_image, CUpti_RangeProfiler_CounterDataImage_Initialize, 'd', p->counterDataSize == IMAGE_BYTES,
     memset(p->pCounterData, 3, IMAGE_BYTES))
FAKE(start, CUpti_RangeProfiler_Start, '(', p->pRangeProfilerObject == RANGES, fake.started++)
FAKE(push, CUpti_RangeProfiler_PushRange, '[', fake.started && p->pRangeName, fake.ranges++)
FAKE(pop, CUpti_RangeProfiler_PopRange, ']', fake.ranges == 1, fake.ranges--)
FAKE(stop, CUpti_RangeProfiler_Stop, ')', fake.started == 1 && !fake.ranges, fake.started--;
     p->isAllPassSubmitted = !fake.partial)
FAKE(decode, CUpti_RangeProfiler_DecodeData, '=', !fake.started, p->numOfRangeDropped = 0)
FAKE(evaluate, CUpti_Profiler_Host_EvaluateToGpuValues, 'v',
     p->pHostObject == HOST && p->pCounterDataImage[IMAGE_BYTES - 1] == 3 && p->counterDataImageSize == IMAGE_BYTES,
     for (size_t i = 0; i < p->numMetrics; i++) p->pMetricValues[i] = (double)(1 << i))

static CUptiResult CUPTIAPI set_config(CUpti_RangeProfiler_SetConfig_Params *p)
{
    CUptiResult r = call('l', p->pConfig[0] == 2 && p->configSize == IMAGE_BYTES && p->pCounterDataImage[0] == 3 &&
                                  p->range == CUPTI_UserRange && p->replayMode == CUPTI_UserReplay &&
                                  p->maxRangesPerPass == 1 && p->numNestingLevels == 1 && p->minNestingLevel == 1);
    return r || p->targetNestingLevel == fake.level ? r : CUPTI_ERROR_INVALID_PARAMETER;
}

static CUptiResult CUPTIAPI result_string(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "no privileges" : "refused";
    return CUPTI_SUCCESS;
}

static CUresult CUDAAPI current_context(CUcontext *out)
{
    *out = CONTEXT;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI current_device(CUdevice *out)
{
    *out = 3;
    return CUDA_SUCCESS;
}

// By the linker, instead of the one that loads NVIDIA's.
const struct cupti *__wrap_cupti_load(struct error *e);
const struct cupti *__wrap_cupti_load(struct error *e)
{
    static const struct cupti FAKE_CUPTI = {.cuptiGetResultString = result_string,
                                            .cuptiProfilerInitialize = initialize,
                                            .cuptiProfilerDeviceSupported = supported,
                                            .cuptiProfilerGetCounterAvailability = availability,
                                            .cuptiDeviceGetChipName = chip_name,
                                            .cuptiProfilerHostInitialize = host_open,
                                            .cuptiProfilerHostDeinitialize = host_close,
                                            .cuptiProfilerHostConfigAddMetrics = add_metrics,
                                            .cuptiProfilerHostGetConfigImageSize = config_size,
                                            .cuptiProfilerHostGetConfigImage = config_image,
                                            .cuptiProfilerHostGetNumOfPasses = passes,
                                            .cuptiProfilerHostEvaluateToGpuValues = evaluate,
                                            .cuptiRangeProfilerEnable = enable,
                                            .cuptiRangeProfilerDisable = disable,
                                            .cuptiRangeProfilerSetConfig = set_config,
                                            .cuptiRangeProfilerStart = start,
                                            .cuptiRangeProfilerStop = stop,
                                            .cuptiRangeProfilerPushRange = push,
                                            .cuptiRangeProfilerPopRange = pop,
                                            .cuptiRangeProfilerDecodeData = decode,
                                            .cuptiRangeProfilerGetCounterDataSize = data_size,
                                            .cuptiRangeProfilerCounterDataImageInitialize = data_image,
                                            .cuCtxGetCurrent = current_context,
                                            .cuCtxGetDevice = current_device};
    (void)e;
    return &FAKE_CUPTI;
}

static int reset(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.chip = "GH100", fake.passes = 1, fake.level = 1;
    return 0;
}

static bool count(struct device_counts *out, struct error *e)
{
    struct cuda_counters *c;
    *e = (struct error){0};
    *out = (struct device_counts){NAN, NAN, NAN};
    bool ok = cuda_counters_begin(&c, e) && cuda_counters_end(c, out, e);
    assert_int_equal(fake.hosts, 0);
    assert_int_equal(fake.profilers, 0);
    assert_true(ok || (*e->message && !strchr(e->message, '\n')));
    return ok;
}

static void test_order_and_sums(void **state)
{
    (void)state;
    struct device_counts d;
    struct error e;
    assert_true(count(&d, &e));
    assert_string_equal(fake.order, "iscaahmzgnEydl([])=vDH");
    assert_true(d.dram_bytes == 1 + 2 && d.l2_bytes == 4 && d.tensor_flops == 8 + 16);
    reset(NULL);
    fake.chip = "GA100";
    assert_true(count(&d, &e) && d.tensor_flops == 8);
}

static void test_each_call_may_fail(void **state)
{
    (void)state;
    struct device_counts d;
    struct error e;
    int n = 0;
    for (bool ok = false; !ok;) {
        reset(NULL);
        fake.fails_at = ++n;
        ok = count(&d, &e);
        bool level = fake.order[n - 1] == 'l'; // which is tried again
        assert_true(ok || level || strstr(e.message, "NVreg_RestrictProfilingToAdminUsers=0"));
    }
    assert_int_equal(fake.order[n - 1], 'D'); // closing what has counted is no matter
}

static void expect(const char *says)
{
    struct device_counts d;
    struct error e;
    assert_false(count(&d, &e));
    if (!strstr(e.message, says))
        fail_msg("'%s' does not say '%s'", e.message, says);
}

static void test_what_is_not_counted(void **state)
{
    (void)state;
    struct device_counts d;
    struct error e;
    fake.unsupported = true;
    expect("a virtual GPU");
    reset(NULL);
    fake.passes = 2;
    expect("2 passes");
    reset(NULL);
    fake.chip = "GB202";
    expect("GB202");
    reset(NULL);
    fake.partial = true;
    expect("only a part");
    reset(NULL);
    fake.level = 7;
    expect("choosing counters");
    reset(NULL);
    fake.level = 0; // as some say it must be
    assert_true(count(&d, &e));
    assert_string_equal(fake.order, "iscaahmzgnEydll([])=vDH");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order_and_sums, reset),
        cmocka_unit_test_setup(test_each_call_may_fail, reset),
        cmocka_unit_test_setup(test_what_is_not_counted, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
