// From ids to text, all at once or as they come.
#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool tokenizer_show(struct tokenizer *t, const struct normalizers *decoder, struct error *e)
{
    struct text_buffer buffer[2] = {0};
    bool ok = vocab_init(&t->shown, t->vocab.n, e);
    for (int32_t id = 0; ok && id < t->vocab.n; id++) {
        struct text text = vocab_text(&t->vocab, id);
        ok = !text.data || (normalize(decoder, &text, buffer, e) && vocab_set(&t->shown, id, text, false, e));
    }
    buffer_free(&buffer[0]);
    buffer_free(&buffer[1]);
    return ok;
}

static const struct vocab *shown(const struct tokenizer *t)
{
    return t->shown.n ? &t->shown : &t->vocab;
}

// How far a text has come: what its first spaces need.
struct start {
    int32_t n_tokens, n_stripped;
    bool begun; // something has been shown
};

// What a token adds to a text.
static struct text next_text(const struct tokenizer *t, struct start *s, int32_t id)
{
    struct text text = vocab_text(shown(t), id);
    int32_t most = t->start == START_STRIPPED      ? t->n_strip - s->n_stripped
                   : t->start == START_EACH_TOKEN  ? 1
                   : t->start == START_FIRST_TOKEN ? (s->n_tokens ? 0 : INT32_MAX)
                                                   : 0;
    while (!s->begun && id != t->unknown && most-- > 0 && text.size && *text.data == ' ')
        text.data++, text.size--, s->n_stripped++;
    s->n_tokens++;
    s->begun |= text.size > 0;
    return text;
}

bool tokenizer_decode(const struct tokenizer *t, const int32_t *id, int32_t n, bool skip_special, char **text, size_t *size,
                      struct error *e)
{
    struct start start = {0};
    size_t total = 0;
    *text = NULL, *size = 0;
    for (int32_t i = 0; i < n; i++) {
        if (id[i] < 0 || id[i] >= t->vocab.n)
            return error_set(e, ERROR_USAGE, "token id %d is outside 0..%d", id[i], t->vocab.n - 1);
        total += vocab_text(shown(t), id[i]).size;
    }
    char *out = malloc(total + 1);
    if (!out)
        return error_set(e, ERROR_MEMORY, "no memory to decode %d tokens", n);
    for (int32_t i = 0; i < n; i++) {
        if (skip_special && t->special[id[i]])
            continue;
        struct text more = next_text(t, &start, id[i]);
        if (more.size)
            memcpy(out + *size, more.data, more.size);
        *size += more.size;
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
    for (int set = ADDED_RAW; set <= ADDED_NORMALIZED; set++) {
        int32_t id = added_id(&t->added[set], text);
        if (id >= 0)
            return id;
    }
    if (t->kind != KIND_BYTES)
        return vocab_find(&t->vocab, text);
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
    return 3 * ((size_t)shown(t)->longest + 3); // U+FFFD for each byte
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
    const struct tokenizer *t = s->tokenizer;
    struct sink k = {out, 0, capacity};
    struct start start = {s->n_tokens, s->n_stripped, s->begun};
    struct text bytes = {0};
    if (vocab_text(shown(t), id).data && !t->special[id])
        bytes = next_text(t, &start, id);
    s->n_tokens = start.n_tokens, s->n_stripped = start.n_stripped, s->begun = start.begun;
    for (size_t i = 0; i < bytes.size; i++) {
        s->pending[s->n_pending++] = (unsigned char)bytes.data[i];
        stream_decide(s, &k, false);
    }
    if (id < 0)
        stream_decide(s, &k, true);
    out[k.size] = 0;
    return k.size;
}
