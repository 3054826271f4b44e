// What a pasted log of a serving engine states: lines of vLLM, SGLang, TensorRT-LLM and llama.cpp, read by the words in
// front of each number. Takes the last statement of a thing where a log repeats it.
#ifndef ROOFLINE_ENGINE_LOG_H
#define ROOFLINE_ENGINE_LOG_H

#include "engine/base/error.h"

#include <stddef.h>

enum log_number {
    LOG_TOTAL_GIB,      // of the device, as the engine found it
    LOG_UTIL,           // share of it that may be used
    LOG_WEIGHTS_GIB,    // of this rank
    LOG_ACTIVATION_GIB, // peak
    LOG_NON_TORCH_GIB,
    LOG_GRAPH_GIB,
    LOG_KV_GIB,     // what is, or would be, divided into blocks
    LOG_NEEDED_GIB, // for one request of the longest length, in a refusal
    LOG_FREE_GIB,   // TensorRT-LLM: free after loading
    LOG_TOKENS,     // printed size of the cache
    LOG_BLOCKS,
    LOG_BLOCK_SIZE,
    LOG_CONCURRENCY,
    LOG_LENGTH, // the length that the concurrency is for
    LOG_ESTIMATED_LENGTH,
    LOG_TP,
    LOG_PP,
    LOG_DCP,
    LOG_PADDING_LAYERS,
    LOG_K_GIB,
    LOG_V_GIB,
    LOG_STATE_GIB, // SGLang: conv and ssm states together
    LOG_NUMBER_COUNT,
};

struct engine_log {
    const char *engine; // "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp" or NULL: not recognised
    char version[32], model[128], device[96], kv_dtype[64], weight_dtype[32];
    double value[LOG_NUMBER_COUNT];
    char text[LOG_NUMBER_COUNT][24]; // as printed, "" where nothing was: its digits say how it was rounded
};

// text[size] need not end in 0.
void engine_log_read(struct engine_log *log, const char *text, size_t size);

#endif
