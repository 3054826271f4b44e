// Reading /proc and /sys. Every path is looked up below a root, "" for the machine's own, so that tests can make one up.
#ifndef BENCH_SYSFILE_H
#define BENCH_SYSFILE_H

#include <stdbool.h>
#include <stdint.h>

// The first line of a file without its newline; false and "" if there is none.
bool sysfile_line(const char *root, const char *path, char *out, int size);

// The value of the first line "name : value" of a file.
bool sysfile_field(const char *root, const char *path, const char *name, char *out, int size);

// The first line as a number; false and *out = 0 if it is none.
bool sysfile_number(const char *root, const char *path, int64_t *out);

bool sysfile_exists(const char *root, const char *path);

// "0-3,8" to numbers: how many, at most n of them written. Anything else ends the list.
int32_t sysfile_list(const char *text, int32_t *out, int32_t n);

#endif
