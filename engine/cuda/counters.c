#include "engine/cuda/counters.h"

#include "engine/cuda/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct cuda_counters {
    const struct cupti *cupti;
    const struct cuda_metric_set *set;
    const char *name[CUDA_METRICS];
    CUcontext context;
    CUpti_Profiler_Host_Object *host;
    CUpti_RangeProfiler_Object *ranges;
    uint8_t *available, *config, *data; // images: what may be counted here, what is to be, what was
    size_t config_bytes, data_bytes;
};

static bool no_memory(struct error *e)
{
    return error_set(e, ERROR_MEMORY, "no memory for the device's counters");
}

static void close_counters(struct cuda_counters *c)
{
    if (c->ranges) {
        CUPTI_PARAMS(CUpti_RangeProfiler_Disable, p, .pRangeProfilerObject = c->ranges);
        (void)c->cupti->cuptiRangeProfilerDisable(&p);
    }
    if (c->host) {
        CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize, p, .pHostObject = c->host);
        (void)c->cupti->cuptiProfilerHostDeinitialize(&p);
    }
    free(c->available);
    free(c->config);
    free(c->data);
    free(c);
}

static struct cuda_counters *new_counters(struct error *e)
{
    const struct cupti *cupti = cupti_load(e);
    struct cuda_counters *c = cupti ? calloc(1, sizeof *c) : NULL;
    if (c)
        c->cupti = cupti;
    else if (cupti)
        no_memory(e);
    return c;
}

static void use_set(struct cuda_counters *c, const struct cuda_metric_set *set)
{
    c->set = set;
    for (int32_t i = 0; i < set->n; i++)
        c->name[i] = set->metric[i].name;
}

// The host's side: from names to an image that tells the device what to count.
static bool configure(struct cuda_counters *c, size_t *passes, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_Profiler_Host_Initialize, open, .profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                 .pChipName = c->set->chip, .pCounterAvailabilityImage = c->available);
    if (!cupti_failed(t, t->cuptiProfilerHostInitialize(&open), "opening the counters' host side", e))
        return false;
    c->host = open.pHostObject;
    CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics, add, .pHostObject = c->host, .ppMetricNames = c->name,
                 .numMetrics = (size_t)c->set->n);
    CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize, size, .pHostObject = c->host);
    if (!cupti_failed(t, t->cuptiProfilerHostConfigAddMetrics(&add), "choosing counters", e) ||
        !cupti_failed(t, t->cuptiProfilerHostGetConfigImageSize(&size), "choosing counters", e))
        return false;
    c->config_bytes = size.configImageSize;
    c->config = malloc(c->config_bytes);
    if (!c->config)
        return no_memory(e);
    CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage, image, .pHostObject = c->host, .configImageSize = c->config_bytes,
                 .pConfigImage = c->config);
    CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses, count, .configImageSize = c->config_bytes, .pConfigImage = c->config);
    bool ok = cupti_failed(t, t->cuptiProfilerHostGetConfigImage(&image), "choosing counters", e) &&
              cupti_failed(t, t->cuptiProfilerHostGetNumOfPasses(&count), "choosing counters", e);
    *passes = count.numOfPasses;
    return ok;
}

bool cuda_counters_passes(const struct cuda_metric_set *set, size_t *passes, struct error *e)
{
    struct cuda_counters *c = new_counters(e);
    if (!c)
        return false;
    use_set(c, set);
    bool ok = configure(c, passes, e);
    close_counters(c);
    return ok;
}

static bool find_context(struct cuda_counters *c, CUdevice *device, struct error *e)
{
    const struct cupti *t = c->cupti;
    if (!t->cuCtxGetCurrent || !t->cuCtxGetDevice)
        return error_set(e, ERROR_DEVICE, "no NVIDIA driver (libcuda.so.1)");
    bool ok = t->cuCtxGetCurrent(&c->context) == CUDA_SUCCESS && c->context && t->cuCtxGetDevice(device) == CUDA_SUCCESS;
    return ok || error_set(e, ERROR_DEVICE, "no CUDA context to count in");
}

static bool check_support(const struct cupti *t, CUdevice device, struct error *e)
{
    CUPTI_PARAMS(CUpti_Profiler_Initialize, start, .pPriv = NULL);
    CUPTI_PARAMS(CUpti_Profiler_DeviceSupported, s, .cuDevice = device, .api = CUPTI_PROFILER_RANGE_PROFILING);
    if (!cupti_failed(t, t->cuptiProfilerInitialize(&start), "opening counters", e) ||
        !cupti_failed(t, t->cuptiProfilerDeviceSupported(&s), "opening counters", e))
        return false;
    const CUpti_Profiler_Support_Level yes = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
    return s.isSupported == yes ||
           error_set(e, ERROR_UNSUPPORTED, "CUPTI counts nothing here:%s%s%s%s%s", s.architecture != yes ? " this chip" : "",
                     s.vGpu != yes ? " a virtual GPU" : "", s.confidentialCompute != yes ? " confidential computing" : "",
                     s.cmp != yes ? " a mining board" : "", s.wsl != yes ? " WSL" : "");
}

static bool find_set(struct cuda_counters *c, CUdevice device, struct error *e)
{
    CUPTI_PARAMS(CUpti_Device_GetChipName, chip, .deviceIndex = (size_t)device);
    if (!cupti_failed(c->cupti, c->cupti->cuptiDeviceGetChipName(&chip), "naming the chip", e))
        return false;
    const struct cuda_metric_set *set = cuda_metrics_of(chip.pChipName);
    if (!set)
        return error_set(e, ERROR_UNSUPPORTED, "no counters are known of the chip %s", chip.pChipName);
    use_set(c, set);
    return true;
}

// What this driver lets us count; must be asked before the profiler is enabled.
static bool find_available(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability, p, .ctx = c->context);
    if (!cupti_failed(t, t->cuptiProfilerGetCounterAvailability(&p), "asking for counters", e))
        return false;
    c->available = malloc(p.counterAvailabilityImageSize);
    if (!c->available)
        return no_memory(e);
    p.pCounterAvailabilityImage = c->available;
    return cupti_failed(t, t->cuptiProfilerGetCounterAvailability(&p), "asking for counters", e);
}

static bool make_data_image(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize, size, .pRangeProfilerObject = c->ranges, .pMetricNames = c->name,
                 .numMetrics = (size_t)c->set->n, .maxNumOfRanges = 1, .maxNumRangeTreeNodes = 1);
    if (!cupti_failed(t, t->cuptiRangeProfilerGetCounterDataSize(&size), "making room for counts", e))
        return false;
    c->data_bytes = size.counterDataSize;
    c->data = malloc(c->data_bytes);
    if (!c->data)
        return no_memory(e);
    CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize, image, .pRangeProfilerObject = c->ranges,
                 .counterDataSize = c->data_bytes, .pCounterData = c->data);
    return cupti_failed(t, t->cuptiRangeProfilerCounterDataImageInitialize(&image), "making room for counts", e);
}

// One range, of our own making, seen once: "user replay" of a set that needs none. The level to begin at is that of the
// range by the older interface's header, and 0 in some of what is written of this one.
static bool choose(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig, config, .pRangeProfilerObject = c->ranges, .configSize = c->config_bytes,
                 .pConfig = c->config, .counterDataImageSize = c->data_bytes, .pCounterDataImage = c->data,
                 .range = CUPTI_UserRange, .replayMode = CUPTI_UserReplay, .maxRangesPerPass = 1, .numNestingLevels = 1,
                 .minNestingLevel = 1, .targetNestingLevel = 1);
    if (!t->cuptiRangeProfilerSetConfig(&config))
        return true;
    config.targetNestingLevel = 0;
    return cupti_failed(t, t->cuptiRangeProfilerSetConfig(&config), "choosing counters", e);
}

static bool start(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_RangeProfiler_Start, go, .pRangeProfilerObject = c->ranges);
    CUPTI_PARAMS(CUpti_RangeProfiler_PushRange, push, .pRangeProfilerObject = c->ranges, .pRangeName = "work");
    return choose(c, e) && cupti_failed(t, t->cuptiRangeProfilerStart(&go), "starting counters", e) &&
           cupti_failed(t, t->cuptiRangeProfilerPushRange(&push), "starting counters", e);
}

static bool begin(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUdevice device;
    size_t passes;
    if (!find_context(c, &device, e) || !check_support(t, device, e) || !find_set(c, device, e) || !find_available(c, e) ||
        !configure(c, &passes, e))
        return false;
    if (passes != 1)
        return error_set(e, ERROR_UNSUPPORTED, "counting would take %zu passes over the work here", passes);
    CUPTI_PARAMS(CUpti_RangeProfiler_Enable, enable, .ctx = c->context);
    if (!cupti_failed(t, t->cuptiRangeProfilerEnable(&enable), "enabling counters", e))
        return false;
    c->ranges = enable.pRangeProfilerObject;
    return make_data_image(c, e) && start(c, e);
}

bool cuda_counters_begin(struct cuda_counters **out, struct error *e)
{
    struct cuda_counters *c = new_counters(e);
    *out = c;
    if (!c || begin(c, e))
        return c != NULL;
    close_counters(c);
    *out = NULL;
    return false;
}

static bool stop(struct cuda_counters *c, struct error *e)
{
    const struct cupti *t = c->cupti;
    CUPTI_PARAMS(CUpti_RangeProfiler_PopRange, pop, .pRangeProfilerObject = c->ranges);
    CUPTI_PARAMS(CUpti_RangeProfiler_Stop, halt, .pRangeProfilerObject = c->ranges);
    CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData, decode, .pRangeProfilerObject = c->ranges);
    if (!cupti_failed(t, t->cuptiRangeProfilerPopRange(&pop), "stopping counters", e) ||
        !cupti_failed(t, t->cuptiRangeProfilerStop(&halt), "stopping counters", e) ||
        !cupti_failed(t, t->cuptiRangeProfilerDecodeData(&decode), "reading counters", e))
        return false;
    bool whole = halt.isAllPassSubmitted && !decode.numOfRangeDropped;
    return whole || error_set(e, ERROR_DEVICE, "CUPTI has counted only a part");
}

void cuda_counters_add(const struct cuda_metric_set *set, const double *values, struct device_counts *out)
{
    double sum[METRIC_SUMS] = {NAN, NAN, NAN};
    for (int32_t i = 0; i < set->n; i++) {
        double *to = &sum[set->metric[i].sum];
        *to = (isnan(*to) ? 0 : *to) + values[i];
    }
    *out = (struct device_counts){
        .dram_bytes = sum[METRIC_DRAM_BYTES], .l2_bytes = sum[METRIC_L2_BYTES], .tensor_flops = sum[METRIC_TENSOR_FLOPS]};
}

bool cuda_counters_end(struct cuda_counters *c, struct device_counts *out, struct error *e)
{
    const struct cupti *t = c->cupti;
    double value[CUDA_METRICS];
    CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues, evaluate, .pHostObject = c->host, .pCounterDataImage = c->data,
                 .counterDataImageSize = c->data_bytes, .rangeIndex = 0, .ppMetricNames = c->name,
                 .numMetrics = (size_t)c->set->n, .pMetricValues = value);
    bool ok = stop(c, e) && cupti_failed(t, t->cuptiProfilerHostEvaluateToGpuValues(&evaluate), "reading counters", e);
    if (ok)
        cuda_counters_add(c->set, value, out);
    close_counters(c);
    return ok;
}
