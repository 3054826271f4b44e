// Writes GGUF files in memory, right or wrong, for tests.
#ifndef TESTS_GGUF_WRITER_H
#define TESTS_GGUF_WRITER_H

#include <stdint.h>
#include <string.h>

struct bytes {
    uint8_t data[1 << 16];
    size_t size;
};

static inline void put(struct bytes *b, const void *data, size_t size)
{
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, sizeof v);
}

static inline void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, sizeof v);
}

static inline void put_text(struct bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static inline void put_head(struct bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    b->size = 0;
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_values);
}

static inline void put_string_value(struct bytes *b, const char *key, const char *value)
{
    put_text(b, key);
    put_u32(b, 8);
    put_text(b, value);
}

static inline void put_u32_value(struct bytes *b, const char *key, uint32_t value)
{
    put_text(b, key);
    put_u32(b, 4);
    put_u32(b, value);
}

static inline void put_f32_value(struct bytes *b, const char *key, float value)
{
    put_text(b, key);
    put_u32(b, 6);
    put(b, &value, sizeof value);
}

// dims as the file has them: innermost first; 0 ends them.
static inline void put_tensor(struct bytes *b, const char *name, uint64_t dim0, uint64_t dim1, uint32_t type,
                              uint64_t offset)
{
    put_text(b, name);
    put_u32(b, dim1 ? 2 : 1);
    put_u64(b, dim0);
    if (dim1)
        put_u64(b, dim1);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void put_padding(struct bytes *b, size_t alignment)
{
    while (b->size % alignment)
        b->data[b->size++] = 0;
}

static inline void put_zeros(struct bytes *b, size_t n)
{
    memset(b->data + b->size, 0, n);
    b->size += n;
}

#endif
