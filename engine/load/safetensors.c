// The format: github.com/huggingface/safetensors, README.md, "Format".
#include "engine/load/safetensors.h"

#include "engine/base/json.h"
#include "engine/base/sniff.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MAX_HEADER = 100 << 20 }; // the limit of the format's own reader

static const struct element {
    const char *name;
    int32_t bytes;
    bool known;
    enum dtype dtype;
} ELEMENT[] = {
    {"F32", 4, true, DTYPE_F32},   {"F16", 2, true, DTYPE_F16},
    {"BF16", 2, true, DTYPE_BF16}, {"F64", 8, false, 0},
    {"I64", 8, false, 0},          {"U64", 8, false, 0},
    {"I32", 4, false, 0},          {"U32", 4, false, 0},
    {"I16", 2, false, 0},          {"U16", 2, false, 0},
    {"I8", 1, false, 0},           {"U8", 1, false, 0},
    {"BOOL", 1, false, 0},         {"F8_E4M3", 1, true, DTYPE_FP8},
    {"F8_E5M2", 1, false, 0},      {"F8_E8M0", 1, false, 0},
};

const char *safetensors_type_name(enum dtype type)
{
    for (size_t i = 0; i < sizeof ELEMENT / sizeof *ELEMENT; i++)
        if (ELEMENT[i].known && ELEMENT[i].dtype == type)
            return ELEMENT[i].name;
    return NULL;
}

struct data_area {
    const char *where;
    const uint8_t *data;
    uint64_t size;
};

static bool bad_tensor(const char *where, const char *name, const char *what, struct error *e)
{
    return error_set(e, ERROR_FILE, "'%s': tensor '%.95s' has no valid %s", where, name, what);
}

// Whole numbers up to 2^53, the largest that JSON's doubles count without gaps.
static bool read_u64(const cJSON *number, uint64_t *out)
{
    double v = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(v >= 0 && v <= 0x1p53) || v != floor(v))
        return false;
    *out = (uint64_t)v;
    return true;
}

static bool read_element(struct stored_tensor *t, const cJSON *dtype, const char *where, struct error *e)
{
    const char *name = cJSON_GetStringValue(dtype);
    if (!name)
        return bad_tensor(where, t->name.data, "'dtype'", e);
    for (size_t i = 0; i < sizeof ELEMENT / sizeof *ELEMENT; i++)
        if (!strcmp(name, ELEMENT[i].name)) {
            t->type = ELEMENT[i].name, t->known = ELEMENT[i].known, t->dtype = ELEMENT[i].dtype;
            t->bytes = (uint64_t)ELEMENT[i].bytes;
            return true;
        }
    return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%.95s' has dtype '%.20s', which this reader does not know", where,
                     t->name.data, name);
}

static bool read_shape(struct stored_tensor *t, const cJSON *shape, const char *where, struct error *e)
{
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > STORED_MAX_DIMS)
        return bad_tensor(where, t->name.data, "'shape'", e);
    for (const cJSON *dim = shape->child; dim; dim = dim->next)
        if (!read_u64(dim, &t->dim[t->n_dims++]))
            return cJSON_IsNumber(dim) && dim->valuedouble > 0x1p53
                       ? error_set(e, ERROR_FILE,
                                   "'%s': the shape of tensor '%.95s' is too large: %g values in one dimension", where,
                                   t->name.data, dim->valuedouble)
                       : bad_tensor(where, t->name.data, "'shape'", e);
    uint64_t count;
    return (stored_count(t, &count) && size_mul(count, t->bytes, &t->bytes)) ||
           error_set(e, ERROR_FILE, "'%s': the shape of tensor '%.95s' is too large", where, t->name.data);
}

static bool read_offsets(struct stored_tensor *t, const cJSON *offsets, const struct data_area *area, struct error *e)
{
    uint64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !read_u64(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !read_u64(cJSON_GetArrayItem(offsets, 1), &end) || begin > end)
        return bad_tensor(area->where, t->name.data, "'data_offsets'", e);
    if (end > area->size)
        return error_set(e, ERROR_FILE,
                         "'%s': tensor '%.95s' reaches beyond the end of the file (truncated: an unfinished download?)",
                         area->where, t->name.data);
    if (end - begin != t->bytes)
        return error_set(e, ERROR_FILE, "'%s': tensor '%.95s' has %llu bytes of data, but its shape needs %llu", area->where,
                         t->name.data, (unsigned long long)(end - begin), (unsigned long long)t->bytes);
    t->data = area->data + begin;
    return true;
}

static bool read_tensor(struct stored_tensor *t, const cJSON *entry, const struct data_area *area, struct error *e)
{
    t->name = (struct text){entry->string, strlen(entry->string)};
    t->type_number = -1;
    if (!cJSON_IsObject(entry))
        return bad_tensor(area->where, entry->string, "description", e);
    return read_element(t, json_member(entry, "dtype"), area->where, e) &&
           read_shape(t, json_member(entry, "shape"), area->where, e) &&
           read_offsets(t, json_member(entry, "data_offsets"), area, e);
}

static bool read_tensors(struct safetensors *s, const struct data_area *area, struct error *e)
{
    const cJSON *header = s->header;
    uint64_t total = 0;
    if (!cJSON_IsObject(header))
        return error_set(e, ERROR_FILE, "'%s': the safetensors header is not an object", area->where);
    if (!(s->tensor = calloc((size_t)cJSON_GetArraySize(header) + 1, sizeof *s->tensor)))
        return error_set(e, ERROR_MEMORY, "'%s': no memory for its tensors", area->where);
    for (const cJSON *entry = header->child; entry; entry = entry->next) {
        if (!strcmp(entry->string, "__metadata__"))
            continue;
        struct stored_tensor *t = &s->tensor[s->n_tensors];
        if (!read_tensor(t, entry, area, e))
            return false;
        s->n_tensors++;
        total += t->bytes; // each is at most the file, and there are fewer than 2^31
    }
    if (!stored_index(s->tensor, s->n_tensors, area->where, e))
        return false;
    return total == area->size || error_set(e, ERROR_FILE, "'%s': its tensors fill %llu of %llu bytes of data", area->where,
                                            (unsigned long long)total, (unsigned long long)area->size);
}

bool safetensors_parse(struct safetensors *s, const void *data, size_t size, const char *where, struct error *e)
{
    uint64_t length;
    *s = (struct safetensors){0};
    if (size < LENGTH_BYTES)
        return sniff_stranger(data, size, where, "a safetensors file", e) &&
               error_set(e, ERROR_FILE, "'%s': %zu bytes are no safetensors file", where, size);
    memcpy(&length, data, sizeof length);
    if (!length || length > MAX_HEADER || length > size - LENGTH_BYTES)
        return sniff_stranger(data, size, where, "a safetensors file", e) &&
               error_set(e, ERROR_FILE, "'%s': a header of %llu bytes in a file of %zu (truncated, or no safetensors file)",
                         where, (unsigned long long)length, size);
    cJSON *header;
    const char *text = (const char *)data + LENGTH_BYTES;
    if (!json_parse(text, length, where, &header, e))
        return false;
    s->header = header;
    struct data_area area = {where, (const uint8_t *)text + length, size - LENGTH_BYTES - length};
    if (read_tensors(s, &area, e))
        return true;
    safetensors_close(s);
    return false;
}

bool safetensors_open(struct safetensors *s, const char *path, struct error *e)
{
    struct file file;
    *s = (struct safetensors){0};
    if (!file_open(&file, path, e))
        return false;
    if (!safetensors_parse(s, file.data, file.size, path, e)) {
        file_close(&file);
        return false;
    }
    s->file = file;
    return true;
}

void safetensors_close(struct safetensors *s)
{
    cJSON_Delete(s->header);
    free(s->tensor);
    file_close(&s->file);
    *s = (struct safetensors){0};
}
