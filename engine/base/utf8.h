// Well-formed UTF-8, character by character (the Unicode standard's table 3-7).
#ifndef ENGINE_BASE_UTF8_H
#define ENGINE_BASE_UTF8_H

#include <stddef.h>

enum utf8_state {
    UTF8_WHOLE,  // a well-formed character
    UTF8_BROKEN, // bytes that no continuation can mend
    UTF8_CUT,    // the text ends inside a character that is well formed so far
};

// Looks at text[size] (size > 0) and returns the bytes it speaks of: the character, or the longest piece of a character
// that is broken or cut. Each such piece is what decoders replace by one U+FFFD.
size_t utf8_next(const char *text, size_t size, enum utf8_state *state);

// Bytes of the longest well-formed beginning of text[size].
size_t utf8_valid_size(const char *text, size_t size);

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

#endif
