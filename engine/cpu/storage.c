#include "engine/cpu/storage.h"

#include "engine/base/memory.h"
#include "engine/base/rng.h"
#include "engine/base/units.h"

#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static void advise_huge(const void *memory, uint64_t bytes)
{
    uintptr_t begin = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *memory_map(uint64_t bytes, const char *what, struct error *e)
{
    char want[24], have[24];
    uint64_t available = memory_available("");
    void *p = MAP_FAILED;
    if (bytes < available)
        p = mmap(NULL, (size_t)bytes + !bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        error_set(e, ERROR_MEMORY, "%s needs %s, and %s of memory are available", what, format_bytes(bytes, want),
                  format_bytes(available, have));
        return NULL;
    }
    advise_huge(p, bytes);
    return p;
}

void memory_unmap(void *memory, uint64_t bytes)
{
    if (memory)
        munmap(memory, (size_t)bytes + !bytes);
}

static struct kv_layer shape_of(const struct plan *plan, const struct kv_group *g, int32_t block_size)
{
    struct kv_layer l = {.type = {plan->kv_k, plan->kv_v},
                         .n_heads = g->num_key_value_heads,
                         .head_dim = g->head_dim,
                         .block_size = block_size};
    for (int side = KV_K; side <= KV_V; side++) {
        uint64_t row = dtype_row_bytes(l.type[side], (uint64_t)g->head_dim);
        l.row_bytes[side] = row - (l.type[side] == DTYPE_INT8 ? sizeof(uint16_t) : 0);
        l.head_bytes[side] = row * (uint64_t)block_size;
    }
    l.block_bytes = (l.head_bytes[KV_K] + l.head_bytes[KV_V]) * (uint64_t)l.n_heads;
    return l;
}

bool kv_storage_init(struct kv_storage *s, const struct plan *plan, const struct kv_config *config, struct error *e)
{
    *s = (struct kv_storage){.n_blocks = config->n_blocks, .n_groups = plan->n_kv_groups};
    uint64_t sum = 0;
    bool fits = true;
    for (int32_t g = 0; g < plan->n_kv_groups; g++) {
        s->group[g] = plan->kv_group[g];
        s->shape[g] = shape_of(plan, &s->group[g], config->block_size);
        s->offset[g] = sum;
        uint64_t all = 0;
        fits &= size_mul(s->shape[g].block_bytes, (uint64_t)config->n_blocks, &s->layer_bytes[g]);
        fits &= size_mul(s->layer_bytes[g], (uint64_t)s->group[g].n_layers, &all);
        fits &= size_add(sum, all, &sum);
    }
    s->bytes = fits ? sum : UINT64_MAX;
    s->memory = memory_map(s->bytes, "the KV cache", e);
    return s->memory != NULL;
}

void kv_storage_free(struct kv_storage *s)
{
    memory_unmap(s->memory, s->bytes);
    *s = (struct kv_storage){0};
}

struct kv_layer kv_storage_layer(const struct kv_storage *s, int32_t group, int32_t layer)
{
    struct kv_layer l = s->shape[group];
    l.base = s->memory + s->offset[group] + (uint64_t)layer * s->layer_bytes[group];
    return l;
}

void kv_storage_copy(struct kv_storage *s, int32_t from, int32_t to)
{
    for (int32_t g = 0; g < s->n_groups; g++)
        for (int32_t i = 0; i < s->group[g].n_layers; i++) {
            struct kv_layer l = kv_storage_layer(s, g, i);
            if (from != to)
                memcpy(kv_values(&l, KV_K, to, 0), kv_values(&l, KV_K, from, 0), l.block_bytes);
        }
}

static void fill_row(enum dtype type, uint8_t *values, uint16_t *scale, int32_t n, uint64_t seed)
{
    float x[n];
    uint8_t row[4 * n + 2];
    for (int32_t i = 0; i < n; i++)
        x[i] = (rng_uniform(rng_at(seed, (uint64_t)i)) * 2 - 1) * 1.7320508f; // sqrt(3): unit variance
    for (int32_t i = 0; i < n && type == DTYPE_FP8; i++)
        row[i] = f32_to_e4m3(x[i]);
    if (type != DTYPE_FP8)
        dtype_from_f32(type, x, row, (size_t)n);
    uint64_t bytes = dtype_row_bytes(type, (uint64_t)n);
    if (type == DTYPE_INT8) {
        bytes -= sizeof *scale;
        memcpy(scale, row + bytes, sizeof *scale);
    }
    memcpy(values, row, bytes);
}

static void fill_layer(const struct kv_layer *l, int32_t block, uint64_t seed)
{
    for (int side = KV_K; side <= KV_V; side++)
        for (int32_t h = 0; h < l->n_heads; h++) {
            uint8_t *values = kv_values(l, side, block, h);
            uint16_t *scales = kv_scales(l, side, values);
            for (int32_t t = 0; t < l->block_size; t++)
                fill_row(l->type[side], values + (uint64_t)t * l->row_bytes[side], scales + t, l->head_dim,
                         rng_at(seed, (uint64_t)((side * l->n_heads + h) * l->block_size + t)));
        }
}

void kv_storage_fill(struct kv_storage *s, int32_t block, uint64_t seed)
{
    for (int32_t g = 0; g < s->n_groups; g++)
        for (int32_t i = 0; i < s->group[g].n_layers; i++) {
            struct kv_layer l = kv_storage_layer(s, g, i);
            fill_layer(&l, block, rng_at(seed, (uint64_t)(g * MODEL_MAX_LAYERS + i)));
        }
}
