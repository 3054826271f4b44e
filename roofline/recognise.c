// Names of the catalogue in free text.
#include "roofline/catalogue.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// Parts of a name that leave the shape as it is: types and ways of quantization, tuning for chat, dates.
static bool is_decoration(const char *part, size_t n)
{
    static const char *const WORDS[] = {
        "fp",   "bf16",  "nvfp4",   "mxfp4",   "int4", "int8", "w4a",      "w8a",       "awq",       "gptq",  "bnb",
        "gguf", "iq",    "dynamic", "unsloth", "chat", "base", "instruct", "hf",        "quantized", "block", "it",
        "auto", "think", "gs",      "g32",     "g128", "4bit", "8bit",     "reasoning", "q2",        "q3",    "q4",
        "q5",   "q6",    "q8",      "nvfp",    "sft",  "dwq",  "mlx",      "preview",   "terminus",  "meta",
    };
    static const char *const EXACT[] = {"k",  "s",  "m",  "l",  "xs", "xl", "xxs", "xxl",
                                        "ud", "ks", "kt", "kl", "r4", "r8", "pure"};
    size_t digits = 0;
    for (size_t i = 0; i < sizeof EXACT / sizeof *EXACT; i++)
        if (n == strlen(EXACT[i]) && !strncasecmp(part, EXACT[i], n))
            return true;
    while (digits < n && isdigit((unsigned char)part[digits]))
        digits++;
    if ((digits == n && n >= 4) || (digits && digits + 1 == n && tolower((unsigned char)part[digits]) == 'k'))
        return true; // 0528, 2507; 32k
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (n >= strlen(WORDS[i]) && !strncasecmp(part, WORDS[i], strlen(WORDS[i])))
            return true;
    return false;
}

// The next part of a name: letters, digits and dots. *joined: it continues a name (after - or _).
static const char *next_part(const char *at, size_t *n, bool *joined)
{
    const char *from = at;
    while (*at && !isalnum((unsigned char)*at))
        at++;
    *joined = at == from || (at == from + 1 && (*from == '-' || *from == '_'));
    *n = 0;
    while (isalnum((unsigned char)at[*n]) || (at[*n] == '.' && isalnum((unsigned char)at[*n + 1])))
        (*n)++;
    return at;
}

static bool ignored(const char *part, size_t n)
{
    return (n == 8 && !strncasecmp(part, "instruct", n)) || (n == 2 && !strncasecmp(part, "hf", n));
}

// Whether the key stands at `at`; then *after is what follows it.
static bool stands_at(const char *at, const char *key, const char **after)
{
    bool joined;
    size_t n;
    for (bool first = true; *key; first = false) {
        size_t k = strcspn(key, "-");
        const char *part = next_part(at, &n, &joined);
        if (!first && !joined)
            return false;
        at = part + n;
        if (!first && ignored(part, n))
            continue;
        if (n == k + 2 && !strncasecmp(part + k, ".x", 2) && !key[k])
            n = k; // "GLM-5.x": any of them
        if (n != k || strncasecmp(part, key, k))
            return false;
        key += k + (key[k] == '-');
    }
    *after = at;
    return true;
}

static bool only_decorated(const char *at)
{
    for (;;) {
        bool joined;
        size_t n;
        const char *part = next_part(at, &n, &joined);
        if (!n || !joined || part == at)
            return true;
        if (!is_decoration(part, n))
            return false;
        at = part + n;
    }
}

static bool occurs_in(const char *text, const char *key)
{
    for (const char *at = text; *at; at++) {
        const char *after;
        bool starts = at == text || !isalnum((unsigned char)at[-1]);
        if (starts && isalnum((unsigned char)*at) && stands_at(at, key, &after) && only_decorated(after))
            return true;
    }
    return false;
}

const struct catalogue_name *catalogue_recognise(const struct catalogue_name *names, int n, const char *text)
{
    const struct catalogue_name *best = NULL;
    for (int i = 0; i < n; i++)
        if ((!best || strlen(names[i].key) > strlen(best->key)) && occurs_in(text, names[i].key))
            best = &names[i];
    return best;
}
