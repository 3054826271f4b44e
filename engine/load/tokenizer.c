#include "engine/load/tokenizer.h"

#include "engine/base/file.h"
#include "engine/base/utf8.h"
#include "engine/load/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { RAW, NORMALIZED }; // the two sets of added tokens

void token_list_free(struct token_list *l)
{
    free(l->id);
    *l = (struct token_list){0};
}

bool token_list_reserve(struct token_list *l, size_t n_more, struct error *e)
{
    size_t wanted = (size_t)l->n + n_more, capacity = 2 * (size_t)l->capacity + 16;
    if (wanted <= (size_t)l->capacity)
        return true;
    if (capacity < wanted)
        capacity = wanted;
    int32_t *grown = capacity <= INT32_MAX ? realloc(l->id, capacity * sizeof *grown) : NULL;
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for %zu tokens", capacity);
    l->id = grown, l->capacity = (int32_t)capacity;
    return true;
}

bool token_list_push(struct token_list *l, int32_t id, struct error *e)
{
    if (!token_list_reserve(l, 1, e))
        return false;
    l->id[l->n++] = id;
    return true;
}

struct tokenizer *tokenizer_new(struct error *e)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(e, ERROR_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    t->unknown = t->bos = t->eos = -1;
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_free(&t->vocab);
    merges_free(&t->merges);
    split_free(&t->split);
    added_free(&t->added[0]);
    added_free(&t->added[1]);
    token_list_free(&t->prefix);
    token_list_free(&t->suffix);
    free(t->special);
    free(t->chat_system);
    free(t);
}

// ---- filling

bool tokenizer_size(struct tokenizer *t, int32_t n_ids, int32_t n_merges, struct error *e)
{
    if (!vocab_init(&t->vocab, n_ids, e) || !merges_init(&t->merges, n_merges, e))
        return false;
    t->special = calloc((size_t)n_ids + 1, sizeof *t->special);
    return t->special || error_set(e, ERROR_MEMORY, "no memory for a vocabulary of %d tokens", n_ids);
}

bool tokenizer_put_token(struct tokenizer *t, int32_t id, struct text written, struct error *e)
{
    char *bytes = malloc(written.size + 1);
    if (!bytes)
        return error_set(e, ERROR_MEMORY, "no memory for a vocabulary");
    int32_t n = byte_level_decode(written, bytes);
    bool ok = n >= 0 ? vocab_set(&t->vocab, id, (struct text){bytes, (size_t)n}, true, e)
                     : vocab_set(&t->vocab, id, written, false, e); // no piece can be it
    free(bytes);
    return ok;
}

// The ids of two neighbours in bytes[n_left + n_right] and of what they become.
static struct merge find_merge(const struct vocab *v, const char *bytes, int32_t n_left, int32_t n_right)
{
    struct merge none = {-1, -1, -1, -1};
    if (n_left < 0 || n_right < 0)
        return none;
    size_t nl = (size_t)n_left, nr = (size_t)n_right;
    return (struct merge){vocab_find(v, (struct text){bytes, nl}), vocab_find(v, (struct text){bytes + nl, nr}), 0,
                          vocab_find(v, (struct text){bytes, nl + nr})};
}

bool tokenizer_put_merge(struct tokenizer *t, struct text left, struct text right, int32_t rank, struct error *e)
{
    char *bytes = malloc(left.size + right.size + 1);
    if (!bytes)
        return error_set(e, ERROR_MEMORY, "no memory for merges");
    int32_t n_left = byte_level_decode(left, bytes);
    int32_t n_right = n_left < 0 ? -1 : byte_level_decode(right, bytes + n_left);
    struct merge merge = find_merge(&t->vocab, bytes, n_left, n_right);
    free(bytes);
    merge.rank = rank;
    if (merge.left < 0 || merge.right < 0 || merge.id < 0)
        return error_set(e, ERROR_FILE, "merge %d has a token that is not in the vocabulary", rank);
    merges_put(&t->merges, merge);
    return true;
}

// ---- normalizing

static const struct normalizer {
    const char *name;
    utf8proc_option_t options;
    unsigned char first; // texts whose bytes are all below are normalized already
} NORMALIZER[] = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE, 0xcc},                    // U+0300
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, 0xc3},                  // U+00C0
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, 0xc2}, // U+00A0
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 0xc2},
};

bool tokenizer_add_normalizer(struct tokenizer *t, const char *name, struct error *e)
{
    size_t i = 0, n = sizeof NORMALIZER / sizeof *NORMALIZER;
    while (i < n && strcmp(NORMALIZER[i].name, name))
        i++;
    if (i == n)
        return error_set(e, ERROR_UNSUPPORTED, "normalizer '%.60s' is not supported (NFC, NFD, NFKC, NFKD are)", name);
    if (t->n_normalizers == NORMALIZER_MAX)
        return error_set(e, ERROR_UNSUPPORTED, "more than %d normalizers in sequence", NORMALIZER_MAX);
    t->normalizer[t->n_normalizers++] = &NORMALIZER[i];
    return true;
}

static bool is_normal(const struct normalizer *n, struct text text)
{
    unsigned char highest = 0;
    for (size_t i = 0; i < text.size; i++)
        highest = (unsigned char)text.data[i] > highest ? (unsigned char)text.data[i] : highest;
    return highest < n->first;
}

// *text becomes the normalized text; *owned the buffer it lies in, to be freed, or stays NULL.
static bool normalize(const struct tokenizer *t, struct text *text, char **owned, struct error *e)
{
    for (int32_t i = 0; i < t->n_normalizers; i++) {
        uint8_t *out = NULL;
        if (is_normal(t->normalizer[i], *text))
            continue;
        utf8proc_ssize_t n =
            utf8proc_map((const uint8_t *)text->data, (utf8proc_ssize_t)text->size, &out, t->normalizer[i]->options);
        if (n < 0)
            return error_set(e, ERROR_MEMORY, "text could not be normalized: %s", utf8proc_errmsg(n));
        free(*owned);
        *owned = (char *)out;
        *text = (struct text){*owned, (size_t)n};
    }
    return true;
}

static bool put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e)
{
    t->special[token.id] = special;
    if (!vocab_text(&t->vocab, token.id).data && !vocab_set(&t->vocab, token.id, token.text, false, e))
        return false;
    return added_put(&t->added[normalized], token, e);
}

bool tokenizer_put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e)
{
    char *owned = NULL;
    if (token.id < 0 || token.id >= t->vocab.n)
        return error_set(e, ERROR_FILE, "added token id %d is outside 0..%d", token.id, t->vocab.n - 1);
    if (utf8_valid_size(token.text.data, token.text.size) != token.text.size)
        return error_set(e, ERROR_FILE, "added token %d is not valid UTF-8", token.id);
    // What is looked for in normalized text must be normalized itself.
    bool ok = (!normalized || normalize(t, &token.text, &owned, e)) && put_added(t, token, special, normalized, e);
    free(owned);
    return ok;
}

// ---- encoding

struct encoding {
    const struct tokenizer *t;
    struct token_list *out;
};

static bool push_byte(const struct tokenizer *t, unsigned char byte, struct token_list *out, struct error *e)
{
    int32_t id = t->vocab.byte_id[byte] >= 0 ? t->vocab.byte_id[byte] : t->unknown;
    return id < 0 || token_list_push(out, id, e);
}

static bool encode_piece(void *ctx, struct text piece, struct error *e)
{
    struct encoding *c = ctx;
    struct token_list *out = c->out;
    int32_t whole = c->t->ignore_merges ? vocab_find(&c->t->vocab, piece) : -1;
    if (whole >= 0)
        return token_list_push(out, whole, e);
    if (!token_list_reserve(out, piece.size, e))
        return false;
    int32_t first = out->n;
    for (size_t i = 0; i < piece.size; i++)
        if (!push_byte(c->t, (unsigned char)piece.data[i], out, e))
            return false;
    int32_t n = bpe_merge(&c->t->merges, out->id + first, out->n - first);
    if (n < 0)
        return error_set(e, ERROR_MEMORY, "no memory for a word of %zu bytes", piece.size);
    out->n = first + n;
    return true;
}

static bool encode_words(struct encoding *c, struct text text, struct error *e)
{
    if (!c->t->prefix_space || text.data[0] == ' ')
        return split_text(&c->t->split, text, encode_piece, c, e);
    char *spaced = malloc(text.size + 1);
    if (!spaced)
        return error_set(e, ERROR_MEMORY, "no memory to encode a text");
    spaced[0] = ' ';
    memcpy(spaced + 1, text.data, text.size);
    bool ok = split_text(&c->t->split, (struct text){spaced, text.size + 1}, encode_piece, c, e);
    free(spaced);
    return ok;
}

static bool encode_around_added(struct encoding *c, int set, struct text text, struct error *e);

static bool encode_normalized(struct encoding *c, struct text text, struct error *e)
{
    char *owned = NULL;
    bool ok = normalize(c->t, &text, &owned, e) && encode_around_added(c, NORMALIZED, text, e);
    free(owned);
    return ok;
}

static bool encode_between(struct encoding *c, int set, struct text text, struct error *e)
{
    return set == RAW ? encode_normalized(c, text, e) : encode_words(c, text, e);
}

// Added tokens become their ids; what lies between them goes on.
static bool encode_around_added(struct encoding *c, int set, struct text text, struct error *e)
{
    const struct added_set *added = &c->t->added[set];
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

bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool add_special, struct token_list *out,
                      struct error *e)
{
    struct encoding c = {t, out};
    if (size > INT32_MAX / 2)
        return error_set(e, ERROR_UNSUPPORTED, "a text of %zu bytes is too long to encode at once", size);
    if (add_special && !append_list(out, &t->prefix, e))
        return false;
    for (size_t at = 0; at < size;) {
        size_t n = utf8_valid_size(text + at, size - at);
        if (n && !encode_around_added(&c, RAW, (struct text){text + at, n}, e))
            return false;
        at += n;
        if (at < size && !push_byte(t, (unsigned char)text[at++], out, e))
            return false;
    }
    return !add_special || append_list(out, &t->suffix, e);
}

// ---- decoding

bool tokenizer_decode(const struct tokenizer *t, const int32_t *id, int32_t n, bool skip_special, char **text, size_t *size,
                      struct error *e)
{
    size_t total = 0;
    *text = NULL, *size = 0;
    for (int32_t i = 0; i < n; i++) {
        if (id[i] < 0 || id[i] >= t->vocab.n)
            return error_set(e, ERROR_USAGE, "token id %d is outside 0..%d", id[i], t->vocab.n - 1);
        total += vocab_text(&t->vocab, id[i]).size;
    }
    char *out = malloc(total + 1);
    if (!out)
        return error_set(e, ERROR_MEMORY, "no memory to decode %d tokens", n);
    for (int32_t i = 0; i < n; i++) {
        struct text bytes = vocab_text(&t->vocab, id[i]);
        if (!bytes.size || (skip_special && t->special[id[i]]))
            continue;
        memcpy(out + *size, bytes.data, bytes.size);
        *size += bytes.size;
    }
    out[*size] = 0;
    *text = out;
    return true;
}

int32_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return t->vocab.n;
}

int32_t tokenizer_token_id(const struct tokenizer *t, const char *token)
{
    struct text text = {token, strlen(token)};
    for (int set = RAW; set <= NORMALIZED; set++) {
        int32_t id = added_id(&t->added[set], text);
        if (id >= 0)
            return id;
    }
    char *bytes = malloc(text.size + 1);
    int32_t n = bytes ? byte_level_decode(text, bytes) : -1;
    int32_t id = n >= 0 ? vocab_find(&t->vocab, (struct text){bytes, (size_t)n}) : -1;
    free(bytes);
    return id;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

size_t token_stream_capacity(const struct tokenizer *t)
{
    return 3 * ((size_t)t->vocab.longest + 3); // U+FFFD for each byte
}

struct sink {
    char *out;
    size_t size, capacity;
};

static void sink_put(struct sink *k, const void *bytes, size_t n)
{
    if (k->size + n > k->capacity)
        return;
    memcpy(k->out + k->size, bytes, n);
    k->size += n;
}

// Puts what is decided of the pending bytes: whole characters, and U+FFFD for what can become none.
static void stream_decide(struct token_stream *s, struct sink *k, bool last)
{
    while (s->n_pending) {
        enum utf8_state state;
        size_t n = utf8_next((const char *)s->pending, (size_t)s->n_pending, &state);
        if (state == UTF8_CUT && !last)
            return;
        sink_put(k, state == UTF8_WHOLE ? (const char *)s->pending : UTF8_REPLACEMENT, state == UTF8_WHOLE ? n : 3);
        s->n_pending -= (int32_t)n;
        memmove(s->pending, s->pending + n, (size_t)s->n_pending);
    }
}

size_t token_stream_next(struct token_stream *s, int32_t id, char *out, size_t capacity)
{
    struct sink k = {out, 0, capacity};
    struct text bytes = vocab_text(&s->tokenizer->vocab, id);
    if (bytes.data && s->tokenizer->special[id])
        bytes.size = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        s->pending[s->n_pending++] = (unsigned char)bytes.data[i];
        stream_decide(s, &k, false);
    }
    if (id < 0)
        stream_decide(s, &k, true);
    out[k.size] = 0;
    return k.size;
}
