#include "engine/model_spec.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

// Llama 3.1's rule (transformers, modeling_rope_utils.py, _compute_llama3_parameters): wavelengths above
// original / low_freq_factor are stretched by `factor`, those below original / high_freq_factor are kept.
static double llama3_freq(const struct rope_spec *r, double freq)
{
    double wavelength = 2 * PI / freq, original = r->original_max_position_embeddings;
    if (wavelength < original / r->high_freq_factor)
        return freq;
    if (wavelength > original / r->low_freq_factor)
        return freq / r->factor;
    double smooth = (original / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

// The dimension whose pair turns this often over the original context.
static double turning_dim(const struct rope_spec *r, double turns)
{
    double positions = r->original_max_position_embeddings / (turns * 2 * PI);
    return r->rotary_dim * log(positions) / (2 * log(r->theta));
}

// YaRN (Peng et al. 2023; transformers, modeling_rope_utils.py, _compute_yarn_parameters): pairs that turn more often than
// beta_fast are kept, those below beta_slow divided by `factor`, a ramp between.
static double yarn_freq(const struct rope_spec *r, double freq, int32_t pair)
{
    double low = turning_dim(r, r->beta_fast), high = turning_dim(r, r->beta_slow);
    low = fmax(r->ramp_is_exact ? low : floor(low), 0);
    high = fmin(r->ramp_is_exact ? high : ceil(high), r->rotary_dim - 1);
    double width = high == low ? 0.001 : high - low, stretched = fmin(fmax((pair - low) / width, 0), 1);
    return freq / r->factor * stretched + freq * (1 - stretched);
}

bool rope_is_long(const struct rope_spec *rope, int32_t context)
{
    return rope->kind == ROPE_LONG && context > rope->original_max_position_embeddings;
}

void rope_inv_freq(const struct rope_spec *rope, bool is_long, float *out)
{
    for (int32_t i = 0; i < rope->rotary_dim / 2; i++) {
        double freq = pow(rope->theta, -2.0 * i / rope->rotary_dim);
        switch (rope->kind) {
        case ROPE_DEFAULT: break;
        case ROPE_LINEAR: freq /= rope->factor; break;
        case ROPE_LLAMA3: freq = llama3_freq(rope, freq); break;
        case ROPE_YARN: freq = yarn_freq(rope, freq, i); break;
        case ROPE_FACTORS: freq /= (double)rope->freq_factor[i]; break;
        case ROPE_LONG: freq /= (double)(is_long ? rope->long_factor : rope->freq_factor)[i]; break;
        }
        out[i] = (float)freq;
    }
}
