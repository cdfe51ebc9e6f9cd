/* Lexical shortlists: for each source, compute only the outputs that are candidate translations of its tokens.
 *
 * The rows that a worker decodes side by side belong to different sources, so each has its own list. In int8, each row is
 * multiplied with the listed rows of a second copy of the output weights, which is not in panels: nothing is gathered,
 * and rows that many sources list stay in the cache. In fp32, each source gathers its own panels, because sums must add
 * their products in the same order as with panels.
 */
#include "shortlist.h"

#include "model.h"
#include "search.h"

#include <stdlib.h>

/* ---- The shortlist ---- */

/* Copies output `n` of packed weights, which consists of `width` bytes every LANES x width bytes, to `to`. */
static void copy_output(const Linear *linear, int n, size_t width, char *to, size_t to_step) {
    size_t bytes = linear->inputs * (linear->precision == INT8 ? 1 : sizeof(float));
    const char *from = (const char *)linear->panels + (size_t)(n / LANES) * bytes * LANES + n % LANES * width;
    for (size_t i = 0; i < bytes; i += width, from += LANES * width, to += to_step) memcpy(to, from, width);
}

int add_rows(Shortlist *shortlist, const Model *model) {
    const Linear *linear = &model->output;
    size_t stride = ROUND_UP((size_t)linear->inputs, 64);
    shortlist->model = model;
    if (linear->precision != INT8) return 1;
    shortlist->rows = allocate_aligned(linear->outputs * stride);
    if (!shortlist->rows) return 0;
    memset(shortlist->rows, 0, linear->outputs * stride);
    for (int n = 0; n < linear->outputs; n++)
        copy_output(linear, n, model->kernel->group, (char *)shortlist->rows + n * stride, model->kernel->group);
    return 1;
}

void free_rows(Shortlist *shortlist) { free_aligned(shortlist->rows); }

/* ---- The list of a source ---- */

static void mark(unsigned char *marked, const int *tokens, int count) {
    for (int i = 0; i < count; i++) marked[tokens[i]] = 1;
}

/* Marks the candidate tokens of a source, eos, and the tokens of the prefix, which may be any. */
static void mark_outputs(unsigned char *marked, const Job *job, int source) {
    const Shortlist *shortlist = job->shortlist;
    marked[EOS_ID] = 1;
    mark(marked, shortlist->always, shortlist->num_always);
    mark(marked, job->prefixes[source], job->prefix_lens[source]);
    for (int i = 0; i < job->src_lens[source] - 1; i++) { /* without eos */
        int token = job->sources[source][i], first = shortlist->starts[token];
        mark(marked, shortlist->candidates + first, shortlist->starts[token + 1] - first);
    }
}

/* Writes the marked tokens to `outputs` in order and returns their number; if `outputs` is NULL, only counts them. */
static int collect_marked(const unsigned char *marked, int vocabulary, int *outputs) {
    int count = 0;
    for (int start = 0; start < vocabulary; start += 8) {
        uint64_t eight;
        memcpy(&eight, marked + start, 8);
        for (int i = start; eight && i < start + 8; i++)
            if (marked[i]) {
                if (outputs) outputs[count] = i;
                count++;
            }
    }
    return count;
}

/* Packs the outputs of a source as a separate layer. */
static int gather_panels(const Model *model, Sentence *s) {
    const Linear *all = &model->output;
    Linear *own = &s->output;
    int outputs = ROUND_UP(s->num_outputs, LANES);
    *own = *all;
    own->outputs = outputs;
    own->bias = NULL;
    own->panels = allocate_aligned((size_t)outputs * all->inputs * sizeof(float));
    if (own->panels) own->bias = allocate_aligned(outputs * sizeof(float));
    if (!own->bias) return 0;
    memset(own->panels, 0, (size_t)outputs * all->inputs * sizeof(float));
    for (int i = 0; i < outputs; i++) {
        char *to = (char *)own->panels + ((size_t)(i / LANES) * all->inputs * LANES + i % LANES) * sizeof(float);
        if (i < s->num_outputs) copy_output(all, s->outputs[i], sizeof(float), to, LANES * sizeof(float));
        own->bias[i] = i < s->num_outputs ? all->bias[s->outputs[i]] : 0.0f;
    }
    return 1;
}

int list_outputs(Worker *w, const Job *job, Sentence *s) {
    int vocabulary = w->model->output.outputs; /* a multiple of 16 */
    unsigned char *marked = calloc(vocabulary, 1);
    if (!marked) return 0;
    mark_outputs(marked, job, s->source);
    s->num_outputs = collect_marked(marked, vocabulary, NULL);
    s->outputs = malloc(s->num_outputs * sizeof(int));
    if (s->outputs) collect_marked(marked, vocabulary, s->outputs);
    free(marked);
    return s->outputs && (w->model->output.precision == INT8 || gather_panels(w->model, s));
}

void release_outputs(Sentence *s) {
    free(s->outputs);
    free_aligned(s->output.panels);
    free_aligned(s->output.bias);
}

/* ---- Logits ---- */

void compute_listed_logits(Worker *w, const Job *job, const Rows *input, size_t stride) {
    const Model *m = w->model;
    for (int row = 0; row < w->num_active;) {
        const Sentence *s = w->active[row]->sentence;
        int count = 1; /* rows of this source, which share one list */
        while (row + count < w->num_active && w->active[row + count]->sentence == s) count++;
        float *logits = w->logits + row * stride;
        if (m->output.precision == INT8) {
            for (int i = 0; i < count; i++)
                m->kernel->product_listed(input, row + i, &m->output, job->shortlist->rows, s->outputs, s->num_outputs,
                                          logits + i * stride);
        } else {
            Rows own = {(float *)input->numbers + row * input->stride, NULL, NULL, input->stride};
            m->kernel->product(&own, count, &s->output, 0, s->output.outputs / LANES, STORE, logits, stride);
        }
        for (int i = 0; i < count; i++)
            for (int n = s->num_outputs; n < ROUND_UP(s->num_outputs, LANES); n++) logits[i * stride + n] = -INFINITY;
        row += count;
    }
}
