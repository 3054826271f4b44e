// Norm, rotary embedding, activation, residual; one row or head at a time.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

#include <math.h>

static float square_sum(const float *x, int32_t n)
{
    vf sum = vf_zero();
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        sum = vf_fma(vf_load(x + i), vf_load(x + i), sum);
    if (i < n)
        sum = vf_fma(vf_load_n(x + i, n - i), vf_load_n(x + i, n - i), sum);
    return vf_sum(sum);
}

void SYM(norm)(const float *x, const float *weight, float eps, float *y, int32_t n)
{
    float scale = 1 / sqrtf(square_sum(x, n) / (float)n + eps);
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), vf_set(scale)), vf_load(weight + i)));
    for (; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

void SYM(rope)(const float *x, const float *cos, const float *sin, float *y, int32_t n, int32_t rotary_dim)
{
    int32_t h = rotary_dim / 2, i = 0;
    for (; i + VL <= h; i += VL) {
        vf a = vf_load(x + i), b = vf_load(x + i + h), c = vf_load(cos + i), s = vf_load(sin + i);
        vf_store(y + i, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(y + i + h, vf_add(vf_mul(b, c), vf_mul(a, s)));
    }
    for (; i < h; i++) {
        float a = x[i], b = x[i + h];
        y[i] = a * cos[i] - b * sin[i];
        y[i + h] = b * cos[i] + a * sin[i];
    }
    memcpy(y + rotary_dim, x + rotary_dim, (size_t)(n - rotary_dim) * sizeof *y);
}

SPECIALIZE vf silu(vf gate, vf up)
{
    vf e = vf_exp(vf_sub(vf_zero(), gate));
    return vf_mul(vf_div(gate, vf_add(vf_set(1), e)), up);
}

void SYM(silu_mul)(const float *gate, const float *up, float *y, int32_t n)
{
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, silu(vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        vf_store_n(y + i, silu(vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

// x * Phi(x) by its approximation x (1 + tanh u) / 2 = x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
SPECIALIZE vf gelu_tanh(vf gate, vf up)
{
    vf cube = vf_mul(vf_mul(gate, gate), gate), u = vf_fma(vf_set(0.044715f), cube, gate);
    vf e = vf_exp(vf_mul(vf_set(-2 * 0.7978845608f), u));
    return vf_mul(vf_div(gate, vf_add(vf_set(1), e)), up);
}

void SYM(gelu_tanh_mul)(const float *gate, const float *up, float *y, int32_t n)
{
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, gelu_tanh(vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        vf_store_n(y + i, gelu_tanh(vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i)), n - i);
}

void SYM(add)(const float *a, const float *b, float factor, float *y, int32_t n)
{
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_fma(vf_set(factor), vf_load(b + i), vf_load(a + i)));
    if (i < n)
        vf_store_n(y + i, vf_fma(vf_set(factor), vf_load_n(b + i, n - i), vf_load_n(a + i, n - i)), n - i);
}

void SYM(scale)(float *x, float factor, float softcap, int32_t n)
{
    for (int32_t i = 0; i < n; i += VL) {
        int32_t left = n - i < VL ? n - i : VL;
        vf v = vf_mul(vf_load_n(x + i, left), vf_set(factor));
        vf_store_n(x + i, softcap != 0 ? vf_softcap(v, softcap) : v, left);
    }
}
