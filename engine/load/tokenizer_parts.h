// The parts of a tokenizer, for tokenizer*.c and chat.c only. A text goes through them in this order:
//   added tokens of the raw text -> normalize -> added tokens of the normalized text -> split into pieces -> the model
//   (byte-level BPE, BPE over characters, unigram) of each piece
// Everything here is fixed once loaded: encoding keeps its scratch on the caller's side, so threads may share a tokenizer.
#ifndef ENGINE_LOAD_TOKENIZER_PARTS_H
#define ENGINE_LOAD_TOKENIZER_PARTS_H

#include "engine/load/stored.h"
#include "engine/load/tokenizer.h"

struct text_buffer {
    char *data;
    size_t size, capacity;
};
bool buffer_put(struct text_buffer *b, struct text text, struct error *e);
void buffer_free(struct text_buffer *b); // accepts zeroed

#define SPACE_MARK "\xe2\x96\x81" // U+2581, which SentencePiece writes for a space

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
void vocab_find_bytes(struct vocab *v);                       // byte_id becomes the tokens "<0x00>" to "<0xFF>"
int byte_of_token(struct text text);                          // the byte that "<0x0A>" stands for, or -1
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
enum { JOINT_BITS = 1 << 16 };
struct merges {
    struct merge *slot;
    uint32_t mask, n;
    uint64_t joint[JOINT_BITS / 64]; // a bit per hash of (last character of the left, first of the right) of some merge
};
bool merges_init(struct merges *m, int32_t n, struct error *e); // n: how many to expect
void merges_free(struct merges *m);                             // accepts zeroed
bool merges_put(struct merges *m, struct merge merge, struct error *e);
const struct merge *merges_find(const struct merges *m, int32_t left, int32_t right); // NULL: they never merge

// Remembers that some merge joins texts with these two characters at the seam. Where no merge does, a text can be cut
// before it is merged, without changing what comes out.
void merges_put_joint(struct merges *m, uint32_t last, uint32_t first);
bool merges_may_join(const struct merges *m, uint32_t last, uint32_t first);

// Joins neighbours in id[n], lowest rank first and leftmost among equals, until none can be joined. Negative ids never
// are. Returns how many are left, or -1 when out of memory.
int32_t bpe_merge(const struct merges *m, int32_t *id, int32_t n);
enum { BPE_SHORT = 32 }; // up to this many symbols by plain scans, more with a heap

// ---- tokenizer_cache.c: the ids of short pieces seen before

struct piece_cache;                        // belongs to one encoding
struct piece_cache *piece_cache_new(void); // NULL: no memory, and encoding does without
void piece_cache_free(struct piece_cache *c);
// The ids of this piece and how many through *n, or NULL.
const int32_t *piece_cache_find(const struct piece_cache *c, struct text piece, int32_t *n);
void piece_cache_put(struct piece_cache *c, struct text piece, const int32_t *id, int32_t n);

// ---- tokenizer_unigram.c: the most probable pieces

struct unigram {
    struct merges edge; // trie: (node, byte) -> node `id`, whose token is `token_at[id]`
    int32_t *token_at;  // [n_nodes], -1: none ends there
    int32_t n_nodes, capacity;
    double *score;  // [vocab.n], log-probabilities
    double unknown; // of a character without a token
    bool single;    // sums are kept as floats
};
enum { UNIGRAM_UNKNOWN_PENALTY = 10 }; // an unknown character is that much less probable than the rarest token
bool unigram_init(struct unigram *u, int32_t n_ids, struct error *e);
void unigram_free(struct unigram *u); // accepts zeroed
bool unigram_put(struct unigram *u, struct text text, int32_t id, double score, struct error *e);

// Calls `piece` for the best segmentation of text (well-formed UTF-8) in order; id -1: an unknown character.
typedef bool (*unigram_piece)(void *ctx, struct text piece, int32_t id, struct error *e);
bool unigram_best(const struct unigram *u, struct text text, unigram_piece piece, void *ctx, struct error *e);

// ---- tokenizer_pattern.c: PCRE2 as far as tokenizers need it

struct pattern {
    void *code; // pcre2_code
};
// Patterns are in Oniguruma's syntax, as tokenizer.json has them; `literal`: plain text.
bool pattern_init(struct pattern *p, struct text text, bool literal, struct error *e);
void pattern_free(struct pattern *p); // accepts zeroed

struct matcher; // room for the results of a match; belongs to one encoding
struct matcher *matcher_new(struct error *e);
void matcher_free(struct matcher *m); // accepts NULL
struct pattern_match {
    size_t begin, end;
};
// Finds the first match in text[from..], which must be well-formed UTF-8; *found false if there is none.
bool pattern_find(const struct pattern *p, struct matcher *m, struct text text, size_t from, struct pattern_match *out,
                  bool *found, struct error *e);

// ---- tokenizer_split.c: cutting a text into pieces

enum split_behaviour { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_CONTIGUOUS, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT };
enum split_prefix { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS }; // FIRST: only at the start of the whole text
enum { SPLIT_MAX_STEPS = 12 };

struct split {
    struct split_step {
        struct pattern pattern;         // code NULL: this step cuts nothing but puts a prefix
        enum split_behaviour behaviour; // what becomes of the matches
        bool invert;                    // what lies between the matches counts as match, and the reverse
        char mark[8];                   // what stands for a space, and before a piece that does not begin with it
        enum split_prefix prefix;
    } step[SPLIT_MAX_STEPS];
    int32_t n_steps;
};
void split_free(struct split *s); // accepts zeroed

// Adds a step that cuts each piece of the step before.
bool split_add(struct split *s, const char *pattern, bool literal, enum split_behaviour behaviour, bool invert,
               struct error *e);
// Adds a step that writes `mark` for each space and puts one before each piece.
bool split_add_prefix(struct split *s, const char *mark, enum split_prefix prefix, struct error *e);

typedef bool (*split_piece)(void *ctx, struct text piece, struct error *e);
// Calls `piece` for each non-empty piece in order. text must be well-formed UTF-8; at_start: the whole text begins with it.
bool split_text(const struct split *s, struct matcher *m, struct text text, bool at_start, split_piece piece, void *ctx,
                struct error *e);

extern const char SPLIT_GPT2[], SPLIT_DIGIT[]; // GPT-2's pattern; one digit

// ---- tokenizer_charsmap.c: SentencePiece's compiled table of replacements

struct charsmap { // the file's bytes, checked as they are walked
    char *data;   // owned
    size_t size;
    const char *unit, *text; // a double array of 32-bit units; what the values point into, zero-terminated each
    size_t n_units, n_text;
};
bool charsmap_init(struct charsmap *m, struct text blob, struct error *e); // an empty one replaces nothing
void charsmap_free(struct charsmap *m);                                    // accepts zeroed
// The replacement of the longest (or shortest) key at the start of text, whose size goes to *n; data == NULL: no key.
struct text charsmap_find(const struct charsmap *m, struct text text, bool longest, size_t *n);

// ---- tokenizer_normalize.c

struct added_set;
enum { NORMALIZER_MAX = 16 };
struct normalizer {
    bool (*run)(const struct normalizer *n, struct text in, struct text_buffer *out, struct error *e);
    int32_t form;                         // utf8proc's options
    unsigned char first;                  // a text with all bytes below stays as it is
    struct pattern pattern;               // Replace
    struct text_buffer what;              // Replace, for a literal instead
    struct text_buffer put;               // Replace, Prepend: what is put there
    bool left, right;                     // Strip
    int32_t n_left, n_right;              // trim: how many of `what` go
    struct charsmap map;                  // Precompiled, SentencePiece
    const struct added_set *kept;         // SentencePiece: what is not touched
    bool prefix, suffix, squeeze, escape; // SentencePiece: dummy prefix or suffix, no extra spaces, U+2581 for a space
};
struct normalizers {
    struct normalizer step[NORMALIZER_MAX];
    int32_t n;
};
void normalizers_free(struct normalizers *n); // accepts zeroed

// Each adds a step.
bool normalizer_add_named(struct normalizers *n, const char *name, struct error *e); // "NFC", "Lowercase", ...
bool normalizer_add_strip(struct normalizers *n, bool left, bool right, struct error *e);
bool normalizer_add_replace(struct normalizers *n, struct text what, bool literal, struct text put, struct error *e);
bool normalizer_add_prepend(struct normalizers *n, struct text put, struct error *e);
bool normalizer_add_precompiled(struct normalizers *n, struct text blob, struct error *e);
// What decoders do to each token's text: "<0x0A>" becomes its byte; some of `what` go from the ends.
bool normalizer_add_bytes(struct normalizers *n, struct error *e);
bool normalizer_add_trim(struct normalizers *n, struct text what, int32_t n_left, int32_t n_right, struct error *e);
// SentencePiece's own, all in one: `like` gives kept, prefix, suffix, squeeze, escape.
bool normalizer_add_sentencepiece(struct normalizers *n, struct normalizer like, struct text blob, struct error *e);

// *text becomes the normalized text: as it was, or in one of the two buffers, which are reused from text to text.
bool normalize(const struct normalizers *n, struct text *text, struct text_buffer buffer[2], struct error *e);
// The same, and fails where a damaged table has made something that is not UTF-8, on which all that follows relies.
bool normalize_text(const struct normalizers *n, struct text *text, struct text_buffer buffer[2], struct error *e);

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
int32_t added_id(const struct added_set *s, struct text text);     // of exactly this text; -1: none
size_t added_size_at(const struct added_set *s, struct text text); // bytes of the longest at the start of text; 0: none
bool unicode_is_space(int32_t c);                                  // Unicode's White_Space

// The first match in text[from..], the longest of those that begin there. Leaves alone what lies before `taken`.
struct added_match added_find(const struct added_set *s, struct text text, size_t from, size_t taken);

// ---- tokenizer.c

enum tokenizer_kind { KIND_BYTES, KIND_CHARACTERS, KIND_UNIGRAM }; // what a piece's symbols are
enum { ADDED_RAW, ADDED_NORMALIZED };                              // the two sets of added tokens

// How decoding treats the start of a text.
enum start_rule {
    START_KEPT,
    START_STRIPPED,    // `n_strip` spaces at most are dropped
    START_FIRST_TOKEN, // all spaces of the first token
    START_EACH_TOKEN,  // one of each token as long as there is no text
};

struct tokenizer {
    enum tokenizer_kind kind;
    struct vocab vocab; // what pieces are looked up in
    struct vocab shown; // what ids decode to; n == 0: as vocab has it
    struct merges merges;
    struct unigram unigram;
    bool ignore_merges; // a piece that is a token is taken whole
    bool byte_fallback; // a character without a token becomes its bytes' tokens
    int32_t unknown;    // for what has no token; -1: it is left out
    bool fuse_unknown;  // one for several in a row
    bool *special;      // [vocab.n]
    struct normalizers normalizers;
    struct split split;
    struct added_set added[2];     // looked for in the raw text, in the normalized text
    struct added_set user_defined; // SentencePiece: what its normalizer leaves alone
    bool keep_control; // special tokens written inside a text are text, but for those that a chat format puts there
    enum start_rule start;
    int32_t n_strip;
    struct token_list prefix, suffix; // what add_special puts around the ids
    int32_t bos, eos;                 // -1: none
    const struct chat_format *chat;   // NULL: none known
    bool chat_unknown;                // there is a template, but no format of ours
    bool chat_bos;                    // the template begins with BOS
    bool chat_today;                  // it asks for the day
    bool chat_needs_system;           // it composes a system text that we do not
    char *chat_system;                // the default system text of the model's template; NULL: none
};

// From memory, which may go afterwards. `where` names the source in messages.
bool tokenizer_from_json(struct tokenizer **out, struct text json, const char *where, struct error *e);
bool tokenizer_from_gguf(struct tokenizer **out, const void *data, size_t size, const char *where, struct error *e);
bool tokenizer_from_sentencepiece(struct tokenizer **out, const void *data, size_t size, const char *where, struct error *e);

// Names under which GGUF files know pre-tokenizers, i = 0, 1, ... False: there are no more.
bool tokenizer_gguf_pre(int i, char *name, size_t size);

// What the two readers fill a new tokenizer with, in this order.
struct tokenizer *tokenizer_new(struct error *e);
bool tokenizer_size(struct tokenizer *t, int32_t n_ids, int32_t n_merges, struct error *e);
// A token and a merge of two tokens (`rank`th of the list) as the file writes them; byte-level vocabularies (t->kind) are
// decoded here.
bool tokenizer_put_token(struct tokenizer *t, int32_t id, struct text written, struct error *e);
bool tokenizer_put_merge(struct tokenizer *t, struct text left, struct text right, int32_t rank, struct error *e);
// SentencePiece's merges are implicit: any two tokens that make a third merge, and the better score goes first.
struct scored {
    int32_t id;
    float score;
};
bool tokenizer_put_scored_merges(struct tokenizer *t, struct scored *token, int32_t n, struct error *e); // sorts them
// A token whose text is its bytes. After the last one: added_close(&t->added[0]), [1].
bool tokenizer_put_added(struct tokenizer *t, struct added_token token, bool special, bool normalized, struct error *e);

// Makes `shown` from `vocab`: each text as the decoder's steps leave it.
bool tokenizer_show(struct tokenizer *t, const struct normalizers *decoder, struct error *e);

// As tokenizer_encode; `control`: special tokens are recognised even where keep_control says they are text.
bool tokenizer_encode_with(const struct tokenizer *t, struct text text, bool add_special, bool control,
                           struct token_list *out, struct error *e);

// ---- chat.c

// Chooses the format that the template text shows, and the default system text it states.
bool chat_choose(struct tokenizer *t, struct text chat_template, struct error *e);

#endif
