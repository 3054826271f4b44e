// Rounding of K and V to storage, one row at a time.
#include "engine/cpu/isa.h"
#include "engine/cpu/simd.h"

void SYM(kv_store_f32)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    memcpy(values, in, (size_t)n * sizeof *in);
}

void SYM(kv_store_f16)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store_f16((uint8_t *)values + 2 * (size_t)i, vf_load(in + i));
    dtype_from_f32(DTYPE_F16, in + i, (uint8_t *)values + 2 * (size_t)i, (size_t)(n - i));
}

void SYM(kv_store_bf16)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    (void)scale;
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store_bf16((uint8_t *)values + 2 * (size_t)i, vf_load(in + i));
    dtype_from_f32(DTYPE_BF16, in + i, (uint8_t *)values + 2 * (size_t)i, (size_t)(n - i));
}

// Symmetric by the largest magnitude, with the scale as stored (f16): what dtype_from_f32 does.
void SYM(kv_store_int8)(const float *in, void *values, uint16_t *scale, int32_t n)
{
    vf high = vf_zero();
    int32_t i = 0;
    for (; i + VL <= n; i += VL)
        high = vf_max(high, vf_abs(vf_load(in + i)));
    if (i < n)
        high = vf_max(high, vf_abs(vf_load_n(in + i, n - i)));
    *scale = f32_to_f16(vf_highest(high) / 127);
    float d = f16_to_f32(*scale);
    vf inverse = vf_set(d > 0 ? 1 / d : 0);
    for (i = 0; i < n; i += VL) {
        int32_t left = n - i;
        vf x = vf_mul(left < VL ? vf_load_n(in + i, left) : vf_load(in + i), inverse);
        uint8_t q[VL];
        vi_store_i8(q, vf_to_vi(vf_min(vf_max(x, vf_set(-127)), vf_set(127))));
        memcpy((uint8_t *)values + i, q, (size_t)(left < VL ? left : VL));
    }
}
