// The protocol: every way of running a sequence against one forward pass over all of it.
#include "bench/verify.h"

#include "engine/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 4, GENERATED = 8, FEW_TOKENS = 4 };

struct verify {
    struct opened *o;
    struct backend_options device;
    int32_t n_tokens, n_prompt; // of the sequence; what is after the prompt is decoded token by token
    int32_t *token;             // [n_tokens] the sequence
    int32_t *other;             // [n_tokens] what strangers say
    float *reference;           // [n_tokens, vocab_size]
    float *row;                 // [vocab_size]
    double largest;             // |logit| of the reference
    double tolerance;
    struct session session[SESSIONS]; // of the check that runs; freed after it
    char detail[128];                 // what it did
};

void verify_add(struct verify_report *report, const struct verify_check *check)
{
    if (report->n < VERIFY_MAX_CHECKS)
        report->check[report->n++] = *check;
    report->n_failed += !check->passed;
    if (report->on_check)
        report->on_check(report->ctx, check);
}

void verify_choose_types(struct opened *o, enum dtype kv)
{
    o->options.kv_k = o->options.kv_v = kv;
}

// Keeps the larger of *diff and the difference of output row `out_row` of the last step from position `pos`.
static bool compare(struct verify *v, int32_t out_row, int32_t pos, double *diff, struct error *e)
{
    int32_t n = v->o->plan->vocab_size;
    const float *expected = v->reference + (size_t)pos * (size_t)n;
    if (!engine_logits(&v->o->engine, out_row, v->row, e))
        return false;
    for (int32_t i = 0; i < n; i++) {
        double d = fabs((double)v->row[i] - (double)expected[i]) / v->largest;
        if (!(d <= *diff))
            *diff = isfinite(d) ? d : INFINITY;
    }
    return true;
}

// Appends the next n tokens of the sequence to a session, `chunk` rows at a time, and compares every row.
static bool advance(struct verify *v, struct session *session, int32_t n, int32_t chunk, double *diff, struct error *e)
{
    for (int32_t left = n; left > 0;) {
        int32_t pos = session->table.n_tokens, rows = left < chunk ? left : chunk;
        struct step step = {.session = session, .token = v->token + pos, .n_tokens = rows, .out = STEP_OUT_ALL};
        if (!engine_step(&v->o->engine, &step, 1, NULL, e))
            return false;
        for (int32_t i = 0; i < rows; i++)
            if (!compare(v, step.first_out + i, pos + i, diff, e))
                return false;
        left -= rows;
    }
    return true;
}

static bool prefill_and_decode(struct verify *v, struct session *session, double *diff, struct error *e)
{
    return advance(v, session, v->n_prompt, v->n_prompt, diff, e) &&
           advance(v, session, v->n_tokens - v->n_prompt, 1, diff, e);
}

struct check {
    const char *name;
    bool control;
    int32_t block_size; // 0: contiguous
    int32_t chunk;
    bool (*run)(struct verify *v, const struct check *c, double *diff, struct error *e);
};

static bool run_chunks(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    snprintf(v->detail, sizeof v->detail, "%d tokens", v->n_tokens);
    return advance(v, &v->session[0], v->n_tokens, c->chunk, diff, e);
}

static bool run_blocks(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    (void)c;
    snprintf(v->detail, sizeof v->detail, "prefill of %d, decode of %d", v->n_prompt, v->n_tokens - v->n_prompt);
    return prefill_and_decode(v, &v->session[0], diff, e);
}

// Ours is prefilled beside two decoding strangers, then decodes beside them and one that is being prefilled in chunks.
static bool run_strangers(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct session *s = v->session;
    struct step begin[] = {{.session = &s[1], .token = v->other, .n_tokens = 5, .out = STEP_OUT_LAST},
                           {.session = &s[2], .token = v->other + 3, .n_tokens = 23, .out = STEP_OUT_NONE}};
    if (!engine_step(&v->o->engine, begin, 2, NULL, e))
        return false;
    snprintf(v->detail, sizeof v->detail, "prefill and decode beside 3 others");
    while (s[0].table.n_tokens < v->n_tokens) {
        int32_t pos = s[0].table.n_tokens, n = pos ? 1 : v->n_prompt;
        struct step steps[] = {
            {.session = &s[1], .token = v->other + 7, .n_tokens = 1, .out = STEP_OUT_LAST},
            {.session = &s[0], .token = v->token + pos, .n_tokens = n, .out = STEP_OUT_ALL},
            {.session = &s[2], .token = v->other + 8, .n_tokens = 1, .out = STEP_OUT_LAST},
            {.session = &s[3], .token = v->other + 1, .n_tokens = c->chunk, .out = STEP_OUT_NONE},
        };
        if (!engine_step(&v->o->engine, steps, pos ? 4 : 3, NULL, e))
            return false;
        for (int32_t i = 0; i < n; i++)
            if (!compare(v, steps[1].first_out + i, pos + i, diff, e))
                return false;
    }
    return true;
}

// Three sequences share a prompt whose last block is partly filled: two go on as the reference, one says other things.
static bool run_fork(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct session *parent = &v->session[0], *stranger = &v->session[1], *child = &v->session[2];
    struct engine *engine = &v->o->engine;
    (void)c;
    snprintf(v->detail, sizeof v->detail, "3 sequences after %d common tokens, blocks of %d", v->n_prompt,
             engine->kv.block_size);
    if (!advance(v, parent, v->n_prompt, v->n_prompt, diff, e) || !session_fork(engine, parent, stranger, e) ||
        !session_fork(engine, parent, child, e))
        return false;
    for (int32_t pos = v->n_prompt; pos < v->n_tokens; pos++) {
        struct step steps[] = {{.session = stranger, .token = v->other + pos, .n_tokens = 1, .out = STEP_OUT_LAST},
                               {.session = child, .token = v->token + pos, .n_tokens = 1, .out = STEP_OUT_LAST},
                               {.session = parent, .token = v->token + pos, .n_tokens = 1, .out = STEP_OUT_LAST}};
        if (!engine_step(engine, steps, 3, NULL, e) || !compare(v, 1, pos, diff, e) || !compare(v, 2, pos, diff, e))
            return false;
    }
    return true;
}

static bool run_truncate(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct session *s = &v->session[0];
    int32_t n_wrong = v->n_tokens - v->n_prompt;
    (void)c;
    snprintf(v->detail, sizeof v->detail, "%d other tokens after %d, taken back", n_wrong, v->n_prompt);
    struct step wrong = {.session = s, .token = v->other, .n_tokens = n_wrong, .out = STEP_OUT_NONE};
    if (!advance(v, s, v->n_prompt, v->n_prompt, diff, e) || !engine_step(&v->o->engine, &wrong, 1, NULL, e))
        return false;
    session_truncate(&v->o->engine, s, v->n_prompt);
    return advance(v, s, n_wrong, 1, diff, e);
}

static struct kv_config kv_for(const struct verify *v, int32_t block_size)
{
    return kv_config_for(SESSIONS, v->n_tokens + 64, block_size, v->n_tokens + 64, v->n_tokens + SESSIONS);
}

// The same on another number of threads, then back to the usual.
static bool run_threads(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct backend_options other = v->device;
    struct kv_config kv = kv_for(v, c->block_size);
    other.threads = other.threads == 1 ? 2 : 1;
    snprintf(v->detail, sizeof v->detail, "%d thread%s", other.threads, other.threads == 1 ? "" : "s");
    bool ok = open_backend(v->o, &other, e) && open_engine(v->o, &kv, e) && prefill_and_decode(v, &v->session[0], diff, e);
    for (int i = 0; ok && i < SESSIONS; i++)
        session_free(&v->o->engine, &v->session[i]);
    return ok && open_backend(v->o, &v->device, e) && open_engine(v->o, &kv, e);
}

// Greedy, keeping how far apart the two best were at each step.
struct greedy {
    double gap[GENERATED];
    int32_t n;
};

static int32_t greedy_next(void *self, float *logits, int32_t vocab_size, int32_t n_tokens)
{
    struct greedy *g = self;
    int32_t best = logits_argmax(logits, vocab_size);
    double second = -INFINITY;
    (void)n_tokens;
    for (int32_t i = 0; i < vocab_size; i++)
        if (i != best && (double)logits[i] > second)
            second = (double)logits[i];
    g->gap[g->n++] = (double)logits[best] - second;
    return best;
}

static bool generate(struct verify *v, struct session *session, bool use_cache, int32_t *out, struct greedy *greedy,
                     int64_t *processed, struct error *e)
{
    struct token_source source = {.self = greedy, .needs_logits = true, .next = greedy_next};
    struct generate_options options = {.max_tokens = GENERATED, .use_cache = use_cache};
    int64_t before = v->o->engine.tokens_processed;
    int32_t n_out;
    bool ok = engine_generate(&v->o->engine, session, v->token, v->n_prompt, &source, &options, out, &n_out, e);
    *processed = v->o->engine.tokens_processed - before;
    return ok;
}

// Ids may differ first at a step whose two best are closer than twice the tolerance. The engine's count of tokens is part
// of the check.
static bool run_generate(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    int32_t cached[GENERATED], recomputed[GENERATED], n = GENERATED, same = 0;
    struct greedy with = {.n = 0}, without = {.n = 0};
    int64_t n_with, n_without;
    (void)c;
    if (!generate(v, &v->session[0], true, cached, &with, &n_with, e) ||
        !generate(v, &v->session[1], false, recomputed, &without, &n_without, e))
        return false;
    while (same < n && cached[same] == recomputed[same])
        same++;
    bool tie = same < n && with.gap[same] <= 2 * v->tolerance * v->largest;
    bool counted = n_with == v->n_prompt + n - 1 && n_without == (int64_t)v->n_prompt * n + n * (n - 1) / 2;
    snprintf(v->detail, sizeof v->detail, "%d of %d ids%s; %lld against %lld tokens processed", same, n,
             tie ? ", then a near tie" : "", (long long)n_with, (long long)n_without);
    *diff = (same == n || tie) && counted ? 0 : INFINITY;
    return true;
}

// Faults. Each leaves things as it found them.

static bool fault_table(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct session *s = &v->session[0];
    double before = 0;
    (void)c;
    if (!advance(v, s, v->n_prompt, v->n_prompt, &before, e))
        return false;
    int32_t *block = s->table.block, last = (v->n_prompt - 1) / v->o->engine.kv.block_size, first = block[0];
    snprintf(v->detail, sizeof v->detail, "blocks 0 and %d swapped", last);
    block[0] = block[last], block[last] = first;
    // the order of keys is all one to attention: what shows is that new tokens overwrite old ones
    return advance(v, s, v->n_tokens - v->n_prompt, 1, diff, e);
}

static bool forget_moves(void *self, const struct kv_move *moves, int32_t n, struct error *e)
{
    (void)self, (void)moves, (void)n, (void)e;
    return true;
}

static bool fault_copy(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    bool (*move)(void *, const struct kv_move *, int32_t, struct error *) = v->o->backend.move;
    v->o->backend.move = forget_moves;
    bool ok = run_fork(v, c, diff, e);
    v->o->backend.move = move;
    snprintf(v->detail, sizeof v->detail, "no copy before a shared block is written");
    return ok;
}

static bool fault_position(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct session *s = &v->session[0];
    double before = 0;
    (void)c;
    snprintf(v->detail, sizeof v->detail, "token %d stored at position %d", v->n_prompt, v->n_prompt - 1);
    if (!advance(v, s, v->n_prompt, v->n_prompt, &before, e))
        return false;
    session_truncate(&v->o->engine, s, v->n_prompt - 1);
    struct step step = {.session = s, .token = v->token + v->n_prompt, .n_tokens = 1, .out = STEP_OUT_LAST};
    return engine_step(&v->o->engine, &step, 1, NULL, e) && compare(v, 0, v->n_prompt, diff, e);
}

// The sequence for a window of the wrong size: long enough to cross the windows there are. Without one a short one, where
// the first position still weighs something.
static int32_t tokens_for_window(const struct verify *v)
{
    const struct model_spec *spec = &v->o->model.spec;
    for (int32_t i = 0; i < spec->num_hidden_layers; i++)
        if (spec->window[i] && spec->window[i] < v->n_tokens)
            return v->n_tokens;
    return FEW_TOKENS;
}

// Every layer sees one position less than it should, those without a window at the last row.
static bool fault_window(struct verify *v, const struct check *c, double *diff, struct error *e)
{
    struct model_spec *spec = &v->o->model.spec, saved = *spec;
    struct kv_config kv = kv_for(v, c->block_size);
    int32_t n = tokens_for_window(v);
    for (int32_t i = 0; i < spec->num_hidden_layers; i++) {
        int32_t seen = spec->window[i] && spec->window[i] < n ? spec->window[i] : n;
        spec->window[i] = seen - 1;
    }
    snprintf(v->detail, sizeof v->detail, "one position less is seen");
    bool ok = open_engine(v->o, &kv, e);
    *spec = saved;
    return ok && advance(v, &v->session[0], n - 1, n - 1, diff, e) && advance(v, &v->session[0], 1, 1, diff, e);
}

static const struct check CHECK[] = {
    {"token by token", false, 16, 1, run_chunks},
    {"prefill split at 7", false, 16, 7, run_chunks},
    {"prefill split at 16", false, 16, 16, run_chunks},
    {"prefill split at 17", false, 16, 17, run_chunks},
    {"prefill split at 64", false, 16, 64, run_chunks},
    {"blocks of 1", false, 1, 0, run_blocks},
    {"blocks of 8", false, 8, 0, run_blocks},
    {"blocks of 16", false, 16, 0, run_blocks},
    {"blocks of 32", false, 32, 0, run_blocks},
    {"contiguous", false, 0, 0, run_blocks},
    {"among strangers", false, 16, 7, run_strangers},
    {"fork and copy-on-write", false, 16, 0, run_fork},
    {"truncated and rewritten", false, 16, 0, run_truncate},
    {"generated with and without cache", false, 16, 0, run_generate},
    {"table entry flipped", true, 8, 0, fault_table},
    {"copy dropped", true, 16, 0, fault_copy},
    {"position off by one", true, 16, 0, fault_position},
    {"window off by one", true, 16, 0, fault_window},
    {"other number of threads", false, 16, 0, run_threads},
};

// Everything a check held must be free again.
static bool give_back(struct verify *v)
{
    const struct kv_pool *pool = &v->o->engine.pool;
    for (int i = 0; i < SESSIONS; i++)
        session_free(&v->o->engine, &v->session[i]);
    bool clean = pool->n_free == pool->n_blocks;
    for (int32_t i = 0; i < pool->n_blocks; i++)
        clean = clean && pool->ref[i] == 0;
    return clean;
}

// A new engine for each check: no KV of an earlier one can hide a fault.
static bool run_check(struct verify *v, const struct check *c, struct verify_report *report, struct error *e)
{
    struct verify_check row = {.control = c->control, .tolerance = v->tolerance};
    struct kv_config kv = kv_for(v, c->block_size);
    struct error fault = {0};
    snprintf(row.name, sizeof row.name, "%s", c->name);
    *v->detail = 0;
    if (!open_engine(v->o, &kv, e))
        return false;
    bool ran = c->run(v, c, &row.max_diff, &fault);
    bool clean = give_back(v);
    if (!ran && fault.kind != ERROR_FAILED) { // not a finding: the check could not be run
        *e = fault;
        return false;
    }
    memcpy(row.detail, v->detail, sizeof row.detail);
    if (!ran) {
        row.max_diff = INFINITY;
        snprintf(row.detail, sizeof row.detail, "%.120s", fault.message);
    } else if (!clean)
        snprintf(row.detail, sizeof row.detail, "KV blocks were not given back");
    row.passed = clean && (c->control ? row.max_diff > v->tolerance : row.max_diff <= v->tolerance);
    verify_add(report, &row);
    return true;
}

static bool check_finite(struct verify *v, size_t vocab, struct error *e)
{
    for (size_t i = 0; i < (size_t)v->n_tokens * vocab; i++) {
        double a = fabs((double)v->reference[i]);
        if (!isfinite(a))
            return error_set(e, ERROR_FAILED, "logits of the full pass are not finite at position %zu", i / vocab);
        v->largest = a > v->largest ? a : v->largest;
    }
    return true;
}

// One forward pass over the whole sequence.
static bool make_reference(struct verify *v, struct error *e)
{
    struct kv_config kv = kv_for(v, 0);
    struct step step = {.session = &v->session[0], .token = v->token, .n_tokens = v->n_tokens, .out = STEP_OUT_ALL};
    size_t vocab = (size_t)v->o->plan->vocab_size;
    if (!open_engine(v->o, &kv, e))
        return false;
    bool ok = engine_step(&v->o->engine, &step, 1, NULL, e);
    for (int32_t i = 0; ok && i < v->n_tokens; i++)
        ok = engine_logits(&v->o->engine, i, v->reference + (size_t)i * vocab, e);
    give_back(v);
    return ok && check_finite(v, vocab, e);
}

// Of the largest logit. The same sums in another order differ by roundings: of f32, or of the bf16 that activations are kept
// in on a GPU, where also the kernels differ by the number of rows.
static double tolerance_of(const struct backend *b)
{
    return strcmp(b->name, "cuda") ? 1e-4 : 4e-2;
}

// Long enough to cross windows, blocks and chunks; shorter where a token by token pass takes many seconds.
static bool verify_init(struct verify *v, struct opened *o, const struct verify_options *options, struct error *e)
{
    bool large = plan_weight_bytes(o->plan) > (uint64_t)64 << 20;
    *v = (struct verify){.o = o,
                         .device = options->device,
                         .n_tokens = large ? 72 : 100,
                         .n_prompt = large ? 66 : 85,
                         .tolerance = tolerance_of(&o->backend)};
    size_t vocab = (size_t)o->plan->vocab_size, n = (size_t)v->n_tokens;
    v->token = malloc(n * sizeof *v->token);
    v->other = malloc(n * sizeof *v->other);
    v->reference = malloc(n * vocab * sizeof *v->reference);
    v->row = malloc(vocab * sizeof *v->row);
    if (!v->token || !v->other || !v->reference || !v->row)
        return error_set(e, ERROR_MEMORY, "no memory for the logits of %d tokens", v->n_tokens);
    for (size_t i = 0; i < n; i++) {
        v->token[i] = (int32_t)(rng_at(options->seed, i) % vocab);
        v->other[i] = (int32_t)(rng_at(options->seed + 1, i) % vocab);
    }
    return true;
}

static void verify_free(struct verify *v)
{
    free(v->token);
    free(v->other);
    free(v->reference);
    free(v->row);
}

// Windows of one position: no KV but a row's own is ever read, so nothing that goes wrong with it shows.
static bool sees_itself_only(const struct model_spec *spec)
{
    for (int32_t i = 0; i < spec->num_hidden_layers; i++)
        if (spec->window[i] != 1)
            return false;
    return true;
}

static bool applies(const struct verify *v, const struct check *c)
{
    if (c->run == fault_window)
        return !v->o->backend.weightless; // a backend without attention has no window
    return !c->control || v->o->backend.weightless || !sees_itself_only(&v->o->model.spec);
}

// LongRoPE turns keys otherwise beyond the original context, so a short context's keys are not a long one's. The protocol
// is about what becomes of the KV: it stays within.
static void stay_within_original(struct verify *v)
{
    struct rope_spec *rope[] = {&v->o->model.spec.rope, &v->o->model.spec.rope_local};
    for (int i = 0; i < 2; i++)
        if (rope[i]->kind == ROPE_LONG && rope[i]->original_max_position_embeddings < v->n_tokens)
            rope[i]->original_max_position_embeddings = v->n_tokens;
}

bool verify_protocol(struct opened *o, const struct verify_options *options, struct verify_report *report, struct error *e)
{
    struct verify v;
    verify_choose_types(o, options->kv);
    bool ok = verify_init(&v, o, options, e);
    stay_within_original(&v);
    ok = ok && make_reference(&v, e);
    for (size_t i = 0; ok && i < sizeof CHECK / sizeof *CHECK; i++)
        if (applies(&v, &CHECK[i]))
            ok = run_check(&v, &CHECK[i], report, e);
    verify_free(&v);
    return ok;
}
