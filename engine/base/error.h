// One error type for everything that can fail. A function that can fail returns bool, takes `struct error *` last
// and, on false, has filled it with one line: lower case, no full stop, the subject quoted, what was expected.
// Only main files print or exit.
#ifndef ENGINE_BASE_ERROR_H
#define ENGINE_BASE_ERROR_H

#include <stdbool.h>

enum error_kind {
    ERROR_NONE,
    ERROR_USAGE,       // a flag, a scenario or a name is wrong
    ERROR_FILE,        // a file is missing, truncated, corrupt or inconsistent
    ERROR_UNSUPPORTED, // the request is well formed, but nothing here can do it
    ERROR_MEMORY,      // too little memory
    ERROR_DEVICE,      // no such device, driver or permission on this machine
    ERROR_OUTPUT,      // results could not be written
    ERROR_FAILED,      // a point or a check failed
    ERROR_OVER_BOUND,  // a measurement beat the laws of physics as we state them
    ERROR_DISTRUSTED,  // a measurement has a verdict that the caller does not accept (--fail-on)
    ERROR_REGRESSION,  // a comparison found something worse
    ERROR_INTERRUPTED,
};

struct error {
    enum error_kind kind;
    char message[512];
};

// Fills *e (when not NULL) and returns false, so that a guard is one line: return error_set(e, ERROR_FILE, ...).
bool error_set(struct error *e, enum error_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Puts "prefix: " before the message, for context added on the way up. Returns false.
bool error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The documented exit code of a kind: 0, 1, 2, 3, 4 or 130 (see README.md, "Exit codes").
int error_exit_code(enum error_kind kind);

#endif
