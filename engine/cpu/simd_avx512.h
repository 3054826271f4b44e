// The vectors of simd.h in AVX-512 (F, BW, VL, DQ), with VNNI and BF16 where the table has them. Included by simd.h alone.
#ifndef ENGINE_CPU_SIMD_AVX512_H
#define ENGINE_CPU_SIMD_AVX512_H

enum { VL = 16 };
typedef __m512 vf;  // f32
typedef __m512i vi; // i32

SPECIALIZE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
SPECIALIZE vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
SPECIALIZE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
SPECIALIZE void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
SPECIALIZE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
SPECIALIZE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
SPECIALIZE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
SPECIALIZE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
SPECIALIZE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
SPECIALIZE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
SPECIALIZE vf vf_fma(vf a, vf b, vf c) // a * b + c
{
    return _mm512_fmadd_ps(a, b, c);
}
SPECIALIZE vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}
SPECIALIZE vf vf_round(vf a) // to nearest, ties to even
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SPECIALIZE vf vf_times_exp2(vf a, vf n) // a * 2^n, n a whole number
{
    return _mm512_scalef_ps(a, n);
}
SPECIALIZE vf vf_zero_below(vf x, vf limit, vf y) // x < limit ? 0 : y
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), y);
}
SPECIALIZE vf vf_select_range(vf x, vf other, int32_t begin, int32_t end) // lane in [begin, end) ? x : other
{
    const vi lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __mmask16 in =
        _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin)) & _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
    return _mm512_mask_mov_ps(other, in, x);
}
SPECIALIZE float vf_sum(vf a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
SPECIALIZE float vf_highest(vf a)
{
    return _mm512_reduce_max_ps(a);
}
SPECIALIZE vf vf_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
SPECIALIZE vf vf_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
SPECIALIZE void vf_store_f16(void *p, vf x)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SPECIALIZE vi vi_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
SPECIALIZE vi vi_spread(uint32_t bits) // bit i of `bits` in lane i
{
    return _mm512_maskz_set1_epi32((__mmask16)bits, 1);
}
SPECIALIZE __m128i load_lane_bytes(const void *p) // a byte per lane
{
    return _mm_loadu_si128(p);
}
SPECIALIZE vi vi_load_u8(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
SPECIALIZE vi vi_load_i8(const void *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(p));
}
SPECIALIZE void vi_store_i8(void *p, vi x) // values fit
{
    _mm_storeu_si128(p, _mm512_cvtepi32_epi8(x));
}
SPECIALIZE void vi_store_u16(void *p, vi x) // values fit
{
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(x));
}
SPECIALIZE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
SPECIALIZE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}
SPECIALIZE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
SPECIALIZE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
SPECIALIZE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}
SPECIALIZE vi vi_from_i8(__m128i a)
{
    return _mm512_cvtepi8_epi32(a);
}
SPECIALIZE vi vi_nibbles(vi a, bool high) // of each byte
{
    return _mm512_and_si512(high ? _mm512_srli_epi32(a, 4) : a, _mm512_set1_epi8(15));
}
SPECIALIZE int32_t vi_sum(vi a)
{
    return _mm512_reduce_add_epi32(a);
}
SPECIALIZE vi vi_right(vi a, int n)
{
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n));
}
SPECIALIZE vi vi_left(vi a, int n)
{
    return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n));
}
SPECIALIZE vf vi_to_vf(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
SPECIALIZE vi vf_to_vi(vf a) // to nearest, ties to even
{
    return _mm512_cvtps_epi32(a);
}
SPECIALIZE vf vi_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}
SPECIALIZE vi vf_bits(vf a)
{
    return _mm512_castps_si512(a);
}
SPECIALIZE vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
SPECIALIZE void vi_store(void *p, vi x)
{
    _mm512_storeu_si512(p, x);
}
#ifdef __AVX512VNNI__
SPECIALIZE vi vi_dot4(vi c, vi u, vi s)
{
    return _mm512_dpbusd_epi32(c, u, s);
}
#else
SPECIALIZE vi vi_dot4(vi c, vi u, vi s) // u <= 128: pairs are summed in 16 bits
{
    return _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_maddubs_epi16(u, s), _mm512_set1_epi16(1)));
}
SPECIALIZE vi vi_abs8(vi a)
{
    return _mm512_abs_epi8(a);
}
SPECIALIZE vi vi_sign8(vi a, vi b) // -a where b < 0
{
    return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(b), _mm512_setzero_si512(), a);
}
#endif

#ifdef __AVX512BF16__
typedef __m512bh vp; // bf16 pairs

SPECIALIZE vp vp_load(const void *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}
SPECIALIZE vp vp_from(vi pairs)
{
    return (__m512bh)pairs;
}
SPECIALIZE vp vp_set(uint32_t pair)
{
    return (__m512bh)_mm512_set1_epi32((int32_t)pair);
}
SPECIALIZE vf vf_dot2(vf c, vp a, vp b)
{
    return _mm512_dpbf16_ps(c, a, b);
}
#else
SPECIALIZE vf vi_low_bf16(vi pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
SPECIALIZE vf vi_high_bf16(vi pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xffff0000)));
}
#endif

// Bytes or 16-bit values of two registers in turn, inside 128-bit lanes: their lower halves, their upper halves.
SPECIALIZE vi vi_zip8_low(vi a, vi b)
{
    return _mm512_unpacklo_epi8(a, b);
}
SPECIALIZE vi vi_zip8_high(vi a, vi b)
{
    return _mm512_unpackhi_epi8(a, b);
}
SPECIALIZE vi vi_zip16_low(vi a, vi b)
{
    return _mm512_unpacklo_epi16(a, b);
}
SPECIALIZE vi vi_zip16_high(vi a, vi b)
{
    return _mm512_unpackhi_epi16(a, b);
}

// Lane i of the result is the sum of all lanes of r[i], by one tree of additions for each. `add` says of what.
SPECIALIZE vf vf_sums(vf (*add)(vf, vf), vf *r)
{
    for (int i = 0; i < VL; i += 2)
        r[i] = add(_mm512_unpacklo_ps(r[i], r[i + 1]), _mm512_unpackhi_ps(r[i], r[i + 1]));
    for (int i = 0; i < VL; i += 4) {
        __m512d a = _mm512_castps_pd(r[i]), b = _mm512_castps_pd(r[i + 2]);
        r[i] = add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int i = 0; i < VL; i += 8)
        r[i] = add(_mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd));
    return add(_mm512_shuffle_f32x4(r[0], r[8], 0x88), _mm512_shuffle_f32x4(r[0], r[8], 0xdd));
}

// r[i][j] <-> r[j][i] of VL x VL values: 4 x 4 inside 128-bit lanes, then the lanes.
SPECIALIZE void vf_transpose(vf *r)
{
    vf t[VL];
    for (int i = 0; i < VL; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VL; i += 4)
        for (int k = 0; k < 2; k++) {
            __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + k + 2]);
            r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int c = 0; c < 4; c++) {
        vf even = _mm512_shuffle_f32x4(r[c], r[c + 4], 0x88), odd = _mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd);
        vf even2 = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88), odd2 = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd);
        r[c] = _mm512_shuffle_f32x4(even, even2, 0x88);
        r[c + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        r[c + 8] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        r[c + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

#endif
