// Text to token ids and back: byte-level BPE, BPE over characters and unigram, from tokenizer.json, SentencePiece's
// tokenizer.model (bare files or in a folder) or a GGUF file. PCRE2 splits, utf8proc normalizes.
#ifndef ENGINE_LOAD_TOKENIZER_H
#define ENGINE_LOAD_TOKENIZER_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer; // owned by the caller through tokenizer_close

// path: a tokenizer.json, a SentencePiece .model, a folder that holds one of them, or a .gguf file.
bool tokenizer_open(struct tokenizer **out, const char *path, struct error *e);
void tokenizer_close(struct tokenizer *t); // accepts NULL

struct token_list {
    int32_t *id;
    int32_t n, capacity;
};
void token_list_free(struct token_list *l); // accepts zeroed
bool token_list_push(struct token_list *l, int32_t id, struct error *e);
bool token_list_reserve(struct token_list *l, size_t n_more, struct error *e);

// Appends the ids of text[size]. add_special: also what the tokenizer's own post-processing adds (BOS, ...). Special tokens
// written inside the text are recognised, but for a SentencePiece .model, which takes them as text. Invalid UTF-8 is
// encoded byte by byte where the vocabulary is made of bytes, and as U+FFFD elsewhere.
bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool add_special, struct token_list *out,
                      struct error *e);

// The bytes of ids, special tokens included unless skip_special. *text is malloc'ed and zero-terminated.
bool tokenizer_decode(const struct tokenizer *t, const int32_t *id, int32_t n, bool skip_special, char **text, size_t *size,
                      struct error *e);

int32_t tokenizer_vocab_size(const struct tokenizer *t);
int32_t tokenizer_token_id(const struct tokenizer *t, const char *token); // -1: no such token
int32_t tokenizer_bos(const struct tokenizer *t);                         // -1: none

// Streaming decode that never returns half a character: feed ids, get the text that is complete.
struct token_stream {
    const struct tokenizer *tokenizer;
    unsigned char pending[8]; // an unfinished UTF-8 sequence
    int32_t n_pending;
    bool begun; // set it where the ids go on from a text: then the first one keeps its leading space
    int32_t n_tokens, n_stripped;
};
size_t token_stream_capacity(const struct tokenizer *t); // enough for any one id
// Writes at most `capacity` bytes and a zero; returns the length. Special tokens and unknown ids give nothing; bytes that
// can become no character give U+FFFD. id -1 ends the stream: an unfinished character gives U+FFFD too.
size_t token_stream_next(struct token_stream *s, int32_t id, char *out, size_t capacity);

// Chat formats are data (engine/load/chat.c): chosen by the model's own template text.
struct chat_message {
    const char *role; // "system", "user", "assistant"
    const char *content;
};
// The name of the model's chat format ("chatml"), or NULL if its template is absent or not one we know.
const char *tokenizer_chat_format(const struct tokenizer *t);
// Malloc'ed prompt text that ends where the assistant's answer begins. Adds the format's default system text when the first
// message is not a system message. The caller encodes it without add_special.
bool chat_render(const struct tokenizer *t, const struct chat_message *message, int32_t n, char **text, struct error *e);
// The ids of that text; its special tokens are recognised whatever the tokenizer.
bool chat_encode(const struct tokenizer *t, const struct chat_message *message, int32_t n, struct token_list *out,
                 struct error *e);
bool chat_describe(int32_t i, const char **name, const char **models); // of all that are known; false: no such number
// Ids at which an answer ends (end of turn, end of text). Returns how many, at most max.
int32_t chat_stop_ids(const struct tokenizer *t, int32_t *out, int32_t max);

#endif
