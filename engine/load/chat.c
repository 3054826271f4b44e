// Chat formats as data. A format is chosen by marks in the model's own template, never by the model's name; templates
// are not executed. The default system text is read from the template too.
#include "engine/load/tokenizer_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAT_MAX_STOPS = 4 };

// prompt = start, then per message: before role, after role, content, end; then an assistant's turn left open.
struct chat_format {
    const char *name;
    const char *mark, *unless; // chosen if the template has `mark` and not `unless` (NULL: nothing)
    const char *start, *before_role, *after_role, *end;
    bool trim; // white space around the content is dropped
    const char *stop[CHAT_MAX_STOPS];
};

static const struct chat_format FORMAT[] = {
    {.name = "chatml",
     .mark = "<|im_start|>",
     .start = "",
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>\n",
     .stop = {"<|im_end|>", "<|endoftext|>"}},
    {.name = "llama3",
     .mark = "<|start_header_id|>",
     .unless = "Cutting Knowledge Date", // 3.1 and later put that and today's date into each system text
     .start = "<|begin_of_text|>",
     .before_role = "<|start_header_id|>",
     .after_role = "<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .trim = true,
     .stop = {"<|eot_id|>", "<|end_of_text|>"}},
};

static const char *find(struct text in, const char *what)
{
    return in.size ? memmem(in.data, in.size, what, strlen(what)) : NULL;
}

static struct text after(struct text t, const char *at)
{
    return (struct text){at, t.size - (size_t)(at - t.data)};
}

// A line break as the template's file has it, or as a string literal in it writes it.
static size_t line_break(struct text t)
{
    if (t.size && t.data[0] == '\n')
        return 1;
    return t.size > 1 && t.data[0] == '\\' && t.data[1] == 'n' ? 2 : 0;
}

// The literal text of a system turn that the template itself states, if it does: between "before_role system after_role"
// and the end mark, without the quotes and braces that would mean an expression.
static struct text default_system(const struct chat_format *format, struct text template)
{
    char begin[64], end[32];
    snprintf(begin, sizeof begin, "%ssystem", format->before_role);
    snprintf(end, sizeof end, "%.*s", (int)strcspn(format->end, "\n"), format->end);
    for (const char *at; (at = find(template, begin));) {
        template = after(template, at + strlen(begin));
        size_t n_break = line_break(template);
        const char *stop = find(template, end);
        if (!n_break || !stop)
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
        if (find(template, FORMAT[i].mark) && !(FORMAT[i].unless && find(template, FORMAT[i].unless)))
            format = &FORMAT[i];
    free(t->chat_system);
    t->chat = format, t->chat_unknown = !format, t->chat_system = NULL;
    struct text system = format ? default_system(format, template) : (struct text){0};
    if (system.data && !(t->chat_system = strndup(system.data, system.size)))
        return error_set(e, ERROR_MEMORY, "no memory for a chat template");
    return true;
}

const char *tokenizer_chat_format(const struct tokenizer *t)
{
    return t->chat ? t->chat->name : NULL;
}

static void put_message(FILE *f, const struct chat_format *format, const char *role, const char *content)
{
    size_t n = strlen(content);
    while (format->trim && n && isspace((unsigned char)content[n - 1]))
        n--;
    while (format->trim && n && isspace((unsigned char)*content))
        content++, n--;
    fprintf(f, "%s%s%s", format->before_role, role, format->after_role);
    fwrite(content, 1, n, f);
    fputs(format->end, f);
}

bool chat_render(const struct tokenizer *t, const struct chat_message *message, int32_t n, char **text, struct error *e)
{
    size_t size;
    *text = NULL;
    if (!t->chat)
        return error_set(e, ERROR_UNSUPPORTED,
                         t->chat_unknown ? "the model's chat template is none that is known here (chatml, llama3)"
                                         : "the model has no chat template");
    FILE *f = open_memstream(text, &size);
    if (!f)
        return error_set(e, ERROR_MEMORY, "no memory for a chat prompt");
    fputs(t->chat->start, f);
    if (t->chat_system && (!n || strcmp(message[0].role, "system")))
        put_message(f, t->chat, "system", t->chat_system);
    for (int32_t i = 0; i < n; i++)
        put_message(f, t->chat, message[i].role, message[i].content);
    fprintf(f, "%sassistant%s", t->chat->before_role, t->chat->after_role);
    return !fclose(f) || error_set(e, ERROR_MEMORY, "no memory for a chat prompt");
}

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
