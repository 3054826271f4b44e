// From text to ids: around added tokens, through normalizer and splits, to the model of the pieces.
#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { CACHED_TEXT = 2048 }; // shorter texts are not worth a cache

struct encoding {
    const struct tokenizer *t;
    struct token_list *out;
    bool control; // special tokens are recognised
    const char *start;
    struct matcher *matcher;
    struct piece_cache *cache; // NULL: none
    struct text_buffer buffer[2];
    struct text unknown; // unigram: what has had no token so far
    bool after_unknown;  // the last id of this piece is the unknown token
};

// ---- what has no token

static bool push_known(struct encoding *c, int32_t id, struct error *e)
{
    c->after_unknown = false;
    return token_list_push(c->out, id, e);
}

static bool push_unknown(struct encoding *c, struct error *e)
{
    int32_t id = c->t->unknown;
    if (id < 0 || (c->t->fuse_unknown && c->after_unknown))
        return true;
    c->after_unknown = true;
    return token_list_push(c->out, id, e);
}

static bool push_byte(const struct tokenizer *t, unsigned char byte, struct token_list *out, struct error *e)
{
    int32_t id = t->vocab.byte_id[byte] >= 0 ? t->vocab.byte_id[byte] : t->unknown;
    return id < 0 || token_list_push(out, id, e);
}

// A text without a token becomes the tokens of its bytes, if there are all of them, or the unknown token.
static bool push_unfound(struct encoding *c, struct text text, struct error *e)
{
    const int32_t *byte_id = c->t->vocab.byte_id;
    bool bytes = c->t->byte_fallback;
    for (size_t i = 0; bytes && i < text.size; i++)
        bytes = byte_id[(unsigned char)text.data[i]] >= 0;
    if (!bytes)
        return push_unknown(c, e);
    for (size_t i = 0; i < text.size; i++)
        if (!push_known(c, byte_id[(unsigned char)text.data[i]], e))
            return false;
    return true;
}

static bool push_ids(struct encoding *c, const int32_t *id, int32_t n, struct error *e)
{
    if (!token_list_reserve(c->out, (size_t)n, e))
        return false;
    memcpy(c->out->id + c->out->n, id, (size_t)n * sizeof *id);
    c->out->n += n;
    c->after_unknown = false;
    return true;
}

static bool merge_last(struct encoding *c, int32_t first, struct error *e)
{
    int32_t n = bpe_merge(&c->t->merges, c->out->id + first, c->out->n - first);
    if (n < 0)
        return error_set(e, ERROR_MEMORY, "no memory for a word of %d symbols", c->out->n - first);
    c->out->n = first + n;
    return true;
}

// ---- byte-level BPE

static bool encode_bytes(struct encoding *c, struct text piece, struct error *e)
{
    struct token_list *out = c->out;
    int32_t n, first = out->n;
    const int32_t *seen = piece_cache_find(c->cache, piece, &n);
    if (seen)
        return push_ids(c, seen, n, e);
    int32_t whole = c->t->ignore_merges ? vocab_find(&c->t->vocab, piece) : -1;
    if (whole >= 0)
        return token_list_push(out, whole, e);
    if (!token_list_reserve(out, piece.size, e))
        return false;
    for (size_t i = 0; i < piece.size; i++)
        if (!push_byte(c->t, (unsigned char)piece.data[i], out, e))
            return false;
    if (!merge_last(c, first, e))
        return false;
    piece_cache_put(c->cache, piece, out->id + first, out->n - first);
    return true;
}

// ---- BPE over characters

static size_t next_char(struct text t, size_t at, uint32_t *c)
{
    const unsigned char *p = (const unsigned char *)t.data + at; // well-formed UTF-8
    size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    *c = n == 1 ? *p : *p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        *c = *c << 6 | (p[i] & 0x3f);
    return n;
}

// Without an unknown token, what has no token is as if it were not there: its neighbours can be merged.
static bool leaves_out(const struct tokenizer *t)
{
    return t->unknown < 0 && !t->byte_fallback;
}

// Where the part that begins at `from` ends: no merge joins what lies before and behind.
static size_t part_end(const struct tokenizer *t, struct text text, size_t from)
{
    uint32_t last, next;
    const struct merges *m = &t->merges;
    if (leaves_out(t))
        return text.size;
    size_t at = from + next_char(text, from, &last);
    for (size_t n; at < text.size; at += n, last = next) {
        n = next_char(text, at, &next);
        if (!merges_may_join(m, last, next))
            break;
    }
    return at;
}

// A character without a token stands in the list as minus its code point, less one.
static bool push_characters(struct encoding *c, struct text part, bool *known, struct error *e)
{
    uint32_t point;
    *known = true;
    if (!token_list_reserve(c->out, part.size, e))
        return false;
    for (size_t at = 0, n; at < part.size; at += n) {
        n = next_char(part, at, &point);
        int32_t id = vocab_find(&c->t->vocab, (struct text){part.data + at, n});
        if (id < 0 && leaves_out(c->t))
            continue;
        *known &= id >= 0;
        c->out->id[c->out->n++] = id >= 0 ? id : -(int32_t)point - 1;
    }
    return true;
}

static struct text utf8_of(uint32_t point, char out[4])
{
    size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(n == 1 ? point : (0xf00u >> n & 0xff) | point);
    return (struct text){out, n};
}

// Puts what stands for the unknown ones among the last ids in their place.
static bool resolve_unknown(struct encoding *c, int32_t first, struct error *e)
{
    int32_t n = c->out->n - first;
    int32_t *id = malloc(((size_t)n + 1) * sizeof *id);
    bool ok = id || error_set(e, ERROR_MEMORY, "no memory to encode a text");
    if (ok)
        memcpy(id, c->out->id + first, (size_t)n * sizeof *id);
    c->out->n = first;
    for (int32_t i = 0; ok && i < n; i++) {
        char bytes[4];
        ok = id[i] >= 0 ? push_known(c, id[i], e) : push_unfound(c, utf8_of((uint32_t)(-(id[i] + 1)), bytes), e);
    }
    free(id);
    return ok;
}

static bool encode_part(struct encoding *c, struct text part, struct error *e)
{
    bool known;
    int32_t n, first = c->out->n;
    const int32_t *seen = piece_cache_find(c->cache, part, &n);
    if (seen)
        return push_ids(c, seen, n, e);
    if (!push_characters(c, part, &known, e) || !merge_last(c, first, e))
        return false;
    if (!known)
        return resolve_unknown(c, first, e);
    c->after_unknown = false;
    piece_cache_put(c->cache, part, c->out->id + first, c->out->n - first);
    return true;
}

static bool encode_characters(struct encoding *c, struct text piece, struct error *e)
{
    int32_t whole = c->t->ignore_merges ? vocab_find(&c->t->vocab, piece) : -1;
    if (whole >= 0)
        return token_list_push(c->out, whole, e);
    c->after_unknown = false;
    for (size_t at = 0, end; at < piece.size; at = end) {
        end = part_end(c->t, piece, at);
        if (!encode_part(c, (struct text){piece.data + at, end - at}, e))
            return false;
    }
    return true;
}

// ---- unigram

static bool flush_unknown(struct encoding *c, struct error *e)
{
    struct text text = c->unknown;
    c->unknown = (struct text){0};
    return !text.size || push_unfound(c, text, e);
}

static bool take_best(void *ctx, struct text piece, int32_t id, struct error *e)
{
    struct encoding *c = ctx;
    if (id >= 0)
        return flush_unknown(c, e) && push_known(c, id, e);
    if (!c->unknown.size)
        c->unknown.data = piece.data;
    c->unknown.size += piece.size;
    return c->t->fuse_unknown || flush_unknown(c, e);
}

static bool encode_unigram(struct encoding *c, struct text piece, struct error *e)
{
    c->after_unknown = false;
    return unigram_best(&c->t->unigram, piece, take_best, c, e) && flush_unknown(c, e);
}

// ---- around the model

static bool encode_piece(void *ctx, struct text piece, struct error *e)
{
    struct encoding *c = ctx;
    switch (c->t->kind) {
    case KIND_BYTES: return encode_bytes(c, piece, e);
    case KIND_CHARACTERS: return encode_characters(c, piece, e);
    case KIND_UNIGRAM: break;
    }
    return encode_unigram(c, piece, e);
}

static bool encode_around_added(struct encoding *c, int set, struct text text, struct error *e);

static bool encode_between(struct encoding *c, int set, struct text text, struct error *e)
{
    if (set == ADDED_NORMALIZED)
        return split_text(&c->t->split, c->matcher, text, text.data == c->start, encode_piece, c, e);
    bool at_start = text.data == c->start;
    if (!normalize_text(&c->t->normalizers, &text, c->buffer, e))
        return false;
    const char *outer = c->start;
    c->start = at_start ? text.data : NULL;
    bool ok = encode_around_added(c, ADDED_NORMALIZED, text, e);
    c->start = outer;
    return ok;
}

// Added tokens become their ids; what lies between them goes on.
static bool encode_around_added(struct encoding *c, int set, struct text text, struct error *e)
{
    static const struct added_set none;
    const struct added_set *added = set == ADDED_RAW && !c->control ? &none : &c->t->added[set];
    size_t taken = 0;
    for (struct added_match m = {0}; (m = added_find(added, text, m.next, taken)).end; taken = m.end) {
        if (m.begin > taken && !encode_between(c, set, (struct text){text.data + taken, m.begin - taken}, e))
            return false;
        if (!token_list_push(c->out, m.id, e))
            return false;
    }
    return taken == text.size || encode_between(c, set, (struct text){text.data + taken, text.size - taken}, e);
}

static bool append_list(struct token_list *out, const struct token_list *more, struct error *e)
{
    for (int32_t i = 0; i < more->n; i++)
        if (!token_list_push(out, more->id[i], e))
            return false;
    return true;
}

// Byte-level vocabularies can say any byte.
static bool encode_broken_bytes(struct encoding *c, struct text text, struct error *e)
{
    for (size_t at = 0; at < text.size;) {
        size_t n = utf8_valid_size(text.data + at, text.size - at);
        if (n && !encode_around_added(c, ADDED_RAW, (struct text){text.data + at, n}, e))
            return false;
        at += n;
        if (at < text.size && !push_byte(c->t, (unsigned char)text.data[at++], c->out, e))
            return false;
    }
    return true;
}

// The others see U+FFFD for each byte that is no character's.
static bool encode_mended(struct encoding *c, struct text text, struct error *e)
{
    struct text_buffer mended = {0};
    bool ok = true;
    for (size_t at = 0, n; ok && at < text.size; at += n + 1) {
        n = utf8_valid_size(text.data + at, text.size - at);
        ok = buffer_put(&mended, (struct text){text.data + at, n}, e) &&
             (at + n == text.size || buffer_put(&mended, (struct text){UTF8_REPLACEMENT, 3}, e));
    }
    c->start = mended.data;
    ok = ok && encode_around_added(c, ADDED_RAW, (struct text){mended.data, mended.size}, e);
    buffer_free(&mended);
    return ok;
}

static bool encode(struct encoding *c, struct text text, struct error *e)
{
    if (c->t->kind == KIND_BYTES)
        return encode_broken_bytes(c, text, e);
    if (utf8_valid_size(text.data, text.size) != text.size)
        return encode_mended(c, text, e);
    return !text.size || encode_around_added(c, ADDED_RAW, text, e);
}

bool tokenizer_encode_with(const struct tokenizer *t, struct text text, bool add_special, bool control,
                           struct token_list *out, struct error *e)
{
    struct encoding c = {.t = t, .out = out, .control = control, .start = text.data};
    if (text.size > INT32_MAX / 4)
        return error_set(e, ERROR_UNSUPPORTED, "a text of %zu bytes is too long to encode at once", text.size);
    if (!(c.matcher = matcher_new(e)))
        return false;
    c.cache = text.size < CACHED_TEXT ? NULL : piece_cache_new();
    bool ok = (!add_special || append_list(out, &t->prefix, e)) && encode(&c, text, e) &&
              (!add_special || append_list(out, &t->suffix, e));
    buffer_free(&c.buffer[0]);
    buffer_free(&c.buffer[1]);
    piece_cache_free(c.cache);
    matcher_free(c.matcher);
    return ok;
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool add_special, struct token_list *out,
                      struct error *e)
{
    return tokenizer_encode_with(t, (struct text){text, size}, add_special, !t->keep_control, out, e);
}
