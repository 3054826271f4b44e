// kvbench generate: a text continued by the engine, streamed as it comes, with what it took; or a chat in several turns.
#include "bench/command.h"
#include "bench/conversation.h"
#include "bench/open.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/load/tokenizer.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT_CHUNK = 512, MAX_STOPS = 16, MAX_TOKENS = 1 << 24 };
enum { CHAT_POSITIONS = 8192 }; // of a chat in several turns, unless the model takes less

struct answer {
    const struct options *o;
    struct tokenizer *tokenizer;
    struct session session;   // of a chat: kept from turn to turn
    struct token_list prompt; // all of it, the turns before included
    struct token_list kept;   // the ids that the session's KV is of
    int32_t max_tokens;       // of this answer
    int32_t n_new;            // prompt tokens whose KV was not there
    struct token_stream stream;
    char *piece; // what one id adds to the text
    size_t piece_capacity;
    char *text; // all of it so far; complete once text_file is closed
    size_t text_size;
    FILE *text_file;
    int32_t *id; // [max_tokens]
    int32_t n_ids;
    int64_t begin_ns, first_ns, last_ns; // clock at the start and after the first and the last id
};

// A chat without a prompt asks for its turns.
static bool in_turns(const struct options *o)
{
    return o->chat && !o->prompt;
}

static bool check_options(const struct options *o, struct error *e)
{
    if (o->prompt && !*o->prompt)
        return error_set(e, ERROR_USAGE, "'--prompt' is empty, expected the text to continue");
    if (!in_turns(o) && !o->prompt)
        return error_set(e, ERROR_USAGE, "option '--prompt' is missing: the text to continue (--chat asks for its turns)");
    if (in_turns(o) && (o->json || o->no_cache))
        return error_set(e, ERROR_USAGE, "'%s' needs '--prompt'", o->json ? "--json" : "--no-cache");
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s', expected --prompt", o->arg[0]);
    if (o->max_tokens < 1 || o->max_tokens > MAX_TOKENS)
        return error_set(e, ERROR_USAGE, "'--max-tokens' is %d, expected 1 to %d", o->max_tokens, MAX_TOKENS);
    if (o->system && !o->chat)
        return error_set(e, ERROR_USAGE, "'--system' needs '--chat'");
    if (o->kv.n > 1 || o->block.n > 1 || o->weights.n > 1)
        return error_set(e, ERROR_USAGE, "'%s' is a list, expected one value",
                         o->kv.n > 1      ? "--kv"
                         : o->block.n > 1 ? "--block"
                                          : "--weights");
    if (o->block.n && (o->block.value[0] < 0 || o->block.value[0] > MAX_TOKENS))
        return error_set(e, ERROR_USAGE, "'--block' is %d, expected 0 to %d", o->block.value[0], MAX_TOKENS);
    return true;
}

static bool open_tokenizer(struct tokenizer **out, const char *path, struct error *e)
{
    struct model model;
    if (!path)
        return error_set(e, ERROR_USAGE, "option '--model' is missing: a Hugging Face folder or a GGUF file");
    if (file_exists(path))
        return tokenizer_open(out, path, e);
    if (!catalogue_open_model(&model, path, e))
        return false;
    model_close(&model);
    return error_set(e, ERROR_UNSUPPORTED,
                     "'%s' has random weights and no tokenizer, expected a Hugging Face folder or a GGUF file (make model)",
                     path);
}

static bool encode_prompt(struct answer *a, struct error *e)
{
    const struct options *o = a->o;
    struct chat_message message[2] = {{"system", o->system}, {"user", in_turns(o) ? "" : o->prompt}}; // "": does it work
    bool with_system = o->system != NULL;
    if (!o->chat)
        return tokenizer_encode(a->tokenizer, o->prompt, strlen(o->prompt), true, &a->prompt, e);
    return chat_encode(a->tokenizer, with_system ? message : message + 1, with_system ? 2 : 1, &a->prompt, e);
}

// What an answer is collected in, empty again for each.
static bool answer_begin(struct answer *a, struct error *e)
{
    if (a->text_file)
        fclose(a->text_file);
    free(a->text);
    a->text = NULL, a->n_ids = 0, a->first_ns = a->last_ns = 0;
    a->stream = (struct token_stream){.tokenizer = a->tokenizer, .begun = !a->o->chat};
    a->text_file = open_memstream(&a->text, &a->text_size);
    return a->text_file || error_set(e, ERROR_MEMORY, "no memory for an answer");
}

static bool answer_init(struct answer *a, const struct options *o, struct error *e)
{
    *a = (struct answer){.o = o, .max_tokens = o->max_tokens};
    if (!open_tokenizer(&a->tokenizer, o->model, e) || !encode_prompt(a, e))
        return false;
    a->piece_capacity = token_stream_capacity(a->tokenizer);
    a->piece = malloc(a->piece_capacity + 1);
    a->id = malloc((size_t)o->max_tokens * sizeof *a->id);
    if (!a->piece || !a->id)
        return error_set(e, ERROR_MEMORY, "no memory for %d tokens", o->max_tokens);
    return answer_begin(a, e);
}

static void answer_free(struct answer *a)
{
    if (a->text_file)
        fclose(a->text_file);
    free(a->text);
    free(a->piece);
    free(a->id);
    token_list_free(&a->prompt);
    token_list_free(&a->kept);
    tokenizer_close(a->tokenizer);
}

// ---- the model

static bool check_lengths(const struct answer *a, const struct model_spec *spec, struct error *e)
{
    int64_t total = (int64_t)a->prompt.n + a->o->max_tokens;
    if (!a->prompt.n)
        return error_set(e, ERROR_USAGE, "the prompt has no tokens");
    if (tokenizer_vocab_size(a->tokenizer) > spec->vocab_size)
        return error_set(e, ERROR_FILE, "'%s': its tokenizer has %d tokens, its model %d", a->o->model,
                         tokenizer_vocab_size(a->tokenizer), spec->vocab_size);
    if (spec->max_position_embeddings > 0 && total > spec->max_position_embeddings)
        return error_set(e, ERROR_USAGE, "%d tokens of prompt and %d to generate, but '%s' takes %d in all", a->prompt.n,
                         a->o->max_tokens, spec->name, spec->max_position_embeddings);
    return true;
}

// Positions there must be room for.
static int32_t positions(const struct answer *a, const struct model_spec *spec)
{
    int32_t most = spec->max_position_embeddings;
    if (!in_turns(a->o))
        return a->prompt.n + a->o->max_tokens;
    return most > 0 && most < CHAT_POSITIONS ? most : CHAT_POSITIONS;
}

static bool open_all(struct opened *opened, const struct answer *a, struct error *e)
{
    const struct options *o = a->o;
    struct open_request request = open_request_of(o);
    if (!open_model(opened, &request, e))
        return false;
    int32_t total = positions(a, &opened->model.spec), longest = o->no_cache || in_turns(o) ? total : a->prompt.n;
    if (o->kv.n && !open_parse_type(o->kv.value[0], &opened->options.kv_k, e))
        return false;
    if (o->kv.n)
        opened->options.kv_v = opened->options.kv_k;
    struct kv_config kv =
        kv_config_for(1, total, o->block.n ? o->block.value[0] : 16, longest < PROMPT_CHUNK ? longest : PROMPT_CHUNK, 1);
    return check_lengths(a, &opened->model.spec, e) && open_engine(opened, &kv, e);
}

static int32_t stop_ids(const struct answer *a, const struct model_spec *spec, int32_t stop[MAX_STOPS])
{
    int32_t n = chat_stop_ids(a->tokenizer, stop, MAX_STOPS);
    for (int32_t i = 0; i < spec->n_eos && n < MAX_STOPS; i++)
        stop[n++] = spec->eos_token_id[i];
    return n;
}

// ---- output

static void put_piece(struct answer *a, int32_t id)
{
    size_t size = token_stream_next(&a->stream, id, a->piece, a->piece_capacity);
    fwrite(a->piece, 1, size, a->text_file);
    if (a->o->json)
        return;
    fwrite(a->piece, 1, size, stdout);
    fflush(stdout);
}

static bool on_token(void *ctx, int32_t id)
{
    struct answer *a = ctx;
    a->last_ns = clock_ns();
    if (!a->first_ns)
        a->first_ns = a->last_ns;
    put_piece(a, id);
    return !ferror(stdout) && !answer_interrupted();
}

static void put_ids(const char *key, const int32_t *id, int32_t n)
{
    printf("  \"%s\": [", key);
    for (int32_t i = 0; i < n; i++)
        printf("%s%d", i ? ", " : "", id[i]);
    printf("],\n");
}

static void print_json(const struct answer *a, const struct engine *engine)
{
    printf("{\n  \"text\": ");
    json_write_text(stdout, a->text, a->text_size);
    printf(",\n");
    put_ids("ids", a->id, a->n_ids);
    put_ids("prompt_ids", a->prompt.id, a->prompt.n);
    printf("  \"n_prompt\": %d,\n  \"n_gen\": %d,\n", a->prompt.n, a->n_ids);
    printf("  \"prefill_ns\": %lld,\n  \"decode_ns\": %lld,\n", (long long)(a->first_ns - a->begin_ns),
           (long long)(a->last_ns - a->first_ns));
    printf("  \"tokens_processed\": %lld\n}\n", (long long)engine->tokens_processed);
}

// The first id belongs to the prefill, which computed its logits.
static void print_speeds(const struct answer *a, const struct engine *engine)
{
    double prefill_s = 1e-9 * (double)(a->first_ns - a->begin_ns), decode_s = 1e-9 * (double)(a->last_ns - a->first_ns);
    fprintf(stderr, "prefill %d tokens in %.3f s, %.1f tok/s\n", a->n_new, prefill_s, a->n_new / prefill_s);
    if (a->n_ids > 1)
        fprintf(stderr, "decode %d tokens in %.3f s, %.1f tok/s\n", a->n_ids - 1, decode_s, (a->n_ids - 1) / decode_s);
    fprintf(stderr, "%lld tokens processed\n", (long long)engine->tokens_processed);
}

// ---- the command

// Takes back what the session holds beyond the beginning that it shares with the prompt.
static void keep_common(struct answer *a, struct engine *engine)
{
    int32_t n = 0;
    while (n < a->kept.n && n < a->prompt.n - 1 && a->kept.id[n] == a->prompt.id[n]) // one token at least must be run
        n++;
    session_truncate(engine, &a->session, n);
    a->n_new = a->prompt.n - n;
}

static bool note_kept(struct answer *a, struct error *e)
{
    int32_t n = a->session.table.n_tokens;
    a->kept.n = 0;
    if (!token_list_reserve(&a->kept, (size_t)n, e))
        return false;
    for (; a->kept.n < n; a->kept.n++)
        a->kept.id[a->kept.n] = a->kept.n < a->prompt.n ? a->prompt.id[a->kept.n] : a->id[a->kept.n - a->prompt.n];
    return true;
}

static bool generate(struct answer *a, struct opened *opened, struct sampler *sampler, struct error *e)
{
    int32_t stop[MAX_STOPS];
    struct token_source source = sampler_source(sampler);
    struct generate_options options = {.max_tokens = a->max_tokens,
                                       .use_cache = !a->o->no_cache,
                                       .stop = stop,
                                       .n_stop = stop_ids(a, &opened->model.spec, stop),
                                       .on_token = on_token,
                                       .ctx = a};
    keep_common(a, &opened->engine);
    a->begin_ns = clock_ns();
    bool ok = engine_generate(&opened->engine, &a->session, a->prompt.id + a->prompt.n - a->n_new, a->n_new, &source,
                              &options, a->id, &a->n_ids, e);
    put_piece(a, -1);
    fflush(a->text_file);
    if (!a->o->json)
        putchar('\n');
    fflush(stdout); // before what standard error says of it
    return ok && (a->o->no_cache || note_kept(a, e));
}

// Without flags that say how to sample, as the model's makers do.
static bool adopt_sampling(struct sampler *sampler, const struct options *o, const struct model *model, struct error *e)
{
    const struct model_sampling *s = &model->sampling;
    if (!s->is_set || o->has_temperature || o->has_top_k || o->has_top_p)
        return true;
    if (!o->quiet)
        fprintf(stderr, "sampling as generation_config.json says: temperature %g, top-k %d, top-p %g (--temp 0: greedy)\n",
                (double)s->temperature, s->top_k, (double)s->top_p);
    sampler_free(sampler);
    return sampler_init(sampler, s->temperature, s->top_k, s->top_p, (uint64_t)o->seed, e);
}

static bool generate_once(struct answer *a, struct opened *opened, struct sampler *sampler, struct error *e)
{
    if (!generate(a, opened, sampler, e))
        return false;
    if (a->o->json)
        print_json(a, &opened->engine);
    if (!a->o->quiet)
        print_speeds(a, &opened->engine);
    return true;
}

// ---- a chat in several turns

// Room for the answer: what is left, or what was asked for.
static bool fit_answer(struct answer *a, const struct model_spec *spec, struct error *e)
{
    int32_t left = positions(a, spec) - a->prompt.n;
    a->max_tokens = left < a->o->max_tokens ? left : a->o->max_tokens;
    return left > 0 || error_set(e, ERROR_USAGE, "the conversation has come to %d tokens, of %d at most", a->prompt.n,
                                 positions(a, spec));
}

static bool take_turn(struct answer *a, struct opened *opened, struct sampler *sampler, struct conversation *c,
                      struct error *e)
{
    a->prompt.n = 0;
    if (!chat_encode(a->tokenizer, c->message, c->n, &a->prompt, e) || !fit_answer(a, &opened->model.spec, e) ||
        !answer_begin(a, e))
        return false;
    answer_watch();
    bool ok = generate(a, opened, sampler, e);
    answer_unwatch();
    return ok && conversation_add(c, "assistant", a->text, e);
}

static bool converse(struct answer *a, struct opened *opened, struct sampler *sampler, struct error *e)
{
    struct conversation c = {0};
    const char *line;
    bool ok = !a->o->system || conversation_add(&c, "system", a->o->system, e);
    while (ok && (line = conversation_ask(&c))) {
        ok = conversation_add(&c, "user", line, e) && take_turn(a, opened, sampler, &c, e);
        if (ok && !a->o->quiet)
            print_speeds(a, &opened->engine);
    }
    conversation_free(&c);
    return ok;
}

static bool run(struct answer *a, struct opened *opened, struct error *e)
{
    struct sampler sampler;
    const struct options *o = a->o;
    if (!sampler_init(&sampler, (float)o->temperature, o->top_k, (float)o->top_p, (uint64_t)o->seed, e))
        return false;
    bool ok = open_all(opened, a, e) && adopt_sampling(&sampler, o, &opened->model, e);
    if (ok && !o->quiet)
        open_print_loading(stderr, opened);
    ok = ok && (in_turns(o) ? converse : generate_once)(a, opened, &sampler, e);
    session_free(&opened->engine, &a->session);
    sampler_free(&sampler);
    return ok;
}

bool cmd_generate(const struct options *o, struct error *e)
{
    struct answer a = {0};
    struct opened opened = {0};
    bool ok = check_options(o, e) && answer_init(&a, o, e) && run(&a, &opened, e);
    open_close(&opened);
    answer_free(&a);
    return ok;
}
