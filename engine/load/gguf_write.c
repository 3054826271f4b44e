#include "engine/load/gguf_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 32, VERSION = 3, PATH_BYTES = 2048 };

void gguf_writer_free(struct gguf_writer *w)
{
    free(w->meta);
    free(w->tensor);
    *w = (struct gguf_writer){0};
}

// ---- metadata

static void put(struct gguf_writer *w, const void *data, size_t size)
{
    if (w->no_memory || !size)
        return;
    if (size > w->meta_capacity - w->meta_size) {
        size_t capacity = 2 * w->meta_capacity + size + 4096;
        char *more = realloc(w->meta, capacity);
        w->no_memory = !more;
        if (!more)
            return;
        w->meta = more, w->meta_capacity = capacity;
    }
    memcpy(w->meta + w->meta_size, data, size);
    w->meta_size += size;
}

static void put_u32(struct gguf_writer *w, uint32_t v)
{
    put(w, &v, sizeof v);
}

static void put_text(struct gguf_writer *w, struct text t)
{
    uint64_t size = t.size;
    put(w, &size, sizeof size);
    put(w, t.data, t.size);
}

static void put_key(struct gguf_writer *w, struct text key, enum gguf_type type)
{
    put_text(w, key);
    put_u32(w, type);
    w->n_values++;
}

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static void put_array(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t n)
{
    put_key(w, text_of(key), GGUF_ARRAY);
    put_u32(w, type);
    put(w, &n, sizeof n);
}

void gguf_put_text(struct gguf_writer *w, const char *key, struct text value)
{
    put_key(w, text_of(key), GGUF_STRING);
    put_text(w, value);
}

void gguf_put_string(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_put_text(w, key, text_of(value));
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, text_of(key), GGUF_U32);
    put_u32(w, value);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float value)
{
    put_key(w, text_of(key), GGUF_F32);
    put(w, &value, sizeof value);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    put_key(w, text_of(key), GGUF_BOOL);
    put(w, &(uint8_t){value}, 1);
}

void gguf_put_texts(struct gguf_writer *w, const char *key, const struct text *value, uint64_t n)
{
    put_array(w, key, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_text(w, value[i]);
}

void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *value, uint64_t n)
{
    put_array(w, key, GGUF_I32, n);
    put(w, value, n * sizeof *value);
}

void gguf_put_bools(struct gguf_writer *w, const char *key, const bool *value, uint64_t n)
{
    put_array(w, key, GGUF_BOOL, n);
    for (uint64_t i = 0; i < n; i++)
        put(w, &(uint8_t){value[i]}, 1);
}

void gguf_put_value(struct gguf_writer *w, const struct gguf_value *v)
{
    put_key(w, v->key, v->type);
    if (v->type == GGUF_ARRAY) {
        put_u32(w, v->item_type);
        put(w, &v->n, sizeof v->n);
    }
    put(w, v->at, v->bytes);
}

struct gguf_out_tensor *gguf_put_tensor(struct gguf_writer *w)
{
    struct gguf_out_tensor *more = realloc(w->tensor, (w->n_tensors + 1) * sizeof *more);
    if (!more) {
        w->no_memory = true;
        return NULL;
    }
    w->tensor = more;
    w->tensor[w->n_tensors] = (struct gguf_out_tensor){0};
    return &w->tensor[w->n_tensors++];
}

// ---- the file

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t columns_of(const struct gguf_out_tensor *t)
{
    return t->dim[t->n_dims - 1];
}

static uint64_t bytes_of(const struct gguf_out_tensor *t)
{
    uint64_t rows = 1;
    for (int32_t i = 0; i + 1 < t->n_dims; i++)
        rows *= t->dim[i];
    return rows * dtype_row_bytes(t->to, columns_of(t));
}

static void write_head(const struct gguf_writer *w, FILE *f)
{
    uint64_t offset = 0;
    fwrite("GGUF", 1, 4, f);
    fwrite(&(uint32_t){VERSION}, 4, 1, f);
    fwrite(&w->n_tensors, 8, 1, f);
    fwrite(&w->n_values, 8, 1, f);
    fwrite(w->meta, 1, w->meta_size, f);
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        const struct gguf_out_tensor *t = &w->tensor[i];
        uint64_t length = strlen(t->name);
        fwrite(&length, 8, 1, f);
        fwrite(t->name, 1, length, f);
        fwrite(&(uint32_t){(uint32_t)t->n_dims}, 4, 1, f);
        for (int32_t k = t->n_dims - 1; k >= 0; k--) // innermost first
            fwrite(&t->dim[k], 8, 1, f);
        fwrite(&(uint32_t){(uint32_t)gguf_type_number(t->to)}, 4, 1, f);
        fwrite(&offset, 8, 1, f);
        offset += padded(bytes_of(t));
    }
}

static void write_padding(FILE *f, uint64_t n)
{
    static const char ZERO[ALIGNMENT] = {0};
    fwrite(ZERO, 1, padded(n) - n, f);
}

// The row that comes `i`th when the halves of each head are interleaved.
static int32_t source_row(const struct gguf_rows *rows, int32_t i)
{
    int32_t d = rows->head_dim, in_head = d ? i % d : 0, half = rows->rotary_dim / 2;
    if (!d || in_head >= rows->rotary_dim)
        return i;
    return i - in_head + in_head % 2 * half + in_head / 2;
}

// The same for the values of a vector, which is written as f32.
static void write_interleaved(const struct gguf_rows *rows, const float *value, size_t n, FILE *f)
{
    for (int32_t i = 0; i < (int32_t)n; i++)
        fwrite(&value[source_row(rows, i)], sizeof *value, 1, f);
}

struct row_buffers {
    void *stored, *narrow;
    float *wide;
};

static bool write_rows(const struct gguf_out_tensor *t, const struct gguf_rows *rows, const struct row_buffers *b, FILE *f,
                       struct error *e)
{
    size_t n = columns_of(t);
    uint64_t to_bytes = dtype_row_bytes(t->to, n);
    for (int32_t i = 0; i < rows->tensor.rows && !ferror(f); i++) {
        if (!tensor_read(&rows->tensor, t->n_dims > 1 ? source_row(rows, i) : 0, 1, b->stored, e))
            return false;
        if (t->from == t->to && t->n_dims > 1) {
            fwrite(b->stored, 1, to_bytes, f);
            continue;
        }
        dtype_to_f32(t->from, b->stored, b->wide, n);
        if (t->n_dims == 1) {
            write_interleaved(rows, b->wide, n, f);
            continue;
        }
        dtype_from_f32(t->to, b->wide, b->narrow, n);
        fwrite(b->narrow, 1, to_bytes, f);
    }
    return true;
}

static bool write_tensors(const struct gguf_writer *w, FILE *f, const char *path, struct error *e)
{
    uint64_t widest = 0;
    for (uint64_t i = 0; i < w->n_tensors; i++)
        widest = columns_of(&w->tensor[i]) > widest ? columns_of(&w->tensor[i]) : widest;
    uint64_t bytes = (widest + 1) * sizeof(float); // no type takes more than f32
    struct row_buffers b = {malloc(bytes), malloc(bytes), malloc(bytes)};
    bool ok = (b.stored && b.narrow && b.wide) || error_set(e, ERROR_MEMORY, "'%s': no memory for a row", path);
    for (uint64_t i = 0; ok && i < w->n_tensors; i++) {
        const struct gguf_out_tensor *t = &w->tensor[i];
        for (int32_t k = 0; ok && k < t->n_parts; k++)
            ok = write_rows(t, &t->part[k], &b, f, e);
        write_padding(f, bytes_of(t));
    }
    free(b.stored);
    free(b.narrow);
    free(b.wide);
    return ok;
}

static bool write_all(const struct gguf_writer *w, FILE *f, const char *path, uint64_t *bytes, struct error *e)
{
    write_head(w, f);
    long head = ftell(f);
    if (head >= 0)
        write_padding(f, (uint64_t)head);
    if (!write_tensors(w, f, path, e))
        return false;
    long end = ftell(f);
    *bytes = end > 0 ? (uint64_t)end : 0;
    return (!fflush(f) && !ferror(f) && end > 0) ||
           error_set(e, ERROR_OUTPUT, "'%s': could not be written: %s", path, strerror(errno));
}

bool gguf_write(const struct gguf_writer *w, const char *path, uint64_t *bytes, struct error *e)
{
    char part[PATH_BYTES];
    int n = snprintf(part, sizeof part, "%s.part", path);
    if (w->no_memory)
        return error_set(e, ERROR_MEMORY, "'%s': no memory for its metadata", path);
    if (n < 0 || n >= PATH_BYTES)
        return error_set(e, ERROR_USAGE, "'%.200s...': the path is too long", path);
    FILE *f = fopen(part, "wb");
    if (!f)
        return error_set(e, ERROR_OUTPUT, "'%s': could not be written: %s", path, strerror(errno));
    bool ok = write_all(w, f, path, bytes, e);
    if (fclose(f) && ok)
        ok = error_set(e, ERROR_OUTPUT, "'%s': could not be written: %s", path, strerror(errno));
    if (ok && rename(part, path))
        ok = error_set(e, ERROR_OUTPUT, "'%s': could not be written: %s", path, strerror(errno));
    if (!ok)
        unlink(part);
    return ok;
}

bool gguf_write_memory(const struct gguf_writer *w, void **data, size_t *size, struct error *e)
{
    char *text = NULL;
    FILE *f = w->no_memory ? NULL : open_memstream(&text, size);
    if (f)
        write_head(w, f);
    if (f && !fclose(f)) {
        *data = text;
        return true;
    }
    free(text);
    return error_set(e, ERROR_MEMORY, "no memory for GGUF metadata");
}
