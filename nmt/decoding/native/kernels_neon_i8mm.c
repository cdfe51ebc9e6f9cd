/* The kernel for ARM processors with matrix products of bytes: Apple's since the M2, Neoverse since V1 (Graviton 3).
 * Tested under an emulator, and not yet timed on such a processor. */
#if defined(__aarch64__) || defined(_M_ARM64)
#include "processor.h"

static int multiplies(void);

/* Before the target below: a compiler may use its instructions in any function behind it, in this one, too. */
static int is_supported(void) { return has_neon_i8mm() && multiplies(); }

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod,i8mm"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif
#include <arm_neon.h>

#define KERNEL kernel_neon_i8mm
#define KERNEL_NAME "neon-i8mm"
#define ISA_LEVEL ISA_PORTABLE
#define PRODUCT PRODUCT_NEON_I8MM

#include <stdint.h>

/* Whether the instruction computes what it should: [a, b] times [c, d], rows of eight, is [ac, ad, bc, bd]. */
static int multiplies(void) {
    int8_t rows[16], weights[16];
    int32_t sums[4] = {0};
    for (int i = 0; i < 16; i++) {
        volatile int seed = i; /* so that the compiler does not compute the product */
        rows[i] = (int8_t)(37 * seed - 128), weights[i] = (int8_t)(64 - 11 * seed);
    }
    vst1q_s32(sums, vmmlaq_s32(vdupq_n_s32(0), vld1q_s8(rows), vld1q_s8(weights)));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++) sums[i] -= rows[i / 2 * 8 + k] * weights[i % 2 * 8 + k];
    return !sums[0] && !sums[1] && !sums[2] && !sums[3];
}

#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
