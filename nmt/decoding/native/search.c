/* Chooses tokens: greedy search, beam search, sampling, forced prefixes, and the loop that keeps all rows busy. */
#include "search.h"

#include "model.h"

#include <stdlib.h>
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define FETCH_ADD(counter) ((int)_InterlockedExchangeAdd((volatile long *)(counter), 1))
#else
#define FETCH_ADD(counter) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)
#endif

#define ENCODED_TOGETHER 256 /* tokens; longer sources are encoded one at a time */
#define POLL_STEPS 16
#define MAX_AHEAD 8         /* tokens of a draft that are verified in one step */
#define FREE_TOKENS 4       /* see nmt/decoding/beam.py */
#define NEARBY 8            /* how far from its place a draft is searched for the last token */

/* The state of one call of run_job. */
typedef struct {
    Worker *worker;
    Job *job;
    int rows_per_source, max_sentences; /* a beam has one more row, for the hypothesis of greedy search */
    int fused; /* greedy search without prefixes or shortlists: logits are reduced as they are computed */
    size_t stride; /* of the rows of logits */
    float first_penalty[CHUNK]; /* for the first tokens, with eos forbidden */
    Reduction *reductions;
    struct Candidate *candidates;
    float *top_scores;
    int *top_ids;
    double *probabilities;
} Search;

/* A continuation of a hypothesis in a beam. */
typedef struct Candidate {
    float score, token_score;
    int row, token, order;
    int bank; /* with terms: how much of them it contains */
} Candidate;

/* ln(x) of a positive number, identical on every platform: x = 2^e m, ln m = 2 artanh((m - 1) / (m + 1)). */
static double natural_log(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) m *= 2.0, exponent--;
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
    for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
    return exponent * 0.69314718055994530942 + 2.0 * s * sum;
}

/* ln of the sum of exp(logit). */
static float log_total(const Reduction *r) { return (float)((double)r->max + natural_log((double)r->sum)); }

void keep_attention(const Sentence *s, int position, int num_heads, int head) {
    for (int t = 0; t < s->src_len; t++) {
        float sum = 0.0f;
        for (int h = 0; h < num_heads; h++) sum += s->weights[(size_t)h * s->src_len + t];
        s->attention[(size_t)position * s->src_len + t] =
            head < 0 ? sum / (float)num_heads : s->weights[(size_t)head * s->src_len + t];
    }
}

/* ---- Blocks of keys and values ---- */

static Block *new_block(Worker *w) {
    Block *block = w->free_blocks;
    if (block)
        w->free_blocks = block->next;
    else if ((block = allocate_aligned(64 + w->block_bytes))) {
        block->numbers = (char *)block + 64;
        memset(block->numbers, 0, w->block_bytes);
    } else
        return NULL;
    block->references = 1;
    return block;
}

static void release(Worker *w, Block *block) {
    if (--block->references) return;
    block->next = w->free_blocks;
    w->free_blocks = block;
}

/* Ensures that the row has its own block for `position`, its next one or, if it has a draft, a later one. */
static int own_block(Worker *w, Row *row, int position) {
    int at = position / BLOCK;
    Block *shared = at < row->num_blocks ? row->blocks[at] : NULL;
    if (shared && shared->references == 1) return 1;
    Block *block = new_block(w);
    if (!block) return 0;
    if (shared) {
        memcpy(block->numbers, shared->numbers, w->block_bytes);
        release(w, shared);
    }
    row->blocks[at] = block;
    row->numbers[at] = block->numbers;
    row->num_blocks = at + 1;
    return 1;
}

static void release_blocks(Worker *w, Row *row) {
    while (row->num_blocks) release(w, row->blocks[--row->num_blocks]);
    row->running = 0;
}

/* ---- Sentences ---- */

static void free_output(Output *output) {
    free(output->ids);
    free(output->token_scores);
}

void free_result(Result *result) {
    for (int i = 0; i < result->num_outputs; i++) free_output(&result->outputs[i]);
    free(result->outputs);
    free(result->attention);
    memset(result, 0, sizeof *result);
}

static void free_sentence(Worker *w, Sentence *s) {
    for (int i = 0; s->rows && i < s->num_rows; i++) release_blocks(w, &s->rows[i]);
    for (int i = 0; i < s->num_ended; i++) free_output(&s->ended[i]);
    free(s->ended);
    free(s->rows);
    free(s->spare);
    free(s->ahead);
    free(s->forms);
    release_outputs(s);
    free_aligned(s->memory_storage);
    free(s->memory);
    free(s->weights);
    free(s->attention);
    free(s);
}

/* Rows followed by their arrays, in a single allocation. */
static Row *new_rows(Sentence *s, int count) {
    size_t blocks = s->limit / BLOCK + 1, limit = s->limit;
    size_t each = blocks * (sizeof(Block *) + sizeof(void *)) + ROUND_UP(limit, 2) * (sizeof(int) + sizeof(float));
    Row *rows = calloc(1, count * (sizeof(Row) + each));
    char *behind = (char *)(rows + count);
    for (int i = 0; rows && i < count; i++, behind += each) {
        rows[i].sentence = s;
        rows[i].last = BOS_ID;
        rows[i].sample = i;
        rows[i].blocks = (Block **)behind;
        rows[i].numbers = (void **)(rows[i].blocks + blocks);
        rows[i].ids = (int *)(rows[i].numbers + blocks);
        rows[i].scores = (float *)(rows[i].ids + ROUND_UP(limit, 2));
    }
    return rows;
}

/* Finds the forms of the terms of a source, which module.c has checked; returns 0 if out of memory. */
static int read_terms(const Job *job, Sentence *s) {
    const int *ids = job->terms[s->source], *end = ids + job->term_lens[s->source];
    s->forms = malloc(MAX_FORMS * sizeof(Form));
    if (!s->forms) return 0;
    for (; ids < end; ids += 2 + ids[1]) {
        int term = ids[0], length = ids[1];
        s->forms[s->num_forms++] = (Form){term, length, ids + 2};
        if (term == s->num_terms) s->needed[s->num_terms++] = length;
        else if (length < s->needed[term]) s->needed[term] = length;
    }
    for (int i = 0; i < s->num_terms; i++) s->needed[MAX_TERMS] += s->needed[i];
    return 1;
}

static Sentence *new_sentence(const Search *search, int source) {
    const Job *job = search->job;
    Worker *w = search->worker;
    Sentence *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->source = source;
    s->src_len = job->src_lens[source];
    s->limit = job->limits[source];
    size_t blocks = (s->src_len + BLOCK - 1) / BLOCK;
    s->memory = malloc(blocks * sizeof(void *));
    s->memory_storage = allocate_aligned(blocks * w->block_bytes);
    s->rows = new_rows(s, search->rows_per_source);
    int is_beam = !job->options.sample && job->options.beam_size > 1;
    s->spare = is_beam ? new_rows(s, search->rows_per_source) : NULL;
    int fits = s->memory && s->memory_storage && s->rows && (s->spare || !is_beam);
    if (job->drafts && job->draft_lens[source]) {
        s->ahead = calloc(MAX_AHEAD, sizeof(Row));
        s->ahead_limit = MAX_AHEAD;
        fits = fits && s->ahead;
    }
    if (job->options.attention_layer >= 0) {
        s->weights = malloc((size_t)w->model->config.num_heads * s->src_len * sizeof(float));
        s->attention = calloc((size_t)s->limit * s->src_len, sizeof(float));
        fits = fits && s->weights && s->attention;
    }
    if (fits && job->terms && job->term_lens[source]) fits = read_terms(job, s);
    if (fits && job->shortlist) fits = list_outputs(w, job, s);
    if (!fits) {
        free_sentence(w, s);
        return NULL;
    }
    /* A beam starts with one hypothesis, because all of them would be the same. */
    s->num_rows = s->num_running = is_beam ? 1 : search->rows_per_source;
    s->greedy = is_beam && !s->num_forms ? 0 : -1; /* greedy search knows no terms */
    for (int i = 0; i < s->num_rows; i++) s->rows[i].running = 1;
    for (size_t i = 0; i < blocks; i++) s->memory[i] = (char *)s->memory_storage + i * w->block_bytes;
    return s;
}

static int fill_output(Output *output, const Row *row, float score) {
    output->ids = malloc((row->length + 1) * sizeof(int));
    output->token_scores = malloc((row->length + 1) * sizeof(float));
    if (!output->ids || !output->token_scores) {
        free_output(output);
        memset(output, 0, sizeof *output);
        return 0;
    }
    memcpy(output->ids, row->ids, row->length * sizeof(int));
    memcpy(output->token_scores, row->scores, row->length * sizeof(float));
    output->length = row->length;
    output->score = score;
    output->finished = row->length && row->ids[row->length - 1] == EOS_ID;
    return 1;
}

/* Moves the outputs of a finished sentence to the job. */
static int deliver(const Search *search, Sentence *s) {
    Result *result = &search->job->results[s->source];
    int count = s->spare ? s->num_ended : s->num_rows;
    if (s->spare && count > search->job->options.num_hypotheses) count = search->job->options.num_hypotheses;
    result->outputs = calloc(count ? count : 1, sizeof(Output));
    if (!result->outputs) return 0;
    for (int i = 0; i < count; i++) {
        if (s->spare) {
            result->outputs[i] = s->ended[i];
            memset(&s->ended[i], 0, sizeof(Output));
        } else if (!fill_output(&result->outputs[i], &s->rows[i], s->rows[i].score))
            return 0;
        result->num_outputs = i + 1;
    }
    result->attention = s->attention;
    s->attention = NULL;
    return 1;
}

/* Takes sources from the job and encodes them until no row is free or no source is left. */
static Status take_sources(Search *search) {
    Worker *w = search->worker;
    Job *job = search->job;
    Status status = DONE;
    while (status == DONE && w->num_sentences < search->max_sentences && job->next < job->num_sources) {
        int first = w->num_sentences, tokens = 0;
        while (w->num_sentences < search->max_sentences && tokens < ENCODED_TOGETHER) {
            int source = FETCH_ADD(&job->next);
            if (source >= job->num_sources) break;
            Sentence *s = new_sentence(search, source);
            if (!s) return OUT_OF_MEMORY;
            w->sentences[w->num_sentences++] = s;
            tokens += s->src_len;
        }
        if (w->num_sentences > first) status = encode(w, w->sentences + first, w->num_sentences - first, job);
    }
    return status;
}

/* ---- Places: a row has one logit for each token of the vocabulary, or of its shortlist ---- */

static int num_places(const Search *search, const Sentence *s) {
    return ROUND_UP(s->outputs ? s->num_outputs : search->worker->model->output.outputs, LANES);
}

static int token_at(const Sentence *s, int place) { return s->outputs ? s->outputs[place] : place; }

/* The place of a token, which is in the shortlist: eos, one of the prefix, or one that was generated. */
static int place_of(const Sentence *s, int token) {
    int first = 0, last = s->num_outputs - 1;
    if (!s->outputs) return token;
    while (first < last) {
        int middle = (first + last) / 2;
        if (s->outputs[middle] < token) first = middle + 1;
        else last = middle;
    }
    return first;
}

/* ---- Terms: hypotheses that contain as much of them share a bank, and banks share the beam (dynamic beam allocation,
 * Post and Vilar 2018, section 3). A term is met when the token after it begins another word. ---- */

static int is_complete(const Row *row) { return row->matched && row->matched == row->sentence->forms[row->form].length; }

static unsigned terms_at_end(const Row *row) {
    return row->met | (is_complete(row) ? 1u << row->sentence->forms[row->form].term : 0);
}

static int lacks_terms(const Row *row) {
    int count = row->sentence->num_terms;
    return count && terms_at_end(row) != (unsigned)((1ull << count) - 1);
}

/* Whether `form` is of a term not yet met, and continues the `matched` tokens that the row ends with. */
static int is_open(const Row *row, const Form *form, int matched) {
    return !(row->met >> form->term & 1) && form->length > matched &&
           (!matched || !memcmp(form->ids, row->sentence->forms[row->form].ids, matched * sizeof(int)));
}

/* Notes what the next token of a row means for its terms. */
static void follow(const Job *job, Row *row, int token) {
    const Sentence *s = row->sentence;
    if (is_complete(row) && job->boundaries[token]) row->met = terms_at_end(row), row->matched = 0;
    for (int matched = row->matched;; matched = 0) {
        for (int i = 0; i < s->num_forms; i++)
            if (is_open(row, &s->forms[i], matched) && s->forms[i].ids[matched] == token) {
                row->form = i, row->matched = matched + 1;
                return;
            }
        if (!matched) break;
    }
    row->matched = 0;
}

/* The bank of a row: as many as fit the beam, by the number of tokens of terms that it contains. */
static int bank_of(const Row *row, int width) {
    const Sentence *s = row->sentence;
    int found = 0, needed = s->needed[MAX_TERMS], banks = needed + 1 < width ? needed + 1 : width;
    for (int i = 0; i < s->num_terms; i++) found += row->met >> i & 1 ? s->needed[i] : 0;
    if (row->matched) {
        int most = s->needed[s->forms[row->form].term];
        found += row->matched < most ? row->matched : most;
    }
    return found * banks / (needed + 1);
}

/* ---- Conditions ---- */

/* Forbids tokens that would repeat an n-gram of the row (Paulus et al. 2018, section 2.5). */
static void forbid_repeats(const Row *row, int n, float *logits) {
    const int *latest = row->ids + row->length - n + 1;
    for (int start = 0; start + n <= row->length; start++) {
        int same = 1;
        for (int i = 0; same && i < n - 1; i++) same = row->ids[start + i] == latest[i];
        if (same) logits[place_of(row->sentence, row->ids[start + n - 1])] = -INFINITY;
    }
}

static int nothing_is_left(const float *logits, int count) {
    for (int i = 0; i < count; i++)
        if (logits[i] > -INFINITY) return 0;
    return 1;
}

/* Whether the row's next token is a tag, which is not part of the output. */
static int is_tag(const Job *job, const Row *row) {
    return row->length < job->options.num_tags && row->length < job->prefix_lens[row->sentence->source];
}

/* Whether the row, without its tags, is below the minimum length. */
static int is_too_short(const Job *job, const Row *row) {
    int tags = job->options.num_tags, prefix = job->prefix_lens[row->sentence->source];
    return row->length - (tags < prefix ? tags : prefix) < job->options.min_len;
}

/* Sets the logits of forbidden next tokens to -infinity, by the same rules as nmt/decoding/constraints.py. */
static void apply_conditions(const Job *job, const Row *row, float *logits, int count) {
    const Options *options = &job->options;
    const Sentence *s = row->sentence;
    int source = s->source, too_short = is_too_short(job, row), eos_place = place_of(s, EOS_ID);
    if (row->length < job->prefix_lens[source]) {
        int forced = place_of(s, job->prefixes[source][row->length]);
        float logit = logits[forced];
        for (int i = 0; i < count; i++) logits[i] = -INFINITY;
        logits[forced] = logit;
        return;
    }
    float eos = logits[eos_place];
    if (s->outputs)
        for (int i = 0; i < s->num_outputs; i++) logits[i] += job->penalty[s->outputs[i]];
    else
        for (int i = 0; i < count; i++) logits[i] += job->penalty[i];
    if (too_short || lacks_terms(row)) logits[eos_place] = -INFINITY;
    if (options->no_repeat_ngram > 0 && options->no_repeat_ngram <= row->length + 1) {
        forbid_repeats(row, options->no_repeat_ngram, logits);
        if (too_short && nothing_is_left(logits, count)) logits[eos_place] = eos; /* too short, but nothing else is allowed */
    }
}

/* ---- Greedy search and sampling ---- */

/* Appends a token; a row that has ended frees its blocks. */
static void append(Worker *w, Row *row, int token, float score) {
    Sentence *s = row->sentence;
    row->ids[row->length] = row->last = token;
    row->scores[row->length] = score;
    row->score += score;
    row->length++;
    if (token == EOS_ID || row->length == s->limit) {
        release_blocks(w, row);
        s->num_running--;
    }
}

static int by_logit(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->order - y->order;
}

/* Draws the place of a token by its probability, from all or the most probable ones; see nmt/decoding/sampling.py. */
static int draw(const Search *search, const Row *row, const float *logits, int count) {
    const Job *job = search->job;
    const Options *options = &job->options;
    Candidate *tokens = search->candidates;
    double *cumulative = search->probabilities, total = 0.0;
    int n = 0;
    for (int i = 0; i < count; i++)
        if (logits[i] > -INFINITY) tokens[n] = (Candidate){(float)(logits[i] / options->temperature), 0, 0, i, n, 0}, n++;
    if (!n) return 0; /* the logits are not numbers */
    if (options->top_k || options->top_p < 1.0) qsort(tokens, n, sizeof *tokens, by_logit);
    if (options->top_k && options->top_k < n) n = options->top_k;
    float highest = tokens[0].score;
    for (int i = 1; i < n; i++) highest = tokens[i].score > highest ? tokens[i].score : highest;
    for (int i = 0; i < n; i++) {
        cumulative[i] = search->worker->model->kernel->exponential(tokens[i].score - highest);
        total += cumulative[i];
    }
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        if (i && sum / total >= options->top_p) n = i; /* always keep the first one */
        else cumulative[i] = sum += cumulative[i];
    }
    size_t at = ((size_t)row->sentence->source * options->num_hypotheses + row->sample) * job->longest_limit + row->length;
    double share = job->numbers[at] * sum;
    int drawn = 0;
    while (drawn < n - 1 && cumulative[drawn] <= share) drawn++;
    return tokens[drawn].token;
}

/* Appends the row's next token, from its logits or, if these are reduced as they are computed, their reduction. */
static void choose(const Search *search, Row *row, const float *logits, const Reduction *r) {
    const Job *job = search->job;
    const Sentence *s = row->sentence;
    if (search->fused) {
        float total = job->options.with_scores ? log_total(r) : 0.0f;
        if (is_tag(job, row)) append(search->worker, row, job->prefixes[s->source][row->length], 0.0f);
        else append(search->worker, row, r->id, r->logit - total);
        return;
    }
    int place = job->options.sample ? draw(search, row, logits, num_places(search, s)) : r->id;
    float score = is_tag(job, row) ? 0.0f : logits[place] - log_total(r);
    append(search->worker, row, token_at(s, place), score);
}

/* ---- Drafts: the tokens of an expected output are the inputs of further rows, which compute the tokens after them in
 * the same step. A token is kept if all before it are those of the draft (Stern et al. 2018; Ge et al. 2022). Only rows
 * that would be idle are spent on drafts: when all are busy, verifying costs as much as searching. ---- */

/* Adds up to `most` rows for the next tokens of the draft to the active ones; returns 0 if out of memory. */
static int look_ahead(Worker *w, const Job *job, Sentence *s, int most) {
    Row *row = &s->rows[0];
    const int *draft = job->drafts[s->source] + s->draft_at;
    int left = job->draft_lens[s->source] - s->draft_at, room = s->limit - row->length - 1;
    int count = left < room ? left : room;
    count = count < most ? count : most;
    s->num_ahead = count < s->ahead_limit ? count : s->ahead_limit;
    for (int i = 0; i < s->num_ahead; i++) {
        if (!own_block(w, row, row->length + i + 1)) return 0;
        row->ids[row->length + i] = draft[i];
        s->ahead[i] = *row;
        s->ahead[i].length = row->length + i + 1;
        s->ahead[i].last = draft[i];
        w->active[w->num_active++] = &s->ahead[i];
    }
    return 1;
}

/* Finds the place in the draft after `token`, which is not the one expected: nearby, or one further on. */
static void resume_draft(Sentence *s, const int *draft, int length, int token) {
    for (int distance = 1; distance <= NEARBY; distance++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            int at = s->draft_at + sign * distance;
            if (at < 0 || at >= length || draft[at] != token) continue;
            s->draft_at = at + 1;
            return;
        }
    if (s->draft_at < length) s->draft_at++;
}

/* Appends the tokens of a row, at `index` of the active ones, and of those ahead of it as long as they agree. */
static void choose_by_draft(const Search *search, Sentence *s, int index) {
    const Worker *w = search->worker;
    const int *draft = search->job->drafts[s->source], length = search->job->draft_lens[s->source];
    Row *row = &s->rows[0];
    int agreed = 0;
    for (int i = 0; i <= s->num_ahead && agreed == i && s->num_running; i++) {
        choose(search, row, w->logits + (index + i) * search->stride, &search->reductions[index + i]);
        if (s->draft_at < length && draft[s->draft_at] == row->last) s->draft_at++, agreed++;
        else resume_draft(s, draft, length, row->last);
    }
    int next = agreed > s->num_ahead ? 2 * s->ahead_limit + 1 : agreed; /* none after a token that was not expected */
    s->ahead_limit = next < MAX_AHEAD ? next : MAX_AHEAD;
}

/* ---- Beam search (Sutskever et al. 2014, section 3.2; nmt/decoding/beam.py) ---- */

static double rank(const Job *job, float score, int length) { return score / job->length_divisors[length]; }

/* Adds `row` to the ended hypotheses, after those with an equal score. */
static int collect(const Search *search, Sentence *s, const Row *row, float score) {
    if (s->num_ended == s->ended_capacity) {
        int capacity = 2 * s->ended_capacity + 8;
        Output *grown = realloc(s->ended, capacity * sizeof *grown);
        if (!grown) return 0;
        s->ended = grown, s->ended_capacity = capacity;
    }
    Output output = {0};
    if (!fill_output(&output, row, score)) return 0;
    int place = s->num_ended++;
    double value = rank(search->job, score, row->length);
    for (; place > 0 && rank(search->job, s->ended[place - 1].score, s->ended[place - 1].length) < value; place--)
        s->ended[place] = s->ended[place - 1];
    s->ended[place] = output;
    return 1;
}

/* Whether the output must contain something improbable. Its mean log-probability would rise with its length. */
static int is_forced(const Job *job, const Sentence *s) {
    return s->num_forms || job->prefix_lens[s->source] > job->options.num_tags;
}

/* Whether a running hypothesis, the best of which has score `best`, could be among the best after FREE_TOKENS more. */
static int may_improve(const Search *search, Sentence *s, float best) {
    const Options *options = &search->job->options;
    if (best == -INFINITY) return 0;
    if (is_forced(search->job, s)) return s->num_ended < options->beam_size;
    if (s->num_ended < options->num_hypotheses) return 1;
    while (s->num_ended > options->num_hypotheses) free_output(&s->ended[--s->num_ended]);
    const Output *last = &s->ended[s->num_ended - 1];
    int reach = s->rows[0].length + 1 + FREE_TOKENS;
    return rank(search->job, best, reach < s->limit ? reach : s->limit) > rank(search->job, last->score, last->length);
}

/* Adds the tokens that continue or begin a term of a row to the candidates; `first` is the first of the row's. */
static int add_terms(const Search *search, const Row *row, const float *logits, float total, int first, int n) {
    int matched = is_complete(row) ? 0 : row->matched;
    for (int i = 0; i < row->sentence->num_forms; i++) {
        const Form *form = &row->sentence->forms[i];
        int token = form->ids[matched < form->length ? matched : 0], is_new = logits[token] > -INFINITY;
        if (!is_open(row, form, matched) || (!matched && terms_at_end(row) >> form->term & 1)) continue;
        for (int j = first; is_new && j < n; j++) is_new = search->candidates[j].token != token;
        float score = logits[token] - total;
        if (is_new)
            search->candidates[n] = (Candidate){score + row->score, score, (int)(row - row->sentence->rows), token, n, 0}, n++;
    }
    return n;
}

/* Orders the `n` candidates, best first, by turns of the banks, the fullest first; returns how many are wanted. */
static int take_turns(const Search *search, const Sentence *s, int n, int wanted) {
    Candidate *candidates = search->candidates, *chosen = candidates + n;
    int width = search->job->options.beam_size, count = 0, next[MAX_TERM_BEAM] = {0};
    for (int i = 0; i < n; i++) {
        Row row = s->rows[candidates[i].row];
        follow(search->job, &row, candidates[i].token);
        candidates[i].bank = bank_of(&row, width);
    }
    for (int bank = width - 1; count < n && count < wanted; bank = (bank ? bank : width) - 1) {
        int *at = &next[bank];
        while (*at < n && candidates[*at].bank != bank) ++*at;
        if (*at < n) chosen[count++] = candidates[(*at)++];
    }
    memcpy(candidates, chosen, count * sizeof(Candidate));
    return count;
}

/* The continuations of all rows in the beam, best first; returns their number, or -1 if a score is not a number.
 * `greedy` becomes the best continuation of the row of greedy search. */
static int find_candidates(const Search *search, const Sentence *s, const float *logits, const Reduction *totals,
                           Candidate *greedy) {
    int places = num_places(search, s), wanted = 2 * search->job->options.beam_size, n = 0;
    for (int row = 0; row < s->num_rows; row++) {
        float total = log_total(&totals[row]);
        int found = search->worker->model->kernel->top(logits + row * search->stride, places, wanted, search->top_scores,
                                                       search->top_ids);
        int first = n;
        if (isnan(total)) return -1;
        for (int i = 0; i < found; i++, n++) {
            float score = is_tag(search->job, &s->rows[row]) ? 0.0f : search->top_scores[i] - total;
            int token = token_at(s, search->top_ids[i]);
            search->candidates[n] = (Candidate){score + s->rows[row].score, score, row, token, n, 0};
        }
        if (s->num_forms) n = add_terms(search, &s->rows[row], logits + row * search->stride, total, first, n);
        if (row == s->greedy && n > first) *greedy = search->candidates[first];
        if (row == s->greedy && s->is_apart) n = first;
    }
    qsort(search->candidates, n, sizeof(Candidate), by_logit);
    if (s->num_forms) return take_turns(search, s, n, wanted);
    return n < wanted ? n : wanted;
}

static void copy_row(const Job *job, const Row *parent, const Candidate *candidate, Row *child) {
    child->length = parent->length + 1;
    memcpy(child->ids, parent->ids, parent->length * sizeof(int));
    memcpy(child->scores, parent->scores, parent->length * sizeof(float));
    child->ids[parent->length] = child->last = candidate->token;
    child->scores[parent->length] = candidate->token_score;
    child->score = candidate->score;
    child->met = parent->met, child->form = parent->form, child->matched = parent->matched;
    if (child->sentence->num_forms) follow(job, child, candidate->token);
}

static void add_child(const Search *search, const Sentence *s, const Candidate *candidate, Row *child) {
    const Row *parent = &s->rows[candidate->row];
    copy_row(search->job, parent, candidate, child);
    child->running = 1;
    for (int b = 0; b < parent->num_blocks; b++) {
        child->blocks[b] = parent->blocks[b];
        child->numbers[b] = parent->numbers[b];
        child->blocks[b]->references++;
    }
    child->num_blocks = parent->num_blocks;
}

static int is_same(const Candidate *a, const Candidate *b) { return a->row == b->row && a->token == b->token; }

/* The next generation of hypotheses: the best candidates that do not end, and that of greedy search. */
static void breed(const Search *search, Sentence *s, int num_candidates, const Candidate *greedy) {
    int children = 0, next = -1;
    for (int i = 0; i < num_candidates && children < search->job->options.beam_size; i++) {
        const Candidate *candidate = &search->candidates[i];
        if (candidate->token == EOS_ID) continue;
        if (is_same(candidate, greedy)) next = children;
        add_child(search, s, candidate, &s->spare[children++]);
    }
    s->is_apart = next < 0;
    if (s->is_apart && greedy->score > -INFINITY && greedy->token != EOS_ID) {
        next = children;
        add_child(search, s, greedy, &s->spare[children++]);
    }
    s->greedy = next;
    for (int i = 0; i < s->num_rows; i++) release_blocks(search->worker, &s->rows[i]);
    Row *rows = s->rows;
    s->rows = s->spare, s->spare = rows;
    s->num_rows = children;
}

static Status advance_beam(const Search *search, Sentence *s, const float *logits, const Reduction *totals) {
    Candidate greedy = {-INFINITY, 0, -1, 0, 0, 0};
    int n = find_candidates(search, s, logits, totals, &greedy), width = search->job->options.beam_size;
    int at_limit = s->rows[0].length + 1 == s->limit, is_missing = greedy.score > -INFINITY;
    float best = -INFINITY;
    if (n < 0) { /* the model's output is NaN: report it in one output */
        s->num_running = 0;
        return collect(search, s, &s->rows[0], NAN) ? DONE : OUT_OF_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        const Candidate *candidate = &search->candidates[i];
        int ends = candidate->token == EOS_ID;
        if (!ends && candidate->score > best) best = candidate->score;
        if (i < width && (ends || at_limit)) {
            copy_row(search->job, &s->rows[candidate->row], candidate, &s->spare[0]);
            if (!collect(search, s, &s->spare[0], candidate->score)) return OUT_OF_MEMORY;
            is_missing = is_missing && !is_same(candidate, &greedy);
        }
    }
    if (greedy.token != EOS_ID && greedy.score > best) best = greedy.score;
    if (is_missing && (greedy.token == EOS_ID || at_limit)) {
        copy_row(search->job, &s->rows[greedy.row], &greedy, &s->spare[0]);
        if (!collect(search, s, &s->spare[0], greedy.score)) return OUT_OF_MEMORY;
    }
    if (at_limit || !may_improve(search, s, best))
        s->num_running = 0;
    else
        breed(search, s, n, &greedy);
    return DONE;
}

/* ---- The loop ---- */

/* Computes and reduces logits 64 at a time, without ever storing all of them, unless a second thread computes half. */
static void reduce_fused(const Search *search, const Rows *input) {
    Worker *w = search->worker;
    const Model *m = w->model;
    const int panels = CHUNK / LANES, last = m->output.outputs / LANES, at_once = search->stride != CHUNK;
    if (at_once) multiply(w, input, w->num_active, &m->output, STORE, w->logits);
    for (int first = 0; first < last; first += panels) {
        int end = first + panels < last ? first + panels : last, count = (end - first) * LANES;
        if (!at_once) m->kernel->product(input, w->num_active, &m->output, first, end, STORE, w->logits, CHUNK);
        for (int row = 0; row < w->num_active; row++) {
            const Row *hypothesis = w->active[row];
            const float *logits = w->logits + row * search->stride + (at_once ? first * LANES : 0);
            const float *penalty = search->job->penalty + first * LANES;
            if (!first && is_too_short(search->job, hypothesis)) penalty = search->first_penalty;
            m->kernel->reduce(logits, penalty, count, first * LANES, search->job->options.with_scores,
                              &search->reductions[row]);
        }
    }
}

static const float no_penalty[CHUNK];

static void reduce_row(const Model *m, const float *logits, int places, int with_sum, Reduction *r) {
    for (int first = 0; first < places; first += CHUNK) {
        int count = places - first < CHUNK ? places - first : CHUNK;
        m->kernel->reduce(logits + first, no_penalty, count, first, with_sum, r);
    }
}

/* Computes the logits of all rows, and their sums before any token is forbidden. */
static void compute_logits(const Search *search, const Rows *input) {
    Worker *w = search->worker;
    const Model *m = w->model;
    if (search->job->shortlist)
        compute_listed_logits(w, search->job, input, search->stride);
    else
        multiply(w, input, w->num_active, &m->output, STORE, w->logits);
    for (int row = 0; row < w->num_active; row++) {
        float *logits = w->logits + row * search->stride;
        int places = num_places(search, w->active[row]->sentence);
        Reduction *r = &search->reductions[row], chosen = {-INFINITY, 0, NAN, -INFINITY, 0.0f};
        reduce_row(m, logits, places, 1, r);
        apply_conditions(search->job, w->active[row], logits, places);
        reduce_row(m, logits, places, 0, &chosen);
        r->id = chosen.id, r->logit = chosen.logit;
    }
}

/* Collects the running rows and allocates space for their step; returns 0 if out of memory. */
static int prepare_step(Search *search) {
    Worker *w = search->worker;
    int longest = 0, spare = w->num_sentences ? (search->job->max_rows - w->num_sentences) / w->num_sentences : 0;
    w->num_active = 0;
    search->stride = search->fused && !w->offer ? CHUNK : search->job->shortlist ? 0 : w->model->output.outputs;
    for (int i = 0; i < w->num_sentences; i++) {
        Sentence *s = w->sentences[i];
        longest = s->src_len > longest ? s->src_len : longest;
        if (s->outputs && (size_t)num_places(search, s) > search->stride) search->stride = num_places(search, s);
        for (int j = 0; j < s->num_rows; j++) {
            Row *row = &s->rows[j];
            if (!row->running) continue;
            if (!own_block(w, row, row->length)) return 0;
            w->active[w->num_active++] = row;
            if (s->ahead && !look_ahead(w, search->job, s, spare)) return 0;
            int end = row->length + 1 + s->num_ahead;
            longest = end > longest ? end : longest;
        }
    }
    for (int i = 0; i < w->num_active; i++) search->reductions[i] = (Reduction){-INFINITY, 0, NAN, -INFINITY, 0.0f};
    return make_room_for_steps(w, w->num_active, ROUND_UP(longest, 256), w->num_active * search->stride);
}

static Status step(Search *search) {
    Worker *w = search->worker;
    Status status = DONE;
    if (!prepare_step(search)) return OUT_OF_MEMORY;
    const Rows *input = decode_step(w, &search->job->options);
    if (search->fused)
        reduce_fused(search, input);
    else
        compute_logits(search, input);
    for (int row = 0; row < w->num_active && status == DONE;) {
        Sentence *s = w->active[row]->sentence;
        const float *logits = w->logits + row * search->stride;
        const Reduction *r = &search->reductions[row];
        if (s->ahead) {
            choose_by_draft(search, s, row);
            row += 1 + s->num_ahead;
        } else if (!s->spare)
            choose(search, w->active[row++], logits, r);
        else {
            row += s->num_rows;
            status = advance_beam(search, s, logits, r);
        }
    }
    return status;
}

/* Moves the outputs of finished sentences to the job. */
static Status drop_finished(Search *search) {
    Worker *w = search->worker;
    int kept = 0, fits = 1;
    for (int i = 0; i < w->num_sentences; i++) {
        Sentence *s = w->sentences[i];
        if (s->num_running) {
            w->sentences[kept++] = s;
            continue;
        }
        fits = fits && deliver(search, s);
        free_sentence(w, s);
    }
    w->num_sentences = kept;
    return fits ? DONE : OUT_OF_MEMORY;
}

static Status run(Search *search, int (*poll)(void *), void *context) {
    Worker *w = search->worker;
    Job *job = search->job;
    int enough = search->max_sentences / 4 + 1; /* sources are encoded several at a time */
    for (int steps = 0;; steps++) {
        Status status = DONE;
        if (!w->num_sentences || search->max_sentences - w->num_sentences >= enough) status = take_sources(search);
        if (status == DONE && !w->num_sentences) return DONE;
        if (status == DONE && steps % POLL_STEPS == POLL_STEPS - 1 && poll(context)) status = STOPPED;
        if (status == DONE && job->stop) status = STOPPED;
        if (status == DONE) status = step(search);
        if (status == DONE) status = drop_finished(search);
        if (status != DONE) {
            job->stop = 1;
            return status;
        }
    }
}

static int start(Search *search) {
    Worker *w = search->worker;
    const Options *options = &search->job->options;
    size_t vocab = w->model->output.outputs;
    search->rows_per_source = options->sample ? options->num_hypotheses : options->beam_size;
    search->max_sentences = search->job->max_rows / search->rows_per_source;
    if (search->max_sentences < 1) search->max_sentences = 1;
    if (!options->sample && options->beam_size > 1) search->rows_per_source++;
    search->fused = !options->sample && options->beam_size == 1 && !options->no_repeat_ngram &&
                    !search->job->shortlist;
    size_t first = vocab < CHUNK ? vocab : CHUNK;
    memcpy(search->first_penalty, search->job->penalty, first * sizeof(float));
    search->first_penalty[EOS_ID] = -INFINITY;
    for (int i = 0; i < search->job->num_sources; i++) /* a tag needs no logits */
        search->fused = search->fused && search->job->prefix_lens[i] <= options->num_tags;
    int rows_of_source = search->rows_per_source + (search->job->drafts ? MAX_AHEAD : 0);
    size_t rows = (size_t)search->max_sentences * rows_of_source, few = 2 * (size_t)options->beam_size;
    size_t candidates = options->sample ? vocab : search->rows_per_source * few;
    if (search->job->terms) candidates = 2 * search->rows_per_source * (few + MAX_FORMS);
    free(w->active);
    free(w->sentences);
    w->active = malloc(rows * sizeof *w->active);
    w->sentences = malloc(search->max_sentences * sizeof *w->sentences);
    w->num_sentences = 0;
    search->reductions = malloc(rows * sizeof(Reduction));
    search->candidates = malloc(candidates * sizeof(Candidate));
    search->top_scores = malloc(few * sizeof(float));
    search->top_ids = malloc(few * sizeof(int));
    search->probabilities = malloc((options->sample ? vocab : 1) * sizeof(double));
    return w->active && w->sentences && search->reductions && search->candidates && search->top_scores &&
           search->top_ids && search->probabilities;
}

Status run_job(Worker *worker, Job *job, int (*poll)(void *), void *context) {
    Search search = {.worker = worker, .job = job};
    worker->offer = job->is_helped ? &job->offer : NULL;
    worker->num_offered = worker->num_taken = 0;
    if (!job->is_helped) withdraw(&job->offer);
    Status status = start(&search) ? run(&search, poll, context) : OUT_OF_MEMORY;
    if (job->is_helped) job->is_helped = worker->offer && worker->num_taken * 4 >= worker->num_offered * 3;
    worker->offer = NULL;
    withdraw(&job->offer);
    for (int i = 0; i < worker->num_sentences; i++) free_sentence(worker, worker->sentences[i]);
    worker->num_sentences = 0;
    free(search.reductions);
    free(search.candidates);
    free(search.top_scores);
    free(search.top_ids);
    free(search.probabilities);
    return status;
}
