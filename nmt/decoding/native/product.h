/* Matrix products of rows with panels of 16 outputs, and the quantization of rows to 8 bits. Included by kernels.h. */

#if PRODUCT == PRODUCT_VNNI512 || PRODUCT == PRODUCT_VNNI256
/* vpdpbusd: unsigned times signed bytes. Weights are stored with an offset of 128, which the correction removes. */
#define GROUP 4
#define WEIGHT_OFFSET 128
#elif PRODUCT == PRODUCT_AVX2
/* vpmaddubsw: unsigned times signed bytes, added in pairs to 16 bits. */
#define GROUP 4
#define WEIGHT_OFFSET LARGEST_WEIGHT
#elif PRODUCT == PRODUCT_NEON_DOT
#define GROUP 4
#define WEIGHT_OFFSET 0
#elif PRODUCT == PRODUCT_WASM_DOT || PRODUCT == PRODUCT_WASM_FOURS /* of unsigned or signed weights: see kernels_wasm.c */
#define GROUP 4
#define WEIGHT_OFFSET LARGEST_WEIGHT
#elif PRODUCT == PRODUCT_WASM_PAIRS
#define GROUP 2
#define WEIGHT_OFFSET 0
#elif PRODUCT == PRODUCT_NEON_I8MM
#define GROUP 8
#define WEIGHT_OFFSET 0
#else
#define GROUP 1
#define WEIGHT_OFFSET 0
#endif

/* The next four bytes of a row: GROUP integers, which are multiplied at once. */
FN int32_t four_bytes(const int8_t *row) {
    int32_t bytes;
    memcpy(&bytes, row, 4);
    return bytes;
}

/* sum += unsigned bytes x signed bytes, in fours. GCC copies the sums around its own intrinsic, which halves the speed. */
#if defined(__GNUC__)
#define DPBUSD(sum, w, x, intrinsic) __asm__(DPBUSD_ENCODING "vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x))
#else
#define DPBUSD(sum, w, x, intrinsic) sum = intrinsic(sum, w, x)
#endif

#if PRODUCT == PRODUCT_VNNI512
#define TILE_ROWS 8
#define WIDE_SUMS 16
typedef struct { __m512i r; } sums; /* of 16 outputs */
FN sums sums_set(int32_t x) { return (sums){_mm512_set1_epi32(x)}; }
FN sums sums_load_weights(const int8_t *w) { return (sums){_mm512_loadu_si512((const void *)w)}; }
FN sums sums_add(sums sum, sums w, const int8_t *row) {
    DPBUSD(sum.r, w.r, _mm512_set1_epi32(four_bytes(row)), _mm512_dpbusd_epi32);
    return sum;
}
FN vec sums_to_float(sums s) { return (vec){_mm512_cvtepi32_ps(s.r)}; }

#elif PRODUCT == PRODUCT_VNNI256
#define TILE_ROWS 6
#define WIDE_SUMS 4
typedef struct { __m256i a, b; } sums;
FN sums sums_set(int32_t x) { return (sums){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
FN sums sums_load_weights(const int8_t *w) {
    return (sums){_mm256_loadu_si256((const __m256i *)w), _mm256_loadu_si256((const __m256i *)(w + 32))};
}
FN sums sums_add(sums sum, sums w, const int8_t *row) {
    __m256i x = _mm256_set1_epi32(four_bytes(row));
    DPBUSD(sum.a, w.a, x, _mm256_dpbusd_avx_epi32);
    DPBUSD(sum.b, w.b, x, _mm256_dpbusd_avx_epi32);
    return sum;
}
FN vec sums_to_float(sums s) { return (vec){_mm256_cvtepi32_ps(s.a), _mm256_cvtepi32_ps(s.b)}; }

#elif PRODUCT == PRODUCT_AVX2
#define TILE_ROWS 6
#define WIDE_SUMS 4
/* Without this, GCC multiplies for all rows before it adds, runs out of registers, and keeps sums in memory. */
#if defined(__GNUC__)
#define ADD_NOW(a, b) __asm__ volatile("" : "+x"(a), "+x"(b))
#else
#define ADD_NOW(a, b)
#endif
typedef struct { __m256i a, b; } sums;
typedef struct { __m256i a[2], b[2]; } eight_inputs;
FN sums sums_set(int32_t x) { return (sums){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
FN eight_inputs sums_load_weights(const int8_t *w) {
    eight_inputs weights;
    for (int i = 0; i < 2; i++, w += 64) {
        weights.a[i] = _mm256_loadu_si256((const __m256i *)w);
        weights.b[i] = _mm256_loadu_si256((const __m256i *)(w + 32));
    }
    return weights;
}
/* 16 bits hold two pairs of products, so only their sum is widened. */
FN __m256i add_products(__m256i sum, const __m256i *w, __m256i first, __m256i second) {
    __m256i fours = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], first), _mm256_maddubs_epi16(w[1], second));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(fours, _mm256_set1_epi16(1)));
}
FN sums sums_add(sums sum, eight_inputs w, const int8_t *row) {
    __m256i first = _mm256_set1_epi32(four_bytes(row)), second = _mm256_set1_epi32(four_bytes(row + 4));
    sum.a = add_products(sum.a, w.a, first, second);
    sum.b = add_products(sum.b, w.b, first, second);
    ADD_NOW(sum.a, sum.b);
    return sum;
}
#define STEP 8
#define WEIGHTS eight_inputs
FN vec sums_to_float(sums s) { return (vec){_mm256_cvtepi32_ps(s.a), _mm256_cvtepi32_ps(s.b)}; }

#elif PRODUCT == PRODUCT_NEON_DOT
#define TILE_ROWS 6
#define WIDE_SUMS 4
typedef struct { int32x4_t r[4]; } sums;
FN sums sums_set(int32_t x) {
    int32x4_t v = vdupq_n_s32(x);
    return (sums){{v, v, v, v}};
}
FN sums sums_load_weights(const int8_t *w) {
    sums s;
    for (int i = 0; i < 4; i++) s.r[i] = vreinterpretq_s32_s8(vld1q_s8(w + 16 * i));
    return s;
}
FN sums sums_add(sums sum, sums w, const int8_t *row) {
    int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(row)));
    for (int i = 0; i < 4; i++) sum.r[i] = vdotq_s32(sum.r[i], vreinterpretq_s8_s32(w.r[i]), x);
    return sum;
}
FN vec sums_to_float(sums s) {
    int32_t x[LANES];
    for (int i = 0; i < 4; i++) vst1q_s32(x + 4 * i, s.r[i]);
    return v_from_int(x);
}

#elif PRODUCT == PRODUCT_WASM_DOT || PRODUCT == PRODUCT_WASM_FOURS || PRODUCT == PRODUCT_WASM_PAIRS
#define TILE_ROWS 2 /* measured */
#define WIDE_SUMS 2
typedef struct { v128_t r[4]; } sums;
FN sums sums_set(int32_t x) {
    v128_t v = wasm_i32x4_splat(x);
    return (sums){{v, v, v, v}};
}
#if PRODUCT == PRODUCT_WASM_DOT
#define WEIGHTS v128_t
#define LOAD_WEIGHTS(w, k, i) wasm_v128_load((w) + 16 * (i))
FN v128_t sums_add(v128_t sum, v128_t w, const int8_t *row) {
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_v128_load32_splat(row), w, sum);
}
#elif PRODUCT == PRODUCT_WASM_FOURS /* as PRODUCT_AVX2 */
typedef struct { v128_t first, second; } eight_inputs;
#define STEP 8
#define WEIGHTS eight_inputs
#define LOAD_WEIGHTS(w, k, i) {wasm_v128_load((w) + 16 * (i)), wasm_v128_load((w) + 16 * (4 + (i)))}
FN v128_t sums_add(v128_t sum, eight_inputs w, const int8_t *row) {
    v128_t first = wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load32_splat(row), w.first);
    v128_t second = wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load32_splat(row + 4), w.second);
    return wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(first, second)));
}
#else /* numbers of 16 bits. Tiles of two rows read a panel that has been widened once */
static int16_t wide[MAX_INPUTS * LANES];
FN void widen(const int8_t *panel, int count) {
    for (int i = 0; i < count; i += 8) wasm_v128_store(wide + i, wasm_i16x8_load8x8(panel + i));
}
#define WEIGHTS v128_t
#define LOAD_WEIGHTS(w, k, i) (R > 1 ? wasm_v128_load(wide + (k) * LANES + 8 * (i)) : wasm_i16x8_load8x8((w) + 8 * (i)))
FN v128_t sums_add(v128_t sum, v128_t w, const INPUT *row) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(wasm_v128_load32_splat(row), w));
}
#endif
FN vec sums_to_float(sums s) {
    vec v;
    UNROLL for (int i = 0; i < 4; i++) v.r[i] = wasm_f32x4_convert_i32x4(s.r[i]);
    return v;
}
#elif PRODUCT == PRODUCT_NEON_I8MM
#define TILE_ROWS 4
#define WIDE_SUMS 2

#else
/* Two inputs at a time: the sum of two products fits into 16 bits, so compilers can use vector instructions. */
#define STEP 2
#define TILE_ROWS 4
#define WIDE_SUMS 2
typedef struct { int32_t x[LANES]; } sums;
typedef struct { int16_t first[LANES], second[LANES]; } input_pair;
FN sums sums_set(int32_t x) {
    sums s;
    for (int i = 0; i < LANES; i++) s.x[i] = x;
    return s;
}
FN input_pair sums_load_weights(const int8_t *w) {
    input_pair pair;
    for (int i = 0; i < LANES; i++) pair.first[i] = w[i], pair.second[i] = w[LANES + i];
    return pair;
}
FN sums sums_add(sums sum, input_pair w, const int8_t *row) {
    const int16_t first = row[0], second = row[1];
    for (int i = 0; i < LANES; i++) sum.x[i] += (int16_t)(w.first[i] * first + w.second[i] * second);
    return sum;
}
FN vec sums_to_float(sums s) { return v_from_int(s.x); }
#define WEIGHTS input_pair
#endif

#ifndef WEIGHTS
#define WEIGHTS sums
#endif
#ifndef STEP
#define STEP GROUP
#endif
#define WIDEST_TILE 4

/* Asks for the next line of weights early: panels follow one another in memory, so while a tile is computed, those after
 * it arrive. The processor does not foresee them, because a tile reads several panels side by side. The widest tile has few
 * rows and reads each line once, so it wants them in the first cache; the others read panels again, from the second. */
#if defined(__GNUC__)
#define PREFETCH(address) (P == WIDEST_TILE ? __builtin_prefetch(address, 0, 3) : __builtin_prefetch(address, 0, 2))
#else
#define PREFETCH(address) (void)(address)
#endif

/* Writes the outputs of a panel according to `epilogue`. */
FN void write_outputs(vec value, Epilogue epilogue, float *out) {
    if (epilogue == STORE_RELU) value = v_max(v_set(0.0f), value); /* NaN stays NaN */
    if (epilogue == ADD) value = v_add(v_load(out), value);
    v_store(out, value);
}

/* The same of integer sums. */
FN void write_sums(vec sums, float row_scale, const Linear *linear, int panel, Epilogue epilogue, float *out) {
    vec scale = v_mul(v_set(row_scale), v_load(linear->scale + panel * LANES));
    write_outputs(v_mul_add(sums, scale, v_load(linear->bias + panel * LANES)), epilogue, out);
}

#if PRODUCT != PRODUCT_NEON_I8MM
/* The outputs of a tile. */
FN void write_tile(const int R, const int P, sums sum[TILE_ROWS][WIDEST_TILE], const float *row_scale,
                   const Linear *linear, int panel, const Epilogue epilogue, float *out, size_t out_stride) {
    vec scale[WIDEST_TILE], bias[WIDEST_TILE];
    UNROLL for (int p = 0; p < P; p++) {
        scale[p] = v_load(linear->scale + (panel + p) * LANES);
        bias[p] = v_load(linear->bias + (panel + p) * LANES);
    }
    UNROLL for (int r = 0; r < R; r++, out += out_stride) {
        vec row = v_set(row_scale[r]);
        UNROLL for (int p = 0; p < P; p++)
            write_outputs(v_mul_add(sums_to_float(sum[r][p]), v_mul(row, scale[p]), bias[p]), epilogue, out + p * LANES);
    }
}

/* The int8 product of R rows with P panels; R and P are constants, so that all sums stay in registers. */
FN void int8_tile(const int R, const int P, const INPUT *in, size_t stride, const float *row_scale,
                  const int32_t *correction, const Linear *linear, int panel, Epilogue epilogue, float *out,
                  size_t out_stride) {
    const size_t panel_bytes = (size_t)linear->inputs * LANES;
    const int8_t *weights = (const int8_t *)linear->panels + panel * panel_bytes;
    sums sum[TILE_ROWS][WIDEST_TILE];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++) sum[r][p] = sums_set(correction[r]);
    const int8_t *next = weights + P * panel_bytes;
    const INPUT *low = in, *high = in + R / 2 * stride; /* few registers hold the addresses of all rows */
    for (int k = 0; k < linear->inputs; k += STEP, weights += STEP * LANES, low += STEP, high += STEP) {
        UNROLL for (int p = 0; p < P; p++, next += STEP * LANES) {
#if ISA_LEVEL == ISA_WASM /* a quarter of the outputs after another: there are too few registers for all weights */
            UNROLL for (int i = 0; i < 4; i++) {
                WEIGHTS w = LOAD_WEIGHTS(weights + p * panel_bytes, k, i);
                UNROLL for (int r = 0; r < R; r++) sum[r][p].r[i] = sums_add(sum[r][p].r[i], w, in + r * stride + k);
            }
#else
            WEIGHTS w = sums_load_weights(weights + p * panel_bytes);
            PREFETCH(next);
            UNROLL for (int r = 0; r < R / 2; r++) sum[r][p] = sums_add(sum[r][p], w, low + r * stride);
            UNROLL for (int r = R / 2; r < R; r++) sum[r][p] = sums_add(sum[r][p], w, high + (r - R / 2) * stride);
#endif
        }
    }
    if (ISA_LEVEL == ISA_WASM) { /* a page has to be small */
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++)
            write_sums(sums_to_float(sum[r][p]), row_scale[r], linear, panel + p, epilogue, out + r * out_stride + p * LANES);
        return;
    }
    switch (epilogue) { /* a constant in each case */
        case STORE: write_tile(R, P, sum, row_scale, linear, panel, STORE, out, out_stride); break;
        case STORE_RELU: write_tile(R, P, sum, row_scale, linear, panel, STORE_RELU, out, out_stride); break;
        case ADD: write_tile(R, P, sum, row_scale, linear, panel, ADD, out, out_stride); break;
    }
}
#else
/* smmla: two rows times two outputs, eight inputs each, are four sums. The last of an odd number of rows goes twice. */
FN void int8_tile(const int R, const int P, const int8_t *in, size_t stride, const float *row_scale,
                  const int32_t *correction, const Linear *linear, int panel, Epilogue epilogue, float *out,
                  size_t out_stride) {
    const size_t panel_bytes = (size_t)linear->inputs * LANES;
    const int8_t *weights = (const int8_t *)linear->panels + panel * panel_bytes, *next = weights + P * panel_bytes;
    int32x4_t sum[TILE_ROWS / 2][WIDE_SUMS][LANES / 2];
    (void)correction; /* weights have no offset */
    UNROLL for (int r = 0; r < R; r += 2) UNROLL for (int p = 0; p < P; p++)
        UNROLL for (int i = 0; i < LANES / 2; i++) sum[r / 2][p][i] = vdupq_n_s32(0);
    for (int k = 0; k < linear->inputs; k += GROUP, weights += GROUP * LANES) {
        int8x16_t rows[TILE_ROWS / 2];
        UNROLL for (int r = 0; r < R; r += 2) {
            const int8_t *row = in + r * stride + k;
            rows[r / 2] = vcombine_s8(vld1_s8(row), vld1_s8(r + 1 < R ? row + stride : row));
        }
        UNROLL for (int p = 0; p < P; p++, next += GROUP * LANES) {
            PREFETCH(next);
            PREFETCH(next + 64);
            UNROLL for (int i = 0; i < LANES / 2; i++) {
                int8x16_t w = vld1q_s8(weights + p * panel_bytes + 16 * i);
                UNROLL for (int r = 0; r < R; r += 2) sum[r / 2][p][i] = vmmlaq_s32(sum[r / 2][p][i], rows[r / 2], w);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++) {
        int32_t x[LANES];
        UNROLL for (int i = 0; i < LANES / 2; i++) {
            int32x4_t four = sum[r / 2][p][i];
            vst1_s32(x + 2 * i, r % 2 ? vget_high_s32(four) : vget_low_s32(four));
        }
        write_sums(v_from_int(x), row_scale[r], linear, panel + p, epilogue, out + r * out_stride + p * LANES);
    }
}
#endif

#if ISA_LEVEL == ISA_WASM /* a page is always in int8 */
#define fp32_tile(...) ((void)0)
#else
/* The same in fp32. */
FN void fp32_tile(const int R, const int P, const float *in, size_t stride, const Linear *linear, int panel,
                  Epilogue epilogue, float *out, size_t out_stride) {
    const size_t panel_floats = (size_t)linear->inputs * LANES;
    const float *weights = (const float *)linear->panels + panel * panel_floats;
    vec sum[TILE_ROWS][WIDEST_TILE];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++) sum[r][p] = v_set(0.0f);
    const float *next = weights + P * panel_floats;
    for (int k = 0; k < linear->inputs; k++, weights += LANES) {
        vec w[WIDEST_TILE];
        UNROLL for (int p = 0; p < P; p++, next += LANES) {
            w[p] = v_load(weights + p * panel_floats);
            if (P <= 2) PREFETCH(next); /* four panels of fp32 are too far ahead */
        }
        UNROLL for (int r = 0; r < R; r++) {
            vec a = v_set(in[r * stride + k]);
            UNROLL for (int p = 0; p < P; p++) sum[r][p] = v_fma(a, w[p], sum[r][p]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int p = 0; p < P; p++) {
        vec value = v_add(sum[r][p], v_load(linear->bias + (panel + p) * LANES));
        write_outputs(value, epilogue, out + r * out_stride + p * LANES);
    }
}
#endif

/* A tile of R rows, a constant in each case; nothing if `multiply_panels` is never called for so many rows. */
#define TILE(R) case R: if (R <= TILE_ROWS && (P == 1 || R * P <= WIDE_SUMS)) { \
        const int rows_of_tile = R <= TILE_ROWS ? R : 1; \
        if (linear->precision == INT8) \
            int8_tile(rows_of_tile, P, (const INPUT *)in->numbers + row * in->stride, in->stride, in->scale + row, \
                      in->correction + row, linear, panel, epilogue, out + row * out_stride, out_stride); \
        else \
            fp32_tile(rows_of_tile, P, (const float *)in->numbers + row * in->stride, in->stride, linear, panel, \
                      epilogue, out + row * out_stride, out_stride); \
    } break;

/* The product with P panels, from `panel` on. */
FN void multiply_panels(const int P, const Rows *in, int rows, const Linear *linear, int panel, Epilogue epilogue,
                        float *out, size_t out_stride) {
#if PRODUCT == PRODUCT_WASM_PAIRS
    const size_t count = (size_t)linear->inputs * LANES;
    if (rows > 1 && linear->precision == INT8) widen((const int8_t *)linear->panels + panel * count, (int)count);
#endif
    int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int row = 0; row < rows; tiles--) {
        int count = (rows - row + tiles - 1) / tiles; /* alike: a tile of few rows waits for its sums */
        switch (count) {
            TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8)
        }
        row += count;
    }
}
#undef TILE

/* Kernel.product. A tile has as many panels as fit into the registers. With few rows, several panels keep enough sums
 * in flight to hide their latency. */
static void product(const Rows *in, int rows, const Linear *linear, int first, int last, Epilogue epilogue, float *out,
                    size_t out_stride) {
    const int height = rows < TILE_ROWS ? rows : TILE_ROWS;
    int panel = first;
    if (height * 4 <= WIDE_SUMS)
        for (; panel + 4 <= last; panel += 4, out += 4 * LANES)
            multiply_panels(4, in, rows, linear, panel, epilogue, out, out_stride);
    if (height * 2 <= WIDE_SUMS)
        for (; panel + 2 <= last; panel += 2, out += 2 * LANES)
            multiply_panels(2, in, rows, linear, panel, epilogue, out, out_stride);
    for (; panel < last; panel++, out += LANES) multiply_panels(1, in, rows, linear, panel, epilogue, out, out_stride);
}

/* The largest |x| of `count` numbers, a multiple of 16; a NaN or infinity if there is one. */
static float largest_of(const float *numbers, int count) {
    vec largest = v_set(0.0f);
    for (int i = 0; i < count; i += LANES) largest = v_maxabs(largest, v_load(numbers + i));
    return v_most(largest);
}

/* As Kernel.quantize. The largest numbers of all rows come first, so that the processor works on several rows at once. */
static void quantize(const float *states, int rows, int width, Rows *out) {
    int lanes = ROUND_UP(width, LANES);
    for (int row = 0; row < rows; row++) out->scale[row] = largest_of(states + (size_t)row * lanes, lanes);
    for (int row = 0; row < rows; row++, states += lanes) {
        float size = out->scale[row];
        INPUT *q = (INPUT *)out->numbers + row * out->stride;
        out->correction[row] = 0;
        if (!(size <= 3.4028235e38f)) {
            memset(q, 0, lanes * sizeof *q);
            out->scale[row] = NAN;
            continue;
        }
        out->scale[row] = size / LARGEST_INPUT;
        vec inverse = v_set(size > 1e-30f ? LARGEST_INPUT / size : 0.0f), sum = v_set(0.0f); /* of integers: exact in fp32 */
        for (int i = 0; i < lanes; i += LANES) {
            vec whole = v_to_int8(v_mul(v_load(states + i), inverse), q + i);
            if (WEIGHT_OFFSET) sum = v_add(sum, whole);
        }
        if (WEIGHT_OFFSET) out->correction[row] = -WEIGHT_OFFSET * (int32_t)v_sum(sum);
    }
}
