// The container format of GGUF: github.com/ggml-org/ggml, docs/gguf.md. All numbers are little-endian, as are the hosts
// this engine runs on.
#include "engine/load/gguf.h"

#include "engine/base/sniff.h"
#include "engine/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 4, DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20 };

static const uint8_t VALUE_BYTES[GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; // 0: strings and arrays

static const char *const TYPE_NAME[GGUF_TYPE_COUNT] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                       "bool", "string", "array", "u64", "i64", "f64"};

// Every tensor type the format has had, so that files with other types can still be walked (for their vocabulary).
static const struct tensor_type {
    int32_t number;
    const char *name;
    int32_t block, block_bytes;
    bool known;
    enum dtype dtype;
} TENSOR_TYPE[] = {
    {0, "F32", 1, 4, true, DTYPE_F32},
    {1, "F16", 1, 2, true, DTYPE_F16},
    {2, "Q4_0", 32, 18, true, DTYPE_Q4_0},
    {3, "Q4_1", 32, 20, true, DTYPE_Q4_1},
    {4, "Q4_2", 16, 10, false, 0},
    {5, "Q4_3", 16, 12, false, 0},
    {6, "Q5_0", 32, 22, true, DTYPE_Q5_0},
    {7, "Q5_1", 32, 24, true, DTYPE_Q5_1},
    {8, "Q8_0", 32, 34, true, DTYPE_Q8_0},
    {9, "Q8_1", 32, 36, false, 0},
    {10, "Q2_K", 256, 84, true, DTYPE_Q2_K},
    {11, "Q3_K", 256, 110, true, DTYPE_Q3_K},
    {12, "Q4_K", 256, 144, true, DTYPE_Q4_K},
    {13, "Q5_K", 256, 176, true, DTYPE_Q5_K},
    {14, "Q6_K", 256, 210, true, DTYPE_Q6_K},
    {15, "Q8_K", 256, 292, false, 0},
    {16, "IQ2_XXS", 256, 66, false, 0},
    {17, "IQ2_XS", 256, 74, false, 0},
    {18, "IQ3_XXS", 256, 98, false, 0},
    {19, "IQ1_S", 256, 50, false, 0},
    {20, "IQ4_NL", 32, 18, true, DTYPE_IQ4_NL},
    {21, "IQ3_S", 256, 110, false, 0},
    {22, "IQ2_S", 256, 82, false, 0},
    {23, "IQ4_XS", 256, 136, true, DTYPE_IQ4_XS},
    {24, "I8", 1, 1, false, 0},
    {25, "I16", 1, 2, false, 0},
    {26, "I32", 1, 4, false, 0},
    {27, "I64", 1, 8, false, 0},
    {28, "F64", 1, 8, false, 0},
    {29, "IQ1_M", 256, 56, false, 0},
    {30, "BF16", 1, 2, true, DTYPE_BF16},
    {31, "Q4_0_4_4", 32, 18, false, 0},
    {32, "Q4_0_4_8", 32, 18, false, 0},
    {33, "Q4_0_8_8", 32, 18, false, 0},
    {34, "TQ1_0", 256, 54, false, 0},
    {35, "TQ2_0", 256, 66, false, 0},
    {36, "IQ4_NL_4_4", 32, 18, false, 0},
    {37, "IQ4_NL_4_8", 32, 18, false, 0},
    {38, "IQ4_NL_8_8", 32, 18, false, 0},
    {39, "MXFP4", 32, 17, true, DTYPE_MXFP4},
    {40, "NVFP4", 64, 36, false, 0},
    {41, "Q1_0", 128, 18, false, 0},
};

const char *gguf_read_types(char out[GGUF_TYPES_BYTES])
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof TENSOR_TYPE / sizeof *TENSOR_TYPE && n < GGUF_TYPES_BYTES; i++)
        if (TENSOR_TYPE[i].known)
            n += (size_t)snprintf(out + n, GGUF_TYPES_BYTES - n, "%s%s", n ? ", " : "", TENSOR_TYPE[i].name);
    return out;
}

int32_t gguf_type_number(enum dtype type)
{
    for (size_t i = 0; i < sizeof TENSOR_TYPE / sizeof *TENSOR_TYPE; i++)
        if (TENSOR_TYPE[i].known && TENSOR_TYPE[i].dtype == type)
            return TENSOR_TYPE[i].number;
    return -1;
}

static const struct tensor_type *find_tensor_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof TENSOR_TYPE / sizeof *TENSOR_TYPE; i++)
        if (TENSOR_TYPE[i].number == (int64_t)number)
            return &TENSOR_TYPE[i];
    return NULL;
}

// Walks the file from front to back. After the first read beyond the end `ended` stays set and all reads give zeros, so
// one check after a group of reads is enough.
struct reader {
    const uint8_t *data;
    size_t size, at;
    bool ended;
};

static const uint8_t *take(struct reader *r, uint64_t n)
{
    if (r->ended || n > r->size - r->at) {
        r->ended = true;
        return NULL;
    }
    const uint8_t *p = r->data + r->at;
    r->at += n;
    return p;
}

static uint32_t take_u32(struct reader *r)
{
    uint32_t v = 0;
    const uint8_t *p = take(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t take_u64(struct reader *r)
{
    uint64_t v = 0;
    const uint8_t *p = take(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

static struct text take_text(struct reader *r)
{
    uint64_t n = take_u64(r);
    const uint8_t *p = take(r, n);
    return p ? (struct text){(const char *)p, n} : (struct text){"", 0};
}

static bool truncated(const struct gguf *g, const char *what, struct error *e)
{
    return error_set(e, ERROR_FILE, "'%s': ends within its %s (truncated: an unfinished download?)", g->where, what);
}

// Moves past n items of a type that is no array.
static void skip_items(struct reader *r, enum gguf_type type, uint64_t n)
{
    uint64_t bytes;
    if (type != GGUF_STRING) {
        size_mul(n, VALUE_BYTES[type], &bytes); // overflow gives UINT64_MAX, which no file has
        take(r, bytes);
        return;
    }
    for (uint64_t i = 0; i < n && !r->ended; i++)
        take_text(r);
}

static bool read_value(struct gguf *g, struct reader *r, struct gguf_value *v, struct error *e)
{
    char name[96];
    v->key = take_text(r);
    uint32_t type = take_u32(r), item_type = type;
    v->n = 1;
    if (type == GGUF_ARRAY) {
        item_type = take_u32(r);
        v->n = take_u64(r);
    }
    if (r->ended)
        return truncated(g, "metadata", e);
    if (type >= GGUF_TYPE_COUNT || item_type >= GGUF_TYPE_COUNT || item_type == GGUF_ARRAY)
        return error_set(e, ERROR_FILE, "'%s': metadata '%s' has type %u of %u, which no reader knows", g->where,
                         text_print(v->key, name), type, item_type);
    v->type = (enum gguf_type)type, v->item_type = (enum gguf_type)item_type;
    v->at = r->data + r->at;
    skip_items(r, v->item_type, v->n);
    v->bytes = (uint64_t)(r->data + r->at - v->at);
    return !r->ended || truncated(g, "metadata", e);
}

static int by_key(const void *a, const void *b)
{
    return text_compare(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static bool read_values(struct gguf *g, struct reader *r, uint64_t n, struct error *e)
{
    char name[96];
    if (n > (r->size - r->at) / 13) // the shortest: an empty key, a type, one byte
        return truncated(g, "metadata", e);
    if (n && !(g->value = calloc(n, sizeof *g->value)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for %llu metadata values", g->where, (unsigned long long)n);
    for (; g->n_values < n; g->n_values++)
        if (!read_value(g, r, &g->value[g->n_values], e))
            return false;
    if (n)
        qsort(g->value, n, sizeof *g->value, by_key);
    for (uint64_t i = 1; i < n; i++)
        if (!by_key(&g->value[i - 1], &g->value[i]))
            return error_set(e, ERROR_FILE, "'%s': metadata '%s' is there twice", g->where,
                             text_print(g->value[i].key, name));
    return true;
}

static bool tensor_bytes_of(const struct tensor_type *type, struct stored_tensor *t)
{
    uint64_t count;
    if (!stored_count(t, &count) || t->dim[t->n_dims - 1] % (uint64_t)type->block)
        return false;
    return size_mul(count / (uint64_t)type->block, (uint64_t)type->block_bytes, &t->bytes);
}

// *offset counts from the start of the data, which begin only after all descriptions.
static bool read_tensor(struct gguf *g, struct reader *r, struct stored_tensor *t, uint64_t *offset, struct error *e)
{
    char name[96];
    t->name = take_text(r);
    uint32_t n_dims = take_u32(r);
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return r->ended ? truncated(g, "tensor list", e)
                        : error_set(e, ERROR_FILE, "'%s': tensor '%s' has %u dimensions, expected 1 to %d", g->where,
                                    text_print(t->name, name), n_dims, MAX_DIMS);
    t->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < n_dims; i++)
        t->dim[n_dims - 1 - i] = take_u64(r); // the file counts from the innermost
    uint32_t number = take_u32(r);
    *offset = take_u64(r);
    if (r->ended)
        return truncated(g, "tensor list", e);
    const struct tensor_type *type = find_tensor_type(number);
    if (!type)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' has type number %u, which this reader does not know",
                         g->where, text_print(t->name, name), number);
    t->type = type->name, t->type_number = type->number, t->known = type->known, t->dtype = type->dtype;
    double count = stored_count_about(t);
    if (count > 0x1p48)
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' is said to have %g values, more than any file holds", g->where,
                         text_print(t->name, name), count);
    if (!tensor_bytes_of(type, t))
        return error_set(e, ERROR_FILE, "'%s': tensor '%s' has a shape that %s cannot store", g->where,
                         text_print(t->name, name), type->name);
    return true;
}

// Offsets become pointers, now that it is known where the data begin.
static bool place_tensors(struct gguf *g, const struct reader *r, const uint64_t *offset, struct error *e)
{
    char name[96];
    uint64_t begin = (r->at + g->alignment - 1) / g->alignment * g->alignment;
    uint64_t room = begin < r->size ? r->size - begin : 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct stored_tensor *t = &g->tensor[i];
        if (offset[i] % g->alignment)
            return error_set(e, ERROR_FILE, "'%s': tensor '%s' is not aligned to %u bytes", g->where,
                             text_print(t->name, name), g->alignment);
        if (offset[i] > room || t->bytes > room - offset[i])
            return error_set(e, ERROR_FILE,
                             "'%s': tensor '%s' reaches beyond the end of the file (truncated: an unfinished download?)",
                             g->where, text_print(t->name, name));
        t->data = r->data + (t->bytes ? begin + offset[i] : 0);
    }
    return stored_index(g->tensor, g->n_tensors, g->where, e);
}

static bool read_tensors(struct gguf *g, struct reader *r, uint64_t n, struct error *e)
{
    if (n > (r->size - r->at) / 32) // the shortest: an empty name, one dimension, type, offset
        return truncated(g, "tensor list", e);
    uint64_t *offset = calloc(n + 1, sizeof *offset);
    g->tensor = calloc(n + 1, sizeof *g->tensor);
    bool ok = offset && g->tensor;
    if (!ok)
        error_set(e, ERROR_MEMORY, "'%s': no memory for %llu tensors", g->where, (unsigned long long)n);
    for (; ok && g->n_tensors < n; g->n_tensors++)
        ok = read_tensor(g, r, &g->tensor[g->n_tensors], &offset[g->n_tensors], e);
    ok = ok && place_tensors(g, r, offset, e);
    free(offset);
    return ok;
}

static bool read_head(struct gguf *g, struct reader *r, struct error *e)
{
    const uint8_t *magic = take(r, 4);
    uint32_t version = take_u32(r);
    if (!magic || memcmp(magic, "GGUF", 4))
        return sniff_stranger(r->data, r->size, g->where, "a GGUF file", e) &&
               error_set(e, ERROR_FILE, "'%s': not a GGUF file", g->where);
    if (r->ended)
        return truncated(g, "header", e);
    if (version && !(version & 0xffff))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': a big-endian GGUF file, expected little-endian", g->where);
    if (version != 2 && version != 3)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': GGUF version %u, expected 2 or 3", g->where, version);
    return true;
}

static bool read_alignment(struct gguf *g, struct error *e)
{
    int32_t alignment = DEFAULT_ALIGNMENT;
    if (!gguf_i32(g, "general.alignment", &alignment, e))
        return false;
    if (alignment < 8 || alignment > MAX_ALIGNMENT || alignment % 8)
        return error_set(e, ERROR_FILE, "'%s': 'general.alignment' is %d, expected a multiple of 8", g->where, alignment);
    g->alignment = (uint32_t)alignment;
    return true;
}

bool gguf_parse(struct gguf *g, const void *data, size_t size, const char *where, struct error *e)
{
    struct reader r = {.data = data, .size = size};
    *g = (struct gguf){0};
    snprintf(g->where, sizeof g->where, "%s", where);
    bool ok = read_head(g, &r, e);
    uint64_t n_tensors = take_u64(&r), n_values = take_u64(&r);
    if (ok && r.ended)
        ok = truncated(g, "header", e);
    ok = ok && read_values(g, &r, n_values, e) && read_alignment(g, e) && read_tensors(g, &r, n_tensors, e);
    if (!ok)
        gguf_close(g);
    return ok;
}

bool gguf_open(struct gguf *g, const char *path, struct error *e)
{
    struct file file;
    *g = (struct gguf){0};
    if (!file_open(&file, path, e))
        return false;
    if (!gguf_parse(g, file.data, file.size, path, e)) {
        file_close(&file);
        return false;
    }
    g->file = file;
    return true;
}

void gguf_close(struct gguf *g)
{
    free(g->value);
    free(g->tensor);
    file_close(&g->file);
    *g = (struct gguf){0};
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    struct gguf_value wanted = {.key = {key, strlen(key)}};
    return g->n_values ? bsearch(&wanted, g->value, g->n_values, sizeof *g->value, by_key) : NULL;
}

static bool wrong_type(const struct gguf *g, const struct gguf_value *v, const char *expected, struct error *e)
{
    char name[96];
    return error_set(e, ERROR_FILE, "'%s': metadata '%s' is %s%s, expected %s", g->where, text_print(v->key, name),
                     v->type == GGUF_ARRAY ? "an array of " : "", TYPE_NAME[v->item_type], expected);
}

// Item i of any integer type, or a bool as 0 or 1. False if it is no integer or does not fit into int64.
static bool item_i64(const struct gguf_value *v, uint64_t i, int64_t *out)
{
    const uint8_t *p = v->at + i * VALUE_BYTES[v->item_type];
    uint64_t bits = 0;
    memcpy(&bits, p, VALUE_BYTES[v->item_type]);
    switch (v->item_type) {
    case GGUF_BOOL:
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32: *out = (int64_t)bits; return true;
    case GGUF_I8: *out = (int8_t)bits; return true;
    case GGUF_I16: *out = (int16_t)bits; return true;
    case GGUF_I32: *out = (int32_t)bits; return true;
    case GGUF_U64:
    case GGUF_I64: *out = (int64_t)bits; return v->item_type == GGUF_I64 || bits <= INT64_MAX;
    default: return false;
    }
}

static bool item_i32(const struct gguf_value *v, uint64_t i, int32_t *out)
{
    int64_t wide;
    if (!item_i64(v, i, &wide) || wide < INT32_MIN || wide > INT32_MAX)
        return false;
    *out = (int32_t)wide;
    return true;
}

static bool item_f32(const struct gguf_value *v, uint64_t i, float *out)
{
    double wide;
    if (v->item_type == GGUF_F32) {
        memcpy(out, v->at + i * sizeof *out, sizeof *out);
        return true;
    }
    if (v->item_type != GGUF_F64)
        return false;
    memcpy(&wide, v->at + i * sizeof wide, sizeof wide);
    *out = (float)wide;
    return true;
}

static struct text text_at(const uint8_t *p)
{
    uint64_t n;
    memcpy(&n, p, sizeof n);
    return (struct text){(const char *)p + sizeof n, n};
}

bool gguf_string(const struct gguf *g, const char *key, struct text *out, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (!v)
        return true;
    if (v->type != GGUF_STRING)
        return wrong_type(g, v, "a string", e);
    *out = text_at(v->at);
    return true;
}

bool gguf_i32(const struct gguf *g, const char *key, int32_t *out, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    return !v || (v->type != GGUF_ARRAY && item_i32(v, 0, out)) || wrong_type(g, v, "an integer of 32 bits", e);
}

bool gguf_f32(const struct gguf *g, const char *key, float *out, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    return !v || (v->type != GGUF_ARRAY && item_f32(v, 0, out)) || wrong_type(g, v, "a float", e);
}

bool gguf_bool(const struct gguf *g, const char *key, bool *out, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (!v)
        return true;
    if (v->type != GGUF_BOOL)
        return wrong_type(g, v, "a bool", e);
    *out = *v->at != 0;
    return true;
}

// The array under `key` and room for its items. *v = NULL when absent.
static bool array_of(const struct gguf *g, const char *key, size_t item, const struct gguf_value **v, void **out, int32_t *n,
                     struct error *e)
{
    *out = NULL, *n = 0;
    *v = gguf_find(g, key);
    if (!*v)
        return true;
    if ((*v)->type != GGUF_ARRAY || (*v)->n > INT32_MAX)
        return wrong_type(g, *v, "an array", e);
    if (!(*out = calloc((*v)->n + 1, item)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for '%s'", g->where, key);
    *n = (int32_t)(*v)->n;
    return true;
}

static bool wrong_array(const struct gguf *g, const struct gguf_value *v, const char *expected, void **out, int32_t *n,
                        struct error *e)
{
    free(*out);
    *out = NULL, *n = 0;
    return wrong_type(g, v, expected, e);
}

bool gguf_strings(const struct gguf *g, const char *key, struct text **out, int32_t *n, struct error *e)
{
    const struct gguf_value *v;
    if (!array_of(g, key, sizeof **out, &v, (void **)out, n, e) || !v)
        return !v;
    if (v->item_type != GGUF_STRING)
        return wrong_array(g, v, "an array of strings", (void **)out, n, e);
    const uint8_t *p = v->at;
    for (int32_t i = 0; i < *n; i++) {
        (*out)[i] = text_at(p);
        p = (const uint8_t *)(*out)[i].data + (*out)[i].size;
    }
    return true;
}

bool gguf_i32s(const struct gguf *g, const char *key, int32_t **out, int32_t *n, struct error *e)
{
    const struct gguf_value *v;
    if (!array_of(g, key, sizeof **out, &v, (void **)out, n, e) || !v)
        return !v;
    for (int32_t i = 0; i < *n; i++)
        if (!item_i32(v, (uint64_t)i, &(*out)[i]))
            return wrong_array(g, v, "an array of integers of 32 bits", (void **)out, n, e);
    return true;
}

bool gguf_f32s(const struct gguf *g, const char *key, float **out, int32_t *n, struct error *e)
{
    const struct gguf_value *v;
    if (!array_of(g, key, sizeof **out, &v, (void **)out, n, e) || !v)
        return !v;
    for (int32_t i = 0; i < *n; i++)
        if (!item_f32(v, (uint64_t)i, &(*out)[i]))
            return wrong_array(g, v, "an array of floats", (void **)out, n, e);
    return true;
}
