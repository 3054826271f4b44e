// SentencePiece's tokenizer.model: a protocol buffer (sentencepiece_model.proto), of which the fields below are read.
#include "engine/load/tokenizer_sentencepiece.h"

#include "engine/base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the protocol buffer: a message is a list of (field number, wire type, value)

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
    uint64_t number;
    int wire;
    uint64_t value;    // varint, or 32 and 64 bits as they stand
    struct text bytes; // WIRE_BYTES
};

static bool take_varint(struct text *in, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && in->size; shift += 7) {
        unsigned char byte = (unsigned char)*in->data++;
        in->size--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_fixed(struct text *in, size_t n, uint64_t *out)
{
    if (in->size < n)
        return false;
    *out = 0;
    for (size_t i = n; i-- > 0;)
        *out = *out << 8 | (unsigned char)in->data[i];
    in->data += n, in->size -= n;
    return true;
}

static bool take_bytes(struct text *in, struct text *out)
{
    uint64_t size;
    if (!take_varint(in, &size) || size > in->size)
        return false;
    *out = (struct text){in->data, (size_t)size};
    in->data += size, in->size -= (size_t)size;
    return true;
}

static bool take_field(struct text *in, struct field *f, struct error *e)
{
    uint64_t tag;
    bool ok = take_varint(in, &tag);
    *f = (struct field){.number = ok ? tag >> 3 : 0, .wire = ok ? (int)(tag & 7) : -1};
    switch (f->wire) {
    case WIRE_VARINT: ok = take_varint(in, &f->value); break;
    case WIRE_64: ok = take_fixed(in, 8, &f->value); break;
    case WIRE_32: ok = take_fixed(in, 4, &f->value); break;
    case WIRE_BYTES: ok = take_bytes(in, &f->bytes); break;
    default: ok = false;
    }
    return ok || error_set(e, ERROR_FILE, "not a whole SentencePiece model: its protocol buffer breaks off");
}

static bool is(const struct field *f, uint64_t number, enum wire wire)
{
    return f->number == number && f->wire == (int)wire;
}

// ---- the messages

struct model {
    struct sentencepiece *m;
    uint64_t kind; // of trainer_spec: 1 unigram, 2 BPE, 3 words, 4 characters
    int32_t bos, eos;
};

static bool read_piece(struct sentence_piece *p, struct text in, struct error *e)
{
    struct field f;
    *p = (struct sentence_piece){.type = PIECE_NORMAL};
    while (in.size) {
        if (!take_field(&in, &f, e))
            return false;
        if (is(&f, 1, WIRE_BYTES))
            p->text = f.bytes;
        if (is(&f, 2, WIRE_32)) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof p->score);
        }
        if (is(&f, 3, WIRE_VARINT))
            p->type = f.value <= PIECE_BYTE ? (int32_t)f.value : 0;
    }
    if (p->type < PIECE_NORMAL || !isfinite(p->score))
        return error_set(e, ERROR_FILE, "a piece has no known type or no score");
    return true;
}

static bool add_piece(struct sentencepiece *m, struct text in, struct error *e)
{
    if (m->n == VOCAB_MAX_IDS)
        return error_set(e, ERROR_UNSUPPORTED, "more than %d pieces", VOCAB_MAX_IDS);
    if (m->n == m->capacity) {
        int32_t capacity = 2 * m->capacity + 1024;
        struct sentence_piece *grown = realloc(m->piece, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for %d pieces", capacity);
        m->piece = grown, m->capacity = capacity;
    }
    return read_piece(&m->piece[m->n++], in, e);
}

static bool read_trainer(struct model *k, struct text in, struct error *e)
{
    struct field f;
    while (in.size) {
        if (!take_field(&in, &f, e))
            return false;
        if (is(&f, 3, WIRE_VARINT))
            k->kind = f.value;
        if (is(&f, 24, WIRE_VARINT))
            k->m->suffix = f.value;
        if (is(&f, 35, WIRE_VARINT))
            k->m->byte_fallback = f.value;
        if (is(&f, 41, WIRE_VARINT))
            k->bos = (int32_t)f.value;
        if (is(&f, 42, WIRE_VARINT))
            k->eos = (int32_t)f.value;
    }
    return true;
}

static bool read_normalizer(struct sentencepiece *m, struct text in, struct error *e)
{
    struct field f;
    while (in.size) {
        if (!take_field(&in, &f, e))
            return false;
        if (is(&f, 2, WIRE_BYTES))
            m->charsmap = f.bytes;
        if (is(&f, 3, WIRE_VARINT))
            m->prefix = f.value;
        if (is(&f, 4, WIRE_VARINT))
            m->squeeze = f.value;
        if (is(&f, 5, WIRE_VARINT))
            m->escape = f.value;
    }
    return true;
}

static bool read_model(struct model *k, struct text in, struct error *e)
{
    struct field f;
    bool ok = true;
    while (ok && in.size) {
        ok = take_field(&in, &f, e);
        if (ok && is(&f, 1, WIRE_BYTES))
            ok = add_piece(k->m, f.bytes, e);
        if (ok && is(&f, 2, WIRE_BYTES))
            ok = read_trainer(k, f.bytes, e);
        if (ok && is(&f, 3, WIRE_BYTES))
            ok = read_normalizer(k->m, f.bytes, e);
    }
    if (ok && !k->m->n)
        return error_set(e, ERROR_FILE, "has no pieces, expected a SentencePiece model");
    if (ok && k->kind != 1 && k->kind != 2)
        return error_set(e, ERROR_UNSUPPORTED,
                         "SentencePiece's model type %llu is not supported (1, unigram, and 2, BPE, are)",
                         (unsigned long long)k->kind);
    k->m->unigram = k->kind == 1;
    return ok;
}

// ---- to a tokenizer

static bool put_piece(struct tokenizer *t, const struct sentencepiece *m, int32_t id, struct error *e)
{
    const struct sentence_piece *p = &m->piece[id];
    struct added_token token = {.text = p->text, .id = id};
    switch (p->type) {
    case PIECE_UNKNOWN:
        if (!vocab_set(&t->vocab, id, (struct text){" \xe2\x81\x87 ", 5}, false, e)) // what it shows
            return false;                                                            // fall through
    case PIECE_CONTROL: return tokenizer_put_added(t, token, true, false, e);
    case PIECE_USER_DEFINED:
        if (utf8_valid_size(p->text.data, p->text.size) != p->text.size)
            return error_set(e, ERROR_FILE, "piece %d is not valid UTF-8", id);
        if (!m->in_text && m->unigram) // it competes with the others, and wins
            return tokenizer_put_token(t, id, p->text, e) && added_put(&t->user_defined, token, e);
        return tokenizer_put_added(t, token, false, !m->in_text, e) && added_put(&t->user_defined, token, e);
    case PIECE_BYTE: {
        int byte = byte_of_token(p->text);
        if (byte >= 0)
            t->vocab.byte_id[byte] = id;
        return byte >= 0 ? vocab_set(&t->vocab, id, p->text, false, e)
                         : error_set(e, ERROR_FILE, "piece %d is said to be a byte, but is none", id);
    }
    default: return tokenizer_put_token(t, id, p->text, e);
    }
}

static bool put_pieces(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    for (int32_t id = 0; id < m->n; id++)
        if (!put_piece(t, m, id, e))
            return false;
    added_close(&t->added[0]);
    added_close(&t->added[1]);
    added_close(&t->user_defined);
    return true;
}

static bool put_scores(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    float lowest = FLT_MAX, highest = FLT_MIN; // as SentencePiece starts them
    for (int32_t id = 0; id < m->n; id++)
        if (m->piece[id].type == PIECE_NORMAL) {
            lowest = m->piece[id].score < lowest ? m->piece[id].score : lowest;
            highest = m->piece[id].score > highest ? m->piece[id].score : highest;
        }
    t->unigram.unknown = lowest - (float)UNIGRAM_UNKNOWN_PENALTY, t->unigram.single = true;
    for (int32_t id = 0; id < m->n; id++) {
        const struct sentence_piece *p = &m->piece[id];
        double score = p->type == PIECE_USER_DEFINED ? (double)((float)p->text.size * highest) - 0.1 : (double)p->score;
        if ((p->type == PIECE_NORMAL || p->type == PIECE_USER_DEFINED) && p->text.size &&
            !unigram_put(&t->unigram, p->text, id, score, e))
            return false;
    }
    return true;
}

static bool put_merges(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    struct scored *token = malloc(((size_t)m->n + 1) * sizeof *token);
    int32_t n = 0;
    if (!token)
        return error_set(e, ERROR_MEMORY, "no memory for %d pieces", m->n);
    for (int32_t id = 0; id < m->n; id++)
        if (m->piece[id].type == PIECE_NORMAL || m->piece[id].type == PIECE_UNUSED)
            token[n++] = (struct scored){id, m->piece[id].score};
    bool ok = tokenizer_put_scored_merges(t, token, n, e);
    free(token);
    return ok;
}

static bool put_normalizer(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    struct normalizer like = {.prefix = m->prefix && !m->suffix,
                              .suffix = m->prefix && m->suffix,
                              .squeeze = m->squeeze,
                              .escape = m->escape,
                              .kept = m->in_text ? NULL : &t->user_defined};
    return normalizer_add_sentencepiece(&t->normalizers, like, m->charsmap, e);
}

// Spaces for their marks, bytes for theirs, and of the first spaces none that the prefix has put there.
static bool put_decoder(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    struct text mark = {SPACE_MARK, 3}, space = {" ", 1};
    struct normalizers decoder = {0};
    bool ok = normalizer_add_replace(&decoder, mark, true, space, e) && normalizer_add_bytes(&decoder, e) &&
              tokenizer_show(t, &decoder, e);
    normalizers_free(&decoder);
    t->start = m->squeeze ? START_EACH_TOKEN : m->prefix && !m->suffix ? START_STRIPPED : START_KEPT;
    t->n_strip = 1;
    return ok;
}

bool tokenizer_fill_sentencepiece(struct tokenizer *t, const struct sentencepiece *m, struct error *e)
{
    t->kind = m->unigram ? KIND_UNIGRAM : KIND_CHARACTERS;
    t->byte_fallback = m->byte_fallback;
    t->unknown = m->unknown, t->fuse_unknown = true;
    t->keep_control = !m->in_text;
    if (!tokenizer_size(t, m->n, 0, e) || (m->unigram && !unigram_init(&t->unigram, m->n, e)))
        return false;
    return put_pieces(t, m, e) && (m->unigram ? put_scores(t, m, e) : put_merges(t, m, e)) && put_normalizer(t, m, e) &&
           put_decoder(t, m, e);
}

static bool fill(struct tokenizer *t, struct model *k, struct text file, struct error *e)
{
    if (!read_model(k, file, e))
        return false;
    for (int32_t id = 0; id < k->m->n; id++)
        if (k->m->piece[id].type == PIECE_UNKNOWN)
            k->m->unknown = id;
    if (!tokenizer_fill_sentencepiece(t, k->m, e))
        return false;
    t->bos = k->bos >= 0 && k->bos < k->m->n ? k->bos : -1;
    t->eos = k->eos >= 0 && k->eos < k->m->n ? k->eos : -1;
    return true;
}

bool tokenizer_from_sentencepiece(struct tokenizer **out, const void *data, size_t size, const char *where, struct error *e)
{
    struct sentencepiece m = {.prefix = true, .squeeze = true, .escape = true, .unknown = -1}; // the format's defaults
    struct model k = {.m = &m, .kind = 1, .bos = 1, .eos = 2};
    struct tokenizer *t = tokenizer_new(e);
    bool ok = t && (fill(t, &k, (struct text){data, size}, e) || error_prefix(e, "'%s'", where));
    free(m.piece);
    *out = ok ? t : NULL;
    if (!ok)
        tokenizer_close(t);
    return ok;
}
