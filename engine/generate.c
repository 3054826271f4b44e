#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

// Ids of the sequence as known here (prompt and what was generated), and a row of logits.
struct generation {
    int32_t *token; // [n_prompt + max_tokens]
    int32_t n_tokens;
    int32_t chunk;
    float *logits; // [vocab_size], NULL for oracles and where the backend chooses
};

static bool chooses_there(const struct engine *engine, const struct token_source *source)
{
    return source->sampler && engine->backend->choose;
}

static bool generation_init(struct generation *g, const struct engine *engine, const int32_t *prompt, int32_t n_prompt,
                            const struct token_source *source, const struct generate_options *options, struct error *e)
{
    size_t n = (size_t)n_prompt + (size_t)options->max_tokens;
    *g = (struct generation){.n_tokens = n_prompt, .chunk = engine->kv.max_tokens};
    if (options->chunk > 0 && options->chunk < g->chunk)
        g->chunk = options->chunk;
    bool wants_logits = source->needs_logits && !chooses_there(engine, source);
    g->token = malloc(n * sizeof *g->token);
    g->logits = wants_logits ? malloc((size_t)engine->plan->vocab_size * sizeof *g->logits) : NULL;
    if (!g->token || (wants_logits && !g->logits))
        return error_set(e, ERROR_MEMORY, "no memory for a sequence of %zu tokens", n);
    memcpy(g->token, prompt, (size_t)n_prompt * sizeof *prompt);
    return true;
}

static void generation_free(struct generation *g)
{
    free(g->token);
    free(g->logits);
}

// Runs token[n_tokens] of one session through the model in chunks; the last chunk leaves one row of logits.
static bool process(struct engine *engine, struct session *session, const int32_t *token, int32_t n_tokens, int32_t chunk,
                    struct error *e)
{
    for (int32_t done = 0; done < n_tokens;) {
        int32_t n = n_tokens - done < chunk ? n_tokens - done : chunk;
        struct step step = {.session = session,
                            .token = token + done,
                            .n_tokens = n,
                            .out = done + n == n_tokens ? STEP_OUT_LAST : STEP_OUT_NONE};
        if (!engine_step(engine, &step, 1, NULL, e))
            return false;
        done += n;
    }
    return true;
}

static bool is_stop(const struct generate_options *options, int32_t token)
{
    for (int32_t i = 0; i < options->n_stop; i++)
        if (options->stop[i] == token)
            return true;
    return false;
}

// The id that follows, once everything before it is processed.
static bool next_token(struct engine *engine, struct session *session, struct generation *g, struct token_source *source,
                       int32_t *out, struct error *e)
{
    struct backend *b = engine->backend;
    if (chooses_there(engine, source)) {
        struct choice choice = sampler_choice(source->sampler, 0, session->table.n_tokens);
        return b->choose(b->self, &choice, 1, out, e);
    }
    if (source->needs_logits && !engine_logits(engine, 0, g->logits, e))
        return false;
    *out = source->next(source->self, g->logits, engine->plan->vocab_size, session->table.n_tokens);
    return *out >= 0 || error_set(e, ERROR_MEMORY, "no memory to choose among %d tokens", engine->plan->vocab_size);
}

static bool generate(struct engine *engine, struct session *session, struct generation *g, struct token_source *source,
                     const struct generate_options *options, int32_t *out, int32_t *n_out, struct error *e)
{
    int32_t n_done = 0; // of g->token
    while (*n_out < options->max_tokens) {
        if (!options->use_cache) {
            session_truncate(engine, session, 0);
            n_done = 0;
        }
        int32_t token;
        if (!process(engine, session, g->token + n_done, g->n_tokens - n_done, g->chunk, e) ||
            !next_token(engine, session, g, source, &token, e))
            return false;
        n_done = g->n_tokens;
        out[(*n_out)++] = g->token[g->n_tokens++] = token;
        bool wanted = !options->on_token || options->on_token(options->ctx, token);
        if (!wanted || is_stop(options, token))
            break;
    }
    return true;
}

bool engine_generate(struct engine *engine, struct session *session, const int32_t *prompt, int32_t n_prompt,
                     struct token_source *source, const struct generate_options *options, int32_t *out, int32_t *n_out,
                     struct error *e)
{
    struct generation g;
    *n_out = 0;
    if (n_prompt < 1 || options->max_tokens < 0)
        return error_set(e, ERROR_USAGE, "%d tokens after a prompt of %d, expected a prompt of 1 or more",
                         options->max_tokens, n_prompt);
    if (!options->use_cache && session->table.n_tokens)
        return error_set(e, ERROR_USAGE, "without a cache a session must start empty, this one has %d tokens",
                         session->table.n_tokens);
    bool ok = generation_init(&g, engine, prompt, n_prompt, source, options, e) &&
              generate(engine, session, &g, source, options, out, n_out, e);
    generation_free(&g);
    return ok;
}
