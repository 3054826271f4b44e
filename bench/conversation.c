#include "bench/conversation.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void conversation_free(struct conversation *c)
{
    for (int32_t i = 0; i < c->n; i++)
        free((char *)c->message[i].content);
    free(c->message);
    free(c->line);
    *c = (struct conversation){0};
}

bool conversation_add(struct conversation *c, const char *role, const char *content, struct error *e)
{
    if (c->n == c->capacity) {
        int32_t capacity = 2 * c->capacity + 16;
        struct chat_message *grown = realloc(c->message, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for %d messages", capacity);
        c->message = grown, c->capacity = capacity;
    }
    char *copy = strdup(content);
    if (!copy)
        return error_set(e, ERROR_MEMORY, "no memory for a message");
    c->message[c->n++] = (struct chat_message){role, copy};
    return true;
}

const char *conversation_ask(struct conversation *c)
{
    for (;;) {
        if (isatty(STDIN_FILENO))
            fputs("> ", stderr);
        ssize_t n = getline(&c->line, &c->line_capacity, stdin);
        if (n < 0)
            return NULL;
        c->line[strcspn(c->line, "\r\n")] = 0;
        if (!strcmp(c->line, "/exit"))
            return NULL;
        if (c->line[strspn(c->line, " \t")])
            return c->line;
    }
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void answer_watch(void)
{
    interrupted = 0;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
}

bool answer_interrupted(void)
{
    return interrupted;
}

void answer_unwatch(void)
{
    sigaction(SIGINT, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}
