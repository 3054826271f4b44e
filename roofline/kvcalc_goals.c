// kvcalc --requests, --slo-tpot, --slo-ttft.
#include "roofline/kvcalc_commands.h"

#include <inttypes.h>

static void print_requests(const struct question *q, int32_t wanted, const struct reach *r)
{
    printf("\n%" PRId32 " requests of %" PRId32 " tokens\n", wanted, q->query.context);
    if (r->tp)
        printf("  ranks:    tp %" PRId32 " is the smallest that reaches it (%" PRId64 " fit)\n", r->tp, r->tp_requests);
    else
        printf("  ranks:    no tp that the model divides by reaches it (%" PRId64 " at the most)\n", r->tp_requests);
    printf("  KV types: ");
    for (int32_t i = 0; i < r->n_kv; i++)
        printf("%s%s (%" PRId64 ")", i ? ", " : "", dtype_name(r->kv[i]), r->kv_requests[i]);
    printf(r->n_kv ? " reach it at tp %" PRId32 "\n" : "none reaches it at tp %" PRId32 "\n", q->types.tp);
    if (r->context)
        printf("  context:  %" PRId32 " is the longest at which they fit\n", r->context);
    else
        printf("  context:  none, not one token each: the weights leave too little\n");
}

bool kvcalc_check_goals(const struct options *o, struct error *e)
{
    if (o->requests < 0)
        return error_set(e, ERROR_USAGE, "'--requests' is %d, expected 1 or more", o->requests);
    if (o->slo_tpot < 0 || o->slo_ttft < 0)
        return error_set(e, ERROR_USAGE, "'--slo-tpot' and '--slo-ttft' are times in ms, expected more than 0");
    return true;
}

void kvcalc_print_goals(const struct options *o, const struct question *q, const struct reach *r)
{
    if (o->requests)
        print_requests(q, o->requests, r);
    if (r->tpot_batch >= 0)
        printf("\nat most %g ms per token: a batch of %" PRId32 " (by the bound; whether it fits is another question)\n",
               o->slo_tpot, r->tpot_batch);
    if (r->ttft_batch >= 0)
        printf("\nfirst token within %g ms: %" PRId32 " prompts of %" PRId32 " tokens at once (by the bound)\n", o->slo_ttft,
               r->ttft_batch, q->query.context);
}

void kvcalc_goals_json(const struct options *o, const struct reach *r, cJSON *json)
{
    cJSON *goals = cJSON_AddObjectToObject(json, "goals"), *kv;
    if (o->requests) {
        cJSON_AddNumberToObject(goals, "requests", o->requests);
        cJSON_AddNumberToObject(goals, "tp", r->tp);
        cJSON_AddNumberToObject(goals, "tp_requests", (double)r->tp_requests);
        cJSON_AddNumberToObject(goals, "context", r->context);
        kv = cJSON_AddObjectToObject(goals, "kv");
        for (int32_t i = 0; i < r->n_kv; i++)
            cJSON_AddNumberToObject(kv, dtype_name(r->kv[i]), (double)r->kv_requests[i]);
    }
    if (r->tpot_batch >= 0)
        cJSON_AddNumberToObject(goals, "tpot_batch", r->tpot_batch);
    if (r->ttft_batch >= 0)
        cJSON_AddNumberToObject(goals, "ttft_batch", r->ttft_batch);
}
