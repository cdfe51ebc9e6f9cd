/* The outputs that are computed for a source with a lexical shortlist. */
#ifndef NMT_SHORTLIST_H
#define NMT_SHORTLIST_H

#include "decoder.h"

struct Sentence;

/* Lists the outputs of a source, by token id; returns 0 if out of memory. */
int list_outputs(Worker *, const Job *, struct Sentence *);
void release_outputs(struct Sentence *);
/* Writes the logits of each active row's own outputs to w->logits [rows][stride]. */
void compute_listed_logits(Worker *, const Job *, const Rows *input, size_t stride);

#endif
