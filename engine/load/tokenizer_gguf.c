// The vocabulary that a GGUF file carries under tokenizer.ggml.*. Files name their pre-tokenizer instead of stating its
// patterns, so those stand here: one row per name, from the tokenizer.json of the models that use it.
#include "engine/load/gguf.h"
#include "engine/load/tokenizer_sentencepiece.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_AND_REST(digits)                                                                                              \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(contractions, digits)                                                                                   \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contractions "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" contractions    \
    "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct pre_tokenizer {
    const char *names; // separated by spaces
    const char *pattern[4];
    const char *normalizer;
    bool ignore_merges, add_bos; // add_bos: unless the file says
} PRE[] = {
    {"gpt-2 phi-2 mpt olmo", {SPLIT_GPT2}, NULL, false, false},
    {"smollm starcoder refact codeshell", {SPLIT_DIGIT, SPLIT_GPT2}, NULL, false, false},
    {"qwen2 deepseek-r1-qwen", {WORDS_AND_REST("\\p{N}")}, "NFC", false, false},
    {"llama-bpe llama3 llama-v3", {WORDS_AND_REST("\\p{N}{1,3}")}, NULL, true, true},
    {"gpt-4o llama4", {CASED_WORDS(CONTRACTIONS "?", "\\p{N}{1,3}")}, NULL, true, false},
    {"tekken", {CASED_WORDS("", "\\p{N}")}, NULL, true, true},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
      "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     NULL,
     false,
     true},
    // What llama.cpp has always done for files that name none better; it is no model's own.
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", SPLIT_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, NULL, false, false},
};

static bool has_name(const char *names, struct text name)
{
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (n == name.size && !memcmp(names, name.data, n))
            return true;
    }
    return false;
}

bool tokenizer_gguf_pre(int i, char *name, size_t size)
{
    if (i < 0 || (size_t)i >= sizeof PRE / sizeof *PRE)
        return false;
    snprintf(name, size, "%.*s", (int)strcspn(PRE[i].names, " "), PRE[i].names);
    return true;
}

static const struct pre_tokenizer *find_pre(const struct gguf *g, struct error *e)
{
    struct text name = {0};
    char shown[96];
    if (!gguf_string(g, "tokenizer.ggml.pre", &name, e))
        return NULL;
    if (!name.data) {
        error_set(e, ERROR_UNSUPPORTED, "does not name its pre-tokenizer ('tokenizer.ggml.pre')");
        return NULL;
    }
    for (size_t i = 0; i < sizeof PRE / sizeof *PRE; i++)
        if (has_name(PRE[i].names, name))
            return &PRE[i];
    error_set(e, ERROR_UNSUPPORTED, "pre-tokenizer '%s' is not supported (gpt-2, smollm, qwen2, llama-bpe and others are)",
              text_print(name, shown));
    return NULL;
}

struct lists { // owned arrays of texts that point into the file
    struct text *token, *merge;
    int32_t *type, n_tokens, n_types, n_merges, n_scores;
    float *score;
};

static bool read_lists(const struct gguf *g, struct lists *l, struct error *e)
{
    if (!gguf_strings(g, "tokenizer.ggml.tokens", &l->token, &l->n_tokens, e) ||
        !gguf_strings(g, "tokenizer.ggml.merges", &l->merge, &l->n_merges, e) ||
        !gguf_i32s(g, "tokenizer.ggml.token_type", &l->type, &l->n_types, e) ||
        !gguf_f32s(g, "tokenizer.ggml.scores", &l->score, &l->n_scores, e))
        return false;
    if (!l->n_tokens || l->n_tokens > VOCAB_MAX_IDS)
        return error_set(e, ERROR_FILE, "'%s': has %d tokens, expected 1 to %d", g->where, l->n_tokens, VOCAB_MAX_IDS);
    if (l->type && l->n_types != l->n_tokens)
        return error_set(e, ERROR_FILE, "'%s': has %d tokens and %d token types", g->where, l->n_tokens, l->n_types);
    return true;
}

static void lists_free(struct lists *l)
{
    free(l->token);
    free(l->merge);
    free(l->type);
    free(l->score);
}

// ---- byte-level BPE

static bool put_tokens(struct tokenizer *t, const struct lists *l, struct error *e)
{
    for (int32_t i = 0; i < l->n_tokens; i++) {
        int32_t type = l->type ? l->type[i] : PIECE_NORMAL;
        bool special = type == PIECE_CONTROL || type == PIECE_UNKNOWN, added = special || type == PIECE_USER_DEFINED;
        struct added_token token = {.text = l->token[i], .id = i};
        if (!(added ? tokenizer_put_added(t, token, special, false, e) : tokenizer_put_token(t, i, l->token[i], e)))
            return false;
    }
    added_close(&t->added[0]);
    added_close(&t->added[1]);
    return true;
}

static bool put_merges(struct tokenizer *t, const struct lists *l, struct error *e)
{
    for (int32_t i = 0; i < l->n_merges; i++) {
        struct text m = l->merge[i];
        const char *space = memchr(m.data, ' ', m.size);
        size_t n = space ? (size_t)(space - m.data) : m.size;
        if (!space)
            return error_set(e, ERROR_FILE, "merge %d is not a pair of tokens", i);
        if (!tokenizer_put_merge(t, (struct text){m.data, n}, (struct text){space + 1, m.size - n - 1}, i, e))
            return false;
    }
    return true;
}

static bool put_pre(struct tokenizer *t, const struct pre_tokenizer *pre, struct error *e)
{
    t->ignore_merges = pre->ignore_merges;
    for (int i = 0; i < 4 && pre->pattern[i]; i++)
        if (!split_add(&t->split, pre->pattern[i], false, SPLIT_ISOLATED, false, e))
            return false;
    return !pre->normalizer || normalizer_add_named(&t->normalizers, pre->normalizer, e);
}

static bool read_id(const struct tokenizer *t, const struct gguf *g, const char *key, int32_t *id, struct error *e)
{
    if (!gguf_i32(g, key, id, e))
        return false;
    if (*id != -1 && (*id < 0 || *id >= t->vocab.n))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %d, outside 0..%d", g->where, key, *id, t->vocab.n - 1);
    return true;
}

static bool read_special(struct tokenizer *t, const struct gguf *g, bool add_bos, struct error *e)
{
    bool add_eos = false;
    struct text template = {0};
    if (!read_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, e) ||
        !read_id(t, g, "tokenizer.ggml.eos_token_id", &t->eos, e) ||
        !gguf_bool(g, "tokenizer.ggml.add_bos_token", &add_bos, e) ||
        !gguf_bool(g, "tokenizer.ggml.add_eos_token", &add_eos, e) ||
        !gguf_string(g, "tokenizer.chat_template", &template, e))
        return false;
    if ((add_bos && t->bos >= 0 && !token_list_push(&t->prefix, t->bos, e)) ||
        (add_eos && t->eos >= 0 && !token_list_push(&t->suffix, t->eos, e)))
        return false;
    return !template.data || chat_choose(t, template, e);
}

static bool fill_bytes(struct tokenizer *t, const struct gguf *g, const struct lists *l, struct error *e)
{
    const struct pre_tokenizer *pre = find_pre(g, e);
    return pre && tokenizer_size(t, l->n_tokens, l->n_merges, e) && put_pre(t, pre, e) && put_tokens(t, l, e) &&
           put_merges(t, l, e) && read_special(t, g, pre->add_bos, e);
}

// ---- SentencePiece: "llama" is its BPE, "t5" its unigram

static bool put_pieces(struct sentencepiece *m, const struct lists *l, struct error *e)
{
    m->piece = malloc(((size_t)l->n_tokens + 1) * sizeof *m->piece);
    if (!m->piece)
        return error_set(e, ERROR_MEMORY, "no memory for %d tokens", l->n_tokens);
    if (!l->score || l->n_scores != l->n_tokens)
        return error_set(e, ERROR_FILE, "has %d tokens and %d scores", l->n_tokens, l->n_scores);
    for (m->n = 0; m->n < l->n_tokens; m->n++) {
        int32_t type = l->type ? l->type[m->n] : PIECE_NORMAL;
        if (!isfinite(l->score[m->n]))
            return error_set(e, ERROR_FILE, "token %d has no score", m->n);
        m->piece[m->n] = (struct sentence_piece){l->token[m->n], l->score[m->n], type};
        m->byte_fallback |= type == PIECE_BYTE;
        if (type == PIECE_UNKNOWN)
            m->unknown = m->n;
    }
    return true;
}

static bool read_charsmap(const struct gguf *g, struct text *map, struct error *e)
{
    const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.precompiled_charsmap");
    if (!v)
        return true;
    if (v->type != GGUF_ARRAY || (v->item_type != GGUF_U8 && v->item_type != GGUF_I8))
        return error_set(e, ERROR_FILE, "'tokenizer.ggml.precompiled_charsmap' is no array of bytes");
    *map = (struct text){(const char *)v->at, (size_t)v->n};
    return true;
}

static bool fill_pieces(struct tokenizer *t, const struct gguf *g, const struct lists *l, bool unigram, struct error *e)
{
    struct sentencepiece m = {.unigram = unigram, .in_text = true, .prefix = true, .escape = true, .unknown = -1};
    bool ok = gguf_bool(g, "tokenizer.ggml.add_space_prefix", &m.prefix, e) && put_pieces(&m, l, e) &&
              (!unigram || (gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &m.squeeze, e) &&
                            read_charsmap(g, &m.charsmap, e))) &&
              tokenizer_fill_sentencepiece(t, &m, e) && read_special(t, g, !unigram, e);
    free(m.piece);
    return ok;
}

static bool fill_bpe_pieces(struct tokenizer *t, const struct gguf *g, const struct lists *l, struct error *e)
{
    return fill_pieces(t, g, l, false, e);
}

static bool fill_unigram(struct tokenizer *t, const struct gguf *g, const struct lists *l, struct error *e)
{
    return fill_pieces(t, g, l, true, e);
}

// ---- all of it

static const struct model {
    const char *name;
    bool (*fill)(struct tokenizer *t, const struct gguf *g, const struct lists *l, struct error *e);
} MODEL[] = {{"gpt2", fill_bytes}, {"llama", fill_bpe_pieces}, {"t5", fill_unigram}};

static const struct model *find_model(const struct gguf *g, struct error *e)
{
    struct text name = {0};
    char shown[96];
    if (!gguf_string(g, "tokenizer.ggml.model", &name, e))
        return NULL;
    if (!name.data) {
        error_set(e, ERROR_FILE, "'%s': has no tokenizer (no 'tokenizer.ggml.model')", g->where);
        return NULL;
    }
    for (size_t i = 0; i < sizeof MODEL / sizeof *MODEL; i++)
        if (name.size == strlen(MODEL[i].name) && !memcmp(name.data, MODEL[i].name, name.size))
            return &MODEL[i];
    bool words = name.size == 4 && !memcmp(name.data, "bert", 4);
    error_set(e, ERROR_UNSUPPORTED,
              "'%s': tokenizer model '%s'%s is not supported (byte-level BPE 'gpt2', SentencePiece 'llama' and 't5' are)",
              g->where, text_print(name, shown), words ? ", WordPiece," : "");
    return NULL;
}

static bool read_all(struct tokenizer *t, const struct gguf *g, struct error *e)
{
    struct lists l = {0};
    const struct model *model = find_model(g, e);
    bool ok = model && read_lists(g, &l, e) && (model->fill(t, g, &l, e) || error_prefix(e, "'%s'", g->where));
    lists_free(&l);
    return ok;
}

bool tokenizer_from_gguf(struct tokenizer **out, const void *data, size_t size, const char *where, struct error *e)
{
    struct gguf g;
    *out = NULL;
    if (!gguf_parse(&g, data, size, where, e))
        return false;
    struct tokenizer *t = tokenizer_new(e);
    bool ok = t && read_all(t, &g, e);
    gguf_close(&g);
    if (ok)
        *out = t;
    else
        tokenizer_close(t);
    return ok;
}
