#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char SPLIT_GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char SPLIT_DIGIT[] = "\\p{N}";

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

bool split_add(struct split *s, const char *pattern, bool literal, enum split_behaviour behaviour, bool invert,
               struct error *e)
{
    if (s->n_steps == SPLIT_MAX_STEPS)
        return error_set(e, ERROR_UNSUPPORTED, "more than %d pre-tokenizers in sequence", SPLIT_MAX_STEPS);
    pcre2_code *code =
        literal ? compile(pattern, strlen(pattern), PCRE2_UTF | PCRE2_LITERAL, e) : compile_translated(pattern, e);
    if (!code)
        return false;
    s->step[s->n_steps++] = (struct split_step){code, behaviour, invert};
    return true;
}

void split_free(struct split *s)
{
    for (int32_t i = 0; i < s->n_steps; i++)
        pcre2_code_free(s->step[i].code);
    *s = (struct split){0};
}

struct run {
    const struct split *split;
    pcre2_match_data *match;
    split_piece piece;
    void *ctx;
    struct error *e;
};
struct part {
    size_t begin, end;
    bool is_match;
};

// Whether a part joins the one before it.
static bool joins(enum split_behaviour behaviour, struct part before, struct part now)
{
    switch (behaviour) {
    case SPLIT_CONTIGUOUS: return now.is_match == before.is_match;
    case SPLIT_WITH_PREVIOUS: return now.is_match && !before.is_match;
    case SPLIT_WITH_NEXT: return before.is_match && !now.is_match;
    case SPLIT_ISOLATED:
    case SPLIT_REMOVED: break;
    }
    return false;
}

static bool split_from(struct run *r, int32_t step, struct text text);

static bool hand_on(struct run *r, int32_t step, struct text text, struct part p)
{
    if (p.begin == p.end || (p.is_match && r->split->step[step].behaviour == SPLIT_REMOVED))
        return true;
    return split_from(r, step + 1, (struct text){text.data + p.begin, p.end - p.begin});
}

// Takes the next part: joins it to the one held back, or hands that on and holds this one.
static bool take(struct run *r, int32_t step, struct text text, struct part *held, struct part p)
{
    const struct split_step *s = &r->split->step[step];
    p.is_match ^= s->invert;
    if (joins(s->behaviour, *held, p)) {
        held->end = p.end, held->is_match = p.is_match;
        return true;
    }
    if (!hand_on(r, step, text, *held))
        return false;
    *held = p;
    return true;
}

// The first match at or after `from`; *found false if there is none.
static bool next_match(struct run *r, int32_t step, struct text text, size_t from, struct part *out, bool *found)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);
    int rc =
        pcre2_match(r->split->step[step].code, (PCRE2_SPTR)text.data, text.size, from, PCRE2_NO_UTF_CHECK, r->match, NULL);
    *found = rc >= 0; // 0: more groups than there is room for, which nobody reads
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        char why[120];
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(r->e, ERROR_UNSUPPORTED, "the split pattern fails on this text: %s", why);
    }
    if (*found && (at[0] < from || at[1] < at[0]))
        return error_set(r->e, ERROR_UNSUPPORTED, "the split pattern matches backwards");
    if (*found)
        *out = (struct part){at[0], at[1], true};
    return true;
}

// Where to search on after an empty match.
static size_t next_character(struct text text, size_t at)
{
    enum utf8_state state;
    return at < text.size ? at + utf8_next(text.data + at, text.size - at, &state) : text.size;
}

static bool split_from(struct run *r, int32_t step, struct text text)
{
    if (step == r->split->n_steps)
        return r->piece(r->ctx, text, r->e);
    struct part held = {0}, match = {0};
    size_t done = 0;
    bool found = true, first = true;
    for (size_t from = 0; from < text.size;) {
        if (!next_match(r, step, text, from, &match, &found))
            return false;
        if (!found)
            break;
        bool empty = match.begin == match.end;
        from = empty ? next_character(text, match.end) : match.end;
        if (empty && !first && match.begin == done) // nothing, right behind a match
            continue;
        if (match.begin > done && !take(r, step, text, &held, (struct part){done, match.begin, false}))
            return false;
        if (!take(r, step, text, &held, match))
            return false;
        done = match.end, first = false;
    }
    if (done < text.size && !take(r, step, text, &held, (struct part){done, text.size, false}))
        return false;
    return hand_on(r, step, text, held);
}

bool split_text(const struct split *s, struct text text, split_piece piece, void *ctx, struct error *e)
{
    struct run r = {s, pcre2_match_data_create(1, NULL), piece, ctx, e};
    if (!r.match)
        return error_set(e, ERROR_MEMORY, "no memory to split a text");
    bool ok = !text.size || split_from(&r, 0, text);
    pcre2_match_data_free(r.match);
    return ok;
}
