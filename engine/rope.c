#include "engine/model_spec.h"

#include <math.h>

// Llama 3.1's rule (transformers, modeling_rope_utils.py, _compute_llama3_parameters): wavelengths above
// original / low_freq_factor are stretched by `factor`, those below original / high_freq_factor are kept.
static double llama3_freq(const struct rope_spec *r, double freq)
{
    double wavelength = 2 * 3.14159265358979323846 / freq, original = r->original_max_position_embeddings;
    if (wavelength < original / r->high_freq_factor)
        return freq;
    if (wavelength > original / r->low_freq_factor)
        return freq / r->factor;
    double smooth = (original / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

void rope_inv_freq(const struct rope_spec *rope, float *out)
{
    for (int32_t i = 0; i < rope->rotary_dim / 2; i++) {
        double freq = pow(rope->theta, -2.0 * i / rope->rotary_dim);
        switch (rope->kind) {
        case ROPE_DEFAULT: break;
        case ROPE_LINEAR: freq /= rope->factor; break;
        case ROPE_LLAMA3: freq = llama3_freq(rope, freq); break;
        case ROPE_FACTORS: freq /= (double)rope->freq_factor[i]; break;
        }
        out[i] = (float)freq;
    }
}
