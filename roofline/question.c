#include "roofline/question.h"

#include <stdio.h>
#include <string.h>

static bool parse_type(const char *flag, const char *text, enum dtype *out, struct error *e)
{
    char known[320] = "";
    if (dtype_parse(text, out))
        return true;
    for (int i = 0; i < DTYPE_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", dtype_name((enum dtype)i));
    return error_set(e, ERROR_USAGE, "'%s': unknown type '%.40s', expected one of %s", flag, text, known);
}

// One type; the options that other commands take as lists stand here for one value.
static bool one_type(const char *flag, const struct text_list *list, enum dtype *out, struct error *e)
{
    if (list->n > 1)
        return error_set(e, ERROR_USAGE, "'%s' has %d values, expected one", flag, list->n);
    return !list->n || parse_type(flag, list->value[0], out, e);
}

static bool one_number(const char *flag, const struct int_list *list, int32_t min, int32_t *out, struct error *e)
{
    if (list->n != 1)
        return error_set(e, ERROR_USAGE, "'%s' %s, expected one number", flag, list->n ? "is a list" : "is missing");
    if (list->value[0] < min)
        return error_set(e, ERROR_USAGE, "'%s' is %d, expected %d or more", flag, list->value[0], min);
    *out = list->value[0];
    return true;
}

// Families that are priced only have names of their own for tensors: their files say how many bytes, not of what.
static bool is_run(const struct model_spec *s)
{
    return !s->experts.num_experts && !s->mla.kv_lora_rank && !s->state.num_v_heads && !s->layer_norm;
}

// What a rank holds of the bytes that the files hold: its share by tensor.
static uint64_t share_of_files(const struct question *q, int32_t stage)
{
    double share = (double)plan_weight_bytes(&q->stage[stage]) / (double)plan_weight_bytes(&q->whole);
    return (uint64_t)((double)q->stored_bytes * share + 0.5);
}

static bool choose_types(const struct options *o, struct question *q, struct error *e)
{
    q->weights = q->expected = q->model.spec.dtype;
    if (!one_type("--weights", &o->weights, &q->weights, e))
        return false;
    q->types = plan_options_default(q->weights);
    q->types.tp = o->tp, q->types.dp_attention = o->dp_attention;
    bool named = is_run(&q->model.spec); // its tensors are found by name
    q->stored_bytes = o->weights.n ? 0 : model_stored_bytes(&q->model);
    if (!o->weights.n && model_has_weights(&q->model) && q->model.format != MODEL_RANDOM && named) {
        q->types.tensor_dtype = model_tensor_dtype; // what the file really stores
        q->types.ctx = &q->model;
    } else if (budget_keeps_16_bit(q->weights)) {
        q->types.tensor_dtype = budget_tensor_dtype;
        q->types.ctx = &q->weights;
    }
    enum dtype kv = q->types.kv_k;
    if (!one_type("--kv", &o->kv, &kv, e))
        return false;
    q->types.kv_k = q->types.kv_v = kv;
    return one_type("--type-k", &o->type_k, &q->types.kv_k, e) && one_type("--type-v", &o->type_v, &q->types.kv_v, e);
}

static bool at_least_one(const char *flag, int32_t value, int32_t max, struct error *e)
{
    return (value >= 1 && value <= max) || error_set(e, ERROR_USAGE, "'%s' is %d, expected 1 to %d", flag, value, max);
}

static bool read_ranks(const struct options *o, struct question *q, struct error *e)
{
    q->pp = o->pp, q->query.dcp = o->dcp;
    if (o->tp < 1)
        return error_set(e, ERROR_USAGE, "'--tp' is %d, expected 1 or more", o->tp);
    if (!at_least_one("--pp", o->pp, QUESTION_MAX_STAGES, e) || !at_least_one("--dcp", o->dcp, 1 << 16, e))
        return false;
    if (o->tp % o->dcp)
        return error_set(e, ERROR_USAGE, "'--dcp' is %d, expected a divisor of --tp %d: the same ranks", o->dcp, o->tp);
    return true;
}

static bool read_engine(const struct options *o, struct question *q, struct error *e)
{
    q->serving = (struct serving){.max_batched_tokens = o->max_batched_tokens, .dcp = o->dcp, .printed = -1};
    q->budget = (struct budget_query){.util = o->util, .max_batched_tokens = o->max_batched_tokens, .max_seqs = o->max_seqs};
    q->max_model_len = o->max_model_len ? o->max_model_len : q->query.context;
    if (!at_least_one("--max-batched-tokens", o->max_batched_tokens, 1 << 24, e) ||
        !at_least_one("--max-seqs", o->max_seqs, 1 << 24, e))
        return false;
    if (o->max_model_len < 0)
        return error_set(e, ERROR_USAGE, "'--max-model-len' is %d, expected 0 or more", o->max_model_len);
    if (o->activation_bytes && !capacity_parse_bytes(o->activation_bytes, &q->budget.activation_bytes, e))
        return error_prefix(e, "'--activation-bytes'");
    q->has_engine = o->engine && *o->engine;
    if (q->has_engine && !serving_engine_parse(o->engine, &q->serving.engine))
        return error_set(e, ERROR_USAGE, "'--engine': unknown engine '%.40s', expected vllm, sglang, trtllm or llamacpp",
                         o->engine);
    if (o->engine_version && *o->engine_version)
        q->serving.version = serving_version_parse(o->engine_version);
    if (o->has_block)
        q->serving.block_size = q->query.block;
    q->budget.engine = q->serving.engine;
    return true;
}

static bool read_query(const struct options *o, struct capacity_query *query, struct error *e)
{
    *query = (struct capacity_query){.batch = o->load, .util = o->util};
    if (!o->model)
        return error_set(e, ERROR_USAGE, "'--model' is missing (see kvbench list models)");
    if (o->load < 0)
        return error_set(e, ERROR_USAGE, "'--batch' is %d, expected 0 or more", o->load);
    if (o->weight_bytes && !capacity_parse_bytes(o->weight_bytes, &query->weight_bytes, e))
        return error_prefix(e, "'--weight-bytes'");
    return one_number("--context", &o->context, 1, &query->context, e) &&
           one_number("--block", &o->block, 0, &query->block, e);
}

bool question_read(const struct options *o, struct question *q, struct error *e)
{
    *q = (struct question){.pp = 0};
    if (!read_query(o, &q->query, e) || !read_ranks(o, q, e) || !read_engine(o, q, e) ||
        !catalogue_open_model(&q->model, o->model, e) || !choose_types(o, q, e))
        return false;
    q->budget.weight_bytes = q->query.weight_bytes;
    return hardware_load(&q->hardware, o->hardware, e);
}

static void drop_plans(struct question *q)
{
    plan_free(&q->whole);
    for (int32_t s = 0; s < QUESTION_MAX_STAGES; s++)
        plan_free(&q->stage[s]);
}

void question_close(struct question *q)
{
    drop_plans(q);
    model_close(&q->model);
    *q = (struct question){.pp = 0};
}

bool question_plan(struct question *q, struct error *e)
{
    struct plan_options options = q->types;
    drop_plans(q);
    if (q->types.ctx && q->types.tensor_dtype == budget_tensor_dtype)
        options.ctx = &q->weights; // the question may have been copied
    for (int32_t s = 0; s < q->pp; s++) {
        options.pp = q->pp, options.stage = s;
        if (!plan_make(&q->stage[s], &q->model.spec, &options, e))
            return false;
    }
    options.tp = options.pp = 1, options.stage = 0, options.dp_attention = false;
    return plan_make(&q->whole, &q->model.spec, &options, e);
}

// The stage with the least room decides; it is the one with the most bytes per request.
static bool ask_stages(const struct question *q, struct answer *a, struct error *e)
{
    struct capacity_query query = q->query;
    struct capacity c;
    int32_t fewest = INT32_MAX;
    for (int32_t s = 0; s < q->pp; s++) {
        query.held_bytes = q->stored_bytes ? share_of_files(q, s) : 0;
        if (!capacity_of(&q->stage[s], &q->hardware, &query, &c, e))
            return false;
        bool fuller = s == 0 || c.max_requests < fewest ||
                      (c.max_requests == fewest && c.kv_bytes_per_request > a->capacity.kv_bytes_per_request);
        if (fuller)
            a->capacity = c, a->fullest = s, fewest = c.max_requests;
    }
    return true;
}

// Requests go through the stages in as many groups as there are stages: each has its turn everywhere in one step.
static bool price_stages(const struct question *q, struct answer *a, struct error *e)
{
    struct capacity_query query = q->query;
    struct capacity c;
    if (q->pp == 1 || !a->capacity.batch)
        return true;
    a->capacity.bound_ns = a->capacity.roof_total_ns = 0;
    query.batch = (a->capacity.batch + q->pp - 1) / q->pp;
    for (int32_t s = 0; s < q->pp; s++) {
        if (!capacity_of(&q->stage[s], &q->hardware, &query, &c, e))
            return false;
        a->capacity.bound_ns += c.bound_ns, a->capacity.roof_total_ns += c.roof_total_ns;
    }
    return true;
}

static bool ask_engine(const struct question *q, struct answer *a, struct error *e)
{
    struct engine_answer *out = &a->engine;
    struct kv_layout layout = kv_layout_of_plan(&q->stage[a->fullest]);
    if (!serving_lay_out(&q->serving, &layout, &out->kv, e))
        return false;
    const struct serving_kv *kv = &out->kv;
    out->blocks_low = serving_blocks(kv, (double)a->budget.kv_low_bytes);
    out->blocks_high = serving_blocks(kv, (double)a->budget.kv_high_bytes);
    out->request_blocks = serving_request_blocks(kv, q->query.context);
    out->request_bytes = serving_request_bytes(kv, q->query.context);
    out->requests_low = serving_concurrency(kv, out->blocks_low, q->query.context);
    out->requests_high = serving_concurrency(kv, out->blocks_high, q->query.context);
    out->concurrency_low = serving_concurrency(kv, out->blocks_low, q->max_model_len);
    out->concurrency_high = serving_concurrency(kv, out->blocks_high, q->max_model_len);
    out->tokens_low = serving_printed_tokens(kv, out->blocks_low, q->max_model_len);
    out->tokens_high = serving_printed_tokens(kv, out->blocks_high, q->max_model_len);
    struct serving_kv other = *kv;
    int64_t middle = (out->blocks_low + out->blocks_high) / 2;
    other.rules.printed = PRINTED_BLOCKS;
    out->tokens_blocks = serving_printed_tokens(&other, middle, q->max_model_len);
    other.rules.printed = PRINTED_CONCURRENCY;
    out->tokens_concurrency = serving_printed_tokens(&other, middle, q->max_model_len);
    return true;
}

bool question_ask(const struct question *q, struct answer *a, struct error *e)
{
    *a = (struct answer){.fullest = 0};
    if (!ask_stages(q, a, e) || !price_stages(q, a, e))
        return false;
    struct budget_query budget = q->budget;
    if (q->stored_bytes && !budget.weight_bytes)
        budget.weight_bytes = share_of_files(q, a->fullest);
    budget_of(&q->whole, &q->stage[a->fullest], q->types.tp * q->pp, &q->hardware, &budget, &a->budget);
    return !q->has_engine || ask_engine(q, a, e);
}

bool question_prefill_ns(const struct question *q, int32_t batch, double *ns, struct error *e)
{
    struct batch prompts;
    struct cost cost;
    *ns = 0;
    if (!batch_make_uniform(&prompts, batch, q->query.context, q->query.context, q->query.context, e))
        return false;
    bool ok = true;
    for (int32_t s = 0; ok && s < q->pp; s++) {
        ok = cost_of_step(&q->stage[s], &prompts, NULL, 0, &cost, e) && roofline_check(&q->hardware, &cost, e);
        struct roof_time bound = roofline_bound(&q->hardware, &cost, false);
        *ns += ok ? bound.ns > 0 ? bound.ns : roofline_attainable(&q->hardware, &cost, false).ns : 0;
    }
    batch_free(&prompts);
    return ok;
}
