// The integers of a step: ids, positions, tables. One pinned piece on the host, one like it on the device, one copy per
// step.
#include "engine/cuda/host.h"

#include <string.h>

static uint64_t lay_out(const struct cuda *c, int32_t *base, struct step_numbers *n)
{
    const struct kv_config *k = &c->config;
    int32_t *at = base;
    n->token = at, at += k->max_tokens;
    n->pos = at, at += k->max_tokens;
    n->seq = at, at += k->max_tokens;
    n->seq_first = at, at += k->max_seqs + 1;
    n->ctx_len = at, at += k->max_seqs;
    n->out_row = at, at += k->max_out;
    n->table = at, at += (size_t)k->max_seqs * (size_t)k->n_blocks;
    return (uint64_t)(at - base) * sizeof *at;
}

bool cuda_numbers_init(struct cuda *c, struct error *e)
{
    void *host, *device;
    c->numbers_bytes = lay_out(c, NULL, &c->host);
    memset(&c->host, 0, sizeof c->host);
    if (!cuda_failed(cudaHostAlloc(&host, c->numbers_bytes, 0), "pinning the tables of a step", e))
        return false;
    memset(host, 0, c->numbers_bytes);
    lay_out(c, host, &c->host);
    if (!cuda_allocate(&device, c->numbers_bytes, "the tables of a step", e))
        return false;
    lay_out(c, device, &c->numbers);
    return true;
}

void cuda_numbers_free(struct cuda *c)
{
    if (c->host.token)
        (void)cudaFreeHost(c->host.token);
    if (c->numbers.token)
        (void)cudaFree(c->numbers.token);
    c->host = c->numbers = (struct step_numbers){0};
}

static void copy_numbers(int32_t *to, const int32_t *from, int32_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

cudaError_t cuda_numbers_send(struct cuda *c, const struct batch *b)
{
    struct step_numbers *h = &c->host;
    copy_numbers(h->token, b->token, b->n_tokens);
    copy_numbers(h->pos, b->pos, b->n_tokens);
    copy_numbers(h->seq_first, b->seq_first, b->n_seqs + 1);
    copy_numbers(h->ctx_len, b->ctx_len, b->n_seqs);
    copy_numbers(h->out_row, b->out_row, b->n_out);
    for (int32_t s = 0; s < b->n_seqs; s++) {
        int32_t blocks = (b->ctx_len[s] + b->block_size - 1) / b->block_size;
        copy_numbers(h->table + (size_t)s * (size_t)c->table_stride, b->table + (size_t)s * (size_t)b->table_stride, blocks);
        for (int32_t r = b->seq_first[s]; r < b->seq_first[s + 1]; r++)
            h->seq[r] = s;
    }
    uint64_t used = (uint64_t)(h->table - h->token + (int64_t)b->n_seqs * c->table_stride) * sizeof *h->token;
    return cudaMemcpyAsync(c->numbers.token, h->token, used, cudaMemcpyHostToDevice, c->stream);
}
