/* The kernel for processors with AVX2 and FMA: Intel since Haswell, AMD since Zen. */
#if defined(__x86_64__) || defined(_M_X64)
#include "processor.h"

/* Before the target below: a compiler may use its instructions in any function behind it, in this one, too. */
static int is_supported(void) { return has_avx2(); }

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>

#define KERNEL kernel_avx2
#define KERNEL_NAME "avx2"
#define ISA_LEVEL ISA_AVX2
#define PRODUCT PRODUCT_AVX2

#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
