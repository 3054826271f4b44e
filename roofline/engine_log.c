#include "roofline/engine_log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char VLLM[] = "vLLM", SGLANG[] = "SGLang", TRTLLM[] = "TensorRT-LLM", LLAMA[] = "llama.cpp";

// A number stands behind these words, on the same line. `per`: what one of the printed unit is in the unit we keep.
static const struct number_pattern {
    const char *engine, *words;
    enum log_number what;
    double per;
} NUMBER[] = {
    {VLLM, "total_gpu_memory (", LOG_TOTAL_GIB, 1},
    {VLLM, "gpu_memory_utilization (", LOG_UTIL, 1},
    {VLLM, "model weights take ", LOG_WEIGHTS_GIB, 1},
    {VLLM, "Model loading took ", LOG_WEIGHTS_GIB, 1},
    {VLLM, "Loading model weights took ", LOG_WEIGHTS_GIB, 1},
    {VLLM, "PyTorch activation peak memory takes ", LOG_ACTIVATION_GIB, 1},
    {VLLM, "non_torch_memory takes ", LOG_NON_TORCH_GIB, 1},
    {VLLM, "Graph capturing finished in * took ", LOG_GRAPH_GIB, 1},
    {VLLM, "reserved for KV Cache is ", LOG_KV_GIB, 1},
    {VLLM, "Available KV cache memory: ", LOG_KV_GIB, 1},
    {VLLM, "available KV cache memory (", LOG_KV_GIB, 1},
    {VLLM, "max seq len (", LOG_LENGTH, 1},
    {VLLM, "max seq len (*), (", LOG_NEEDED_GIB, 1},
    {VLLM, "estimated maximum model length is ", LOG_ESTIMATED_LENGTH, 1},
    {VLLM, "# GPU blocks: ", LOG_BLOCKS, 1},
    {VLLM, "# cuda blocks: ", LOG_BLOCKS, 1},
    {VLLM, "GPU KV cache size: ", LOG_TOKENS, 1},
    {VLLM, "Maximum concurrency for ", LOG_LENGTH, 1},
    {VLLM, "tokens per request: ", LOG_CONCURRENCY, 1},
    {VLLM, "Setting attention block size to ", LOG_BLOCK_SIZE, 1},
    {VLLM, "Add ", LOG_PADDING_LAYERS, 1},
    {VLLM, "tensor_parallel_size=", LOG_TP, 1},
    {VLLM, "pipeline_parallel_size=", LOG_PP, 1},
    {VLLM, "decode_context_parallel_size=", LOG_DCP, 1},
    {VLLM, "gpu_memory_utilization=", LOG_UTIL, 1},
    {VLLM, "block_size=", LOG_BLOCK_SIZE, 1},
    {VLLM, "max_seq_len=", LOG_LENGTH, 1},
    {SGLANG, "#tokens: ", LOG_TOKENS, 1},
    {SGLANG, "K size: ", LOG_K_GIB, 1},
    {SGLANG, "V size: ", LOG_V_GIB, 1},
    {SGLANG, "KV size: ", LOG_KV_GIB, 1},
    {SGLANG, "mem usage=", LOG_WEIGHTS_GIB, 1},
    {SGLANG, "mem_fraction_static=", LOG_UTIL, 1},
    {SGLANG, "page_size=", LOG_BLOCK_SIZE, 1},
    {SGLANG, "tp_size=", LOG_TP, 1},
    {SGLANG, "context_len=", LOG_LENGTH, 1},
    {SGLANG, "ssm_state size: ", LOG_STATE_GIB, 1},
    {TRTLLM, "for max tokens in paged KV cache (", LOG_TOKENS, 1},
    {TRTLLM, "paged kv cache: total: ", LOG_TOTAL_GIB, 1},
    {TRTLLM, "paged kv cache: * available: ", LOG_FREE_GIB, 1},
    {TRTLLM, "KV cache primary pool: ", LOG_BLOCKS, 1},
    {TRTLLM, "blocks in KV cache: ", LOG_BLOCKS, 1},
    {TRTLLM, "tokens per block: ", LOG_BLOCK_SIZE, 1},
    {TRTLLM, "[MemUsageChange] Allocated ", LOG_KV_GIB, 1},
    {TRTLLM, "free_gpu_memory_fraction=", LOG_UTIL, 1},
    {LLAMA, "KV self size  = ", LOG_KV_GIB, 1.0 / 1024},
    {LLAMA, "KV self size = ", LOG_KV_GIB, 1.0 / 1024},
    {LLAMA, "llama_kv_cache_unified: size = ", LOG_KV_GIB, 1.0 / 1024},
    {LLAMA, "llama_kv_cache: size = ", LOG_KV_GIB, 1.0 / 1024},
    {LLAMA, "model size       = ", LOG_WEIGHTS_GIB, 1},
    {LLAMA, "n_ctx         = ", LOG_TOKENS, 1},
    {LLAMA, "n_ctx      = ", LOG_TOKENS, 1},
    {LLAMA, "n_ctx = ", LOG_TOKENS, 1},
};

// A word, quoted or up to a comma, stands behind these.
static const struct text_pattern {
    const char *engine, *words;
    size_t offset, size;
} TEXT[] = {
#define INTO(field) offsetof(struct engine_log, field), sizeof((struct engine_log *)0)->field
    {VLLM, "LLM engine (v", INTO(version)},
    {VLLM, "vLLM API server version ", INTO(version)},
    {VLLM, "config: model=", INTO(model)},
    {VLLM, "kv_cache_dtype=", INTO(kv_dtype)},
    {VLLM, "quantization=", INTO(weight_dtype)},
    {SGLANG, "model_path=", INTO(model)},
    {SGLANG, "kv_cache_dtype=", INTO(kv_dtype)},
    {SGLANG, "KV Cache is allocated. dtype: torch.", INTO(kv_dtype)},
    {TRTLLM, "TensorRT-LLM version: ", INTO(version)},
    {TRTLLM, "[TensorRT-LLM] TensorRT LLM version: ", INTO(version)},
    {LLAMA, "general.name     = ", INTO(model)},
    {LLAMA, "general.name = ", INTO(model)},
    {LLAMA, "Device 0: ", INTO(device)},
#undef INTO
};

struct line {
    char text[4096]; // 0-terminated; longer lines are cut
};

// The place behind `words`, in which " * " stands for anything; NULL if they do not occur.
static const char *behind(const char *line, const char *words)
{
    const char *star = strstr(words, "*");
    if (!star) {
        const char *at = strstr(line, words);
        return at ? at + strlen(words) : NULL;
    }
    char head[96];
    snprintf(head, sizeof head, "%.*s", (int)(star - words), words);
    const char *at = strstr(line, head);
    return at ? behind(at + strlen(head), star + 1) : NULL;
}

// A number with thousands parted by commas, without them. False if there is none.
static bool copy_number(const char *at, char out[24])
{
    size_t n = 0;
    at += strspn(at, " \t");
    if (*at == '-' && n < 23)
        out[n++] = *at++;
    for (; n < 23 && (isdigit((unsigned char)*at) || *at == '.' || *at == ','); at++) {
        if (*at == ',' && !(isdigit((unsigned char)at[1]) && isdigit((unsigned char)at[2]) && isdigit((unsigned char)at[3])))
            break;
        if (*at == '.' && !isdigit((unsigned char)at[1]))
            break;
        if (*at != ',')
            out[n++] = *at;
    }
    out[n] = 0;
    return n > 0 && isdigit((unsigned char)out[n - 1]);
}

static void take_number(struct engine_log *log, const struct number_pattern *p, const char *line)
{
    const char *at = behind(line, p->words);
    char digits[24];
    if (!at || !copy_number(at, digits))
        return;
    if (p->what == LOG_PADDING_LAYERS && !strstr(at, "padding layers"))
        return;
    if (p->what == LOG_KV_GIB && p->engine == TRTLLM && !strstr(at, "KV cache"))
        return; // other allocations are printed alike
    log->value[p->what] = strtod(digits, NULL) * p->per;
    if (p->per == 1)
        snprintf(log->text[p->what], sizeof log->text[0], "%s", digits);
    else
        snprintf(log->text[p->what], sizeof log->text[0], "%.6f", log->value[p->what]);
    log->engine = log->engine ? log->engine : p->engine;
}

static void take_text(struct engine_log *log, const struct text_pattern *p, const char *line)
{
    const char *at = behind(line, p->words);
    char *out = (char *)log + p->offset;
    if (!at)
        return;
    char quote = *at == '\'' || *at == '"' ? *at++ : 0;
    size_t n = quote ? strcspn(at, quote == '\'' ? "'" : "\"") : strcspn(at, ",)\r\n");
    while (n && at[n - 1] == ' ')
        n--;
    if (!n || (n == 4 && !strncmp(at, "None", 4)))
        return;
    snprintf(out, p->size, "%.*s", (int)(n < p->size ? n : p->size - 1), at);
    log->engine = log->engine ? log->engine : p->engine;
}

// "K (f16):  128.00 MiB, V (f16):  128.00 MiB", "c^KV (q8_0): 72.91 MiB, kv^T: not used".
static void take_llama_types(struct engine_log *log, const char *line)
{
    const char *latent = strstr(line, "c^KV ("), *k = strstr(line, "K ("), *v = strstr(line, ", V (");
    char type[16], other[16];
    if (latent && sscanf(latent, "c^KV (%15[^)])", type) == 1)
        snprintf(log->kv_dtype, sizeof log->kv_dtype, "c^KV (%s), kv^T: %s", type,
                 strstr(line, "not used") ? "not used" : "used");
    else if (k && v && sscanf(k, "K (%15[^)])", type) == 1 && sscanf(v, ", V (%15[^)])", other) == 1)
        snprintf(log->kv_dtype, sizeof log->kv_dtype, "K (%s), V (%s)", type, other);
}

// Which engine a line can only be from.
static const char *engine_of(const char *line)
{
    static const struct {
        const char *words, *engine;
    } SIGN[] = {{"vllm", VLLM},
                {"GPU KV cache size", VLLM},
                {"ServerArgs(", SGLANG},
                {"KV Cache is allocated", SGLANG},
                {"Load weight end", SGLANG},
                {"[TensorRT-LLM]", TRTLLM},
                {"[TRT-LLM]", TRTLLM},
                {"paged KV cache", TRTLLM},
                {"llama_", LLAMA},
                {"llm_load_print_meta", LLAMA},
                {"ggml_cuda_init", LLAMA}};
    for (size_t i = 0; i < sizeof SIGN / sizeof *SIGN; i++)
        if (strcasestr(line, SIGN[i].words))
            return SIGN[i].engine;
    return NULL;
}

static void read_line(struct engine_log *log, const char *line)
{
    if (!log->engine)
        log->engine = engine_of(line);
    for (size_t i = 0; i < sizeof NUMBER / sizeof *NUMBER; i++)
        if (!log->engine || NUMBER[i].engine == log->engine)
            take_number(log, &NUMBER[i], line);
    for (size_t i = 0; i < sizeof TEXT / sizeof *TEXT; i++)
        if (!log->engine || TEXT[i].engine == log->engine)
            take_text(log, &TEXT[i], line);
    if (log->engine == LLAMA && (strstr(line, "KV self size") || strstr(line, "size = ")))
        take_llama_types(log, line);
}

void engine_log_read(struct engine_log *log, const char *text, size_t size)
{
    struct line line;
    *log = (struct engine_log){.engine = NULL};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - (text + at)) : size - at, kept = n < sizeof line.text ? n : sizeof line.text - 1;
        memcpy(line.text, text + at, kept);
        line.text[kept] = 0;
        read_line(log, line.text);
        at += n + 1;
    }
    if (*log->text[LOG_K_GIB] && *log->text[LOG_V_GIB] && !*log->text[LOG_KV_GIB]) { // SGLang prints them apart
        log->value[LOG_KV_GIB] = log->value[LOG_K_GIB] + log->value[LOG_V_GIB];
        snprintf(log->text[LOG_KV_GIB], sizeof log->text[0], "%.2f", log->value[LOG_KV_GIB]);
    }
}
