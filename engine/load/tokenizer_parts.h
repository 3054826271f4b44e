// The parts of a tokenizer, for tokenizer*.c and chat.c only. A text goes through them in this order:
//   added tokens of the raw text -> normalize -> added tokens of the normalized text -> split into pieces -> BPE of each
//   piece
// Everything here is fixed once loaded: encoding keeps its scratch on the caller's side, so threads may share a tokenizer.
#ifndef ENGINE_LOAD_TOKENIZER_PARTS_H
#define ENGINE_LOAD_TOKENIZER_PARTS_H

#include "engine/load/stored.h"
#include "engine/load/tokenizer.h"

bool token_list_push(struct token_list *l, int32_t id, struct error *e);
bool token_list_reserve(struct token_list *l, size_t n_more, struct error *e);

// ---- tokenizer_vocab.c: ids and the bytes they stand for

enum { VOCAB_MAX_IDS = 1 << 22, VOCAB_NO_TEXT = -1 };

struct vocab {
    int32_t n; // ids 0..n-1; not all need exist
    struct vocab_entry {
        uint32_t at;  // in `bytes`
        int32_t size; // VOCAB_NO_TEXT: no such id
    } * entry;
    char *bytes; // all texts, adjacent
    size_t n_bytes, capacity;
    int32_t *slot; // open addressing over the texts that pieces are looked up in: id or -1
    uint32_t mask;
    int32_t byte_id[256]; // the token of each single byte, or -1
    int32_t longest;      // bytes of the longest text
};

bool vocab_init(struct vocab *v, int32_t n, struct error *e);
void vocab_free(struct vocab *v); // accepts zeroed

// Gives an id its bytes; fails if it has others already. `findable`: vocab_find may return it.
bool vocab_set(struct vocab *v, int32_t id, struct text bytes, bool findable, struct error *e);
int32_t vocab_find(const struct vocab *v, struct text bytes); // -1: none
struct text vocab_text(const struct vocab *v, int32_t id);    // data == NULL: no such id

// Byte-level vocabularies write each byte as a printable character. Undoes that into out[size]; returns the number of
// bytes, or -1 if the text has a character that stands for none.
int32_t byte_level_decode(struct text text, char *out);

// ---- tokenizer_bpe.c: merging the symbols of a piece

struct merge {
    int32_t left, right; // left < 0: empty slot
    int32_t rank, id;    // lowest rank first; what the two become
};
struct merges {
    struct merge *slot;
    uint32_t mask;
};
bool merges_init(struct merges *m, int32_t n, struct error *e);
void merges_free(struct merges *m); // accepts zeroed
void merges_put(struct merges *m, struct merge merge);
const struct merge *merges_find(const struct merges *m, int32_t left, int32_t right); // NULL: they never merge

// Joins neighbours in id[n], lowest rank first and leftmost among equals, until none can be joined. Returns how many
// are left, or -1 when out of memory.
int32_t bpe_merge(const struct merges *m, int32_t *id, int32_t n);
enum { BPE_SHORT = 32 }; // up to this many symbols by plain scans, more with a heap

// ---- tokenizer_split.c: cutting a text into pieces

enum split_behaviour { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_CONTIGUOUS, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT };
enum { SPLIT_MAX_STEPS = 8 };

struct split {
    struct split_step {
        void *code;                     // pcre2_code
        enum split_behaviour behaviour; // what becomes of the matches
        bool invert;                    // what lies between the matches counts as match, and the reverse
    } step[SPLIT_MAX_STEPS];
    int32_t n_steps;
};
void split_free(struct split *s); // accepts zeroed

// Adds a step that cuts each piece of the step before. Patterns are in Oniguruma's syntax, as tokenizer.json has them;
// `literal`: plain text.
bool split_add(struct split *s, const char *pattern, bool literal, enum split_behaviour behaviour, bool invert,
               struct error *e);

typedef bool (*split_piece)(void *ctx, struct text piece, struct error *e);
// Calls `piece` for each non-empty piece in order. text must be well-formed UTF-8.
bool split_text(const struct split *s, struct text text, split_piece piece, void *ctx, struct error *e);

extern const char SPLIT_GPT2[], SPLIT_DIGIT[]; // GPT-2's pattern; one digit

// ---- tokenizer_added.c: tokens that are recognised as they stand in a text

struct added_token {
    struct text text; // owned by the set
    int32_t id;
    bool strip_left, strip_right; // takes the white space beside it
    bool single_word;             // only where no word character touches it
};
struct added_set {
    struct added_token *token; // sorted by text once closed
    int32_t n, capacity;
    int32_t first[257]; // tokens that begin with byte b: first[b] .. first[b + 1] - 1
};
void added_free(struct added_set *s);                                           // accepts zeroed
bool added_put(struct added_set *s, struct added_token token, struct error *e); // copies the text; empty ones are ignored
void added_close(struct added_set *s);                                          // after the last put

struct added_match {
    size_t begin, end; // what is taken, white space included; end == 0: no match
    size_t next;       // where the search for the next one starts
    int32_t id;
};
int32_t added_id(const struct added_set *s, struct text text); // of exactly this text; -1: none

// The first match in text[from..], the longest of those that begin there. Leaves alone what lies before `taken`.
struct added_match added_find(const struct added_set *s, struct text text, size_t from, size_t taken);

// ---- tokenizer.c

enum { NORMALIZER_MAX = 4 };

struct tokenizer {
    struct vocab vocab;
    struct merges merges;
    bool ignore_merges; // a piece that is a token is taken whole
    bool prefix_space;  // each text begins with a space
    int32_t unknown;    // for bytes without a token; -1: they are left out
    bool *special;      // [vocab.n]
    const struct normalizer *normalizer[NORMALIZER_MAX];
    int32_t n_normalizers;
    struct split split;
    struct added_set added[2];        // looked for in the raw text, in the normalized text
    struct token_list prefix, suffix; // what add_special puts around the ids
    int32_t bos, eos;                 // -1: none
    const struct chat_format *chat;   // NULL: none known
    bool chat_unknown;                // there is a template, but no format of ours
    char *chat_system;                // the default system text of the model's template; NULL: none
};

// From memory, which may go afterwards. `where` names the source in messages.
bool tokenizer_from_json(struct tokenizer **out, struct text json, const char *where, struct error *e);
bool tokenizer_from_gguf(struct tokenizer **out, const void *data, size_t size, const char *where, struct error *e);

// What the two readers fill a new tokenizer with, in this order.
struct tokenizer *tokenizer_new(struct error *e);
bool tokenizer_size(struct tokenizer *t, int32_t n_ids, int32_t n_merges, struct error *e);
// A token and a merge of two tokens (`rank`th of the list) as byte-level vocabularies write them.
bool tokenizer_put_token(struct tokenizer *t, int32_t id, struct text written, struct error *e);
bool tokenizer_put_merge(struct tokenizer *t, struct text left, struct text right, int32_t rank, struct error *e);
bool tokenizer_add_normalizer(struct tokenizer *t, const char *name, struct error *e); // "NFC", ...
// A token whose text is its bytes. After the last one: added_close(&t->added[0]), [1].
bool tokenizer_put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e);

// ---- chat.c

// Chooses the format that the template text shows, and the default system text it states.
bool chat_choose(struct tokenizer *t, struct text chat_template, struct error *e);

#endif
