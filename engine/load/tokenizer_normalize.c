// What is done to a text before it is cut: Unicode's forms, replacements, and SentencePiece's treatment of spaces.
#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void buffer_free(struct text_buffer *b)
{
    free(b->data);
    *b = (struct text_buffer){0};
}

bool buffer_put(struct text_buffer *b, struct text text, struct error *e)
{
    if (!b->data || text.size > b->capacity - b->size) {
        size_t capacity = 2 * (b->size + text.size) + 64;
        char *grown = realloc(b->data, capacity);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for a text of %zu bytes", capacity);
        b->data = grown, b->capacity = capacity;
    }
    if (text.size)
        memcpy(b->data + b->size, text.data, text.size);
    b->size += text.size;
    return true;
}

static struct text rest(struct text t, size_t from)
{
    return (struct text){t.data + from, t.size - from};
}

// ---- character by character

static size_t next_char(struct text t, utf8proc_int32_t *c)
{
    utf8proc_ssize_t n = utf8proc_iterate((const uint8_t *)t.data, (utf8proc_ssize_t)t.size, c);
    return n > 0 ? (size_t)n : 1; // the text is well formed
}

static bool put_char(struct text_buffer *b, utf8proc_int32_t c, struct error *e)
{
    uint8_t bytes[4];
    return buffer_put(b, (struct text){(char *)bytes, (size_t)utf8proc_encode_char(c, bytes)}, e);
}

static bool run_lowercase(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    utf8proc_int32_t c;
    (void)n;
    for (size_t at = 0; at < in.size;) {
        at += next_char(rest(in, at), &c);
        bool dotted = c == 0x130; // the one whose lower case is two characters
        if (!put_char(out, dotted ? 'i' : utf8proc_tolower(c), e) || (dotted && !put_char(out, 0x307, e)))
            return false;
    }
    return true;
}

static bool run_strip_accents(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    utf8proc_int32_t c;
    (void)n;
    for (size_t at = 0; at < in.size;) {
        at += next_char(rest(in, at), &c);
        utf8proc_category_t k = utf8proc_category(c);
        if ((k < UTF8PROC_CATEGORY_MN || k > UTF8PROC_CATEGORY_ME) && !put_char(out, c, e))
            return false;
    }
    return true;
}

static bool run_strip(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    utf8proc_int32_t c;
    size_t begin = 0, end = 0;
    for (size_t at = 0; at < in.size;) {
        size_t size = next_char(rest(in, at), &c);
        if (!unicode_is_space(c))
            end = at + size;
        else if (begin == at && n->left)
            begin = at + size;
        at += size;
    }
    end = n->right && end >= begin ? end : in.size;
    return buffer_put(out, (struct text){in.data + begin, end - begin}, e);
}

// ---- Unicode's forms

static bool run_form(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    uint8_t *text = NULL;
    utf8proc_ssize_t size =
        utf8proc_map((const uint8_t *)in.data, (utf8proc_ssize_t)in.size, &text, (utf8proc_option_t)n->form);
    if (size < 0)
        return error_set(e, ERROR_MEMORY, "text could not be normalized: %s", utf8proc_errmsg(size));
    bool ok = buffer_put(out, (struct text){(char *)text, (size_t)size}, e);
    free(text);
    return ok;
}

// ---- replacements

static bool run_prepend(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    return buffer_put(out, (struct text){n->put.data, n->put.size}, e) && buffer_put(out, in, e);
}

static bool run_replace(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    enum utf8_state state;
    struct pattern_match match;
    if (utf8_valid_size(in.data, in.size) != in.size) // a decoder's single bytes
        return buffer_put(out, in, e);
    struct matcher *m = matcher_new(e);
    size_t done = 0, from = 0;
    bool ok = m, found = true;
    while (ok && from <= in.size) {
        ok = pattern_find(&n->pattern, m, in, from, &match, &found, e);
        if (!ok || !found)
            break;
        ok = buffer_put(out, (struct text){in.data + done, match.begin - done}, e) &&
             buffer_put(out, (struct text){n->put.data, n->put.size}, e);
        done = from = match.end;
        if (match.begin == match.end) // nothing was found: go on behind the next character
            from += from < in.size ? utf8_next(in.data + from, in.size - from, &state) : 1;
    }
    matcher_free(m);
    return ok && buffer_put(out, rest(in, done), e);
}

// A literal is most often one character that the text does not even have.
static bool run_replace_literal(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    struct text what = {n->what.data, n->what.size}, put = {n->put.data, n->put.size};
    for (const char *at; (at = memmem(in.data, in.size, what.data, what.size));
         in = rest(in, (size_t)(at - in.data) + what.size))
        if (!buffer_put(out, (struct text){in.data, (size_t)(at - in.data)}, e) || !buffer_put(out, put, e))
            return false;
    return buffer_put(out, in, e);
}

// As Hugging Face's library applies the table: to a whole grapheme of less than six bytes if any key begins it (the
// shortest one then replaces all of it), else to its characters one by one.
static bool put_grapheme(const struct normalizer *n, struct text grapheme, struct text_buffer *out, struct error *e)
{
    size_t size = 0;
    enum utf8_state state;
    struct text put = {0};
    if (grapheme.size < 6 && (put = charsmap_find(&n->map, grapheme, false, &size)).data)
        return buffer_put(out, put, e);
    for (size_t at = 0; at < grapheme.size; at += size) {
        size_t key;
        size = utf8_next(grapheme.data + at, grapheme.size - at, &state);
        struct text c = {grapheme.data + at, size};
        put = charsmap_find(&n->map, c, false, &key);
        if (!buffer_put(out, put.data ? put : c, e))
            return false;
    }
    return true;
}

static bool run_precompiled(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    utf8proc_int32_t before = 0, c = 0, state = 0;
    size_t begin = 0, size;
    for (size_t at = 0; at < in.size; at += size, before = c) {
        size = next_char(rest(in, at), &c);
        if (!at || !utf8proc_grapheme_break_stateful(before, c, &state))
            continue;
        if (!put_grapheme(n, (struct text){in.data + begin, at - begin}, out, e))
            return false;
        begin = at;
    }
    return !in.size || put_grapheme(n, rest(in, begin), out, e);
}

// ---- what decoders do to a token

static bool run_byte(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    int byte = byte_of_token(in);
    char c = (char)byte;
    (void)n;
    return buffer_put(out, byte >= 0 ? (struct text){&c, 1} : in, e);
}

static bool run_trim(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    struct text what = {n->what.data, n->what.size};
    for (int32_t i = 0; i < n->n_left && in.size >= what.size && !memcmp(in.data, what.data, what.size); i++)
        in = rest(in, what.size);
    for (int32_t i = 0;
         i < n->n_right && in.size >= what.size && !memcmp(in.data + in.size - what.size, what.data, what.size); i++)
        in.size -= what.size;
    return buffer_put(out, in, e);
}

// ---- SentencePiece's own

// The replacement of what stands at the start of text, whose size goes to *n.
static struct text next_unit(const struct normalizer *n, struct text text, size_t *size)
{
    enum utf8_state state;
    *size = n->kept ? added_size_at(n->kept, text) : 0;
    if (*size)
        return (struct text){text.data, *size};
    struct text put = charsmap_find(&n->map, text, true, size);
    if (put.data)
        return put;
    *size = utf8_next(text.data, text.size, &state);
    return (struct text){text.data, *size};
}

static bool put_unit(const struct normalizer *n, struct text unit, struct text_buffer *out, struct error *e)
{
    static const struct text mark = {SPACE_MARK, 3};
    for (size_t i = 0; i < unit.size; i++)
        if (!buffer_put(out, n->escape && unit.data[i] == ' ' ? mark : (struct text){unit.data + i, 1}, e))
            return false;
    return true;
}

static void drop_trailing_spaces(const struct normalizer *n, struct text_buffer *b)
{
    struct text space = n->escape ? (struct text){SPACE_MARK, 3} : (struct text){" ", 1};
    while (b->size >= space.size && !memcmp(b->data + b->size - space.size, space.data, space.size))
        b->size -= space.size;
}

static bool is_one_space(struct text t)
{
    return t.size == 1 && *t.data == ' ';
}

static bool run_sentencepiece(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e)
{
    static const struct text space = {" ", 1};
    size_t size = 0;
    while (n->squeeze && in.size && is_one_space(next_unit(n, in, &size)))
        in = rest(in, size);
    if (!in.size)
        return true;
    if (n->prefix && !put_unit(n, space, out, e))
        return false;
    for (bool after_space = n->squeeze; in.size; in = rest(in, size)) {
        struct text unit = next_unit(n, in, &size);
        while (after_space && unit.size && *unit.data == ' ')
            unit = rest(unit, 1);
        if (!put_unit(n, unit, out, e))
            return false;
        if (unit.size)
            after_space = n->squeeze && unit.data[unit.size - 1] == ' ';
    }
    if (n->squeeze)
        drop_trailing_spaces(n, out);
    return !n->suffix || put_unit(n, space, out, e);
}

// ---- the list of them

static struct normalizer *add(struct normalizers *n, struct error *e)
{
    if (n->n == NORMALIZER_MAX) {
        error_set(e, ERROR_UNSUPPORTED, "more than %d normalizers in sequence", NORMALIZER_MAX);
        return NULL;
    }
    return &n->step[n->n++];
}

static const struct {
    const char *name;
    struct normalizer step;
} NAMED[] = {
    {"NFC", {.run = run_form, .form = UTF8PROC_STABLE | UTF8PROC_COMPOSE, .first = 0xcc}},                    // from U+0300
    {"NFD", {.run = run_form, .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, .first = 0xc3}},                  // U+00C0
    {"NFKC", {.run = run_form, .form = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, .first = 0xc2}}, // U+00A0
    {"NFKD", {.run = run_form, .form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, .first = 0xc2}},
    {"Lowercase", {.run = run_lowercase, .first = 'A'}},
    {"StripAccents", {.run = run_strip_accents, .first = 0xcc}},
};

bool normalizer_add_named(struct normalizers *n, const char *name, struct error *e)
{
    size_t i = 0, n_named = sizeof NAMED / sizeof *NAMED;
    while (i < n_named && strcmp(NAMED[i].name, name))
        i++;
    if (i == n_named)
        return error_set(e, ERROR_UNSUPPORTED,
                         "normalizer '%.60s' is not supported (NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, "
                         "Replace, Prepend, Precompiled, Sequence are)",
                         name);
    struct normalizer *step = add(n, e);
    if (step)
        *step = NAMED[i].step;
    return step;
}

bool normalizer_add_strip(struct normalizers *n, bool left, bool right, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (step)
        *step = (struct normalizer){.run = run_strip, .left = left, .right = right};
    return step;
}

bool normalizer_add_prepend(struct normalizers *n, struct text put, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (!step)
        return false;
    *step = (struct normalizer){.run = run_prepend};
    return buffer_put(&step->put, put, e);
}

bool normalizer_add_replace(struct normalizers *n, struct text what, bool literal, struct text put, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (!step)
        return false;
    literal = literal && what.size;
    *step = (struct normalizer){.run = literal ? run_replace_literal : run_replace};
    return buffer_put(&step->put, put, e) &&
           (literal ? buffer_put(&step->what, what, e) : pattern_init(&step->pattern, what, false, e));
}

bool normalizer_add_bytes(struct normalizers *n, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (step)
        *step = (struct normalizer){.run = run_byte};
    return step;
}

bool normalizer_add_trim(struct normalizers *n, struct text what, int32_t n_left, int32_t n_right, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (!step)
        return false;
    *step = (struct normalizer){.run = run_trim, .n_left = n_left, .n_right = n_right};
    return buffer_put(&step->what, what, e);
}

bool normalizer_add_precompiled(struct normalizers *n, struct text blob, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (!step)
        return false;
    *step = (struct normalizer){.run = run_precompiled};
    return charsmap_init(&step->map, blob, e);
}

bool normalizer_add_sentencepiece(struct normalizers *n, struct normalizer like, struct text blob, struct error *e)
{
    struct normalizer *step = add(n, e);
    if (!step)
        return false;
    *step = like;
    step->run = run_sentencepiece;
    return charsmap_init(&step->map, blob, e);
}

void normalizers_free(struct normalizers *n)
{
    for (int32_t i = 0; i < n->n; i++) {
        pattern_free(&n->step[i].pattern);
        buffer_free(&n->step[i].what);
        buffer_free(&n->step[i].put);
        charsmap_free(&n->step[i].map);
    }
    *n = (struct normalizers){0};
}

static bool all_below(struct text text, unsigned char first)
{
    unsigned char highest = 0;
    for (size_t i = 0; i < text.size; i++)
        highest = (unsigned char)text.data[i] > highest ? (unsigned char)text.data[i] : highest;
    return highest < first;
}

bool normalize(const struct normalizers *n, struct text *text, struct text_buffer buffer[2], struct error *e)
{
    for (int32_t i = 0; i < n->n && text->size; i++) {
        struct text_buffer *out = &buffer[text->data == buffer[0].data];
        if (all_below(*text, n->step[i].first))
            continue;
        out->size = 0;
        if (!n->step[i].run(&n->step[i], *text, out, e))
            return false;
        *text = (struct text){out->data, out->size};
    }
    return true;
}

bool normalize_text(const struct normalizers *n, struct text *text, struct text_buffer buffer[2], struct error *e)
{
    return normalize(n, text, buffer, e) &&
           (!n->n || utf8_valid_size(text->data, text->size) == text->size ||
            error_set(e, ERROR_FILE, "the tokenizer's normalizer makes something that is not UTF-8"));
}
