// A whole file mapped read-only.
#ifndef ENGINE_BASE_FILE_H
#define ENGINE_BASE_FILE_H

#include "engine/base/error.h"

#include <stddef.h>

struct file {
    const void *data; // NULL for an empty file
    size_t size;
};

// Fails by name for what is missing, a directory, or unreadable. The mapping stays until file_close (accepts zeroed).
bool file_open(struct file *f, const char *path, struct error *e);
void file_close(struct file *f);

bool file_is_directory(const char *path);
bool file_exists(const char *path);
bool file_same(const char *a, const char *b); // both exist and are one file

#endif
