/* The functions of one instruction set. Each kernels_*.c defines ISA_LEVEL (the registers of vectors.h) and PRODUCT
 * (the instruction of the int8 product), includes this file, and so defines its table, KERNEL. See kernel.h. */
#include "kernel.h"

#define FN static ALWAYS_INLINE
#include "vectors.h"
#include "product.h"
#include "listed.h"

/* exp(x), 0 < exp(-87) for less: x = n ln 2 + r, then 2^n times a polynomial in r, whose largest relative error is the
 * smallest that its degree allows, 1.1e-7. x is at most 88. */
FN vec v_exp(vec x) {
    x = v_max(v_set(-87.0f), x); /* NaN stays NaN */
    vec n = v_round(v_mul(x, v_set(1.44269504f)));
    vec r = v_sub(x, v_mul(n, v_set(0.693147181f)));
    vec p = v_mul_add(v_set(8.312520571e-3f), r, v_set(4.1890159249e-2f));
    p = v_mul_add(p, r, v_set(0.16667114198f));
    p = v_mul_add(p, r, v_set(0.49999231100f));
    p = v_mul_add(p, v_mul(r, r), v_add(r, v_set(1.0f)));
    return v_mul(p, v_exp2i(n));
}

static float exponential(float x) {
    float out[LANES];
    v_store(out, v_exp(v_set(x)));
    return out[0];
}

/* Rows at once, whose numbers stay in registers. */
#define NORMALIZED (ISA_LEVEL == ISA_AVX512 ? 4 : ISA_LEVEL == ISA_AVX2 ? 2 : 1)

/* Kernel.normalize of N rows, side by side: the sums of one row wait for each other. */
FN void normalize_rows(const int N, const float *states, int width, const float *gain, const float *bias, float eps,
                       float *out) {
    const int stride = ROUND_UP(width, LANES);
    vec sum[NORMALIZED], squares[NORMALIZED], mean[NORMALIZED], scale[NORMALIZED];
    UNROLL for (int n = 0; n < N; n++) sum[n] = squares[n] = mean[n] = v_set(0.0f);
    if (bias) {
        for (int i = 0; i < stride; i += LANES)
            UNROLL for (int n = 0; n < N; n++) sum[n] = v_add(sum[n], v_load(states + n * stride + i));
        UNROLL for (int n = 0; n < N; n++) mean[n] = v_set(v_sum(sum[n]) / (float)width);
    }
    for (int i = 0; i < stride; i += LANES)
        UNROLL for (int n = 0; n < N; n++) {
            vec centered = v_sub(v_load(states + n * stride + i), mean[n]);
            if (i + LANES > width) centered = v_first(centered, v_set(0.0f), width - i);
            squares[n] = v_mul_add(centered, centered, squares[n]);
        }
    UNROLL for (int n = 0; n < N; n++) scale[n] = v_set(1.0f / sqrtf(v_sum(squares[n]) / (float)width + eps));
    for (int i = 0; i < stride; i += LANES) {
        vec g = v_load(gain + i), b = bias ? v_load(bias + i) : v_set(0.0f);
        UNROLL for (int n = 0; n < N; n++) {
            vec normal = v_mul(v_sub(v_load(states + n * stride + i), mean[n]), scale[n]);
            v_store(out + n * stride + i, v_mul_add(normal, g, b));
        }
    }
}

static void normalize(const float *states, int rows, int width, const float *gain, const float *bias, float eps,
                      float *out) {
    const size_t stride = ROUND_UP(width, LANES);
    int row = 0;
    for (; NORMALIZED > 1 && row + NORMALIZED <= rows; row += NORMALIZED)
        normalize_rows(NORMALIZED, states + row * stride, width, gain, bias, eps, out + row * stride);
    for (; row < rows; row++) normalize_rows(1, states + row * stride, width, gain, bias, eps, out + row * stride);
}

/* x (1 + erf(x / sqrt 2)) / 2 (Hendrycks and Gimpel 2016), with erf of Abramowitz and Stegun 1964, 7.1.26. */
FN vec gelu(vec x) {
    vec size = v_max(x, v_sub(v_set(0.0f), x));
    vec t = v_div(v_set(1.0f), v_mul_add(size, v_set(0.3275911f * 0.70710678f), v_set(1.0f)));
    vec p = v_mul_add(v_set(1.061405429f), t, v_set(-1.453152027f));
    p = v_mul_add(p, t, v_set(1.421413741f));
    p = v_mul_add(p, t, v_set(-0.284496736f));
    p = v_mul(v_mul_add(p, t, v_set(0.254829592f)), t);
    vec tail = v_mul(p, v_exp(v_mul(v_mul(size, size), v_set(-0.5f)))); /* 1 - erf(|x| / sqrt 2) */
    return v_sub(v_max(v_set(0.0f), x), v_mul(v_mul(size, v_set(0.5f)), tail));
}

/* x / (1 + exp(-x)) (Elfwing et al. 2018). */
FN vec silu(vec x) {
    vec negative = v_min(v_set(87.0f), v_sub(v_set(0.0f), x));
    return v_div(x, v_add(v_set(1.0f), v_exp(negative)));
}

static void activate(Activation activation, float *hidden, int rows, int width) {
    int stride = ROUND_UP(width, LANES), half = stride / 2;
    for (int row = 0; row < rows; row++) {
        float *x = hidden + (size_t)row * stride;
        if (activation == SWIGLU) { /* rows shrink to half the width, so none overwrites a later one */
            float *out = hidden + (size_t)row * half;
            for (int i = 0; i < half; i += LANES)
                v_store(out + i, v_mul(silu(v_load(x + i)), v_load(x + half + i)));
            continue;
        }
        for (int i = 0; i < stride; i += LANES) {
            vec value = v_load(x + i), positive = v_max(v_set(0.0f), value);
            v_store(x + i, activation == GELU   ? gelu(value)
                           : activation == SILU ? silu(value)
                           : activation == RELU ? positive
                                                : v_mul(positive, positive)); /* So et al. 2021 */
        }
    }
}

static void embed(const float *embedding, float scale, const float *position, int width, Precision precision, float *out) {
    float largest = precision == INT8 ? largest_of(embedding, width) : 0.0f;
    vec inverse = v_set(largest > 1e-30f ? LARGEST_WEIGHT / largest : 0.0f), size = v_set(largest / LARGEST_WEIGHT);
    for (int i = 0; i < width; i += LANES) {
        vec numbers = v_load(embedding + i);
        if (precision == INT8) numbers = v_mul(v_round(v_mul(numbers, inverse)), size);
        v_store(out + i, v_mul_add(numbers, v_set(scale), position ? v_load(position + i) : v_set(0.0f)));
    }
}

static void rotate(float *heads, int num_heads, int head_size, const float *cosine, const float *sine) {
    int half = head_size / 2, stride = ROUND_UP(head_size, LANES);
    for (int head = 0; head < num_heads; head++, heads += stride) {
        int i = 0;
        for (; i + LANES <= half; i += LANES) {
            vec first = v_load(heads + i), second = v_load(heads + half + i), c = v_load(cosine + i), s = v_load(sine + i);
            v_store(heads + i, v_sub(v_mul(first, c), v_mul(second, s)));
            v_store(heads + half + i, v_mul_add(second, c, v_mul(first, s)));
        }
        for (; i < half; i++) {
            float first = heads[i], second = heads[half + i];
            heads[i] = first * cosine[i] - second * sine[i];
            heads[half + i] = second * cosine[i] + first * sine[i];
        }
    }
}

/* The nearest bfloat16, ties to even. */
FN uint16_t half_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = 0u - ((bits & 0x7fffffffu) > 0x7f800000u);
    return (uint16_t)((nearest & ~nan) | ((bits >> 16 | 64) & nan)); /* NaN stays NaN; without a branch */
}

/* Rounds 16 numbers to bfloat16. */
FN void store_halves(const float *numbers, uint16_t *out) {
#if ISA_LEVEL == ISA_AVX512 || ISA_LEVEL == ISA_AVX2
    _mm256_storeu_si256((__m256i *)out, v_halves(v_load(numbers)));
#else
    for (int i = 0; i < LANES; i++) out[i] = half_of(numbers[i]);
#endif
}

/* As Kernel.put. */
static void put(const float *key, const float *value, void *block, size_t offset, size_t width, int place, int half) {
    if (!half) {
        float *keys = (float *)block + offset;
        for (size_t i = 0; i < width; i++) keys[i * BLOCK + place] = key[i];
        memcpy(keys + width * (BLOCK + place), value, width * sizeof(float));
        return;
    }
    uint16_t *keys = (uint16_t *)block + offset + 2 * place, *values = (uint16_t *)block + offset + width * (BLOCK + place);
    for (size_t i = 0; i < width; i += LANES, keys += LANES * BLOCK) {
        uint16_t halves[LANES];
        store_halves(value + i, values + i);
        store_halves(key + i, halves);
        UNROLL for (int j = 0; j < LANES; j += 2) memcpy(keys + j * BLOCK, halves + j, 2 * sizeof *halves);
    }
}

#if ISA_LEVEL == ISA_AVX512
/* As block_scores, of the first eight keys, in bfloat16: a block's last keys are often so few. */
FN void half_block_scores(const int N, const float *query, size_t apart, const void *block, size_t keys, int size,
                          vec *scores) {
    __m256 sum[MOST_ATTENDED][4], k[2];
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++) sum[n][i] = _mm256_setzero_ps();
    for (int d = 0; d < size; d += 4, query += 4)
        UNROLL for (int i = 0; i < 4; i += 2, keys += 2 * BLOCK) {
            __m256i pairs = _mm256_loadu_si256((const __m256i *)((const uint16_t *)block + keys));
            k[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
            k[1] = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
            UNROLL for (int n = 0; n < N; n++) UNROLL for (int j = 0; j < 2; j++)
                sum[n][i + j] = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(query[n * apart + i + j]), k[j]), sum[n][i + j]);
        }
    UNROLL for (int n = 0; n < N; n++) {
        __m256 low = _mm256_add_ps(sum[n][0], sum[n][1]), high = _mm256_add_ps(sum[n][2], sum[n][3]);
        scores[n].r = _mm512_zextps256_ps512(_mm256_add_ps(low, high));
    }
}
#else
#define half_block_scores(N, query, apart, block, keys, size, scores) \
    block_scores(N, query, apart, block, keys, size, 1, scores)
#endif

#define ATTENDED (ISA_LEVEL == ISA_AVX512 ? MOST_ATTENDED : 1) /* queries at once, whose sums stay in registers */

/* Scores of one head of N queries [K16], `apart` from each other, for the 16 keys of a block, keys from number `keys` on:
 * four sums, over every fourth coordinate. */
FN void block_scores(const int N, const float *query, size_t apart, const void *block, size_t keys, int size, const int half,
                     vec *scores) {
#if ISA_LEVEL == ISA_WASM /* four keys after another: sixteen registers do not hold all sums */
    UNROLL for (int part = 0; part < 4; part++) {
        vec s = v_set(0.0f), q, k;
        for (int d = 0; d < size; d += 4) {
            const size_t at = keys + d * BLOCK;
            UNROLL for (int i = 0; i < 4; i++) {
                q.r[i] = wasm_v128_load32_splat(query + d + i);
                k.r[i] = half ? load_of_pairs((const uint16_t *)block + at + i / 2 * 2 * BLOCK + 8 * part, i % 2)
                              : wasm_v128_load((const float *)block + at + i * BLOCK + 4 * part);
            }
            s = v_mul_add(q, k, s);
        }
        scores->r[part] = wasm_f32x4_add(wasm_f32x4_add(s.r[0], s.r[1]), wasm_f32x4_add(s.r[2], s.r[3]));
    }
#else
    vec sum[ATTENDED][4], k[2];
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++) sum[n][i] = v_set(0.0f);
    for (int d = 0; d < size; d += 4, query += 4)
        UNROLL for (int i = 0; i < 4; i += 2, keys += 2 * BLOCK) {
            if (half) v_load_pairs((const uint16_t *)block + keys, &k[0], &k[1]);
            else k[0] = v_load((const float *)block + keys), k[1] = v_load((const float *)block + keys + BLOCK);
            UNROLL for (int n = 0; n < N; n++) UNROLL for (int j = 0; j < 2; j++)
                sum[n][i + j] = v_mul_add(v_set(query[n * apart + i + j]), k[j], sum[n][i + j]);
        }
    UNROLL for (int n = 0; n < N; n++) scores[n] = v_add(v_add(sum[n][0], sum[n][1]), v_add(sum[n][2], sum[n][3]));
#endif
}

/* Replaces scores [length] by exp(score - highest); returns their sum. */
FN float exponentials(float *scores, int length, vec highest) {
    vec max = v_set(v_highest(highest)), sum = v_set(0.0f);
    for (int i = 0; i < length; i += BLOCK) {
        vec e = v_first(v_exp(v_sub(v_load(scores + i), max)), v_set(0.0f), length - i);
        v_store(scores + i, e);
        sum = v_add(sum, e);
    }
    return v_sum(sum);
}

/* out [16 x parts] = sum of scores[t] x values[t] / total, over t in order, of N queries; the values begin at `offset`.
 * The scores of each query end with their total, `apart` from the next one's. */
FN void pool_values(const int N, const float *scores, size_t apart, void *const *blocks, size_t offset, int length,
                    size_t stride, const int parts, float *out, size_t out_apart, const int half) {
    const int paired = half && parts % 2 == 0;
    vec sum[ATTENDED][4], v[4];
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < parts; i++) sum[n][i] = v_set(0.0f);
    for (int start = 0; start < length; start += BLOCK) {
        const float *floats = (const float *)blocks[start / BLOCK] + offset;
        const uint16_t *halves = (const uint16_t *)blocks[start / BLOCK] + offset;
        int count = length - start < BLOCK ? length - start : BLOCK;
        for (int t = 0; t < count; t++, floats += stride, halves += stride) {
            UNROLL for (int i = 0; i < parts; i++)
                if (!paired) v[i] = half ? v_load_half(halves + i * LANES) : v_load(floats + i * LANES);
                else if (i % 2 == 0) v_load_pairs(halves + i * LANES, &v[i], &v[i + 1]);
            UNROLL for (int n = 0; n < N; n++) {
                vec weight = v_set(scores[n * apart + start + t]);
                UNROLL for (int i = 0; i < parts; i++) sum[n][i] = v_mul_add(weight, v[i], sum[n][i]);
            }
        }
    }
    UNROLL for (int n = 0; n < N; n++) {
        vec scale = v_set(1.0f / scores[n * apart + ROUND_UP(length, BLOCK)]);
        UNROLL for (int i = 0; i + 1 < parts; i += 2)
            if (paired) v_interleave(&sum[n][i], &sum[n][i + 1]);
        UNROLL for (int i = 0; i < parts; i++) v_store(out + n * out_apart + i * LANES, v_mul(sum[n][i], scale));
    }
}

#define POOLED (ISA_LEVEL == ISA_WASM ? 2 : 4) /* whose sums stay in registers */

/* One part for all heads after another, so that the processor works on several heads at once. */
FN void attend_to(const int N, const float *query, size_t apart, void *const *blocks, size_t offset, int length,
                  int num_heads, int head_size, float *scores, float *out, float *weights, const int half) {
    const int size = ROUND_UP(head_size, LANES), parts = size / LANES, padded = ROUND_UP(length, BLOCK);
    const size_t width = (size_t)num_heads * size, stride = padded + LANES; /* of scores; the total comes behind them */
    const size_t of_query = stride * num_heads;
    for (int head = 0; head < num_heads; head++) {
        size_t at = (size_t)head * size;
        vec highest[ATTENDED], s[ATTENDED];
        UNROLL for (int n = 0; n < N; n++) highest[n] = v_set(-INFINITY);
        for (int start = 0; start < length; start += BLOCK) {
            const void *block = blocks[start / BLOCK];
            if (half && length - start <= BLOCK / 2)
                half_block_scores(N, query + at, apart, block, offset + at * BLOCK, size, s);
            else block_scores(N, query + at, apart, block, offset + at * BLOCK, size, half, s);
            UNROLL for (int n = 0; n < N; n++) {
                v_store(scores + n * of_query + head * stride + start, s[n]);
                highest[n] = v_max(highest[n], v_first(s[n], v_set(-INFINITY), length - start));
            }
        }
        UNROLL for (int n = 0; n < N; n++) v_store(scores + n * of_query + head * stride + padded, highest[n]);
    }
    for (int head = 0; head < N * num_heads; head++) {
        float *s = scores + head * stride;
        s[padded] = exponentials(s, length, v_load(s + padded));
    }
    for (int head = 0; head < num_heads; head++) {
        const float *s = scores + head * stride;
        size_t at = (size_t)head * size, values = offset + width * BLOCK + at;
        int part = 0;
        for (; part + POOLED <= parts; part += POOLED)
            pool_values(N, s, of_query, blocks, values + part * LANES, length, width, POOLED, out + at + part * LANES, width,
                        half);
        for (; part < parts; part++)
            pool_values(N, s, of_query, blocks, values + part * LANES, length, width, 1, out + at + part * LANES, width, half);
        if (weights)
            for (int t = 0; t < length; t++) weights[(size_t)head * length + t] = s[t] / s[padded];
    }
}

static void attend(const float *query, size_t apart, int count, void *const *blocks, size_t offset, int length,
                   int num_heads, int head_size, float *scores, float *out, float *weights, int half) {
    const size_t width = (size_t)num_heads * ROUND_UP(head_size, LANES);
    const int together = half && ATTENDED > 1 ? count / ATTENDED * ATTENDED : 0;
    for (int i = 0; i < together; i += ATTENDED, query += ATTENDED * apart, out += ATTENDED * width)
        attend_to(ATTENDED, query, apart, blocks, offset, length, num_heads, head_size, scores, out, NULL, 1);
    for (int i = together; i < count; i++, query += apart, out += width)
        if (half || ISA_LEVEL == ISA_WASM) /* a page is always in int8 */
            attend_to(1, query, apart, blocks, offset, length, num_heads, head_size, scores, out, weights, 1);
        else attend_to(1, query, apart, blocks, offset, length, num_heads, head_size, scores, out, weights, 0);
}

static void reduce(const float *logits, const float *penalty, int count, int first_id, int with_sum, Reduction *r) {
    vec best = v_set(-INFINITY), max = v_set(-INFINITY);
    for (int i = 0; i < count; i += LANES) {
        vec logit = v_load(logits + i);
        max = v_max(max, logit);
        best = v_max(best, v_add(logit, v_load(penalty + i)));
    }
    float highest = v_highest(best);
    if (highest > r->best) {
        int i = 0;
        while (i < count - 1 && logits[i] + penalty[i] != highest) i++;
        r->best = highest, r->id = first_id + i, r->logit = logits[i];
    }
    if (!with_sum) return;
    highest = v_highest(max);
    if (highest > r->max) {
        r->sum *= exponential(r->max - highest);
        r->max = highest;
    }
    vec sum = v_set(0.0f);
    for (int i = 0; i < count; i += LANES) sum = v_add(sum, v_exp(v_sub(v_load(logits + i), v_set(r->max))));
    r->sum += v_sum(sum);
}

static int top(const float *logits, int n, int count, float *scores, int *ids) {
    int found = 0;
    for (int start = 0; start < n; start += LANES) {
        if (found == count && !(v_highest(v_load(logits + start)) > scores[count - 1])) continue;
        for (int id = start; id < start + LANES; id++) {
            if (found == count && !(logits[id] > scores[count - 1])) continue;
            if (!(logits[id] > -INFINITY)) continue;
            int place = found < count ? found++ : count - 1;
            for (; place > 0 && logits[id] > scores[place - 1]; place--)
                scores[place] = scores[place - 1], ids[place] = ids[place - 1];
            scores[place] = logits[id], ids[place] = id;
        }
    }
    return found;
}

const Kernel KERNEL = {
    KERNEL_NAME, is_supported, GROUP, WEIGHT_OFFSET, quantize, product, product_listed, normalize, activate, embed, rotate, put,
    attend, reduce, top, exponential,
};
