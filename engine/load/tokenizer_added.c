#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void added_free(struct added_set *s)
{
    for (int32_t i = 0; i < s->n; i++)
        free((char *)s->token[i].text.data);
    free(s->token);
    *s = (struct added_set){0};
}

bool added_put(struct added_set *s, struct added_token token, struct error *e)
{
    if (!token.text.size)
        return true;
    if (s->n == s->capacity) {
        int32_t capacity = 2 * s->capacity + 16;
        struct added_token *grown = realloc(s->token, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for added tokens");
        s->token = grown, s->capacity = capacity;
    }
    char *copy = malloc(token.text.size);
    if (!copy)
        return error_set(e, ERROR_MEMORY, "no memory for added tokens");
    memcpy(copy, token.text.data, token.text.size);
    token.text.data = copy;
    s->token[s->n++] = token;
    return true;
}

static int compare_tokens(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    int order = text_compare(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

void added_close(struct added_set *s)
{
    if (s->n)
        qsort(s->token, (size_t)s->n, sizeof *s->token, compare_tokens);
    int32_t at = 0;
    for (int b = 0; b <= 256; b++) {
        while (at < s->n && (unsigned char)s->token[at].text.data[0] < b)
            at++;
        s->first[b] = at;
    }
}

// The character's byte at `depth` of a token that shares the first `depth` bytes with its neighbours; -1: it ends there.
static int byte_at(const struct added_token *t, size_t depth)
{
    return depth < t->text.size ? (unsigned char)t->text.data[depth] : -1;
}

// First token of low..high-1, all alike up to `depth`, whose byte there is at least `byte`.
static int32_t lower_bound(const struct added_set *s, int32_t low, int32_t high, size_t depth, int byte)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (byte_at(&s->token[middle], depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The longest token at the start of text, or NULL: narrows a range of sorted tokens byte by byte.
static const struct added_token *longest_at(const struct added_set *s, const char *text, size_t size)
{
    const struct added_token *found = NULL;
    int first = (unsigned char)text[0];
    int32_t low = s->first[first], high = s->first[first + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (s->token[low].text.size == depth)
            found = &s->token[low];
        if (depth == size)
            break;
        int byte = (unsigned char)text[depth];
        low = lower_bound(s, low, high, depth, byte);
        high = lower_bound(s, low, high, depth, byte + 1);
    }
    return found;
}

int32_t added_id(const struct added_set *s, struct text text)
{
    const struct added_token *found = text.size && s->n ? longest_at(s, text.data, text.size) : NULL;
    return found && found->text.size == text.size ? found->id : -1;
}

size_t added_size_at(const struct added_set *s, struct text text)
{
    const struct added_token *found = text.size && s->n ? longest_at(s, text.data, text.size) : NULL;
    return found ? found->text.size : 0;
}

bool unicode_is_space(int32_t c)
{
    return (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_word(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_ME) || k == UTF8PROC_CATEGORY_ND ||
           k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d;
}

// The character that begins at / ends before `at`, and its size through *n; -1 at the text's edge.
static int32_t next_char(struct text t, size_t at, size_t *n)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t size =
        at < t.size ? utf8proc_iterate((const uint8_t *)t.data + at, (utf8proc_ssize_t)(t.size - at), &c) : 0;
    *n = size > 0 ? (size_t)size : 0;
    return size > 0 ? c : -1;
}

static int32_t previous_char(struct text t, size_t at, size_t *n)
{
    size_t begin = at;
    while (begin > 0 && ((unsigned char)t.data[--begin] & 0xc0) == 0x80)
        ;
    return next_char((struct text){t.data, at}, begin, n);
}

static struct added_match widen(const struct added_token *token, struct text text, size_t taken, struct added_match m)
{
    size_t n;
    while (token->strip_left && m.begin > taken && unicode_is_space(previous_char(text, m.begin, &n)))
        m.begin -= n;
    while (token->strip_right && unicode_is_space(next_char(text, m.end, &n)))
        m.end += n;
    return m;
}

static bool touches_word(struct text text, struct added_match m)
{
    size_t n;
    return is_word(previous_char(text, m.begin, &n)) || is_word(next_char(text, m.end, &n));
}

struct added_match added_find(const struct added_set *s, struct text text, size_t from, size_t taken)
{
    for (size_t at = from; s->n && at < text.size;) {
        const struct added_token *token = longest_at(s, text.data + at, text.size - at);
        if (!token) {
            at++;
            continue;
        }
        size_t end = at + token->text.size;
        struct added_match m = {at, end, end, token->id};
        if (!token->single_word || !touches_word(text, m))
            return widen(token, text, taken, m);
        at = m.end;
    }
    return (struct added_match){0};
}
