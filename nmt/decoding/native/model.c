/* Packs the weights of a run for a kernel: padding, quantization to 8 bits, and tables of positions. */
#define _DEFAULT_SOURCE /* for madvise */
#include "model.h"

#include <stdlib.h>
#ifdef _WIN32
#include <malloc.h>
#elif !defined(__wasm__)
#include <sys/mman.h>
#include <unistd.h>
#endif

void *allocate_aligned(size_t bytes) {
    bytes = ROUND_UP(bytes ? bytes : 1, 64);
#ifdef _WIN32
    return _aligned_malloc(bytes, 64);
#else
    return aligned_alloc(64, bytes);
#endif
}

void free_aligned(void *memory) {
#ifdef _WIN32
    _aligned_free(memory);
#else
    free(memory);
#endif
}

#define RELEASED_ROWS 1024

/* Arrays are consumed in order. The first error is kept, and everything after it does nothing. */
typedef struct {
    Model *model;
    const float *const *arrays;
    const size_t *counts;
    int num_arrays, next;
    Lifetime lifetime;
    const char *error;
} Loader;

static void *allocate(Loader *loader, size_t count, size_t size) {
    Model *model = loader->model;
    if (loader->error) return NULL;
    void **grown = realloc(model->allocations, (model->num_allocations + 1) * sizeof(void *));
    void *memory = count > SIZE_MAX / 2 / size ? NULL : allocate_aligned(count * size);
    if (grown) model->allocations = grown;
    if (!grown || !memory) {
        free_aligned(memory);
        loader->error = "out of memory";
        return NULL;
    }
    memset(memory, 0, count * size);
    model->allocations[model->num_allocations++] = memory;
    return memory;
}

static const float *take(Loader *loader, size_t count) {
    if (loader->error) return NULL;
    if (loader->next == loader->num_arrays || loader->counts[loader->next] != count) {
        loader->error = "an array of the model has another size than its configuration says";
        return NULL;
    }
    return loader->arrays[loader->next++];
}

/* Frees the pages of numbers that are not read again, if they are mapped from a file: else packing a model would need
 * memory for all of its weights. Reading them nevertheless is slow, but correct. */
static void release_pages(const Loader *loader, const float *from, const float *to) {
#ifdef MADV_DONTNEED
    if (loader->lifetime != MAPPED) return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = ROUND_UP((uintptr_t)from, page);
    uintptr_t end = (uintptr_t)to / page * page;
    if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
#else
    (void)loader, (void)from, (void)to;
#endif
}

/* Rows [rows][width] with each padded to 16 lanes. */
static float *take_table(Loader *loader, int rows, int width) {
    const float *from = take(loader, (size_t)rows * width);
    int stride = ROUND_UP(width, LANES);
    float *to = allocate(loader, (size_t)rows * stride, sizeof(float));
    if (loader->error) return NULL;
    for (int row = 0; row < rows; row++)
        memcpy(to + (size_t)row * stride, from + (size_t)row * width, width * sizeof(float));
    return to;
}

/* Embeddings [rows][width]: the caller's array if it is kept and its rows have full lanes, else a copy with padded rows. */
static const float *take_embedding(Loader *loader, int rows, int width) {
    int copies = width % LANES || loader->lifetime == UNTIL_LOADED;
    return copies ? take_table(loader, rows, width) : take(loader, (size_t)rows * width);
}

static Norm take_norm(Loader *loader) {
    const Config *config = &loader->model->config;
    Norm norm = {take_table(loader, 1, config->d_model), NULL};
    if (!config->rms) norm.bias = take_table(loader, 1, config->d_model);
    return norm;
}

/* Outputs of a linear layer from one array; groups, such as heads, are each padded to a multiple of 16. */
typedef struct {
    const float *weight, *bias; /* [outputs][inputs]; [outputs] or NULL */
    int outputs, group;
    float scale;
} Part;

static Part take_part(Loader *loader, int outputs, int inputs, int group, float scale) {
    Part part = {take(loader, (size_t)outputs * inputs), NULL, outputs, group, scale};
    part.bias = take(loader, outputs);
    return part;
}

/* Quantizes `row` [inputs] to integers of at most LARGEST_WEIGHT; returns the scale. */
static float quantize_weights(const float *row, int inputs, float scale, float *out) {
    uint32_t most = 0; /* the bits of |x| are ordered as |x| is, and a NaN's are above all */
    for (int i = 0; i < inputs; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    if (!(largest <= 3e38f)) return NAN;
    float inverse = largest > 1e-30f ? LARGEST_WEIGHT / largest : 0.0f;
    for (int i = 0; i < inputs; i++) out[i] = row[i] * inverse + 12582912.0f - 12582912.0f; /* nearest, ties to even */
    return largest / LARGEST_WEIGHT * scale;
}

/* Writes row `n` of the padded matrix: its weights, in groups of inputs padded to a multiple of 16. */
static void pack_row(const Model *model, Linear *linear, const float *row, int inputs, int group, int n) {
    int padded = ROUND_UP(group, LANES), offset = model->kernel->weight_offset;
    int width = linear->precision == INT8 ? model->kernel->group : 1; /* a power of two */
    size_t first = (size_t)(n / LANES) * linear->inputs * LANES + n % LANES * width;
    int8_t *numbers = (int8_t *)linear->panels + first;
    float *floats = (float *)linear->panels + first;
    for (int start = 0, k = 0; start < inputs; start += group, k += padded)
        for (int i = 0; i < group; i++) {
            int within = (k + i) & (width - 1);
            size_t at = (size_t)(k + i - within) * LANES + within;
            if (linear->precision == INT8)
                numbers[at] = (int8_t)(uint8_t)((int)row[start + i] + offset);
            else
                floats[at] = row[start + i];
        }
}

static Linear pack_linear(Loader *loader, const Part *parts, int num_parts, int inputs, int in_group) {
    Model *model = loader->model;
    Linear linear = {inputs / in_group * ROUND_UP(in_group, LANES), 0, (Precision)model->config.precision, NULL, NULL, NULL};
    for (int i = 0; i < num_parts; i++)
        linear.outputs += parts[i].outputs / parts[i].group * ROUND_UP(parts[i].group, LANES);
    linear.outputs = ROUND_UP(linear.outputs, LANES);
    linear.panels = allocate(loader, (size_t)linear.outputs * linear.inputs, linear.precision == INT8 ? 1 : sizeof(float));
    linear.scale = allocate(loader, linear.outputs, sizeof(float));
    linear.bias = allocate(loader, linear.outputs, sizeof(float));
    float *row = allocate(loader, inputs, sizeof(float));
    if (loader->error) return linear;
    if (linear.precision == INT8)
        memset(linear.panels, model->kernel->weight_offset, (size_t)linear.outputs * linear.inputs);
    int first = 0;
    for (int i = 0; i < num_parts; i++) {
        const Part *part = &parts[i];
        int padded = ROUND_UP(part->group, LANES);
        for (int j = 0; j < part->outputs; j++) {
            const float *weights = part->weight + (size_t)j * inputs;
            int n = first + j / part->group * padded + j % part->group;
            if (linear.precision == INT8)
                linear.scale[n] = quantize_weights(weights, inputs, part->scale, row);
            else
                for (int k = 0; k < inputs; k++) row[k] = weights[k] * part->scale;
            pack_row(model, &linear, row, inputs, in_group, n);
            linear.bias[n] = part->bias ? part->bias[j] * part->scale : 0.0f;
            if (j % RELEASED_ROWS == RELEASED_ROWS - 1 || j == part->outputs - 1)
                release_pages(loader, part->weight + (size_t)(j / RELEASED_ROWS * RELEASED_ROWS) * inputs, weights + inputs);
        }
        first += part->outputs / part->group * padded;
    }
    return linear;
}

static Attention take_attention(Loader *loader, int is_cross) {
    const Config *config = &loader->model->config;
    int d = config->d_model, k = loader->model->head_size;
    Attention attention = {0};
    Part parts[2];
    float scale = 1.0f / sqrtf((float)k); /* scale of the scores; a norm of the query would cancel it */
    int normalizes = config->qk_norm == 1 || (config->qk_norm == 2 && !is_cross);
    parts[0] = take_part(loader, d, d, k, normalizes ? 1.0f : scale);
    parts[1] = take_part(loader, 2 * d, d, k, 1.0f);
    Part output = take_part(loader, d, d, d, 1.0f);
    if (normalizes) {
        attention.query_gain = take_table(loader, 1, k);
        attention.key_gain = take_table(loader, 1, k);
        for (int i = 0; i < k && !loader->error; i++) attention.query_gain[i] *= scale;
    }
    attention.norm = take_norm(loader);
    if (loader->error) return attention;
    attention.input = pack_linear(loader, parts, is_cross ? 1 : 2, d, d);
    if (is_cross) attention.key_value = pack_linear(loader, parts + 1, 1, d, d);
    attention.output = pack_linear(loader, &output, 1, d, k);
    return attention;
}

static FeedForward take_feed_forward(Loader *loader) {
    const Config *config = &loader->model->config;
    int d = config->d_model, f = config->d_ff;
    FeedForward ff = {0};
    Part input = take_part(loader, config->activation == SWIGLU ? 2 * f : f, d, f, 1.0f);
    Part output = take_part(loader, d, f, d, 1.0f);
    ff.norm = take_norm(loader);
    if (loader->error) return ff;
    ff.input = pack_linear(loader, &input, 1, d, d);
    ff.output = pack_linear(loader, &output, 1, f, f);
    return ff;
}

static Layer *take_layers(Loader *loader, int count, int is_decoder) {
    Layer *layers = allocate(loader, count, sizeof(Layer));
    for (int i = 0; i < count && !loader->error; i++) {
        layers[i].self = take_attention(loader, 0);
        if (is_decoder) layers[i].cross = take_attention(loader, 1);
        layers[i].feed_forward = take_feed_forward(loader);
    }
    return layers;
}

/* sin(x) for 0 <= x < 10^6, identical on every platform: reduction by multiples of pi/2 (fdlibm), then Taylor series. */
static const double inverse_factorials[18] = {
    1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
    1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200, 1.0 / 1307674368000, 1.0 / 20922789888000,
    1.0 / 355687428096000,
};
static double sine(double x, int quarter_turns) {
    if (!(fabs(x) < 1e7)) return NAN; /* the frequencies are an argument of load */
    double n = (double)(int64_t)(x * 0.63661977236758134308 + 0.5);
    double r = x - n * 1.57079632673412561417e+00 - n * 6.07710050650619224932e-11;
    int quarter = (int)((int64_t)n + quarter_turns) & 3;
    double term = quarter & 1 ? 1.0 : r, sum = 0.0; /* cosine or sine of r */
    for (int i = quarter & 1 ? 0 : 1; i < 18; i += 2, term *= -r * r) sum += term * inverse_factorials[i];
    return quarter >= 2 ? -sum : sum;
}

/* Angles position x 10000^(-2i/width) (Vaswani et al. 2017, section 3.5), rounded to fp32 like in torch. */
static void make_positions(Loader *loader, const float *frequencies, int max_len, int width) {
    Model *model = loader->model;
    int half = width / 2;
    if (model->config.positions == ROTARY) {
        model->cosine = allocate(loader, (size_t)max_len * half, sizeof(float));
        model->sine = allocate(loader, (size_t)max_len * half, sizeof(float));
    } else
        model->src_positions = model->tgt_positions = allocate(loader, (size_t)max_len * model->width, sizeof(float));
    if (loader->error) return;
    for (int position = 0; position < max_len; position++)
        for (int i = 0; i < half; i++) {
            float angle = (float)position * frequencies[i];
            float s = (float)sine(angle, 0), c = (float)sine(angle, 1);
            if (model->cosine)
                model->cosine[(size_t)position * half + i] = c, model->sine[(size_t)position * half + i] = s;
            else {
                float *row = model->src_positions + (size_t)position * model->width;
                row[2 * i] = s, row[2 * i + 1] = c;
            }
        }
}

static void take_positions(Loader *loader) {
    Model *model = loader->model;
    const Config *config = &model->config;
    int max_len = config->max_src_len > config->max_tgt_len ? config->max_src_len : config->max_tgt_len;
    if (config->positions == LEARNED) {
        model->src_positions = take_table(loader, max_len, config->d_model);
        model->tgt_positions = take_table(loader, max_len, config->d_model);
        return;
    }
    int width = config->positions == ROTARY ? model->head_size : config->d_model;
    const float *frequencies = take(loader, width / 2);
    if (!loader->error) make_positions(loader, frequencies, max_len, width);
}

static int is_sound(const Config *c) {
    int sizes = c->d_model > 0 && c->num_heads > 0 && c->d_ff > 0 && c->encoder_layers > 0 && c->decoder_layers > 0;
    if (!sizes || c->d_model % c->num_heads || c->d_model > MAX_INPUTS || c->d_ff > MAX_INPUTS) return 0;
    int head_size = c->d_model / c->num_heads;
    if ((int64_t)c->num_heads * ROUND_UP(head_size, LANES) > MAX_INPUTS) return 0;
    if (c->positions < SINUSOIDAL || c->positions > ROTARY || c->activation < RELU || c->activation > RELU2) return 0;
    if (c->qk_norm < 0 || c->qk_norm > 2) return 0;
    if (c->positions == SINUSOIDAL ? c->d_model % 2 : c->positions == ROTARY && head_size % 2) return 0;
    if (c->precision != INT8 && c->precision != FP32) return 0;
    if (c->encoder_layers > 10000 || c->decoder_layers > 10000) return 0;
    return c->src_vocab_size > EOS_ID && c->tgt_vocab_size > EOS_ID && c->src_vocab_size < 1 << 24 &&
           c->tgt_vocab_size < 1 << 24 && c->max_src_len > 1 && c->max_tgt_len > 1 && c->max_src_len < 1 << 20 &&
           c->max_tgt_len < 1 << 20;
}

Model *load_model(const Config *config, const Kernel *kernel, const float *const *arrays, const size_t *counts,
                  int num_arrays, Lifetime lifetime, const char **error) {
    *error = "the model's configuration is not one that this engine serves";
    if (!is_sound(config)) return NULL;
    *error = "out of memory";
    Model *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    Loader loader = {model, arrays, counts, num_arrays, 0, lifetime, NULL};
    model->config = *config;
    model->kernel = kernel;
    model->width = ROUND_UP(config->d_model, LANES);
    model->head_size = config->d_model / config->num_heads;
    model->attention_width = config->num_heads * ROUND_UP(model->head_size, LANES);
    model->ff_width = ROUND_UP(config->d_ff, LANES);
    model->src_embedding = take_embedding(&loader, config->src_vocab_size, config->d_model);
    if (num_arrays > 1 && arrays[0] == arrays[1] && counts[0] == counts[1]) { /* tied: one table */
        take(&loader, (size_t)config->tgt_vocab_size * config->d_model);
        model->tgt_embedding = model->src_embedding;
    } else
        model->tgt_embedding = take_embedding(&loader, config->tgt_vocab_size, config->d_model);
    take_positions(&loader);
    model->encoder = take_layers(&loader, config->encoder_layers, 0);
    model->decoder = take_layers(&loader, config->decoder_layers, 1);
    if (!config->post_norm) {
        model->encoder_norm = take_norm(&loader);
        model->decoder_norm = take_norm(&loader);
    }
    Part output = {take(&loader, (size_t)config->tgt_vocab_size * config->d_model), NULL, config->tgt_vocab_size,
                   config->tgt_vocab_size, 1.0f};
    if (loader.next < num_arrays) output.bias = take(&loader, config->tgt_vocab_size); /* model.output_bias */
    if (!loader.error) model->output = pack_linear(&loader, &output, 1, config->d_model, config->d_model);
    if (!loader.error && loader.next != num_arrays) loader.error = "there are more arrays than the model has";
    if (loader.error) {
        *error = loader.error;
        free_model(model);
        return NULL;
    }
    for (int n = config->tgt_vocab_size; n < model->output.outputs; n++) model->output.bias[n] = -INFINITY;
    return model;
}

void free_model(Model *model) {
    for (size_t i = 0; i < model->num_allocations; i++) free_aligned(model->allocations[i]);
    free(model->allocations);
    free(model);
}

const Config *model_config(const Model *model) { return &model->config; }
int padded_vocab_size(const Model *model) { return model->output.outputs; }

int list_kernels(const Kernel *out[8]) {
    const Kernel *all[] = {
#if defined(__x86_64__) || defined(_M_X64)
#ifdef HAS_TILES
        &kernel_avx512_amx,
#endif
        &kernel_avx512_vnni, &kernel_avx_vnni, &kernel_avx2,
#elif defined(__aarch64__) || defined(_M_ARM64)
        &kernel_neon_i8mm, &kernel_neon_dot,
#endif
#if defined(__wasm__)
        &kernel_wasm,
#if WASM_PATH > 1
        &kernel_wasm_signed,
#endif
#else
        &kernel_portable,
#endif
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->is_supported()) out[count++] = all[i];
    return count;
}
