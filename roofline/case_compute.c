// One row of a table of cases: the engine's rule applied to what the row states, and what the engine printed beside it.
#include "roofline/case_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double GIB = 0x1p30, AGREES_WITHIN = 0.01;

// Settings that a table of cases has no column for, or that its row leaves open. The first of each is what the engine does
// by itself.
struct open_settings {
    struct case_guess guess;
    struct serving rules;
};

struct numbers {
    double gib, gib_half, tokens, tokens_half, concurrency, concurrency_half;
    bool has_gib, has_tokens, has_concurrency;
    bool needed;    // the GiB are what one request of `tokens` needs, as a refusal to start prints it
    bool estimated; // the tokens are the longest request that the GiB would admit, as it prints, too
    int64_t max_model_len;
};

static struct numbers read_numbers(const struct kv_case *c)
{
    struct numbers n = {0};
    double length, half;
    n.has_gib = case_number(c->available_kv_GiB, &n.gib, &n.gib_half);
    n.has_tokens = case_number(c->kv_tokens, &n.tokens, &n.tokens_half) && n.tokens >= 1;
    n.has_concurrency = case_number(c->max_concurrency, &n.concurrency, &n.concurrency_half);
    if (case_number(c->max_model_len, &length, &half) && length >= 1)
        n.max_model_len = (int64_t)length;
    n.has_concurrency &= n.max_model_len > 0 && n.has_tokens;
    n.needed = strcasestr(c->notes, "needed") != NULL;
    n.estimated = !n.needed && strcasestr(c->notes, "estimated maximum") != NULL;
    return n;
}

static bool fits_concurrency(const struct serving_kv *kv, int64_t blocks, const struct numbers *n)
{
    double computed = serving_concurrency(kv, blocks, n->max_model_len);
    return fabs(computed - n->concurrency) <= n->concurrency_half * 1.0001;
}

// A cache of `tokens` positions as the engine allocates it: SGLang has one page more than it says.
static int64_t printed(const struct serving_kv *kv, int64_t blocks, const struct numbers *n)
{
    int64_t spare = kv->rules.engine == ENGINE_SGLANG ? 1 : 0;
    return serving_printed_tokens(kv, blocks - spare, n->max_model_len);
}

// Tokens from bytes. The printed size is rounded, so several numbers of blocks may stand behind it; of these, the one that
// also gives the other printed figures is taken, if there is one.
static void compare_tokens(const struct serving_kv *kv, const struct numbers *n, struct case_result *out)
{
    int64_t low = serving_blocks(kv, (n->gib - n->gib_half) * GIB), high = serving_blocks(kv, (n->gib + n->gib_half) * GIB);
    int64_t blocks = serving_blocks(kv, n->gib * GIB);
    if (high - low > 1 << 22)
        low = high = blocks;
    for (int64_t b = low; b <= high && !out->exact; b++)
        if (printed(kv, b, n) == (int64_t)n->tokens && (!n->has_concurrency || fits_concurrency(kv, b, n))) {
            out->exact = true;
            blocks = b;
        }
    out->has_size = true, out->unit = "tokens";
    out->reported = n->tokens;
    out->computed = (double)printed(kv, blocks, n);
    out->error = out->computed / out->reported - 1;
    if (!out->exact && kv->all_groups == 1) // one token more or less is the rounding of the printed size
        out->exact = printed(kv, low, n) <= n->tokens && n->tokens <= printed(kv, high, n) + kv->printed_block;
}

// llama.cpp is told the tokens and prints the bytes; a refusal to start prints what a request would need.
static void compare_bytes(const struct serving_kv *kv, const struct numbers *n, struct case_result *out)
{
    bool whole = kv->rules.engine == ENGINE_LLAMACPP;
    out->has_size = true, out->unit = "GiB";
    out->reported = n->gib;
    out->computed = (double)(whole ? serving_cache_bytes : serving_request_bytes)(kv, (int64_t)n->tokens) / GIB;
    out->error = out->computed / out->reported - 1;
    out->exact = fabs(out->computed - out->reported) <= n->gib_half * 1.0001;
}

// The longest request that the blocks admit.
static int64_t longest(const struct serving_kv *kv, int64_t blocks)
{
    int64_t low = 0, high = (int64_t)1 << 40;
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        *(serving_request_blocks(kv, middle) <= blocks ? &low : &high) = middle;
    }
    return low;
}

static void compare_longest(const struct serving_kv *kv, const struct numbers *n, struct case_result *out)
{
    int64_t low = longest(kv, serving_blocks(kv, (n->gib - n->gib_half) * GIB));
    int64_t high = longest(kv, serving_blocks(kv, (n->gib + n->gib_half) * GIB));
    out->has_size = true, out->unit = "tokens";
    out->reported = n->tokens;
    out->computed = (double)longest(kv, serving_blocks(kv, n->gib * GIB));
    out->error = out->computed / out->reported - 1;
    out->exact = (double)low <= n->tokens && n->tokens <= (double)high;
    if (out->exact)
        out->computed = n->tokens, out->error = 0;
}

// Blocks behind printed tokens: whole blocks of one group, or what the concurrency stands for.
static void block_range(const struct serving_kv *kv, const struct numbers *n, int64_t *low, int64_t *high)
{
    int64_t tokens = (int64_t)n->tokens, dcp = kv->rules.dcp > 1 ? kv->rules.dcp : 1;
    if (serving_printed_meaning(&kv->rules) == PRINTED_CONCURRENCY) {
        double each = (double)serving_request_blocks(kv, n->max_model_len) / (double)n->max_model_len;
        *low = (int64_t)floor((double)tokens * each), *high = (int64_t)ceil((double)(tokens + 1) * each);
        return;
    }
    *low = tokens / (kv->printed_block * dcp) * kv->all_groups;
    *high = *low + kv->all_groups - 1;
}

// The concurrency line from the printed tokens: some number of blocks must give both.
static void compare_concurrency(const struct serving_kv *kv, const struct numbers *n, struct case_result *out)
{
    int64_t low, high, best = 0;
    block_range(kv, n, &low, &high);
    for (int64_t b = low; b <= high && !out->concurrency_exact; b++)
        if (serving_printed_tokens(kv, b, n->max_model_len) == (int64_t)n->tokens) {
            best = b;
            out->concurrency_exact = fits_concurrency(kv, b, n);
        }
    out->has_concurrency = true;
    out->reported_concurrency = n->concurrency;
    out->computed_concurrency = serving_concurrency(kv, best ? best : low, n->max_model_len);
}

static bool agrees(const struct case_result *r, bool hybrid)
{
    bool size = !r->has_size || r->exact || (!hybrid && fabs(r->error) <= AGREES_WITHIN);
    return size && (!r->has_concurrency || r->concurrency_exact);
}

// The row under one set of settings. False if it does not carry enough (out->reason).
static bool try_settings(const struct kv_case *c, const struct numbers *n, const struct open_settings *open,
                         const struct catalogue_name *names, int n_names, struct case_facts *facts, struct case_result *out)
{
    struct serving_kv kv;
    struct error e = {0};
    *out = (struct case_result){.unit = "tokens"};
    if (!case_facts_read(c, open->rules.engine, &open->guess, names, n_names, facts, out->reason))
        return false;
    memcpy(out->model, facts->model, sizeof out->model);
    if (!serving_lay_out(&open->rules, &facts->layout, &kv, &e)) {
        snprintf(out->reason, sizeof out->reason, "%.199s", e.message);
        return false;
    }
    out->bytes_per_token = kv_layout_token_bytes(&kv.layout);
    if (n->has_gib && (open->rules.engine == ENGINE_LLAMACPP || n->needed))
        compare_bytes(&kv, n, out);
    else if (n->has_gib && n->estimated)
        compare_longest(&kv, n, out);
    else if (n->has_gib)
        compare_tokens(&kv, n, out);
    if (n->has_concurrency)
        compare_concurrency(&kv, n, out);
    out->verdict = agrees(out, kv.all_groups > 1) ? CASE_AGREES : CASE_DIFFERS;
    return true;
}

// Facts without which nothing can be compared, by what the row itself says.
static bool lacks_facts(const struct kv_case *c, const struct numbers *n, char reason[200])
{
    const char *why = NULL;
    if (!*c->kv_tokens)
        why = "kv_tokens is missing: there is nothing to compare with";
    else if (!n->has_tokens)
        why = "kv_tokens is no number";
    else if (strchr(c->available_kv_GiB, '~'))
        why = "available_kv_GiB is a rounded figure";
    else if (*c->available_kv_GiB && !n->has_gib)
        why = "available_kv_GiB is no number";
    else if (n->has_gib && n->gib <= 0)
        why = "no memory is left for KV";
    else if (strcasestr(c->notes, "rank minimum"))
        why = "the rank with the least memory decided, and available_kv_GiB is another one's";
    else if (!n->has_gib && !n->has_concurrency)
        why = "available_kv_GiB is missing, and there is no max_concurrency with a max_model_len to compare instead";
    if (why)
        snprintf(reason, 200, "%s", why);
    return why != NULL;
}

// Ways in which what the row leaves open can be filled, from the engine's own default on. `blank`: a column that is empty.
struct alternative {
    struct open_settings open;
    const char *blank;
    char text[160];
};

enum { MAX_ALTERNATIVES = 64 };

struct alternatives {
    struct alternative item[MAX_ALTERNATIVES];
    int n;
};

static struct open_settings *add_alternative(struct alternatives *a, const struct open_settings *like, const char *blank,
                                             const char *text)
{
    struct alternative *item = &a->item[a->n < MAX_ALTERNATIVES - 1 ? a->n++ : MAX_ALTERNATIVES - 1];
    *item = (struct alternative){.open = *like, .blank = blank};
    snprintf(item->text, sizeof item->text, "%s", text);
    return &item->open;
}

static bool has_kind(const struct kv_layout *l, enum kv_layers_kind kind)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->layers[i].kind == kind)
            return true;
    return false;
}

// One set of vLLM's settings, told in words: only those that matter for this layout.
static void add_vllm_settings(struct alternatives *a, const struct open_settings *base, const struct kv_layout *l,
                              int printed, int states, int batched)
{
    char version[32] = "", state[48] = "", window[48] = "", text[160];
    if (!base->rules.version)
        snprintf(version, sizeof version, "version %s; ", printed ? "0.21 or later" : "before 0.21");
    if (has_kind(l, KV_STATE))
        snprintf(state, sizeof state, "%d block%s of states; ", states, states > 1 ? "s (prefix caching)" : "");
    if (has_kind(l, KV_WINDOW))
        snprintf(window, sizeof window, "steps of at most %d tokens; ", batched);
    snprintf(text, sizeof text, "%s%s%s", version, state, window);
    if (strlen(text) > 2)
        text[strlen(text) - 2] = 0;
    struct open_settings *o = add_alternative(a, base, NULL, text);
    o->rules.printed = printed, o->rules.state_blocks = states, o->rules.max_batched_tokens = batched;
}

// Settings of vLLM that no column has: both meanings of its printed tokens where the version is open, prefix caching of
// states, the largest step, drafted tokens where a drafter is mentioned.
static void add_vllm(struct alternatives *a, const struct kv_case *c, const struct open_settings *base,
                     const struct kv_layout *l)
{
    static const int BATCHED[] = {8192, 2048, 16384};
    bool drafter = strcasestr(c->notes, "MTP") || strcasestr(c->model, "MTP");
    for (int printed = 0; printed < 2; printed++)
        for (int states = 1; states <= (has_kind(l, KV_STATE) ? 2 : 1); states++)
            for (int i = 0; i < (has_kind(l, KV_WINDOW) ? 3 : 1); i++)
                if (!base->rules.version || printed == (int)serving_printed_meaning(&base->rules))
                    add_vllm_settings(a, base, l, printed, states, BATCHED[i]);
    for (int drafts = 1; drafter && drafts <= 5; drafts++) {
        char text[160];
        snprintf(text, sizeof text, "%d drafted tokens per step", drafts);
        add_alternative(a, base, "the number of drafted tokens", text)->rules.draft_tokens = drafts;
    }
    if (has_kind(l, KV_WINDOW))
        add_alternative(a, base, NULL, "layers with a window keep full length (hybrid cache off)")->rules.full_length = true;
}

// Decode context parallelism is mentioned, but not of how many ranks.
static void add_context_parallel(struct alternatives *a, const struct kv_case *c, const struct open_settings *base)
{
    if (!strcasestr(c->notes, "dcp") && !strcasestr(c->notes, "context parallel") &&
        !strcasestr(c->notes, "context-parallel"))
        return;
    for (int32_t ranks = 2; ranks <= 16; ranks *= 2) {
        char text[64];
        snprintf(text, sizeof text, "%d ranks of decode context parallelism", ranks);
        add_alternative(a, base, NULL, text)->rules.dcp = ranks;
    }
}

static void add_llamacpp(struct alternatives *a, const struct open_settings *base)
{
    add_alternative(a, base, NULL, "K and V of every head (before its MLA)")->guess.latent = LATENT_UNFOLDED;
    add_alternative(a, base, NULL, "the latent kept twice (its first MLA)")->guess.latent = LATENT_TWICE;
    add_alternative(a, base, NULL, "layers with a window keep full length")->rules.full_length = true;
}

// Columns that are blank: other values that might stand there.
static void add_blanks(struct alternatives *a, const struct kv_case *c, const struct open_settings *base,
                       const struct case_facts *facts)
{
    static const int32_t BLOCK[] = {16, 32, 64, 128};
    for (int i = 0; !*c->block_size && i < 4; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d", BLOCK[i]);
        add_alternative(a, base, "block_size", text)->rules.block_size = BLOCK[i];
    }
    if (!facts->kv_stated)
        add_alternative(a, base, "kv_dtype", "fp8")->guess.kv = DTYPE_FP8;
    for (int32_t tp = 2; !facts->tp_stated && tp <= 8; tp *= 2) {
        char text[32];
        snprintf(text, sizeof text, "%d", tp);
        add_alternative(a, base, "tp", text)->guess.tp = tp;
    }
}

static void say_miss(const struct numbers *n, const struct case_facts *facts, struct case_result *out)
{
    double bytes = out->error * n->gib * GIB;
    if (!out->has_size || fabs(out->error) <= AGREES_WITHIN)
        snprintf(out->reason, sizeof out->reason, "the concurrency line does not follow from the printed tokens");
    else if (out->error > 0 && out->error < 0.05 && !kv_layout_is_hybrid(&facts->layout))
        snprintf(out->reason, sizeof out->reason,
                 "%.3f GiB less than available_kv_GiB were divided: another rank had the least, or it was printed too early",
                 bytes / GIB);
    else
        snprintf(out->reason, sizeof out->reason, "the rule differs by %+.3f GiB of the %.2f printed", bytes / GIB, n->gib);
}

static void settle(const struct kv_case *c, const struct numbers *n, const struct open_settings *base,
                   const struct catalogue_name *names, int n_names, struct case_facts *facts, struct case_result *out)
{
    static const char *const LINE = "missing: with %.60s it would agree";
    struct alternatives a = {.n = 0};
    struct case_facts other;
    struct case_result result;
    if (base->rules.engine == ENGINE_VLLM)
        add_vllm(&a, c, base, &facts->layout);
    if (base->rules.engine == ENGINE_LLAMACPP)
        add_llamacpp(&a, base);
    add_context_parallel(&a, c, base);
    add_blanks(&a, c, base, facts);
    for (int i = 0; i < a.n; i++) {
        const struct alternative *item = &a.item[i];
        if (!try_settings(c, n, &item->open, names, n_names, &other, &result) || result.verdict != CASE_AGREES)
            continue;
        if (item->blank && strcmp(item->blank, "block_size")) {
            out->verdict = CASE_NOT_COMPUTABLE;
            int at = snprintf(out->reason, sizeof out->reason, "%s is ", item->blank);
            snprintf(out->reason + at, sizeof out->reason - (size_t)at, LINE, item->text);
            return;
        }
        *out = result;
        snprintf(out->assumption, sizeof out->assumption, "%s%s%.120s", item->blank ? item->blank : "",
                 item->blank ? " " : "", item->text);
        return;
    }
    say_miss(n, facts, out);
}

void kv_case_compute(const struct kv_case *c, const struct catalogue_name *names, int n_names, struct case_result *out)
{
    struct open_settings base = {.guess = {.kv = DTYPE_BF16, .tp = 1}, .rules = {.printed = -1}};
    struct numbers n = read_numbers(c);
    struct case_facts facts;
    double block, half;
    *out = (struct case_result){.verdict = CASE_NOT_COMPUTABLE, .unit = "tokens"};
    if (!serving_engine_parse(c->engine, &base.rules.engine)) {
        snprintf(out->reason, sizeof out->reason, "the rule of engine '%.60s' is not known", c->engine);
        return;
    }
    base.rules.version = serving_version_parse(c->version);
    if (case_number(c->block_size, &block, &half) && block >= 1 && block <= 1 << 16)
        base.rules.block_size = (int32_t)block;
    base.rules.dcp = case_number_after(c->notes, "dcp");
    base.rules.full_length = base.rules.engine == ENGINE_LLAMACPP && !strncasecmp(c->engine, "ik_", 3);
    if (lacks_facts(c, &n, out->reason))
        return;
    if (!try_settings(c, &n, &base, names, n_names, &facts, out)) {
        out->verdict = CASE_NOT_COMPUTABLE;
        return;
    }
    if (out->verdict == CASE_DIFFERS)
        settle(c, &n, &base, names, n_names, &facts, out);
}
