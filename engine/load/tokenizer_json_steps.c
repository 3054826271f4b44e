// What tokenizer.json lists around the model: normalizer, pre-tokenizer, post-processor, decoder.
#include "engine/load/tokenizer_json.h"

#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

bool json_unsupported(const char *what, const char *type, const char *supported, struct error *e)
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

bool json_has_type(const cJSON *part, const char *key, const char *type)
{
    const cJSON *name = json_member(part, "type"), *item;
    if (cJSON_IsString(name) && !strcmp(name->valuestring, type))
        return true;
    cJSON_ArrayForEach(item, json_member(part, key))
    {
        if (json_has_type(item, key, type))
            return true;
    }
    return false;
}

bool json_for_each(struct json_reader *r, const cJSON *part, const char *key, json_step add, struct error *e)
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

// One row per type that a list of parts may have.
struct step_row {
    const char *type;
    json_step add;
};

static bool add_by_type(struct json_reader *r, const cJSON *part, const char *what, const struct step_row *row, int n,
                        const char *supported, struct error *e)
{
    const char *type;
    if (!type_of(part, what, &type, e))
        return false;
    for (int i = 0; i < n; i++)
        if (!strcmp(type, row[i].type))
            return row[i].add(r, part, e);
    return json_unsupported(what, type, supported, e);
}

// A pattern is {"Regex": ...} or {"String": ...}.
static bool read_pattern(const cJSON *part, const char *where, struct text *text, bool *literal, struct error *e)
{
    const cJSON *pattern = json_member(part, "pattern");
    const char *regex = NULL, *string = NULL;
    if (!json_string(pattern, "pattern", "Regex", &regex, e) || !json_string(pattern, "pattern", "String", &string, e))
        return false;
    if (!regex && !string)
        return error_set(e, ERROR_FILE, "%s has no 'pattern' with a 'Regex' or a 'String'", where);
    *literal = !regex;
    *text = text_of(regex ? regex : string);
    return true;
}

// ---- normalizer

static bool add_normalizers(struct json_reader *r, const cJSON *part, struct error *e)
{
    return json_for_each(r, part, "normalizers", json_add_normalizer, e);
}

static bool add_replacement(struct normalizers *to, const cJSON *part, struct error *e)
{
    struct text what = {0};
    bool literal = false;
    const char *content = "";
    return read_pattern(part, "Replace", &what, &literal, e) && json_string(part, "Replace", "content", &content, e) &&
           normalizer_add_replace(to, what, literal, text_of(content), e);
}

static bool add_replace(struct json_reader *r, const cJSON *part, struct error *e)
{
    return add_replacement(&r->t->normalizers, part, e);
}

static bool add_prepend(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *prepend = "";
    return json_string(part, "Prepend", "prepend", &prepend, e) &&
           normalizer_add_prepend(&r->t->normalizers, text_of(prepend), e);
}

static bool add_strip(struct json_reader *r, const cJSON *part, struct error *e)
{
    bool left = true, right = true;
    return json_bool(part, "Strip", "strip_left", &left, e) && json_bool(part, "Strip", "strip_right", &right, e) &&
           normalizer_add_strip(&r->t->normalizers, left, right, e);
}

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool read_base64(const char *s, struct text_buffer *out, struct error *e)
{
    uint32_t bits = 0;
    int n = 0;
    for (; *s && *s != '='; s++) {
        int digit = base64_digit(*s);
        if (digit < 0)
            return error_set(e, ERROR_FILE, "'precompiled_charsmap' is not base64");
        bits = bits << 6 | (uint32_t)digit, n += 6;
        if (n < 8)
            continue;
        char byte = (char)(bits >> (n -= 8));
        if (!buffer_put(out, (struct text){&byte, 1}, e))
            return false;
    }
    return true;
}

static bool add_precompiled(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *map = "";
    struct text_buffer blob = {0};
    bool ok = json_string(part, "Precompiled", "precompiled_charsmap", &map, e) && read_base64(map, &blob, e) &&
              normalizer_add_precompiled(&r->t->normalizers, (struct text){blob.data, blob.size}, e);
    buffer_free(&blob);
    return ok;
}

bool json_add_normalizer(struct json_reader *r, const cJSON *part, struct error *e)
{
    static const struct step_row ROW[] = {{"Sequence", add_normalizers},
                                          {"Replace", add_replace},
                                          {"Prepend", add_prepend},
                                          {"Strip", add_strip},
                                          {"Precompiled", add_precompiled}};
    const char *type;
    if (!type_of(part, "normalizer", &type, e))
        return false;
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++)
        if (!strcmp(type, ROW[i].type))
            return ROW[i].add(r, part, e);
    return normalizer_add_named(&r->t->normalizers, type, e);
}

// ---- pre-tokenizer

static bool add_byte_level(struct json_reader *r, const cJSON *part, struct error *e)
{
    bool use_regex = true, prefix_space = true;
    if (!json_bool(part, "ByteLevel", "use_regex", &use_regex, e) ||
        !json_bool(part, "ByteLevel", "add_prefix_space", &prefix_space, e))
        return false;
    r->byte_level = true;
    return (!prefix_space || split_add_prefix(&r->t->split, " ", PREFIX_ALWAYS, e)) &&
           (!use_regex || split_add(&r->t->split, SPLIT_GPT2, false, SPLIT_ISOLATED, false, e));
}

static bool read_mark(const cJSON *part, const char **mark, struct error *e)
{
    *mark = SPACE_MARK;
    if (!json_string(part, "Metaspace", "replacement", mark, e))
        return false;
    return (**mark && strlen(*mark) <= 4 && utf8_valid_size(*mark, strlen(*mark)) == strlen(*mark)) ||
           error_set(e, ERROR_FILE, "Metaspace has the replacement '%.60s', expected one character", *mark);
}

static bool read_prefix(const cJSON *part, enum split_prefix *out, struct error *e)
{
    static const char *const NAME[] = {"never", "first", "always"};
    const char *scheme = "always";
    bool prefix = true;
    if (!json_string(part, "Metaspace", "prepend_scheme", &scheme, e) ||
        !json_bool(part, "Metaspace", "add_prefix_space", &prefix, e)) // as it was written before there were schemes
        return false;
    for (int i = 0; i < 3; i++)
        if (!strcmp(scheme, NAME[i])) {
            *out = prefix ? (enum split_prefix)i : PREFIX_NEVER;
            return true;
        }
    return error_set(e, ERROR_FILE, "Metaspace has the prepend_scheme '%.60s', expected always, first or never", scheme);
}

static bool add_metaspace(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *mark;
    enum split_prefix prefix;
    bool split = true;
    return read_mark(part, &mark, e) && read_prefix(part, &prefix, e) && json_bool(part, "Metaspace", "split", &split, e) &&
           split_add_prefix(&r->t->split, mark, prefix, e) &&
           (!split || split_add(&r->t->split, mark, true, SPLIT_WITH_NEXT, false, e));
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

static bool add_split(struct json_reader *r, const cJSON *part, struct error *e)
{
    struct text pattern = {0};
    const char *behaviour = NULL;
    enum split_behaviour how = SPLIT_ISOLATED;
    bool literal = false, invert = false;
    return read_pattern(part, "Split", &pattern, &literal, e) && json_string(part, "Split", "behavior", &behaviour, e) &&
           json_bool(part, "Split", "invert", &invert, e) && read_behaviour(behaviour, &how, e) &&
           split_add(&r->t->split, pattern.data, literal, how, invert, e);
}

static bool add_digits(struct json_reader *r, const cJSON *part, struct error *e)
{
    bool individual = false;
    return json_bool(part, "Digits", "individual_digits", &individual, e) &&
           split_add(&r->t->split, SPLIT_DIGIT, false, individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, e);
}

// Word characters as the Unicode standard's annex on regular expressions has them: alphabetic (letters, letter numbers and
// circled letters), marks, digits, connectors, joiners.
#define WORD                                                                                                                \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"                \
    "\\x{1f169}\\x{1f170}-\\x{1f189}"

static bool add_whitespace(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)part;
    return split_add(&r->t->split, "[" WORD "]+|[^" WORD "\\s]+", false, SPLIT_REMOVED, true, e);
}

static bool add_whitespace_split(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)part;
    return split_add(&r->t->split, "\\s", false, SPLIT_REMOVED, false, e);
}

static bool add_punctuation(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *behaviour = "Isolated";
    enum split_behaviour how = SPLIT_ISOLATED;
    return json_string(part, "Punctuation", "behavior", &behaviour, e) && read_behaviour(behaviour, &how, e) &&
           split_add(&r->t->split, "[\\p{P}$+<=>^`|~]", false, how, false, e);
}

static bool add_pre_sequence(struct json_reader *r, const cJSON *part, struct error *e)
{
    return json_for_each(r, part, "pretokenizers", json_add_pre_tokenizer, e);
}

bool json_add_pre_tokenizer(struct json_reader *r, const cJSON *part, struct error *e)
{
    static const struct step_row ROW[] = {
        {"ByteLevel", add_byte_level},    {"Metaspace", add_metaspace},   {"Split", add_split},
        {"Digits", add_digits},           {"Whitespace", add_whitespace}, {"WhitespaceSplit", add_whitespace_split},
        {"Punctuation", add_punctuation}, {"Sequence", add_pre_sequence},
    };
    const char *type;
    if (!type_of(part, "pre-tokenizer", &type, e))
        return false;
    if (r->byte_level)
        return json_unsupported("pre-tokenizer", type, "not after ByteLevel", e);
    return add_by_type(r, part, "pre-tokenizer", ROW, sizeof ROW / sizeof *ROW,
                       "ByteLevel, Metaspace, Split, Digits, Whitespace, WhitespaceSplit, Punctuation, Sequence are", e);
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
        if (!json_read_id(item, "TemplateProcessing", &id, e) || !token_list_push(list, id, e))
            return false;
        if (!vocab_text(&t->vocab, id).data)
            return error_set(e, ERROR_FILE, "TemplateProcessing has id %d, which no token has", id);
    }
    return true;
}

// "single" is a list such as [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}].
static bool add_template(struct json_reader *r, const cJSON *part, struct error *e)
{
    const cJSON *single = json_member(part, "single"), *tokens = json_member(part, "special_tokens"), *item;
    struct token_list *list = &r->t->prefix;
    if (!cJSON_IsArray(single))
        return error_set(e, ERROR_FILE, "TemplateProcessing has no 'single' array");
    if (r->t->prefix.n || r->t->suffix.n)
        return json_unsupported("post-processor", "TemplateProcessing", "only once", e);
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

static bool add_ids_around(struct json_reader *r, const cJSON *part, struct error *e)
{
    static const char *const KEY[] = {"cls", "sep"};
    for (int i = 0; i < 2; i++) {
        const cJSON *pair = json_member(part, KEY[i]);
        int32_t id = 0;
        if (!json_read_id(cJSON_GetArrayItem(pair, 1), KEY[i], &id, e) ||
            !token_list_push(i ? &r->t->suffix : &r->t->prefix, id, e))
            return false;
        if (!vocab_text(&r->t->vocab, id).data)
            return error_set(e, ERROR_FILE, "the post-processor has id %d, which no token has", id);
    }
    return true;
}

static bool add_nothing(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)r, (void)part, (void)e;
    return true;
}

static bool add_processors(struct json_reader *r, const cJSON *part, struct error *e)
{
    return json_for_each(r, part, "processors", json_add_post_processor, e);
}

bool json_add_post_processor(struct json_reader *r, const cJSON *part, struct error *e)
{
    static const struct step_row ROW[] = {
        {"TemplateProcessing", add_template}, {"RobertaProcessing", add_ids_around},
        {"BertProcessing", add_ids_around},   {"ByteLevel", add_nothing}, // concerns offsets only
        {"Sequence", add_processors},
    };
    return add_by_type(r, part, "post-processor", ROW, sizeof ROW / sizeof *ROW,
                       "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence are", e);
}

// ---- decoder: what each token shows, and how a text begins

static bool check_byte_level(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)part;
    return r->t->kind == KIND_BYTES || json_unsupported("decoder", "ByteLevel", "only with the ByteLevel pre-tokenizer", e);
}

static bool add_shown_replace(struct json_reader *r, const cJSON *part, struct error *e)
{
    return add_replacement(&r->decoder, part, e);
}

static bool add_shown_bytes(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)part;
    return normalizer_add_bytes(&r->decoder, e);
}

static bool add_shown_metaspace(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *mark;
    enum split_prefix prefix;
    if (!read_mark(part, &mark, e) || !read_prefix(part, &prefix, e))
        return false;
    r->t->start = prefix == PREFIX_NEVER ? START_KEPT : START_FIRST_TOKEN;
    return normalizer_add_replace(&r->decoder, text_of(mark), true, text_of(" "), e);
}

static bool note_fuse(struct json_reader *r, const cJSON *part, struct error *e)
{
    (void)part, (void)e;
    r->fused = true;
    return true;
}

// Before Fuse it concerns each token, after it the whole text.
static bool add_shown_strip(struct json_reader *r, const cJSON *part, struct error *e)
{
    const char *content = " ";
    int32_t start = 0, stop = 0;
    if (!json_string(part, "Strip", "content", &content, e) || !json_i32(part, "Strip", "start", 0, INT32_MAX, &start, e) ||
        !json_i32(part, "Strip", "stop", 0, INT32_MAX, &stop, e))
        return false;
    if (!r->fused)
        return !*content || normalizer_add_trim(&r->decoder, text_of(content), start, stop, e);
    if (stop || strcmp(content, " "))
        return json_unsupported("decoder", "Strip", "after Fuse, of spaces at the start", e);
    r->t->start = START_STRIPPED, r->t->n_strip = start;
    return true;
}

static bool add_decoders(struct json_reader *r, const cJSON *part, struct error *e)
{
    return json_for_each(r, part, "decoders", json_add_decoder, e);
}

bool json_add_decoder(struct json_reader *r, const cJSON *part, struct error *e)
{
    static const struct step_row ROW[] = {
        {"ByteLevel", check_byte_level},
        {"Replace", add_shown_replace},
        {"ByteFallback", add_shown_bytes},
        {"Metaspace", add_shown_metaspace},
        {"Fuse", note_fuse},
        {"Strip", add_shown_strip},
        {"Sequence", add_decoders},
    };
    const char *type;
    if (!type_of(part, "decoder", &type, e))
        return false;
    if (r->t->kind == KIND_BYTES && strcmp(type, "ByteLevel") && strcmp(type, "Sequence"))
        return json_unsupported("decoder", type, "ByteLevel is", e);
    return add_by_type(r, part, "decoder", ROW, sizeof ROW / sizeof *ROW,
                       "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, Sequence are", e);
}
