/* The kernels for processors with AVX-512 and its 8-bit products: Intel since Ice Lake, AMD since Zen 4. */
#define _DEFAULT_SOURCE /* for syscall */
#if defined(__x86_64__) || defined(_M_X64)
#include "kernel.h"
#include "processor.h"
#ifdef HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Before the target below: a compiler may use its instructions in any function behind it, in this one, too. */
static int is_supported(void) { return has_avx512_vnni(); }

#ifdef HAS_TILES
/* Linux asks programs to ask for these registers, because a thread that uses them has 8 KiB more to save. */
static int may_use_tiles(void) {
    const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return is_supported() && has_amx_int8() && !syscall(SYS_arch_prctl, request, tile_data);
}
#endif

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

#include "kernels.h"
#ifdef HAS_TILES
#include "tiles.h"
#endif

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
