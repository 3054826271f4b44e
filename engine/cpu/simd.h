// Vectors as the kernels see them: VL lanes of f32, of i32 (or four bytes each), or of bf16 pairs, whatever the instruction
// set. Included by kernels_*.c, which the Makefile compiles once per instruction set.
#ifndef ENGINE_CPU_SIMD_H
#define ENGINE_CPU_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Kernels are written for any type or tile and specialized by inlining them with constant arguments.
#define SPECIALIZE static inline __attribute__((always_inline))

#ifdef __AVX512F__

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

#else // AVX2, FMA, F16C

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

// Bytes per lane: vi_dot4(c, u, s) is c plus the sum of four products, u unsigned (at most 128 unless the instruction set
// has VNNI), s signed and not -128. vi_dot4_i8 takes for u signed bytes ^ 0x80; its sum begins at dot4_start(sum of s),
// which takes back what that adds.
#if defined __AVX512VNNI__ || defined __AVXVNNI__
SPECIALIZE vi vi_dot4_i8(vi c, vi u, vi s)
{
    return vi_dot4(c, u, s);
}
SPECIALIZE int32_t dot4_start(int32_t sum)
{
    return -128 * sum;
}
#else
SPECIALIZE vi vi_dot4_i8(vi c, vi u, vi s)
{
    vi a = vi_xor(u, vi_set((int32_t)0x80808080));
    return vi_dot4(c, vi_abs8(a), vi_sign8(s, a));
}
SPECIALIZE int32_t dot4_start(int32_t sum)
{
    return 0 * sum;
}
#endif

// bf16 pairs, the first in the low half of a lane: vf_dot2(c, a, b) is c plus the sum of two products, in f32.
#ifndef __AVX512BF16__
typedef struct {
    vf low, high;
} vp;

SPECIALIZE vp vp_from(vi pairs)
{
    return (vp){vi_low_bf16(pairs), vi_high_bf16(pairs)};
}
SPECIALIZE vp vp_load(const void *p)
{
    return vp_from(vi_load(p));
}
SPECIALIZE vp vp_set(uint32_t pair)
{
    return vp_from(vi_set((int32_t)pair));
}
SPECIALIZE vf vf_dot2(vf c, vp a, vp b)
{
    return vf_fma(a.high, b.high, vf_fma(a.low, b.low, c));
}
#endif

// To nearest even: add half of the last place kept, less one where it is even. (The NaN that arithmetic makes stays one.)
SPECIALIZE void vf_store_bf16(void *p, vf x)
{
    vi bits = vf_bits(x), odd = vi_and(vi_right(bits, 16), vi_set(1));
    vi_store_u16(p, vi_right(vi_add(bits, vi_add(vi_set(0x7fff), odd)), 16));
}

// The same where no value is denormal (those become 0 where the CPU has an instruction for it).
SPECIALIZE void vf_store_bf16_normal(void *p, vf x)
{
#ifdef __AVX512BF16__
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
#else
    vf_store_bf16(p, x);
#endif
}

// The first n < VL values; the other lanes are 0.
SPECIALIZE vf vf_load_n(const float *p, int32_t n)
{
    float all[VL] = {0};
    memcpy(all, p, (size_t)n * sizeof *all);
    return vf_load(all);
}
SPECIALIZE void vf_store_n(float *p, vf x, int32_t n)
{
    float all[VL];
    vf_store(all, x);
    memcpy(p, all, (size_t)n * sizeof *all);
}

// e^x to about 1 ulp; 0 below -87, where f32 runs out. Range reduction by ln 2 in two parts (Cody, Waite), then the Taylor
// polynomial of degree 7 on |r| <= ln(2) / 2, whose remainder there is below 2^-26. e^0 = 1 exactly.
SPECIALIZE vf vf_exp(vf x)
{
    vf lowest = vf_set(-87), clipped = vf_min(vf_set(88), vf_max(lowest, x)); // in this order NaN stays NaN
    vf n = vf_round(vf_mul(clipped, vf_set(1.44269504f)));
    vf r = vf_fma(n, vf_set(-0.693359375f), clipped);
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    vf p = vf_set(1.0f / 5040);
    p = vf_fma(p, r, vf_set(1.0f / 720));
    p = vf_fma(p, r, vf_set(1.0f / 120));
    p = vf_fma(p, r, vf_set(1.0f / 24));
    p = vf_fma(p, r, vf_set(1.0f / 6));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    vf power = vi_bits(vi_left(vi_add(vf_to_vi(n), vi_set(127)), 23));
    return vf_zero_below(x, lowest, vf_mul(p, power));
}

// 2^x to 5e-7; 0 from -150 down. For weights that are rounded to fewer bits afterwards: a polynomial of degree 5 on
// |x - round(x)| <= 1/2, coefficients by Remez's exchange for the least relative error among those with 2^0 = 1 exactly.
SPECIALIZE vf vf_exp2_short(vf x)
{
    x = vf_max(vf_set(-150), x); // in this order NaN stays NaN
    vf n = vf_round(x), r = vf_sub(x, n);
    vf p = vf_set(0.00111255096f);
    p = vf_fma(p, r, vf_set(0.00966628268f));
    p = vf_fma(p, r, vf_set(0.0555740036f));
    p = vf_fma(p, r, vf_set(0.240223512f));
    p = vf_fma(p, r, vf_set(0.693142831f));
    p = vf_fma(p, r, vf_set(1));
    return vf_times_exp2(p, n);
}

// cap * tanh(x / cap) = cap - 2 cap / (exp(2 x / cap) + 1)
SPECIALIZE vf vf_softcap(vf x, float cap)
{
    vf e = vf_exp(vf_mul(x, vf_set(2 / cap)));
    return vf_sub(vf_set(cap), vf_div(vf_set(2 * cap), vf_add(e, vf_set(1))));
}

#endif
