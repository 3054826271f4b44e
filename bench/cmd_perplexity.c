// kvbench perplexity: the quality of a model on a text, window by window.
#include "bench/command.h"
#include "bench/perplexity.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/load/tokenizer.h"

#include <math.h>
#include <string.h>

static bool read_ids(const struct options *o, struct token_list *ids, struct error *e)
{
    struct tokenizer *tokenizer;
    struct file text;
    if (!o->text)
        return error_set(e, ERROR_USAGE, "option '--text' is missing: the file to predict");
    if (!file_open(&text, o->text, e))
        return false;
    bool ok = tokenizer_open(&tokenizer, o->model, e);
    if (ok) {
        ok = tokenizer_encode(tokenizer, text.data ? text.data : "", text.size, false, ids, e);
        tokenizer_close(tokenizer);
    }
    file_close(&text);
    return ok;
}

static void print_window(void *ctx, int32_t index, double nll)
{
    (void)ctx;
    printf("  window %3d  nll %8.5f  perplexity %9.4f\n", index + 1, nll, exp(nll));
    fflush(stdout);
}

static void print_json(const struct options *o, const struct opened *opened, const struct perplexity *p, int32_t n_tokens)
{
    printf("{\n  \"model\": ");
    json_write_text(stdout, opened->model.spec.name, strlen(opened->model.spec.name));
    printf(",\n  \"text\": ");
    json_write_text(stdout, o->text, strlen(o->text));
    printf(",\n  \"tokens_in_text\": %d,\n  \"window\": %d,\n  \"windows\": %d,\n", n_tokens, o->window, p->n_windows);
    printf("  \"weights\": \"%s\",\n  \"kv\": \"%s\",\n", dtype_name(plan_weight_type(opened->plan)),
           dtype_name(opened->options.kv_k));
    printf("  \"nll_per_window\": [");
    for (int32_t i = 0; i < p->n_windows; i++)
        printf("%s%.9g", i ? ", " : "", p->nll[i]);
    printf("],\n  \"nll\": %.9g,\n  \"perplexity\": %.9g\n}\n", p->mean, p->value);
}

static bool measure(struct opened *opened, const struct options *o, const struct token_list *ids, enum dtype kv,
                    struct error *e)
{
    struct perplexity p;
    struct perplexity_options options = {
        .window = o->window, .windows = o->windows, .kv = kv, .on_window = o->json ? NULL : print_window};
    if (!o->json)
        printf("%s, %s weights, %s KV, on '%s' (%d tokens)\n", opened->model.spec.name,
               dtype_name(plan_weight_type(opened->plan)), dtype_name(kv), o->text, ids->n);
    if (!o->json)
        open_print_loading(stdout, opened);
    if (!perplexity_measure(opened, &options, ids->id, ids->n, &p, e))
        return false;
    if (o->json)
        print_json(o, opened, &p, ids->n);
    else
        printf("perplexity %.4f over %d windows of %d tokens, %d predictions each\n", p.value, p.n_windows, o->window,
               o->window - 1);
    perplexity_free(&p);
    return true;
}

bool cmd_perplexity(const struct options *o, struct error *e)
{
    struct open_request request = open_request_of(o);
    struct opened opened = {0};
    struct token_list ids = {0};
    enum dtype kv = DTYPE_F32;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s'", o->arg[0]);
    if (!o->model || !file_exists(o->model))
        return error_set(e, ERROR_USAGE, "'--model' is %s%.200s%s, expected a Hugging Face folder or a GGUF file",
                         o->model ? "'" : "missing", o->model ? o->model : "", o->model ? "'" : "");
    if (o->kv.n > 1 || o->weights.n > 1)
        return error_set(e, ERROR_USAGE, "'--%s' is a list, expected one type", o->kv.n > 1 ? "kv" : "weights");
    if (o->kv.n && !open_parse_type(o->kv.value[0], &kv, e))
        return error_prefix(e, "'--kv'");
    bool ok = read_ids(o, &ids, e) && open_model(&opened, &request, e) && measure(&opened, o, &ids, kv, e);
    open_close(&opened);
    token_list_free(&ids);
    return ok;
}
