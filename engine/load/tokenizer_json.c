// tokenizer.json as Hugging Face's tokenizers library writes it: the vocabulary and the whole.
#include "engine/load/tokenizer_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- vocabulary

static bool check_bpe(const cJSON *model, struct error *e)
{
    const char *prefix = "", *suffix = "";
    double dropout = 0;
    if (!json_string(model, "model", "continuing_subword_prefix", &prefix, e) ||
        !json_string(model, "model", "end_of_word_suffix", &suffix, e) ||
        !json_f64(model, "model", "dropout", 0, 1, &dropout, e))
        return false;
    if (*prefix || *suffix)
        return json_unsupported("tokenizer model", "BPE with subword prefix or suffix", "BPE without is", e);
    return dropout == 0 || json_unsupported("tokenizer model", "BPE with dropout", "it would be random", e);
}

// What pieces consist of shows in the pre-tokenizer.
static bool read_kind(struct json_reader *r, const cJSON *model, const cJSON *root, struct error *e)
{
    const char *type = "BPE";
    bool byte_level = json_has_type(json_member(root, "pre_tokenizer"), "pretokenizers", "ByteLevel");
    if (!json_string(model, "model", "type", &type, e) ||
        !json_bool(model, "model", "byte_fallback", &r->t->byte_fallback, e))
        return false;
    if (!strcmp(type, "BPE")) {
        r->t->kind = byte_level ? KIND_BYTES : KIND_CHARACTERS;
        return check_bpe(model, e);
    }
    if (strcmp(type, "Unigram"))
        return json_unsupported("tokenizer model", type, "BPE, Unigram are", e);
    r->t->kind = KIND_UNIGRAM;
    return !byte_level ||
           json_unsupported("tokenizer model", "Unigram with the ByteLevel pre-tokenizer", "BPE with it is", e);
}

bool json_read_id(const cJSON *number, const char *token, int32_t *id, struct error *e)
{
    double v = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(v >= 0 && v < VOCAB_MAX_IDS) || v != (int32_t)v)
        return error_set(e, ERROR_FILE, "the id of token '%.60s' is not a number of 0..%d", token, VOCAB_MAX_IDS - 1);
    *id = (int32_t)v;
    return true;
}

static bool count_ids(const cJSON *vocab, const cJSON *added, int32_t *n, struct error *e)
{
    int32_t id = 0;
    *n = cJSON_IsArray(vocab) ? cJSON_GetArraySize(vocab) : 0;
    if (*n > VOCAB_MAX_IDS)
        return error_set(e, ERROR_FILE, "the vocabulary has %d tokens, expected %d at most", *n, VOCAB_MAX_IDS);
    for (const cJSON *m = cJSON_IsObject(vocab) ? vocab->child : NULL; m; m = m->next) {
        if (!json_read_id(m, m->string, &id, e))
            return false;
        *n = id >= *n ? id + 1 : *n;
    }
    for (const cJSON *m = added ? added->child : NULL; m; m = m->next) {
        if (!json_read_id(json_member(m, "id"), "added_tokens", &id, e))
            return false;
        *n = id >= *n ? id + 1 : *n;
    }
    return *n > 0 || error_set(e, ERROR_FILE, "the vocabulary is empty");
}

// A merge is "left right" or ["left", "right"].
static bool read_merge(const cJSON *m, int32_t rank, struct text *left, struct text *right, struct error *e)
{
    const cJSON *second = cJSON_IsArray(m) && m->child ? m->child->next : NULL;
    const char *space = cJSON_IsString(m) ? strchr(m->valuestring, ' ') : NULL;
    if (space) {
        *left = (struct text){m->valuestring, (size_t)(space - m->valuestring)};
        *right = text_of(space + 1);
        return true;
    }
    if (!second || second->next || !cJSON_IsString(m->child) || !cJSON_IsString(second))
        return error_set(e, ERROR_FILE, "merge %d is not a pair of tokens", rank);
    *left = text_of(m->child->valuestring), *right = text_of(second->valuestring);
    return true;
}

static bool read_merges(struct tokenizer *t, const cJSON *merges, struct error *e)
{
    int32_t rank = 0;
    for (const cJSON *m = merges->child; m; m = m->next, rank++) {
        struct text left, right;
        if (!read_merge(m, rank, &left, &right, e) || !tokenizer_put_merge(t, left, right, rank, e))
            return false;
    }
    return true;
}

static bool read_bpe(struct tokenizer *t, const cJSON *model, const cJSON *added, struct error *e)
{
    const cJSON *vocab = json_member(model, "vocab"), *merges = json_member(model, "merges");
    const char *unknown = NULL;
    int32_t n_ids = 0;
    if (!cJSON_IsObject(vocab) || !cJSON_IsArray(merges))
        return error_set(e, ERROR_FILE, "the model has no 'vocab' object or no 'merges' array");
    if (!count_ids(vocab, added, &n_ids, e) || !tokenizer_size(t, n_ids, cJSON_GetArraySize(merges), e))
        return false;
    for (const cJSON *m = vocab->child; m; m = m->next)
        if (!tokenizer_put_token(t, (int32_t)m->valuedouble, text_of(m->string), e))
            return false;
    if (!json_string(model, "model", "unk_token", &unknown, e) ||
        !json_bool(model, "model", "fuse_unk", &t->fuse_unknown, e) ||
        !json_bool(model, "model", "ignore_merges", &t->ignore_merges, e))
        return false;
    t->unknown = unknown ? tokenizer_token_id(t, unknown) : -1;
    return read_merges(t, merges, e);
}

// The number as Hugging Face's reader (serde_json) gets it: its shortest decimal digits, as an integer, over a power of ten,
// rounded twice. A last bit decides between segmentations of equal probability, and their choice is the reference.
static double as_reference_reads(double v)
{
    char text[40], digits[40];
    int precision = 14;
    do
        snprintf(text, sizeof text, "%.*e", precision, v);
    while (strtod(text, NULL) != v && ++precision <= 16);
    char *exponent = strchr(text, 'e');
    const char *first = text + (*text == '-');
    if (!exponent)
        return v;
    snprintf(digits, sizeof digits, "%c%.*s", *first, (int)(exponent - first) - 2, first + 2);
    int power = (int)strtol(exponent + 1, NULL, 10) - precision;
    double magnitude = (double)strtoull(digits, NULL, 10), ten = pow(10, abs(power));
    magnitude = power < 0 ? magnitude / ten : magnitude * ten;
    return v < 0 ? -magnitude : magnitude;
}

static bool read_scored_token(struct tokenizer *t, const cJSON *pair, int32_t id, double *lowest, struct error *e)
{
    const cJSON *text = cJSON_IsArray(pair) ? pair->child : NULL, *score = text ? text->next : NULL;
    if (!cJSON_IsString(text) || !cJSON_IsNumber(score) || !isfinite(score->valuedouble))
        return error_set(e, ERROR_FILE, "token %d is not a pair of text and score", id);
    double read = as_reference_reads(score->valuedouble);
    *lowest = read < *lowest ? read : *lowest;
    return tokenizer_put_token(t, id, text_of(text->valuestring), e) &&
           unigram_put(&t->unigram, text_of(text->valuestring), id, read, e);
}

static bool read_unigram(struct tokenizer *t, const cJSON *model, const cJSON *added, struct error *e)
{
    const cJSON *vocab = json_member(model, "vocab");
    double lowest = HUGE_VAL;
    int32_t n_ids = 0, id = 0;
    if (!cJSON_IsArray(vocab))
        return error_set(e, ERROR_FILE, "the model has no 'vocab' array");
    if (!count_ids(vocab, added, &n_ids, e) || !tokenizer_size(t, n_ids, 0, e) || !unigram_init(&t->unigram, n_ids, e))
        return false;
    for (const cJSON *m = vocab->child; m; m = m->next)
        if (!read_scored_token(t, m, id++, &lowest, e))
            return false;
    t->unigram.unknown = lowest - UNIGRAM_UNKNOWN_PENALTY;
    t->fuse_unknown = true;
    return json_i32(model, "model", "unk_id", 0, n_ids - 1, &t->unknown, e);
}

static bool read_model(struct json_reader *r, const cJSON *root, struct error *e)
{
    const cJSON *model = json_member(root, "model"), *added = json_member(root, "added_tokens");
    if (!cJSON_IsObject(model))
        return error_set(e, ERROR_FILE, "has no 'model', expected a tokenizer.json");
    if (!read_kind(r, model, root, e))
        return false;
    if (!(r->t->kind == KIND_UNIGRAM ? read_unigram(r->t, model, added, e) : read_bpe(r->t, model, added, e)))
        return false;
    if (r->t->kind != KIND_BYTES)
        vocab_find_bytes(&r->t->vocab);
    for (int byte = 0; byte < 256 && r->t->kind == KIND_BYTES && r->t->byte_fallback; byte++)
        if (r->t->vocab.byte_id[byte] < 0)
            return json_unsupported("tokenizer model", "byte-level BPE with byte_fallback", "only with all 256 bytes", e);
    return true;
}

static bool read_added_token(struct json_reader *r, const cJSON *m, struct error *e)
{
    const char *where = "added_tokens", *content = NULL;
    struct added_token token = {.id = -1};
    bool special = false, normalized = false;
    if (!json_read_id(json_member(m, "id"), where, &token.id, e) || !json_string(m, where, "content", &content, e) ||
        !json_bool(m, where, "lstrip", &token.strip_left, e) || !json_bool(m, where, "rstrip", &token.strip_right, e) ||
        !json_bool(m, where, "single_word", &token.single_word, e) || !json_bool(m, where, "special", &special, e) ||
        !json_bool(m, where, "normalized", &normalized, e))
        return false;
    if (!content)
        return error_set(e, ERROR_FILE, "added token %d has no 'content'", token.id);
    token.text = text_of(content);
    return tokenizer_put_added(r->t, token, special, normalized, e);
}

// ---- all of it

static bool read_optional(struct json_reader *r, const cJSON *root, const char *key, json_step add, struct error *e)
{
    const cJSON *part = json_member(root, key);
    return !part || add(r, part, e);
}

static bool read_all(struct json_reader *r, const cJSON *root, struct error *e)
{
    struct tokenizer *t = r->t;
    if (!read_model(r, root, e) || !read_optional(r, root, "normalizer", json_add_normalizer, e) ||
        (json_member(root, "added_tokens") && !json_for_each(r, root, "added_tokens", read_added_token, e)))
        return false;
    added_close(&t->added[0]);
    added_close(&t->added[1]);
    if (!read_optional(r, root, "pre_tokenizer", json_add_pre_tokenizer, e) ||
        !read_optional(r, root, "post_processor", json_add_post_processor, e) ||
        !read_optional(r, root, "decoder", json_add_decoder, e))
        return false;
    t->bos = t->prefix.n ? t->prefix.id[0] : -1;
    return t->kind == KIND_BYTES || tokenizer_show(t, &r->decoder, e);
}

bool tokenizer_from_json(struct tokenizer **out, struct text json, const char *where, struct error *e)
{
    cJSON *root;
    *out = NULL;
    if (!json_parse(json.data, json.size, where, &root, e))
        return false;
    struct tokenizer *t = tokenizer_new(e);
    struct json_reader r = {.t = t};
    bool ok = t && (read_all(&r, root, e) || error_prefix(e, "'%s'", where));
    normalizers_free(&r.decoder);
    cJSON_Delete(root);
    if (ok)
        *out = t;
    else
        tokenizer_close(t);
    return ok;
}
