/* The table of functions that each instruction set provides, and the data that they share.
 *
 * Layouts. `W16` is W rounded up to a multiple of 16; numbers between W and W16 are always 0.
 *
 *   states    float [rows][W16]
 *   Rows      the input of a matrix product: int8 [rows][stride] with a scale and a correction per row, or fp32 states
 *   weights   panels of 16 outputs: int8 [outputs/16][inputs/group][16][group], fp32 [outputs/16][inputs][16]
 *   block     keys and values of 16 positions, A numbers each: keys [A][16], so that one register holds one coordinate
 *             of 16 keys; then values [16][A]. A is heads x K16. In bfloat16 if the weights are in int8, because
 *             reading blocks limits the speed of decoding; then keys are [A/2][16][2], because a register of pairs becomes
 *             two of fp32 with one instruction each.
 *
 * Integer sums are exact. fp32 sums are computed in a fixed order, which depends neither on the other rows nor on the
 * instruction set. So the result for a row is bit-identical on every processor and in any batch.
 */
#ifndef NMT_KERNEL_H
#define NMT_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ROUND_UP(n, m) (((n) + (m) - 1) / (m) * (m))
#define LANES 16
#define BLOCK 16       /* positions of a block of keys and values */
#define MOST_ATTENDED 4 /* queries that look at the same keys at once */
#define CHUNK 64       /* outputs that are reduced at once */
#define MAX_INPUTS 65536 /* a 32-bit sum holds 65,536 products of 8-bit numbers */

#if defined(_MSC_VER) && !defined(__clang__)
#define ALWAYS_INLINE __forceinline
#else
#define ALWAYS_INLINE __attribute__((always_inline)) inline
#endif

#if defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

/* The register types and product instructions of kernels_*.c. */
#define ISA_PORTABLE 0
#define ISA_AVX2 1
#define ISA_AVX512 2
#define ISA_WASM 3
/* The largest quantized weight and input. With weights shifted to [0, 128], four products are below 2^15: 16 bits hold
 * their sum, so the kernel for AVX2 adds products twice before it widens them (decision 21). */
#define LARGEST_WEIGHT 64
#define LARGEST_INPUT 63

#if defined(__wasm__) && WASM_PATH == 1
typedef int16_t INPUT; /* a number of 8 bits, for an instruction that multiplies numbers of 16 */
#else
typedef int8_t INPUT;
#endif

#define PRODUCT_PORTABLE 0
#define PRODUCT_AVX2 1
#define PRODUCT_VNNI256 2
#define PRODUCT_VNNI512 3
#define PRODUCT_NEON_DOT 4
#define PRODUCT_WASM_DOT 5
#define PRODUCT_WASM_PAIRS 6
#define PRODUCT_NEON_I8MM 7
#define PRODUCT_WASM_FOURS 8

typedef enum { INT8, FP32 } Precision;
typedef enum { STORE, STORE_RELU, ADD } Epilogue;
typedef enum { RELU, GELU, SILU, SWIGLU, RELU2 } Activation;

/* The input rows of a matrix product. */
typedef struct {
    void *numbers;       /* INT8: INPUT [rows][stride]; FP32: float [rows][stride] */
    float *scale;        /* INT8, per row: number = scale x integer */
    int32_t *correction; /* INT8, per row: added to each sum; see Kernel.weight_offset */
    size_t stride;       /* in numbers */
} Rows;

/* y = W x + b. */
typedef struct {
    int inputs, outputs;   /* padded: inputs to the kernel's group, outputs to 16 */
    Precision precision;
    void *panels;
    float *scale;          /* INT8: [outputs] */
    float *bias;           /* [outputs] */
} Linear;

/* The best of the logits seen so far, and the sum of their exponentials. */
typedef struct {
    float best;   /* the highest logit plus penalty */
    int id;       /* its index; the first one in case of a tie */
    float logit;  /* its logit */
    float max;    /* of all logits */
    float sum;    /* of exp(logit - max) */
} Reduction;

typedef struct {
    const char *name;
    int (*is_supported)(void);
    int group;          /* adjacent inputs in an int8 panel */
    int weight_offset;  /* added to int8 weights, so that they are unsigned */

    /* Quantizes states [rows][width] to 8 bits with one scale per row. If a row is not finite, its scale is NaN. */
    void (*quantize)(const float *states, int rows, int width, Rows *out);
    /* Multiplies the rows with panels `first` to `last` (exclusive), into out [rows][out_stride] from panel `first` on. */
    void (*product)(const Rows *in, int rows, const Linear *linear, int first, int last, Epilogue, float *out,
                    size_t out_stride);
    /* INT8: multiplies one row with `count` listed outputs, into out [count rounded up to 16]. weights: those of all
     * outputs, [outputs][inputs rounded up to 64], with zeros behind; offset as in panels. */
    void (*product_listed)(const Rows *in, int row, const Linear *linear, const void *weights, const int *outputs,
                           int count, float *out);
    /* Layer norm (Ba et al. 2016), or RMS norm (Zhang and Sennrich 2019) if `bias` is NULL, of states [rows][W16]. */
    void (*normalize)(const float *states, int rows, int width, const float *gain, const float *bias, float eps,
                      float *out);
    /* f(hidden), in place; SWIGLU reads [gate, linear] and writes [gate x linear] of half the width. */
    void (*activate)(Activation, float *hidden, int rows, int width);
    /* embedding x scale + position (Vaswani et al. 2017, sections 3.4 and 3.5); position may be NULL. INT8: the embedding
     * is rounded as weights are. */
    void (*embed)(const float *embedding, float scale, const float *position, int width, Precision, float *out);
    /* Rotates heads [heads][K16] by the angles of one position (Su et al. 2021, section 3.2.2); K is even. */
    void (*rotate)(float *heads, int num_heads, int head_size, const float *cosine, const float *sine);
    /* Writes the key and value of a position, `width` numbers each, to its place in a block, from number `offset` on. */
    void (*put)(const float *key, const float *value, void *block, size_t offset, size_t width, int place, int half);
    /* softmax(q K / sqrt(K)) V per head (Vaswani et al. 2017, section 3.2), with q already scaled, of `count` queries,
     * each `apart` numbers from the last, into out [count][A]. blocks: those of `length` positions, read from number `offset`
     * on, in bfloat16 if `half`, else fp32. scores: scratch [MOST_ATTENDED][heads][length rounded up + 16]. weights, of one
     * query: [heads][length] or NULL. */
    void (*attend)(const float *query, size_t apart, int count, void *const *blocks, size_t offset, int length,
                   int num_heads, int head_size, float *scores, float *out, float *weights, int half);
    /* Adds `count` logits (a multiple of 16, at most CHUNK), with ids from `first_id`, to the reduction.
     * penalty: [count], 0 or -infinity, added before they are compared. with_sum: whether to sum exponentials. */
    void (*reduce)(const float *logits, const float *penalty, int count, int first_id, int with_sum, Reduction *);
    /* Finds the `count` highest of logits [n], n a multiple of 16, best first; in ties, lower indices first. */
    int (*top)(const float *logits, int n, int count, float *scores, int *ids);
    /* exp(x) of one number. */
    float (*exponential)(float x);
} Kernel;

#if defined(__wasm__)
extern const Kernel kernel_wasm, kernel_wasm_signed;
#else
extern const Kernel kernel_portable;
#endif
#if defined(__x86_64__) || defined(_M_X64)
extern const Kernel kernel_avx2, kernel_avx_vnni, kernel_avx512_vnni;
#if defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define HAS_TILES /* systems with an older compiler may have an assembler that does not know them */
extern const Kernel kernel_avx512_amx;
#endif
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const Kernel kernel_neon_dot, kernel_neon_i8mm;
#endif

#endif
