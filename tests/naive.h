// A decoder-only transformer in doubles, one token after another over all of its prefix, written from the papers and without
// the engine: the oracle for families of which nobody else's logits are at hand. Tensors are found by name in a list.
#ifndef TESTS_NAIVE_H
#define TESTS_NAIVE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct naive_tensor {
    char name[96];
    int32_t rows, cols; // a vector: rows 1
    double *value;
};

enum { NAIVE_MAX_TENSORS = 160, NAIVE_MAX_LAYERS = 8, NAIVE_MAX_WIDTH = 512, NAIVE_MAX_TOKENS = 64 };

enum naive_norms { NAIVE_PRE, NAIVE_SANDWICH, NAIVE_POST };

// Facts as a reader of a model's paper would state them. 0: not there.
struct naive_model {
    int32_t layers, D, H, K, d, F, V;
    enum naive_norms norms;
    bool qkv_bias, o_bias, mlp_bias, tied, fused, gelu, norms_less_one;
    int32_t qk_norm; // 1: of each head, 2: of the row
    int32_t window[NAIVE_MAX_LAYERS];
    double eps, scale, embed, residual, logits, score_cap, logit_cap; // scale: of q k
    int32_t rotary, no_rope_every;
    double freq[2][NAIVE_MAX_WIDTH], magnitude; // [1]: of layers with a window
    struct naive_tensor tensor[NAIVE_MAX_TENSORS];
    int32_t n_tensors;
};

static inline const struct naive_tensor *naive_find(const struct naive_model *m, const char *name)
{
    for (int32_t i = 0; i < m->n_tensors; i++)
        if (!strcmp(m->tensor[i].name, name))
            return &m->tensor[i];
    fprintf(stderr, "no tensor '%s'\n", name);
    abort();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static inline const struct naive_tensor *naive_layer(const struct naive_model *m, int32_t layer, const char *format)
{
    char name[96], whole[128];
    snprintf(name, sizeof name, format, "");
    snprintf(whole, sizeof whole, "model.layers.%d.%s", layer, name);
    return naive_find(m, whole);
}
#pragma GCC diagnostic pop

// y = rows first .. first+n-1 of w times x, plus bias.
static inline void naive_linear(const struct naive_tensor *w, const struct naive_tensor *bias, int32_t first, int32_t n,
                                const double *x, double *y)
{
    for (int32_t r = 0; r < n; r++) {
        y[r] = bias ? bias->value[first + r] : 0;
        for (int32_t c = 0; c < w->cols; c++)
            y[r] += w->value[(first + r) * w->cols + c] * x[c];
    }
}

static inline void naive_norm(const struct naive_model *m, const struct naive_tensor *w, int32_t n, const double *x,
                              double *y)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / n + m->eps);
    for (int32_t i = 0; i < n; i++)
        y[i] = x[i] * scale * (w->value[i] + (m->norms_less_one ? 1 : 0));
}

static inline void naive_turn(const struct naive_model *m, int32_t layer, int32_t pos, int32_t heads, double *x)
{
    int32_t half = m->no_rope_every && (layer + 1) % m->no_rope_every == 0 ? 0 : m->rotary / 2;
    for (int32_t h = 0; h < heads; h++)
        for (int32_t i = 0; i < half; i++) {
            double angle = pos * m->freq[m->window[layer] != 0][i], magnitude = m->magnitude != 0 ? m->magnitude : 1;
            double *a = &x[h * m->d + i], *b = a + half, old = *a;
            *a = (old * cos(angle) - *b * sin(angle)) * magnitude;
            *b = (*b * cos(angle) + old * sin(angle)) * magnitude;
        }
}

static inline double naive_cap(double x, double cap)
{
    return cap != 0 ? cap * tanh(x / cap) : x;
}

// Keys and values of the tokens so far, as they lie in the cache.
struct naive_cache {
    double k[NAIVE_MAX_LAYERS][NAIVE_MAX_TOKENS][NAIVE_MAX_WIDTH], v[NAIVE_MAX_LAYERS][NAIVE_MAX_TOKENS][NAIVE_MAX_WIDTH];
};

static inline void naive_project(const struct naive_model *m, int32_t layer, const double *h, double *q, double *k,
                                 double *v)
{
    int32_t nq = m->H * m->d, nk = m->K * m->d;
    const char *const NAME[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    double *out[] = {q, k, v};
    for (int i = 0; i < 3; i++) {
        char weight[64], bias[64];
        snprintf(weight, sizeof weight, "%s.weight", m->fused ? "self_attn.qkv_proj" : NAME[i]);
        snprintf(bias, sizeof bias, "%s.bias", NAME[i]);
        int32_t first = !m->fused || i == 0 ? 0 : i == 1 ? nq : nq + nk;
        naive_linear(naive_layer(m, layer, weight), m->qkv_bias ? naive_layer(m, layer, bias) : NULL, first, i ? nk : nq, h,
                     out[i]);
    }
}

static inline void naive_qk_norm(const struct naive_model *m, int32_t layer, double *q, double *k)
{
    const struct naive_tensor *wq = naive_layer(m, layer, "self_attn.q_norm.weight");
    const struct naive_tensor *wk = naive_layer(m, layer, "self_attn.k_norm.weight");
    if (m->qk_norm == 2) {
        naive_norm(m, wq, m->H * m->d, q, q);
        naive_norm(m, wk, m->K * m->d, k, k);
        return;
    }
    for (int32_t i = 0; i < m->H; i++)
        naive_norm(m, wq, m->d, q + i * m->d, q + i * m->d);
    for (int32_t i = 0; i < m->K; i++)
        naive_norm(m, wk, m->d, k + i * m->d, k + i * m->d);
}

static inline void naive_attend(const struct naive_model *m, const struct naive_cache *c, int32_t layer, int32_t pos,
                                const double *q, double *out)
{
    int32_t first = m->window[layer] && pos + 1 > m->window[layer] ? pos + 1 - m->window[layer] : 0;
    for (int32_t h = 0; h < m->H; h++) {
        int32_t at = h / (m->H / m->K) * m->d;
        double p[NAIVE_MAX_TOKENS], sum = 0;
        for (int32_t t = first; t <= pos; t++) {
            double score = 0;
            for (int32_t i = 0; i < m->d; i++)
                score += q[h * m->d + i] * c->k[layer][t][at + i];
            sum += p[t] = exp(naive_cap(score * m->scale, m->score_cap));
        }
        for (int32_t i = 0; i < m->d; i++) {
            out[h * m->d + i] = 0;
            for (int32_t t = first; t <= pos; t++)
                out[h * m->d + i] += p[t] / sum * c->v[layer][t][at + i];
        }
    }
}

// x += block's output, behind the norms that stand there.
static inline void naive_residual(const struct naive_model *m, int32_t layer, const char *post_norm, double *y, double *x)
{
    if (m->norms != NAIVE_PRE)
        naive_norm(m, naive_layer(m, layer, post_norm), m->D, y, y);
    for (int32_t i = 0; i < m->D; i++)
        x[i] += (m->residual != 0 ? m->residual : 1) * y[i];
}

static inline void naive_attention(const struct naive_model *m, struct naive_cache *c, int32_t layer, int32_t pos, double *x)
{
    double h[NAIVE_MAX_WIDTH], q[NAIVE_MAX_WIDTH], *k = c->k[layer][pos], a[NAIVE_MAX_WIDTH], y[NAIVE_MAX_WIDTH];
    memcpy(h, x, sizeof *h * (size_t)m->D);
    if (m->norms != NAIVE_POST)
        naive_norm(m, naive_layer(m, layer, "input_layernorm.weight"), m->D, x, h);
    naive_project(m, layer, h, q, k, c->v[layer][pos]);
    if (m->qk_norm)
        naive_qk_norm(m, layer, q, k);
    naive_turn(m, layer, pos, m->H, q);
    naive_turn(m, layer, pos, m->K, k);
    naive_attend(m, c, layer, pos, q, a);
    naive_linear(naive_layer(m, layer, "self_attn.o_proj.weight"),
                 m->o_bias ? naive_layer(m, layer, "self_attn.o_proj.bias") : NULL, 0, m->D, a, y);
    naive_residual(m, layer, "post_attention_layernorm.weight", y, x);
}

static inline double naive_act(const struct naive_model *m, double x)
{
    return m->gelu ? x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))) : x / (1 + exp(-x));
}

static inline void naive_feed_forward(const struct naive_model *m, int32_t layer, double *x)
{
    const char *const in_norm =
        m->norms == NAIVE_SANDWICH ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
    double h[NAIVE_MAX_WIDTH], gate[NAIVE_MAX_WIDTH], up[NAIVE_MAX_WIDTH], y[NAIVE_MAX_WIDTH];
    memcpy(h, x, sizeof *h * (size_t)m->D);
    if (m->norms != NAIVE_POST)
        naive_norm(m, naive_layer(m, layer, in_norm), m->D, x, h);
    naive_linear(naive_layer(m, layer, m->fused ? "mlp.gate_up_proj.weight" : "mlp.gate_proj.weight"),
                 m->mlp_bias ? naive_layer(m, layer, "mlp.gate_proj.bias") : NULL, 0, m->F, h, gate);
    naive_linear(naive_layer(m, layer, m->fused ? "mlp.gate_up_proj.weight" : "mlp.up_proj.weight"),
                 m->mlp_bias ? naive_layer(m, layer, "mlp.up_proj.bias") : NULL, m->fused ? m->F : 0, m->F, h, up);
    for (int32_t i = 0; i < m->F; i++)
        up[i] *= naive_act(m, gate[i]);
    naive_linear(naive_layer(m, layer, "mlp.down_proj.weight"),
                 m->mlp_bias ? naive_layer(m, layer, "mlp.down_proj.bias") : NULL, 0, m->D, up, y);
    naive_residual(m, layer, "post_feedforward_layernorm.weight", y, x);
}

// Logits of the token at `pos`, whose predecessors are in the cache.
static inline void naive_step(const struct naive_model *m, struct naive_cache *c, int32_t token, int32_t pos, double *logits)
{
    double x[NAIVE_MAX_WIDTH];
    const struct naive_tensor *embd = naive_find(m, "model.embed_tokens.weight");
    for (int32_t i = 0; i < m->D; i++)
        x[i] = embd->value[token * m->D + i] * (m->embed != 0 ? m->embed : 1);
    for (int32_t layer = 0; layer < m->layers; layer++) {
        naive_attention(m, c, layer, pos, x);
        naive_feed_forward(m, layer, x);
    }
    naive_norm(m, naive_find(m, "model.norm.weight"), m->D, x, x);
    naive_linear(m->tied ? embd : naive_find(m, "lm_head.weight"), NULL, 0, m->V, x, logits);
    for (int32_t i = 0; i < m->V; i++)
        logits[i] = naive_cap(logits[i] / (m->logits != 0 ? m->logits : 1), m->logit_cap);
}

#endif
