// The segmentation of a text into tokens whose probabilities have the largest product (Viterbi over a trie).
#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static bool add_node(struct unigram *u, struct error *e)
{
    if (u->n_nodes == u->capacity) {
        int32_t capacity = 2 * u->capacity + 256;
        int32_t *grown = realloc(u->token_at, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for a vocabulary");
        u->token_at = grown, u->capacity = capacity;
    }
    u->token_at[u->n_nodes++] = -1;
    return true;
}

bool unigram_init(struct unigram *u, int32_t n_ids, struct error *e)
{
    *u = (struct unigram){0};
    u->score = calloc((size_t)n_ids + 1, sizeof *u->score);
    if (!u->score)
        return error_set(e, ERROR_MEMORY, "no memory for a vocabulary of %d tokens", n_ids);
    return merges_init(&u->edge, 4 * n_ids, e) && add_node(u, e);
}

void unigram_free(struct unigram *u)
{
    merges_free(&u->edge);
    free(u->token_at);
    free(u->score);
    *u = (struct unigram){0};
}

bool unigram_put(struct unigram *u, struct text text, int32_t id, double score, struct error *e)
{
    int32_t node = 0;
    u->score[id] = score;
    for (size_t i = 0; i < text.size; i++) {
        int32_t byte = (unsigned char)text.data[i];
        const struct merge *edge = merges_find(&u->edge, node, byte);
        if (!edge && (!merges_put(&u->edge, (struct merge){node, byte, 0, u->n_nodes}, e) || !add_node(u, e)))
            return false;
        node = edge ? edge->id : u->n_nodes - 1;
    }
    if (node && u->token_at[node] < 0)
        u->token_at[node] = id;
    return true;
}

// The best way to reach a position.
struct reach {
    double score;
    int32_t begin, id; // its last piece; begin < 0: not reached
};

// SentencePiece adds and compares floats, Hugging Face doubles. Among segmentations of equal probability (a+aa, aa+a) the
// rounding decides.
static void offer(const struct unigram *u, struct reach *to, double score, int32_t begin, int32_t id)
{
    if (u->single)
        score = (double)(float)score;
    if (to->begin < 0 || score > to->score)
        *to = (struct reach){score, begin, id};
}

// Offers every token that begins at `at`. True if one of them is exactly the first character.
static bool offer_tokens(const struct unigram *u, struct text text, size_t at, size_t n_char, struct reach *reach)
{
    bool whole = false;
    int32_t node = 0;
    double here = reach[at].score;
    for (size_t i = at; i < text.size; i++) {
        const struct merge *edge = merges_find(&u->edge, node, (unsigned char)text.data[i]);
        if (!edge)
            break;
        node = edge->id;
        int32_t id = u->token_at[node];
        if (id < 0)
            continue;
        offer(u, &reach[i + 1], u->score[id] + here, (int32_t)at, id);
        whole |= i + 1 - at == n_char;
    }
    return whole;
}

static void fill_reach(const struct unigram *u, struct text text, struct reach *reach)
{
    enum utf8_state state;
    for (size_t i = 1; i <= text.size; i++)
        reach[i] = (struct reach){0, -1, -1};
    reach[0] = (struct reach){0};
    for (size_t at = 0, n; at < text.size; at += n) {
        n = utf8_next(text.data + at, text.size - at, &state);
        if (!offer_tokens(u, text, at, n, reach))
            offer(u, &reach[at + n], u->unknown + reach[at].score, (int32_t)at, -1);
    }
}

// Turns the chain of best pieces, which leads from the end to the start, around: `begin` of each becomes its end.
static void turn_around(struct reach *reach, size_t size)
{
    int32_t at = (int32_t)size, end = -1, id = -1;
    while (at >= 0) {
        struct reach r = reach[at];
        reach[at].begin = end, reach[at].id = id;
        end = at, id = r.id;
        at = at ? r.begin : -1;
    }
}

bool unigram_best(const struct unigram *u, struct text text, unigram_piece piece, void *ctx, struct error *e)
{
    struct reach *reach = malloc((text.size + 1) * sizeof *reach);
    if (!reach)
        return error_set(e, ERROR_MEMORY, "no memory for a text of %zu bytes", text.size);
    fill_reach(u, text, reach);
    turn_around(reach, text.size);
    bool ok = true;
    for (int32_t at = 0; ok && at < (int32_t)text.size; at = reach[at].begin)
        ok = piece(ctx, (struct text){text.data + at, (size_t)(reach[at].begin - at)}, reach[at].id, e);
    free(reach);
    return ok;
}
