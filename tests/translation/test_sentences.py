"""Lines of several sentences, texts without letters, and numbers: nothing that was typed vanishes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.config import SearchOptions
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation import LanguagePair, Translator
from nmt.translation.request import Request
from nmt.translation.retries import Retries
from nmt.translation.segments import untranslated
from nmt.translation.texts import TextSegmenter
from nmt.translation.verdicts import judge

LANGUAGES = LanguagePair("en", "de")
TWO = "I am here. You are there."
THREE = f"{TWO} They left!"
SINGLE = TextStatistics(pairs=100, src_sentences=[100], tgt_sentences=[100])


@pytest.fixture(scope="module")
def tokenizers(letters_run):
    return TokenizerPair.load(RunDir(letters_run).tokenizer)


@pytest.fixture(scope="module")
def reverse(digits_run):
    return Translator.load(digits_run, device="cpu")


def parts(tokenizers, text: str, split: str, statistics: TextStatistics | None, limit: int = 500) -> list[str]:
    segmenter = TextSegmenter(tokenizers, LANGUAGES, limit, statistics)
    (segmented,) = segmenter.segment([text], Request(SearchOptions(split=split)))
    return [text[segment.span.start : segment.span.end] for segment in segmented.segments]


@pytest.mark.parametrize(
    ("split", "counts", "of_two", "of_three"),
    [
        ("auto", [100], 2, 3),
        ("auto", [90, 10], 1, 3),
        ("auto", [90, 5, 5], 1, 1),
        ("auto", None, 2, 3),  # unknown, as in an imported model
        ("always", [90, 5, 5], 2, 3),
        ("long", [100], 1, 1),
        ("never", [100], 1, 1),
    ],
)
def test_a_line_is_split_if_it_has_more_sentences_than_the_model_knows(tokenizers, split, counts, of_two, of_three):
    known = counts and TextStatistics(pairs=100, src_sentences=counts, tgt_sentences=counts)
    assert len(parts(tokenizers, TWO, split, known)) == of_two
    assert len(parts(tokenizers, THREE, split, known)) == of_three
    assert len(parts(tokenizers, "I am here.", split, known)) == 1
    by_line = [] if split == "never" else ["I am here.", "You are there."]
    assert parts(tokenizers, TWO.replace(". ", ".\n"), split, known) == (by_line or [TWO.replace(". ", ".\n")])


def test_lines_beyond_the_limit_are_split_whatever_the_model_knows(tokenizers):
    known = TextStatistics(pairs=100, src_sentences=[0, 0, 100], tgt_sentences=[0, 0, 100])
    for split in ("auto", "long"):
        assert parts(tokenizers, THREE, split, known, limit=30) == ["I am here.", "You are there.", "They left!"]
    assert parts(tokenizers, THREE, "never", known, limit=30) == [THREE]


def test_a_span_ends_no_sentence_and_may_begin_one(tokenizers):
    text = "See http://a.org/b. It is here. {name} left it at x@y.org. Bye!"
    assert parts(tokenizers, text, "auto", SINGLE) == [
        "See http://a.org/b.",
        "It is here.",
        "{name} left it at x@y.org.",
        "Bye!",
    ]


@pytest.mark.parametrize("text", ["Two men ![img](a.png) walk.", "![img](a.png) Two", "Two (![img](a/b)) men."])
def test_the_name_of_a_picture_and_its_link_are_one(tokenizers, text):
    assert parts(tokenizers, text, "always", None) == [text]


def test_two_sentences_are_translated_as_each_alone_and_searched_together(reverse, monkeypatch):
    texts = ["12345. 6789!", "246? 1357!  86."]
    alone = {part: reverse.translate([part])[0] for text in texts for part in text.split()}
    batches = []
    search = reverse.engine.search
    monkeypatch.setattr(
        reverse.engine, "search", lambda sources, *rest: batches.append(len(sources)) or search(sources, *rest)
    )
    found = reverse.translate(texts)
    assert found[0].text == f"{alone['12345.'].text} {alone['6789!'].text}"
    assert found[1].text == f"{alone['246?'].text} {alone['1357!'].text}  {alone['86.'].text}"
    assert [done.num_segments for done in found] == [2, 3]
    assert max(batches) == 5
    assert found[0].score == pytest.approx(alone["12345."].score + alone["6789!"].score, abs=1e-3)


def without_digits(translator: Translator) -> Translator:
    """The same model, as if it had been trained on words."""
    return Translator(translator.tokenizers, translator.engine, LANGUAGES, translator.options, SINGLE)


@pytest.mark.parametrize(
    "text", ["42", " 3.4.2024\n", "€ 5.00", "🎉", "?!", "2 + 2 = 4", "%d", "{name} %s", "1. 2. 3."]
)
def test_a_text_without_letters_is_its_own_translation(reverse, text):
    (done,) = without_digits(reverse).translate([text])
    assert (done.text, done.num_segments, done.score, done.numbers_missed) == (text, 0, 0.0, [])
    (done,) = without_digits(reverse).translate([text], prefixes=["54"])
    assert done.text.strip().startswith("54 ")


def test_a_model_that_was_trained_on_digits_goes_on_translating_them(reverse):
    assert reverse.statistics.translates_numbers_alone
    assert not reverse.statistics.keeps_numbers
    (done,) = reverse.translate(["123"])
    assert (done.text, done.numbers_missed) == ("321", [])


def test_only_the_sentences_with_letters_are_searched(reverse):
    (done,) = without_digits(reverse).translate(["12! Ab 34. 56!"])
    assert done.num_segments == 1
    assert done.text.startswith("12! ")
    assert done.text.endswith(" 56!")


def test_lost_and_invented_numbers_are_flagged(reverse):
    (done,) = without_digits(reverse).translate(["a 123"])  # it turns digits round, so it changes each number
    assert "123" in done.numbers_missed
    assert reverse.translate(["a 123"])[0].numbers_missed == []


def test_a_hypothesis_with_the_right_numbers_is_preferred(tokenizers):
    segmenter = TextSegmenter(tokenizers, LANGUAGES, 100, SINGLE)
    (segmented,) = segmenter.segment(["in 1,000 days %d"], Request(SearchOptions()))
    (segment,) = segmented.segments
    segment.candidates = [judge(segment, untranslated("in 100 Tagen ⟦1⟧"))]
    assert segment.best.verdict.wrong_numbers == ["1000", "100"]
    others = [
        replace_ids(untranslated(text), number) for number, text in enumerate(("lost 1.000", "in 1.000 Tagen ⟦1⟧"))
    ]
    Retries(lambda segments, options: [others for _ in segments], tokenizers, SearchOptions()).run([segment])
    assert segment.best.text == "in 1.000 Tagen %d"  # the first of the others has lost the span
    assert segment.best.verdict.is_clean


def replace_ids(translation, number: int):
    return translation._replace(tgt_ids=[number])


def test_a_model_that_does_not_copy_placeholders_reads_the_spans_themselves(letters_run):
    loaded = Translator.load(letters_run, device="cpu")
    lossy = loaded.statistics.model_copy(update={"placeholders_copied": 0.1})
    translator = Translator(loaded.tokenizers, loaded.engine, loaded.languages, loaded.options, lossy)
    assert (loaded.segmenter.knows_placeholders, translator.segmenter.knows_placeholders) == (True, False)
    (done,) = translator.translate(["12 {name} 34 http://a.org/b."])
    assert done.protected_lost == []
    assert "{name}" in done.text
    assert "http://a.org/b" in done.text
    assert "⟦" not in done.text


def test_flags_of_a_text_do_not_depend_on_the_other_texts(reverse):
    texts = ["12. 34!", "a 123", "42", ""]
    together = without_digits(reverse).translate(texts)
    assert together == [without_digits(reverse).translate([text])[0] for text in texts]
    assert replace(together[0], text="") != together[0]
