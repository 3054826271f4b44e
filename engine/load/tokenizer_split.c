#include "engine/load/tokenizer_parts.h"

#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

const char SPLIT_GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char SPLIT_DIGIT[] = "\\p{N}";

static struct split_step *add_step(struct split *s, struct error *e)
{
    if (s->n_steps == SPLIT_MAX_STEPS) {
        error_set(e, ERROR_UNSUPPORTED, "more than %d pre-tokenizers in sequence", SPLIT_MAX_STEPS);
        return NULL;
    }
    struct split_step *step = &s->step[s->n_steps++];
    *step = (struct split_step){0};
    return step;
}

bool split_add(struct split *s, const char *pattern, bool literal, enum split_behaviour behaviour, bool invert,
               struct error *e)
{
    struct split_step *step = add_step(s, e);
    if (!step)
        return false;
    step->behaviour = behaviour, step->invert = invert;
    return pattern_init(&step->pattern, (struct text){pattern, strlen(pattern)}, literal, e);
}

bool split_add_prefix(struct split *s, const char *mark, enum split_prefix prefix, struct error *e)
{
    struct split_step *step = add_step(s, e);
    if (!step)
        return false;
    step->prefix = prefix;
    snprintf(step->mark, sizeof step->mark, "%s", mark);
    return true;
}

void split_free(struct split *s)
{
    for (int32_t i = 0; i < s->n_steps; i++)
        pattern_free(&s->step[i].pattern);
    *s = (struct split){0};
}

struct run {
    const struct split *split;
    struct matcher *matcher;
    const char *start; // of the whole text; NULL: it lies before
    split_piece piece;
    void *ctx;
    struct error *e;
};
struct part {
    size_t begin, end;
    bool is_match;
};

// Whether a part joins the one before it.
static bool joins(enum split_behaviour behaviour, struct part before, struct part now)
{
    switch (behaviour) {
    case SPLIT_CONTIGUOUS: return now.is_match == before.is_match;
    case SPLIT_WITH_PREVIOUS: return now.is_match && !before.is_match;
    case SPLIT_WITH_NEXT: return before.is_match && !now.is_match;
    case SPLIT_ISOLATED:
    case SPLIT_REMOVED: break;
    }
    return false;
}

static bool split_from(struct run *r, int32_t step, struct text text);

static bool hand_on(struct run *r, int32_t step, struct text text, struct part p)
{
    if (p.begin == p.end || (p.is_match && r->split->step[step].behaviour == SPLIT_REMOVED))
        return true;
    return split_from(r, step + 1, (struct text){text.data + p.begin, p.end - p.begin});
}

// Takes the next part: joins it to the one held back, or hands that on and holds this one.
static bool take(struct run *r, int32_t step, struct text text, struct part *held, struct part p)
{
    const struct split_step *s = &r->split->step[step];
    p.is_match ^= s->invert;
    if (joins(s->behaviour, *held, p)) {
        held->end = p.end, held->is_match = p.is_match;
        return true;
    }
    if (!hand_on(r, step, text, *held))
        return false;
    *held = p;
    return true;
}

// Where to search on after an empty match.
static size_t next_character(struct text text, size_t at)
{
    enum utf8_state state;
    return at < text.size ? at + utf8_next(text.data + at, text.size - at, &state) : text.size;
}

static bool cut(struct run *r, int32_t step, struct text text)
{
    struct part held = {0};
    struct pattern_match match = {0};
    size_t done = 0;
    bool found = true, first = true;
    for (size_t from = 0; from < text.size;) {
        if (!pattern_find(&r->split->step[step].pattern, r->matcher, text, from, &match, &found, r->e))
            return false;
        if (!found)
            break;
        bool empty = match.begin == match.end;
        from = empty ? next_character(text, match.end) : match.end;
        if (empty && !first && match.begin == done) // nothing, right behind a match
            continue;
        if (match.begin > done && !take(r, step, text, &held, (struct part){done, match.begin, false}))
            return false;
        if (!take(r, step, text, &held, (struct part){match.begin, match.end, true}))
            return false;
        done = match.end, first = false;
    }
    if (done < text.size && !take(r, step, text, &held, (struct part){done, text.size, false}))
        return false;
    return hand_on(r, step, text, held);
}

// Writes the step's mark for each space and, where it is wanted and not there yet, one before the text.
static bool put_prefix(struct run *r, int32_t step, struct text text)
{
    const struct split_step *s = &r->split->step[step];
    struct text mark = {s->mark, strlen(s->mark)};
    struct text_buffer out = {0};
    bool at_start = text.data == r->start, ok = true, marked = mark.size != 1 || *mark.data != ' ';
    bool begins = (text.data[0] == ' ' && mark.size) || (text.size >= mark.size && !memcmp(text.data, mark.data, mark.size));
    if (!begins && (s->prefix == PREFIX_ALWAYS || (s->prefix == PREFIX_FIRST && at_start)))
        ok = buffer_put(&out, mark, r->e);
    for (size_t at = 0, n; ok && at < text.size; at += n) {
        const char *space = marked ? memchr(text.data + at, ' ', text.size - at) : NULL;
        n = space ? (size_t)(space - text.data) - at : text.size - at;
        ok = buffer_put(&out, (struct text){text.data + at, n}, r->e) && (!space || buffer_put(&out, mark, r->e));
        n += space != NULL;
    }
    struct run inner = *r;
    inner.start = at_start ? out.data : NULL;
    ok = ok && split_from(&inner, step + 1, (struct text){out.data, out.size});
    buffer_free(&out);
    return ok;
}

static bool split_from(struct run *r, int32_t step, struct text text)
{
    if (step == r->split->n_steps)
        return r->piece(r->ctx, text, r->e);
    return r->split->step[step].pattern.code ? cut(r, step, text) : put_prefix(r, step, text);
}

bool split_text(const struct split *s, struct matcher *m, struct text text, bool at_start, split_piece piece, void *ctx,
                struct error *e)
{
    struct run r = {s, m, at_start ? text.data : NULL, piece, ctx, e};
    return !text.size || split_from(&r, 0, text);
}
