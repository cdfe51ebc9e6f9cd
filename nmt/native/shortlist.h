/* The outputs that are computed for a source with a lexical shortlist, and their weights. */
#ifndef NMT_SHORTLIST_H
#define NMT_SHORTLIST_H

#include "decoder.h"

struct Sentence;

/* Outputs that were gathered from the output layer, for the sources that a worker is translating. */
typedef struct {
    Linear linear;         /* of `capacity` outputs: the columns */
    int *column_of;        /* [vocabulary]: the column of an output, or -1 */
    int *output_of;        /* [capacity]: the output in a column */
    int *uses;             /* [capacity]: sources that need the column; 0: another output may take it */
    int capacity, num_columns, num_used, next;
    unsigned char *marked; /* [vocabulary rounded up]: scratch */
    float *products;       /* [rows][columns] */
    size_t num_products;   /* that fit */
} Columns;

/* Lists the outputs of a source, by token id, and gathers their weights; 0 if memory is short. */
int list_outputs(Worker *, const Job *, struct Sentence *);
void release_outputs(Worker *, struct Sentence *);
/* Writes the logits of each active row's own outputs to w->logits [rows][stride]; 0 if memory is short. */
int compute_listed_logits(Worker *, const Rows *input, size_t stride);
void free_columns(Columns *);

#endif
