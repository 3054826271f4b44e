// The engine's public nouns. An engine is a loaded model on a backend with a KV pool; a session is one token sequence
// with its KV. Everything that runs tokens (bench, generate, verify) is an ordinary client of this header.
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backend.h"
#include "engine/kv/pool.h"
#include "engine/token_source.h"

struct engine {
    const struct plan *plan; // the caller's
    struct backend *backend; // the caller's, loaded with this plan
    struct kv_pool pool;
    struct kv_config kv;
    int64_t tokens_processed;     // rows run through the model so far
    struct step_buffers *buffers; // owned: arrays of the batch being built
};

// A sequence. Zeroed: an empty one.
struct session {
    struct kv_table table; // table.n_tokens positions are processed and in the KV
};

// Whether the backend has every operation of the plan. What it lacks is named.
bool engine_supports(const struct plan *plan, const struct backend *backend, struct error *e);

// The order of opening: plan_make, then (where the backend computes) weights_open for that plan and backend->load, then
// this. Plan and backend must outlive the engine; kv gives pool and largest step (bench/open.h does all of it for commands).
// Opening again on the same backend replaces plan and pool: that is how one set of weights serves many KV shapes.
bool engine_open(struct engine *engine, const struct plan *plan, struct backend *backend, const struct kv_config *kv,
                 struct error *e);
void engine_close(struct engine *engine); // accepts zeroed; leaves the backend to its owner

// Which logits a step wants of a session's rows.
enum step_out { STEP_OUT_NONE, STEP_OUT_LAST, STEP_OUT_ALL };

struct step {
    struct session *session;
    const int32_t *token; // [n_tokens] ids to append
    int32_t n_tokens;
    enum step_out out;
    int32_t first_out; // filled: index of this session's first output row for engine_logits
};

// Appends tokens to every session in one batch (prefill and decode rows may mix; each session at most once). On failure
// no session has changed except that KV room may have been reserved. trace may be NULL. Allocates only when a table is
// longer than any before.
bool engine_step(struct engine *engine, struct step *steps, int32_t n_steps, struct trace *trace, struct error *e);

// Logits of output row i of the last step: [vocab_size].
bool engine_logits(struct engine *engine, int32_t out_row, float *logits, struct error *e);

// Gives a session n_tokens more positions of seeded random KV without running the model (benchmarks make context so).
bool session_fill(struct engine *engine, struct session *session, int32_t n_tokens, uint64_t seed, struct error *e);
bool session_fork(struct engine *engine, const struct session *from, struct session *to, struct error *e);
void session_truncate(struct engine *engine, struct session *session, int32_t n_tokens);
void session_free(struct engine *engine, struct session *session); // accepts zeroed

struct generate_options {
    int32_t max_tokens;  // to generate
    int32_t chunk;       // rows of prompt per step; 0: kv.max_tokens
    bool use_cache;      // false: recompute the whole prefix at each step (the session must be empty)
    const int32_t *stop; // [n_stop] ids that end the sequence
    int32_t n_stop;
    // Called for each new token; returning false ends generation. May be NULL.
    bool (*on_token)(void *ctx, int32_t token);
    void *ctx;
};

// Appends prompt[n_prompt] to the session, then generates: out[max_tokens] ids, *n_out of them (a stop id included).
// The last id is not processed, so the session ends one position before it.
bool engine_generate(struct engine *engine, struct session *session, const int32_t *prompt, int32_t n_prompt,
                     struct token_source *source, const struct generate_options *options, int32_t *out, int32_t *n_out,
                     struct error *e);

#endif
