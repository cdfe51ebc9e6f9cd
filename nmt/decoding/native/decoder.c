/* Translation with a Transformer encoder-decoder (Vaswani et al. 2017): encoder, decoder steps, and the loop around them.
 *
 * A worker, which only one thread uses at a time, decodes the hypotheses of several sources side by side, one row of
 * states each, without padding. When the hypotheses of a source have ended, the next source takes its place immediately
 * (continuous batching). A row's result does not depend on other rows, so it is bit-identical in any batch and order.
 *
 * Buffers of a worker, for R rows (see kernel.h for A, F16 and the layout of a block):
 *   states   [R][D16]    the residual stream         normal   [R][D16]  its norm
 *   heads    [R][3A]     query, key and value        context  [R][A]    the output of attention
 *   hidden   [64][F16]   inside the feed-forward network, 64 rows at a time
 *   rows                 the 8-bit input of the next product
 *   logits   [R][V16], or [R][64] if they are reduced as they are computed, or [R][longest shortlist]
 * Keys and values of a hypothesis are stored in blocks of 16 positions, for all layers: [layer][32 x A] numbers.
 * Hypotheses of a beam share blocks; a shared block is copied before a hypothesis writes to it.
 */
#define _GNU_SOURCE /* nanosleep, sched_getcpu */
#include "decoder.h"
#include "model.h"
#include "search.h"

#include <stdlib.h>
#if defined(_WIN32)
__declspec(dllimport) void __stdcall Sleep(unsigned long milliseconds); /* windows.h has an INT8 of its own */
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#define DOZE() Sleep(0)
#elif defined(__wasm__)
#define DOZE() (void)0
#else
#include <sched.h>
#include <time.h>
#define DOZE() nanosleep(&(struct timespec){0, 20000}, NULL)
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define SPIN() _mm_pause()
#elif defined(__aarch64__) && defined(__GNUC__)
#define SPIN() __asm__ volatile("isb" ::: "memory")
#else
#define SPIN() (void)0
#endif

#define FEED_FORWARD_ROWS 64
#if defined(__wasm__)
#define REMEMBERED 0 /* a page has a worker for each text */
#else
#define REMEMBERED 1024 /* tokens: with 3 KB each, the third cache has room for them */
#endif
#define SPINS 4096        /* before a thread that waits sleeps: 50 to 200 microseconds */
#define MIN_SHARED 131072 /* weights of a product that is worth dividing */

static int reserve(void **buffer, size_t bytes) {
    free_aligned(*buffer);
    *buffer = allocate_aligned(bytes);
    return *buffer != NULL;
}

/* Allocates space for `rows` rows, `positions` keys, and logits of `logits_width` for `logits_rows` rows. */
static int make_room(Worker *w, int rows, int positions) {
    const Model *m = w->model;
    size_t n = rows, widest = m->width > m->attention_width ? m->width : m->attention_width;
    size_t ff = m->ff_width * (m->config.activation == SWIGLU ? 2 : 1);
    widest = widest > (size_t)m->ff_width ? widest : (size_t)m->ff_width;
    int fits = 1;
    if (rows > w->capacity) {
        w->rows.stride = widest + 32; /* rows that are a power of two apart would compete for the same cache lines */
        fits = reserve((void **)&w->states, n * m->width * 4) && reserve((void **)&w->normal, n * m->width * 4) &&
               reserve((void **)&w->heads, n * 3 * m->attention_width * 4) &&
               reserve((void **)&w->context, n * m->attention_width * 4) &&
               reserve((void **)&w->hidden, FEED_FORWARD_ROWS * ff * 4) &&
               reserve(&w->quantized, n * w->rows.stride * sizeof(INPUT) + 64) && reserve((void **)&w->rows.scale, n * 4) &&
               reserve((void **)&w->rows.correction, n * 4) && reserve((void **)&w->tokens, n * sizeof(int));
        w->capacity = fits ? rows : 0;
    }
    if (fits && positions > w->score_capacity) {
        size_t scores = (ROUND_UP((size_t)positions, BLOCK) + LANES) * m->config.num_heads * MOST_ATTENDED;
        fits = reserve((void **)&w->scores, scores * 4);
        w->score_capacity = fits ? positions : 0;
    }
    return fits;
}

static void remember_heads(const Model *m, int vocab_size, TokenHeads *known) {
    known->places = REMEMBERED && m->cosine ? calloc(vocab_size, sizeof *known->places) : NULL;
    if (known->places) known->heads = allocate_aligned((size_t)REMEMBERED * 3 * m->attention_width * sizeof(float));
}

Worker *new_worker(const Model *model) {
    Worker *w = calloc(1, sizeof *w);
    if (w) {
        w->model = model;
        w->number_bytes = model->config.precision == INT8 ? 2 : 4;
        remember_heads(model, model->config.src_vocab_size, &w->src_heads);
        remember_heads(model, model->config.tgt_vocab_size, &w->tgt_heads);
        w->block_bytes = (size_t)model->config.decoder_layers * 2 * BLOCK * model->attention_width * w->number_bytes;
    }
    return w;
}

void free_worker(Worker *w) {
    void *buffers[] = {w->states, w->normal, w->heads, w->context, w->hidden, w->quantized, w->rows.scale,
                       w->rows.correction, w->scores, w->logits, w->encoder_blocks, w->src_heads.heads, w->tgt_heads.heads,
                       w->tokens};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free_aligned(buffers[i]);
    while (w->free_blocks) {
        Block *block = w->free_blocks;
        w->free_blocks = block->next;
        free_aligned(block);
    }
    free(w->src_heads.places);
    free(w->tgt_heads.places);
    free(w->active);
    free(w->sentences);
    free(w);
}

/* Sets rows of `states` [rows][width] as the input of the next matrix product. */
static const Rows *as_input(Worker *w, const float *states, int rows, int width) {
    if (w->model->config.precision == INT8) {
        w->rows.numbers = w->quantized;
        w->model->kernel->quantize(states, rows, width, &w->rows);
        return &w->rows;
    }
    w->fp32_rows = (Rows){(void *)states, NULL, NULL, ROUND_UP(width, LANES)};
    return &w->fp32_rows;
}

/* ---- A second thread, which computes half of each large product while one source is translated ---- */

enum { NOTHING, OFFERED, TAKEN, WITHDRAWN };

/* Changes the state of an offer if it is `from`; returns whether it was. */
static int change(Offer *o, int from, int to) {
#if defined(_MSC_VER) && !defined(__clang__)
    return _InterlockedCompareExchange((volatile long *)&o->state, to, from) == from;
#else
    return __atomic_compare_exchange_n(&o->state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}

/* Waits a little: at first without giving up the core, because products follow within microseconds. */
static void bide(int waited) {
    if (waited < SPINS) SPIN();
    else DOZE();
}

#if defined(__linux__)
int core_of_this_thread(void) { return sched_getcpu(); }

/* Lets this thread run on the allowed cores without `core`; returns whether there are others. Linux wakes a thread on the
 * core of the one that woke it, and would move it too late: a search takes milliseconds. */
static int leave_core(int core, cpu_set_t *allowed) {
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof *allowed, allowed)) return 0;
    cpu_set_t others = *allowed;
    CPU_CLR(core, &others);
    return CPU_COUNT(&others) && !sched_setaffinity(0, sizeof others, &others);
}
#else
int core_of_this_thread(void) { return -1; }
#endif

void help(Offer *o) {
#if defined(__linux__)
    cpu_set_t allowed;
    int has_left = leave_core(o->core, &allowed);
#endif
    for (int waited = 0; o->state != WITHDRAWN; bide(waited++))
        if (o->state == OFFERED && change(o, OFFERED, TAKEN)) {
            size_t outputs = o->linear->outputs;
            o->kernel->product(o->in, o->rows, o->linear, o->first, outputs / LANES, o->epilogue, o->out, outputs);
            change(o, TAKEN, NOTHING);
            waited = 0;
        }
#if defined(__linux__)
    if (has_left) sched_setaffinity(0, sizeof allowed, &allowed);
#endif
}

void withdraw(Offer *o) { change(o, NOTHING, WITHDRAWN); }

void multiply(Worker *w, const Rows *in, int rows, const Linear *linear, Epilogue epilogue, float *out) {
    Offer *o = w->offer;
    const size_t outputs = linear->outputs, size = linear->inputs * outputs;
    const int last = linear->outputs / LANES;
    int first = last; /* of the panels that are offered */
    if (o && o->state == NOTHING && size >= MIN_SHARED) {
        first = last / 8 * 4; /* four in a tile */
        o->kernel = w->model->kernel, o->in = in, o->linear = linear, o->rows = rows, o->first = first;
        o->epilogue = epilogue, o->out = out + first * LANES;
        if (change(o, NOTHING, OFFERED)) w->num_offered++;
        else first = last;
    }
    w->model->kernel->product(in, rows, linear, 0, first, epilogue, out, outputs);
    if (first == last) return;
    if (change(o, OFFERED, NOTHING)) { /* nobody came */
        w->model->kernel->product(in, rows, linear, first, last, epilogue, out + first * LANES, outputs);
        return;
    }
    w->num_taken++;
    int waited = 0, patience = SPINS + (int)(size * rows / 256);
    for (; o->state != NOTHING; waited++) bide(waited < patience ? 0 : waited);
    if (!change(o, NOTHING, NOTHING) || waited < patience) return;
    withdraw(o); /* the other thread has no core of its own, so this search goes on without it */
    w->offer = NULL;
}

static void normalize(Worker *w, const float *states, int rows, const Norm *norm, float *out) {
    const Model *m = w->model;
    m->kernel->normalize(states, rows, m->config.d_model, norm->gain, norm->bias, norm->bias ? 1e-5f : 1e-6f, out);
}

/* The input of a sublayer: the norm of the states (pre-norm), or the states themselves (post-norm). */
static const Rows *enter(Worker *w, const float *states, int rows, const Norm *norm) {
    const Model *m = w->model;
    if (m->config.post_norm) return as_input(w, states, rows, m->config.d_model);
    normalize(w, states, rows, norm, w->normal);
    return as_input(w, w->normal, rows, m->config.d_model);
}

/* states += the sublayer's output, W x; then the norm, if it comes after. */
static void leave(Worker *w, const float *x, int rows, int width, const Linear *linear, const Norm *norm,
                  float *states) {
    multiply(w, as_input(w, x, rows, width), rows, linear, ADD, states);
    if (w->model->config.post_norm) normalize(w, states, rows, norm, states);
}

static void feed_forward(Worker *w, const FeedForward *ff, float *states, int num_rows) {
    const Model *m = w->model;
    Activation activation = (Activation)m->config.activation;
    for (int first = 0; first < num_rows; first += FEED_FORWARD_ROWS) {
        int rows = num_rows - first < FEED_FORWARD_ROWS ? num_rows - first : FEED_FORWARD_ROWS;
        float *x = states + (size_t)first * m->width;
        multiply(w, enter(w, x, rows, &ff->norm), rows, &ff->input, activation == RELU ? STORE_RELU : STORE, w->hidden);
        if (activation != RELU) m->kernel->activate(activation, w->hidden, rows, ff->input.outputs);
        leave(w, w->hidden, rows, m->ff_width, &ff->output, &ff->norm, x);
    }
}

/* The RMS norm of each of the heads [heads][K16], in place, if the attention has such norms. */
static void normalize_heads(const Model *m, float *heads, const float *gain) {
    if (gain) m->kernel->normalize(heads, m->config.num_heads, m->head_size, gain, NULL, 1e-6f, heads);
}

/* Normalizes the query and key of `heads` [query, key, value], and rotates them for rotary positions. */
static void place(const Model *m, const Attention *attention, float *heads, int position) {
    normalize_heads(m, heads, attention->query_gain);
    normalize_heads(m, heads + m->attention_width, attention->key_gain);
    if (!m->cosine) return;
    size_t at = (size_t)position * (m->head_size / 2);
    for (int part = 0; part < 2; part++)
        m->kernel->rotate(heads + part * m->attention_width, m->config.num_heads, m->head_size, m->cosine + at, m->sine + at);
}

/* Writes the key and value of a position, A numbers each, to its block at `offset`. */
static void put_key_value(const Worker *w, const float *key, const float *value, void *block, size_t offset, int place) {
    w->model->kernel->put(key, value, block, offset, w->model->attention_width, place, w->number_bytes == 2);
}

static void embed(const Model *m, const float *table, int id, const float *positions, int position, float *out) {
    float scale = sqrtf((float)m->config.d_model);
    m->kernel->embed(table + (size_t)id * m->width, scale, positions ? positions + (size_t)position * m->width : NULL,
                     m->width, (Precision)m->config.precision, out);
}

/* The [query, key, value] of `rows` states, in w->heads. known: those of tokens, in a first layer; NULL in others. */
static void project_heads(Worker *w, TokenHeads *known, const Attention *attention, const float *states, int rows) {
    const size_t width = w->model->width, each = 3 * w->model->attention_width, bytes = each * sizeof(float);
    if (!REMEMBERED || !known || !known->heads) {
        multiply(w, enter(w, states, rows, &attention->norm), rows, &attention->input, STORE, w->heads);
        return;
    }
    const int before = known->count;
    int missing = 0;
    for (int row = 0; row < rows; row++)
        if (!known->places[w->tokens[row]])
            memcpy(w->context + missing++ * width, states + row * width, width * sizeof(float));
    if (missing)
        multiply(w, enter(w, w->context, missing, &attention->norm), missing, &attention->input, STORE, w->heads);
    for (int row = rows - 1; row >= 0; row--) { /* from the last one on: those computed are moved to later rows */
        uint16_t *entry = &known->places[w->tokens[row]];
        float *heads = w->heads + row * each;
        if (*entry && *entry <= before) {
            memcpy(heads, known->heads + (*entry - 1) * each, bytes);
            continue;
        }
        memmove(heads, w->heads + --missing * each, bytes);
        if (*entry || known->count == REMEMBERED) continue;
        memcpy(known->heads + known->count * each, heads, bytes);
        *entry = (uint16_t)++known->count;
    }
}

/* Blocks for the keys and values of one encoder layer and one sentence at a time. */
static int reserve_encoder_blocks(Worker *w, int num_blocks) {
    if (num_blocks <= w->num_encoder_blocks) return 1;
    size_t bytes = (size_t)2 * BLOCK * w->model->attention_width * w->number_bytes;
    size_t header = ROUND_UP(num_blocks * sizeof(void *), 64);
    w->num_encoder_blocks = 0;
    if (!reserve(&w->encoder_blocks, header + num_blocks * bytes)) return 0;
    void **blocks = w->encoder_blocks;
    for (int i = 0; i < num_blocks; i++) blocks[i] = (char *)w->encoder_blocks + header + i * bytes;
    memset(blocks[0], 0, num_blocks * bytes); /* slots without a key are read but not used */
    w->num_encoder_blocks = num_blocks;
    return 1;
}

static void encoder_attention(Worker *w, int layer, float *states, Sentence *const *sentences, int count, int rows) {
    const Model *m = w->model;
    const Attention *attention = &m->encoder[layer].self;
    size_t width = m->attention_width;
    void *const *blocks = w->encoder_blocks;
    project_heads(w, layer ? NULL : &w->src_heads, attention, states, rows);
    for (int i = 0, row = 0; i < count; row += sentences[i]->src_len, i++) {
        int length = sentences[i]->src_len;
        float *heads = w->heads + row * 3 * width;
        for (int position = 0; position < length; position++) {
            float *at = heads + position * 3 * width;
            place(m, attention, at, position);
            put_key_value(w, at + width, at + 2 * width, blocks[position / BLOCK], 0, position % BLOCK);
        }
        m->kernel->attend(heads, 3 * width, length, blocks, 0, length, m->config.num_heads, m->head_size, w->scores,
                          w->context + row * width, NULL, w->number_bytes == 2);
    }
    leave(w, w->context, rows, m->attention_width, &attention->output, &attention->norm, states);
}

/* Projects the encoder's output to the keys and values of each decoder layer, and stores them with each sentence. */
static void project_memory(Worker *w, const float *memory, Sentence *const *sentences, int count, int rows) {
    const Model *m = w->model;
    size_t width = m->attention_width;
    const Rows *input = as_input(w, memory, rows, m->config.d_model);
    for (int layer = 0; layer < m->config.decoder_layers; layer++) {
        multiply(w, input, rows, &m->decoder[layer].cross.key_value, STORE, w->heads);
        float *key_value = w->heads;
        for (int i = 0; i < count; i++)
            for (int position = 0; position < sentences[i]->src_len; position++, key_value += 2 * width) {
                void *block = sentences[i]->memory[position / BLOCK];
                normalize_heads(m, key_value, m->decoder[layer].cross.key_gain);
                put_key_value(w, key_value, key_value + width, block, layer * 2 * BLOCK * width, position % BLOCK);
            }
    }
}

Status encode(Worker *w, Sentence *const *sentences, int count, const Job *job) {
    const Model *m = w->model;
    int rows = 0, longest = 0;
    for (int i = 0; i < count; i++) {
        rows += sentences[i]->src_len;
        longest = sentences[i]->src_len > longest ? sentences[i]->src_len : longest;
    }
    if (!make_room(w, rows, longest) || !reserve_encoder_blocks(w, (longest + BLOCK - 1) / BLOCK)) return OUT_OF_MEMORY;
    float *state = w->states;
    int *token = w->tokens;
    for (int i = 0; i < count; i++)
        for (int position = 0; position < sentences[i]->src_len; position++, state += m->width) {
            *token = job->sources[sentences[i]->source][position];
            embed(m, m->src_embedding, *token++, m->src_positions, position, state);
        }
    for (int layer = 0; layer < m->config.encoder_layers; layer++) {
        encoder_attention(w, layer, w->states, sentences, count, rows);
        feed_forward(w, &m->encoder[layer].feed_forward, w->states, rows);
    }
    const float *memory = w->states;
    if (m->encoder_norm.gain) {
        normalize(w, w->states, rows, &m->encoder_norm, w->normal);
        memory = w->normal;
    }
    project_memory(w, memory, sentences, count, rows);
    return DONE;
}

static void decoder_self_attention(Worker *w, int layer, float *states) {
    const Model *m = w->model;
    const Attention *attention = &m->decoder[layer].self;
    size_t width = m->attention_width, offset = (size_t)layer * 2 * BLOCK * width;
    int rows = w->num_active;
    project_heads(w, layer ? NULL : &w->tgt_heads, attention, states, rows);
    for (int row = 0; row < rows; row++) { /* all keys first: loading right after a store would stall */
        Row *hypothesis = w->active[row];
        float *heads = w->heads + row * 3 * width;
        place(m, attention, heads, hypothesis->length);
        put_key_value(w, heads + width, heads + 2 * width, hypothesis->numbers[hypothesis->length / BLOCK], offset,
                      hypothesis->length % BLOCK);
    }
    for (int row = 0; row < rows; row++) {
        Row *hypothesis = w->active[row];
        m->kernel->attend(w->heads + row * 3 * width, 0, 1, hypothesis->numbers, offset, hypothesis->length + 1,
                          m->config.num_heads, m->head_size, w->scores, w->context + row * width, NULL,
                          w->number_bytes == 2);
    }
    leave(w, w->context, rows, m->attention_width, &attention->output, &attention->norm, states);
}

static void decoder_cross_attention(Worker *w, int layer, float *states, const Options *options) {
    const Model *m = w->model;
    const Attention *attention = &m->decoder[layer].cross;
    size_t width = m->attention_width, offset = (size_t)layer * 2 * BLOCK * width;
    int rows = w->num_active, keep = layer == options->attention_layer;
    multiply(w, enter(w, states, rows, &attention->norm), rows, &attention->input, STORE, w->heads);
    for (int row = 0; row < rows; row++) {
        const Sentence *sentence = w->active[row]->sentence;
        normalize_heads(m, w->heads + row * width, attention->query_gain);
        m->kernel->attend(w->heads + row * width, 0, 1, sentence->memory, offset, sentence->src_len, m->config.num_heads,
                          m->head_size, w->scores, w->context + row * width, keep ? sentence->weights : NULL,
                          w->number_bytes == 2);
        if (keep) keep_attention(sentence, w->active[row]->length, m->config.num_heads, options->attention_head);
    }
    leave(w, w->context, rows, m->attention_width, &attention->output, &attention->norm, states);
}

/* Runs one step of all active rows; returns the input of the output layer. */
const Rows *decode_step(Worker *w, const Options *options) {
    const Model *m = w->model;
    for (int row = 0; row < w->num_active; row++) {
        w->tokens[row] = w->active[row]->last;
        embed(m, m->tgt_embedding, w->tokens[row], m->tgt_positions, w->active[row]->length,
              w->states + (size_t)row * m->width);
    }
    for (int layer = 0; layer < m->config.decoder_layers; layer++) {
        decoder_self_attention(w, layer, w->states);
        decoder_cross_attention(w, layer, w->states, options);
        feed_forward(w, &m->decoder[layer].feed_forward, w->states, w->num_active);
    }
    if (!m->decoder_norm.gain) return as_input(w, w->states, w->num_active, m->config.d_model);
    normalize(w, w->states, w->num_active, &m->decoder_norm, w->normal);
    return as_input(w, w->normal, w->num_active, m->config.d_model);
}

int make_room_for_steps(Worker *w, int rows, int positions, size_t logits) {
    if (logits > w->logit_capacity) {
        w->logit_capacity = reserve((void **)&w->logits, logits * sizeof(float)) ? logits : 0;
        if (!w->logit_capacity) return 0;
    }
    return make_room(w, rows, positions);
}
