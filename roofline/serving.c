#include "roofline/serving.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Versions as serving_version_parse makes them.
enum {
    VLLM_GROUPS = 10,      // 0.10: windows and states get groups of blocks; before, every layer keeps full length
    VLLM_BY_BLOCKS = 10,   // 0.10: concurrency counts blocks per request; before, tokens
    VLLM_CONCURRENCY = 21, // 0.21: printed tokens = concurrency x max_model_len, and states are cached by prefix
};

static const struct {
    const char *part; // of the name, in lower case
    enum serving_engine engine;
} NAMES[] = {
    {"vllm", ENGINE_VLLM},         {"sglang", ENGINE_SGLANG},      {"tensorrt", ENGINE_TRTLLM},
    {"trtllm", ENGINE_TRTLLM},     {"trt-llm", ENGINE_TRTLLM},     {"llama.cpp", ENGINE_LLAMACPP},
    {"llamacpp", ENGINE_LLAMACPP}, {"llama-cpp", ENGINE_LLAMACPP}, {"ideal", ENGINE_IDEAL},
};

bool serving_engine_parse(const char *text, enum serving_engine *out)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasestr(text, NAMES[i].part)) {
            *out = NAMES[i].engine;
            return true;
        }
    return false;
}

const char *serving_engine_name(enum serving_engine engine)
{
    static const char *const NAME[ENGINE_COUNT] = {"ideal", "vllm", "sglang", "trtllm", "llamacpp"};
    return NAME[engine];
}

int32_t serving_version_parse(const char *text)
{
    for (const char *at = text; (at = strpbrk(at, "0123456789"));) {
        char *end;
        long major = strtol(at, &end, 10), minor;
        if (*end == '.' && isdigit((unsigned char)end[1])) {
            minor = strtol(end + 1, &end, 10);
            bool known = *end != 'x' && major < 1000 && minor < 1000; // "0.2x" may be anything from 0.20 on
            return known ? (int32_t)(major * 1000 + minor) : 0;
        }
        at = end;
    }
    return 0;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool at_least(const struct serving *s, int32_t version)
{
    return s->version == 0 || s->version >= version; // unknown versions are taken for recent ones
}

enum printed_tokens serving_printed_meaning(const struct serving *s)
{
    if (s->printed >= 0)
        return (enum printed_tokens)s->printed;
    return s->engine == ENGINE_VLLM && at_least(s, VLLM_CONCURRENCY) ? PRINTED_CONCURRENCY : PRINTED_BLOCKS;
}

static int32_t default_block(enum serving_engine engine)
{
    switch (engine) {
    case ENGINE_VLLM: return 16;
    case ENGINE_TRTLLM: return 32;
    case ENGINE_IDEAL:
    case ENGINE_SGLANG:
    case ENGINE_LLAMACPP:
    case ENGINE_COUNT: break;
    }
    return 1;
}

// Only vLLM has groups of blocks. It holds chunked layers at full length, and so did it all others before 0.10.
static bool keeps_full_length(const struct serving *s, const struct kv_layers *k)
{
    if (k->kind == KV_CHUNK)
        return s->engine != ENGINE_IDEAL;
    if (k->kind != KV_WINDOW)
        return false;
    return s->full_length || s->engine == ENGINE_SGLANG || s->engine == ENGINE_TRTLLM ||
           (s->engine == ENGINE_VLLM && !at_least(s, VLLM_GROUPS));
}

static bool same_layers(const struct kv_layers *a, const struct kv_layers *b)
{
    return a->kind == b->kind && a->token_bytes == b->token_bytes && a->window == b->window &&
           a->state_bytes == b->state_bytes;
}

static void add_layers(struct kv_layout *l, struct kv_layers k)
{
    for (int32_t i = 0; i < l->n; i++)
        if (same_layers(&l->layers[i], &k)) {
            l->layers[i].n_layers += k.n_layers;
            return;
        }
    l->layers[l->n++] = k;
}

// The model's layers with what the engine makes of them.
static struct kv_layout as_held(const struct serving *s, const struct kv_layout *layout)
{
    struct kv_layout out = {0};
    bool drafted = false;
    for (int32_t i = 0; i < layout->n; i++) {
        struct kv_layers k = layout->layers[i];
        if (keeps_full_length(s, &k))
            k.kind = KV_FULL, k.window = 0;
        if (s->draft_tokens && k.kind == KV_STATE)
            k.state_bytes += (uint64_t)s->draft_tokens * k.conv_bytes;
        if (s->draft_tokens && k.kind == KV_FULL && !drafted)
            k.n_layers++, drafted = true;
        add_layers(&out, k);
    }
    return out;
}

static uint64_t largest_token_bytes(const struct kv_layout *l)
{
    uint64_t largest = 0;
    for (int32_t i = 0; i < l->n; i++)
        largest = l->layers[i].token_bytes > largest ? l->layers[i].token_bytes : largest;
    return largest;
}

static uint64_t largest_state_bytes(const struct kv_layout *l)
{
    uint64_t largest = 0;
    for (int32_t i = 0; i < l->n; i++)
        largest = l->layers[i].state_bytes > largest ? l->layers[i].state_bytes : largest;
    return largest;
}

// One page size for all kinds of layers. Where there are states, blocks of attention are stretched in steps of 16 tokens
// until a page holds a state; kinds with smaller rows take more tokens per block.
static void unify_pages(struct serving_kv *kv)
{
    const struct kv_layout *l = &kv->layout;
    uint64_t token = largest_token_bytes(l), state = largest_state_bytes(l);
    int64_t block = kv->rules.block_size;
    if (state && token) {
        int64_t stretched = ceil_div((int64_t)state, (int64_t)token * 16) * 16;
        block = stretched > block ? stretched : block;
    }
    kv->page_bytes = token ? (uint64_t)block * token : state;
    kv->printed_block = (int32_t)block;
    for (int32_t i = 0; i < l->n; i++) {
        uint64_t own = l->layers[i].token_bytes;
        kv->block_size[i] = own ? (int32_t)(kv->page_bytes / own) : (int32_t)block;
    }
}

// Groups of as many layers as the rarest kind has; where the kinds are almost as many, of as many as the most frequent.
static void part_in_groups(struct serving_kv *kv)
{
    const struct kv_layout *l = &kv->layout;
    int32_t fewest = INT32_MAX, most = 0, layers = 0;
    for (int32_t i = 0; i < l->n; i++) {
        int32_t n = l->layers[i].n_layers;
        fewest = n < fewest ? n : fewest, most = n > most ? n : most, layers += n;
    }
    kv->group_size = most * 4 < fewest * 5 ? most : fewest;
    for (int32_t i = 0; i < l->n; i++) {
        kv->n_groups[i] = (int32_t)ceil_div(l->layers[i].n_layers, kv->group_size);
        kv->all_groups += kv->n_groups[i];
    }
    kv->padding_layers = kv->all_groups * kv->group_size - layers;
}

// Several geometries of one kind are one group whose page is all of them.
static bool is_one_kind(const struct kv_layout *l)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->layers[i].kind != l->layers[0].kind || l->layers[i].window != l->layers[0].window)
            return false;
    return true;
}

static void join_all(struct serving_kv *kv)
{
    kv->page_bytes = kv->block_bytes = (uint64_t)kv->rules.block_size * kv_layout_token_bytes(&kv->layout);
    kv->group_size = 1, kv->all_groups = 1, kv->n_groups[0] = 1;
    kv->printed_block = kv->rules.block_size;
    for (int32_t i = 0; i < kv->layout.n; i++)
        kv->block_size[i] = kv->rules.block_size;
}

bool serving_lay_out(const struct serving *rules, const struct kv_layout *layout, struct serving_kv *out, struct error *e)
{
    *out = (struct serving_kv){.rules = *rules, .layout = as_held(rules, layout)};
    if (!out->rules.block_size)
        out->rules.block_size = default_block(rules->engine);
    if (!out->rules.max_batched_tokens)
        out->rules.max_batched_tokens = 8192;
    if (!layout->n || out->rules.block_size < 1 || (!largest_token_bytes(layout) && !largest_state_bytes(layout)))
        return error_set(e, ERROR_UNSUPPORTED, "a cache without layers, or blocks of %d tokens", out->rules.block_size);
    bool states = largest_state_bytes(&out->layout) > 0;
    if (is_one_kind(&out->layout) || rules->engine != ENGINE_VLLM) {
        join_all(out);
        return out->block_bytes > 0 || (states && rules->engine != ENGINE_VLLM) ||
               error_set(e, ERROR_UNSUPPORTED, "nothing of this model grows with its positions");
    }
    unify_pages(out);
    part_in_groups(out);
    out->block_bytes = out->page_bytes * (uint64_t)out->group_size;
    return true;
}

int64_t serving_blocks(const struct serving_kv *kv, double bytes)
{
    double blocks = bytes > 0 && kv->block_bytes ? bytes / (double)kv->block_bytes : 0;
    return blocks < 1e10 ? (int64_t)blocks : 10000000000; // no device holds more; products with tokens stay in range
}

// Blocks of one request in one group of this kind.
static int64_t group_blocks(const struct serving_kv *kv, int32_t kind, int64_t n)
{
    const struct serving *s = &kv->rules;
    const struct kv_layers *k = &kv->layout.layers[kind];
    int64_t block = kv->block_size[kind];
    if (k->kind == KV_STATE) {
        int64_t base = s->state_blocks ? s->state_blocks : s->engine == ENGINE_VLLM && at_least(s, VLLM_CONCURRENCY) ? 2 : 1;
        return base + s->draft_tokens;
    }
    if (k->kind == KV_WINDOW) { // what a step of chunked prefill writes beside the window, and one block for its offset
        int64_t most = k->window - 1 + (int64_t)s->max_batched_tokens;
        return ceil_div(most < n ? most : n, block) + 1;
    }
    return ceil_div(ceil_div(n, s->dcp > 1 ? s->dcp : 1), block);
}

int64_t serving_request_blocks(const struct serving_kv *kv, int64_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < kv->layout.n; i++)
        sum += kv->n_groups[i] ? kv->n_groups[i] * group_blocks(kv, i, n) : 0;
    return sum;
}

// llama.cpp pads cells to 256; a layer with a window holds the window of every sequence and one micro batch.
static int64_t llama_cells(const struct serving_kv *kv, const struct kv_layers *k, int64_t n)
{
    int64_t seqs = kv->rules.max_seqs > 1 ? kv->rules.max_seqs : 1, micro_batch = 512;
    int64_t windowed = ceil_div(k->window * seqs + micro_batch, 256) * 256;
    return k->kind == KV_WINDOW && windowed < n ? windowed : n;
}

uint64_t serving_cache_bytes(const struct serving_kv *kv, int64_t n)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < kv->layout.n; i++) {
        const struct kv_layers *k = &kv->layout.layers[i];
        int64_t cells = kv->rules.engine == ENGINE_LLAMACPP ? llama_cells(kv, k, n) : n;
        sum += (uint64_t)cells * (uint64_t)k->n_layers * k->token_bytes + (uint64_t)k->n_layers * k->state_bytes;
    }
    return sum;
}

uint64_t serving_request_bytes(const struct serving_kv *kv, int64_t n)
{
    if (kv->rules.engine == ENGINE_IDEAL)
        return kv_layout_request_bytes(&kv->layout, (int32_t)n);
    if (kv->rules.engine == ENGINE_VLLM)
        return (uint64_t)serving_request_blocks(kv, n) * kv->block_bytes;
    return serving_cache_bytes(kv, ceil_div(n, kv->rules.block_size) * kv->rules.block_size);
}

double serving_concurrency(const struct serving_kv *kv, int64_t blocks, int64_t n)
{
    const struct serving *s = &kv->rules;
    if (n < 1)
        return 0;
    if (s->engine == ENGINE_VLLM && at_least(s, VLLM_BY_BLOCKS))
        return (double)blocks / (double)serving_request_blocks(kv, n);
    return (double)(blocks * kv->printed_block) * (s->dcp > 1 ? s->dcp : 1) / (double)n;
}

int64_t serving_printed_tokens(const struct serving_kv *kv, int64_t blocks, int64_t max_model_len)
{
    if (serving_printed_meaning(&kv->rules) == PRINTED_CONCURRENCY && max_model_len > 0)
        return (int64_t)fmin(serving_concurrency(kv, blocks, max_model_len) * (double)max_model_len, 1e18);
    int64_t each = blocks / (kv->all_groups ? kv->all_groups : 1), dcp = kv->rules.dcp > 1 ? kv->rules.dcp : 1;
    return each * kv->printed_block * dcp;
}
