"""What a model loses is searched for again; the words around protected spans are translated without them."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.text.spans import ANY_PLACEHOLDER
from nmt.translation.request import Request
from nmt.translation.retries import Retries
from nmt.translation.segments import untranslated
from nmt.translation.translation import put_together
from nmt.translation.verdicts import judge
from tests.letters import to_letters


@pytest.fixture(scope="module")
def letters(letters_run):
    return Translator.load(letters_run, device="cpu")


def around_spans(translator: Translator, text: str, prefix: str, tgt: str = "en"):
    """The translation of `text`, with `prefix`, by a search that spells every digit and loses every span."""
    tokenizers = translator.tokenizers

    def search(segments, options):
        found = []
        for each in segments:
            spelled = to_letters(ANY_PLACEHOLDER.sub("", tokenizers.src.decode(each.src_ids)))
            ids = [*each.prefix_ids, *tokenizers.tgt.encode(spelled)] if each.src_ids else []
            found.append([untranslated(tokenizers.tgt.decode(ids))._replace(src_ids=each.src_ids, tgt_ids=ids)])
        return found

    (segmented,) = translator.segmenter.segment([text], Request(SearchOptions(), prefix=prefix))
    (segment,) = segmented.segments
    segment.habits = segment.habits._replace(direction=Direction("de", tgt))
    segment.candidates = [judge(segment, found) for found in search([segment], SearchOptions())[0]]
    Retries(search, tokenizers, SearchOptions()).run([segment])
    assert segment.best.is_pieced
    return put_together(segmented)


@pytest.mark.parametrize(
    ("text", "prefix", "expected"),
    [
        ("{a} 12 {b}.", "ij.", "ij. {a} bc {b}."),
        ("{a} 12 {b}.", "ij. ", "ij. {a} bc {b}."),
        ("{a} {b} 12.", "ij.", "ij. {a} {b} bc."),
        (" {a} 12 34.", "ij", " ij {a} bc de."),
        ("{a} 12.", "", "{a} bc."),
    ],
)
def test_a_text_that_begins_with_a_lost_span_is_translated_after_its_prefix(letters, text, prefix, expected):
    found = around_spans(letters, text, prefix)
    assert (found.text, found.protected_lost) == (expected, [])


def test_a_lost_span_after_words_leaves_the_prefix_to_the_search(letters):
    assert around_spans(letters, "12 {a} 34.", "ij").text == "ij bc {a} de."


def test_no_space_follows_the_prefix_in_languages_without_spaces(letters):
    assert around_spans(letters, "{a} 12.", "我", "zh").text == "我{a} bc."
    assert around_spans(letters, "http://a.org 12.", "ij", "zh").text == "ij http://a.org bc."


def test_a_text_of_spans_alone_follows_its_prefix(letters):
    texts = ["{a} <b>", " {a}\n12.", "{a}", "{a}", " "]
    found = letters.translate(texts, prefixes=["ij.", "ij. ", "", "\ud800i", "ij"])
    alone = letters.translate(["12."])[0].text
    assert [each.text for each in found] == ["ij. {a} <b>", f" ij. {{a}}\n{alone}", "{a}", "i {a}", ""]
    assert [each.protected_lost for each in found] == [[]] * 5


def test_an_output_that_two_searches_find_is_judged_once(letters, monkeypatch):
    tgt = letters.tokenizers.tgt
    judged = []
    monkeypatch.setattr("nmt.translation.verdicts.find_loop", lambda output, source: judged.append(tgt.decode(output)))

    def search(segments, options):
        outputs = ["b", "c", "bc"][: options.num_hypotheses]
        return [[untranslated(text)._replace(tgt_ids=tgt.encode(text)) for text in outputs] for _ in segments]

    (segmented,) = letters.segmenter.segment(["1"], Request(SearchOptions()))
    (segment,) = segmented.segments
    first = judge(segment, search([segment], SearchOptions())[0][0])
    segment.candidates = [first._replace(verdict=first.verdict._replace(wrong_numbers=["1"]))]
    Retries(search, letters.tokenizers, SearchOptions()).run([segment])
    assert judged == ["b", "c", "bc"]
    assert segment.best.text == "c"
