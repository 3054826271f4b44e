// The vectors of simd.h in AVX2, FMA and F16C, with AVX-VNNI where the table has it. Included by simd.h alone.
#ifndef ENGINE_CPU_SIMD_AVX2_H
#define ENGINE_CPU_SIMD_AVX2_H

enum { VL = 8 };
typedef __m256 vf;
typedef __m256i vi;

SPECIALIZE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
SPECIALIZE vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}
SPECIALIZE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
SPECIALIZE void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}
SPECIALIZE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
SPECIALIZE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
SPECIALIZE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
SPECIALIZE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
SPECIALIZE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
SPECIALIZE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
SPECIALIZE vf vf_fma(vf a, vf b, vf c) // a * b + c
{
    return _mm256_fmadd_ps(a, b, c);
}
SPECIALIZE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
SPECIALIZE vf vf_round(vf a) // to nearest, ties to even
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SPECIALIZE vf vf_times_exp2(vf a, vf n) // a * 2^n, n a whole number up to 127; 0 where n < -126
{
    __m256i power = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_max_ps(_mm256_set1_ps(-127), n)), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
}
SPECIALIZE vf vf_zero_below(vf x, vf limit, vf y) // x < limit ? 0 : y
{
    return _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_NLT_UQ), y);
}
SPECIALIZE vf vf_select_range(vf x, vf other, int32_t begin, int32_t end) // lane in [begin, end) ? x : other
{
    const vi lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    vi before = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane), in = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane);
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(_mm256_andnot_si256(before, in)));
}
SPECIALIZE float vf_sum(vf a)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
SPECIALIZE float vf_highest(vf a)
{
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
SPECIALIZE vf vf_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
SPECIALIZE vf vf_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
SPECIALIZE void vf_store_f16(void *p, vf x)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SPECIALIZE vi vi_set(int32_t x)
{
    return _mm256_set1_epi32(x);
}
SPECIALIZE vi vi_spread(uint32_t bits) // bit i of `bits` in lane i
{
    const vi lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_and_si256(_mm256_srlv_epi32(vi_set((int32_t)bits), lane), vi_set(1));
}
SPECIALIZE __m128i load_lane_bytes(const void *p) // a byte per lane
{
    return _mm_loadl_epi64(p);
}
SPECIALIZE vi vi_load_u8(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
SPECIALIZE vi vi_load_i8(const void *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(p));
}
SPECIALIZE __m128i vi_low_halves(vi x) // the low 16 bits of each lane
{
    vi packed = _mm256_packus_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)), _mm256_setzero_si256());
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
SPECIALIZE void vi_store_i8(void *p, vi x) // values fit
{
    __m128i h = vi_low_halves(x);
    _mm_storel_epi64(p, _mm_packs_epi16(h, h));
}
SPECIALIZE void vi_store_u16(void *p, vi x) // values fit
{
    _mm_storeu_si128(p, vi_low_halves(x));
}
SPECIALIZE vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
SPECIALIZE vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}
SPECIALIZE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
SPECIALIZE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
SPECIALIZE vi vi_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}
SPECIALIZE vi vi_from_i8(__m128i a)
{
    return _mm256_cvtepi8_epi32(a);
}
SPECIALIZE vi vi_nibbles(vi a, bool high) // of each byte
{
    return _mm256_and_si256(high ? _mm256_srli_epi32(a, 4) : a, _mm256_set1_epi8(15));
}
SPECIALIZE int32_t vi_sum(vi a)
{
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
SPECIALIZE vi vi_right(vi a, int n)
{
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128(n));
}
SPECIALIZE vi vi_left(vi a, int n)
{
    return _mm256_sll_epi32(a, _mm_cvtsi32_si128(n));
}
SPECIALIZE vf vi_to_vf(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
SPECIALIZE vi vf_to_vi(vf a) // to nearest, ties to even
{
    return _mm256_cvtps_epi32(a);
}
SPECIALIZE vf vi_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}
SPECIALIZE vi vf_bits(vf a)
{
    return _mm256_castps_si256(a);
}
SPECIALIZE vi vi_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
SPECIALIZE void vi_store(void *p, vi x)
{
    _mm256_storeu_si256(p, x);
}
#ifdef __AVXVNNI__
SPECIALIZE vi vi_dot4(vi c, vi u, vi s)
{
    return _mm256_dpbusd_avx_epi32(c, u, s);
}
#else
SPECIALIZE vi vi_dot4(vi c, vi u, vi s) // u <= 128: pairs are summed in 16 bits
{
    return _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
}
SPECIALIZE vi vi_abs8(vi a)
{
    return _mm256_abs_epi8(a);
}
SPECIALIZE vi vi_sign8(vi a, vi b) // -a where b < 0, 0 where b is
{
    return _mm256_sign_epi8(a, b);
}
#endif
SPECIALIZE vf vi_low_bf16(vi pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
SPECIALIZE vf vi_high_bf16(vi pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int32_t)0xffff0000)));
}

// Bytes or 16-bit values of two registers in turn, inside 128-bit lanes: their lower halves, their upper halves.
SPECIALIZE vi vi_zip8_low(vi a, vi b)
{
    return _mm256_unpacklo_epi8(a, b);
}
SPECIALIZE vi vi_zip8_high(vi a, vi b)
{
    return _mm256_unpackhi_epi8(a, b);
}
SPECIALIZE vi vi_zip16_low(vi a, vi b)
{
    return _mm256_unpacklo_epi16(a, b);
}
SPECIALIZE vi vi_zip16_high(vi a, vi b)
{
    return _mm256_unpackhi_epi16(a, b);
}

// Lane i of the result is the sum of all lanes of r[i], by one tree of additions for each. `add` says of what.
SPECIALIZE vf vf_sums(vf (*add)(vf, vf), vf *r)
{
    for (int i = 0; i < VL; i += 2)
        r[i] = add(_mm256_unpacklo_ps(r[i], r[i + 1]), _mm256_unpackhi_ps(r[i], r[i + 1]));
    for (int i = 0; i < VL; i += 4) {
        __m256d a = _mm256_castps_pd(r[i]), b = _mm256_castps_pd(r[i + 2]);
        r[i] = add(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return add(_mm256_permute2f128_ps(r[0], r[4], 0x20), _mm256_permute2f128_ps(r[0], r[4], 0x31));
}

// r[i][j] <-> r[j][i] of VL x VL values: 4 x 4 inside 128-bit lanes, then the lanes.
SPECIALIZE void vf_transpose(vf *r)
{
    vf t[VL];
    for (int i = 0; i < VL; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VL; i += 4)
        for (int k = 0; k < 2; k++) {
            __m256d a = _mm256_castps_pd(t[i + k]), b = _mm256_castps_pd(t[i + k + 2]);
            r[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
            r[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
    for (int c = 0; c < 4; c++) {
        vf low = r[c], high = r[c + 4];
        r[c] = _mm256_permute2f128_ps(low, high, 0x20);
        r[c + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

#endif
