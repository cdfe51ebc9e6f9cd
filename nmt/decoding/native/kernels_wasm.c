/* The kernels for WebAssembly with 128-bit SIMD. WASM_PATH says which instructions a build may use:
 *   3  relaxed dot products of bytes, and relaxed fused multiply-add
 *   2  products of 16 bits, and relaxed fused multiply-add
 *   1  products of 16 bits, and an exact fused multiply-add of plain instructions
 * Engines may compute relaxed instructions in several ways, so a trial decides, with products and sums whose bits are
 * known: the kernel is only supported if the engine computes what every other kernel does. The second operand of the
 * relaxed dot product has 7 bits, and weights have 129 values; processors take an eighth bit for 128 (x86) or for the
 * sign (ARM), so there is a kernel for each. */
#if defined(__wasm__)
#include <wasm_simd128.h>

#define KERNEL kernel_wasm
#define ISA_LEVEL ISA_WASM
#if WASM_PATH == 3
#define KERNEL_NAME "wasm-dot"
#define PRODUCT PRODUCT_WASM_DOT
#elif WASM_PATH == 2
#define KERNEL_NAME "wasm-fused"
#define PRODUCT PRODUCT_WASM_PAIRS
#else
#define KERNEL_NAME "wasm-exact"
#define PRODUCT PRODUCT_WASM_PAIRS
#endif
#include "kernel.h"

/* a b + c, rounded once. The product is exact in fp64. If the sum is not, it is rounded to odd, so that rounding it again
 * to fp32 does not count twice (Boldo and Melquiond 2008). */
static float exact_fused(float a, float b, float c) {
    double product = (double)a * b, sum = product + c, other = sum - product;
    double error = (product - (sum - other)) + (c - other); /* Knuth's two-sum */
    int64_t bits;
    memcpy(&bits, &sum, 8);
    if ((error > 0 || error < 0) && !(bits & 1)) {
        bits += (error > 0) == (sum > 0) ? 1 : -1;
        memcpy(&sum, &bits, 8);
    }
    return (float)sum;
}

typedef struct { v128_t r[4]; } four_parts; /* vec, which is defined later */
#if WASM_PATH == 1
static __attribute__((noinline)) void fuse_again(const float *a, const float *b, const float *c, float *out) {
    for (int i = 0; i < 16; i++) out[i] = exact_fused(a[i], b[i], c[i]);
}

/* A sum in fp64 that is not between two fp32 numbers, half way, can be rounded a second time. */
static ALWAYS_INLINE four_parts fused(const v128_t *a, const v128_t *b, const v128_t *c) {
    const v128_t tail = wasm_i64x2_splat(0x1fffffff), half = wasm_i64x2_splat(0x10000000);
    const v128_t smallest = wasm_f32x4_splat(0x1p-126f);
    v128_t doubtful = wasm_i32x4_splat(0);
    four_parts out;
    UNROLL for (int i = 0; i < 4; i++) {
        v128_t sums[2];
        UNROLL for (int high = 0; high < 2; high++) {
#define WIDEN(v) wasm_f64x2_promote_low_f32x4(high ? wasm_i64x2_shuffle(v, v, 1, 1) : v)
            sums[high] = wasm_f64x2_add(wasm_f64x2_mul(WIDEN(a[i]), WIDEN(b[i])), WIDEN(c[i]));
            doubtful = wasm_v128_or(doubtful, wasm_i64x2_eq(wasm_v128_and(sums[high], tail), half));
#undef WIDEN
        }
        out.r[i] = wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(sums[0]), wasm_f32x4_demote_f64x2_zero(sums[1]), 0, 2);
        doubtful = wasm_v128_or(doubtful, wasm_f32x4_lt(wasm_f32x4_abs(out.r[i]), smallest)); /* other bits are half way */
    }
    if (__builtin_expect(wasm_v128_any_true(doubtful), 0)) {
        float x[16], y[16], z[16], result[16];
        memcpy(x, a, 64), memcpy(y, b, 64), memcpy(z, c, 64);
        fuse_again(x, y, z, result);
        memcpy(&out, result, 64);
    }
    return out;
}
#define fmaf exact_fused
#else
static ALWAYS_INLINE four_parts fused(const v128_t *a, const v128_t *b, const v128_t *c) {
    four_parts out;
    UNROLL for (int i = 0; i < 4; i++) out.r[i] = wasm_f32x4_relaxed_madd(a[i], b[i], c[i]);
    return out;
}
static ALWAYS_INLINE float fused_one(float a, float b, float c) {
    return wasm_f32x4_extract_lane(
        wasm_f32x4_relaxed_madd(wasm_f32x4_splat(a), wasm_f32x4_splat(b), wasm_f32x4_splat(c)), 0);
}
#define fmaf fused_one
#endif
#define FUSED(a, b, c) fused(a.r, b.r, c.r)
#define DOT wasm_i32x4_relaxed_dot_i8x16_i7x16_add

static int is_supported(void);
#include "kernels.h"

static uint32_t next_number(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Whether fused sums are rounded once, also where only the last bit of an fp64 sum tells. */
static int fuses(void) {
    uint32_t state = 1;
    for (int round = 0; round < 64; round++) {
        float x[3][16], out[16];
        for (int i = 0; i < 48; i++) {
            uint32_t bits = (next_number(&state) & 0x807fffffu) | (120 + (next_number(&state) >> 24) % 16) << 23;
            memcpy(&x[i / 16][i % 16], &bits, 4);
        }
        x[0][0] = x[1][0] = 1.0f + 0x1p-12f, x[2][0] = 0x1p-60f; /* half way, and a little more */
        v_store(out, v_fma(v_load(x[0]), v_load(x[1]), v_load(x[2])));
        for (int i = 0; i < 16; i++)
            if (out[i] != exact_fused(x[0][i], x[1][i], x[2][i]) || fmaf(x[0][i], x[1][i], x[2][i]) != out[i]) return 0;
    }
    return 1;
}

#if WASM_PATH == 3
/* Whether products are those of weights from `smallest` on, of which the largest is 2 x LARGEST_WEIGHT more. */
static int multiplies(int smallest) {
    uint32_t state = 1;
    for (int round = 0; round < 64; round++) {
        int8_t weights[4 * LANES], row[4];
        float out[LANES];
        for (int i = 0; i < 4 * LANES; i++) {
            int high = next_number(&state) >> 16;
            weights[i] = (int8_t)(uint8_t)(smallest + (round < 8 ? high % 2 * 128 : high % 129));
        }
        for (int i = 0; i < 4; i++) {
            int high = next_number(&state) >> 16;
            row[i] = (int8_t)(round < 8 ? (high % 2 ? LARGEST_INPUT : -LARGEST_INPUT) : high % 127 - LARGEST_INPUT);
        }
        v_store(out, sums_to_float(sums_add(sums_set(round), sums_load_weights(weights), row)));
        for (int n = 0; n < LANES; n++) {
            int sum = round;
            for (int i = 0; i < 4; i++) sum += row[i] * (smallest < 0 ? weights[4 * n + i] : (uint8_t)weights[4 * n + i]);
            if (out[n] != (float)sum) return 0;
        }
    }
    return 1;
}

static int is_supported(void) { return fuses() && multiplies(0); }
static int is_signed(void) { return fuses() && multiplies(-LARGEST_WEIGHT); }

static void quantize_signed(const float *states, int rows, int width, Rows *out) {
    quantize(states, rows, width, out);
    memset(out->correction, 0, rows * sizeof *out->correction);
}
#else
static int is_supported(void) { return fuses(); }
static int is_signed(void) { return 0; }
#define quantize_signed quantize
#endif

/* Has no product_listed: a search in a browser has no shortlist. */
const Kernel kernel_wasm_signed = {
    KERNEL_NAME "-signed", is_signed, GROUP, 0, quantize_signed, product, NULL, normalize, activate, embed, rotate, put, attend,
    reduce, top, exponential,
};
#endif
