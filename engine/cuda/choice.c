// Who multiplies few rows: the own linear kernel or the libraries. When a plan is opened, both are timed for each shape of
// the model at 1, 2, 4 ... 64 rows, one layer after another as a step does it, so that weights come from memory and not from
// L2. What was timed is kept until other weights are loaded.
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/cuda/host.h"

#include <string.h>

enum { REPEATS = 3, MOST_ALIKE = 32, PATTERN = 0x3c }; // PATTERN: bytes of a small bf16
static const int64_t LIMIT_NS = 300000000;             // what is not timed by then keeps the fixed choice
static const uint8_t FIXED = 0x1f;                     // own up to 2^4 rows: CUDA_OWN_ROWS

bool cuda_choose_by(struct cuda *c, const char *name, struct error *e)
{
    static const char *const NAME[] = {"auto", "fixed", "own", "blas"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name ? name : "auto", NAME[i])) {
            c->choose = (enum cuda_choose)i;
            return true;
        }
    return error_set(e, ERROR_USAGE, "the cuda backend has no kernel set '%.40s', expected auto, fixed, own or blas", name);
}

static int32_t octave_of(int32_t rows)
{
    int32_t octave = 0;
    while (1 << octave < rows)
        octave++;
    return octave;
}

static bool is_linear(const struct span *s)
{
    return s->kernel == CUDA_SPAN_LINEAR || s->kernel == CUDA_SPAN_QKV || s->kernel == CUDA_SPAN_GATE_UP_ACT;
}

// What spans must share to share a choice.
static struct cuda_choice key_of(const struct plan *plan, const struct span *s)
{
    const struct op *op = &plan->op[s->first];
    struct cuda_choice k = {.n_in = op->dim[0], .kernel = s->kernel, .compute = op->compute, .rows = op->rows, .own = FIXED};
    for (int32_t i = 0; i < s->count; i++)
        if (op[i].kind == OP_LINEAR)
            k.bytes += tensor_bytes(&plan->tensor[op[i].weight]);
    return k;
}

static bool alike(const struct cuda_choice *a, const struct cuda_choice *b)
{
    return a->n_in == b->n_in && a->kernel == b->kernel && a->compute == b->compute && a->bytes == b->bytes;
}

static struct cuda_choice *find(struct cuda *c, const struct cuda_choice *key)
{
    for (int32_t i = 0; i < c->n_choices; i++)
        if (alike(&c->choice[i], key))
            return &c->choice[i];
    return NULL;
}

static bool takes_own(struct cuda *c, const struct plan *plan, const struct span *s, int32_t rows)
{
    static const int32_t MOST[] = {
        [CUDA_CHOOSE_FIXED] = CUDA_OWN_ROWS, [CUDA_CHOOSE_OWN] = CUDA_LINEAR_MAX_ROWS, [CUDA_CHOOSE_BLAS] = 0};
    if (c->choose != CUDA_CHOOSE_TIMED)
        return rows <= MOST[c->choose];
    struct cuda_choice key = key_of(plan, s), *known = find(c, &key);
    return rows <= CUDA_LINEAR_MAX_ROWS && (known ? known : &key)->own >> octave_of(rows) & 1;
}

int32_t cuda_choose_cover(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans)
{
    int32_t n = cuda_cover(NULL, plan, shape, spans);
    for (int32_t i = 0; i < n; i++) {
        int32_t rows = plan->op[spans[i].first].rows == ROWS_OUT ? shape->n_out : shape->n_tokens;
        if (is_linear(&spans[i]))
            spans[i].strategy = takes_own(self, plan, &spans[i], rows) ? CUDA_STRATEGY_OWN : CUDA_STRATEGY_BLAS;
    }
    return n;
}

// Spans of one shape, and a step of so many rows for them.
struct timing {
    struct cuda *cuda;
    struct cuda_step step;
    struct batch batch;
    struct span span[MOST_ALIKE];
    int32_t n;
    int64_t until;
};

// Enough of them that the next round finds none of the weights in L2.
static void gather_alike(struct timing *t, const struct cuda_choice *key, const struct span *spans, int32_t n)
{
    struct cuda *c = t->cuda;
    uint64_t bytes = 0;
    t->n = 0;
    for (int32_t i = 0; i < n && t->n < MOST_ALIKE && bytes < 3 * (uint64_t)c->device.l2CacheSize; i++) {
        struct cuda_choice k = is_linear(&spans[i]) ? key_of(c->plan, &spans[i]) : (struct cuda_choice){0};
        if (is_linear(&spans[i]) && k.rows == key->rows && alike(&k, key))
            t->span[t->n++] = spans[i], bytes += k.bytes;
    }
}

static cudaError_t walk_round(struct timing *t, enum cuda_strategy strategy)
{
    cudaError_t e = cudaSuccess;
    for (int32_t i = 0; i < t->n && !e; i++) {
        t->span[i].strategy = (uint16_t)strategy;
        e = cuda_walk_span(&t->step, &t->span[i]);
    }
    return e;
}

// The median of a round's time; the first round is not timed, nor does it count: what it runs may have to be loaded.
static cudaError_t time_rounds(struct timing *t, enum cuda_strategy strategy, double *ms)
{
    cudaStream_t stream = t->cuda->stream;
    cudaEvent_t *edge = t->cuda->event;
    double all[REPEATS];
    int64_t begin = clock_ns();
    cudaError_t e = walk_round(t, strategy);
    if (!e)
        e = cudaStreamSynchronize(stream);
    t->until += clock_ns() - begin;
    for (int i = 0; i < REPEATS && !e; i++) {
        float each = 0;
        e = cudaEventRecord(edge[0], stream);
        if (!e)
            e = walk_round(t, strategy);
        if (!e)
            e = cudaEventRecord(edge[1], stream);
        if (!e)
            e = cudaStreamSynchronize(stream);
        if (!e)
            e = cudaEventElapsedTime(&each, edge[0], edge[1]);
        all[i] = (double)each;
    }
    *ms = e ? 0 : stats_median(all, REPEATS);
    return e;
}

// The most rows that are timed: of the last layer and the head, no more than have a place in their buffers.
static int32_t most_rows(const struct cuda *c, const struct cuda_choice *choice)
{
    int32_t most = choice->rows == ROWS_OUT ? c->config.max_out : c->config.max_tokens;
    return most < CUDA_LINEAR_MAX_ROWS ? most : CUDA_LINEAR_MAX_ROWS;
}

static cudaError_t time_choice(struct timing *t, struct cuda_choice *choice)
{
    int32_t most = most_rows(t->cuda, choice);
    cudaError_t e = cudaSuccess;
    for (int32_t octave = 0; octave <= octave_of(most) && !e && clock_ns() < t->until; octave++) {
        double own = 0, blas = 0;
        t->batch.n_tokens = t->batch.n_out = 1 << octave < most ? 1 << octave : most;
        e = time_rounds(t, CUDA_STRATEGY_OWN, &own);
        if (!e)
            e = time_rounds(t, CUDA_STRATEGY_BLAS, &blas);
        choice->own = (uint8_t)((choice->own & ~(1 << octave)) | (own <= blas) << octave);
    }
    choice->timed = most;
    return e;
}

// Values that are neither zeros nor NaN, and rows that exist.
static cudaError_t prepare(const struct cuda *c)
{
    cudaError_t e = cudaMemsetAsync(c->activations, PATTERN, c->activation_bytes, c->stream);
    return e ? e : cudaMemsetAsync(c->numbers.token, 0, c->numbers_bytes, c->stream);
}

// A place for what is not timed yet at as many rows as the plan can have; NULL: it is, or there is none.
static struct cuda_choice *place(struct cuda *c, const struct cuda_choice *key)
{
    struct cuda_choice *known = find(c, key);
    if (known)
        return known->timed < most_rows(c, key) ? known : NULL;
    return c->n_choices < CUDA_CHOICES ? &c->choice[c->n_choices] : NULL;
}

static cudaError_t time_span(struct timing *t, const struct span *s, int32_t n)
{
    struct cuda *c = t->cuda;
    struct cuda_choice key = key_of(c->plan, s), *to = place(c, &key);
    if (!to)
        return cudaSuccess;
    gather_alike(t, &key, c->spans, n);
    cudaError_t e = time_choice(t, &key);
    if (e)
        return e;
    c->n_choices += to == &c->choice[c->n_choices];
    *to = key;
    return cudaSuccess;
}

bool cuda_choose_time(struct cuda *c, struct error *e)
{
    struct batch_shape shape = {.n_tokens = 1, .n_seqs = 1, .n_out = 1, .max_rows = 1, .max_ctx = 1};
    struct timing t = {.cuda = c, .until = clock_ns() + LIMIT_NS};
    if (c->choose != CUDA_CHOOSE_TIMED)
        return true;
    t.step = (struct cuda_step){.cuda = c, .batch = &t.batch, .shape = shape};
    cudaError_t failed = prepare(c);
    int32_t n = cuda_cover(NULL, c->plan, &shape, c->spans);
    for (int32_t i = 0; i < n && !failed; i++)
        if (is_linear(&c->spans[i]))
            failed = time_span(&t, &c->spans[i], n);
    return cuda_failed(failed, "timing linear layers", e);
}
