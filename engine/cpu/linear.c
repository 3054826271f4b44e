// Linear layers with what stands around them: the norm before, bias, scale, residual or activation after. Members draw
// panels of 64 outputs from a shared counter, so that one that lost its CPU for a while does not hold up the others.
#include "engine/cpu/walk.h"

#include <string.h>

enum {
    OWN_ROWS = 2,     // activations of so few rows are prepared by each member for itself, which saves a barrier
    CHUNK_ROWS = 384, // rows that pass over a panel before the next do: their sums stay in the L2 cache
};

// A span taken apart.
struct linear_work {
    const struct op *norm;   // NULL: none
    const struct op *linear; // n_linears of them over one input
    const struct op *tail;   // ADD or ACT; NULL: none
    int32_t n_linears, n_rows, n_units;
    const uint8_t *x; // prepared rows
    uint64_t x_stride;
};

static bool is_pair(const struct linear_work *l)
{
    return l->tail && l->tail->kind == OP_ACT;
}

static const struct packed *packed_of(const struct cpu *c, const struct op *op)
{
    return &c->packed[op->weight];
}

// Units of work: panels, of gate and up together.
static void take_apart(const struct step *s, const struct span *span, struct linear_work *l)
{
    const struct op *op = &s->cpu->plan->op[span->first], *end = op + span->count;
    *l = (struct linear_work){.norm = op->kind == OP_NORM ? op++ : NULL, .linear = op};
    for (; op < end && op->kind == OP_LINEAR; op++, l->n_linears++)
        l->n_units += pack_panels(packed_of(s->cpu, op));
    l->tail = op < end ? op : NULL;
    l->n_rows = rows_of(s, l->linear);
    if (is_pair(l))
        l->n_units /= 2;
}

uint64_t linear_row_bytes(const struct cpu_kernels *k, enum dtype compute, int32_t n)
{
    uint64_t lines = ((uint64_t)(n + GROUP - 1) / GROUP * GROUP * k->row_bytes[compute] + 63) / 64;
    return (lines | 1) * 64; // an odd number of lines: rows of a tile do not fall into one set of the cache
}

// Member scratch: a row of f32, OWN_ROWS prepared rows, sums of two panels, a piece of a panel.
static float *normed_row(const struct share *w)
{
    return member_scratch(w);
}

static uint8_t *own_rows(const struct share *w)
{
    return (uint8_t *)(member_scratch(w) + w->step->cpu->widest);
}

static float *sums(const struct share *w)
{
    return (float *)(void *)(own_rows(w) + OWN_ROWS * w->step->cpu->prepared_stride);
}

static float *piece_scratch(const struct share *w)
{
    return sums(w) + 2 * CHUNK_ROWS * PANEL;
}

uint64_t linear_scratch_floats(const struct cpu *c)
{
    uint64_t bytes = OWN_ROWS * c->prepared_stride + LINEAR_SCRATCH_BYTES;
    return (uint64_t)c->widest + bytes / sizeof(float) + 2 * CHUNK_ROWS * PANEL;
}

static void prepare_row(const struct share *w, const struct linear_work *l, int32_t r, uint8_t *out)
{
    const struct cpu *c = w->step->cpu;
    const float *x = in_row(w->step, l->norm ? l->norm : l->linear, 0, r);
    int32_t n = l->linear->dim[0];
    if (l->norm) {
        c->kernels->norm(x, c->vector[l->norm->weight], l->norm->param[0], normed_row(w), n);
        x = normed_row(w);
    }
    c->kernels->prepare[l->linear->compute](x, n, out);
}

static void prepare(const struct share *w, struct linear_work *l)
{
    const struct cpu *c = w->step->cpu;
    bool own = l->n_rows <= OWN_ROWS;
    int32_t first = 0, end = l->n_rows;
    uint8_t *x = own ? own_rows(w) : c->prepared;
    l->x = x, l->x_stride = linear_row_bytes(c->kernels, (enum dtype)l->linear->compute, l->linear->dim[0]);
    if (!own)
        share_range(w, l->n_rows, 1, &first, &end);
    for (int32_t r = first; r < end; r++)
        prepare_row(w, l, r, x + (uint64_t)r * l->x_stride);
    if (!own)
        team_barrier(c->team, w->member);
}

// The layer and panel of a unit.
static const struct op *unit_panel(const struct cpu *c, const struct linear_work *l, int32_t unit, int32_t *panel)
{
    const struct op *op = l->linear;
    for (; unit >= pack_panels(packed_of(c, op)); op++)
        unit -= pack_panels(packed_of(c, op));
    *panel = unit;
    return op;
}

// Where the member will probably read on: others draw one unit each meanwhile.
static const uint8_t *read_next(const struct share *w, const struct linear_work *l)
{
    int32_t panel, unit = share_peek(w) + w->n_members - 1;
    if (unit >= l->n_units)
        return NULL;
    const struct packed *p = packed_of(w->step->cpu, unit_panel(w->step->cpu, l, unit, &panel));
    return p->data + (uint64_t)panel * p->panel_bytes;
}

// One panel over rows row .. row+n-1, finished but for the tail, into sum.
static void multiply_panel(const struct share *w, const struct linear_work *l, const struct op *op, int32_t panel,
                           int32_t row, int32_t n, const uint8_t *ahead, float *sum)
{
    const struct cpu *c = w->step->cpu;
    const struct cpu_kernels *k = c->kernels;
    const struct packed *p = packed_of(c, op);
    const float *bias = op->bias >= 0 ? c->vector[op->bias] + panel * PANEL : NULL;
    int32_t left = p->rows - panel * PANEL, width = left < PANEL ? left : PANEL;
    struct linear_panel a = {.w = p,
                             .panel = panel,
                             .x = l->x + (uint64_t)row * l->x_stride,
                             .x_stride = l->x_stride,
                             .n_rows = n,
                             .sum = sum,
                             .ahead = ahead,
                             .scratch = piece_scratch(w)};
    k->linear[op->compute][p->form](&a);
    for (int32_t r = 0; bias && r < n; r++)
        k->add(sum + r * PANEL, bias, 1, sum + r * PANEL, width);
    for (int32_t r = 0; (op->param[0] != 1 || op->param[1] != 0) && r < n; r++)
        k->scale(sum + r * PANEL, op->param[0], op->param[1], width);
}

// Sums to the output slot, through ADD or ACT where there is one.
static void finish_row(const struct share *w, const struct linear_work *l, const struct op *op, int32_t r, int32_t first,
                       int32_t width, const float *sum, const float *up)
{
    const struct step *s = w->step;
    const struct cpu_kernels *k = s->cpu->kernels;
    const struct op *tail = l->tail;
    float *y = out_row(s, tail ? tail : op, r) + first;
    if (!tail)
        memcpy(y, sum, (size_t)width * sizeof *y);
    else if (tail->kind == OP_ACT)
        k->act_mul[tail->dim[1]](sum, up, y, width);
    else if (tail->in[0] == op->out)
        k->add(sum, in_row(s, tail, 1, r) + first, tail->param[0], y, width);
    else
        k->add(in_row(s, tail, 0, r) + first, sum, tail->param[0], y, width);
}

static void do_unit(const struct share *w, const struct linear_work *l, int32_t unit)
{
    const struct cpu *c = w->step->cpu;
    const uint8_t *next = read_next(w, l);
    int32_t panel;
    const struct op *op = unit_panel(c, l, unit, &panel);
    const struct packed *p = packed_of(c, op), *second = is_pair(l) ? packed_of(c, op + 1) : NULL;
    int32_t first = panel * PANEL, width = p->rows - first < PANEL ? p->rows - first : PANEL;
    float *sum = sums(w), *up = sum + CHUNK_ROWS * PANEL;
    for (int32_t row = 0; row < l->n_rows; row += CHUNK_ROWS) {
        int32_t n = l->n_rows - row < CHUNK_ROWS ? l->n_rows - row : CHUNK_ROWS;
        const uint8_t *last = row + n == l->n_rows ? next : NULL;
        const uint8_t *then = second ? second->data + (uint64_t)panel * second->panel_bytes : last;
        multiply_panel(w, l, op, panel, row, n, then, sum);
        if (second)
            multiply_panel(w, l, op + 1, panel, row, n, last, up);
        for (int32_t r = 0; r < n; r++)
            finish_row(w, l, op, row + r, first, width, sum + r * PANEL, up + r * PANEL);
    }
}

void walk_linear(const struct share *w, const struct span *span)
{
    struct linear_work l;
    take_apart(w->step, span, &l);
    prepare(w, &l);
    for (int32_t unit = share_next(w, l.n_units); unit < l.n_units; unit = share_next(w, l.n_units))
        do_unit(w, &l, unit);
}
