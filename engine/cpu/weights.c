// A model's tensors into the backend: matrices into panels, by all members of the team; norms and biases, which are few,
// into f32. A panel's rows are read, packed and forgotten, so that nothing is there twice.
#include "engine/cpu/walk.h"

#include <stdlib.h>

struct packing {
    const struct packed *to;
    const struct tensor *from;
    atomic_int next; // panel
    atomic_bool failed;
    struct error error; // of the member that failed first
};

static bool pack_rows(const struct packing *p, int32_t panel, void *rows, struct error *e)
{
    int32_t first = panel * PANEL, n = p->to->rows - first < PANEL ? p->to->rows - first : PANEL;
    if (!rows)
        return error_set(e, ERROR_MEMORY, "no memory for %d rows of weights", PANEL);
    if (!tensor_read(p->from, first, n, rows, e))
        return false;
    pack_panel(p->to, rows, panel);
    return true;
}

static void pack_panels_of(void *ctx, int32_t member, int32_t n_members)
{
    struct packing *p = ctx;
    (void)member, (void)n_members;
    void *rows = malloc(PANEL * dtype_row_bytes(p->to->type, (uint64_t)p->to->cols));
    for (int32_t i; !p->failed && (i = atomic_fetch_add(&p->next, 1)) < pack_panels(p->to);) {
        struct error e = {0};
        if (!pack_rows(p, i, rows, &e) && !atomic_exchange(&p->failed, true))
            p->error = e;
    }
    free(rows);
}

static bool take_matrix(struct cpu *c, const struct tensor *from, const struct packed *to, struct error *e)
{
    struct packing p = {.from = from, .to = to};
    team_run(c->team, pack_panels_of, &p);
    if (p.failed && e)
        *e = p.error;
    return !p.failed;
}

static bool take_vector(const struct tensor *from, float **to, struct error *e)
{
    uint64_t bytes = dtype_row_bytes(from->dtype, (uint64_t)from->cols);
    void *stored = malloc(bytes);
    *to = malloc((size_t)from->cols * sizeof **to);
    bool ok = (stored && *to) || error_set(e, ERROR_MEMORY, "no memory for %d norm weights", from->cols);
    ok = ok && tensor_read(from, 0, 1, stored, e);
    if (ok)
        dtype_to_f32(from->dtype, stored, *to, (size_t)from->cols);
    free(stored);
    return ok;
}

// Where each matrix will lie in the one mapping.
static bool place_panels(struct cpu *c, const struct tensor *weights, struct error *e)
{
    for (int32_t i = 0; i < c->n_tensors; i++)
        if (weights[i].rows > 1) {
            pack_init(&c->packed[i], weights[i].dtype, weights[i].rows, weights[i].cols);
            c->weight_bytes += pack_bytes(&c->packed[i]);
        }
    if (!(c->weights = memory_map(c->weight_bytes, "the weights", e)))
        return false;
    uint8_t *at = c->weights;
    for (int32_t i = 0; i < c->n_tensors; at += pack_bytes(&c->packed[i++]))
        c->packed[i].data = at;
    return true;
}

bool weights_take(struct cpu *c, const struct plan *plan, const struct tensor *weights, struct error *e)
{
    size_t n = (uint32_t)plan->n_tensors;
    c->packed = calloc(n, sizeof *c->packed);
    c->vector = calloc(n, sizeof *c->vector);
    c->n_tensors = plan->n_tensors;
    if (!c->packed || !c->vector)
        return error_set(e, ERROR_MEMORY, "no memory for the tensors of '%s'", plan->model);
    bool ok = place_panels(c, weights, e);
    for (int32_t i = 0; ok && i < c->n_tensors; i++)
        ok =
            weights[i].rows > 1 ? take_matrix(c, &weights[i], &c->packed[i], e) : take_vector(&weights[i], &c->vector[i], e);
    return ok;
}

void weights_drop(struct cpu *c)
{
    for (int32_t i = 0; c->vector && i < c->n_tensors; i++)
        free(c->vector[i]);
    free(c->vector);
    free(c->packed);
    memory_unmap(c->weights, c->weight_bytes);
    c->vector = NULL, c->packed = NULL, c->weights = NULL;
    c->weight_bytes = 0, c->n_tensors = 0;
}
