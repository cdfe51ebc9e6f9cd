"""Beam search that must find terms, beside a plain one that recomputes everything; and the same bits in any batch."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.data.store.batching import collate_sources
from nmt.decoding.engines import native_engine
from tests.decoding.engines.native import TGT_VOCAB, Random, random_ids, random_model
from tests.decoding.naive import NEVER, log_probs_after

pytestmark = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")

SOURCES = random_ids(23, longest=12)
BOUNDARIES = bytes(token % 3 > 0 or token <= EOS_ID for token in range(TGT_VOCAB))
BEAM = SearchOptions(beam_size=5, num_hypotheses=5, max_len_factor=1.0, max_len_offset=14)
Terms = list[list[list[int]]]  # of a source: the forms of each


def random_terms(count: int, seed: int = 5) -> list[Terms]:
    draw = random.Random(seed)

    def form() -> list[int]:
        return [draw.randrange(4, TGT_VOCAB) for _ in range(draw.randint(1, 3))]

    return [[[form() for _ in range(draw.randint(1, 2))] for _ in range(draw.randint(0, 3))] for _ in range(count)]


def written(terms: Sequence[Terms]) -> tuple[list[list[int]], bytes]:
    """As the engine takes them."""
    lists = [
        [each for number, forms in enumerate(of_source) for form in forms for each in (number, len(form), *form)]
        for of_source in terms
    ]
    return lists, BOUNDARIES


def has_term(ids: Sequence[int], forms: Sequence[Sequence[int]]) -> bool:
    """Whether one of the forms is in `ids`, and no word goes on behind it."""
    padded = [*ids, EOS_ID]
    return any(
        padded[i : i + len(form)] == form and BOUNDARIES[padded[i + len(form)]]
        for form in forms
        for i in range(len(ids) - len(form) + 1)
    )


@pytest.fixture(scope="module")
def model() -> Random:
    made = random_model(output_bias=True)
    with torch.no_grad():
        made.model.output_proj.bias[EOS_ID] += 9.0  # so that outputs end
    return made


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_finished_outputs_have_all_terms_and_their_scores_are_those_of_the_model(model, precision):
    engine, terms = model.native(precision), random_terms(len(SOURCES))
    found = engine.search(SOURCES, BEAM, terms=written(terms))
    finished = [(i, h) for i, outputs in enumerate(found) for h in outputs if h.finished]
    assert len(finished) > len(SOURCES)
    for i, hypothesis in finished:
        assert [forms for forms in terms[i] if not has_term(hypothesis.ids, forms)] == []
    scores = engine.score([SOURCES[i] for i, _ in finished], [h.ids for _, h in finished])
    for (_, hypothesis), expected in zip(finished, scores, strict=True):
        assert hypothesis.token_scores == pytest.approx(expected, abs=1e-4)


def test_sources_without_terms_have_the_outputs_of_the_ordinary_search(model):
    engine, terms = model.native(), random_terms(len(SOURCES))
    terms[::2] = [[]] * len(terms[::2])
    plain, found = engine.search(SOURCES, BEAM), engine.search(SOURCES, BEAM, terms=written(terms))
    assert found[::2] == plain[::2]
    assert found[1::2] != plain[1::2]


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_outputs_do_not_depend_on_the_batch_or_on_threads(model, precision):
    terms = random_terms(len(SOURCES))
    one, three = model.native(precision, num_threads=1), model.native(precision, num_threads=3)
    together = one.search(SOURCES, BEAM, terms=written(terms))
    alone = [one.search([s], BEAM, terms=written([t]))[0] for s, t in zip(SOURCES, terms, strict=True)]
    assert together == alone
    assert together == three.search(SOURCES, BEAM, terms=written(terms))


def test_the_search_is_the_plain_one_without_a_cache(model):
    terms = random_terms(len(SOURCES))
    found = model.native().search(SOURCES, BEAM, terms=written(terms))
    for source, of_source, hypotheses in [*zip(SOURCES, terms, found, strict=True)][:7]:
        if of_source:
            expected = naive_search(model, source, of_source, BEAM)
            assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-3)


class Progress:
    """How far an output has come with its terms."""

    def __init__(self, terms: Terms, met: frozenset[int] = frozenset(), form: Sequence[int] = (), of: int = -1):
        self.terms, self.met, self.form, self.of = terms, met, form, of  # form: the tokens so far

    @property
    def is_complete(self) -> bool:
        return self.of >= 0 and list(self.form) == self.whole

    def forms(self, matched: Sequence[int], met: frozenset[int]) -> list[tuple[int, list[int]]]:
        """The forms of open terms that begin with `matched` and go on."""
        every = [(n, form) for n, forms in enumerate(self.terms) for form in forms if n not in met]
        return [(n, form) for n, form in every if len(form) > len(matched) and form[: len(matched)] == list(matched)]

    def after(self, token: int) -> Progress:
        met, form = self.met, self.form
        if self.is_complete and BOUNDARIES[token]:
            met, form = met | {self.of}, ()
        for matched in (form, ()):
            for number, whole in self.forms(matched, met):
                if whole[len(matched)] == token:
                    made = Progress(self.terms, met, [*matched, token], number)
                    made.whole = whole
                    return made
        return Progress(self.terms, met)

    whole: Sequence[int] = ()

    @property
    def at_end(self) -> frozenset[int]:
        return self.met | ({self.of} if self.is_complete else set())

    def forced(self) -> list[int]:
        matched = () if self.is_complete else self.form
        return [form[len(matched)] for n, form in self.forms(matched, self.met) if matched or n not in self.at_end]

    def bank(self, width: int) -> int:
        needed = [min(map(len, forms)) for forms in self.terms]
        found = sum(needed[n] for n in self.met) + (min(len(self.form), needed[self.of]) if self.form else 0)
        return found * min(width, sum(needed) + 1) // (sum(needed) + 1)


def naive_search(
    model: Random, source: list[int], terms: Terms, options: SearchOptions
) -> list[tuple[list[int], float]]:
    """Return ids and scores, best first."""
    src, width, limit = collate_sources([source], 80), options.beam_size, options.max_len(len(source) + 1)
    live, ended = [([], 0.0, Progress(terms))], []
    for step in range(limit):
        candidates = []
        after = log_probs_after([model.model], src, *(ids for ids, _, _ in live)).double()
        for (ids, score, progress), log_probs in zip(live, after, strict=True):
            log_probs[:EOS_ID] = NEVER
            if len(progress.at_end) < len(terms):
                log_probs[EOS_ID] = NEVER
            best = log_probs.topk(2 * width).indices.tolist()
            tokens = dict.fromkeys([*best, *progress.forced()])
            candidates += [(score + float(log_probs[t]), ids, t, progress.after(t)) for t in tokens]
        candidates.sort(key=lambda candidate: -candidate[0])
        banks = [[c for c in candidates if c[3].bank(width) == bank] for bank in range(width)]
        turns = []
        while len(turns) < 2 * width and any(banks):
            turns += [bank.pop(0) for bank in reversed(banks) if bank]
        turns = turns[: 2 * width]
        is_last = step == limit - 1
        for score, ids, token, _ in turns[:width]:
            if token == EOS_ID or is_last:
                whole = ids if token == EOS_ID else [*ids, token]
                ended.append((whole, score, score / (len(ids) + 1)))
        if is_last or len(ended) >= width:
            break
        live = [([*ids, token], score, progress) for score, ids, token, progress in turns if token != EOS_ID][:width]
    ended.sort(key=lambda each: -each[2])
    return [(ids, score) for ids, score, _ in ended[: options.num_hypotheses]]


@pytest.mark.parametrize(
    ("terms", "options", "message"),
    [
        (([[0, 1, 4]] * 2, BOUNDARIES), {}, "not as many lists"),
        (([[0, 1, 4]], BOUNDARIES[1:]), {}, "not as many boundaries"),
        (([[0, 2, 4]], BOUNDARIES), {}, "these are no terms"),
        (([[1, 1, 4]], BOUNDARIES), {}, "these are no terms"),
        (([[0, 1, TGT_VOCAB]], BOUNDARIES), {}, "these are no terms"),
        (([[0, 1, EOS_ID]], BOUNDARIES), {}, "these are no terms"),
        (([[0, 0]], BOUNDARIES), {}, "these are no terms"),
        (([[0, 1, 4] * 65], BOUNDARIES), {}, "these are no terms"),
        (([[each for n in range(33) for each in (n, 1, 4)]], BOUNDARIES), {}, "these are no terms"),
        (([[0, 1, 4]], BOUNDARIES), {"beam_size": 1, "num_hypotheses": 1}, "only beam search"),
        (([[0, 1, 4]], BOUNDARIES), {"beam_size": 65}, "only beam search"),
    ],
)
def test_terms_that_make_no_sense_are_refused(model, terms, options, message):
    with pytest.raises(ValueError, match=message):
        model.native().search([[5, 6]], BEAM.changed(**options), terms=terms)
