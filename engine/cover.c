#include "engine/cover.h"

bool cover_qkv(const struct op *op)
{
    return op[1].in[0] == op[0].in[0] && op[2].in[0] == op[0].in[0] && op[1].rows == op[0].rows && op[2].rows == op[0].rows;
}

bool cover_residual(const struct op *op)
{
    return (op[1].in[0] == op[0].out || op[1].in[1] == op[0].out) && op[1].rows == op[0].rows;
}

bool cover_gated(const struct op *op)
{
    return op[1].in[0] == op[0].in[0] && op[2].in[0] == op[0].out && op[2].in[1] == op[1].out && op[1].rows == op[0].rows &&
           op[2].rows == op[0].rows;
}

bool cover_turned(const struct op *op)
{
    return op[2].in[0] == op[1].out && op[0].rows == ROWS_TOKENS;
}

bool cover_normed_and_turned(const struct op *op)
{
    bool by_head = op[0].dim[0] == op[2].dim[0] && op[1].dim[0] == op[3].dim[0];
    return by_head && op[2].in[0] == op[0].out && op[3].in[0] == op[1].out && cover_turned(op + 2);
}

bool cover_add_norm(const struct op *op)
{
    return op[1].in[0] == op[0].out && op[1].dim[0] == 1 && op[1].rows == op[0].rows;
}

static bool is_read(const struct plan *plan, int16_t slot, int32_t from)
{
    for (int32_t i = from; i < plan->n_ops; i++)
        for (int k = 0; k < 3; k++)
            if (plan->op[i].in[k] == slot)
                return true;
    return false;
}

static bool matches(const struct pattern *p, const struct plan *plan, int32_t first)
{
    const struct op *op = &plan->op[first];
    if (p->count > plan->n_ops - first)
        return false;
    for (int32_t i = 0; i < p->count; i++)
        if (op[i].kind != p->kind[i])
            return false;
    return (!p->fits || p->fits(op)) && !(p->keeps_first && is_read(plan, op->out, first + p->count));
}

int32_t cover_by_patterns(const struct pattern *pattern, int32_t n_patterns, uint16_t none, const struct plan *plan,
                          struct span *spans)
{
    int32_t n = 0;
    for (int32_t first = 0; first < plan->n_ops; first += spans[n++].count) {
        spans[n] = (struct span){.first = first, .count = 1, .kernel = none};
        for (int32_t i = 0; i < n_patterns; i++)
            if (matches(&pattern[i], plan, first)) {
                spans[n].count = pattern[i].count, spans[n].kernel = pattern[i].kernel;
                break;
            }
    }
    return n;
}
