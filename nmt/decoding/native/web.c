/* The decoder for JavaScript: a module of WebAssembly, used by nmt/apps/web/worker.js. Everything that comes in is untrusted.
 *
 *   web_kernel() -> name of the kernel, or NULL if this engine does not compute what the build needs
 *   web_load(file, bytes) -> model
 *   web_translate(model, request, count)  -> response, to be freed; request, response: see below
 *   web_error() -> why the last of these returned NULL
 *
 * A file of weights (nmt/apps/web/export.py writes it), little-endian: "NMTWEB1", a zero byte, the numbers of struct
 * Config, the number of arrays, and a kind, rows and columns of each; then their contents, each a multiple of 4 bytes.
 * An int8 array is a scale per row, then its rows of whole numbers. A number times its scale is what the packing of model.c
 * turns into the same number and scale, so it computes what the decoder computes of the run's own weights. */
#include "decoder.h"

#include <stdlib.h>

#if defined(__wasm__)
#define EXPORT(name) __attribute__((export_name(#name), used))
#else
#define EXPORT(name) /* scripts/fuzz_web.py calls it on other machines */
#endif
#define MOST_NUMBERS 268435456.0 /* in any buffer: all sizes in bytes fit into 32 bits */
enum { FLOATS, INTEGERS, SAME_AS_FIRST };
enum { HEADER_BYTES = 8 + sizeof(Config) + 4, ENTRY_BYTES = 12, MAX_ARRAYS = 1 << 20, MAX_SOURCES = 4096 };

static const char *error;

EXPORT(web_error) const char *web_error(void) { return error; }
EXPORT(web_allocate) void *web_allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }
EXPORT(web_free) void web_free(void *memory) { free(memory); }

EXPORT(web_kernel) const char *web_kernel(void) {
    const Kernel *found[8];
    return list_kernels(found) ? found[0]->name : NULL;
}

static void *fail(const char *message) {
    error = message;
    return NULL;
}

/* Whether no buffer of a model of this size has more than MOST_NUMBERS numbers. */
static int is_small(const Config *c) {
    if (c->d_model < 1 || c->num_heads < 1 || c->d_ff < 1 || c->num_heads > c->d_model || c->d_model > MAX_INPUTS) return 0;
    double width = ROUND_UP(c->d_model, LANES), f = (double)c->d_ff + LANES;
    double attention = (double)c->num_heads * ROUND_UP(c->d_model / c->num_heads + 1, LANES);
    double widest = 3 * attention > width ? 3 * attention : width, layers = (double)c->encoder_layers + c->decoder_layers;
    double words = (double)c->src_vocab_size + c->tgt_vocab_size + 2 * LANES;
    double length = (double)c->max_src_len + c->max_tgt_len + 512;
    return c->encoder_layers > 0 && c->decoder_layers > 0 && widest * width <= MOST_NUMBERS && 2 * f * width <= MOST_NUMBERS &&
           128 * f <= MOST_NUMBERS && words * width <= MOST_NUMBERS && words * 64 <= MOST_NUMBERS &&
           length * widest <= MOST_NUMBERS && layers * 4 * BLOCK * attention <= MOST_NUMBERS &&
           length * layers * 4 * attention <= MOST_NUMBERS && layers < 10000;
}

/* Points `arrays` at the contents of a file, and expands int8 ones into new memory; returns 0 if they do not fit it. */
static int read_arrays(const uint8_t *file, size_t bytes, int count, const float **arrays, size_t *counts, float **expanded) {
    const int32_t *entries = (const int32_t *)(file + HEADER_BYTES);
    double total = HEADER_BYTES + (double)count * ENTRY_BYTES;
    for (int i = 0; i < count; i++) { /* everything is checked before anything is allocated */
        double kind = entries[3 * i], rows = entries[3 * i + 1], columns = entries[3 * i + 2];
        if (rows < 1 || columns < 1 || rows * columns > MOST_NUMBERS || (kind == SAME_AS_FIRST && !i)) return 0;
        counts[i] = (size_t)(rows * columns);
        if (kind == SAME_AS_FIRST && counts[i] != counts[0]) return 0;
        if (kind != FLOATS && kind != INTEGERS && kind != SAME_AS_FIRST) return 0;
        total += kind == FLOATS ? 4 * rows * columns : kind == INTEGERS ? 4 * rows + (double)ROUND_UP(counts[i], 4) : 0;
    }
    if (total != (double)bytes) return 0;
    const uint8_t *at = file + HEADER_BYTES + (size_t)count * ENTRY_BYTES;
    for (int i = 0; i < count; i++) {
        size_t rows = entries[3 * i + 1], columns = entries[3 * i + 2];
        if (entries[3 * i] != INTEGERS) {
            arrays[i] = entries[3 * i] == FLOATS ? (const float *)at : arrays[0];
            at += entries[3 * i] == FLOATS ? 4 * counts[i] : 0;
            continue;
        }
        const float *scale = (const float *)at;
        const int8_t *numbers = (const int8_t *)(at + 4 * rows);
        if (!(expanded[i] = malloc(4 * counts[i]))) return 0;
        for (size_t row = 0; row < rows; row++)
            for (size_t k = 0; k < columns; k++) expanded[i][row * columns + k] = (float)numbers[row * columns + k] * scale[row];
        arrays[i] = expanded[i];
        at += 4 * rows + ROUND_UP(counts[i], 4);
    }
    return 1;
}

EXPORT(web_load) Model *web_load(const uint8_t *file, size_t bytes) {
    const Kernel *found[8];
    Config config;
    int32_t count = 0;
    if (!list_kernels(found)) return fail("this browser computes other products");
    if (bytes < HEADER_BYTES || memcmp(file, "NMTWEB1", 8)) return fail("these are no weights of a model");
    memcpy(&config, file + 8, sizeof config);
    memcpy(&count, file + HEADER_BYTES - 4, 4);
    if (count < 2 || count > MAX_ARRAYS || (size_t)count * ENTRY_BYTES > bytes - HEADER_BYTES || !is_small(&config))
        return fail("the weights are damaged, or too large for a browser");
    const float **arrays = calloc(count, sizeof *arrays);
    size_t *counts = calloc(count, sizeof *counts);
    float **expanded = calloc(count, sizeof *expanded);
    Model *model = NULL;
    error = "the weights are damaged, or there is not enough memory";
    if (arrays && counts && expanded && read_arrays(file, bytes, count, arrays, counts, expanded))
        model = load_model(&config, found[0], arrays, counts, count, UNTIL_LOADED, &error);
    for (int i = 0; expanded && i < count; i++) free(expanded[i]);
    free(arrays), free(counts), free(expanded);
    return model;
}

/* Reads a request in order; `fits` stays 0 once it has ended too early. */
typedef struct {
    const int32_t *at, *end;
    int fits;
} Reader;

static const int32_t *read_many(Reader *reader, int count) {
    reader->fits = reader->fits && count >= 0 && count <= reader->end - reader->at;
    const int32_t *here = reader->at;
    if (reader->fits) reader->at += count;
    return here;
}

static int read_one(Reader *reader) {
    const int32_t *here = read_many(reader, 1);
    return reader->fits ? *here : 0;
}

/* Points `out` at `count` ids of the request below `vocabulary`. */
static void read_ids(Reader *reader, int count, int vocabulary, int **out) {
    *out = (int *)read_many(reader, count); /* which the decoder only reads */
    for (int i = 0; reader->fits && i < count; i++) reader->fits = (*out)[i] >= 0 && (*out)[i] < vocabulary;
}

/* Fills the job from a request, all numbers of 32 bits: sources, beam size, hypotheses, minimum length, size of
 * n-grams that do not repeat, tags per prefix, scores, rows side by side, numbers of the two following; tokens that are
 * never generated; length^length_penalty from length 0 on, in fp64 (none: the length); for each source its
 * length with eos, that of its prefix, its limit, and its tokens and those of the prefix. Returns 0 if it is not sound. */
static int read_request(Job *job, Reader *reader) {
    const Config *c = model_config(job->model);
    Options *o = &job->options;
    int *numbers[] = {&job->num_sources, &o->beam_size, &o->num_hypotheses, &o->min_len, &o->no_repeat_ngram,
                      &o->num_tags, &o->with_scores, &job->max_rows};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = read_one(reader);
    int num_never = read_one(reader), num_divisors = read_one(reader), n = job->num_sources, width = padded_vocab_size(job->model);
    if (!reader->fits || n < 1 || n > MAX_SOURCES || o->beam_size < 1 || o->beam_size > 64 || o->num_hypotheses < 1 ||
        o->num_hypotheses > 64 || o->min_len < 0 || o->no_repeat_ngram < 0 || o->num_tags < 0 || o->num_tags > 1000 ||
        job->max_rows < 1 || job->max_rows > 1024 || num_divisors < 0 || num_divisors > 1 << 20)
        return 0;
    job->sources = calloc(n, sizeof(int *)), job->prefixes = calloc(n, sizeof(int *));
    job->src_lens = calloc(n, sizeof(int)), job->prefix_lens = calloc(n, sizeof(int)), job->limits = calloc(n, sizeof(int));
    job->results = calloc(n, sizeof(Result));
    job->penalty = calloc(width, sizeof(float));
    if (!job->sources || !job->prefixes || !job->src_lens || !job->prefix_lens || !job->limits || !job->results || !job->penalty)
        return 0;
    int *never;
    read_ids(reader, num_never, c->tgt_vocab_size, &never);
    for (int i = 0; reader->fits && i < num_never; i++) job->penalty[never[i]] = -INFINITY;
    for (int i = c->tgt_vocab_size; i < width; i++) job->penalty[i] = -INFINITY;
    const int32_t *divisors = read_many(reader, 2 * num_divisors);
    for (int i = 0; i < n && reader->fits; i++) {
        int length = job->src_lens[i] = read_one(reader), prefix = job->prefix_lens[i] = read_one(reader);
        int limit = job->limits[i] = read_one(reader);
        reader->fits = reader->fits && length >= 1 && length <= c->max_src_len && prefix >= 0 && limit >= 1 && prefix <= limit &&
                       limit <= c->max_tgt_len;
        if (!reader->fits) return 0;
        read_ids(reader, length, c->src_vocab_size, &job->sources[i]);
        read_ids(reader, prefix, c->tgt_vocab_size, &job->prefixes[i]);
        job->longest_limit = limit > job->longest_limit ? limit : job->longest_limit;
    }
    if (!reader->fits || reader->at != reader->end || (num_divisors && num_divisors <= job->longest_limit)) return 0;
    job->length_divisors = malloc((job->longest_limit + 1) * sizeof(double));
    for (int i = 0; job->length_divisors && i <= job->longest_limit; i++)
        if (num_divisors) memcpy(&job->length_divisors[i], divisors + 2 * i, 8);
        else job->length_divisors[i] = i ? i : 1;
    return job->length_divisors != NULL;
}

/* The response: its own number of ints; for each source the number of outputs, and for each of these its length, whether it
 * ended with eos, the bits of its score, its tokens, and the bits of their scores. */
static int32_t *write_response(const Job *job) {
    size_t size = 1;
    for (int i = 0; i < job->num_sources; i++, size++)
        for (int j = 0; j < job->results[i].num_outputs; j++) size += 3 + 2 * (size_t)job->results[i].outputs[j].length;
    int32_t *response = malloc(size * 4), *to = response;
    if (!response) return fail("there is not enough memory");
    *to++ = (int32_t)size;
    for (int i = 0; i < job->num_sources; i++) {
        *to++ = job->results[i].num_outputs;
        for (int j = 0; j < job->results[i].num_outputs; j++) {
            const Output *output = &job->results[i].outputs[j];
            *to++ = output->length, *to++ = output->finished;
            memcpy(to++, &output->score, 4);
            memcpy(to, output->ids, output->length * 4), to += output->length;
            memcpy(to, output->token_scores, output->length * 4), to += output->length;
        }
    }
    return response;
}

static int never_stop(void *unused) { return (void)unused, 0; }

EXPORT(web_translate) int32_t *web_translate(Model *model, const int32_t *request, int count) {
    Job job = {.model = model, .options = {.temperature = 1, .top_p = 1, .attention_layer = -1, .attention_head = -1}};
    Reader reader = {request, request + (count < 0 ? 0 : count), 1};
    int32_t *response = fail("the request is not sound, or there is not enough memory");
    if (read_request(&job, &reader)) {
        Worker *worker = new_worker(model);
        Status status = worker ? run_job(worker, &job, never_stop, NULL) : OUT_OF_MEMORY;
        response = status == DONE ? write_response(&job) : fail("there is not enough memory");
        if (worker) free_worker(worker);
    }
    for (int i = 0; job.results && i < job.num_sources; i++) free_result(&job.results[i]);
    free(job.sources), free(job.prefixes), free(job.src_lens), free(job.prefix_lens), free(job.limits), free(job.results);
    free(job.penalty), free(job.length_divisors);
    return response;
}
