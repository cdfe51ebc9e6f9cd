/* Products of one row with listed outputs, whose weights are in rows instead of panels. Included by kernels.h. */

#if WEIGHT_OFFSET
typedef uint8_t row_weight;
#else
typedef int8_t row_weight;
#endif

/* 16 sums of products of `x` with rows of weights; `inputs` is a multiple of 64. */
#if PRODUCT == PRODUCT_VNNI512
FN __m512i add_low_high(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

FN void dot_16(const row_weight *const *w, const int8_t *x, int inputs, int32_t *out) {
    __m512i sum[LANES], four[LANES / 4];
    UNROLL for (int i = 0; i < LANES; i++) sum[i] = _mm512_setzero_si512();
    for (int k = 0; k < inputs; k += 64) {
        __m512i row = _mm512_loadu_si512((const void *)(x + k));
        UNROLL for (int i = 0; i < LANES; i++)
            sum[i] = _mm512_dpbusd_epi32(sum[i], _mm512_loadu_si512((const void *)(w[i] + k)), row);
    }
    UNROLL for (int i = 0; i < LANES / 4; i++) { /* each 128 bits become sums of four outputs */
        __m512i *s = sum + 4 * i;
        __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
        four[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    __m512i total = add_low_high(add_low_high(four[0], four[1]), add_low_high(four[2], four[3]));
    _mm512_storeu_si512((void *)out, total);
}
#else
FN void dot_16(const row_weight *const *w, const INPUT *x, int inputs, int32_t *out) {
    for (int i = 0; i < LANES; i++) {
        const row_weight *weights = w[i];
        int32_t sum = 0;
        for (int k = 0; k < inputs; k++) sum += (int32_t)weights[k] * (int32_t)x[k];
        out[i] = sum;
    }
}
#endif

/* As Kernel.product_listed. */
static void product_listed(const Rows *in, int row, const Linear *linear, const void *weights, const int *outputs,
                           int count, float *out) {
    const size_t stride = ROUND_UP((size_t)linear->inputs, 64);
    const INPUT *x = (const INPUT *)in->numbers + row * in->stride;
    for (int first = 0; first < count; first += LANES) {
        const row_weight *rows[LANES];
        float scale[LANES], bias[LANES];
        int32_t sums[LANES];
        for (int i = 0; i < LANES; i++) {
            int n = outputs[first + i < count ? first + i : count - 1];
            rows[i] = (const row_weight *)weights + n * stride;
            scale[i] = linear->scale[n], bias[i] = linear->bias[n];
        }
        dot_16(rows, x, (int)stride, sums);
        for (int i = 0; i < LANES; i++) sums[i] += in->correction[row];
        v_store(out + first, v_mul_add(v_from_int(sums), v_mul(v_set(in->scale[row]), v_load(scale)), v_load(bias)));
    }
}
