// A tensor as a file stores it: the common row of the safetensors and GGUF directories.
#ifndef ENGINE_LOAD_STORED_H
#define ENGINE_LOAD_STORED_H

#include "engine/base/dtype.h"
#include "engine/base/error.h"

enum { STORED_MAX_DIMS = 8 };

// Bytes inside a mapped file: no terminating zero.
struct text {
    const char *data;
    size_t size;
};

struct stored_tensor {
    struct text name;
    const char *type; // as the file's format calls it: "BF16", "Q4_K"
    bool known;       // `dtype` says the same
    enum dtype dtype;
    int32_t type_number; // GGUF's; -1 elsewhere
    int32_t n_dims;
    uint64_t dim[STORED_MAX_DIMS]; // outermost first, as in [rows, cols]
    const void *data;              // inside the mapped file, `bytes` of them
    uint64_t bytes;
};

// Sorts by name, for stored_find. False if two tensors share a name or their data overlap.
bool stored_index(struct stored_tensor *tensor, uint64_t n, const char *where, struct error *e);

// The tensor of this name in a sorted directory, or NULL.
const struct stored_tensor *stored_find(const struct stored_tensor *tensor, uint64_t n, const char *name);

// Number of values: the product of the dimensions; false on overflow.
bool stored_count(const struct stored_tensor *t, uint64_t *out);
double stored_count_about(const struct stored_tensor *t); // never overflows

int text_compare(struct text a, struct text b); // as memcmp

// A name for messages: printable, at most 95 characters. Returns out.
const char *text_print(struct text t, char out[96]);

#endif
