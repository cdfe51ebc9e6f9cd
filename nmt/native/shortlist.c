/* Lexical shortlists: for each source, only the outputs that its tokens may be translated with are computed.
 *
 * The rows that a worker decodes side by side belong to different sources, so each has a list of its own. The output
 * layer multiplies them all with the union of the lists, in which every output has a column, and each row then picks its
 * own outputs, in the order of their ids: neither the union nor the order of its columns changes a result.
 *
 * A column is filled when the first source needs its output, and is free when no source does. What is in it stays until
 * another output takes its place, so outputs that most sources share are gathered once.
 */
#include "shortlist.h"

#include "model.h"
#include "search.h"

#include <stdlib.h>

/* ---- Columns ---- */

static size_t number_bytes(const Linear *linear) { return linear->precision == INT8 ? 1 : sizeof(float); }

/* The address of output `n` in a panel, whose numbers lie in pieces of `width` bytes, LANES x width bytes apart. */
static char *weights_of(const Linear *linear, int n, size_t width) {
    return (char *)linear->panels + (size_t)(n / LANES) * linear->inputs * LANES * number_bytes(linear) + n % LANES * width;
}

static void copy_pieces(char *to, const char *from, size_t pieces, const size_t width) {
    for (size_t i = 0; i < pieces; i++) memcpy(to + i * LANES * width, from + i * LANES * width, width);
}

static void fill_column(const Model *model, Columns *c, int column, int output) {
    const Linear *all = &model->output;
    size_t width = all->precision == INT8 ? (size_t)model->kernel->group : sizeof(float);
    size_t pieces = all->inputs * number_bytes(all) / width;
    char *to = weights_of(&c->linear, column, width);
    const char *from = weights_of(all, output, width);
    if (width == 4) copy_pieces(to, from, pieces, 4);
    else if (width == 2) copy_pieces(to, from, pieces, 2);
    else copy_pieces(to, from, pieces, 1);
    c->linear.scale[column] = all->scale[output];
    c->linear.bias[column] = all->bias[output];
}

/* A larger copy of `old`, with zeros behind it, or NULL; frees `old` if it succeeds. */
static void *grow(void *old, size_t old_bytes, size_t bytes) {
    char *memory = allocate_aligned(bytes);
    if (!memory) return NULL;
    if (old_bytes) memcpy(memory, old, old_bytes);
    memset(memory + old_bytes, 0, bytes - old_bytes);
    free_aligned(old);
    return memory;
}

static int grow_by(void **buffer, size_t old_count, size_t count, size_t size) {
    void *grown = grow(*buffer, old_count * size, count * size);
    if (grown) *buffer = grown;
    return grown != NULL;
}

static int make_columns(const Model *model, Columns *c) {
    int vocabulary = model->output.outputs;
    if (c->column_of) return 1;
    c->linear = model->output;
    c->linear.outputs = 0;
    c->linear.panels = NULL, c->linear.scale = c->linear.bias = NULL;
    if (!grow_by((void **)&c->marked, 0, ROUND_UP(vocabulary, 8), 1)) return 0;
    if (!grow_by((void **)&c->column_of, 0, vocabulary, sizeof(int))) return 0;
    for (int i = 0; i < vocabulary; i++) c->column_of[i] = -1;
    return 1;
}

static int add_capacity(const Model *model, Columns *c) {
    int old = c->capacity, count = old ? 2 * old : 256;
    if (count > model->output.outputs) count = model->output.outputs; /* both are multiples of 16 */
    size_t panel_bytes = model->output.inputs * number_bytes(&model->output);
    if (!grow_by(&c->linear.panels, old, count, panel_bytes) ||
        !grow_by((void **)&c->linear.scale, old, count, sizeof(float)) ||
        !grow_by((void **)&c->linear.bias, old, count, sizeof(float)) ||
        !grow_by((void **)&c->output_of, old, count, sizeof(int)) || !grow_by((void **)&c->uses, old, count, sizeof(int)))
        return 0;
    c->capacity = c->linear.outputs = count;
    return 1;
}

/* Returns a column that no source needs, or -1 if memory is short. */
static int free_column(const Model *model, Columns *c) {
    if (c->num_used < c->num_columns) {
        while (c->uses[c->next]) c->next = c->next + 1 < c->num_columns ? c->next + 1 : 0;
        c->column_of[c->output_of[c->next]] = -1;
        return c->next;
    }
    if (c->num_columns == c->capacity && !add_capacity(model, c)) return -1;
    return c->num_columns++;
}

/* Returns the column of an output, for one more source, or -1 if memory is short. */
static int take_column(const Model *model, Columns *c, int output) {
    int column = c->column_of[output];
    if (column < 0) {
        column = free_column(model, c);
        if (column < 0) return -1;
        fill_column(model, c, column, output);
        c->column_of[output] = column;
        c->output_of[column] = output;
    }
    c->num_used += !c->uses[column]++;
    return column;
}

static void forget_columns(Columns *c) {
    for (int column = 0; column < c->num_columns; column++) c->column_of[c->output_of[column]] = -1;
    c->num_columns = c->next = 0;
}

void free_columns(Columns *c) {
    void *buffers[] = {c->linear.panels, c->linear.scale, c->linear.bias, c->column_of, c->output_of, c->uses, c->marked,
                       c->products};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free_aligned(buffers[i]);
}

/* ---- The list of a source ---- */

static void mark(Columns *c, const int *tokens, int count) {
    for (int i = 0; i < count; i++) c->marked[tokens[i]] = 1;
}

/* Marks what a source may be translated with, eos, and the prefix, which may hold any token. */
static void mark_outputs(Columns *c, const Job *job, int source) {
    const Shortlist *shortlist = job->shortlist;
    const int eos = EOS_ID;
    mark(c, &eos, 1);
    mark(c, shortlist->always, shortlist->num_always);
    mark(c, job->prefixes[source], job->prefix_lens[source]);
    for (int i = 0; i < job->src_lens[source] - 1; i++) { /* without eos */
        int token = job->sources[source][i], first = shortlist->starts[token];
        mark(c, shortlist->candidates + first, shortlist->starts[token + 1] - first);
    }
}

/* Moves the marks to `outputs`, in order, or only counts them if it is NULL. */
static int collect_marked(Columns *c, int vocabulary, int *outputs) {
    int count = 0;
    for (int start = 0; start < vocabulary; start += 8) {
        uint64_t eight;
        memcpy(&eight, c->marked + start, 8);
        if (!eight) continue;
        for (int i = start; i < start + 8; i++)
            if (c->marked[i]) {
                if (outputs) outputs[count] = i, c->marked[i] = 0;
                count++;
            }
    }
    return count;
}

int list_outputs(Worker *w, const Job *job, Sentence *s) {
    Columns *c = &w->columns;
    const Model *model = w->model;
    if (!make_columns(model, c)) return 0;
    mark_outputs(c, job, s->source);
    int count = collect_marked(c, model->output.outputs, NULL);
    s->outputs = malloc(2 * (size_t)count * sizeof(int));
    if (!s->outputs) {
        memset(c->marked, 0, ROUND_UP(model->output.outputs, 8));
        return 0;
    }
    collect_marked(c, model->output.outputs, s->outputs);
    s->columns = s->outputs + count;
    if (!c->num_used && c->num_columns > 2 * count) forget_columns(c); /* many other sources were there before */
    for (; s->num_outputs < count; s->num_outputs++) {
        s->columns[s->num_outputs] = take_column(model, c, s->outputs[s->num_outputs]);
        if (s->columns[s->num_outputs] < 0) return 0;
    }
    return 1;
}

void release_outputs(Worker *w, Sentence *s) {
    for (int i = 0; i < s->num_outputs; i++) w->columns.num_used -= !--w->columns.uses[s->columns[i]];
    free(s->outputs);
}

/* ---- Logits ---- */

int compute_listed_logits(Worker *w, const Rows *input, size_t stride) {
    Columns *c = &w->columns;
    int panels = (c->num_columns + LANES - 1) / LANES;
    size_t width = (size_t)panels * LANES, needed = w->num_active * width;
    if (needed > c->num_products) {
        free_aligned(c->products);
        c->products = allocate_aligned(needed * sizeof(float));
        c->num_products = c->products ? needed : 0;
        if (!c->products) return 0;
    }
    w->model->kernel->product(input, w->num_active, &c->linear, 0, panels, STORE, c->products, width);
    for (int row = 0; row < w->num_active; row++) {
        const Sentence *s = w->active[row]->sentence;
        const float *from = c->products + row * width;
        float *to = w->logits + row * stride;
        for (int i = 0; i < s->num_outputs; i++) to[i] = from[s->columns[i]];
        for (int i = s->num_outputs; i < ROUND_UP(s->num_outputs, LANES); i++) to[i] = -INFINITY;
    }
    return 1;
}
