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

/* The sums of two lanes in fp64. A product is exact. A sum that is not is rounded to odd, so that rounding it again to fp32
 * does not count twice (Boldo and Melquiond 2008). */
static v128_t odd_sums(v128_t a, v128_t b, v128_t c) {
    const v128_t zero = wasm_i64x2_splat(0), one = wasm_i64x2_splat(1);
    v128_t addend = wasm_f64x2_promote_low_f32x4(c);
    v128_t product = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b));
    v128_t sum = wasm_f64x2_add(product, addend), other = wasm_f64x2_sub(sum, product); /* Knuth's two-sum */
    v128_t error = wasm_f64x2_add(wasm_f64x2_sub(product, wasm_f64x2_sub(sum, other)), wasm_f64x2_sub(addend, other));
    v128_t above = wasm_f64x2_gt(error, zero), even = wasm_i64x2_eq(wasm_v128_and(sum, one), zero);
    v128_t changes = wasm_v128_and(even, wasm_v128_or(above, wasm_f64x2_lt(error, zero)));
    v128_t step = wasm_v128_or(wasm_v128_xor(above, wasm_f64x2_gt(sum, zero)), one); /* 1 away from 0, -1 towards it */
    return wasm_i64x2_add(sum, wasm_v128_and(step, changes));
}

/* a b + c of four lanes, rounded once. */
#define HIGH(v) wasm_i64x2_shuffle(v, v, 1, 1)
#define ROUNDED(low, high) \
    wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high), 0, 2)
static v128_t exact_fused(v128_t a, v128_t b, v128_t c) {
    return ROUNDED(odd_sums(a, b, c), odd_sums(HIGH(a), HIGH(b), HIGH(c)));
}

typedef struct { v128_t r[4]; } four_parts; /* vec, which is defined later */
#if WASM_PATH == 1
static __attribute__((noinline)) void fuse_again(four_parts *a, const four_parts *b, const four_parts *c) {
    for (int i = 0; i < 4; i++) a->r[i] = exact_fused(a->r[i], b->r[i], c->r[i]);
}

/* A sum in fp64 that is not between two fp32 numbers, half way, can be rounded a second time: its lowest 29 bits tell. Below
 * 2^-126 other bits do, but a zero is right: such a sum is exact. */
static ALWAYS_INLINE four_parts fused(four_parts a, four_parts b, four_parts c) {
    v128_t half = wasm_i32x4_splat(0), smallest = wasm_i32x4_splat(-1);
    four_parts out;
    UNROLL for (int i = 0; i < 4; i++) {
#define SUMS(a, b, c) wasm_f64x2_add(wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b)), \
                                     wasm_f64x2_promote_low_f32x4(c))
        v128_t low = SUMS(a.r[i], b.r[i], c.r[i]), high = SUMS(HIGH(a.r[i]), HIGH(b.r[i]), HIGH(c.r[i]));
        out.r[i] = ROUNDED(low, high);
        half = wasm_i32x4_min(half, wasm_i32x4_min(wasm_i32x4_shl(low, 3), wasm_i32x4_shl(high, 3))); /* a shuffle costs more */
        smallest = wasm_u32x4_min(smallest, wasm_i32x4_sub(wasm_i32x4_shl(out.r[i], 1), wasm_i32x4_splat(1)));
    }
    half = wasm_i32x4_eq(half, wasm_i32x4_splat(INT32_MIN));
    if (__builtin_expect(wasm_v128_any_true(wasm_v128_or(half, wasm_u32x4_lt(smallest, wasm_i32x4_splat(0xffffff)))), 0)) {
        four_parts x = a, y = b, z = c; /* copies, so that a, b and c may stay in registers */
        fuse_again(&x, &y, &z);
        out = x;
    }
    return out;
}
#define FUSED_PART exact_fused
#else
#define FUSED_PART wasm_f32x4_relaxed_madd
static ALWAYS_INLINE four_parts fused(four_parts a, four_parts b, four_parts c) {
    four_parts out;
    UNROLL for (int i = 0; i < 4; i++) out.r[i] = FUSED_PART(a.r[i], b.r[i], c.r[i]);
    return out;
}
#endif
static ALWAYS_INLINE float fused_one(float a, float b, float c) {
    return wasm_f32x4_extract_lane(FUSED_PART(wasm_f32x4_splat(a), wasm_f32x4_splat(b), wasm_f32x4_splat(c)), 0);
}
#define fmaf fused_one
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
        vec a = v_load(x[0]), b = v_load(x[1]), c = v_load(x[2]);
        v_store(out, v_fma(a, b, c));
        for (int i = 0; i < 4; i++)
            if (!wasm_i8x16_all_true(wasm_i8x16_eq(wasm_v128_load(out + 4 * i), exact_fused(a.r[i], b.r[i], c.r[i])))) return 0;
        for (int i = 0; i < 16; i++)
            if (fmaf(x[0][i], x[1][i], x[2][i]) != out[i]) return 0;
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
