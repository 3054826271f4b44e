#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Names and files may hold control characters; they must not break the line or reach the terminal.
static void keep_one_line(char *message)
{
    for (; *message; message++)
        if ((unsigned char)*message < ' ' || *message == 127)
            *message = '?';
}

bool error_set(struct error *e, enum error_kind kind, const char *format, ...)
{
    if (!e)
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    keep_one_line(e->message);
    e->kind = kind;
    return false;
}

bool error_prefix(struct error *e, const char *format, ...)
{
    if (!e)
        return false;
    char old[sizeof e->message];
    memcpy(old, e->message, sizeof old);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    keep_one_line(e->message);
    int room = (int)sizeof e->message - n - 3; // beside ": " and the zero
    if (n >= 0 && room > 0)
        snprintf(e->message + n, (size_t)room + 3, ": %.*s", room, old);
    return false;
}

int error_exit_code(enum error_kind kind)
{
    switch (kind) {
    case ERROR_NONE: return 0;
    case ERROR_FAILED:
    case ERROR_OUTPUT: return 1;
    case ERROR_USAGE:
    case ERROR_FILE: return 2;
    case ERROR_UNSUPPORTED:
    case ERROR_MEMORY:
    case ERROR_DEVICE: return 3;
    case ERROR_OVER_BOUND:
    case ERROR_DISTRUSTED:
    case ERROR_REGRESSION: return 4;
    case ERROR_INTERRUPTED: return 130;
    }
    return 1;
}
