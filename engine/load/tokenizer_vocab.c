#include "engine/load/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_text(struct text t)
{
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a, folded
    for (size_t i = 0; i < t.size; i++)
        h = (h ^ (unsigned char)t.data[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

bool vocab_init(struct vocab *v, int32_t n, struct error *e)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)n)
        slots *= 2;
    *v = (struct vocab){.n = n, .mask = slots - 1};
    v->entry = malloc(((size_t)n + 1) * sizeof *v->entry);
    v->slot = malloc(slots * sizeof *v->slot);
    if (!v->entry || !v->slot) {
        vocab_free(v);
        return error_set(e, ERROR_MEMORY, "no memory for a vocabulary of %d tokens", n);
    }
    for (int32_t i = 0; i < n; i++)
        v->entry[i] = (struct vocab_entry){0, VOCAB_NO_TEXT};
    memset(v->slot, 0xff, slots * sizeof *v->slot);
    memset(v->byte_id, 0xff, sizeof v->byte_id);
    return true;
}

void vocab_free(struct vocab *v)
{
    free(v->entry);
    free(v->bytes);
    free(v->slot);
    *v = (struct vocab){0};
}

struct text vocab_text(const struct vocab *v, int32_t id)
{
    if (id < 0 || id >= v->n || v->entry[id].size == VOCAB_NO_TEXT)
        return (struct text){0};
    return (struct text){v->bytes + v->entry[id].at, (size_t)v->entry[id].size};
}

// The slot that holds this text, or the empty one where it belongs.
static int32_t *find_slot(const struct vocab *v, struct text t)
{
    uint32_t at = hash_text(t) & v->mask;
    while (v->slot[at] >= 0 && text_compare(vocab_text(v, v->slot[at]), t))
        at = (at + 1) & v->mask;
    return &v->slot[at];
}

int32_t vocab_find(const struct vocab *v, struct text bytes)
{
    return *find_slot(v, bytes);
}

static bool append(struct vocab *v, struct text bytes, struct error *e)
{
    if (v->n_bytes + bytes.size > UINT32_MAX)
        return error_set(e, ERROR_UNSUPPORTED, "the tokens' texts take more than 4 GiB");
    if (!v->bytes || v->n_bytes + bytes.size > v->capacity) {
        size_t capacity = 2 * (v->n_bytes + bytes.size) + 1024;
        char *grown = realloc(v->bytes, capacity);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for a vocabulary");
        v->bytes = grown, v->capacity = capacity;
    }
    if (bytes.size)
        memcpy(v->bytes + v->n_bytes, bytes.data, bytes.size);
    v->n_bytes += bytes.size;
    return true;
}

bool vocab_set(struct vocab *v, int32_t id, struct text bytes, bool findable, struct error *e)
{
    if (id < 0 || id >= v->n)
        return error_set(e, ERROR_FILE, "token id %d is outside 0..%d", id, v->n - 1);
    if (vocab_text(v, id).data)
        return error_set(e, ERROR_FILE, "two tokens have the id %d", id);
    uint32_t at = (uint32_t)v->n_bytes;
    if (!append(v, bytes, e))
        return false;
    v->entry[id] = (struct vocab_entry){at, (int32_t)bytes.size};
    if ((int32_t)bytes.size > v->longest)
        v->longest = (int32_t)bytes.size;
    int32_t *slot = findable ? find_slot(v, bytes) : NULL;
    if (slot && *slot < 0)
        *slot = id;
    if (findable && bytes.size == 1)
        v->byte_id[(unsigned char)bytes.data[0]] = id;
    return true;
}

// GPT-2's alphabet: printable Latin-1 stands for itself, the other 68 bytes, in order, for U+0100 and up.
static bool stands_for_itself(unsigned c)
{
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

static int byte_of_character(unsigned c)
{
    if (c < 0x100)
        return stands_for_itself(c) ? (int)c : -1;
    unsigned nth = c - 0x100, b = 0;
    for (; b < 0x100; b++)
        if (!stands_for_itself(b) && !nth--)
            return (int)b;
    return -1;
}

int32_t byte_level_decode(struct text text, char *out)
{
    int32_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned c = (unsigned char)text.data[i];
        if (c >= 0xc2 && c <= 0xc5 && i + 1 < text.size) // all of the alphabet beyond ASCII takes two bytes
            c = (c & 0x1f) << 6 | ((unsigned char)text.data[++i] & 0x3f);
        else if (c >= 0x80)
            return -1;
        int byte = byte_of_character(c);
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
    }
    return n;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int byte_of_token(struct text t)
{
    if (t.size != 6 || memcmp(t.data, "<0x", 3) || t.data[5] != '>')
        return -1;
    int high = hex_digit(t.data[3]), low = hex_digit(t.data[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

void vocab_find_bytes(struct vocab *v)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        v->byte_id[byte] = vocab_find(v, (struct text){text, 6});
    }
}
