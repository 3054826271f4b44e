// Files that tests write, read and spoil, and messages they expect.
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "engine/base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// One clear line of this kind that contains `part`.
static inline void assert_error(const struct error *e, enum error_kind kind, const char *part)
{
    if (!strstr(e->message, part))
        fail_msg("message '%s' does not contain '%s'", e->message, part);
    assert_int_equal(e->kind, kind);
    assert_null(strchr(e->message, '\n'));
}

// A new folder below /tmp. The caller removes it with scratch_remove.
static inline void scratch_make(char folder[64])
{
    snprintf(folder, 64, "/tmp/kvbench-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static inline const char *scratch_path(const char *folder, const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", folder, name);
    return out;
}

static inline void scratch_write(const char *folder, const char *name, const void *data, size_t size)
{
    char path[256];
    FILE *f = fopen(scratch_path(folder, name, path), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline void scratch_text(const char *folder, const char *name, const char *text)
{
    scratch_write(folder, name, text, strlen(text));
}

// Removes the named files (NULL at the end) and the folder.
static inline void scratch_remove(const char *folder, ...)
{
    char path[256];
    va_list names;
    va_start(names, folder);
    for (const char *name; (name = va_arg(names, const char *));)
        unlink(scratch_path(folder, name, path));
    va_end(names);
    assert_int_equal(rmdir(folder), 0);
}

// Parses a copy in memory of exactly that size, so that a sanitizer sees a byte read beyond it.
static inline bool parse_exact(bool (*parse)(const uint8_t *data, size_t size, struct error *e), const void *data,
                               size_t size, struct error *e)
{
    uint8_t *copy = size < INT32_MAX ? malloc(size + 1) : NULL;
    if (!copy) {
        fail_msg("no memory for %zu bytes", size);
        return false;
    }
    uint8_t *at = copy + 1; // ends where the allocation ends
    if (size)
        memcpy(at, data, size);
    bool ok = parse(at, size, e);
    free(copy);
    return ok;
}

// The bytes of a file in memory of exactly that size, so that reading beyond them is found.
static inline uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*size);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

#endif
