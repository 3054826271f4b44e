// kvbench generate: a text continued by the engine, streamed as it comes, with what it took.
#include "bench/command.h"
#include "bench/open.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/load/tokenizer.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT_CHUNK = 512, MAX_STOPS = 16 };

struct answer {
    const struct options *o;
    struct tokenizer *tokenizer;
    struct token_list prompt;
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

static bool check_options(const struct options *o, struct error *e)
{
    if (!o->prompt || !*o->prompt)
        return error_set(e, ERROR_USAGE, "option '--prompt' is missing: the text to continue");
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s', expected --prompt", o->arg[0]);
    if (o->max_tokens < 1)
        return error_set(e, ERROR_USAGE, "'--max-tokens' is %d, expected 1 or more", o->max_tokens);
    if (o->system && !o->chat)
        return error_set(e, ERROR_USAGE, "'--system' needs '--chat'");
    if (o->kv.n > 1 || o->block.n > 1 || o->weights.n > 1)
        return error_set(e, ERROR_USAGE, "'%s' is a list, expected one value",
                         o->kv.n > 1      ? "--kv"
                         : o->block.n > 1 ? "--block"
                                          : "--weights");
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
    struct chat_message message[2] = {{"system", o->system}, {"user", o->prompt}};
    bool with_system = o->system != NULL;
    char *text = NULL;
    if (!o->chat)
        return tokenizer_encode(a->tokenizer, o->prompt, strlen(o->prompt), true, &a->prompt, e);
    bool ok = chat_render(a->tokenizer, with_system ? message : message + 1, with_system ? 2 : 1, &text, e) &&
              tokenizer_encode(a->tokenizer, text, strlen(text), false, &a->prompt, e);
    free(text);
    return ok;
}

static bool answer_init(struct answer *a, const struct options *o, struct error *e)
{
    *a = (struct answer){.o = o};
    if (!open_tokenizer(&a->tokenizer, o->model, e) || !encode_prompt(a, e))
        return false;
    a->stream.tokenizer = a->tokenizer;
    a->piece_capacity = token_stream_capacity(a->tokenizer);
    a->piece = malloc(a->piece_capacity + 1);
    a->id = malloc((size_t)o->max_tokens * sizeof *a->id);
    a->text_file = open_memstream(&a->text, &a->text_size);
    return (a->piece && a->id && a->text_file) || error_set(e, ERROR_MEMORY, "no memory for %d tokens", o->max_tokens);
}

static void answer_free(struct answer *a)
{
    if (a->text_file)
        fclose(a->text_file);
    free(a->text);
    free(a->piece);
    free(a->id);
    token_list_free(&a->prompt);
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

static bool open_all(struct opened *opened, const struct answer *a, struct error *e)
{
    const struct options *o = a->o;
    struct open_request request = open_request_of(o);
    int32_t total = a->prompt.n + o->max_tokens, longest = o->no_cache ? total : a->prompt.n;
    if (!open_model(opened, &request, e))
        return false;
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
    return !ferror(stdout);
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
    fprintf(stderr, "prefill %d tokens in %.3f s, %.1f tok/s\n", a->prompt.n, prefill_s, a->prompt.n / prefill_s);
    if (a->n_ids > 1)
        fprintf(stderr, "decode %d tokens in %.3f s, %.1f tok/s\n", a->n_ids - 1, decode_s, (a->n_ids - 1) / decode_s);
    fprintf(stderr, "%lld tokens processed\n", (long long)engine->tokens_processed);
}

// ---- the command

static bool generate(struct answer *a, struct opened *opened, struct sampler *sampler, struct error *e)
{
    int32_t stop[MAX_STOPS];
    struct session session = {0};
    struct token_source source = sampler_source(sampler);
    struct generate_options options = {.max_tokens = a->o->max_tokens,
                                       .use_cache = !a->o->no_cache,
                                       .stop = stop,
                                       .n_stop = stop_ids(a, &opened->model.spec, stop),
                                       .on_token = on_token,
                                       .ctx = a};
    a->begin_ns = clock_ns();
    bool ok = engine_generate(&opened->engine, &session, a->prompt.id, a->prompt.n, &source, &options, a->id, &a->n_ids, e);
    put_piece(a, -1);
    fflush(a->text_file);
    session_free(&opened->engine, &session);
    if (!a->o->json)
        putchar('\n');
    return ok;
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

static bool run(struct answer *a, struct opened *opened, struct error *e)
{
    struct sampler sampler;
    const struct options *o = a->o;
    if (!sampler_init(&sampler, (float)o->temperature, o->top_k, (float)o->top_p, (uint64_t)o->seed, e))
        return false;
    bool ok = open_all(opened, a, e) && adopt_sampling(&sampler, o, &opened->model, e) && generate(a, opened, &sampler, e);
    if (ok && o->json)
        print_json(a, &opened->engine);
    if (ok && !o->quiet)
        print_speeds(a, &opened->engine);
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
