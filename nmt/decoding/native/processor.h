/* Which instructions this processor and its operating system have. */
#ifndef NMT_PROCESSOR_H
#define NMT_PROCESSOR_H
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* cpuid of a leaf: eax, ebx, ecx, edx; zeros if the processor has no such leaf. */
static inline void processor_leaf(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
    out[0] = out[1] = out[2] = out[3] = 0;
#if defined(_MSC_VER)
    int found[4];
    __cpuid(found, 0);
    if ((uint32_t)found[0] < leaf) return;
    __cpuidex(found, (int)leaf, (int)subleaf);
    for (int i = 0; i < 4; i++) out[i] = (uint32_t)found[i];
#else
    __get_cpuid_count(leaf, subleaf, &out[0], &out[1], &out[2], &out[3]);
#endif
}

/* Whether the operating system saves the registers of `mask` (xcr0): 6 for AVX, 0xe6 for AVX-512, 0x60000 for AMX. */
static inline int saves_registers(uint32_t mask) {
    uint32_t leaf[4];
    processor_leaf(1, 0, leaf);
    if (!(leaf[2] >> 27 & 1)) return 0;
#if defined(_MSC_VER)
    uint32_t saved = (uint32_t)_xgetbv(0);
#else
    uint32_t saved, high;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
#endif
    return (saved & mask) == mask;
}

static inline int has_avx2(void) {
    uint32_t one[4], seven[4];
    processor_leaf(1, 0, one);
    processor_leaf(7, 0, seven);
    return (one[2] >> 12 & 1) && (seven[1] >> 5 & 1) && saves_registers(6); /* FMA, AVX2 */
}

static inline int has_avx_vnni(void) {
    uint32_t leaf[4];
    processor_leaf(7, 1, leaf);
    return has_avx2() && (leaf[0] >> 4 & 1);
}

static inline int has_avx512_vnni(void) {
    const uint32_t needed = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    uint32_t leaf[4];
    processor_leaf(7, 0, leaf);
    return has_avx2() && (leaf[1] & needed) == needed && (leaf[2] >> 11 & 1) && saves_registers(0xe6);
}

/* The 8-bit products of AMX. */
static inline int has_amx_int8(void) {
    uint32_t leaf[4];
    processor_leaf(7, 0, leaf);
    return (leaf[3] >> 24 & 3) == 3 && saves_registers(0x60000); /* tiles, products of bytes */
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
static inline int has_neon_dot(void) { return getauxval(AT_HWCAP) >> 20 & 1; }
static inline int has_neon_i8mm(void) { return getauxval(AT_HWCAP2) >> 13 & 1; }
#elif defined(__aarch64__) || defined(_M_ARM64)
static inline int has_neon_dot(void) { return 1; } /* every Apple processor since the M1, and Windows' ARM processors */
#if defined(__APPLE__)
#include <sys/sysctl.h>
static inline int has_neon_i8mm(void) {
    int found = 0;
    size_t size = sizeof found;
    return !sysctlbyname("hw.optional.arm.FEAT_I8MM", &found, &size, NULL, 0) && found;
}
#else
static inline int has_neon_i8mm(void) { return 0; }
#endif
#endif

#endif
