/* The weights of a model, packed for a kernel. */
#ifndef NMT_MODEL_H
#define NMT_MODEL_H

#include "decoder.h"

typedef struct {
    float *gain, *bias; /* [D16]; bias is NULL in an RMS norm */
} Norm;

/* An attention sublayer. Self-attention projects query, key and value at once; cross-attention only the query. */
typedef struct {
    Linear input;     /* [query, key, value] of A each, or the query */
    Linear key_value; /* cross-attention: of the encoder's output */
    Linear output;
    float *query_gain, *key_gain; /* [K16] of the heads' RMS norms; the query's with 1 / sqrt(K). NULL: no such norms */
    Norm norm;
} Attention;

typedef struct {
    Linear input, output;
    Norm norm;
} FeedForward;

typedef struct {
    Attention self, cross; /* an encoder layer has no cross */
    FeedForward feed_forward;
} Layer;

struct Model {
    Config config;
    const Kernel *kernel;
    int width, head_size, attention_width, ff_width; /* D16; K; A = heads x K16; F16 */
    const float *src_embedding, *tgt_embedding; /* [V][D16]: a copy, or the caller's array */
    float *src_positions, *tgt_positions; /* [max_len][D16], or NULL */
    float *cosine, *sine;                 /* rotary: [max_len][K/2], or NULL */
    Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm;      /* gain is NULL with post-norm, where each layer ends with its own norm */
    Linear output;
    void **allocations;
    size_t num_allocations;
};

void *allocate_aligned(size_t bytes);
void free_aligned(void *memory);

#endif
