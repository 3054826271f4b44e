#include "roofline/kv_layout.h"

static enum kv_layers_kind kind_of(const struct kv_group *g)
{
    if (g->state_bytes)
        return KV_STATE;
    if (!g->window)
        return KV_FULL;
    return g->chunked ? KV_CHUNK : KV_WINDOW;
}

struct kv_layout kv_layout_of_plan(const struct plan *plan)
{
    struct kv_layout l = {0};
    for (int32_t g = 0; g < plan->n_kv_groups; g++) {
        const struct kv_group *k = &plan->kv_group[g];
        l.layers[l.n++] = (struct kv_layers){.kind = kind_of(k),
                                             .n_layers = k->n_layers,
                                             .latent = k->latent,
                                             .token_bytes = kv_group_token_bytes(plan, k),
                                             .window = k->window,
                                             .state_bytes = k->state_bytes,
                                             .conv_bytes = k->conv_bytes};
    }
    return l;
}

struct kv_layout kv_layout_uniform(int32_t n_layers, uint64_t token_bytes, bool latent)
{
    return (struct kv_layout){
        .n = 1, .layers = {{.kind = KV_FULL, .n_layers = n_layers, .token_bytes = token_bytes, .latent = latent}}};
}

uint64_t kv_layout_token_bytes(const struct kv_layout *l)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < l->n; i++)
        sum += (uint64_t)l->layers[i].n_layers * l->layers[i].token_bytes;
    return sum;
}

uint64_t kv_layout_state_bytes(const struct kv_layout *l)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < l->n; i++)
        sum += (uint64_t)l->layers[i].n_layers * l->layers[i].state_bytes;
    return sum;
}

int32_t kv_layers_kept(const struct kv_layers *l, int32_t n)
{
    if (l->kind == KV_FULL || l->kind == KV_STATE || n <= l->window)
        return n;
    return l->kind == KV_WINDOW ? l->window : (n - 1) % l->window + 1;
}

uint64_t kv_layout_request_bytes(const struct kv_layout *l, int32_t n)
{
    uint64_t sum = kv_layout_state_bytes(l);
    for (int32_t i = 0; i < l->n; i++) {
        const struct kv_layers *k = &l->layers[i];
        sum += (uint64_t)kv_layers_kept(k, n) * (uint64_t)k->n_layers * k->token_bytes;
    }
    return sum;
}

bool kv_layout_is_hybrid(const struct kv_layout *l)
{
    for (int32_t i = 1; i < l->n; i++)
        if (l->layers[i].kind != l->layers[0].kind)
            return true;
    return false;
}
