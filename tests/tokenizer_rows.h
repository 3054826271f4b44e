// Tokenizers against rows that other people's libraries made of them.
#ifndef TESTS_TOKENIZER_ROWS_H
#define TESTS_TOKENIZER_ROWS_H

#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "engine/load/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline cJSON *load(const char *path)
{
    cJSON *json;
    struct error e = {0};
    if (!json_load(path, &json, &e))
        fail_msg("%s", e.message);
    return json;
}

static inline void assert_ids(const struct tokenizer *t, const char *text, bool special, const cJSON *expected)
{
    struct token_list ids = {0};
    struct error e = {0};
    const cJSON *id = expected->child;
    if (!tokenizer_encode(t, text, strlen(text), special, &ids, &e))
        fail_msg("'%s': %s", text, e.message);
    for (int32_t i = 0; i < ids.n; i++, id = id ? id->next : NULL)
        if (!id || id->valueint != ids.id[i])
            fail_msg("'%s': id %d is %d, expected %d", text, i, ids.id[i], id ? id->valueint : -1);
    if (id)
        fail_msg("'%s': %d ids, expected %d", text, ids.n, cJSON_GetArraySize(expected));
    token_list_free(&ids);
}

// What the stream shows of ids[n], all together; each piece of it must be whole characters.
static inline char *streamed(const struct tokenizer *t, const int32_t *id, int32_t n)
{
    struct token_stream stream = {.tokenizer = t};
    char *all = NULL, *piece = malloc(token_stream_capacity(t) + 1);
    size_t size;
    FILE *f = open_memstream(&all, &size);
    for (int32_t i = 0; i <= n; i++) {
        size_t got = token_stream_next(&stream, i < n ? id[i] : -1, piece, token_stream_capacity(t));
        assert_int_equal(utf8_valid_size(piece, got), got);
        fwrite(piece, 1, got, f);
    }
    fclose(f);
    free(piece);
    return all;
}

// With U+FFFD for what is no UTF-8, as the references decode.
static inline char *mended(const char *text, size_t size)
{
    char *all = NULL;
    size_t n;
    enum utf8_state state;
    FILE *f = open_memstream(&all, &n);
    for (size_t at = 0, step; at < size; at += step) {
        step = utf8_next(text + at, size - at, &state);
        fwrite(state == UTF8_WHOLE ? text + at : UTF8_REPLACEMENT, 1, state == UTF8_WHOLE ? step : 3, f);
    }
    fclose(f);
    return all;
}

static inline void assert_decoded(const struct tokenizer *t, const cJSON *ids, bool skip_special, const char *expected)
{
    int32_t n = 0, *id = malloc(((size_t)cJSON_GetArraySize(ids) + 1) * sizeof *id);
    const cJSON *item;
    char *text;
    size_t size;
    cJSON_ArrayForEach(item, ids)
    {
        id[n++] = item->valueint;
    }
    assert_true(tokenizer_decode(t, id, n, skip_special, &text, &size, NULL));
    char *whole = mended(text, size);
    assert_string_equal(whole, expected);
    free(whole);
    free(text);
    text = streamed(t, id, n);
    if (skip_special)
        assert_string_equal(text, expected);
    free(text);
    free(id);
}

// A row of a reference: the ids of a text, and what they are as text again.
static inline void assert_row(const struct tokenizer *t, const char *text, const cJSON *row)
{
    assert_ids(t, text, false, json_member(row, "ids"));
    assert_decoded(t, json_member(row, "ids"), false, json_member(row, "decoded")->valuestring);
    if (json_member(row, "ids_special"))
        assert_ids(t, text, true, json_member(row, "ids_special"));
    if (json_member(row, "shown"))
        assert_decoded(t, json_member(row, "ids_special"), true, json_member(row, "shown")->valuestring);
}

// A tokenizer that a damaged file made, or what it was refused with: neither may do harm. Closes it.
static inline void survive(struct tokenizer *t, const struct error *refused, const char *text, size_t size)
{
    struct token_list ids = {0};
    struct error e = {0};
    if (!t) {
        assert_true(refused->kind != ERROR_NONE && refused->message[0] && !strchr(refused->message, '\n'));
        return;
    }
    tokenizer_encode(t, text, size, true, &ids, &e);
    token_list_free(&ids);
    tokenizer_close(t);
}

#endif
