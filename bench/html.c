#include "bench/html.h"

#include "engine/base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static void put_character(FILE *f, const char *c, size_t size)
{
    switch (*c) {
    case '&': fputs("&amp;", f); return;
    case '<': fputs("&lt;", f); return;
    case '>': fputs("&gt;", f); return;
    case '"': fputs("&quot;", f); return;
    case '\'': fputs("&#39;", f); return;
    default:
        if (size == 1 && (unsigned char)*c < ' ' && !strchr("\n\t", *c))
            fputs(UTF8_REPLACEMENT, f);
        else
            fwrite(c, 1, size, f);
    }
}

void html_text(FILE *f, const char *text)
{
    for (size_t n, left = strlen(text); left; text += n, left -= n) {
        enum utf8_state state;
        n = utf8_next(text, left, &state);
        if (state == UTF8_WHOLE)
            put_character(f, text, n);
        else
            fputs(UTF8_REPLACEMENT, f);
    }
}

void html_format(FILE *f, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    html_text(f, text);
}

const char *html_number(double v, char out[32])
{
    double size = fabs(v);
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size >= 0.09995 ? 3 : 4;
    if (!isfinite(v))
        *out = 0;
    else if (size >= 1e15 || (size < 1e-4 && size > 0))
        snprintf(out, 32, "%.3g", v);
    else
        snprintf(out, 32, "%.*f", v == 0 ? 0 : decimals, v);
    return out;
}

const char *html_rate(double v, const char *unit, char out[32])
{
    static const char *const PREFIX[] = {"", "k", "M", "G", "T", "P"};
    char number[32];
    int prefix = 0;
    for (; v >= 999.5 && prefix < 5; prefix++)
        v /= 1000;
    snprintf(out, 32, "%.16s %s%.8s", html_number(v, number), PREFIX[prefix], unit);
    return out;
}
