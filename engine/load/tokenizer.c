// A tokenizer's life: what the readers of the several formats fill it with.
#include "engine/load/tokenizer.h"

#include "engine/base/utf8.h"
#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

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
    vocab_free(&t->shown);
    merges_free(&t->merges);
    unigram_free(&t->unigram);
    normalizers_free(&t->normalizers);
    split_free(&t->split);
    added_free(&t->added[0]);
    added_free(&t->added[1]);
    added_free(&t->user_defined);
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
    if (t->kind != KIND_BYTES)
        return vocab_set(&t->vocab, id, written, true, e);
    char *bytes = malloc(written.size + 1);
    if (!bytes)
        return error_set(e, ERROR_MEMORY, "no memory for a vocabulary");
    int32_t n = byte_level_decode(written, bytes);
    bool ok = n >= 0 ? vocab_set(&t->vocab, id, (struct text){bytes, (size_t)n}, true, e)
                     : vocab_set(&t->vocab, id, written, false, e); // no piece can be it
    free(bytes);
    return ok;
}

// A token as the file writes it, in the bytes that pieces are looked up by; -1: it has none.
static int32_t looked_up_by(const struct tokenizer *t, struct text written, char *out)
{
    if (t->kind == KIND_BYTES)
        return byte_level_decode(written, out);
    if (written.size)
        memcpy(out, written.data, written.size);
    return (int32_t)written.size;
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

static uint32_t code_point(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c = size == 1 ? *p : *p & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

// Where characters are the symbols, merges also say where a text can be cut.
static void put_joint(struct merges *m, struct text left, struct text right)
{
    enum utf8_state state;
    size_t begin = left.size;
    while (begin > 0 && ((unsigned char)left.data[--begin] & 0xc0) == 0x80)
        ;
    if (left.size && right.size)
        merges_put_joint(m, code_point(left.data + begin, left.size - begin),
                         code_point(right.data, utf8_next(right.data, right.size, &state)));
}

bool tokenizer_put_merge(struct tokenizer *t, struct text left, struct text right, int32_t rank, struct error *e)
{
    char *bytes = malloc(left.size + right.size + 1);
    if (!bytes)
        return error_set(e, ERROR_MEMORY, "no memory for merges");
    int32_t n_left = looked_up_by(t, left, bytes);
    int32_t n_right = n_left < 0 ? -1 : looked_up_by(t, right, bytes + n_left);
    struct merge merge = find_merge(&t->vocab, bytes, n_left, n_right);
    free(bytes);
    merge.rank = rank;
    if (merge.left < 0 || merge.right < 0 || merge.id < 0)
        return error_set(e, ERROR_FILE, "merge %d has a token that is not in the vocabulary", rank);
    if (t->kind != KIND_BYTES)
        put_joint(&t->merges, left, right);
    return merges_put(&t->merges, merge, e);
}

// ---- merges that scores imply

static int compare_scored(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

// All ways to make a token of two others.
static bool put_splits(struct tokenizer *t, int32_t id, int32_t rank, struct error *e)
{
    enum utf8_state state;
    struct text all = vocab_text(&t->vocab, id);
    for (size_t at = utf8_next(all.data, all.size, &state); at < all.size;) {
        struct text left = {all.data, at}, right = {all.data + at, all.size - at};
        struct merge merge = {vocab_find(&t->vocab, left), vocab_find(&t->vocab, right), rank, id};
        if (merge.left >= 0 && merge.right >= 0) {
            put_joint(&t->merges, left, right);
            if (!merges_put(&t->merges, merge, e))
                return false;
        }
        at += utf8_next(right.data, right.size, &state);
    }
    return true;
}

bool tokenizer_put_scored_merges(struct tokenizer *t, struct scored *token, int32_t n, struct error *e)
{
    int32_t rank = 0;
    if (n)
        qsort(token, (size_t)n, sizeof *token, compare_scored);
    for (int32_t i = 0; i < n; i++) {
        rank += i && token[i].score != token[i - 1].score; // the leftmost goes first among equals
        if (vocab_text(&t->vocab, token[i].id).size && !put_splits(t, token[i].id, rank, e))
            return false;
    }
    return true;
}

// ---- added tokens

static bool put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e)
{
    t->special[token.id] = special;
    if (!vocab_text(&t->vocab, token.id).data && !vocab_set(&t->vocab, token.id, token.text, false, e))
        return false;
    return added_put(&t->added[normalized], token, e);
}

bool tokenizer_put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e)
{
    struct text_buffer buffer[2] = {0};
    if (token.id < 0 || token.id >= t->vocab.n)
        return error_set(e, ERROR_FILE, "added token id %d is outside 0..%d", token.id, t->vocab.n - 1);
    if (utf8_valid_size(token.text.data, token.text.size) != token.text.size)
        return error_set(e, ERROR_FILE, "added token %d is not valid UTF-8", token.id);
    // What is looked for in normalized text must be normalized itself.
    bool ok = (!normalized || normalize_text(&t->normalizers, &token.text, buffer, e)) &&
              put_added(t, token, special, normalized, e);
    buffer_free(&buffer[0]);
    buffer_free(&buffer[1]);
    return ok;
}
