#include "engine/base/utf8.h"

#include <stdint.h>
#include <string.h>

static size_t length_by_lead(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

size_t utf8_next(const char *text, size_t size, enum utf8_state *state)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = length_by_lead(s[0]);
    // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    *state = UTF8_BROKEN;
    if (!length)
        return 1;
    for (size_t i = 1; i < length; i++) {
        if (i == size)
            *state = UTF8_CUT;
        if (i == size || s[i] < low || s[i] > high)
            return i;
        low = 0x80, high = 0xbf;
    }
    *state = UTF8_WHOLE;
    return length;
}

size_t utf8_valid_size(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        enum utf8_state state;
        if (at + sizeof eight <= size && (memcpy(&eight, text + at, sizeof eight), !(eight & 0x8080808080808080u))) {
            at += sizeof eight;
            continue;
        }
        size_t n = utf8_next(text + at, size - at, &state);
        if (state != UTF8_WHOLE)
            break;
        at += n;
    }
    return at;
}
