// CUPTI, found when it is asked for: nothing here needs it, and most machines may not use it. Layouts of its records change
// from one major version to the next, so the one these sources are built for is loaded by its name, libcupti.so.13.
#ifndef ENGINE_CUDA_PROFILE_H
#define ENGINE_CUDA_PROFILE_H

#include "engine/base/error.h"

#include <cuda.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#define CUPTI_LIBRARY "libcupti.so.13"

#define CUPTI_FUNCTIONS(X)                                                                                                  \
    X(cuptiGetResultString)                                                                                                 \
    X(cuptiGetTimestamp)                                                                                                    \
    X(cuptiSubscribe)                                                                                                       \
    X(cuptiUnsubscribe)                                                                                                     \
    X(cuptiEnableCallback)                                                                                                  \
    X(cuptiGetGraphNodeId)                                                                                                  \
    X(cuptiActivityRegisterCallbacks)                                                                                       \
    X(cuptiActivityEnable)                                                                                                  \
    X(cuptiActivityDisable)                                                                                                 \
    X(cuptiActivityFlushAll)                                                                                                \
    X(cuptiActivityGetNextRecord)                                                                                           \
    X(cuptiActivityGetNumDroppedRecords)                                                                                    \
    X(cuptiActivityPushExternalCorrelationId)                                                                               \
    X(cuptiActivityPopExternalCorrelationId)                                                                                \
    X(cuptiProfilerInitialize)                                                                                              \
    X(cuptiProfilerDeviceSupported)                                                                                         \
    X(cuptiProfilerGetCounterAvailability)                                                                                  \
    X(cuptiDeviceGetChipName)                                                                                               \
    X(cuptiProfilerHostInitialize)                                                                                          \
    X(cuptiProfilerHostDeinitialize)                                                                                        \
    X(cuptiProfilerHostConfigAddMetrics)                                                                                    \
    X(cuptiProfilerHostGetConfigImageSize)                                                                                  \
    X(cuptiProfilerHostGetConfigImage)                                                                                      \
    X(cuptiProfilerHostGetNumOfPasses)                                                                                      \
    X(cuptiProfilerHostEvaluateToGpuValues)                                                                                 \
    X(cuptiRangeProfilerEnable)                                                                                             \
    X(cuptiRangeProfilerDisable)                                                                                            \
    X(cuptiRangeProfilerSetConfig)                                                                                          \
    X(cuptiRangeProfilerStart)                                                                                              \
    X(cuptiRangeProfilerStop)                                                                                               \
    X(cuptiRangeProfilerPushRange)                                                                                          \
    X(cuptiRangeProfilerPopRange)                                                                                           \
    X(cuptiRangeProfilerDecodeData)                                                                                         \
    X(cuptiRangeProfilerGetCounterDataSize)                                                                                 \
    X(cuptiRangeProfilerCounterDataImageInitialize)

struct cupti {
#define X(function) __typeof__(&(function)) function;
    CUPTI_FUNCTIONS(X)
#undef X
    // Of the driver.
    __typeof__(&cuCtxGetCurrent) cuCtxGetCurrent;
    __typeof__(&cuCtxGetDevice) cuCtxGetDevice;
};

// The library's functions; NULL with ERROR_UNSUPPORTED where it is not there. The driver's are NULL where there is none.
const struct cupti *cupti_load(struct error *e);

// False with what failed, in one line: for want of permission, how to get it.
bool cupti_failed(const struct cupti *c, CUptiResult result, const char *what, struct error *e);

// A parameter structure of CUPTI, which wants to know its size.
#define CUPTI_PARAMS(type, name, ...) type##_Params name = {.structSize = type##_Params_STRUCT_SIZE, __VA_ARGS__}

#endif
