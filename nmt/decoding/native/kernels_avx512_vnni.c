/* The kernels for processors with AVX-512 and its 8-bit products: Intel since Ice Lake, AMD since Zen 4. */
#define _DEFAULT_SOURCE /* for syscall */
#if defined(__x86_64__) || defined(_M_X64)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#endif
#include <immintrin.h>

#define KERNEL kernel_avx512_vnni
#define KERNEL_NAME "avx512-vnni"
#define ISA_LEVEL ISA_AVX512
#define PRODUCT PRODUCT_VNNI512
#define DPBUSD_ENCODING ""
#include "processor.h"

static int is_supported(void) { return has_avx512_vnni(); }

#include "kernels.h"
#ifdef HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>

#include "tiles.h"
#endif

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
