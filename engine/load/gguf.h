// A GGUF file (version 2 or 3, little-endian) read in place: metadata by key, tensors by name.
// Parsing checks every length, count and offset, so nothing below reads outside the file. What the values mean is the
// callers' business: gguf_model.c makes a model_spec of them, the tokenizer a vocabulary.
#ifndef ENGINE_LOAD_GGUF_H
#define ENGINE_LOAD_GGUF_H

#include "engine/base/file.h"
#include "engine/load/stored.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT,
};

struct gguf_value {
    struct text key;
    enum gguf_type type, item_type; // item_type: of an array's items, else the type itself
    uint64_t n;                     // items of an array, else 1
    const uint8_t *at;              // the first item; a string is an u64 length and its bytes
    uint64_t bytes;                 // from there to the end of the value
};

struct gguf {
    struct file file;   // owned when opened by path; zero after gguf_parse
    char where[256];    // names the file in messages
    uint32_t alignment; // of tensor data
    uint64_t n_values, n_tensors;
    struct gguf_value *value;     // [n_values], sorted by key
    struct stored_tensor *tensor; // [n_tensors], sorted by name
};

// Names of the tensor types that can be computed with, "F32, F16, Q4_0, ...". Returns out.
enum { GGUF_TYPES_BYTES = 192 };
const char *gguf_read_types(char out[GGUF_TYPES_BYTES]);
int32_t gguf_type_number(enum dtype type); // -1: the format has none for it

// Maps a file and parses it. gguf_close accepts zeroed; after a failure there is nothing to close.
bool gguf_open(struct gguf *g, const char *path, struct error *e);
void gguf_close(struct gguf *g);

// The path of part `part` (from 1) of the split model that `path` is a part of, NAME-00002-of-00003.gguf, and how many it
// has. False if `path` is not named so or the result does not fit.
bool gguf_part_path(const char *path, int32_t part, char *out, size_t size, int32_t *n_parts);

// Parses data[size], which must outlive *g.
bool gguf_parse(struct gguf *g, const void *data, size_t size, const char *where, struct error *e);

const struct gguf_value *gguf_find(const struct gguf *g, const char *key); // NULL if absent

// The getters leave *out alone when the key is absent, so the caller's default stands, and fail when the value has another
// type or does not fit. Any integer type serves where an integer is asked for.
bool gguf_string(const struct gguf *g, const char *key, struct text *out, struct error *e);
bool gguf_i32(const struct gguf *g, const char *key, int32_t *out, struct error *e);
bool gguf_f32(const struct gguf *g, const char *key, float *out, struct error *e);
bool gguf_bool(const struct gguf *g, const char *key, bool *out, struct error *e);

// Arrays: *out is malloc'ed, the texts point into the file. Absent: *out = NULL, *n = 0.
bool gguf_strings(const struct gguf *g, const char *key, struct text **out, int32_t *n, struct error *e);
bool gguf_i32s(const struct gguf *g, const char *key, int32_t **out, int32_t *n, struct error *e);
bool gguf_f32s(const struct gguf *g, const char *key, float **out, int32_t *n, struct error *e);

#endif
