// Where the KV cache lies: per layer [block][K|V][head][token][head_dim], int8 with the f16 scales of a run behind its
// values.
#include "engine/base/units.h"
#include "engine/cuda/host.h"

static struct cuda_kv shape_of(const struct plan *plan, const struct kv_group *g, int32_t block_size)
{
    struct cuda_kv kv = {.type = {(int32_t)plan->kv_k, (int32_t)plan->kv_v},
                         .scale = {1, 1},
                         .n_heads = g->num_key_value_heads,
                         .head_dim = g->head_dim,
                         .block_size = block_size};
    for (int side = 0; side < 2; side++)
        kv.head_bytes[side] = dtype_row_bytes((enum dtype)kv.type[side], (uint64_t)g->head_dim) * (uint64_t)block_size;
    kv.block_bytes = (kv.head_bytes[0] + kv.head_bytes[1]) * (uint64_t)kv.n_heads;
    return kv;
}

bool cuda_kv_init(struct cuda *c, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    uint64_t sum = 0;
    bool fits = true;
    for (int32_t g = 0; g < plan->n_kv_groups; g++) {
        uint64_t all = 0;
        c->kv_shape[g] = shape_of(plan, &plan->kv_group[g], config->block_size);
        c->kv_offset[g] = sum;
        fits &= size_mul(c->kv_shape[g].block_bytes, (uint64_t)config->n_blocks, &c->kv_layer_bytes[g]);
        fits &= size_mul(c->kv_layer_bytes[g], (uint64_t)plan->kv_group[g].n_layers, &all);
        fits &= size_add(sum, all, &sum);
    }
    c->kv_bytes = fits ? sum : UINT64_MAX;
    return cuda_allocate((void **)&c->kv, c->kv_bytes, "the KV cache", e);
}

void cuda_kv_free(struct cuda *c)
{
    if (c->kv)
        (void)cudaFree(c->kv);
    c->kv = NULL, c->kv_bytes = 0;
}

struct cuda_kv cuda_kv_layer(const struct cuda *c, int32_t group, int32_t layer)
{
    struct cuda_kv kv = c->kv_shape[group];
    kv.base = c->kv + c->kv_offset[group] + (uint64_t)layer * c->kv_layer_bytes[group];
    return kv;
}
