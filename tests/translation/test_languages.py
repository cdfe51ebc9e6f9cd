"""The tag of a language stands before everything that the model reads, and in nothing that a person sees."""

from __future__ import annotations

import pytest

from nmt.artifacts.rundir import RunDir
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.languages import LanguagePair
from nmt.translation.request import Request
from nmt.translation.retries import Retries
from nmt.translation.segments import untranslated
from nmt.translation.texts import TextSegmenter
from nmt.translation.verdicts import judge

LANGUAGES = LanguagePair(
    "de", "en", ("<x>", "<2en>", "<2fr>"), (Direction("de", "en"), Direction("zh", "fr"), Direction("de", "fr"))
)
LIMIT = 24
OF_DIGITS = TextStatistics(pairs=1, src_sentences=[1], tgt_sentences=[1], without_letters=1)


@pytest.fixture(scope="module")
def tokenizers(letters_run):
    """Tokenizers that know placeholders and tags."""
    return TokenizerPair.load(RunDir(letters_run).tokenizer).with_symbols(["<x>", "<2en>", "<2fr>"])


@pytest.fixture(scope="module")
def segmenter(tokenizers):
    return TextSegmenter(tokenizers, LANGUAGES, LIMIT, OF_DIGITS)


def sources(segmenter, text, options=SearchOptions(), to="fr"):  # noqa: B008 (nobody changes it)
    (segmented,) = segmenter.segment([text], Request(options, to=to))
    return [segmenter.tokenizers.src.decode(segment.src_ids) for segment in segmented.segments]


def test_a_direction_is_the_first_one_learned_into_that_language_unless_its_source_is_named():
    assert LANGUAGES.direction("fr") == ("zh", "fr")
    assert LANGUAGES.direction("fr", "de") == ("de", "fr")
    assert LANGUAGES.direction("en", "zh") == ("zh", "en")  # not trained, but of known languages
    assert LANGUAGES.direct("12", "fr", "de") == ("12", ("de", "fr"), "<2fr> ")


@pytest.mark.parametrize("text", ["  <2fr> 12", " <2fr>12", " 12"])
def test_white_space_before_a_text_stays_before_it(text):
    assert LANGUAGES.direct(text, "fr").text.strip() == "12"
    assert LANGUAGES.direct(text, "fr").text[0] == " "


def test_every_segment_of_a_text_begins_with_the_tag_and_is_within_the_limit(segmenter):
    text = "12345. 6789! " * 6
    found = sources(segmenter, text)
    assert len(found) > 3
    assert all(source.startswith("<2fr> ") for source in found)
    assert " ".join(source.removeprefix("<2fr> ") for source in found).split() == text.split()
    (segmented,) = segmenter.segment([text], Request(SearchOptions(), to="fr"))
    assert all(len(segment.src_ids) < LIMIT for segment in segmented.segments)
    assert [source[:8] for source in sources(segmenter, "<x> " + text)] == ["<2fr> <x"] * len(found)
    assert sources(segmenter, "12", SearchOptions(split="never")) == ["<2fr> 12"]


def test_a_blank_text_has_no_segment_and_one_target_language_no_tag(segmenter, tokenizers):
    assert sources(segmenter, " ", to=None) == []
    one = LanguagePair("de", "en", ("<x>",))
    (segmented,) = TextSegmenter(tokenizers, one, LIMIT).segment(["12"], Request(SearchOptions()))
    assert tokenizers.src.decode(segmented.segments[0].src_ids) == "12"


@pytest.mark.parametrize(("symbols", "expected"), [("", ""), ("<x> ", "<x> ")])
def test_text_between_protected_spans_is_translated_with_the_tag_before_each_stretch(segmenter, symbols, expected):
    (text,) = segmenter.segment([f"{symbols}12 {{a}} 34 {{b}}"], Request(SearchOptions(), to="fr"))
    (segment,) = text.segments
    asked = []

    def losing_every_span(segments, options):
        asked.extend(segmenter.tokenizers.src.decode(each.src_ids) for each in segments)
        return [[untranslated("")] for _ in segments]

    segment.candidates = [judge(segment, untranslated("lost"))]
    Retries(losing_every_span, segmenter.tokenizers, SearchOptions()).run([segment])
    assert asked[-3:] == [f"<2fr> {symbols}12", f"<2fr> {expected}34", ""]
