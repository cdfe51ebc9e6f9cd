/* A Transformer encoder-decoder on a CPU: the interface that module.c wraps for Python. */
#ifndef NMT_DECODER_H
#define NMT_DECODER_H

#include "kernel.h"

enum { UNK_ID, PAD_ID, BOS_ID, EOS_ID };

#define MAX_TERMS 32 /* of a source */
#define MAX_FORMS 64 /* of all terms of a source */
#define MAX_TERM_BEAM 64 /* largest beam with terms */

/* The model section of a run's configuration; every number is checked by load_model. */
typedef struct {
    int d_model, num_heads, d_ff, encoder_layers, decoder_layers;
    int src_vocab_size, tgt_vocab_size, max_src_len, max_tgt_len;
    int positions; /* of the enum below */
    int post_norm, rms, activation, precision;
    int qk_norm; /* 1: an RMS norm on the query and key of each head; 2: in self-attention only */
} Config;
enum { SINUSOIDAL, LEARNED, ROTARY };

typedef struct Model Model;

/* Options of a search; see SearchOptions in nmt/config/search.py. */
typedef struct {
    int beam_size, num_hypotheses, sample, min_len, no_repeat_ngram, top_k;
    double temperature, top_p;
    int num_tags;         /* number of tag tokens at the start of each prefix; their score is 0 */
    int with_scores;      /* compute log-probabilities even if the search does not need them */
    int attention_layer;  /* layer whose cross-attention is returned, from 0; -1: none */
    int attention_head;   /* -1: the mean over heads */
} Options;

typedef struct {
    int *ids;             /* with eos, if finished */
    float *token_scores;  /* natural-log probabilities */
    int length;
    float score;          /* their sum, as the search added it up */
    int finished;
} Output;

typedef struct {
    Output *outputs; /* best first in a beam, else in the order of the samples */
    int num_outputs;
    float *attention; /* [length of the output][length of the source], or NULL */
} Result;

/* The candidate target tokens of each source token. */
typedef struct {
    int *starts;          /* [source vocabulary + 1]: where the candidates of each source token begin */
    int *candidates;
    int *always;          /* candidates shared by all sources */
    int num_always;
    const Model *model;
    void *rows;           /* INT8: the weights of the model's outputs, for Kernel.product_listed */
} Shortlist;

/* A product whose last panels a second thread may compute; see `help`. */
typedef struct {
    volatile int state; /* of the enum in decoder.c */
    const Kernel *kernel;
    const Rows *in;
    const Linear *linear;
    int rows, first;    /* panel */
    int core;           /* on which the search began */
    Epilogue epilogue;
    float *out;
} Offer;

/* Sources to be translated, shared by the threads that call run_job. */
typedef struct {
    const Model *model;
    Options options;
    int num_sources;
    int **sources;      /* with eos */
    int *src_lens;
    int **prefixes;     /* forced first tokens */
    int *prefix_lens;
    int **drafts;       /* expected outputs, which greedy search verifies several tokens at a time; or NULL */
    int *draft_lens;
    int **terms;        /* words that an output must contain, as (number of the term, length, ids ...), forms of one term
                         * in a row; or NULL. For beams without a shortlist */
    int *term_lens;     /* ints in each */
    char *boundaries;   /* [vocabulary]: whether a token ends the word before it; with terms */
    int *limits;        /* maximum output length, eos counted */
    double *numbers;    /* sampling: uniform in [0, 1), [num_sources][num_hypotheses][longest limit] */
    int longest_limit;
    double *length_divisors; /* [longest limit + 1]: length^length_penalty */
    float *penalty;     /* [vocabulary rounded up]: -infinity for tokens that are never generated, else 0 */
    const Shortlist *shortlist; /* or NULL: every token may come next */
    int max_rows;       /* hypotheses that a thread decodes side by side */
    Result *results;    /* [num_sources] */
    volatile int next;  /* next source to translate */
    volatile int stop;  /* if set, every thread returns soon */
    int is_helped;      /* a second thread calls `help` while one runs the job; afterwards: whether that computed much */
    Offer offer;
} Job;

typedef struct Worker Worker;

typedef enum { DONE, OUT_OF_MEMORY, STOPPED } Status;

/* How long the arrays of a model exist: until it is loaded; the embeddings (the first two), as long as the model; the
 * same, mapped from a file, so that pages of the others are freed when they have been read. */
typedef enum { UNTIL_LOADED, KEPT, MAPPED } Lifetime;

/* Returns a model made of float arrays, in the order of model.c; on failure NULL, and sets *error. */
Model *load_model(const Config *config, const Kernel *kernel, const float *const *arrays, const size_t *counts,
                  int num_arrays, Lifetime lifetime, const char **error);
void free_model(Model *model);
const Config *model_config(const Model *model);
int padded_vocab_size(const Model *model);

/* Prepares a shortlist with checked tokens for searches with a model; returns 0 if out of memory. */
int add_rows(Shortlist *, const Model *);
void free_rows(Shortlist *);

Worker *new_worker(const Model *model);
void free_worker(Worker *worker);

/* Translates sources of the job until none is left. Calls `poll` regularly; a nonzero result stops all threads. */
Status run_job(Worker *worker, Job *job, int (*poll)(void *), void *context);
void free_result(Result *result);

/* Multiplies what a search offers, until it withdraws the offer for good. */
void help(Offer *offer);
void withdraw(Offer *offer);
int core_of_this_thread(void);

/* Lists the kernels that this processor supports, fastest first; returns their number. */
int list_kernels(const Kernel *out[8]);

#endif
