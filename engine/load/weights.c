// A plan's tensors from a model's files or from a seed. What the file stores as the plan wants it is used where it is
// mapped; the rest is copied, converted or made into one buffer. All of it is checked for NaN and infinity on the way.
#include "engine/base/memory.h"
#include "engine/base/units.h"
#include "engine/load/family.h"
#include "engine/load/files.h"
#include "engine/load/scales.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, CHUNK_BYTES = 1 << 20, BLOCK_MAX = 256 };

// How one tensor comes into being.
enum source { SOURCE_RANDOM, SOURCE_MAPPED, SOURCE_COPIED };

struct origin {
    enum source source;
    const struct stored_tensor *stored;
    int64_t first, rows;          // begins at row `first` of the stored tensor's `rows`; of a vector rows are values
    int32_t head_dim, rotary_dim; // head_dim > 0: Llama's q or k in GGUF's order of rows, to be put back
    float offset;                 // added to each value: Gemma's norm weights are stored less 1
    struct scales scales;         // of FP8 values
};

// Rows first .. first+count-1 of one tensor: the unit of work.
struct chunk {
    int32_t tensor, first, count;
};

struct loading {
    const struct model *model;
    const struct plan *plan;
    uint64_t seed;
    struct origin *origin; // [n_tensors]
    struct tensor *tensor; // [n_tensors]
    struct chunk *chunk;
    int64_t n_chunks;
    pthread_mutex_t lock;
    int32_t failed; // lowest tensor with a value that is not finite; INT32_MAX: none
    bool no_memory;
    uint64_t done, total;       // bytes
    int64_t read_ns, repack_ns; // of all threads
    int64_t told_ns;            // when on_loaded was last called
};

static uint64_t row_bytes_of(enum dtype type, int32_t cols)
{
    return dtype_row_bytes(type, (uint64_t)cols);
}

static const char *name_of(const struct model *m, const struct tensor_spec *t, char out[96])
{
    model_tensor_name(m, t, out, 96);
    return out;
}

static bool check_shape(const struct model *m, const struct tensor_spec *t, const struct location *at, struct error *e)
{
    char name[96], shape[64] = "", expected[32];
    const struct stored_tensor *s = at->stored;
    bool vector = t->rows == 1;
    if (s->n_dims == (vector ? 1 : 2) && s->dim[0] == (uint64_t)at->rows && (vector || s->dim[1] == (uint64_t)t->cols))
        return true;
    for (int32_t i = 0, n = 0; i < s->n_dims && n < 40; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%llu", i ? ", " : "", (unsigned long long)s->dim[i]);
    if (vector)
        snprintf(expected, sizeof expected, "%lld", (long long)at->rows);
    else
        snprintf(expected, sizeof expected, "%lld, %d", (long long)at->rows, t->cols);
    char stored[96];
    bool fused = at->rows != (vector ? t->cols : t->rows);
    return error_set(e, ERROR_FILE, "'%s': tensor '%s' is [%s], expected [%s]", m->path,
                     fused ? text_print(s->name, stored) : name_of(m, t, name), shape, expected);
}

bool type_converts(enum dtype type, bool from_f32)
{
    float value[BLOCK_MAX] = {0};
    uint8_t row[4 * BLOCK_MAX] = {0};
    size_t n = (size_t)dtype_block(type);
    return from_f32 ? dtype_from_f32(type, value, row, n) : dtype_to_f32(type, row, value, n);
}

// GGUF stores the rows of Llama's q and k so that pairs (i, i + rotary_dim/2) of a head become neighbours (2i, 2i+1).
static void set_permutation(const struct model *m, const struct tensor_spec *t, struct origin *o)
{
    bool q_or_k = t->role == TENSOR_ATTN_Q || t->role == TENSOR_ATTN_K || t->role == TENSOR_ATTN_Q_BIAS ||
                  t->role == TENSOR_ATTN_K_BIAS;
    const struct family *f = family_by_name(m->spec.family); // NULL: priced only
    if (m->format != MODEL_GGUF || !f || !f->permuted_gguf || !q_or_k)
        return;
    o->head_dim = m->spec.head_dim, o->rotary_dim = m->spec.rope.rotary_dim;
}

// Where the file keeps what belongs into row r.
static int64_t stored_row(const struct origin *o, int32_t r)
{
    int32_t in_head = o->head_dim ? r % o->head_dim : 0, half = o->rotary_dim / 2;
    if (!o->head_dim || in_head >= o->rotary_dim)
        return o->first + r;
    return o->first + r - in_head + 2 * (in_head % half) + in_head / half;
}

// The first byte of what the plan calls its tensor, where rows stand in order.
static const uint8_t *stored_data(const struct origin *o, const struct tensor_spec *t)
{
    uint64_t row_bytes = t->rows == 1 ? dtype_row_bytes(o->stored->dtype, 1) : row_bytes_of(o->stored->dtype, t->cols);
    return (const uint8_t *)o->stored->data + (o->first ? (uint64_t)o->first * row_bytes : 0);
}

static bool serves_as_it_is(const struct origin *o, const struct tensor_spec *t)
{
    uintptr_t unit = t->dtype == DTYPE_F32 ? 4 : 2;
    bool whole = !o->first || t->rows > 1 || dtype_block((enum dtype)t->dtype) == 1;
    return o->stored->dtype == (enum dtype)t->dtype && !o->head_dim && o->offset == 0 && whole &&
           (uintptr_t)stored_data(o, t) % unit == 0;
}

// Norm weights that are stored less an offset.
static float offset_of(const struct model *m, const struct tensor_spec *t)
{
    const struct family *f = family_by_name(m->spec.family);
    switch ((enum tensor_role)t->role) {
    case TENSOR_ATTN_NORM:
    case TENSOR_ATTN_POST_NORM:
    case TENSOR_ATTN_Q_NORM:
    case TENSOR_ATTN_K_NORM:
    case TENSOR_FFN_NORM:
    case TENSOR_FFN_POST_NORM:
    case TENSOR_OUTPUT_NORM: return f && m->format == MODEL_HF ? f->norm_offset : 0;
    default: return 0;
    }
}

enum dtype model_tensor_dtype(void *model, const struct tensor_spec *spec)
{
    const struct model *m = model;
    struct location at;
    if (!model_locate(m, spec, &at) || !at.stored->known)
        return DTYPE_F32;
    bool vector = at.stored->n_dims == 1;
    if ((vector && dtype_block(at.stored->dtype) > 1) || offset_of(m, spec) != 0)
        return DTYPE_F32;
    return at.stored->dtype == DTYPE_FP8 ? m->spec.dtype : at.stored->dtype;
}

static bool find_origin(const struct model *m, const struct tensor_spec *t, struct origin *o, struct error *e)
{
    char name[96];
    enum dtype wanted = (enum dtype)t->dtype;
    struct location at;
    if (!model_locate(m, t, &at))
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' is missing", m->path, name_of(m, t, name));
    const struct stored_tensor *s = at.stored;
    if (!s->known)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' is stored as %s, expected F32, F16, BF16 or F8_E4M3",
                         m->path, name_of(m, t, name), s->type);
    if (!check_shape(m, t, &at, e) || !scales_find(&o->scales, m, s, e))
        return false;
    o->stored = s, o->first = at.first, o->rows = at.rows, o->offset = offset_of(m, t);
    set_permutation(m, t, o);
    if (serves_as_it_is(o, t)) {
        o->source = SOURCE_MAPPED;
        return true;
    }
    o->source = SOURCE_COPIED;
    return s->dtype == wanted || type_converts(wanted, true) ||
           error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' of type %s cannot be converted to %s", m->path,
                     name_of(m, t, name), s->type, dtype_name(wanted));
}

static bool find_origins(struct loading *l, struct error *e)
{
    const struct model *m = l->model;
    for (int32_t i = 0; i < l->plan->n_tensors; i++) {
        const struct tensor_spec *t = &l->plan->tensor[i];
        if (m->format != MODEL_RANDOM && !find_origin(m, t, &l->origin[i], e))
            return false;
        if (!type_converts((enum dtype)t->dtype, false))
            return error_set(e, ERROR_UNSUPPORTED, "'%s': nothing here computes with %s weights", m->path,
                             dtype_name((enum dtype)t->dtype));
    }
    return true;
}

static bool allocate(struct weights *w, uint64_t bytes, const char *path, struct error *e)
{
    char need[24], have[24];
    uint64_t rounded = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, available = memory_available("");
    if (bytes > available)
        return error_set(e, ERROR_MEMORY, "'%s': weights of %s, but only %s of memory are available", path,
                         format_bytes(bytes, need), format_bytes(available, have));
    w->owned = calloc(1, sizeof *w->owned);
    if (!w->owned || !(w->owned[0] = aligned_alloc(HUGE_PAGE, rounded)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for weights of %s", path, format_bytes(bytes, need));
    w->n_owned = 1, w->owned_bytes = bytes;
    madvise(w->owned[0], rounded, MADV_HUGEPAGE); // fewer faults now, fewer TLB misses at each step; advice only
    return true;
}

// Points every tensor at the file or at its place in the one buffer.
static bool place_tensors(struct loading *l, struct weights *w, struct error *e)
{
    uint64_t bytes = 0, at = 0;
    for (int32_t i = 0; i < l->plan->n_tensors; i++)
        if (l->origin[i].source != SOURCE_MAPPED)
            bytes += (tensor_bytes(&l->plan->tensor[i]) + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes && !allocate(w, bytes, l->model->path, e))
        return false;
    for (int32_t i = 0; i < l->plan->n_tensors; i++) {
        const struct tensor_spec *t = &l->plan->tensor[i];
        const void *data =
            l->origin[i].source == SOURCE_MAPPED ? stored_data(&l->origin[i], t) : (const uint8_t *)w->owned[0] + at;
        l->tensor[i] = (struct tensor){.data = data, .dtype = (enum dtype)t->dtype, .rows = t->rows, .cols = t->cols};
        if (l->origin[i].source != SOURCE_MAPPED)
            at += (tensor_bytes(t) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return true;
}

static int32_t rows_per_chunk(const struct tensor_spec *t)
{
    uint64_t rows = CHUNK_BYTES / row_bytes_of((enum dtype)t->dtype, t->cols);
    return rows < 1 ? 1 : (int32_t)rows;
}

static bool make_chunks(struct loading *l, struct error *e)
{
    const struct plan *p = l->plan;
    for (int32_t i = 0; i < p->n_tensors; i++)
        l->n_chunks += p->tensor[i].rows / rows_per_chunk(&p->tensor[i]) + 1;
    if (!(l->chunk = calloc((size_t)l->n_chunks, sizeof *l->chunk)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory", l->model->path);
    l->n_chunks = 0;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        int32_t step = rows_per_chunk(&p->tensor[i]), rows = p->tensor[i].rows;
        for (int32_t first = 0; first < rows; first += step)
            l->chunk[l->n_chunks++] = (struct chunk){i, first, rows - first < step ? rows - first : step};
    }
    return true;
}

// A vector's values go through f32, which every type it can have fits.
static bool copy_vector(const struct origin *o, const struct tensor *t, void *out)
{
    float *stored = malloc(((size_t)o->rows + (size_t)t->cols) * sizeof *stored),
          *ordered = stored ? stored + o->rows : NULL;
    if (!stored)
        return false;
    dtype_to_f32(o->stored->dtype, o->stored->data, stored, (size_t)o->rows);
    for (int32_t i = 0; i < t->cols; i++)
        ordered[i] = stored[stored_row(o, i)] + o->offset;
    dtype_from_f32(t->dtype, ordered, out, (size_t)t->cols);
    free(stored);
    return true;
}

static bool copy_rows(const struct origin *o, const struct tensor *t, const struct chunk *c, uint8_t *out)
{
    uint64_t from_bytes = row_bytes_of(o->stored->dtype, t->cols), to_bytes = row_bytes_of(t->dtype, t->cols);
    const uint8_t *from = o->stored->data;
    float *row = malloc((size_t)t->cols * sizeof *row);
    if (!row)
        return false;
    for (int32_t i = 0; i < c->count; i++, out += to_bytes) {
        int64_t r = stored_row(o, c->first + i);
        const uint8_t *at = from + (uint64_t)r * from_bytes;
        if (o->stored->dtype == t->dtype) {
            memcpy(out, at, to_bytes);
            continue;
        }
        if (o->stored->dtype == DTYPE_FP8)
            scales_row(&o->scales, at, r, t->cols, row);
        else
            dtype_to_f32(o->stored->dtype, at, row, (size_t)t->cols);
        dtype_from_f32(t->dtype, row, out, (size_t)t->cols);
    }
    free(row);
    return true;
}

static void note_failure(struct loading *l, int32_t tensor, bool no_memory)
{
    pthread_mutex_lock(&l->lock);
    l->no_memory |= no_memory;
    if (!no_memory && tensor < l->failed)
        l->failed = tensor;
    pthread_mutex_unlock(&l->lock);
}

static bool rows_finite(enum dtype type, const void *data, int32_t cols, const struct chunk *c)
{
    uint64_t row_bytes = row_bytes_of(type, cols);
    return values_finite(type, (const uint8_t *)data + (uint64_t)c->first * row_bytes, (uint64_t)c->count * row_bytes);
}

// Reads ahead what will be used where it lies: page by page would be slower.
static void read_ahead(const struct loading *l)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int32_t i = 0; i < l->plan->n_tensors; i++) {
        const struct stored_tensor *s = l->origin[i].stored;
        uintptr_t at = s ? (uintptr_t)s->data / page * page : 0;
        if (s && s->bytes)
            madvise((void *)at, (uintptr_t)s->data + s->bytes - at, MADV_WILLNEED); // advice only
    }
}

// Books a chunk, and says so at most ten times a second.
static void chunk_done(struct loading *l, const struct chunk *c, int64_t began_ns, int64_t read_ns)
{
    const struct model *m = l->model;
    int64_t now = clock_ns();
    pthread_mutex_lock(&l->lock);
    l->read_ns += read_ns - began_ns, l->repack_ns += now - read_ns;
    l->done += row_bytes_of(l->tensor[c->tensor].dtype, l->tensor[c->tensor].cols) * (uint64_t)c->count;
    if (m->on_loaded && (now - l->told_ns > 100000000 || l->done == l->total)) {
        m->on_loaded(m->ctx, l->done, l->total);
        l->told_ns = now;
    }
    pthread_mutex_unlock(&l->lock);
}

static void load_chunk(void *ctx, int64_t i)
{
    struct loading *l = ctx;
    int64_t began_ns = clock_ns();
    const struct chunk *c = &l->chunk[i];
    const struct origin *o = &l->origin[c->tensor];
    const struct tensor *t = &l->tensor[c->tensor];
    uint64_t row_bytes = row_bytes_of(t->dtype, t->cols);
    uint8_t *at = (uint8_t *)(uintptr_t)t->data + (uint64_t)c->first * row_bytes; // written only where it is owned
    if (o->source == SOURCE_RANDOM) {
        random_fill(&l->plan->tensor[c->tensor], c->tensor, l->seed, c->first, c->count, at);
        chunk_done(l, c, began_ns, began_ns);
        return;
    }
    const struct tensor_spec *spec = &l->plan->tensor[c->tensor];
    bool in_rows = o->source == SOURCE_MAPPED || t->rows > 1, copied = true; // a vector may lie in blocks: checked as f32
    bool finite = !in_rows || rows_finite(o->stored->dtype, stored_data(o, spec), t->cols, c);
    int64_t read_ns = clock_ns();
    if (finite && o->source == SOURCE_COPIED) {
        copied = t->rows == 1 ? copy_vector(o, t, at) : copy_rows(o, t, c, at);
        finite = !copied || rows_finite(t->dtype, t->data, t->cols, c); // large f32 values overflow f16
    }
    if (!finite || !copied)
        note_failure(l, c->tensor, !copied);
    chunk_done(l, c, began_ns, read_ns);
}

static bool load_all(struct loading *l, int32_t threads, struct error *e)
{
    char name[96];
    const struct model *m = l->model;
    l->failed = INT32_MAX, l->total = plan_weight_bytes(l->plan);
    read_ahead(l);
    parallel_for(threads, l->n_chunks, load_chunk, l);
    if (l->no_memory)
        return error_set(e, ERROR_MEMORY, "'%s': no memory to convert weights", m->path);
    if (l->failed != INT32_MAX)
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' holds NaN or infinity", m->path,
                         name_of(m, &l->plan->tensor[l->failed], name));
    return true;
}

static bool check_request(const struct model *m, const struct plan *plan, struct error *e)
{
    if (!model_has_weights(m))
        return error_set(e, ERROR_FILE, "'%s': there are no weights beside this configuration", m->path);
    if (m->format != MODEL_RANDOM && !family_by_name(m->spec.family))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': models of family '%s' can be priced, their weights not loaded",
                         m->path, m->spec.family);
    if (plan->tp != 1 && m->format != MODEL_RANDOM)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': weights cannot be split over %d ranks, expected tp 1", m->path,
                         plan->tp);
    return true;
}

static void book_time(const struct loading *l, int64_t load_ns, struct weights *out)
{
    double all = (double)l->read_ns + (double)l->repack_ns;
    out->load_ns = load_ns;
    out->read_ns = all > 0 ? (int64_t)((double)load_ns * ((double)l->read_ns / all)) : 0;
    out->repack_ns = load_ns - out->read_ns;
}

bool model_weights(const struct model *m, const struct plan *plan, uint64_t seed, int32_t threads, struct weights *out,
                   struct error *e)
{
    int64_t began_ns = clock_ns();
    *out = (struct weights){0};
    if (!check_request(m, plan, e))
        return false;
    struct loading l = {.model = m, .plan = plan, .seed = seed, .lock = PTHREAD_MUTEX_INITIALIZER};
    l.origin = calloc((size_t)plan->n_tensors, sizeof *l.origin);
    l.tensor = out->tensor = calloc((size_t)plan->n_tensors, sizeof *out->tensor);
    bool ok = (l.origin && l.tensor) || error_set(e, ERROR_MEMORY, "'%s': no memory", m->path);
    ok = ok && find_origins(&l, e) && place_tensors(&l, out, e) && make_chunks(&l, e) && load_all(&l, threads, e);
    free(l.origin);
    free(l.chunk);
    book_time(&l, clock_ns() - began_ns, out);
    if (!ok)
        weights_free(out);
    return ok;
}

void weights_free(struct weights *w)
{
    for (int32_t i = 0; i < w->n_owned; i++)
        free(w->owned[i]);
    free(w->owned);
    free(w->tensor);
    *w = (struct weights){0};
}
