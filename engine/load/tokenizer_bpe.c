#include "engine/load/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)(pair * 0x9e3779b97f4a7c15u >> 32);
}

bool merges_init(struct merges *m, int32_t n, struct error *e)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)n)
        slots *= 2;
    *m = (struct merges){.slot = malloc(slots * sizeof *m->slot), .mask = slots - 1};
    if (!m->slot)
        return error_set(e, ERROR_MEMORY, "no memory for %d merges", n);
    memset(m->slot, 0xff, slots * sizeof *m->slot);
    return true;
}

void merges_free(struct merges *m)
{
    free(m->slot);
    *m = (struct merges){0};
}

static struct merge *find_slot(const struct merges *m, int32_t left, int32_t right)
{
    uint32_t at = hash_pair(left, right) & m->mask;
    while (m->slot[at].left >= 0 && (m->slot[at].left != left || m->slot[at].right != right))
        at = (at + 1) & m->mask;
    return &m->slot[at];
}

static bool grow(struct merges *m, struct error *e)
{
    struct merges old = *m;
    if (old.mask >= UINT32_MAX / 4)
        return error_set(e, ERROR_UNSUPPORTED, "too many merges");
    uint32_t slots = 2 * (old.mask + 1);
    struct merge *grown = malloc(slots * sizeof *grown);
    if (!grown)
        return error_set(e, ERROR_MEMORY, "no memory for %u merges", m->n);
    memset(grown, 0xff, slots * sizeof *grown);
    m->slot = grown, m->mask = slots - 1;
    for (uint32_t i = 0; i <= old.mask; i++)
        if (old.slot[i].left >= 0)
            *find_slot(m, old.slot[i].left, old.slot[i].right) = old.slot[i];
    free(old.slot);
    return true;
}

bool merges_put(struct merges *m, struct merge merge, struct error *e)
{
    if (2 * m->n > m->mask && !grow(m, e))
        return false;
    struct merge *slot = find_slot(m, merge.left, merge.right);
    m->n += slot->left < 0;
    *slot = merge;
    return true;
}

static uint32_t hash_joint(uint32_t last, uint32_t first)
{
    return (last * 0x9e3779b1u ^ first * 0x85ebca6bu) >> 16 & (JOINT_BITS - 1);
}

void merges_put_joint(struct merges *m, uint32_t last, uint32_t first)
{
    uint32_t bit = hash_joint(last, first);
    m->joint[bit / 64] |= (uint64_t)1 << bit % 64;
}

bool merges_may_join(const struct merges *m, uint32_t last, uint32_t first)
{
    uint32_t bit = hash_joint(last, first);
    return m->joint[bit / 64] >> bit % 64 & 1;
}

const struct merge *merges_find(const struct merges *m, int32_t left, int32_t right)
{
    const struct merge *found = find_slot(m, left, right);
    return found->left >= 0 ? found : NULL;
}

static int32_t merge_short(const struct merges *m, int32_t *id, int32_t n)
{
    const struct merge *pair[BPE_SHORT]; // pair[i]: what becomes of id[i] and id[i + 1]
    for (int32_t i = 0; i + 1 < n; i++)
        pair[i] = merges_find(m, id[i], id[i + 1]);
    for (;;) {
        int32_t best = -1;
        for (int32_t i = 0; i + 1 < n; i++)
            if (pair[i] && (best < 0 || pair[i]->rank < pair[best]->rank))
                best = i;
        if (best < 0)
            return n;
        id[best] = pair[best]->id;
        n--;
        memmove(id + best + 1, id + best + 2, (size_t)(n - best - 1) * sizeof *id);
        if (best + 1 < n)
            memmove(pair + best + 1, pair + best + 2, (size_t)(n - best - 2) * sizeof *pair);
        if (best + 1 < n)
            pair[best] = merges_find(m, id[best], id[best + 1]);
        if (best > 0)
            pair[best - 1] = merges_find(m, id[best - 1], id[best]);
    }
}

// Long pieces: symbols in a linked list, candidates in a binary heap by (rank, position). A candidate is stale, and
// skipped, when its two symbols are no longer what they were.
struct symbol {
    int32_t id, previous, next; // id -1: joined into its left neighbour
};
struct candidate {
    const struct merge *merge;
    int32_t at;
};
struct queue {
    struct candidate *item;
    int32_t n;
};

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->merge->rank != b->merge->rank ? a->merge->rank < b->merge->rank : a->at < b->at;
}

static void queue_push(struct queue *q, struct candidate c)
{
    int32_t i = q->n++;
    for (int32_t up; i > 0 && (up = (i - 1) / 2, before(&c, &q->item[up])); i = up)
        q->item[i] = q->item[up];
    q->item[i] = c;
}

static struct candidate queue_pop(struct queue *q)
{
    struct candidate top = q->item[0], last = q->item[--q->n];
    int32_t i = 0;
    for (int32_t down; (down = 2 * i + 1) < q->n; i = down) {
        down += down + 1 < q->n && before(&q->item[down + 1], &q->item[down]);
        if (!before(&q->item[down], &last))
            break;
        q->item[i] = q->item[down];
    }
    q->item[i] = last;
    return top;
}

static void queue_pair(struct queue *q, const struct merges *m, const struct symbol *s, int32_t at)
{
    if (at < 0 || s[at].next < 0)
        return;
    const struct merge *merge = merges_find(m, s[at].id, s[s[at].next].id);
    if (merge)
        queue_push(q, (struct candidate){merge, at});
}

static void merge_queued(struct queue *q, const struct merges *m, struct symbol *s)
{
    while (q->n) {
        struct candidate c = queue_pop(q);
        int32_t at = c.at, right = s[at].next;
        if (right < 0 || s[at].id != c.merge->left || s[right].id != c.merge->right)
            continue;
        s[at].id = c.merge->id;
        s[at].next = s[right].next;
        s[right].id = -1;
        if (s[at].next >= 0)
            s[s[at].next].previous = at;
        queue_pair(q, m, s, s[at].previous);
        queue_pair(q, m, s, at);
    }
}

static int32_t merge_long(const struct merges *m, int32_t *id, int32_t n)
{
    struct symbol *s = malloc((size_t)n * sizeof *s);
    struct queue q = {malloc(3 * (size_t)n * sizeof *q.item), 0}; // each of n - 1 joins queues at most two more pairs
    int32_t left = -1;
    if (!s || !q.item)
        goto out;
    for (int32_t i = 0; i < n; i++)
        s[i] = (struct symbol){id[i], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n; i++)
        queue_pair(&q, m, s, i);
    merge_queued(&q, m, s);
    left = 0;
    for (int32_t i = 0; i >= 0; i = s[i].next)
        id[left++] = s[i].id;
out:
    free(s);
    free(q.item);
    return left;
}

int32_t bpe_merge(const struct merges *m, int32_t *id, int32_t n)
{
    return n <= BPE_SHORT ? merge_short(m, id, n) : merge_long(m, id, n);
}
