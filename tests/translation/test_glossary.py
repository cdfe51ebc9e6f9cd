"""Translations with a glossary: what is required, where it is written, and what is checked."""

from __future__ import annotations

import logging
import random
import shutil

import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.read.pairs import SentencePair
from nmt.data.store.store import CorpusCounts, build_store
from nmt.data.text.glossary import Term
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine
from nmt.translation import Glossary
from nmt.translation.request import Request
from tests.letters import to_letters
from tests.words import WORDS

ONE, TWO, THREE, *_ = WORDS

needs_native = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(words_run, request):
    return Translator.load(words_run, engine=request.param, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def without_terms(digits_run):
    """A model that was trained without terms."""
    return Translator.load(digits_run, device="cpu", precision="fp32")


def test_a_glossary_is_followed_without_a_change_of_the_source(words_run):
    with Translator.load(words_run, device="cpu", precision="fp32") as translator:
        (found,) = translator.translate([f"{ONE} {TWO}"], glossary=Glossary({ONE: WORDS[9][::-1]}))
        assert translator.tokenizers.src.decode(found.src_ids) == f"{ONE} {TWO}"
        assert (found.num_terms, found.terms_missed) == (1, [])


def test_terms_that_the_model_does_not_use_are_flagged(words_run):
    translator = Translator.load(words_run, engine="torch", device="cpu", precision="fp32")
    (found,) = translator.translate([f"{ONE} {TWO} {ONE}"], glossary=Glossary({ONE: "xyzzy"}))
    assert (found.num_terms, found.terms_missed) == (2, [Term(ONE, "xyzzy")] * 2)


def test_a_text_without_terms_is_translated_as_without_a_glossary(translator):
    texts = [f"{TWO} {THREE}.", "", "  "]
    assert translator.translate(texts, glossary=Glossary({ONE: "moon"})) == translator.translate(texts)


def test_a_batch_of_one_gives_what_a_batch_of_many_gives(translator):
    draw, glossary = random.Random(1), Glossary({word: word[::-1] for word in WORDS[:20]})
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) for _ in range(32)]
    many = translator.translate(texts, glossary=glossary)
    assert sum(each.num_terms for each in many) > 15
    alone = [translator.translate([text], glossary=glossary)[0] for text in texts]
    assert [(each.text, each.tgt_ids, each.terms_missed) for each in alone] == [
        (each.text, each.tgt_ids, each.terms_missed) for each in many
    ]


def test_a_long_text_is_split_outside_of_its_terms(translator):
    glossary = Glossary({f"{ONE}. {TWO}": "moon"})
    text = " ".join([f"{THREE} {ONE}. {TWO} {THREE}."] * 12)
    (found,) = translator.translate([text], glossary=glossary)
    assert found.num_segments > 1
    assert found.num_terms == 12
    assert all(len(segment.src_ids) < translator.max_src_len for segment in found.segments)


def test_a_better_hypothesis_is_sought_where_a_term_is_missed(without_terms):
    """The second-best translation of a model without terms has the one of the glossary."""
    options = without_terms.options.changed(beam_size=5, num_hypotheses=5)
    (ranked,) = without_terms.translate(["123456"], options)
    second = ranked.alternatives[0].text
    (found,) = without_terms.translate(["123456"], glossary=Glossary({"123456": second}))
    assert (found.text, found.terms_missed) == (second, [])


@needs_native
def test_a_model_without_terms_is_made_to_use_them(without_terms):
    texts = ["12 34", "9 1234", "56 12 7 12", "5"]
    glossary = Glossary({"12": "77", "34": "x", "56": "19"})
    plain, found = without_terms.translate(texts), without_terms.translate(texts, glossary=glossary)
    assert [each.terms_missed for each in found] == [[]] * 4
    assert ["77" in each.text.split() for each in found] == [True, False, True, False]
    assert [found[0].text.lower().count("x"), found[2].text.split().count("77")] == [1, 2]
    assert (found[1], found[3]) == (plain[1], plain[3])


@needs_native
def test_terms_are_required_alike_in_any_batch_and_by_any_search(without_terms):
    draw = random.Random(2)
    texts = [" ".join(str(draw.randrange(1, 99)) for _ in range(draw.randint(1, 2))) for _ in range(30)]
    glossary = Glossary({str(number): str(110 - number) for number in range(20, 80)})
    for options in ({}, {"beam_size": 4, "num_hypotheses": 3}, {"sample": True}):
        changed = without_terms.options.changed(**options)
        many = without_terms.translate(texts, changed, glossary=glossary)
        assert [each.terms_missed for each in many] == [[]] * 30
        assert many == [without_terms.translate([text], changed, glossary=glossary)[0] for text in texts]


def test_a_term_that_no_token_spells_is_flagged(digits_run, tmp_path):
    with Translator.load(digits_run, device="cpu", precision="fp32") as translator:
        term = Term("12", "1 " * 45 + "1")  # longer than an output may be
        (found,) = translator.translate(["12"], glossary=Glossary([term]))
    assert found.terms_missed == [term]
    assert found.text


def test_a_model_without_terms_is_warned_of_once_by_an_engine_that_cannot_require_them(digits_run, caplog):
    loaded = Translator.load(digits_run, engine="torch", device="cpu", precision="fp32")
    with caplog.at_level(logging.WARNING), loaded as translator:
        found = [translator.translate(["12 34"], glossary=Glossary({"12": "x"}))[0] for _ in range(2)]
    assert translator.tokenizers.src.decode(found[0].src_ids) == "12 34"
    assert len([message for message in caplog.messages if "only the native engine can require terms" in message]) == 1


def test_protected_spans_and_tags_are_no_terms(letters_run):
    with Translator.load(letters_run, device="cpu", precision="fp32") as translator:
        (found,) = translator.translate(["12 http://a.org/34 {name}"], glossary=Glossary({"34": "x", "name": "x"}))
    assert (found.num_terms, found.protected_lost) == (0, [])


@pytest.fixture(scope="module")
def letters_with_lexicon(letters_run, tmp_path_factory):
    """A model that spells digits as letters, with a lexicon of them, and not trained with terms."""
    folder = tmp_path_factory.mktemp("letters")
    run = RunDir(shutil.copytree(letters_run, folder / "run"))
    tokenizers, draw = TokenizerPair.load(run.tokenizer), random.Random(4)
    sources = [" ".join(draw.sample("0123456789", 5)) for _ in range(300)]
    pairs = (SentencePair(source, to_letters(source), 1) for source in sources)
    store = build_store(folder / "store", pairs, tokenizers, CorpusCounts())
    TermLexicon.learn(store).save(run.lexicon, tokenizers)
    with Translator.load(run, engine="native", device="cpu", precision="fp32") as translator:
        yield translator


@needs_native
def test_a_missing_term_takes_the_place_of_the_words_that_translate_it(letters_with_lexicon):
    translate = letters_with_lexicon.translate
    for terms in ({"2": "7"}, {"1": "x"}, {"3": "7"}, {"1": "77", "3": "9"}):
        expected = [terms.get(digit, to_letters(digit)) for digit in "123"]
        (found,) = translate(["1 2 3"], glossary=Glossary(terms))
        assert (found.text.casefold().split(), found.terms_missed) == (expected, []), terms
        assert found.terms_misplaced == []
    (found,) = translate(["1 2 3"], glossary=Glossary({"1": "c", "2": "b", "3": "a"}))
    assert (found.text, found.terms_misplaced) == ("b c a", ["1 = c", "2 = b"])
    options = letters_with_lexicon.options.changed(num_hypotheses=2, beam_size=2)
    (found,) = translate(["1 2 3"], options, glossary=Glossary({"2": "7"}))
    assert (found.text, len(found.alternatives)) == ("b 7 d", 1)


@needs_native
def test_terms_in_place_of_others_are_the_same_in_a_batch_and_alone(letters_with_lexicon):
    draw, glossary = random.Random(2), Glossary({"2": "7", "5": "x y", "9": "z"})
    texts = [" ".join(draw.choices("0123456789", k=draw.randint(1, 5))) for _ in range(9)]
    together = letters_with_lexicon.translate(texts, glossary=glossary)
    assert [letters_with_lexicon.translate([text], glossary=glossary)[0] for text in texts] == together


@needs_native
def test_a_prefix_stays_and_a_term_that_it_replaces_is_required_elsewhere(letters_with_lexicon):
    (found,) = letters_with_lexicon.translate(["1 2 3"], prefixes=["b c"], glossary=Glossary({"2": "7"}))
    assert found.text.startswith("b c")
    assert "7" in found.text.split()
    assert found.terms_misplaced == ["2 = 7"]


@needs_native
def test_a_term_is_misplaced_where_its_source_is_linked_to_other_words(letters_with_lexicon):
    (found,) = letters_with_lexicon.translate(["1 2 3"])
    request = Request(letters_with_lexicon.options, glossary=Glossary({"2": "d", "3": "d", "1": "q"}))
    (segment,) = letters_with_lexicon.segment(["1 2 3"], request)[0].segments
    misplaced = letters_with_lexicon.lexicon.misplaced_terms(segment, found.segments[0])
    tokens = letters_with_lexicon.tokenizers.tgt.tokens(found.tgt_ids)
    assert [("".join(tokens[i] for i in places), term) for places, *term in misplaced] == [
        ("▁b", [Term("1", "q"), False]),
        ("▁c", [Term("2", "d"), True]),
    ]


@pytest.fixture(scope="module", params=["native", "torch"])
def letters_without_spaces(letters_run, tmp_path_factory, request):
    """The same model, as if its target language were written without spaces."""
    run = RunDir(shutil.copytree(letters_run, tmp_path_factory.mktemp("letters") / "run"))
    tokenizers, draw = TokenizerPair.load(run.tokenizer), random.Random(4)
    sources = [" ".join(draw.sample("0123456789", 5)) for _ in range(300)]
    pairs = (SentencePair(source, to_letters(source), 1) for source in sources)
    TermLexicon.learn(build_store(run.path / "store", pairs, tokenizers, CorpusCounts())).save(run.lexicon, tokenizers)
    text = run.config_file.read_text("utf-8")
    run.config_file.write_text(text.replace("tgt_lang: en", "tgt_lang: th"), "utf-8")
    with Translator.load(run, engine=request.param, device="cpu", precision="fp32") as translator:
        yield translator


@needs_native
def test_a_missing_term_is_written_over_its_word_in_a_language_without_spaces(letters_without_spaces):
    translate = letters_without_spaces.translate
    (plain,) = translate(["1 2 3"])
    (found,) = translate(["1 2 3"], glossary=Glossary({"2": "คำ", "3": "งาน"}))
    assert (found.text, found.terms_missed, found.terms_misplaced) == ("b คำ งาน", [], [])
    tokens = letters_without_spaces.tokenizers.tgt
    assert tokens.decode(found.tgt_ids) == found.text
    assert len(found.token_scores) == len(found.tgt_ids) + 1
    assert found.score == pytest.approx(sum(found.token_scores))
    assert plain.token_scores[0] == found.token_scores[0]


@needs_native
def test_what_cannot_be_placed_is_flagged_and_the_translation_stays(letters_without_spaces):
    translate = letters_without_spaces.translate
    (plain,) = translate(["1 x 3"])
    (found,) = translate(["1 x 3"], glossary=Glossary({"x": "คำ"}))
    assert (found.text, found.terms_missed) == (plain.text, [Term("x", "คำ")])


@needs_native
def test_a_written_term_stays_out_of_the_prefix(letters_without_spaces):
    (found,) = letters_without_spaces.translate(["1 2 3"], prefixes=["b c"], glossary=Glossary({"2": "คำ"}))
    assert found.text.startswith("b c")
    assert found.terms_missed == [Term("2", "คำ")]


@needs_native
def test_without_a_lexicon_a_term_is_only_required(letters_run):
    with Translator.load(letters_run, engine="native", device="cpu", precision="fp32") as translator:
        (found,) = translator.translate(["1 2 3"], glossary=Glossary({"2": "7"}))
    assert (found.terms_missed, found.terms_misplaced) == ([], [])
