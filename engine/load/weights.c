// A plan's tensors, row by row, from a model's files or from a seed: copied, converted or made when they are read, and
// checked for NaN and infinity on the way.
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

enum { BLOCK_MAX = 256 };

// How one tensor comes into being: made from the seed, as a file has it, or in another type or order.
enum source { SOURCE_RANDOM, SOURCE_STORED, SOURCE_CONVERTED };

struct origin {
    enum source source;
    const struct stored_tensor *stored;
    int64_t first, rows;          // begins at row `first` of the stored tensor's `rows`; of a vector rows are values
    int32_t head_dim, rotary_dim; // head_dim > 0: Llama's q or k in GGUF's order of rows, to be put back
    float offset;                 // added to each value: Gemma's norm weights are stored less 1
    struct scales scales;         // of FP8 values
};

struct reader { // the context of a tensor that is read
    struct weight_source *source;
    int32_t id;
};

struct weight_source {
    const struct model *model;
    struct tensor_spec *spec; // [n]
    int32_t n;
    uint64_t seed, total;       // total: bytes
    struct origin *origin;      // [n]
    struct reader *reader;      // [n]
    pthread_mutex_t lock;       // of all below
    int32_t *unread;            // [n] rows that nobody has read yet
    uint64_t done;              // bytes
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

static uint64_t tensor_file_bytes(const struct origin *o, const struct tensor_spec *t)
{
    return (uint64_t)t->rows * row_bytes_of(o->stored->dtype, t->cols);
}

static bool serves_as_it_is(const struct origin *o, const struct tensor_spec *t)
{
    bool whole = !o->first || t->rows > 1 || dtype_block((enum dtype)t->dtype) == 1;
    return o->stored->dtype == (enum dtype)t->dtype && !o->head_dim && o->offset == 0 && whole;
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
        o->source = SOURCE_STORED;
        return true;
    }
    o->source = SOURCE_CONVERTED;
    return s->dtype == wanted || type_converts(wanted, true) ||
           error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' of type %s cannot be converted to %s", m->path,
                     name_of(m, t, name), s->type, dtype_name(wanted));
}

static bool find_origins(struct weight_source *s, struct error *e)
{
    for (int32_t i = 0; i < s->n; i++) {
        enum dtype type = (enum dtype)s->spec[i].dtype;
        bool random = s->model->format == MODEL_RANDOM;
        if (!random && !find_origin(s->model, &s->spec[i], &s->origin[i], e))
            return false;
        if (!type_converts(type, false) && !(random && type == DTYPE_FP8)) // whose scale is 1 there
            return error_set(e, ERROR_UNSUPPORTED, "'%s': nothing here computes with %s weights", s->model->path,
                             dtype_name(type));
    }
    return true;
}

// A vector's values go through f32, which every type it can have fits.
static bool copy_vector(const struct origin *o, const struct tensor_spec *t, void *out)
{
    float *stored = malloc(((size_t)o->rows + (size_t)t->cols) * sizeof *stored),
          *ordered = stored ? stored + o->rows : NULL;
    if (!stored)
        return false;
    dtype_to_f32(o->stored->dtype, o->stored->data, stored, (size_t)o->rows);
    for (int32_t i = 0; i < t->cols; i++)
        ordered[i] = stored[stored_row(o, i)] + o->offset;
    dtype_from_f32((enum dtype)t->dtype, ordered, out, (size_t)t->cols);
    free(stored);
    return true;
}

static bool copy_rows(const struct origin *o, const struct tensor_spec *t, int32_t first, int32_t n, uint8_t *out)
{
    enum dtype type = (enum dtype)t->dtype;
    uint64_t from_bytes = row_bytes_of(o->stored->dtype, t->cols), to_bytes = row_bytes_of(type, t->cols);
    const uint8_t *from = o->stored->data;
    float *row = malloc((size_t)t->cols * sizeof *row);
    if (!row)
        return false;
    for (int32_t i = 0; i < n; i++, out += to_bytes) {
        int64_t r = stored_row(o, first + i);
        const uint8_t *at = from + (uint64_t)r * from_bytes;
        if (o->stored->dtype == type) {
            memcpy(out, at, to_bytes);
            continue;
        }
        if (o->stored->dtype == DTYPE_FP8)
            scales_row(&o->scales, at, r, t->cols, row);
        else
            dtype_to_f32(o->stored->dtype, at, row, (size_t)t->cols);
        dtype_from_f32(type, row, out, (size_t)t->cols);
    }
    free(row);
    return true;
}

static bool rows_finite(enum dtype type, const void *rows, int32_t cols, int32_t n)
{
    return values_finite(type, rows, (uint64_t)n * row_bytes_of(type, cols));
}

static bool not_finite(const struct weight_source *s, int32_t id, struct error *e)
{
    char name[96];
    return error_set(e, ERROR_FILE, "'%s': tensor '%s' holds NaN or infinity", s->model->path,
                     name_of(s->model, &s->spec[id], name));
}

// Advice about the file's pages that hold a tensor: whole pages only, where others are to be let go of.
static void advise(const struct weight_source *s, int32_t id, int advice)
{
    if (id >= s->n || !s->origin[id].stored)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)stored_data(&s->origin[id], &s->spec[id]);
    uintptr_t end = begin + tensor_file_bytes(&s->origin[id], &s->spec[id]);
    begin = advice == MADV_DONTNEED ? (begin + page - 1) / page * page : begin / page * page;
    end = advice == MADV_DONTNEED ? end / page * page : end;
    if (begin < end)
        madvise((void *)begin, end - begin, advice);
}

// Books rows that were read, and says so at most ten times a second.
static void rows_done(struct weight_source *s, int32_t id, int32_t n, int64_t began_ns, int64_t read_ns)
{
    const struct model *m = s->model;
    int64_t now = clock_ns();
    pthread_mutex_lock(&s->lock);
    s->read_ns += read_ns - began_ns, s->repack_ns += now - read_ns;
    s->unread[id] -= n;
    s->done += (uint64_t)n * row_bytes_of((enum dtype)s->spec[id].dtype, s->spec[id].cols);
    if (m->on_loaded && (now - s->told_ns > 100000000 || s->done == s->total)) {
        m->on_loaded(m->ctx, s->done, s->total);
        s->told_ns = now;
    }
    s->done = s->done < s->total ? s->done : 0; // should somebody read all of it again
    if (!s->unread[id]) {
        s->unread[id] = s->spec[id].rows;
        advise(s, id, MADV_DONTNEED);
    }
    pthread_mutex_unlock(&s->lock);
}

// Rows of a file: looked at where they are stored, and once more where conversion may have overflowed.
static bool read_stored(const struct weight_source *s, int32_t id, int32_t first, int32_t n, void *out, int64_t *read_ns,
                        struct error *e)
{
    const struct origin *o = &s->origin[id];
    const struct tensor_spec *t = &s->spec[id];
    enum dtype type = (enum dtype)t->dtype, stored = o->stored->dtype;
    const uint8_t *at = stored_data(o, t) + (uint64_t)first * row_bytes_of(stored, t->cols);
    bool in_rows = o->source == SOURCE_STORED || t->rows > 1; // a vector may lie in blocks: checked as f32
    if (in_rows && !rows_finite(stored, at, t->cols, n))
        return not_finite(s, id, e);
    if (o->source == SOURCE_STORED)
        memcpy(out, at, (size_t)((uint64_t)n * row_bytes_of(type, t->cols)));
    *read_ns = clock_ns();
    if (o->source == SOURCE_STORED)
        return true;
    if (!(t->rows == 1 ? copy_vector(o, t, out) : copy_rows(o, t, first, n, out)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory to convert weights", s->model->path);
    return rows_finite(type, out, t->cols, n) || not_finite(s, id, e); // large f32 values overflow f16
}

static bool read_rows(void *ctx, int32_t first, int32_t count, void *out, struct error *e)
{
    const struct reader *r = ctx;
    struct weight_source *s = r->source;
    int64_t began_ns = clock_ns(), read_ns = began_ns;
    if (!first)
        advise(s, r->id + 1, MADV_WILLNEED); // read ahead: page by page would be slower
    if (s->origin[r->id].source == SOURCE_RANDOM)
        random_fill(&s->spec[r->id], r->id, s->seed, first, count, out);
    else if (!read_stored(s, r->id, first, count, out, &read_ns, e))
        return false;
    rows_done(s, r->id, count, began_ns, read_ns);
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

static bool open_source(struct weights *w, const struct model *m, const struct plan *plan, uint64_t seed, struct error *e)
{
    size_t n = (size_t)plan->n_tensors;
    struct weight_source *s = w->source = calloc(1, sizeof *s);
    w->tensor = calloc(n, sizeof *w->tensor);
    if (!s || !w->tensor)
        return error_set(e, ERROR_MEMORY, "'%s': no memory", m->path);
    *s = (struct weight_source){.model = m,
                                .n = plan->n_tensors,
                                .seed = seed,
                                .total = plan_weight_bytes(plan),
                                .spec = malloc(n * sizeof *s->spec),
                                .origin = calloc(n, sizeof *s->origin),
                                .reader = calloc(n, sizeof *s->reader),
                                .unread = calloc(n, sizeof *s->unread)};
    pthread_mutex_init(&s->lock, NULL);
    if (!s->spec || !s->origin || !s->reader || !s->unread)
        return error_set(e, ERROR_MEMORY, "'%s': no memory", m->path);
    memcpy(s->spec, plan->tensor, n * sizeof *s->spec);
    return find_origins(s, e);
}

bool weights_open(struct weights *w, const struct model *m, const struct plan *plan, uint64_t seed, struct error *e)
{
    *w = (struct weights){0};
    if (!check_request(m, plan, e))
        return false;
    if (!open_source(w, m, plan, seed, e)) {
        weights_free(w);
        return false;
    }
    struct weight_source *s = w->source;
    for (int32_t i = 0; i < s->n; i++) {
        const struct tensor_spec *t = &s->spec[i];
        s->reader[i] = (struct reader){s, i};
        s->unread[i] = t->rows;
        w->tensor[i] = (struct tensor){.dtype = (enum dtype)t->dtype,
                                       .rows = t->rows,
                                       .cols = t->cols,
                                       .read = read_rows,
                                       .ctx = &s->reader[i],
                                       .is_random = m->format == MODEL_RANDOM,
                                       .random_stream = random_stream(seed, i)};
    }
    advise(s, 0, MADV_WILLNEED);
    return true;
}

void weights_book(struct weights *w, int64_t load_ns, int32_t threads)
{
    int64_t read_ns = w->source ? w->source->read_ns / (threads > 0 ? threads : 1) : 0;
    w->load_ns = load_ns;
    w->read_ns = read_ns < load_ns ? read_ns : load_ns;
    w->repack_ns = load_ns - w->read_ns;
}

void weights_free(struct weights *w)
{
    struct weight_source *s = w->source;
    if (s) {
        pthread_mutex_destroy(&s->lock);
        free(s->spec);
        free(s->origin);
        free(s->reader);
        free(s->unread);
    }
    free(s);
    free(w->tensor);
    *w = (struct weights){0};
}
