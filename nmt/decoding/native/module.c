/* The Python module nmt.decoding.native._decoder, in the stable ABI of Python 3.11, used by nmt/decoding/engines/native_engine.py.
 *
 *   kernels() -> list of str                        the kernels that this processor supports, fastest first
 *   load(kernel, config, arrays, mapped) -> model   config: the numbers of struct Config, in order; arrays: buffers of
 *                                                   float, in the order of model.c; mapped: they are parts of a file
 *   shortlist(model, starts, candidates, always) -> shortlist
 *                                                   starts, candidates, always: buffers of int; see struct Shortlist
 *   translate(model, sources=, prefixes=, limits=, options=, max_rows=, numbers=, divisors=, never_generated=,
 *             shortlist=None, drafts=None, terms=None, is_helped=False, with_scores=True, num_tags=0,
 *             attention_layer=-1, attention_head=-1) -> job
 *                                                   options: an object with the attributes that read_options names;
 *                                                   terms: (lists of int, bytes); is_helped: one thread calls run,
 *                                                   another help; the others: see Options and Job in decoder.h
 *   run(job) -> whether help computed much          may be called by several threads at once; releases the GIL
 *   help(job)                                       computes half of the products of a job until it is done
 *   results(job) -> list of (outputs, attention)
 *
 * This file checks everything before the decoder sees it: ids, lengths, shapes, options.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "decoder.h"

#include <stdlib.h>

#define MODEL_NAME "nmt.decoding.native.model"
#define JOB_NAME "nmt.decoding.native.job"
#define SHORTLIST_NAME "nmt.decoding.native.shortlist"
#define MAX_WORKERS 64

/* A model, the arrays that it refers to, its idle workers and the number of others, protected by the GIL. */
typedef struct {
    Model *model;
    Py_buffer embeddings[2];
    Worker *idle[MAX_WORKERS];
    int num_idle, num_running;
} SharedModel;

/* A job with its model and shortlist. */
typedef struct {
    Job job;
    SharedModel *shared;
    PyObject *model_capsule, *shortlist;
} PyJob;

/* Objects from which `translate` fills a job. */
typedef struct {
    PyObject *sources, *prefixes, *limits, *numbers, *divisors, *never_generated, *shortlist, *drafts, *terms;
} Given;

static PyObject *fail(PyObject *type, const char *message) {
    if (!PyErr_Occurred()) PyErr_SetString(type, message);
    return NULL;
}

static PyObject *kernels(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    const Kernel *found[8];
    int count = list_kernels(found);
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < count; i++) {
        PyObject *name = PyUnicode_FromString(found[i]->name);
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static void free_shared(PyObject *capsule) {
    SharedModel *shared = PyCapsule_GetPointer(capsule, MODEL_NAME);
    for (int i = 0; i < shared->num_idle; i++) free_worker(shared->idle[i]);
    free_model(shared->model);
    for (int i = 0; i < 2; i++) PyBuffer_Release(&shared->embeddings[i]);
    free(shared);
}

/* Reads the ints of a sequence; returns -1 with an exception unless there are `count`. */
static int read_ints(PyObject *sequence, int count, int *out) {
    if (PySequence_Size(sequence) != count) return fail(PyExc_ValueError, "a sequence has another length"), -1;
    for (int i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        int overflow = 0; /* a long has 32 bits on Windows */
        long value = item ? PyLong_AsLongAndOverflow(item, &overflow) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return -1;
        if (overflow || value < -1 || value > INT32_MAX) return fail(PyExc_ValueError, "a number is out of range"), -1;
        out[i] = (int)value;
    }
    return 0;
}

static PyObject *load(PyObject *self, PyObject *args) {
    (void)self;
    const char *kernel_name, *error = "there is no such kernel on this processor";
    PyObject *numbers, *arrays;
    int mapped;
    if (!PyArg_ParseTuple(args, "sOOp", &kernel_name, &numbers, &arrays, &mapped)) return NULL;
    Config config;
    if (read_ints(numbers, sizeof config / sizeof(int), (int *)&config)) return NULL;
    const Kernel *found[8], *kernel = NULL;
    for (int i = list_kernels(found) - 1; i >= 0; i--)
        if (!strcmp(found[i]->name, kernel_name)) kernel = found[i];
    Py_ssize_t count = PySequence_Size(arrays);
    if (!kernel || count < 0) return fail(PyExc_ValueError, error);
    Py_buffer *views = calloc(count + 1, sizeof *views);
    const float **pointers = calloc(count + 1, sizeof *pointers);
    size_t *counts = calloc(count + 1, sizeof *counts);
    SharedModel *shared = calloc(1, sizeof *shared);
    int taken = 0;
    for (; views && pointers && counts && shared && taken < count; taken++) {
        PyObject *array = PySequence_GetItem(arrays, taken);
        int fault = !array || PyObject_GetBuffer(array, &views[taken], PyBUF_SIMPLE);
        Py_XDECREF(array);
        if (fault) break;
        pointers[taken] = views[taken].buf;
        counts[taken] = (size_t)views[taken].len / sizeof(float);
    }
    error = "out of memory";
    int is_aligned = 1;
    for (int i = 0; i < taken; i++) is_aligned = is_aligned && (uintptr_t)pointers[i] % sizeof(float) == 0;
    if (!is_aligned) error = "an array does not begin at a multiple of 4 bytes";
    if (is_aligned && taken == count && shared) {
        Py_BEGIN_ALLOW_THREADS
        shared->model = load_model(&config, kernel, pointers, counts, (int)count, mapped ? MAPPED : KEPT, &error);
        Py_END_ALLOW_THREADS
    }
    int first = 0; /* that the model does not refer to */
    for (; shared && shared->model && first < 2; first++) shared->embeddings[first] = views[first];
    for (int i = first; i < taken; i++) PyBuffer_Release(&views[i]);
    free(views), free(pointers), free(counts);
    PyObject *capsule = shared && shared->model ? PyCapsule_New(shared, MODEL_NAME, free_shared) : NULL;
    if (!capsule) {
        if (shared && shared->model) free_model(shared->model);
        for (int i = 0; i < first; i++) PyBuffer_Release(&shared->embeddings[i]);
        free(shared);
        return fail(strcmp(error, "out of memory") ? PyExc_ValueError : PyExc_MemoryError, error);
    }
    return capsule;
}

static void free_shortlist(PyObject *capsule) {
    Shortlist *shortlist = PyCapsule_GetPointer(capsule, SHORTLIST_NAME);
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
    free_rows(shortlist);
    free(shortlist->starts), free(shortlist->candidates), free(shortlist->always);
    free(shortlist);
}

/* Returns a copy of the ints in a buffer, and their number; NULL with an exception if it is not a buffer of ints. */
static int *copy_ints(PyObject *object, int *count) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE)) return NULL;
    int *out = NULL;
    if (view.len % sizeof(int) || (size_t)view.len / sizeof(int) > INT32_MAX)
        fail(PyExc_ValueError, "a buffer has another size");
    else if ((out = malloc(view.len + 1)))
        memcpy(out, view.buf, view.len), *count = (int)((size_t)view.len / sizeof(int));
    else
        PyErr_NoMemory();
    PyBuffer_Release(&view);
    return out;
}

static int are_within(const int *ids, int count, int vocabulary) {
    for (int i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary) return 0;
    return 1;
}

/* Fills a shortlist from buffers; returns -1 with an exception unless they contain tokens of the model. */
static int fill_shortlist(Shortlist *list, const Model *model, PyObject *starts, PyObject *candidates, PyObject *always) {
    const Config *config = model_config(model);
    int num_starts = 0, num_candidates = 0;
    if (!(list->starts = copy_ints(starts, &num_starts)) || !(list->candidates = copy_ints(candidates, &num_candidates)) ||
        !(list->always = copy_ints(always, &list->num_always)))
        return -1;
    int is_sound = num_starts - 1 == config->src_vocab_size && list->starts[0] == 0 &&
                   list->starts[num_starts - 1] == num_candidates &&
                   are_within(list->candidates, num_candidates, config->tgt_vocab_size) &&
                   are_within(list->always, list->num_always, config->tgt_vocab_size);
    for (int i = 1; is_sound && i < num_starts; i++) is_sound = list->starts[i - 1] <= list->starts[i];
    if (!is_sound) return fail(PyExc_ValueError, "the candidates are not those of the model's vocabularies"), -1;
    return add_rows(list, model) ? 0 : (PyErr_NoMemory(), -1);
}

static PyObject *shortlist(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *model, *starts, *candidates, *always;
    if (!PyArg_ParseTuple(args, "OOOO", &model, &starts, &candidates, &always)) return NULL;
    SharedModel *shared = PyCapsule_GetPointer(model, MODEL_NAME);
    if (!shared) return NULL;
    Shortlist *list = calloc(1, sizeof *list);
    if (!list) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(list, SHORTLIST_NAME, free_shortlist);
    if (!capsule) return free(list), NULL;
    Py_INCREF(model); /* its address identifies the model of the shortlist */
    if (PyCapsule_SetContext(capsule, model) || fill_shortlist(list, shared->model, starts, candidates, always))
        Py_CLEAR(capsule);
    return capsule;
}

static void free_job(PyObject *capsule) {
    PyJob *py = PyCapsule_GetPointer(capsule, JOB_NAME);
    Job *job = &py->job;
    for (int i = 0; i < job->num_sources; i++) {
        if (job->sources) free(job->sources[i]);
        if (job->prefixes) free(job->prefixes[i]);
        if (job->drafts) free(job->drafts[i]);
        if (job->terms) free(job->terms[i]);
        if (job->results) free_result(&job->results[i]);
    }
    free(job->sources), free(job->prefixes), free(job->src_lens), free(job->prefix_lens), free(job->limits);
    free(job->drafts), free(job->draft_lens), free(job->terms), free(job->term_lens), free(job->boundaries);
    free(job->results), free(job->numbers), free(job->length_divisors), free(job->penalty);
    Py_XDECREF(py->model_capsule);
    Py_XDECREF(py->shortlist);
    free(py);
}

/* Reads lists of `min` to `max` token ids below `vocabulary`; returns 0 if all are valid. */
static int read_lists(PyObject *lists, int count, int vocabulary, int min, int max, int **out, int *lengths) {
    if (PySequence_Size(lists) != count) return fail(PyExc_ValueError, "there are not as many lists as sources"), -1;
    for (int i = 0; i < count; i++) {
        PyObject *list = PySequence_GetItem(lists, i);
        Py_ssize_t length = list ? PySequence_Size(list) : -1;
        int fault = length < min || length > max;
        if (fault) fail(PyExc_ValueError, "a source or prefix is empty or longer than the model's limit");
        if (!fault && !(out[i] = malloc((length + 1) * sizeof(int)))) fault = 1, PyErr_NoMemory();
        fault = fault || read_ints(list, (int)length, out[i]);
        for (int j = 0; !fault && j < length; j++)
            if (out[i][j] < 0 || out[i][j] >= vocabulary) fault = 1, fail(PyExc_ValueError, "a token id is out of range");
        Py_XDECREF(list);
        if (fault) return -1;
        lengths[i] = (int)length;
    }
    return 0;
}

static int read_limits(PyObject *limits, Job *job) {
    const Config *config = model_config(job->model);
    if (read_ints(limits, job->num_sources, job->limits)) return -1;
    for (int i = 0; i < job->num_sources; i++) {
        if (job->limits[i] < 1 || job->limits[i] > config->max_tgt_len || job->limits[i] < job->prefix_lens[i])
            return fail(PyExc_ValueError, "a limit is out of range"), -1;
        if (job->limits[i] > job->longest_limit) job->longest_limit = job->limits[i];
    }
    return 0;
}

/* Returns a copy of the `count` doubles in a buffer. */
static double *read_doubles(PyObject *object, size_t count) {
    Py_buffer view;
    if (count > SIZE_MAX / 16) return fail(PyExc_ValueError, "a buffer has another size"), NULL;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE)) return NULL;
    double *out = NULL;
    if ((size_t)view.len != count * sizeof(double))
        fail(PyExc_ValueError, "a buffer has another size");
    else if ((out = malloc(count * sizeof(double) + 1)))
        memcpy(out, view.buf, count * sizeof(double));
    else
        PyErr_NoMemory();
    PyBuffer_Release(&view);
    return out;
}

static int read_penalty(PyObject *never_generated, Job *job) {
    int width = padded_vocab_size(job->model), vocabulary = model_config(job->model)->tgt_vocab_size;
    Py_ssize_t count = PySequence_Size(never_generated);
    job->penalty = calloc(width, sizeof(float));
    int *ids = count < 0 ? NULL : malloc((count + 1) * sizeof(int));
    int fault = !job->penalty || !ids || count > INT32_MAX || read_ints(never_generated, (int)count, ids);
    for (Py_ssize_t i = 0; !fault && i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary) fault = 1;
        else job->penalty[ids[i]] = -INFINITY;
    for (int i = vocabulary; !fault && i < width; i++) job->penalty[i] = -INFINITY;
    free(ids);
    return fault ? fail(PyExc_ValueError, "a token that is never generated is out of range"), -1 : 0;
}

/* Reads the attributes of a search's options; returns -1 with an exception unless all are there and are numbers. */
static int read_options(PyObject *object, Options *o) {
    const struct {
        const char *name;
        int *integer;
        double *real;
    } table[] = {
        {"beam_size", &o->beam_size, NULL}, {"num_hypotheses", &o->num_hypotheses, NULL},
        {"sample", &o->sample, NULL}, {"min_len", &o->min_len, NULL}, {"no_repeat_ngram", &o->no_repeat_ngram, NULL},
        {"top_k", &o->top_k, NULL}, {"temperature", NULL, &o->temperature}, {"top_p", NULL, &o->top_p},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        PyObject *value = PyObject_GetAttrString(object, table[i].name);
        int overflow = 0;
        long integer = value && table[i].integer ? PyLong_AsLongAndOverflow(value, &overflow) : 0;
        double real = value && table[i].real ? PyFloat_AsDouble(value) : 0;
        Py_XDECREF(value);
        if (PyErr_Occurred()) return -1;
        if (overflow || integer < INT32_MIN || integer > INT32_MAX)
            return fail(PyExc_ValueError, "a number is out of range"), -1;
        if (table[i].integer) *table[i].integer = (int)integer;
        else *table[i].real = real;
    }
    return 0;
}

static int are_sound(const Options *o, const Config *config) {
    return o->beam_size >= 1 && o->beam_size <= 10000 && o->num_hypotheses >= 1 && o->num_hypotheses <= 1000000 &&
           o->min_len >= 0 && o->no_repeat_ngram >= 0 && o->top_k >= 0 && o->temperature > 0 && o->temperature <= 1e6 &&
           o->top_p > 0 && o->num_tags >= 0 && o->num_tags <= 1000 &&
           o->attention_layer < config->decoder_layers && o->attention_head < config->num_heads &&
           (o->attention_layer < 0 || (o->beam_size == 1 && !o->sample));
}

/* Fills the job. If this fails, the capsule frees the parts that are already filled. */
static int fill_job(Job *job, const Given *given) {
    const Config *config = model_config(job->model);
    size_t n = (size_t)job->num_sources + 1;
    job->sources = calloc(n, sizeof(int *));
    job->prefixes = calloc(n, sizeof(int *));
    job->src_lens = calloc(n, sizeof(int));
    job->prefix_lens = calloc(n, sizeof(int));
    job->limits = calloc(n, sizeof(int));
    job->results = calloc(n, sizeof(Result));
    if (!job->sources || !job->prefixes || !job->src_lens || !job->prefix_lens || !job->limits || !job->results)
        return PyErr_NoMemory(), -1;
    if (read_lists(given->sources, job->num_sources, config->src_vocab_size, 1, config->max_src_len, job->sources, job->src_lens))
        return -1;
    if (read_lists(given->prefixes, job->num_sources, config->tgt_vocab_size, 0, config->max_tgt_len, job->prefixes,
                   job->prefix_lens))
        return -1;
    if (read_limits(given->limits, job) || read_penalty(given->never_generated, job)) return -1;
    if (!are_sound(&job->options, config)) return fail(PyExc_ValueError, "the options do not go together"), -1;
    size_t samples = job->options.sample ? (size_t)job->num_sources * job->options.num_hypotheses : 0;
    job->numbers = read_doubles(given->numbers, samples * job->longest_limit);
    job->length_divisors = read_doubles(given->divisors, (size_t)job->longest_limit + 1);
    return job->numbers && job->length_divisors ? 0 : -1;
}

/* Lets the job use a shortlist, unless it is None. */
static int use_shortlist(PyJob *py, PyObject *capsule) {
    if (capsule == Py_None) return 0;
    const Shortlist *list = PyCapsule_GetPointer(capsule, SHORTLIST_NAME);
    if (!list) return -1;
    if (list->model != py->job.model) return fail(PyExc_ValueError, "the shortlist is one of another model"), -1;
    Py_INCREF(capsule);
    py->shortlist = capsule;
    py->job.shortlist = list;
    return 0;
}

/* Gives the job its drafts, unless they are None. They need one row per source, so only greedy search has them. */
static int use_drafts(Job *job, PyObject *drafts) {
    const Options *o = &job->options;
    const Config *config = model_config(job->model);
    if (drafts == Py_None) return 0;
    if (o->beam_size > 1 || o->sample || o->attention_layer >= 0)
        return fail(PyExc_ValueError, "only greedy search verifies drafts"), -1;
    job->drafts = calloc((size_t)job->num_sources + 1, sizeof(int *));
    job->draft_lens = calloc((size_t)job->num_sources + 1, sizeof(int));
    if (!job->drafts || !job->draft_lens) return PyErr_NoMemory(), -1;
    return read_lists(drafts, job->num_sources, config->tgt_vocab_size, 0, INT32_MAX, job->drafts, job->draft_lens);
}

/* Whether a list of terms is (number of the term, length, ids ...), with the numbers ascending from 0 without gaps. */
static int are_terms(const int *list, int length, int vocabulary) {
    int forms = 0, last = -1;
    for (int at = 0; at < length; at += 2 + list[at + 1]) {
        if (length - at < 3 || list[at] < last || list[at] > last + 1 || list[at] >= MAX_TERMS) return 0;
        if (list[at + 1] < 1 || list[at + 1] > length - at - 2 || ++forms > MAX_FORMS) return 0;
        for (int i = 0; i < list[at + 1]; i++)
            if (list[at + 2 + i] >= vocabulary || list[at + 2 + i] <= EOS_ID) return 0;
        last = list[at];
    }
    return 1;
}

/* Gives the job the terms of its outputs, unless they are None. */
static int use_terms(Job *job, PyObject *object) {
    const Options *o = &job->options;
    int vocabulary = model_config(job->model)->tgt_vocab_size;
    PyObject *lists;
    Py_buffer boundaries;
    if (object == Py_None) return 0;
    if (o->beam_size < 2 || o->beam_size > MAX_TERM_BEAM || o->sample || o->attention_layer >= 0 || job->shortlist)
        return fail(PyExc_ValueError, "only beam search of up to 64 hypotheses, without a shortlist, has terms"), -1;
    if (!PyTuple_Check(object)) return fail(PyExc_ValueError, "terms are lists and boundaries"), -1;
    if (!PyArg_ParseTuple(object, "Oy*", &lists, &boundaries)) return -1;
    int fits = boundaries.len == vocabulary;
    job->boundaries = fits ? malloc(vocabulary) : NULL;
    if (job->boundaries) memcpy(job->boundaries, boundaries.buf, vocabulary);
    PyBuffer_Release(&boundaries);
    if (!fits) return fail(PyExc_ValueError, "there are not as many boundaries as tokens"), -1;
    job->terms = calloc((size_t)job->num_sources + 1, sizeof(int *));
    job->term_lens = calloc((size_t)job->num_sources + 1, sizeof(int));
    if (!job->boundaries || !job->terms || !job->term_lens) return PyErr_NoMemory(), -1;
    if (read_lists(lists, job->num_sources, INT32_MAX, 0, 4096, job->terms, job->term_lens)) return -1;
    for (int i = 0; i < job->num_sources; i++)
        if (!are_terms(job->terms[i], job->term_lens[i], vocabulary)) return fail(PyExc_ValueError, "these are no terms"), -1;
    return 0;
}

static PyObject *translate(PyObject *self, PyObject *args, PyObject *named) {
    (void)self;
    static char *names[] = {"model", "sources", "prefixes", "limits", "options", "max_rows", "numbers", "divisors",
                            "never_generated", "shortlist", "drafts", "terms", "is_helped", "with_scores", "num_tags",
                            "attention_layer", "attention_head", NULL};
    Given given = {.shortlist = Py_None, .drafts = Py_None, .terms = Py_None};
    Options o = {.with_scores = 1, .attention_layer = -1, .attention_head = -1};
    PyObject *capsule, *options;
    int max_rows, is_helped = 0;
    if (!PyArg_ParseTupleAndKeywords(args, named, "OOOOOiOOO|$OOOppiii", names, &capsule, &given.sources,
                                     &given.prefixes, &given.limits, &options, &max_rows, &given.numbers,
                                     &given.divisors, &given.never_generated, &given.shortlist, &given.drafts,
                                     &given.terms, &is_helped, &o.with_scores, &o.num_tags, &o.attention_layer,
                                     &o.attention_head))
        return NULL;
    if (read_options(options, &o)) return NULL;
    SharedModel *shared = PyCapsule_GetPointer(capsule, MODEL_NAME);
    Py_ssize_t count = PySequence_Size(given.sources);
    if (!shared || count < 0) return NULL;
    if (count > 10000000 || max_rows < 1 || max_rows > 1 << 20) return fail(PyExc_ValueError, "too many sources or rows");
    PyJob *py = calloc(1, sizeof *py);
    if (!py) return PyErr_NoMemory();
    py->shared = shared;
    py->job.model = shared->model;
    py->job.options = o;
    py->job.num_sources = (int)count;
    py->job.max_rows = max_rows;
    py->job.is_helped = is_helped && count == 1;
    py->job.offer.core = core_of_this_thread();
    PyObject *job = PyCapsule_New(py, JOB_NAME, free_job);
    if (!job) return free(py), NULL;
    Py_INCREF(capsule);
    py->model_capsule = capsule;
    if (use_shortlist(py, given.shortlist) || fill_job(&py->job, &given) || use_drafts(&py->job, given.drafts) ||
        use_terms(&py->job, given.terms))
        Py_CLEAR(job);
    return job;
}

/* Handles signals such as Ctrl-C; a handler that raises ends the job. */
static int check_signals(void *unused) {
    (void)unused;
    PyGILState_STATE state = PyGILState_Ensure();
    int raised = PyErr_CheckSignals();
    PyGILState_Release(state);
    return raised;
}

static PyObject *run(PyObject *self, PyObject *capsule) {
    (void)self;
    PyJob *py = PyCapsule_GetPointer(capsule, JOB_NAME);
    if (!py) return NULL;
    SharedModel *shared = py->shared;
    Worker *worker = shared->num_idle ? shared->idle[--shared->num_idle] : new_worker(shared->model);
    if (!worker) return withdraw(&py->job.offer), PyErr_NoMemory();
    Status status;
    py->job.is_helped = py->job.is_helped && !shared->num_running; /* else the cores are busy */
    shared->num_running++;
    Py_BEGIN_ALLOW_THREADS
    status = run_job(worker, &py->job, check_signals, NULL);
    Py_END_ALLOW_THREADS
    shared->num_running--;
    if (shared->num_idle < MAX_WORKERS && status != OUT_OF_MEMORY)
        shared->idle[shared->num_idle++] = worker;
    else
        free_worker(worker);
    if (status == OUT_OF_MEMORY) return PyErr_NoMemory();
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(py->job.is_helped);
}

static PyObject *help_run(PyObject *self, PyObject *capsule) {
    (void)self;
    PyJob *py = PyCapsule_GetPointer(capsule, JOB_NAME);
    if (!py) return NULL;
    Py_BEGIN_ALLOW_THREADS
    help(&py->job.offer);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *list_of_floats(const float *values, int count) {
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *value = PyFloat_FromDouble(values[i]);
        if (!value || PyList_SetItem(list, i, value)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *list_of_ints(const int *values, int count) {
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *value = PyLong_FromLong(values[i]);
        if (!value || PyList_SetItem(list, i, value)) Py_CLEAR(list);
    }
    return list;
}

/* (ids without eos, score, finished, token scores) */
static PyObject *output_tuple(const Output *output) {
    PyObject *ids = list_of_ints(output->ids, output->length - output->finished);
    PyObject *scores = list_of_floats(output->token_scores, output->length);
    PyObject *finished = PyBool_FromLong(output->finished);
    return ids && scores ? Py_BuildValue("(NdNN)", ids, (double)output->score, finished, scores) : NULL;
}

static PyObject *result_tuple(const Result *result, int src_len) {
    PyObject *outputs = PyList_New(0), *attention = PyList_New(0);
    for (int i = 0; outputs && i < result->num_outputs; i++) {
        PyObject *output = output_tuple(&result->outputs[i]);
        if (!output || PyList_Append(outputs, output)) Py_CLEAR(outputs);
        Py_XDECREF(output);
    }
    int rows = result->attention && result->num_outputs ? result->outputs[0].length : 0;
    for (int i = 0; attention && i < rows; i++) {
        PyObject *row = list_of_floats(result->attention + (size_t)i * src_len, src_len);
        if (!row || PyList_Append(attention, row)) Py_CLEAR(attention);
        Py_XDECREF(row);
    }
    return outputs && attention ? Py_BuildValue("(NN)", outputs, attention) : NULL;
}

static PyObject *results(PyObject *self, PyObject *capsule) {
    (void)self;
    PyJob *py = PyCapsule_GetPointer(capsule, JOB_NAME);
    PyObject *list = py ? PyList_New(py->job.num_sources) : NULL;
    for (int i = 0; list && i < py->job.num_sources; i++) {
        PyObject *result = result_tuple(&py->job.results[i], py->job.src_lens[i]);
        if (!result || PyList_SetItem(list, i, result)) Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"kernels", kernels, METH_NOARGS, "Return the names of the kernels that this processor has, fastest first."},
    {"load", load, METH_VARARGS, "Pack the weights of a model for a kernel."},
    {"shortlist", shortlist, METH_VARARGS, "Return a lexical shortlist: the candidates of each source token."},
    {"translate", (PyCFunction)(void (*)(void))translate, METH_VARARGS | METH_KEYWORDS,
     "Return a job: sources to be translated."},
    {"run", run, METH_O, "Translate sources of a job until none is left; several threads may call it at once."},
    {"help", help_run, METH_O, "Compute half of the products of a job of one source until it is done."},
    {"results", results, METH_O, "Return the outputs of a job that is done, in the order of its sources."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_decoder", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__decoder(void) { return PyModule_Create(&definition); }
