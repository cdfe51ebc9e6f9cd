/* The kernels for WebAssembly with 128-bit SIMD. WASM_PATH says which products of bytes a build has:
 *   3  relaxed ones, four and their sum at once, where a processor has an instruction for that
 *   2  relaxed ones, two at once, added in 16 bits
 *   1  products of 16 bits, which every engine computes
 * Engines may compute relaxed products in several ways, so a trial decides, with products that are known: a kernel is only
 * supported if the engine computes what every other kernel does. Their second operand has 7 bits, and weights have 129
 * values; processors take an eighth bit for 128 (x86) or for the sign (ARM), so there is a kernel for each. */
#if defined(__wasm__)
#include <wasm_simd128.h>

#define KERNEL kernel_wasm
#define ISA_LEVEL ISA_WASM
#define PRODUCT (WASM_PATH == 3 ? PRODUCT_WASM_DOT : WASM_PATH == 2 ? PRODUCT_WASM_FOURS : PRODUCT_WASM_PAIRS)
#define KERNEL_NAME (WASM_PATH == 3 ? "wasm-dot" : WASM_PATH == 2 ? "wasm-fours" : "wasm-pairs")

static int is_supported(void);
#include "kernels.h"

#if WASM_PATH == 1
static int is_supported(void) { return 1; }
#else
static int next_number(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 16; }

/* Whether products are those of weights from `smallest` on, of which the largest is 2 x LARGEST_WEIGHT more. */
static int multiplies(int smallest) {
    uint32_t state = 1;
    for (int round = 0; round < 64; round++) {
        const int widest = round < 8; /* only the smallest and the largest numbers */
        int8_t weights[8 * LANES] = {0}, row[8] = {0};
        float out[LANES];
        for (int i = 0; i < 4 * LANES; i++)
            weights[i] = (int8_t)(smallest + (widest ? next_number(&state) % 2 * 128 : next_number(&state) % 129));
        for (int i = 0; i < 4; i++)
            row[i] = (int8_t)((widest ? next_number(&state) % 2 * 126 : next_number(&state) % 127) - LARGEST_INPUT);
        sums found = sums_set(round);
        UNROLL for (int i = 0; i < 4; i++) {
            WEIGHTS w = LOAD_WEIGHTS(weights, 0, i);
            found.r[i] = sums_add(found.r[i], w, row);
        }
        v_store(out, sums_to_float(found));
        for (int n = 0; n < LANES; n++) {
            int sum = round;
            for (int i = 0; i < 4; i++) sum += row[i] * (smallest < 0 ? weights[4 * n + i] : (uint8_t)weights[4 * n + i]);
            if (out[n] != (float)sum) return 0;
        }
    }
    return 1;
}

/* Without an instruction for four products, x86 limits sums of two to 16 bits, and path 2 is faster. */
static int is_supported(void) {
    v128_t sums = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_i8x16_splat(127), wasm_i8x16_splat(-1), wasm_i32x4_splat(0));
    return multiplies(0) && (WASM_PATH == 2 || wasm_i32x4_extract_lane(sums, 0) == 4 * 127 * 255);
}
static int is_signed(void) { return multiplies(-LARGEST_WEIGHT); }

static void quantize_signed(const float *states, int rows, int width, Rows *out) {
    quantize(states, rows, width, out);
    memset(out->correction, 0, rows * sizeof *out->correction);
}

/* Has no product_listed: a search in a browser has no shortlist. */
const Kernel kernel_wasm_signed = {
    WASM_PATH == 3 ? "wasm-dot-signed" : "wasm-fours-signed", is_signed, GROUP, 0, quantize_signed, product, NULL, normalize,
    activate, embed, rotate, put, attend, reduce, top, exponential,
};
#endif
#endif
