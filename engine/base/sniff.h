// What a file that is not what it should be is instead: a download that failed, a pointer, another format.
#ifndef ENGINE_BASE_SNIFF_H
#define ENGINE_BASE_SNIFF_H

#include "engine/base/error.h"

#include <stddef.h>

// Fills *e with one line, "'x.gguf' is an HTML page, not a GGUF file (a failed download?)", when data[size] is recognised as
// something else than `expected` ("a GGUF file") and returns false; true when it is not recognised.
bool sniff_stranger(const void *data, size_t size, const char *where, const char *expected, struct error *e);

#endif
