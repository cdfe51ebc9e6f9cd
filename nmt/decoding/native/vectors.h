/* Sixteen fp32 lanes, in the registers of an instruction set. Included once per instruction set, by kernels.h.
 *
 * Every operation here gives the same result on every processor: IEEE 754 addition, multiplication and division, per
 * lane; v_max(a, b) is a > b ? a : b, so b if either is NaN; v_sum and v_highest combine the lanes in
 * a fixed order. So the functions of kernels.h, which use only these operations, return the same bits on every
 * processor.
 */

#if ISA_LEVEL == ISA_AVX512

typedef struct { __m512 r; } vec;

FN vec v_load(const float *p) { return (vec){_mm512_loadu_ps(p)}; }
FN void v_store(float *p, vec a) { _mm512_storeu_ps(p, a.r); }
/* Numbers of bfloat16, the upper halves of fp32. */
FN vec v_load_half(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return (vec){_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
/* Sixteen pairs of them: the first and the second of each. */
FN void v_load_pairs(const uint16_t *p, vec *first, vec *second) {
    __m512i pairs = _mm512_loadu_si512((const void *)p);
#if defined(__GNUC__)
    __asm__("" : "+v"(pairs)); /* loaded once: two loads of 64 bytes would take as long as all that is computed with them */
#endif
    first->r = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    second->r = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}
/* Lanes a, b become a0 b0 a1 b1 ..., the inverse of v_load_pairs. */
FN void v_interleave(vec *a, vec *b) {
    __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 first = _mm512_permutex2var_ps(a->r, low, b->r);
    b->r = _mm512_permutex2var_ps(a->r, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b->r);
    a->r = first;
}
FN vec v_set(float x) { return (vec){_mm512_set1_ps(x)}; }
FN vec v_add(vec a, vec b) { return (vec){_mm512_add_ps(a.r, b.r)}; }
FN vec v_sub(vec a, vec b) { return (vec){_mm512_sub_ps(a.r, b.r)}; }
FN vec v_mul(vec a, vec b) { return (vec){_mm512_mul_ps(a.r, b.r)}; }
FN vec v_div(vec a, vec b) { return (vec){_mm512_div_ps(a.r, b.r)}; }
FN vec v_fma(vec a, vec b, vec c) { return (vec){_mm512_fmadd_ps(a.r, b.r, c.r)}; }
FN vec v_max(vec a, vec b) { return (vec){_mm512_max_ps(a.r, b.r)}; }
FN vec v_min(vec a, vec b) { return (vec){_mm512_min_ps(a.r, b.r)}; }
FN vec v_round(vec a) {
    return (vec){_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/* 2^n for whole numbers n in [-126, 127]. */
FN vec v_exp2i(vec n) {
    __m512i bits = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.r), _mm512_set1_epi32(127)), 23);
    return (vec){_mm512_castsi512_ps(bits)};
}
/* The larger of the bit patterns of |a| and |b|, as if they were integers: NaN and infinity are larger than numbers. */
FN vec v_maxabs(vec a, vec b) {
    __m512i mask = _mm512_set1_epi32(0x7fffffff);
    __m512i x = _mm512_and_si512(_mm512_castps_si512(a.r), mask), y = _mm512_and_si512(_mm512_castps_si512(b.r), mask);
    return (vec){_mm512_castsi512_ps(_mm512_max_epu32(x, y))};
}
/* a where the lane's number is below n, b from there on. */
FN vec v_first(vec a, vec b, int n) {
    __mmask16 m = (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1u);
    return (vec){_mm512_mask_blend_ps(m, b.r, a.r)};
}
/* Writes the nearest whole numbers, ties to even, and returns them. */
FN vec v_to_int8(vec a, int8_t *p) {
    __m512i whole = _mm512_cvtps_epi32(a.r);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(whole));
    return (vec){_mm512_cvtepi32_ps(whole)};
}
/* The largest lane, as a bit pattern, of what v_maxabs returns. */
FN float v_most(vec a) {
    uint32_t bits = _mm512_reduce_max_epu32(_mm512_castps_si512(a.r));
    float most;
    memcpy(&most, &bits, 4);
    return most;
}
FN vec v_from_int(const int32_t *p) { return (vec){_mm512_cvtepi32_ps(_mm512_loadu_si512((const void *)p))}; }

/* The nearest numbers of bfloat16, as half_of rounds them. */
FN __m256i v_halves(vec a) {
    __m512i bits = _mm512_castps_si512(a.r), upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(a.r, a.r, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, upper, _mm512_set1_epi32(64)));
}

#elif ISA_LEVEL == ISA_AVX2

typedef struct { __m256 a, b; } vec;

FN vec v_load(const float *p) { return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FN void v_store(float *p, vec x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
#define WIDEN256(p) \
    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
FN vec v_load_half(const uint16_t *p) { return (vec){WIDEN256(p), WIDEN256(p + 8)}; }
#define FIRST256(pairs) _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16))
#define SECOND256(pairs) _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)))
FN void v_load_pairs(const uint16_t *p, vec *first, vec *second) {
    __m256i a = _mm256_loadu_si256((const __m256i *)p), b = _mm256_loadu_si256((const __m256i *)(p + 16));
    *first = (vec){FIRST256(a), FIRST256(b)};
    *second = (vec){SECOND256(a), SECOND256(b)};
}
#define INTERLEAVE256(x, y, part) \
    _mm256_permute2f128_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y), part)
FN void v_interleave(vec *x, vec *y) {
    vec low = {INTERLEAVE256(x->a, y->a, 0x20), INTERLEAVE256(x->a, y->a, 0x31)};
    *y = (vec){INTERLEAVE256(x->b, y->b, 0x20), INTERLEAVE256(x->b, y->b, 0x31)};
    *x = low;
}
FN vec v_set(float x) { return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
FN vec v_add(vec x, vec y) { return (vec){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
FN vec v_sub(vec x, vec y) { return (vec){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
FN vec v_mul(vec x, vec y) { return (vec){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
FN vec v_div(vec x, vec y) { return (vec){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
FN vec v_fma(vec x, vec y, vec z) {
    return (vec){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
FN vec v_max(vec x, vec y) { return (vec){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
FN vec v_min(vec x, vec y) { return (vec){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
#define ROUND256(x) _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
FN vec v_round(vec x) { return (vec){ROUND256(x.a), ROUND256(x.b)}; }
#define EXP2I256(x) \
    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127)), 23))
FN vec v_exp2i(vec n) { return (vec){EXP2I256(n.a), EXP2I256(n.b)}; }
#define ABS256(x) _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff))
FN vec v_maxabs(vec x, vec y) {
    return (vec){_mm256_castsi256_ps(_mm256_max_epu32(ABS256(x.a), ABS256(y.a))),
                 _mm256_castsi256_ps(_mm256_max_epu32(ABS256(x.b), ABS256(y.b)))};
}
FN vec v_first(vec x, vec y, int n) {
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes));
    __m256 high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lanes));
    return (vec){_mm256_blendv_ps(y.a, x.a, low), _mm256_blendv_ps(y.b, x.b, high)};
}
FN vec v_to_int8(vec x, int8_t *p) {
    __m256i low = _mm256_cvtps_epi32(x.a), high = _mm256_cvtps_epi32(x.b);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)p, bytes);
    return (vec){_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
}
FN vec v_from_int(const int32_t *p) {
    return (vec){_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p)),
                 _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(p + 8)))};
}
FN __m256i halves256(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1)), nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i nearest = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    return _mm256_blendv_epi8(nearest, _mm256_or_si256(upper, _mm256_set1_epi32(64)), nan);
}
FN __m256i v_halves(vec x) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(halves256(x.a), halves256(x.b)), 0xd8);
}

#elif ISA_LEVEL == ISA_WASM

typedef struct { v128_t r[4]; } vec;
#define EACH_PART(expression) vec out; UNROLL for (int i = 0; i < 4; i++) out.r[i] = expression; return out

FN vec v_load(const float *p) { EACH_PART(wasm_v128_load(p + 4 * i)); }
FN void v_store(float *p, vec a) { UNROLL for (int i = 0; i < 4; i++) wasm_v128_store(p + 4 * i, a.r[i]); }
FN vec v_load_half(const uint16_t *p) { EACH_PART(wasm_i32x4_shl(wasm_u32x4_load16x4(p + 4 * i), 16)); }
FN v128_t load_of_pairs(const uint16_t *p, const int second) {
    v128_t pairs = wasm_v128_load(p);
    return second ? wasm_v128_and(pairs, wasm_i32x4_splat(-65536)) : wasm_i32x4_shl(pairs, 16);
}
FN void v_load_pairs(const uint16_t *p, vec *first, vec *second) {
    UNROLL for (int i = 0; i < 4; i++) first->r[i] = load_of_pairs(p + 8 * i, 0), second->r[i] = load_of_pairs(p + 8 * i, 1);
}
FN void v_interleave(vec *a, vec *b) {
    vec x = *a, y = *b;
    UNROLL for (int i = 0; i < 4; i++) {
        vec *out = i < 2 ? a : b;
        out->r[2 * (i % 2)] = wasm_i32x4_shuffle(x.r[i], y.r[i], 0, 4, 1, 5);
        out->r[2 * (i % 2) + 1] = wasm_i32x4_shuffle(x.r[i], y.r[i], 2, 6, 3, 7);
    }
}
FN vec v_set(float x) { EACH_PART(wasm_f32x4_splat(x)); }
FN vec v_add(vec a, vec b) { EACH_PART(wasm_f32x4_add(a.r[i], b.r[i])); }
FN vec v_sub(vec a, vec b) { EACH_PART(wasm_f32x4_sub(a.r[i], b.r[i])); }
FN vec v_mul(vec a, vec b) { EACH_PART(wasm_f32x4_mul(a.r[i], b.r[i])); }
FN vec v_div(vec a, vec b) { EACH_PART(wasm_f32x4_div(a.r[i], b.r[i])); }
FN vec v_max(vec a, vec b) { EACH_PART(wasm_f32x4_pmax(b.r[i], a.r[i])); }
FN vec v_min(vec a, vec b) { EACH_PART(wasm_f32x4_pmin(b.r[i], a.r[i])); }
FN vec v_round(vec a) { EACH_PART(wasm_f32x4_nearest(a.r[i])); }
FN v128_t to_int(v128_t a) { return wasm_i32x4_trunc_sat_f32x4(a); }
FN vec v_exp2i(vec n) {
    EACH_PART(wasm_i32x4_shl(wasm_i32x4_add(to_int(n.r[i]), wasm_i32x4_splat(127)), 23));
}
FN vec v_maxabs(vec a, vec b) {
    const v128_t mask = wasm_i32x4_splat(0x7fffffff);
    EACH_PART(wasm_u32x4_max(wasm_v128_and(a.r[i], mask), wasm_v128_and(b.r[i], mask)));
}
FN vec v_first(vec a, vec b, int n) {
    const v128_t lanes = wasm_i32x4_const(0, 1, 2, 3);
    EACH_PART(wasm_v128_bitselect(a.r[i], b.r[i], wasm_i32x4_lt(lanes, wasm_i32x4_splat(n - 4 * i))));
}
FN vec v_to_int8(vec a, INPUT *p) {
    a = v_round(a);
    v128_t low = wasm_i16x8_narrow_i32x4(to_int(a.r[0]), to_int(a.r[1]));
    v128_t high = wasm_i16x8_narrow_i32x4(to_int(a.r[2]), to_int(a.r[3]));
    if (sizeof *p == 1) wasm_v128_store(p, wasm_i8x16_narrow_i16x8(low, high));
    else wasm_v128_store(p, low), wasm_v128_store(p + 8, high);
    return a;
}
FN vec v_from_int(const int32_t *p) { EACH_PART(wasm_f32x4_convert_i32x4(wasm_v128_load(p + 4 * i))); }

#else /* portable C, and NEON, where compilers split sixteen lanes into four registers */

typedef struct { float x[16]; } vec;
#define EACH_LANE for (int i = 0; i < 16; i++)

FN vec v_load(const float *p) { vec a; EACH_LANE a.x[i] = p[i]; return a; }
FN void v_store(float *p, vec a) { EACH_LANE p[i] = a.x[i]; }
FN vec v_load_half(const uint16_t *p) {
    vec a;
    EACH_LANE {
        uint32_t bits = (uint32_t)p[i] << 16;
        memcpy(&a.x[i], &bits, 4);
    }
    return a;
}
FN void v_load_pairs(const uint16_t *p, vec *first, vec *second) {
    EACH_LANE {
        uint32_t bits[2] = {(uint32_t)p[2 * i] << 16, (uint32_t)p[2 * i + 1] << 16};
        memcpy(&first->x[i], bits, 4);
        memcpy(&second->x[i], bits + 1, 4);
    }
}
FN void v_interleave(vec *a, vec *b) {
    vec x = *a, y = *b;
    EACH_LANE {
        a->x[i] = i % 2 ? y.x[i / 2] : x.x[i / 2];
        b->x[i] = i % 2 ? y.x[8 + i / 2] : x.x[8 + i / 2];
    }
}
FN vec v_set(float x) { vec a; EACH_LANE a.x[i] = x; return a; }
FN vec v_add(vec a, vec b) { EACH_LANE a.x[i] += b.x[i]; return a; }
FN vec v_sub(vec a, vec b) { EACH_LANE a.x[i] -= b.x[i]; return a; }
FN vec v_mul(vec a, vec b) { EACH_LANE a.x[i] *= b.x[i]; return a; }
FN vec v_div(vec a, vec b) { EACH_LANE a.x[i] /= b.x[i]; return a; }
FN vec v_fma(vec a, vec b, vec c) { EACH_LANE a.x[i] = fmaf(a.x[i], b.x[i], c.x[i]); return a; }
FN vec v_max(vec a, vec b) { EACH_LANE a.x[i] = a.x[i] > b.x[i] ? a.x[i] : b.x[i]; return a; }
FN vec v_min(vec a, vec b) { EACH_LANE a.x[i] = a.x[i] < b.x[i] ? a.x[i] : b.x[i]; return a; }
/* Adding 1.5 x 2^23 leaves no bits for a fraction: the sum is rounded to the nearest whole number, ties to even. */
FN vec v_round(vec a) {
    EACH_LANE {
        float rounded = a.x[i] + 12582912.0f;
        a.x[i] = rounded - 12582912.0f;
    }
    return a;
}
FN vec v_exp2i(vec n) {
    EACH_LANE { /* the lowest bits of 1.5 x 2^23 + n are n */
        float shifted = n.x[i] + 12582912.0f;
        uint32_t bits;
        memcpy(&bits, &shifted, 4);
        bits = (bits - 0x4b400000u + 127u) << 23;
        memcpy(&n.x[i], &bits, 4);
    }
    return n;
}
FN vec v_maxabs(vec a, vec b) {
    EACH_LANE {
        uint32_t x, y;
        memcpy(&x, &a.x[i], 4);
        memcpy(&y, &b.x[i], 4);
        x &= 0x7fffffffu, y &= 0x7fffffffu;
        x = x > y ? x : y;
        memcpy(&a.x[i], &x, 4);
    }
    return a;
}
FN vec v_first(vec a, vec b, int n) { EACH_LANE a.x[i] = i < n ? a.x[i] : b.x[i]; return a; }
FN vec v_to_int8(vec a, int8_t *p) { a = v_round(a); EACH_LANE p[i] = (int8_t)a.x[i]; return a; }
FN vec v_from_int(const int32_t *p) { vec a; EACH_LANE a.x[i] = (float)p[i]; return a; }
#undef EACH_LANE

#endif

#if ISA_LEVEL != ISA_AVX512
FN float v_most(vec a) {
    float lanes[16], most;
    uint32_t bits[16];
    v_store(lanes, a);
    memcpy(bits, lanes, sizeof bits);
    for (int i = 1; i < 16; i++) bits[0] = bits[i] > bits[0] ? bits[i] : bits[0];
    memcpy(&most, bits, 4);
    return most;
}
#endif

/* Two roundings, because not every processor has a fused sum (decision 22). v_fma, with one, is for products in fp32. */
FN vec v_mul_add(vec a, vec b, vec c) { return v_add(v_mul(a, b), c); }

/* v_sum and v_highest combine the lanes in a fixed order: i and i + 8, then + 4, + 2, + 1. */
#if ISA_LEVEL == ISA_PORTABLE
FN float v_sum(vec a) {
    for (int width = 8; width; width >>= 1)
        for (int i = 0; i < width; i++) a.x[i] += a.x[i + width];
    return a.x[0];
}
FN float v_highest(vec a) {
    for (int width = 8; width; width >>= 1)
        for (int i = 0; i < width; i++) a.x[i] = a.x[i + width] > a.x[i] ? a.x[i + width] : a.x[i];
    return a.x[0];
}
#elif ISA_LEVEL == ISA_WASM
#define ALL_LANES(op, v) \
    v128_t four = op(op(v.r[0], v.r[2]), op(v.r[1], v.r[3])); \
    v128_t two = op(four, wasm_i32x4_shuffle(four, four, 2, 3, 2, 3)); \
    return wasm_f32x4_extract_lane(op(two, wasm_i32x4_shuffle(two, two, 1, 1, 1, 1)), 0)
FN float v_sum(vec a) { ALL_LANES(wasm_f32x4_add, a); }
FN float v_highest(vec a) { ALL_LANES(wasm_f32x4_pmax, a); }
#else
#if ISA_LEVEL == ISA_AVX512
#define LOW_HALF(v) _mm512_castps512_ps256(v.r)
#define HIGH_HALF(v) _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v.r), 1))
#else
#define LOW_HALF(v) v.a
#define HIGH_HALF(v) v.b
#endif
#define ALL_LANES(op, v) \
    __m256 eight = _mm256_##op##_ps(HIGH_HALF(v), LOW_HALF(v)); \
    __m128 four = _mm_##op##_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight)); \
    __m128 two = _mm_##op##_ps(_mm_movehl_ps(four, four), four); \
    return _mm_cvtss_f32(_mm_##op##_ss(_mm_movehdup_ps(two), two))
FN float v_sum(vec a) { ALL_LANES(add, a); }
FN float v_highest(vec a) { ALL_LANES(max, a); }
#endif
