// Tokens chosen where the logits lie: two small launches and 4 bytes per row to the host instead of a row of logits. It
// follows a step and is no part of it.
#include "engine/cuda/host.h"

#include "engine/check.h"

#include <string.h>

// One piece on the host (pinned) and one on the device: what is asked, what is answered; the device's parts of argmax.
static uint64_t bytes_of(const struct cuda *c, uint64_t parts)
{
    return (uint64_t)c->config.max_out * (sizeof(struct choice) + sizeof(int32_t) + parts * 2 * sizeof(float));
}

static int32_t *ids_of(const struct cuda *c, struct choice *choices)
{
    return (int32_t *)(choices + c->config.max_out);
}

bool cuda_tokens_init(struct cuda *c, struct error *e)
{
    return cuda_failed(cudaHostAlloc((void **)&c->host_asked, bytes_of(c, 0), 0), "pinning the choices of a step", e) &&
           cuda_allocate((void **)&c->asked, bytes_of(c, CUDA_ARGMAX_PARTS), "the choices of a step", e);
}

void cuda_tokens_free(struct cuda *c)
{
    if (c->host_asked)
        (void)cudaFreeHost(c->host_asked);
    if (c->asked)
        (void)cudaFree(c->asked);
    c->host_asked = c->asked = NULL;
}

static bool check(const struct cuda *c, const struct choice *x, struct error *e)
{
    if (!check_out_row(x->out_row, c->n_out, e))
        return false;
    return (x->temperature >= 0 && x->top_k >= 0 && x->top_p > 0 && x->top_p <= 1 && x->u >= 0 && x->u < 1) ||
           error_set(e, ERROR_USAGE, "a choice at temperature %g, top-k %d, top-p %g, drawn at %g", (double)x->temperature,
                     x->top_k, (double)x->top_p, (double)x->u);
}

static cudaError_t launch(struct cuda *c, int32_t n, bool draws)
{
    const float *logits = (const float *)(const void *)(c->activations + c->slot_offset[c->plan->logits]);
    int32_t *id = ids_of(c, c->asked), width = c->plan->vocab_size;
    cudaError_t e =
        cudaMemcpyAsync(c->asked, c->host_asked, (size_t)n * sizeof *c->asked, cudaMemcpyHostToDevice, c->stream);
    if (!e)
        e = cuda_argmax(logits, width, c->asked, n, id, id + c->config.max_out, c->stream);
    if (!e && draws)
        e = cuda_sample(logits, width, c->asked, n, id, c->stream);
    if (!e)
        e = cudaMemcpyAsync(ids_of(c, c->host_asked), id, (size_t)n * sizeof *id, cudaMemcpyDeviceToHost, c->stream);
    return e ? e : cudaStreamSynchronize(c->stream);
}

bool cuda_choose_tokens(void *self, const struct choice *choices, int32_t n, int32_t *id, struct error *e)
{
    struct cuda *c = self;
    bool draws = false;
    if (!check_opened("cuda", c->plan, c->plan, e))
        return false;
    if (n < 1 || n > c->config.max_out)
        return error_set(e, ERROR_USAGE, "%d choices at a time, at most %d", n, c->config.max_out);
    for (int32_t i = 0; i < n; i++) {
        if (!check(c, &choices[i], e))
            return false;
        draws |= choices[i].temperature > 0;
    }
    memcpy(c->host_asked, choices, (size_t)n * sizeof *choices);
    if (!cuda_failed(launch(c, n, draws), "choosing tokens", e))
        return false;
    memcpy(id, ids_of(c, c->host_asked), (size_t)n * sizeof *id);
    return true;
}
