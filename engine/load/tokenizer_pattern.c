// Patterns of tokenizer.json, written for Oniguruma, run by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/load/tokenizer_parts.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Oniguruma and PCRE2 agree on what tokenizers use but for the classes below (PCRE2's \s has U+180E, its \w lacks marks).
// Rows: the letter, its members to stand inside [...]; NULL: there is no such list (a complement).
static const struct {
    char letter;
    const char *members, *outside;
} CLASS[] = {
    {'s', "\\p{Z}\\t-\\r\\x{85}", "[\\p{Z}\\t-\\r\\x{85}]"},
    {'S', NULL, "[^\\p{Z}\\t-\\r\\x{85}]"},
    {'w', "\\p{L}\\p{M}\\p{Nd}\\p{Pc}", "[\\p{L}\\p{M}\\p{Nd}\\p{Pc}]"},
    {'W', NULL, "[^\\p{L}\\p{M}\\p{Nd}\\p{Pc}]"},
    {'h', "0-9a-fA-F", "[0-9a-fA-F]"},
    {'H', NULL, "[^0-9a-fA-F]"},
};

// Writes the escape p[0..1] ("\x") in PCRE2's words.
static bool translate_escape(FILE *f, const char *p, bool in_class, struct error *e)
{
    for (size_t i = 0; i < sizeof CLASS / sizeof *CLASS; i++) {
        if (p[1] != CLASS[i].letter)
            continue;
        if (in_class && !CLASS[i].members)
            return error_set(e, ERROR_UNSUPPORTED, "the split pattern has \\%c inside a class, which is not supported",
                             p[1]);
        fputs(in_class ? CLASS[i].members : CLASS[i].outside, f);
        return true;
    }
    fprintf(f, "%.2s", p);
    return true;
}

static bool translate(FILE *f, const char *p, struct error *e)
{
    bool in_class = false;
    for (; *p; p++) {
        if (*p == '\\' && p[1]) {
            if (!translate_escape(f, p++, in_class, e))
                return false;
            continue;
        }
        if (in_class && (!strncmp(p, "&&", 2) || (*p == '[' && p[1] != ':')))
            return error_set(e, ERROR_UNSUPPORTED, "the split pattern has a set inside a class, which is not supported");
        bool posix = in_class && *p == '[';
        const char *end = posix ? strstr(p, ":]") : NULL;
        if (end) {
            fprintf(f, "%.*s", (int)(end + 2 - p), p);
            p = end + 1;
            continue;
        }
        in_class = in_class ? *p != ']' : *p == '[';
        fputc(*p, f);
        if (*p == '[' && p[1] == '^')
            fputc(*++p, f);
    }
    return true;
}

static pcre2_code *compile(const char *pattern, size_t size, uint32_t options, struct error *e)
{
    int number;
    PCRE2_SIZE at;
    char why[120];
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, size, options, &number, &at, NULL);
    if (!code) {
        pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
        error_set(e, ERROR_FILE, "the split pattern is not valid: %s", why);
        return NULL;
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // where the system forbids it, pcre2_match interprets
    return code;
}

static pcre2_code *compile_translated(const char *pattern, struct error *e)
{
    char *text = NULL;
    size_t size = 0;
    pcre2_code *code = NULL;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        error_set(e, ERROR_MEMORY, "no memory for a split pattern");
        return NULL;
    }
    bool ok = translate(f, pattern, e);
    if (fclose(f))
        ok = error_set(e, ERROR_MEMORY, "no memory for a split pattern");
    if (ok)
        code = compile(text, size, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, e);
    free(text);
    return code;
}

bool pattern_init(struct pattern *p, struct text text, bool literal, struct error *e)
{
    char *copy = literal ? NULL : strndup(text.data, text.size);
    if (!literal && !copy)
        return error_set(e, ERROR_MEMORY, "no memory for a split pattern");
    p->code = literal ? compile(text.data, text.size, PCRE2_UTF | PCRE2_LITERAL, e) : compile_translated(copy, e);
    free(copy);
    return p->code;
}

void pattern_free(struct pattern *p)
{
    pcre2_code_free(p->code);
    *p = (struct pattern){0};
}

struct matcher {
    pcre2_match_data *data;
};

struct matcher *matcher_new(struct error *e)
{
    struct matcher *m = calloc(1, sizeof *m);
    if (m && (m->data = pcre2_match_data_create(1, NULL)))
        return m;
    free(m);
    error_set(e, ERROR_MEMORY, "no memory to split a text");
    return NULL;
}

void matcher_free(struct matcher *m)
{
    if (m)
        pcre2_match_data_free(m->data);
    free(m);
}

bool pattern_find(const struct pattern *p, struct matcher *m, struct text text, size_t from, struct pattern_match *out,
                  bool *found, struct error *e)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->data);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)text.data, text.size, from, PCRE2_NO_UTF_CHECK, m->data, NULL);
    *found = rc >= 0; // 0: more groups than there is room for, which nobody reads
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        char why[120];
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(e, ERROR_UNSUPPORTED, "the split pattern fails on this text: %s", why);
    }
    if (*found && (at[0] < from || at[1] < at[0]))
        return error_set(e, ERROR_UNSUPPORTED, "the split pattern matches backwards");
    if (*found)
        *out = (struct pattern_match){at[0], at[1]};
    return true;
}
