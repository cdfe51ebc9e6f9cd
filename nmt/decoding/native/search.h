/* Data shared by the search (search.c) and the model's steps (decoder.c): a worker, its sentences and hypotheses. */
#ifndef NMT_SEARCH_H
#define NMT_SEARCH_H

#include "decoder.h"
#include "shortlist.h"

/* Keys and values of 16 positions, of all decoder layers. */
typedef struct Block {
    void *numbers;
    int references; /* number of hypotheses that use it */
    struct Block *next; /* while it is free */
} Block;

struct Sentence;

/* A way to write a term. */
typedef struct {
    int term, length;
    const int *ids;
} Form;

/* A hypothesis that is being decoded. */
typedef struct {
    struct Sentence *sentence;
    int length;       /* tokens so far, without bos */
    int last;         /* the last of them, or bos */
    int *ids;         /* [limit] */
    float *scores;    /* [limit]: log-probability of each */
    float score;      /* their sum */
    Block **blocks;   /* [limit / 16], num_blocks of them in use */
    void **numbers;   /* their contents */
    int num_blocks;
    unsigned met;     /* bits of the terms that it contains */
    int form, matched; /* the form of a term that it ends with, and how many of its tokens; 0 of them: none */
    int sample;       /* its index among the samples */
    int running;
} Row;

/* A source that is being translated. */
typedef struct Sentence {
    int source, src_len, limit;
    void **memory;    /* [src_len / 16] blocks of keys and values of the source */
    float *weights;   /* scratch [heads][src_len], if attention is kept */
    float *attention; /* [limit][src_len], or NULL */
    Row *rows, *spare; /* [num_rows]; the next generation of a beam is built in the other one */
    int num_rows, num_running;
    int greedy, is_apart; /* the row of a beam that greedy search would be at, or -1; whether it has left the beam */
    Row *ahead;       /* [MAX_AHEAD]: the row's continuations by its draft; NULL without a draft */
    int num_ahead, ahead_limit; /* in this step; how many are worth trying */
    int draft_at;     /* the token of the draft that is expected next */
    Output *ended;    /* ended hypotheses of a beam */
    int num_ended, ended_capacity;
    void *memory_storage;
    Form *forms;      /* [num_forms]: of the terms that the output must contain */
    int num_forms, num_terms;
    int needed[MAX_TERMS + 1]; /* tokens of the shortest form of each term, and of all terms */
    int *outputs;     /* [num_outputs]: the tokens of its shortlist, by id; NULL without one */
    int num_outputs;
    Linear output;    /* FP32: the layer of these outputs */
} Sentence;

/* The [query, key, value] of tokens in a first layer. With rotary positions, they depend on the token alone. */
typedef struct {
    float *heads;     /* [REMEMBERED][3A], those of the first tokens that came; NULL: none are remembered */
    uint16_t *places; /* [vocabulary]: 1 + the token's index among them, or 0 */
    int count;
} TokenHeads;

struct Worker {
    const Model *model;
    float *states, *normal, *heads, *context, *hidden, *scores, *logits;
    void *quantized, *encoder_blocks;
    TokenHeads src_heads, tgt_heads;
    int *tokens; /* of the rows of a first layer */
    Rows rows, fp32_rows;
    int capacity, score_capacity, num_encoder_blocks;
    size_t logit_capacity, block_bytes;
    int number_bytes; /* of a key or value: 2 in bfloat16, with int8 weights; 4 in fp32 */
    Block *free_blocks;
    Sentence **sentences;
    int num_sentences;
    Row **active;
    int num_active;
    Offer *offer; /* of the job, while a second thread helps; or NULL */
    int num_offered, num_taken; /* products, in this search */
};

/* In decoder.c. */
Status encode(Worker *, Sentence *const *sentences, int count, const Job *);
const Rows *decode_step(Worker *, const Options *);
int make_room_for_steps(Worker *, int rows, int positions, size_t logits);
void multiply(Worker *, const Rows *in, int rows, const Linear *, Epilogue, float *out);

/* In search.c. */
void keep_attention(const Sentence *, int position, int num_heads, int head);

#endif
