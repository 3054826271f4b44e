// Linear layers with what stands around them: the norm before, bias, scale, residual or activation after. Members draw
// panels of 64 outputs from a shared counter, so that one that lost its CPU for a while does not hold up the others; where
// memory bounds, most of them are dealt out before, in one stretch each.
#include "engine/cpu/walk.h"

#include <string.h>

enum {
    OWN_ROWS = 2, // activations of so few rows are prepared by each member for itself, which saves a barrier
    // Rows that pass over all panels before the next do. Prepared, they stay in the L2 cache, whose latency the kernels hide
    // (that of L3 they do not: int8 at 4096 columns, 49 % of the peak with 384 rows), and so do their sums over one panel.
    CHUNK_ROWS = 384,
    CHUNK_BYTES = 448 << 10,
    // Steps of so few rows wait for memory, and fetch this much of the next linear layer ahead.
    FETCH_ROWS = 16,
    FETCH_BYTES = 32 << 10,
    OWN_PERCENT = 90, // of such a step's units are dealt out in stretches: long streams; the rest goes to who comes first
};

// A span taken apart.
struct linear_work {
    const struct op *norm;   // NULL: none
    const struct op *linear; // n_linears of them over one input
    const struct op *tail;   // ADD or ACT; NULL: none
    int32_t n_linears, n_rows;
    int32_t n_panels, chunk_rows; // a unit of work is a panel (of gate and up together) over a chunk of rows
    int32_t n_units;
    int32_t own;      // units that are each member's from the beginning
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

uint64_t linear_row_bytes(const struct cpu_kernels *k, enum dtype compute, int32_t n)
{
    uint64_t lines = ((uint64_t)(n + GROUP - 1) / GROUP * GROUP * k->row_bytes[compute] + 63) / 64;
    return (lines | 1) * 64; // an odd number of lines: rows of a tile do not fall into one set of the cache
}

static void take_apart(const struct step *s, const struct span *span, struct linear_work *l)
{
    const struct op *op = &s->cpu->plan->op[span->first], *end = op + span->count;
    *l = (struct linear_work){.norm = op->kind == OP_NORM ? op : NULL};
    if (l->norm)
        op++;
    l->linear = op;
    for (; op < end && op->kind == OP_LINEAR; op++, l->n_linears++)
        l->n_panels += pack_panels(packed_of(s->cpu, op));
    l->tail = op < end ? op : NULL;
    if (is_pair(l))
        l->n_panels /= 2;
    l->n_rows = rows_of(s, l->linear);
    l->x_stride = linear_row_bytes(s->cpu->kernels, (enum dtype)l->linear->compute, l->linear->dim[0]);
    int32_t fit = (int32_t)(CHUNK_BYTES / l->x_stride), most = fit > CHUNK_ROWS ? CHUNK_ROWS : fit < 24 ? 24 : fit;
    int32_t n_chunks = (l->n_rows + most - 1) / most;
    l->chunk_rows = n_chunks ? (l->n_rows + n_chunks - 1) / n_chunks : 0;
    l->n_units = l->n_panels * n_chunks;
    int32_t own = l->n_units * OWN_PERCENT / 100 / team_size(s->cpu->team);
    l->own = l->n_rows <= FETCH_ROWS && own > 1 ? own : 1;
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
    l->x = x;
    if (!own)
        share_range(w, l->n_rows, 1, &first, &end);
    for (int32_t r = first; r < end; r++)
        prepare_row(w, l, r, x + (uint64_t)r * l->x_stride);
    if (!own)
        team_barrier(c->team, w->member);
}

// The layer of a unit, and its panel there.
static const struct op *unit_panel(const struct cpu *c, const struct linear_work *l, int32_t unit, int32_t *panel)
{
    const struct op *op = l->linear;
    *panel = unit % l->n_panels;
    for (; *panel >= pack_panels(packed_of(c, op)); op++)
        *panel -= pack_panels(packed_of(c, op));
    return op;
}

static const uint8_t *panel_data(const struct packed *p, int32_t panel)
{
    return p->data + (uint64_t)panel * p->panel_bytes;
}

// Where a unit's weights begin; NULL beyond the last.
static const uint8_t *unit_data(const struct share *w, const struct linear_work *l, int32_t unit)
{
    int32_t panel;
    if (unit >= l->n_units)
        return NULL;
    const struct op *op = unit_panel(w->step->cpu, l, unit, &panel);
    return panel_data(packed_of(w->step->cpu, op), panel);
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

static void do_unit(const struct share *w, const struct linear_work *l, int32_t unit, const uint8_t *next)
{
    const struct cpu *c = w->step->cpu;
    int32_t panel, row = unit / l->n_panels * l->chunk_rows, left = l->n_rows - row;
    const struct op *op = unit_panel(c, l, unit, &panel);
    const struct packed *p = packed_of(c, op), *up = is_pair(l) ? packed_of(c, op + 1) : NULL;
    int32_t n = left < l->chunk_rows ? left : l->chunk_rows;
    int32_t first = panel * PANEL, width = p->rows - first < PANEL ? p->rows - first : PANEL;
    float *sum = sums(w), *up_sum = sum + CHUNK_ROWS * PANEL;
    multiply_panel(w, l, op, panel, row, n, up ? panel_data(up, panel) : next, sum);
    if (up)
        multiply_panel(w, l, op + 1, panel, row, n, next, up_sum);
    for (int32_t r = 0; r < n; r++)
        finish_row(w, l, op, row + r, first, width, sum + r * PANEL, up_sum + r * PANEL);
}

static bool is_linear(const struct plan *plan, const struct span *span)
{
    const struct op *op = &plan->op[span->first];
    return op->kind == OP_LINEAR || (op->kind == OP_NORM && span->count > 1 && op[1].kind == OP_LINEAR);
}

// While others finish, and through the short spans between: the beginning of what the member will probably read first in the
// next linear layer, into its L2 cache.
static void fetch_next_span(const struct share *w)
{
    const struct step *s = w->step;
    int32_t i = w->index + 1;
    while (i < s->n_spans && !is_linear(s->cpu->plan, &s->cpu->spans[i]))
        i++;
    if (i == s->n_spans)
        return;
    struct linear_work l;
    take_apart(s, &s->cpu->spans[i], &l);
    const uint8_t *data = unit_data(w, &l, w->member * l.own);
    uint64_t bytes = packed_of(s->cpu, l.linear)->panel_bytes;
    for (uint64_t at = 0; data && at < bytes && at < FETCH_BYTES; at += 64)
        __builtin_prefetch(data + at, 0, 2);
}

// After a member's own units, which lie one after the other, come those that nobody has drawn.
static int32_t next_unit(const struct share *w, const struct linear_work *l, int32_t unit)
{
    if (unit + 1 < (w->member + 1) * l->own)
        return unit + 1;
    return w->n_members * l->own + share_next(w, l->n_units);
}

// Where memory bounds, the next unit is drawn before one is done, so that what is fetched ahead is surely read; else late,
// so that members end together.
void walk_linear(const struct share *w, const struct span *span)
{
    struct linear_work l;
    take_apart(w->step, span, &l);
    prepare(w, &l);
    const bool few = l.n_rows <= FETCH_ROWS;
    for (int32_t unit = w->member * l.own, next; unit < l.n_units; unit = next) {
        next = few ? next_unit(w, &l, unit) : unit + w->n_members;
        do_unit(w, &l, unit, unit_data(w, &l, next));
        if (!few)
            next = next_unit(w, &l, unit);
    }
    if (few)
        fetch_next_span(w);
}
