// Texts repeat their words. A small direct-mapped table remembers what became of the short ones; it fits in the L2 cache,
// which the tables of a large vocabulary do not.
#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_SLOTS = 1 << 13, CACHE_TEXT = 22, CACHE_IDS = 10 };

struct piece_cache {
    struct slot {
        unsigned char size, n; // size 0: empty
        char text[CACHE_TEXT];
        int32_t id[CACHE_IDS];
    } slot[CACHE_SLOTS];
};

struct piece_cache *piece_cache_new(void)
{
    return calloc(1, sizeof(struct piece_cache));
}

void piece_cache_free(struct piece_cache *c)
{
    free(c);
}

static uint64_t load(const char *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static uint32_t slot_of(struct text t)
{
    uint64_t h = t.size;
    for (size_t at = 0; at < t.size; at += 8)
        h = (h ^ load(t.data + at, t.size - at < 8 ? t.size - at : 8)) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40) & (CACHE_SLOTS - 1);
}

const int32_t *piece_cache_find(const struct piece_cache *c, struct text piece, int32_t *n)
{
    if (!c || !piece.size || piece.size > CACHE_TEXT)
        return NULL;
    const struct slot *s = &c->slot[slot_of(piece)];
    if (s->size != piece.size || memcmp(s->text, piece.data, piece.size))
        return NULL;
    *n = s->n;
    return s->id;
}

void piece_cache_put(struct piece_cache *c, struct text piece, const int32_t *id, int32_t n)
{
    if (!c || !piece.size || piece.size > CACHE_TEXT || n > CACHE_IDS)
        return;
    struct slot *s = &c->slot[slot_of(piece)];
    s->size = (unsigned char)piece.size, s->n = (unsigned char)n;
    memcpy(s->text, piece.data, piece.size);
    memcpy(s->id, id, (size_t)n * sizeof *id);
}
