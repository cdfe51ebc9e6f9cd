/* The kernel for processors with AVX-VNNI but without AVX-512: Intel's desktop processors since Alder Lake. */
#if defined(__x86_64__) || defined(_M_X64)
#include "processor.h"

/* Before the target below: a compiler may use its instructions in any function behind it, in this one, too. */
#ifdef AVX_VNNI_BY_AVX512 /* the same product as AVX-512 encodes it: tests of this kernel on processors that lack the other */
#define DPBUSD_ENCODING "%{evex%} "
static int is_supported(void) { return has_avx512_vnni(); }
#else
#define DPBUSD_ENCODING "%{vex%} "
static int is_supported(void) { return has_avx_vnni(); }
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avxvnni,avx2,fma"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("avxvnni,avx2,fma")
#endif
#include <immintrin.h>

#define KERNEL kernel_avx_vnni
#define KERNEL_NAME "avx-vnni"
#define ISA_LEVEL ISA_AVX2
#define PRODUCT PRODUCT_VNNI256

#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
