// What a SentencePiece model says, whichever file says it: tokenizer.model (tokenizer_sentencepiece.c) or GGUF
// (tokenizer_gguf.c).
#ifndef ENGINE_LOAD_TOKENIZER_SENTENCEPIECE_H
#define ENGINE_LOAD_TOKENIZER_SENTENCEPIECE_H

#include "engine/load/tokenizer_parts.h"

enum piece_type { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

struct sentencepiece {
    struct sentence_piece {
        struct text text; // in the file
        float score;
        int32_t type; // enum piece_type
    } * piece;        // [n], owned by the caller
    int32_t n, capacity;
    bool unigram;         // else BPE
    bool in_text;         // control and user-defined tokens are found in the raw text, and a prefix stands behind each
    struct text charsmap; // replacements; empty: none
    bool prefix, suffix;  // a space before or behind the text
    bool squeeze;         // no spaces at the ends, single ones between words
    bool escape;          // U+2581 for a space
    bool byte_fallback;
    int32_t unknown; // -1: none
};

// Fills a new tokenizer.
bool tokenizer_fill_sentencepiece(struct tokenizer *t, const struct sentencepiece *m, struct error *e);

#endif
