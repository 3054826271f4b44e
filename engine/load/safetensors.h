// One safetensors file read in place: an 8-byte header length, a JSON header, the data. Parsing checks every length, shape,
// type and offset, and that the tensors fill the data exactly.
#ifndef ENGINE_LOAD_SAFETENSORS_H
#define ENGINE_LOAD_SAFETENSORS_H

#include "engine/base/file.h"
#include "engine/load/stored.h"

struct safetensors {
    struct file file; // owned when opened by path; zero after safetensors_parse
    void *header;     // owned: the parsed JSON, in which the tensors' names live
    uint64_t n_tensors;
    struct stored_tensor *tensor; // [n_tensors], sorted by name
};

// Maps a file and parses it. safetensors_close accepts zeroed; after a failure there is nothing to close.
bool safetensors_open(struct safetensors *s, const char *path, struct error *e);
void safetensors_close(struct safetensors *s);

// Parses data[size], which must outlive *s.
bool safetensors_parse(struct safetensors *s, const void *data, size_t size, const char *where, struct error *e);

// What the format calls a type that is computed with, or NULL.
const char *safetensors_type_name(enum dtype type);

#endif
