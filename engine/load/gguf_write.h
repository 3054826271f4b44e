// Writing a GGUF file (version 3): metadata first, then tensors, whose rows are converted on their way to the disk.
#ifndef ENGINE_LOAD_GGUF_WRITE_H
#define ENGINE_LOAD_GGUF_WRITE_H

#include "engine/backend.h"
#include "engine/load/gguf.h"

enum { GGUF_WRITE_PARTS = 3 };

// Rows in the order in which the file shall have them but for this: with head_dim > 0, the first rotary_dim rows of each
// head are interleaved from their two halves.
struct gguf_rows {
    struct tensor tensor; // read row by row
    int32_t head_dim, rotary_dim;
};

struct gguf_out_tensor {
    char name[96];
    int32_t n_dims;
    uint64_t dim[4]; // outermost first
    enum dtype from, to;
    int32_t n_parts;
    struct gguf_rows part[GGUF_WRITE_PARTS]; // one behind the other
};

// Zeroed: an empty one. Out of memory is remembered and reported by gguf_write.
struct gguf_writer {
    char *meta;
    size_t meta_size, meta_capacity;
    uint64_t n_values, n_tensors;
    struct gguf_out_tensor *tensor; // [n_tensors]
    bool no_memory;
};
void gguf_writer_free(struct gguf_writer *w);

void gguf_put_text(struct gguf_writer *w, const char *key, struct text value);
void gguf_put_string(struct gguf_writer *w, const char *key, const char *value);
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_put_f32(struct gguf_writer *w, const char *key, float value);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_put_texts(struct gguf_writer *w, const char *key, const struct text *value, uint64_t n);
void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *value, uint64_t n);
void gguf_put_bools(struct gguf_writer *w, const char *key, const bool *value, uint64_t n);
void gguf_put_value(struct gguf_writer *w, const struct gguf_value *v); // as another file has it

// Returns the new tensor, all zero, or NULL.
struct gguf_out_tensor *gguf_put_tensor(struct gguf_writer *w);

// The head of a file without tensors: malloc'ed.
bool gguf_write_memory(const struct gguf_writer *w, void **data, size_t *size, struct error *e);

// Writes beside `path` and renames: a file of that name is whole or was there before. *bytes: its size.
bool gguf_write(const struct gguf_writer *w, const char *path, uint64_t *bytes, struct error *e);

#endif
