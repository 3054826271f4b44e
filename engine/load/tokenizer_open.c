// From a path to a tokenizer: which reader it takes, and what Hugging Face keeps beside tokenizer.json.
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/load/gguf.h"
#include "engine/load/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 1200 };

// The path of `name` in the folder that holds the file `path`.
static const char *beside(const char *path, const char *name, char out[PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, PATH_SIZE, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    return out;
}

// A token given as "text" or {"content": "text"}: its id, or *id as it was.
static void named_token(const struct tokenizer *t, const cJSON *config, const char *key, int32_t *id)
{
    const cJSON *m = json_member(config, key), *content = cJSON_IsObject(m) ? json_member(m, "content") : m;
    int32_t found = cJSON_IsString(content) ? tokenizer_token_id(t, content->valuestring) : -1;
    *id = found >= 0 ? found : *id;
}

// The template is a string, or a list of {"name", "template"} of which "default" counts.
static const char *template_text(const cJSON *config)
{
    const cJSON *m = json_member(config, "chat_template"), *item;
    cJSON_ArrayForEach(item, m)
    {
        const cJSON *name = json_member(item, "name");
        if (cJSON_IsString(name) && !strcmp(name->valuestring, "default"))
            m = json_member(item, "template");
    }
    return cJSON_IsString(m) ? m->valuestring : NULL;
}

// A SentencePiece model does not say whether BOS and EOS stand around a text; what is beside it does.
static bool read_around(struct tokenizer *t, const cJSON *config, struct error *e)
{
    const char *class = "";
    bool eos = false;
    if (!t->keep_control)
        return true;
    if (!json_string(config, "tokenizer_config.json", "tokenizer_class", &class, e))
        return false;
    bool bos = strstr(class, "Llama") || strstr(class, "Gemma");
    return json_bool(config, "tokenizer_config.json", "add_bos_token", &bos, e) &&
           json_bool(config, "tokenizer_config.json", "add_eos_token", &eos, e) &&
           (!bos || t->bos < 0 || token_list_push(&t->prefix, t->bos, e)) &&
           (!eos || t->eos < 0 || token_list_push(&t->suffix, t->eos, e));
}

static bool read_config(struct tokenizer *t, const char *path, struct error *e)
{
    cJSON *config;
    if (!file_exists(path))
        return true;
    if (!json_load(path, &config, e))
        return false;
    const char *template = template_text(config);
    named_token(t, config, "bos_token", &t->bos);
    named_token(t, config, "eos_token", &t->eos);
    bool ok = read_around(t, config, e) && (!template || chat_choose(t, (struct text){template, strlen(template)}, e));
    cJSON_Delete(config);
    return ok;
}

// Newer folders keep the template in a file of its own.
static bool read_template(struct tokenizer *t, const char *path, struct error *e)
{
    struct file file;
    if (!file_exists(path))
        return true;
    if (!file_open(&file, path, e))
        return false;
    bool ok = chat_choose(t, (struct text){file.data, file.size}, e);
    file_close(&file);
    return ok;
}

// SentencePiece's files begin with field 1 of a protocol buffer, which JSON, but for white space, does not.
static bool is_sentencepiece(const struct file *f)
{
    const char *p = f->data;
    size_t at = 0;
    while (at < f->size && strchr(" \t\r\n", p[at]) && p[at])
        at++;
    return at < f->size && p[0] == 0x0a && p[at] != '{';
}

static bool read_file(struct tokenizer **out, const struct file *f, const char *path, struct error *e)
{
    if (f->size >= 4 && !memcmp(f->data, "GGUF", 4))
        return tokenizer_from_gguf(out, f->data, f->size, path, e);
    if (is_sentencepiece(f))
        return tokenizer_from_sentencepiece(out, f->data, f->size, path, e);
    return tokenizer_from_json(out, (struct text){f->data, f->size}, path, e);
}

static bool open_file(struct tokenizer **out, const char *path, struct error *e)
{
    struct file file;
    char other[PATH_SIZE];
    if (!file_open(&file, path, e))
        return false;
    bool gguf = file.size >= 4 && !memcmp(file.data, "GGUF", 4);
    bool ok = read_file(out, &file, path, e);
    file_close(&file);
    if (!ok || gguf)
        return ok;
    ok = read_config(*out, beside(path, "tokenizer_config.json", other), e) &&
         read_template(*out, beside(path, "chat_template.jinja", other), e);
    if (!ok) {
        tokenizer_close(*out);
        *out = NULL;
    }
    return ok;
}

bool tokenizer_open(struct tokenizer **out, const char *path, struct error *e)
{
    char file[PATH_SIZE];
    int32_t n_parts;
    *out = NULL;
    if (!file_exists(path))
        return error_set(e, ERROR_FILE,
                         "'%.300s' is no file or folder, expected a tokenizer.json, a folder with one, or a GGUF file",
                         path);
    if (strlen(path) >= PATH_SIZE - 64)
        return error_set(e, ERROR_FILE, "'%.100s...': the path is too long", path);
    if (!file_is_directory(path)) // of a model in several GGUF files, the first has the vocabulary
        return open_file(out, gguf_part_path(path, 1, file, sizeof file, &n_parts) ? file : path, e);
    static const char *const NAME[] = {"tokenizer.json", "tokenizer.model"};
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++) {
        snprintf(file, sizeof file, "%s/%s", path, NAME[i]);
        if (file_exists(file))
            return open_file(out, file, e);
    }
    return error_set(e, ERROR_FILE, "'%.300s' has no tokenizer.json and no tokenizer.model", path);
}
