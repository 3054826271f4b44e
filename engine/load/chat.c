// Chat formats as data. A format is chosen by marks in the model's own template, never by the model's name; templates
// are not executed. What a row cannot know is read from the template too: the default system text, whether there is a BOS.
#include "engine/load/tokenizer_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAT_MAX_STOPS = 3, CHAT_MAX_MARKS = 2 };

enum system_place {
    SYSTEM_TURN,       // a turn of its own
    SYSTEM_FIRST_USER, // inside the first user's turn
    SYSTEM_LAST_USER,  // inside the last one
    SYSTEM_NOWHERE,
};

// Texts may contain {bos}, {eos} and {date}.
struct chat_format {
    const char *name, *models;
    const char *mark[CHAT_MAX_MARKS], *unless;      // chosen if the template has the marks and not `unless` (NULL: nothing)
    const char *bos, *eos;                          // if the tokenizer names none
    const char *system[2], *user[2], *assistant[2]; // before and after the content
    const char *open;                               // where an answer begins
    enum system_place place;
    bool trim_system, trim, trim_answer; // white space around the content is dropped
    bool trim_together;                  // system and user's text in one: what lies between stays
    bool drop_thinking;                  // earlier answers lose what stands before "</think>"
    bool always_system;                  // a system turn stands there even without a text
    const char *stop[CHAT_MAX_STOPS];
};

#define DEEPSEEK_USER "<\uff5cUser\uff5c>"
#define DEEPSEEK_ASSISTANT "<\uff5cAssistant\uff5c>"
#define DEEPSEEK_BOS "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
#define DEEPSEEK_EOS "<\uff5cend\u2581of\u2581sentence\uff5c>"
#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

// The first row whose marks are there is taken, so special cases stand before general ones.
static const struct chat_format FORMAT[] = {
    {.name = "mistral-v7",
     .models = "Mistral Small 2501 and later, Large 2411",
     .mark = {"[SYSTEM_PROMPT]", "[INST]"},
     .bos = "<s>",
     .eos = "</s>",
     .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", "{eos}"},
     .open = ""},
    {.name = "llama2",
     .models = "Llama 2 Chat, CodeLlama Instruct",
     .mark = {"<<SYS>>", "[INST]"},
     .bos = "<s>",
     .eos = "</s>",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {"{bos}[INST] ", " [/INST]"},
     .assistant = {" ", " {eos}"},
     .open = "",
     .place = SYSTEM_FIRST_USER,
     .trim = true,
     .trim_together = true,
     .trim_answer = true},
    {.name = "mistral-v1",
     .models = "Mistral 7B Instruct 0.1, as first published", // as first published: no system text
     .mark = {"'[INST] '", "eos_token + ' '"},
     .bos = "<s>",
     .eos = "</s>",
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", "{eos} "},
     .open = "",
     .place = SYSTEM_NOWHERE},
    {.name = "mistral-v2",
     .models = "Mistral 7B Instruct 0.2, Mixtral, as first published",
     .mark = {"'[INST] '", "' [/INST]'"},
     .bos = "<s>",
     .eos = "</s>",
     .user = {"[INST] ", " [/INST]"},
     .assistant = {"", "{eos}"},
     .open = "",
     .place = SYSTEM_NOWHERE},
    {.name = "mistral-v2-system",
     .models = "the same, as published now, with a system text", // the same models as they are published now
     .mark = {"\" [INST] \"", "\" [/INST]\""},
     .bos = "<s>",
     .eos = "</s>",
     .system = {"", "\n\n"},
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", "{eos}"},
     .open = "",
     .place = SYSTEM_FIRST_USER},
    {.name = "mistral-v3",
     .models = "Mistral 7B Instruct 0.3, Large 2407",
     .mark = {"\"[INST] \"", "\"[/INST]\""},
     .bos = "<s>",
     .eos = "</s>",
     .system = {"", "\n\n"},
     .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", "{eos}"},
     .open = "",
     .place = SYSTEM_LAST_USER,
     .trim_answer = true},
    {.name = "mistral-v3-tekken",
     .models = "Mistral Nemo",
     .mark = {"\"[INST]\"", "\"[/INST]\""},
     .bos = "<s>",
     .eos = "</s>",
     .system = {"", "\n\n"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", "{eos}"},
     .open = "",
     .place = SYSTEM_LAST_USER},
    {.name = "llama3.1",
     .models = "Llama 3.1, 3.2, 3.3", // a system turn with two dates, always
     .mark = {"<|start_header_id|>", "Cutting Knowledge Date"},
     .bos = "<|begin_of_text|>",
     .system = {LLAMA3("system") "Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n", "<|eot_id|>"},
     .user = {LLAMA3("user"), "<|eot_id|>"},
     .assistant = {LLAMA3("assistant"), "<|eot_id|>"},
     .open = LLAMA3("assistant"),
     .trim_system = true,
     .trim = true,
     .trim_answer = true,
     .always_system = true,
     .stop = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"}},
    {.name = "llama3",
     .models = "Llama 3",
     .mark = {"<|start_header_id|>"},
     .bos = "<|begin_of_text|>",
     .system = {LLAMA3("system"), "<|eot_id|>"},
     .user = {LLAMA3("user"), "<|eot_id|>"},
     .assistant = {LLAMA3("assistant"), "<|eot_id|>"},
     .open = LLAMA3("assistant"),
     .trim_system = true,
     .trim = true,
     .trim_answer = true,
     .stop = {"<|eot_id|>", "<|end_of_text|>"}},
    {.name = "gemma3",
     .models = "Gemma 3",
     .mark = {"<start_of_turn>", "first_user_prefix"},
     .bos = "<bos>",
     .system = {"", "\n\n"},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
     .open = "<start_of_turn>model\n",
     .place = SYSTEM_FIRST_USER,
     .trim = true,
     .trim_answer = true,
     .stop = {"<end_of_turn>", "<eos>"}},
    {.name = "gemma",
     .models = "Gemma, Gemma 2",
     .mark = {"<start_of_turn>"},
     .bos = "<bos>",
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
     .open = "<start_of_turn>model\n",
     .place = SYSTEM_NOWHERE,
     .trim = true,
     .trim_answer = true,
     .stop = {"<end_of_turn>", "<eos>"}},
    {.name = "deepseek-r1",
     .models = "DeepSeek R1 and its distillations",
     .mark = {DEEPSEEK_USER, DEEPSEEK_ASSISTANT "<think>"},
     .bos = DEEPSEEK_BOS,
     .eos = DEEPSEEK_EOS,
     .system = {"", ""},
     .user = {DEEPSEEK_USER, ""},
     .assistant = {DEEPSEEK_ASSISTANT, "{eos}"},
     .open = DEEPSEEK_ASSISTANT "<think>\n",
     .drop_thinking = true,
     .stop = {DEEPSEEK_EOS}},
    {.name = "deepseek-v3",
     .models = "DeepSeek V3",
     .mark = {DEEPSEEK_USER, DEEPSEEK_ASSISTANT},
     .unless = "thinking", // 3.1 and later
     .bos = DEEPSEEK_BOS,
     .eos = DEEPSEEK_EOS,
     .system = {"", ""},
     .user = {DEEPSEEK_USER, ""},
     .assistant = {DEEPSEEK_ASSISTANT, "{eos}"},
     .open = DEEPSEEK_ASSISTANT,
     .drop_thinking = true,
     .stop = {DEEPSEEK_EOS}},
    {.name = "deepseek-v2",
     .models = "DeepSeek V2, V2 Lite",
     .mark = {"'User: '", "'Assistant:'"},
     .bos = DEEPSEEK_BOS,
     .eos = DEEPSEEK_EOS,
     .system = {"", "\n\n"},
     .user = {"User: ", "\n\n"},
     .assistant = {"Assistant: ", "{eos}"},
     .open = "Assistant:",
     .stop = {DEEPSEEK_EOS}},
    {.name = "phi4",
     .models = "Phi-4",
     .mark = {"<|im_start|>", "<|im_sep|>"},
     .system = {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     .user = {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     .assistant = {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     .open = "<|im_start|>assistant<|im_sep|>",
     .stop = {"<|im_end|>", "<|endoftext|>"}},
    {.name = "phi4-mini",
     .models = "Phi-4 mini",
     .mark = {"'<|' + message['role'] + '|>'", "<|end|>"},
     .system = {"<|system|>", "<|end|>"},
     .user = {"<|user|>", "<|end|>"},
     .assistant = {"<|assistant|>", "<|end|>"},
     .open = "<|assistant|>",
     .stop = {"<|end|>", "<|endoftext|>"}},
    {.name = "phi3",
     .models = "Phi-3, Phi-3.5",
     .mark = {"<|user|>", "<|end|>"},
     .bos = "<s>",
     .system = {"<|system|>\n", "<|end|>\n"},
     .user = {"<|user|>\n", "<|end|>\n"},
     .assistant = {"<|assistant|>\n", "<|end|>\n"},
     .open = "<|assistant|>\n",
     .stop = {"<|end|>", "<|endoftext|>"}},
    {.name = "olmo2",
     .models = "OLMo 2",
     .mark = {"<|user|>", "eos_token + '"},
     .bos = "<|endoftext|>",
     .eos = "<|endoftext|>",
     .system = {"<|system|>\n", "\n"},
     .user = {"<|user|>\n", "\n"},
     .assistant = {"<|assistant|>\n", "{eos}\n"},
     .open = "<|assistant|>\n"},
    {.name = "zephyr",
     .models = "TinyLlama Chat, Zephyr",
     .mark = {"<|user|>", "eos_token }}"},
     .eos = "</s>",
     .system = {"<|system|>\n", "{eos}\n"},
     .user = {"<|user|>\n", "{eos}\n"},
     .assistant = {"<|assistant|>\n", "{eos}\n"},
     .open = "<|assistant|>\n"},
    {.name = "chatml",
     .models = "Qwen2, Qwen2.5, Qwen3, SmolLM2 and many more",
     .mark = {"<|im_start|>"},
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
     .open = "<|im_start|>assistant\n",
     .stop = {"<|im_end|>", "<|endoftext|>"}},
};

static const char *find(struct text in, const char *what)
{
    return in.size ? memmem(in.data, in.size, what, strlen(what)) : NULL;
}

static struct text after(struct text t, const char *at)
{
    return (struct text){at, t.size - (size_t)(at - t.data)};
}

// ---- choosing

static bool shows(struct text template, const struct chat_format *f)
{
    for (int i = 0; i < CHAT_MAX_MARKS && f->mark[i]; i++)
        if (!find(template, f->mark[i]))
            return false;
    return !f->unless || !find(template, f->unless);
}

// A line break as the template's file has it, or as a string literal in it writes it.
static size_t line_break(struct text t)
{
    if (t.size && t.data[0] == '\n')
        return 1;
    return t.size > 1 && t.data[0] == '\\' && t.data[1] == 'n' ? 2 : 0;
}

// The literal text of a system turn that the template itself states, if it does: between the two ends of a system turn,
// without the quotes and braces that would mean an expression.
static struct text default_system(const struct chat_format *f, struct text template)
{
    char begin[64], end[32];
    if (f->place != SYSTEM_TURN || !f->system[0][0] || f->always_system)
        return (struct text){0};
    snprintf(begin, sizeof begin, "%.*s", (int)strcspn(f->system[0], "\n"), f->system[0]);
    snprintf(end, sizeof end, "%.*s", (int)strcspn(f->system[1], "\n"), f->system[1]);
    for (const char *at; (at = find(template, begin));) {
        template = after(template, at + strlen(begin));
        size_t n_break = strchr(f->system[0], '\n') ? line_break(template) : 0;
        const char *stop = find(template, end);
        if ((strchr(f->system[0], '\n') && !n_break) || !stop)
            continue;
        struct text system = {template.data + n_break, (size_t)(stop - template.data) - n_break};
        if (system.size && !memchr(system.data, '\'', system.size) && !memchr(system.data, '"', system.size) &&
            !memchr(system.data, '{', system.size))
            return system;
    }
    return (struct text){0};
}

bool chat_choose(struct tokenizer *t, struct text template, struct error *e)
{
    const struct chat_format *format = NULL;
    for (size_t i = 0; !format && i < sizeof FORMAT / sizeof *FORMAT; i++)
        if (shows(template, &FORMAT[i]))
            format = &FORMAT[i];
    free(t->chat_system);
    t->chat = format, t->chat_unknown = !format, t->chat_system = NULL;
    t->chat_bos = find(template, "bos_token") || (format && format->bos && find(template, format->bos));
    t->chat_today = find(template, "strftime_now");
    t->chat_needs_system = find(template, "default_system_message");
    struct text system = format ? default_system(format, template) : (struct text){0};
    if (system.data && !(t->chat_system = strndup(system.data, system.size)))
        return error_set(e, ERROR_MEMORY, "no memory for a chat template");
    return true;
}

const char *tokenizer_chat_format(const struct tokenizer *t)
{
    return t->chat ? t->chat->name : NULL;
}

// ---- rendering

static void put_token(FILE *f, const struct tokenizer *t, int32_t id, const char *otherwise)
{
    struct text text = vocab_text(&t->vocab, id);
    if (text.size)
        fwrite(text.data, 1, text.size, f);
    else
        fputs(otherwise ? otherwise : "", f);
}

// The day that Llama 3.1's template has for today; later ones ask the clock.
static void put_date(FILE *f, const struct tokenizer *t)
{
    char text[32] = "26 Jul 2024";
    time_t now = time(NULL);
    struct tm day;
    if (t->chat_today && localtime_r(&now, &day))
        strftime(text, sizeof text, "%d %b %Y", &day);
    fputs(text, f);
}

static void put(FILE *f, const struct tokenizer *t, const char *s)
{
    for (; *s; s++)
        if (!strncmp(s, "{bos}", 5)) {
            put_token(f, t, t->bos, t->chat->bos), s += 4;
        } else if (!strncmp(s, "{eos}", 5)) {
            put_token(f, t, t->eos, t->chat->eos), s += 4;
        } else if (!strncmp(s, "{date}", 6)) {
            put_date(f, t), s += 5;
        } else {
            fputc(*s, f);
        }
}

static struct text trimmed(const char *s, bool trim)
{
    struct text t = {s, strlen(s)};
    while (trim && t.size && isspace((unsigned char)t.data[t.size - 1]))
        t.size--;
    while (trim && t.size && isspace((unsigned char)*t.data))
        t.data++, t.size--;
    return t;
}

static void put_turn(FILE *f, const struct tokenizer *t, const char *const ends[2], const char *content, bool trim)
{
    struct text text = trimmed(content, trim);
    put(f, t, ends[0]);
    fwrite(text.data, 1, text.size, f);
    put(f, t, ends[1]);
}

static void put_user(FILE *f, const struct tokenizer *t, const char *system, const char *content)
{
    const struct chat_format *c = t->chat;
    struct text text = trimmed(content, c->trim);
    put(f, t, c->user[0]);
    if (system)
        put_turn(f, t, c->system, system, c->trim_system);
    if (system && c->trim_together)
        text.size += (size_t)(text.data - content), text.data = content;
    fwrite(text.data, 1, text.size, f);
    put(f, t, c->user[1]);
}

static void put_answer(FILE *f, const struct tokenizer *t, const char *content)
{
    const char *thought = NULL, *at = content;
    while (t->chat->drop_thinking && (at = strstr(at, "</think>")))
        thought = at += strlen("</think>");
    put_turn(f, t, t->chat->assistant, thought ? thought : content, t->chat->trim_answer);
}

static int32_t find_user(const struct chat_message *message, int32_t n, bool last)
{
    int32_t found = -1;
    for (int32_t i = 0; i < n && (last || found < 0); i++)
        if (!strcmp(message[i].role, "user"))
            found = i;
    return found;
}

static void put_all(FILE *f, const struct tokenizer *t, const char *system, const struct chat_message *message, int32_t n)
{
    const struct chat_format *c = t->chat;
    int32_t holder = c->place == SYSTEM_TURN ? -1 : find_user(message, n, c->place == SYSTEM_LAST_USER);
    if (t->chat_bos && !strstr(c->user[0], "{bos}"))
        put(f, t, "{bos}");
    if (c->place == SYSTEM_TURN && (system || c->always_system))
        put_turn(f, t, c->system, system ? system : "", c->trim_system);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(message[i].role, "assistant"))
            put_answer(f, t, message[i].content);
        else
            put_user(f, t, i == holder ? system : NULL, message[i].content);
    put(f, t, c->open);
}

static bool check_chat(const struct tokenizer *t, bool system, struct error *e)
{
    if (!t->chat)
        return error_set(e, ERROR_UNSUPPORTED,
                         t->chat_unknown ? "the model's chat template is none that is known here (kvbench list chats)"
                                         : "the model has no chat template");
    if (system && t->chat->place == SYSTEM_NOWHERE)
        return error_set(e, ERROR_UNSUPPORTED, "the model's chat format, %s, has no place for a system text", t->chat->name);
    if (!system && t->chat_needs_system)
        return error_set(e, ERROR_USAGE,
                         "the model's chat template composes its own system text, which is not done here: "
                         "give one with --system");
    return true;
}

bool chat_render(const struct tokenizer *t, const struct chat_message *message, int32_t n, char **text, struct error *e)
{
    size_t size;
    bool own = n && !strcmp(message[0].role, "system");
    const char *system = own ? message[0].content : t->chat_system;
    *text = NULL;
    if (!check_chat(t, own, e))
        return false;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return error_set(e, ERROR_MEMORY, "no memory for a chat prompt");
    put_all(f, t, system, message + own, n - own);
    return !fclose(f) || error_set(e, ERROR_MEMORY, "no memory for a chat prompt");
}

bool chat_encode(const struct tokenizer *t, const struct chat_message *message, int32_t n, struct token_list *out,
                 struct error *e)
{
    char *text;
    bool ok = chat_render(t, message, n, &text, e) &&
              tokenizer_encode_with(t, (struct text){text, strlen(text)}, false, true, out, e);
    free(text);
    return ok;
}

// ---- where an answer ends

static void add_stop(int32_t id, int32_t *out, int32_t *n, int32_t max)
{
    for (int32_t i = 0; i < *n; i++)
        if (out[i] == id)
            return;
    if (id >= 0 && *n < max)
        out[(*n)++] = id;
}

int32_t chat_stop_ids(const struct tokenizer *t, int32_t *out, int32_t max)
{
    int32_t n = 0;
    add_stop(t->eos, out, &n, max);
    for (int i = 0; t->chat && i < CHAT_MAX_STOPS && t->chat->stop[i]; i++)
        add_stop(tokenizer_token_id(t, t->chat->stop[i]), out, &n, max);
    return n;
}

bool chat_describe(int32_t i, const char **name, const char **models)
{
    if (i >= (int32_t)(sizeof FORMAT / sizeof *FORMAT))
        return false;
    *name = FORMAT[i].name, *models = FORMAT[i].models;
    return true;
}
