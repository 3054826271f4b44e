// A chat on a terminal, or over piped lines: what was said so far, the next line, and Ctrl-C, which ends an answer.
#ifndef BENCH_CONVERSATION_H
#define BENCH_CONVERSATION_H

#include "engine/load/tokenizer.h"

struct conversation {
    struct chat_message *message; // contents owned, roles are constants
    int32_t n, capacity;
    char *line;
    size_t line_capacity;
};
void conversation_free(struct conversation *c); // accepts zeroed

bool conversation_add(struct conversation *c, const char *role, const char *content, struct error *e);

// The next line that says something, without its end; NULL at the end of the input or at "/exit". On a terminal it is
// asked for.
const char *conversation_ask(struct conversation *c);

// Between the two, Ctrl-C only makes answer_interrupted true; outside it ends the process as ever.
void answer_watch(void);
bool answer_interrupted(void);
void answer_unwatch(void);

#endif
