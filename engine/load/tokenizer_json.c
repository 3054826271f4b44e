// tokenizer.json as Hugging Face's tokenizers library writes it.
#include "engine/base/json.h"
#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct tokenizer *t;
    bool byte_level; // the ByteLevel pre-tokenizer has been seen
};

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static bool unsupported(const char *what, const char *type, const char *supported, struct error *e)
{
    return error_set(e, ERROR_UNSUPPORTED, "%s '%.60s' is not supported (%s)", what, type, supported);
}

// A part's "type"; fails if the part is no object or has none.
static bool type_of(const cJSON *part, const char *what, const char **type, struct error *e)
{
    *type = NULL;
    if (!cJSON_IsObject(part))
        return error_set(e, ERROR_FILE, "%s is not an object", what);
    if (!json_string(part, what, "type", type, e))
        return false;
    return *type || error_set(e, ERROR_FILE, "%s has no 'type'", what);
}

// Calls `add` for the members of a Sequence.
static bool for_each(struct reader *r, const cJSON *part, const char *key,
                     bool (*add)(struct reader *, const cJSON *, struct error *), struct error *e)
{
    const cJSON *list = json_member(part, key), *item;
    if (!cJSON_IsArray(list))
        return error_set(e, ERROR_FILE, "'%s' is not an array", key);
    cJSON_ArrayForEach(item, list)
    {
        if (!add(r, item, e))
            return false;
    }
    return true;
}

// ---- vocabulary

static bool check_model(const cJSON *model, struct error *e)
{
    const char *type = "BPE", *prefix = "", *suffix = "";
    bool fallback = false;
    double dropout = 0;
    if (!json_string(model, "model", "type", &type, e) || !json_bool(model, "model", "byte_fallback", &fallback, e) ||
        !json_string(model, "model", "continuing_subword_prefix", &prefix, e) ||
        !json_string(model, "model", "end_of_word_suffix", &suffix, e) ||
        !json_f64(model, "model", "dropout", 0, 1, &dropout, e))
        return false;
    if (strcmp(type, "BPE"))
        return unsupported("tokenizer model", type, "byte-level BPE is", e);
    if (fallback)
        return unsupported("tokenizer model", "BPE with byte_fallback", "byte-level BPE is, SentencePiece's is not", e);
    if (*prefix || *suffix)
        return unsupported("tokenizer model", "BPE with subword prefix or suffix", "byte-level BPE is", e);
    return dropout == 0 || unsupported("tokenizer model", "BPE with dropout", "it would be random", e);
}

static bool read_id(const cJSON *number, const char *token, int32_t *id, struct error *e)
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
    *n = 0;
    for (const cJSON *m = vocab->child; m; m = m->next) {
        if (!read_id(m, m->string, &id, e))
            return false;
        *n = id >= *n ? id + 1 : *n;
    }
    for (const cJSON *m = added ? added->child : NULL; m; m = m->next) {
        if (!read_id(json_member(m, "id"), "added_tokens", &id, e))
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

static bool read_model(struct tokenizer *t, const cJSON *root, struct error *e)
{
    const cJSON *model = json_member(root, "model"), *vocab = json_member(model, "vocab");
    const cJSON *merges = json_member(model, "merges"), *added = json_member(root, "added_tokens");
    const char *unknown = NULL;
    int32_t n_ids = 0, n_merges = cJSON_GetArraySize(merges);
    if (!cJSON_IsObject(model))
        return error_set(e, ERROR_FILE, "has no 'model', expected a tokenizer.json");
    if (!check_model(model, e))
        return false;
    if (!cJSON_IsObject(vocab) || !cJSON_IsArray(merges))
        return error_set(e, ERROR_FILE, "the model has no 'vocab' object or no 'merges' array");
    if (!count_ids(vocab, added, &n_ids, e) || !tokenizer_size(t, n_ids, n_merges, e))
        return false;
    for (const cJSON *m = vocab->child; m; m = m->next)
        if (!tokenizer_put_token(t, (int32_t)m->valuedouble, text_of(m->string), e))
            return false;
    if (!json_string(model, "model", "unk_token", &unknown, e) ||
        !json_bool(model, "model", "ignore_merges", &t->ignore_merges, e))
        return false;
    t->unknown = unknown ? tokenizer_token_id(t, unknown) : -1;
    return read_merges(t, merges, e);
}

static bool read_added_token(struct reader *r, const cJSON *m, struct error *e)
{
    const char *where = "added_tokens", *content = NULL;
    struct added_token token = {.id = -1};
    bool special = false, normalized = false;
    if (!read_id(json_member(m, "id"), where, &token.id, e) || !json_string(m, where, "content", &content, e) ||
        !json_bool(m, where, "lstrip", &token.strip_left, e) || !json_bool(m, where, "rstrip", &token.strip_right, e) ||
        !json_bool(m, where, "single_word", &token.single_word, e) || !json_bool(m, where, "special", &special, e) ||
        !json_bool(m, where, "normalized", &normalized, e))
        return false;
    if (!content)
        return error_set(e, ERROR_FILE, "added token %d has no 'content'", token.id);
    token.text = text_of(content);
    return tokenizer_put_added(r->t, token, special, normalized, e);
}

// ---- normalizer and pre-tokenizer

static bool add_normalizer(struct reader *r, const cJSON *part, struct error *e)
{
    const char *type;
    if (!type_of(part, "normalizer", &type, e))
        return false;
    if (!strcmp(type, "Sequence"))
        return for_each(r, part, "normalizers", add_normalizer, e);
    return tokenizer_add_normalizer(r->t, type, e);
}

static bool add_byte_level(struct reader *r, const cJSON *part, struct error *e)
{
    bool use_regex = true, prefix_space = true;
    if (!json_bool(part, "ByteLevel", "use_regex", &use_regex, e) ||
        !json_bool(part, "ByteLevel", "add_prefix_space", &prefix_space, e))
        return false;
    if (prefix_space && r->t->split.n_steps)
        return unsupported("pre-tokenizer", "ByteLevel with add_prefix_space", "only as the first one", e);
    r->byte_level = true;
    r->t->prefix_space = prefix_space;
    return !use_regex || split_add(&r->t->split, SPLIT_GPT2, false, SPLIT_ISOLATED, false, e);
}

static bool read_behaviour(const char *name, enum split_behaviour *out, struct error *e)
{
    static const char *const NAME[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    for (int i = 0; i < 5; i++)
        if (name && !strcmp(name, NAME[i])) {
            *out = (enum split_behaviour)i;
            return true;
        }
    return error_set(e, ERROR_FILE, "Split has the behavior '%.60s', expected such as 'Isolated'", name ? name : "");
}

static bool add_split(struct reader *r, const cJSON *part, struct error *e)
{
    const cJSON *pattern = json_member(part, "pattern");
    const char *regex = NULL, *literal = NULL, *behaviour = NULL;
    enum split_behaviour how = SPLIT_ISOLATED;
    bool invert = false;
    if (!json_string(pattern, "pattern", "Regex", &regex, e) || !json_string(pattern, "pattern", "String", &literal, e) ||
        !json_string(part, "Split", "behavior", &behaviour, e) || !json_bool(part, "Split", "invert", &invert, e) ||
        !read_behaviour(behaviour, &how, e))
        return false;
    if (!regex && !literal)
        return error_set(e, ERROR_FILE, "Split has no 'pattern' with a 'Regex' or a 'String'");
    return split_add(&r->t->split, regex ? regex : literal, !regex, how, invert, e);
}

static bool add_digits(struct reader *r, const cJSON *part, struct error *e)
{
    bool individual = false;
    return json_bool(part, "Digits", "individual_digits", &individual, e) &&
           split_add(&r->t->split, SPLIT_DIGIT, false, individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, e);
}

static bool add_pre_tokenizer(struct reader *r, const cJSON *part, struct error *e);

static bool add_pre_sequence(struct reader *r, const cJSON *part, struct error *e)
{
    return for_each(r, part, "pretokenizers", add_pre_tokenizer, e);
}

static bool add_pre_tokenizer(struct reader *r, const cJSON *part, struct error *e)
{
    static const struct {
        const char *type;
        bool (*add)(struct reader *, const cJSON *, struct error *);
    } ROW[] = {
        {"ByteLevel", add_byte_level},
        {"Split", add_split},
        {"Digits", add_digits},
        {"Sequence", add_pre_sequence},
    };
    const char *type;
    if (!type_of(part, "pre-tokenizer", &type, e))
        return false;
    if (r->byte_level)
        return unsupported("pre-tokenizer", type, "not after ByteLevel", e);
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++)
        if (!strcmp(type, ROW[i].type))
            return ROW[i].add(r, part, e);
    return unsupported("pre-tokenizer", type, "ByteLevel, Split, Digits, Sequence are", e);
}

// ---- post-processor: what stands before and after the text

static bool push_ids(const struct tokenizer *t, struct token_list *list, const cJSON *special, struct error *e)
{
    const cJSON *ids = json_member(special, "ids"), *item;
    if (!cJSON_IsArray(ids))
        return error_set(e, ERROR_FILE, "TemplateProcessing names a special token without 'ids'");
    cJSON_ArrayForEach(item, ids)
    {
        int32_t id = 0;
        if (!read_id(item, "TemplateProcessing", &id, e) || !token_list_push(list, id, e))
            return false;
        if (!vocab_text(&t->vocab, id).data)
            return error_set(e, ERROR_FILE, "TemplateProcessing has id %d, which no token has", id);
    }
    return true;
}

// "single" is a list such as [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}].
static bool add_template(struct reader *r, const cJSON *part, struct error *e)
{
    const cJSON *single = json_member(part, "single"), *tokens = json_member(part, "special_tokens"), *item;
    struct token_list *list = &r->t->prefix;
    if (!cJSON_IsArray(single))
        return error_set(e, ERROR_FILE, "TemplateProcessing has no 'single' array");
    if (r->t->prefix.n || r->t->suffix.n)
        return unsupported("post-processor", "TemplateProcessing", "only once", e);
    cJSON_ArrayForEach(item, single)
    {
        const cJSON *special = json_member(item, "SpecialToken");
        const char *id = NULL;
        if (!special) {
            list = &r->t->suffix;
            continue;
        }
        if (!json_string(special, "SpecialToken", "id", &id, e) ||
            !push_ids(r->t, list, json_member(tokens, id ? id : ""), e))
            return false;
    }
    return true;
}

static bool add_post_processor(struct reader *r, const cJSON *part, struct error *e)
{
    const char *type;
    if (!type_of(part, "post-processor", &type, e))
        return false;
    if (!strcmp(type, "Sequence"))
        return for_each(r, part, "processors", add_post_processor, e);
    if (!strcmp(type, "TemplateProcessing"))
        return add_template(r, part, e);
    return !strcmp(type, "ByteLevel") || // concerns offsets only
           unsupported("post-processor", type, "ByteLevel, TemplateProcessing, Sequence are", e);
}

static bool check_decoder(struct reader *r, const cJSON *part, struct error *e)
{
    const char *type;
    (void)r;
    return type_of(part, "decoder", &type, e) &&
           (!strcmp(type, "ByteLevel") || unsupported("decoder", type, "ByteLevel is", e));
}

// ---- all of it

static bool read_optional(struct reader *r, const cJSON *root, const char *key,
                          bool (*add)(struct reader *, const cJSON *, struct error *), struct error *e)
{
    const cJSON *part = json_member(root, key);
    return !part || add(r, part, e);
}

static bool read_all(struct tokenizer *t, const cJSON *root, struct error *e)
{
    struct reader r = {t, false};
    if (!read_model(t, root, e) || !read_optional(&r, root, "normalizer", add_normalizer, e) ||
        (json_member(root, "added_tokens") && !for_each(&r, root, "added_tokens", read_added_token, e)))
        return false;
    added_close(&t->added[0]);
    added_close(&t->added[1]);
    if (!read_optional(&r, root, "pre_tokenizer", add_pre_tokenizer, e) ||
        !read_optional(&r, root, "post_processor", add_post_processor, e) ||
        !read_optional(&r, root, "decoder", check_decoder, e))
        return false;
    if (!r.byte_level)
        return unsupported("tokenizer model", "BPE without the ByteLevel pre-tokenizer", "byte-level BPE is", e);
    t->bos = t->prefix.n ? t->prefix.id[0] : -1;
    return true;
}

bool tokenizer_from_json(struct tokenizer **out, struct text json, const char *where, struct error *e)
{
    cJSON *root;
    *out = NULL;
    if (!json_parse(json.data, json.size, where, &root, e))
        return false;
    struct tokenizer *t = tokenizer_new(e);
    bool ok = t && (read_all(t, root, e) || error_prefix(e, "'%s'", where));
    cJSON_Delete(root);
    if (ok)
        *out = t;
    else
        tokenizer_close(t);
    return ok;
}
