/* Products of several rows by tiles (AMX: Intel's servers since Sapphire Rapids). Included by kernels_avx512_vnni.c.
 *
 * A tile has up to 16 rows of 64 bytes: 64 inputs of up to 16 rows; a panel's weights for 64 inputs, as they lie in memory;
 * or the sums of up to 16 rows with a panel. They are the integers of `product`, and what is made of them is the same code,
 * so the bits are the same. */
#define TMM(number) "%%tmm" #number
#define LOAD_TILE(tile, address, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), " TMM(tile) ::"r"(address), "r"((size_t)(stride)) : "memory")
#define STORE_TILE(tile, address) \
    __asm__ volatile("tilestored " TMM(tile) ", (%0,%1,1)" ::"r"(address), "r"((size_t)64) : "memory")
#define CLEAR_TILE(tile) __asm__ volatile("tilezero " TMM(tile) ::)
#define MULTIPLY_TILES(sum, rows, weights) /* signed times unsigned bytes, added in fours */ \
    __asm__ volatile("tdpbsud " TMM(weights) ", " TMM(rows) ", " TMM(sum) ::)

#define ROWS_OF_TILE 16
#define TILE_INPUTS 64
#define TILE_SUMS (ROWS_OF_TILE * LANES)
#define FEWEST_ROWS 3 /* with fewer, reading the weights limits the speed, and `product` reads them faster */

/* The shapes of the tiles, as the processor reads them. A thread that has none has zeros. */
typedef struct {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileShapes;

/* Loads a panel's weights for 64 inputs, and asks for those to come, into the second cache. */
#define LOAD_WEIGHTS(tile, w) do { \
        LOAD_TILE(tile, w, 64); \
        UNROLL for (int i = 0; i < 16; i++) __builtin_prefetch((w) + ahead + 64 * i, 0, 2); \
    } while (0)

/* Sums of 17 to 32 rows with two panels (`is_high`), or of up to 16 with four: four tiles. */
FN void multiply_tiles(const int is_high, const int8_t *rows, size_t stride, const int8_t *const *weights, int inputs,
                       int32_t *out) {
    const size_t ahead = (size_t)inputs * LANES * (is_high ? 2 : 4);
    CLEAR_TILE(0);
    CLEAR_TILE(1);
    CLEAR_TILE(2);
    CLEAR_TILE(3);
    for (size_t k = 0; k < (size_t)inputs; k += TILE_INPUTS, rows += TILE_INPUTS) {
        LOAD_TILE(4, rows, stride);
        LOAD_WEIGHTS(6, weights[0] + k * LANES);
        MULTIPLY_TILES(0, 4, 6);
        LOAD_WEIGHTS(7, weights[1] + k * LANES);
        MULTIPLY_TILES(1, 4, 7);
        if (is_high) {
            LOAD_TILE(5, rows + ROWS_OF_TILE * stride, stride);
            MULTIPLY_TILES(2, 5, 6);
            MULTIPLY_TILES(3, 5, 7);
        } else {
            LOAD_WEIGHTS(5, weights[2] + k * LANES);
            MULTIPLY_TILES(2, 4, 5);
            LOAD_WEIGHTS(6, weights[3] + k * LANES);
            MULTIPLY_TILES(3, 4, 6);
        }
    }
    STORE_TILE(0, out);
    STORE_TILE(1, out + TILE_SUMS);
    STORE_TILE(2, out + 2 * TILE_SUMS);
    STORE_TILE(3, out + 3 * TILE_SUMS);
}

static void shape_tiles(int rows, int is_high) {
    TileShapes shapes = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        const int has_weights = tile >= 6 || (tile == 5 && !is_high);
        const int is_second = is_high && (tile == 2 || tile == 3 || tile == 5); /* of the rows after the first 16 */
        shapes.row_bytes[tile] = 64;
        shapes.rows[tile] = (uint8_t)(is_second ? rows - ROWS_OF_TILE : has_weights || is_high ? ROWS_OF_TILE : rows);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shapes));
}

/* As Kernel.product, of up to 32 rows from `row` on. */
static void product_of_tiles(const Rows *in, int row, int rows, const Linear *linear, int first, int last,
                             Epilogue epilogue, float *out, size_t out_stride) {
    const size_t panel_bytes = (size_t)linear->inputs * LANES;
    const int8_t *numbers = (const int8_t *)in->numbers + row * in->stride, *weights[4];
    const int is_high = rows > ROWS_OF_TILE, panels = is_high ? 2 : 4;
    int32_t found[4 * TILE_SUMS] __attribute__((aligned(64)));
    shape_tiles(rows, is_high);
    for (int panel = first; panel < last; panel += panels, out += panels * LANES) {
        for (int p = 0; p < panels; p++) /* the last one several times, to fill all tiles */
            weights[p] = (const int8_t *)linear->panels + (panel + p < last ? panel + p : last - 1) * panel_bytes;
        if (is_high) multiply_tiles(1, numbers, in->stride, weights, linear->inputs, found);
        else multiply_tiles(0, numbers, in->stride, weights, linear->inputs, found);
        for (int r = 0; r < rows; r++)
            for (int p = 0; p < panels && panel + p < last; p++) {
                const int tile = r / ROWS_OF_TILE * 2 + p;
                __m512i sum = _mm512_load_si512((const void *)(found + tile * TILE_SUMS + r % ROWS_OF_TILE * LANES));
                sum = _mm512_add_epi32(sum, _mm512_set1_epi32(in->correction[row + r]));
                write_sums(sums_to_float((sums){sum}), in->scale[row + r], linear, panel + p, epilogue,
                           out + r * out_stride + p * LANES);
            }
    }
}

static void product_by_tiles(const Rows *in, int rows, const Linear *linear, int first, int last, Epilogue epilogue,
                             float *out, size_t out_stride) {
    if (linear->precision != INT8 || rows < FEWEST_ROWS || linear->inputs % TILE_INPUTS) {
        product(in, rows, linear, first, last, epilogue, out, out_stride);
        return;
    }
    TileShapes before; /* PyTorch's, if it computes in this thread, too */
    __asm__ volatile("sttilecfg %0" : "=m"(before));
    for (int row = 0; row < rows; row += 2 * ROWS_OF_TILE) {
        const int count = rows - row < 2 * ROWS_OF_TILE ? rows - row : 2 * ROWS_OF_TILE;
        product_of_tiles(in, row, count, linear, first, last, epilogue, out + row * out_stride, out_stride);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(before));
}

const Kernel kernel_avx512_amx = {
    "avx512-amx", may_use_tiles, GROUP, WEIGHT_OFFSET, quantize, product_by_tiles, product_listed, normalize, activate,
    embed, rotate, put, attend, reduce, top, exponential,
};
