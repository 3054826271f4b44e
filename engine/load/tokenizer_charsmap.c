// SentencePiece's precompiled_charsmap: the size of a double array (darts-clone), the array, and the replacement texts.
// Format: a unit has its label in bits 0-7 and 31, "a value follows" in bit 8, and an offset in bits 10-30 that bit 9
// multiplies by 256. The child for byte b of the node at i lies at i ^ offset ^ b; its value at offset ^ 0.
#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

bool charsmap_init(struct charsmap *m, struct text blob, struct error *e)
{
    *m = (struct charsmap){0};
    if (!blob.size)
        return true;
    uint32_t n_trie = blob.size > 4 ? read_u32(blob.data) : 0;
    if (blob.size < 8 || n_trie < 4 || n_trie % 4 || n_trie > blob.size - 4)
        return error_set(e, ERROR_FILE, "the table of character replacements is damaged: a trie of %u bytes in %zu", n_trie,
                         blob.size);
    m->data = malloc(blob.size + 1);
    if (!m->data)
        return error_set(e, ERROR_MEMORY, "no memory for a normalizer");
    memcpy(m->data, blob.data, blob.size);
    m->data[blob.size] = 0; // ends the last text, whatever the file does
    m->size = blob.size;
    m->unit = m->data + 4, m->n_units = n_trie / 4;
    m->text = m->unit + n_trie, m->n_text = blob.size - 4 - n_trie;
    return true;
}

void charsmap_free(struct charsmap *m)
{
    free(m->data);
    *m = (struct charsmap){0};
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

struct text charsmap_find(const struct charsmap *m, struct text text, bool longest, size_t *n)
{
    struct text found = {0};
    if (!m->n_units)
        return found;
    size_t at = offset_of(read_u32(m->unit));
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        at ^= byte;
        uint32_t unit = at < m->n_units ? read_u32(m->unit + 4 * at) : 0;
        if (at >= m->n_units || (unit & (1u << 31 | 0xff)) != byte)
            break;
        at ^= offset_of(unit);
        if (!(unit & 1u << 8))
            continue;
        uint32_t value = at < m->n_units ? read_u32(m->unit + 4 * at) & ~(1u << 31) : UINT32_MAX;
        if (value > m->n_text)
            break;
        found = (struct text){m->text + value, strlen(m->text + value)}, *n = i + 1;
        if (!longest)
            break;
    }
    return found;
}
