// A byte-level BPE vocabulary from tokenizer.json into GGUF's lists. GGUF names its pre-tokenizer instead of stating it, so
// the names are tried: the one under which a telling text gives the same ids is right.
#include "engine/load/export.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/load/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1200, NAME_BYTES = 24, TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

// Where pre-tokenizers differ: contractions, case, digits, letters with marks, scripts, runs of white space and symbols.
static const char PROBE[] = "Hello, WORLDwide iPhone's don't I'LL they'Ve 1 12 123 1234567 x86_64 3.14159e-10\n\n  two  "
                            "spaces\t\ttabs \r\n \r\n end   \n\t\u0301Z'\r .\tY \rX "
                            "é85é5 7\u0301 4ß 9中 27\u03014ß a中9\u0301 "
                            "café e\u0301té naïve 中文字符 ひらがな カタカナ 中\u0301,X "
                            "привет مرحبا שלום नमस्ते दुनिया "
                            "สวัสดีชาวโลก 한국어 "
                            "½ ² ³ ₂ Ⅷ ① ㊙ x² 10² 😀👍🏽 ÷🏸ך🌾ԩ 🎹Âҋ "
                            "$100,000.00 #tag @you a/b\\c !!! ??? --> <= {}[]() “quoted” … "
                            "nbsp\u00a0foo_bar camelCaseWord HTTPServer /path \"a,;b'c\" \x01 \t\t1 _x";

struct vocabulary {
    cJSON *json;
    struct text *token; // [n] written as in the file
    int32_t *type;      // [n]
    struct text *merge; // [n_merges]
    char *joined;       // merges that the file has as pairs, and names of unused ids
    int32_t n, n_merges;
};

static void vocabulary_free(struct vocabulary *v)
{
    cJSON_Delete(v->json);
    free(v->token);
    free(v->type);
    free(v->merge);
    free(v->joined);
}

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static void put_token(struct vocabulary *v, const cJSON *id, const char *text, int32_t type)
{
    if (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble >= v->n || !text)
        return; // ids beyond the embedding never come up
    v->token[id->valueint] = text_of(text);
    v->type[id->valueint] = type;
}

static void read_tokens(struct vocabulary *v)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_member(json_member(v->json, "model"), "vocab"))
        put_token(v, item, item->string, TYPE_NORMAL);
    cJSON_ArrayForEach(item, json_member(v->json, "added_tokens"))
        put_token(v, json_member(item, "id"), cJSON_GetStringValue(json_member(item, "content")),
                  cJSON_IsTrue(json_member(item, "special")) ? TYPE_CONTROL : TYPE_USER);
}

// "a b", or ["a", "b"] in newer files. False: some merge is neither.
static bool read_merges(struct vocabulary *v, const cJSON *merges, char *at)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, merges)
    {
        const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0)), *whole = cJSON_GetStringValue(item);
        const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
        if (!whole && (!left || !right))
            return false;
        struct text *out = &v->merge[v->n_merges++];
        *out = whole ? text_of(whole) : (struct text){at, strlen(left) + 1 + strlen(right)};
        if (!whole)
            at += snprintf(at, out->size + 1, "%s %s", left, right) + 1;
    }
    return true;
}

static size_t joined_bytes(const cJSON *merges)
{
    const cJSON *item, *part;
    size_t n = 0;
    cJSON_ArrayForEach(item, merges) cJSON_ArrayForEach(part, item) n +=
        cJSON_IsString(part) ? strlen(part->valuestring) + 2 : 0;
    return n;
}

static bool vocabulary_read(struct vocabulary *v, const char *file, int32_t n, struct error *e)
{
    *v = (struct vocabulary){.n = n};
    if (!json_load(file, &v->json, e))
        return false;
    const cJSON *merges = json_member(json_member(v->json, "model"), "merges");
    size_t joined = joined_bytes(merges), unused = (size_t)n * NAME_BYTES;
    v->token = calloc((size_t)n, sizeof *v->token);
    v->type = calloc((size_t)n, sizeof *v->type);
    v->merge = calloc((size_t)cJSON_GetArraySize(merges) + 1, sizeof *v->merge);
    v->joined = malloc(joined + unused + 1);
    if (!v->token || !v->type || !v->merge || !v->joined)
        return error_set(e, ERROR_MEMORY, "'%s': no memory for its vocabulary", file);
    read_tokens(v);
    for (int32_t i = 0; i < n; i++) // rows of the embedding that stand for nothing
        if (!v->token[i].data) {
            char *name = v->joined + joined + (size_t)i * NAME_BYTES;
            snprintf(name, NAME_BYTES, "[PAD%d]", i);
            v->token[i] = text_of(name);
            v->type[i] = TYPE_UNUSED;
        }
    return read_merges(v, merges, v->joined) || error_set(e, ERROR_FILE, "'%s': a merge that is no pair", file);
}

static void put_vocabulary(struct gguf_writer *w, const struct vocabulary *v, const char *pre)
{
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", pre);
    gguf_put_texts(w, "tokenizer.ggml.tokens", v->token, (uint64_t)v->n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", v->type, (uint64_t)v->n);
    gguf_put_texts(w, "tokenizer.ggml.merges", v->merge, (uint64_t)v->n_merges);
}

static bool same_ids(const struct tokenizer *a, const struct tokenizer *b)
{
    struct token_list x = {0}, y = {0};
    bool same = tokenizer_encode(a, PROBE, sizeof PROBE - 1, false, &x, NULL) &&
                tokenizer_encode(b, PROBE, sizeof PROBE - 1, false, &y, NULL) && x.n == y.n &&
                !memcmp(x.id, y.id, (size_t)x.n * sizeof *x.id);
    token_list_free(&x);
    token_list_free(&y);
    return same;
}

// Whether GGUF's pre-tokenizer of this name does what the tokenizer does.
static bool pre_agrees(const struct tokenizer *t, const struct vocabulary *v, const char *pre)
{
    struct gguf_writer trial = {0};
    struct tokenizer *as_gguf = NULL;
    void *data = NULL;
    size_t size;
    put_vocabulary(&trial, v, pre);
    bool same = gguf_write_memory(&trial, &data, &size, NULL) && tokenizer_from_gguf(&as_gguf, data, size, "trial", NULL) &&
                same_ids(t, as_gguf);
    tokenizer_close(as_gguf);
    free(data);
    gguf_writer_free(&trial);
    return same;
}

static bool find_pre(const struct tokenizer *t, const struct vocabulary *v, char *name, size_t size)
{
    for (int i = 0; tokenizer_gguf_pre(i, name, size); i++)
        if (pre_agrees(t, v, name))
            return true;
    return false;
}

// The template's text: a file of its own, or in tokenizer_config.json.
static void put_template(struct gguf_writer *w, const char *folder)
{
    char path[PATH_BYTES];
    struct file file = {0};
    cJSON *config = NULL;
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    if (file_open(&file, path, NULL)) {
        gguf_put_text(w, "tokenizer.chat_template", (struct text){file.data, file.size});
        file_close(&file);
        return;
    }
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (json_load(path, &config, NULL) && cJSON_IsString(json_member(config, "chat_template")))
        gguf_put_string(w, "tokenizer.chat_template", json_member(config, "chat_template")->valuestring);
    cJSON_Delete(config);
}

static void put_ids(struct gguf_writer *w, const struct tokenizer *t, const struct model_spec *s)
{
    struct token_list ids = {0};
    int32_t bos = t->bos >= 0 ? t->bos : s->bos_token_id, eos = s->n_eos ? s->eos_token_id[0] : t->eos;
    bool adds = tokenizer_encode(t, "", 0, true, &ids, NULL) && ids.n && ids.id[0] == bos;
    token_list_free(&ids);
    if (bos >= 0)
        gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    if (eos >= 0)
        gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)eos);
    if (s->n_eos > 1)
        gguf_put_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)s->eos_token_id[1]);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", adds);
}

// "none" is how GGUF says that a model comes without.
static bool put_none(struct gguf_writer *w, char says[160], const char *why)
{
    gguf_put_string(w, "tokenizer.ggml.model", "none");
    snprintf(says, 160, "none: %s", why);
    return true;
}

static bool put_tokenizer(struct gguf_writer *w, const struct tokenizer *t, const char *folder, const struct model_spec *s,
                          char says[160], struct error *e)
{
    char file[PATH_BYTES], name[32];
    struct vocabulary v;
    snprintf(file, sizeof file, "%s/tokenizer.json", folder);
    bool ok = vocabulary_read(&v, file, s->vocab_size, e);
    if (ok && find_pre(t, &v, name, sizeof name)) {
        put_vocabulary(w, &v, name);
        put_ids(w, t, s);
        put_template(w, folder);
        snprintf(says, 160, "byte-level BPE, pre-tokenizer '%s'", name);
    } else if (ok) {
        put_none(w, says, "it is no byte-level BPE that GGUF has a name for");
    }
    vocabulary_free(&v);
    return ok;
}

bool export_tokenizer(struct gguf_writer *w, const char *path, const struct model_spec *s, char says[160], struct error *e)
{
    char file[PATH_BYTES];
    struct tokenizer *t;
    if (!path)
        return put_none(w, says, "random weights have no vocabulary");
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    if (!file_exists(file))
        return put_none(w, says, "there is no tokenizer.json");
    if (!tokenizer_open(&t, path, e))
        return false;
    bool ok = put_tokenizer(w, t, path, s, says, e);
    tokenizer_close(t);
    return ok;
}
