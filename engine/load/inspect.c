#include "engine/load/inspect.h"

#include "engine/base/json.h"
#include "engine/base/sniff.h"
#include "engine/load/family.h"
#include "engine/load/files.h"
#include "engine/load/tokenizer_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 2048 };

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), k = strlen(suffix);
    return n >= k && !strcmp(text + n - k, suffix);
}

__attribute__((format(printf, 2, 3))) static void note(struct inspection *out, const char *format, ...)
{
    va_list args;
    if (out->n_notes == INSPECT_MAX_NOTES)
        return;
    va_start(args, format);
    vsnprintf(out->note[out->n_notes++], sizeof out->note[0], format, args);
    va_end(args);
}

// ---- tensors

static struct inspect_type *type_row(struct inspection *out, const char *name)
{
    for (int32_t i = 0; i < out->n_types; i++)
        if (!strcmp(out->type[i].name, name))
            return &out->type[i];
    if (out->n_types == INSPECT_MAX_TYPES)
        return NULL;
    snprintf(out->type[out->n_types].name, sizeof out->type[0].name, "%s", name);
    return &out->type[out->n_types++];
}

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const struct inspect_type *)a)->bytes, y = ((const struct inspect_type *)b)->bytes;
    return (x < y) - (x > y);
}

static void count_tensors(struct inspection *out, const struct stored_tensor *tensor, uint64_t n)
{
    uint64_t values;
    for (uint64_t i = 0; i < n; i++) {
        struct inspect_type *row = type_row(out, tensor[i].type);
        stored_count(&tensor[i], &values);
        out->n_tensors++, out->parameters += values;
        if (row)
            row->n_tensors++, row->values += values, row->bytes += tensor[i].bytes;
    }
    qsort(out->type, (size_t)out->n_types, sizeof *out->type, by_bytes);
}

static int by_place(const void *a, const void *b)
{
    const struct stored_tensor *x = *(const struct stored_tensor *const *)a, *y = *(const struct stored_tensor *const *)b;
    return (x > y) - (x < y);
}

// Tensors that a GGUF model has beside those of its plan, and scales of FP8 weights.
static bool is_expected(const struct stored_tensor *t)
{
    static const char *const NAME[] = {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"};
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++)
        if (t->name.size == strlen(NAME[i]) && !memcmp(t->name.data, NAME[i], t->name.size))
            return true;
    return t->name.size > 6 && memmem(t->name.data, t->name.size, "_scale", 6);
}

// What the model needs and the files lack, and the reverse. used: [n_tensors of the plan] room.
static void compare(struct inspection *out, const struct model *m, const struct plan *plan,
                    const struct stored_tensor **used)
{
    char name[96], first[96] = "";
    int32_t n_used = 0, n_missing = 0, n_unknown = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        struct location at;
        if (model_locate(m, &plan->tensor[i], &at))
            used[n_used++] = at.stored;
        else if (!n_missing++)
            model_tensor_name(m, &plan->tensor[i], first, sizeof first);
    }
    if (n_missing)
        note(out, "%d tensors are missing: '%s'%s", n_missing, first, n_missing > 1 ? " ..." : "");
    qsort(used, (size_t)n_used, sizeof *used, by_place);
    for (uint64_t i = 0; i < m->files->n_tensors; i++) {
        const struct stored_tensor *t = &m->files->tensor[i];
        if (!bsearch(&t, used, (size_t)n_used, sizeof *used, by_place) && !is_expected(t) && !n_unknown++)
            text_print(t->name, first);
    }
    if (n_unknown)
        note(out, "%d tensors are not used: '%s'%s", n_unknown, text_print((struct text){first, strlen(first)}, name),
             n_unknown > 1 ? " ..." : "");
}

static bool compare_with_plan(struct inspection *out, const struct model *m, struct error *e)
{
    struct plan plan;
    struct plan_options options = plan_options_default(DTYPE_BF16);
    if (!model_has_weights(m))
        return true;
    if (!plan_make(&plan, &m->spec, &options, e))
        return false;
    const struct stored_tensor **used = calloc((size_t)plan.n_tensors, sizeof *used);
    bool ok = used || error_set(e, ERROR_MEMORY, "no memory");
    if (ok)
        compare(out, m, &plan, used);
    free(used);
    plan_free(&plan);
    return ok;
}

// ---- tokenizers

static bool contains(struct text t, const char *what)
{
    return t.size && memmem(t.data, t.size, what, strlen(what)) != NULL;
}

static bool describe_chat(struct inspection *out, struct text template, struct error *e)
{
    struct tokenizer *t = tokenizer_new(e);
    if (!t || !chat_choose(t, template, e)) {
        tokenizer_close(t);
        return false;
    }
    const char *name = tokenizer_chat_format(t);
    snprintf(out->chat, sizeof out->chat, "%s", name ? name : "");
    if (!name)
        note(out, "its chat template is none that is known here");
    tokenizer_close(t);
    return true;
}

// The object under "model", which is a token of many vocabularies too. NULL: there is none.
static const char *model_object(struct text t)
{
    const char *end = t.data + t.size;
    for (const char *p = t.data; p && (p = memmem(p, (size_t)(end - p), "\"model\"", 7));) {
        p += 7;
        while (p < end && strchr(" \t\r\n:", *p) && *p)
            p++;
        if (p < end && *p == '{')
            return p;
    }
    return NULL;
}

// A tokenizer.json may have 30 MB, so its kind is read off its text.
static void describe_json_tokenizer(struct inspection *out, struct text t)
{
    static const char *const KIND[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    const char *at = model_object(t);
    size_t room = at ? t.size - (size_t)(at - t.data) : 0;
    struct text model = {at, room < 4096 ? room : 4096};
    const char *kind = "?";
    for (size_t i = 0; i < sizeof KIND / sizeof *KIND && *kind == '?'; i++) {
        char quoted[16];
        snprintf(quoted, sizeof quoted, "\"%s\"", KIND[i]);
        kind = contains(model, quoted) ? KIND[i] : kind;
    }
    bool bytes = contains((struct text){t.data, at ? (size_t)(at - t.data) : t.size}, "\"ByteLevel\"");
    snprintf(out->tokenizer, sizeof out->tokenizer, "tokenizer.json, %s%s", bytes ? "byte-level " : "",
             *kind == '?' ? "of unknown kind" : kind);
}

static bool describe_template(struct inspection *out, const char *folder, struct error *e)
{
    char path[PATH_BYTES];
    struct file file;
    cJSON *config;
    bool ok = true;
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    if (file_open(&file, path, NULL)) {
        ok = describe_chat(out, (struct text){file.data, file.size}, e);
        file_close(&file);
        return ok;
    }
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (!json_load(path, &config, NULL))
        return true;
    const char *template = cJSON_GetStringValue(json_member(config, "chat_template"));
    if (template)
        ok = describe_chat(out, (struct text){template, strlen(template)}, e);
    cJSON_Delete(config);
    return ok;
}

static bool describe_folder_tokenizer(struct inspection *out, const char *folder, struct error *e)
{
    char path[PATH_BYTES];
    struct file file;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (file_open(&file, path, NULL)) {
        describe_json_tokenizer(out, (struct text){file.data, file.size});
        file_close(&file);
    } else {
        snprintf(path, sizeof path, "%s/tokenizer.model", folder);
        snprintf(out->tokenizer, sizeof out->tokenizer, "%s", file_exists(path) ? "tokenizer.model, SentencePiece" : "");
    }
    return describe_template(out, folder, e);
}

static bool describe_gguf_tokenizer(struct inspection *out, const struct gguf *g, struct error *e)
{
    struct text kind = {"", 0}, pre = {"", 0}, template = {0};
    char shown[96], shown_pre[96];
    const struct gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (!gguf_string(g, "tokenizer.ggml.model", &kind, e) || !gguf_string(g, "tokenizer.ggml.pre", &pre, e) ||
        !gguf_string(g, "tokenizer.chat_template", &template, e))
        return false;
    if (kind.size && tokens)
        snprintf(out->tokenizer, sizeof out->tokenizer, "'%.24s'%s%.32s%s, %llu tokens", text_print(kind, shown),
                 pre.size ? " with pre-tokenizer '" : "", text_print(pre, shown_pre), pre.size ? "'" : "",
                 (unsigned long long)tokens->n);
    if (tokens && out->has_spec && tokens->n != (uint64_t)out->spec.vocab_size)
        note(out, "%llu tokens, but an embedding of %d rows", (unsigned long long)tokens->n, out->spec.vocab_size);
    return !template.size || describe_chat(out, template, e);
}

// ---- models

static void note_spec(struct inspection *out)
{
    static const char *const ROPE[] = {"", "linear", "Llama 3", "YaRN", "factors in a tensor", "LongRoPE"};
    const struct model_spec *s = &out->spec;
    int32_t n = 0;
    for (int32_t i = 0; i < s->num_hidden_layers; i++)
        n += s->window[i] > 0;
    if (s->tie_word_embeddings)
        note(out, "the head is the embedding table");
    if (n)
        note(out, "%d of %d layers see a window only", n, s->num_hidden_layers);
    if (s->rope.kind != ROPE_DEFAULT)
        note(out, "rotary frequencies are scaled (%s)", ROPE[s->rope.kind]);
    if (s->rope.rotary_dim != s->head_dim)
        note(out, "only %d of %d values of a head turn", s->rope.rotary_dim, s->head_dim);
    if (s->attn_logit_softcapping > 0 || s->final_logit_softcapping > 0)
        note(out, "soft-capping of attention at %g, of logits at %g", (double)s->attn_logit_softcapping,
             (double)s->final_logit_softcapping);
}

static void note_types(struct inspection *out, const struct stored_tensor *tensor, uint64_t n)
{
    char name[96];
    for (uint64_t i = 0; i < n; i++)
        if (!tensor[i].known) {
            note(out, "tensor '%s' is stored as %s, which nothing here computes with", text_print(tensor[i].name, name),
                 tensor[i].type);
            return;
        }
}

static void describe_files(struct inspection *out, const struct model_files *f)
{
    out->n_files = f->gguf.file.size ? 1 + f->n_parts : f->n_shards;
    out->bytes = f->gguf.file.size;
    for (int32_t i = 0; i < f->n_parts; i++)
        out->bytes += f->part[i].file.size;
    for (int32_t i = 0; i < f->n_shards; i++)
        out->bytes += f->shard[i].file.size;
}

// The parts that a plan describes. Why nothing here runs the model is a note where the file is sound, or where its container
// is (`sound`) and only what it says of the model is not.
static bool describe_model(struct inspection *out, const char *path, bool sound, struct error *e)
{
    struct model m;
    struct error why = {0};
    if (!model_open(&m, path, &why)) {
        if (why.kind != ERROR_UNSUPPORTED && !(sound && why.kind == ERROR_FILE))
            return error_set(e, why.kind, "%s", why.message);
        note(out, "%s", why.message);
        return true;
    }
    out->has_spec = true, out->spec = m.spec;
    note_spec(out);
    bool ok = compare_with_plan(out, &m, e);
    model_close(&m);
    return ok;
}

static bool inspect_gguf(struct inspection *out, const char *path, struct error *e)
{
    struct model_files f = {0};
    struct text architecture = {"", 0};
    char shown[96];
    bool ok = gguf_open_parts(&f, path, e) && describe_model(out, path, true, e) &&
              gguf_string(&f.gguf, "general.architecture", &architecture, e);
    if (ok) {
        snprintf(out->format, sizeof out->format, "GGUF");
        snprintf(out->architecture, sizeof out->architecture, "%s", text_print(architecture, shown));
        describe_files(out, &f);
        count_tensors(out, f.gguf.tensor, f.gguf.n_tensors);
        note_types(out, f.gguf.tensor, f.gguf.n_tensors);
        if (f.gguf.alignment != 32)
            note(out, "tensors are aligned to %u bytes", f.gguf.alignment);
        ok = describe_gguf_tokenizer(out, &f.gguf, e);
    }
    model_files_free(&f);
    return ok;
}

// "architectures" of a config.json.
static void read_architecture(struct inspection *out, const char *path)
{
    cJSON *config;
    if (!json_load(path, &config, NULL))
        return;
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(config, "architectures"), 0));
    snprintf(out->architecture, sizeof out->architecture, "%.90s", name ? name : "");
    cJSON_Delete(config);
}

static bool inspect_folder(struct inspection *out, const char *path, struct error *e)
{
    char config[PATH_BYTES];
    struct model_files f = {0};
    bool found = false;
    if (!describe_model(out, path, false, e))
        return false;
    snprintf(config, sizeof config, "%s/config.json", path);
    read_architecture(out, config);
    bool ok = hf_open_weights(&f, path, &found, e);
    if (ok) {
        snprintf(out->format, sizeof out->format, "Hugging Face folder, %s", found ? "safetensors" : "without weights");
        describe_files(out, &f);
        count_tensors(out, f.tensor, f.n_tensors);
        note_types(out, f.tensor, f.n_tensors);
        ok = describe_folder_tokenizer(out, path, e);
    }
    model_files_free(&f);
    return ok;
}

static bool inspect_safetensors(struct inspection *out, const char *path, struct error *e)
{
    struct safetensors s;
    if (!safetensors_open(&s, path, e))
        return false;
    snprintf(out->format, sizeof out->format, "safetensors");
    out->n_files = 1, out->bytes = s.file.size;
    count_tensors(out, s.tensor, s.n_tensors);
    note_types(out, s.tensor, s.n_tensors);
    note(out, "weights alone: what model they belong to is said by the config.json of their folder");
    safetensors_close(&s);
    return true;
}

static bool inspect_config(struct inspection *out, const char *path, struct error *e)
{
    snprintf(out->format, sizeof out->format, "config.json");
    read_architecture(out, path);
    return describe_model(out, path, false, e);
}

// Tells a tokenizer.json from a config.json by the list of added tokens or the model's vocabulary.
static bool inspect_json(struct inspection *out, const char *path, struct error *e)
{
    struct file file;
    if (!file_open(&file, path, e))
        return false;
    struct text text = {file.data, file.size};
    bool ok = sniff_stranger(text.data, text.size, path, "JSON", e);
    bool tokenizer = ok && contains(text, "\"vocab\"") && contains(text, "\"model\"");
    if (tokenizer) {
        snprintf(out->format, sizeof out->format, "tokenizer");
        describe_json_tokenizer(out, text);
    }
    file_close(&file);
    return ok && (tokenizer || inspect_config(out, path, e));
}

static bool inspect_sentencepiece(struct inspection *out, const char *path, struct error *e)
{
    struct tokenizer *t;
    if (!tokenizer_open(&t, path, e))
        return false;
    snprintf(out->format, sizeof out->format, "tokenizer");
    snprintf(out->tokenizer, sizeof out->tokenizer, "SentencePiece model, %d tokens", tokenizer_vocab_size(t));
    tokenizer_close(t);
    return true;
}

bool inspect_path(struct inspection *out, const char *path, struct error *e)
{
    *out = (struct inspection){0};
    if (strlen(path) > PATH_BYTES - 64)
        return error_set(e, ERROR_FILE, "'%.200s': the path is too long", path);
    if (!file_exists(path))
        return error_set(e, ERROR_FILE, "'%.300s': no such file or folder", path);
    if (file_is_directory(path))
        return inspect_folder(out, path, e);
    if (ends_with(path, ".gguf"))
        return inspect_gguf(out, path, e);
    if (ends_with(path, ".safetensors"))
        return inspect_safetensors(out, path, e);
    if (ends_with(path, ".json"))
        return inspect_json(out, path, e);
    if (ends_with(path, ".model"))
        return inspect_sentencepiece(out, path, e);
    return error_set(e, ERROR_FILE,
                     "'%.300s': expected a folder, a .gguf, .safetensors or .model file, a config.json or a tokenizer.json",
                     path);
}
