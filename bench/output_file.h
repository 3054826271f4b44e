// Files that are written so that a machine may fail at any moment: on disk when a call returns, and whole or not at all
// where they replace an older one.
#ifndef BENCH_OUTPUT_FILE_H
#define BENCH_OUTPUT_FILE_H

#include "engine/base/error.h"

#include <stdio.h>

enum { OUTPUT_PATH = 704 };

// ERROR_OUTPUT with the path and what errno says; false.
bool output_failed(const char *path, struct error *e);

// mkdir -p. ERROR_OUTPUT with the folder's name on failure.
bool make_folder(const char *path, struct error *e);

// On disk, not only handed to the kernel.
bool output_flush(FILE *f, const char *path, struct error *e);

// A file that is written beside the old one and takes its place when it is whole.
struct replacement {
    char path[OUTPUT_PATH], temporary[OUTPUT_PATH + 8];
    FILE *f;
};
bool replacement_open(struct replacement *r, const char *path, struct error *e);
// ok: nothing went wrong so far; otherwise the old file stays.
bool replacement_close(struct replacement *r, bool ok, struct error *e);

// The same for a text. NULL: there was no memory for it.
bool write_file(const char *path, const char *text, struct error *e);

#endif
