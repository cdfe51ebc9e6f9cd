/* The kernels for WebAssembly with 128-bit SIMD: with relaxed dot products of bytes if RELAXED_DOT, else with products of
 * 16 bits, which every engine computes. Engines may compute a relaxed product in several ways, so a trial decides, with
 * products that are known: the kernel is only supported if the engine computes what every other kernel does. Its second
 * operand has 7 bits, and weights have 129 values; processors take an eighth bit for 128 (x86) or for the sign (ARM), so
 * there is a kernel for each. */
#if defined(__wasm__)
#include <wasm_simd128.h>

#define KERNEL kernel_wasm
#define ISA_LEVEL ISA_WASM
#if defined(RELAXED_DOT)
#define KERNEL_NAME "wasm-dot"
#define PRODUCT PRODUCT_WASM_DOT
#else
#define KERNEL_NAME "wasm-pairs"
#define PRODUCT PRODUCT_WASM_PAIRS
#endif

static int is_supported(void);
#include "kernels.h"

#if !defined(RELAXED_DOT)
static int is_supported(void) { return 1; }
#else
static uint32_t next_number(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

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

static int is_supported(void) { return multiplies(0); }
static int is_signed(void) { return multiplies(-LARGEST_WEIGHT); }

static void quantize_signed(const float *states, int rows, int width, Rows *out) {
    quantize(states, rows, width, out);
    memset(out->correction, 0, rows * sizeof *out->correction);
}

/* Has no product_listed: a search in a browser has no shortlist. */
const Kernel kernel_wasm_signed = {
    KERNEL_NAME "-signed", is_signed, GROUP, 0, quantize_signed, product, NULL, normalize, activate, embed, rotate, put, attend,
    reduce, top, exponential,
};
#endif
#endif
