/* The kernel for ARM processors with dot products of bytes: Apple's since the M1, Neoverse since N1. */
#if defined(__aarch64__) || defined(_M_ARM64)
#include "processor.h"

/* Before the target below: a compiler may use its instructions in any function behind it, in this one, too. */
static int is_supported(void) { return has_neon_dot(); }

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("arch=armv8.2-a+dotprod") /* all of it: GCC 12 inlines vdotq_s32 only then */
#endif
#include <arm_neon.h>

#define KERNEL kernel_neon_dot
#define KERNEL_NAME "neon-dot"
#define ISA_LEVEL ISA_PORTABLE
#define PRODUCT PRODUCT_NEON_DOT

#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
