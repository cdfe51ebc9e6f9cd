"""Texts come in with characters that only look like those of the training text, and with symbols around them."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from nmt import Translator
from nmt.config import SearchOptions
from nmt.data.text.characters import list_marker
from nmt.data.text.glossary import Glossary
from nmt.data.text.text_statistics import UNKNOWN
from nmt.translation.languages import LanguagePair
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.texts import TextSegmenter
from nmt.translation.word_links import explain
from tests.stored import MODELS


@pytest.fixture(scope="module")
def translator():
    with Translator.load(MODELS / "words", device="cpu", precision="fp32") as loaded:
        yield loaded


@pytest.fixture(scope="module")
def text() -> str:
    return (MODELS / "words" / "data" / "test.src").read_text(encoding="utf-8").split("\n")[0]


def translated(translator: Translator, *texts: str) -> list[str]:
    return [found.text for found in translator.translate(texts)]


def test_marks_that_nobody_sees_and_unusual_spaces_change_no_translation(translator, text):
    (plain,) = translated(translator, text)
    changed = [
        "\ufeff" + text,
        text.replace(" ", "\u00a0"),
        text.replace(" ", "  "),
        text.replace(" ", " \u00a0 "),
        text.replace(" ", "\u2009"),
        text[:2] + "\u00ad" + text[2:],
        text[:2] + "\u200b" + text[2:],
        "\u200e" + text + "\u200f",
        "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in text),
    ]
    assert translated(translator, *changed) == [plain] * len(changed)


def test_symbols_and_brackets_around_a_text_stay_around_its_translation(translator, text):
    (plain,) = translated(translator, text)
    around = [
        "♪ {} ♪",
        "({})",
        "[{}]",
        "✓ {}",
        "• {}",
        "→ {}",
        "© {}",
        "{} 😀👍🏽",
        "{} 👨\u200d👩\u200d👧",
        "♪ ({}) ♪",
    ]
    assert translated(translator, *(frame.format(text) for frame in around)) == [f.format(plain) for f in around]


@pytest.mark.parametrize("model", ["words", "letters"])
@pytest.mark.parametrize(
    "frame",
    ["{0} ❤ {1}", "♪ {0} ♪ {1} ♪", "(♪ {0} → {1})", "{0} ⟪name⟫ {1} 👍🏽", "🐱 {0}, 🐶 {1} 🐱", "{0} + {1} = ★"],
)
def test_a_symbol_within_a_sentence_is_kept_or_reported_as_often_as_it_is_there(model, frame, text):
    half = len(text.split()) // 2
    written = frame.format(" ".join(text.split()[:half]), " ".join(text.split()[half:]))
    with Translator.load(MODELS / model, device="cpu", precision="fp32") as translator:
        (found,) = translator.translate([written])
    for symbol in ("❤", "♪", "→", "⟪name⟫", "👍🏽", "🐱", "🐶", "+", "=", "★"):
        assert found.text.count(symbol) == written.count(symbol) or symbol in found.protected_lost, (symbol, found.text)


def test_a_line_between_unusual_brackets_is_translated_within_them(translator, text):
    (plain,) = translated(translator, text)
    assert translated(translator, f"⟪{text}⟫", "⟪name⟫", "♪ ★") == [f"⟪{plain}⟫", "⟪name⟫", "♪ ★"]


def test_symbols_stay_around_each_sentence_and_in_an_n_best_list(translator, text):
    (first,) = translated(translator, text)
    assert translated(translator, f"♪ {text} ♪\n\n• {text}\n") == [f"♪ {first} ♪\n\n• {first}\n"]
    (found,) = translator.translate([f"✓ {text}"], SearchOptions(beam_size=3, num_hypotheses=3))
    assert all(each.text.startswith("✓ ") for each in (found, *found.alternatives))


@pytest.mark.parametrize("marker", ["1. ", "12) ", "2.1. ", "(a) ", "iv. ", "- ", "– "])
def test_the_marker_of_a_list_is_put_before_an_output_without_it(translator, text, marker):
    (segmented,) = translator.segment([marker + text], Request(SearchOptions()))
    (segment,) = segmented.segments
    assert segment.frame.around("out") == f"{marker}out"
    assert segment.frame.around(f"{marker}out") == f"{marker}out"
    assert segment.frame.around("") == ""
    assert segment.frame.around("out 121210") == f"{marker}out 121210"  # a part of a number is none
    (found,) = translated(translator, marker + text)
    assert found.startswith(marker) or marker.strip("(). ") in found


@pytest.mark.parametrize("text", ["A. Haus", "3.5 Haus", "-5 Haus", "I. Haus", "Haus 1. Hund", "1."])
def test_what_only_looks_like_the_marker_of_a_list_is_none(text):
    assert list_marker(text) == ""


def test_a_symbol_that_a_model_has_seen_and_lost_is_put_back(translator, text):
    (segmented,) = translator.segment([f"♪ {text}"], Request(SearchOptions()))
    (segment,) = segmented.segments
    segment.frame = segment.frame._replace(is_hidden=False)
    assert segment.frame.around("out") == "♪ out"
    assert segment.frame.around("out ♪") == "out ♪"


def test_the_words_of_the_source_are_those_of_the_text_as_it_is_written(translator, text):
    written = "♪ " + text[:2] + "\u00ad" + text[2:].replace(" ", "\u00a0") + " ♪"
    (segmented,) = translator.segment([written], Request(SearchOptions()))
    ((alone, _),) = segmented.separate()
    assert alone.text == written
    (found,) = translator.translate_segmented([alone], Request(SearchOptions()))
    details = explain(translator, alone.text, alone.direction, found)
    assert details is not None
    assert "".join(details.source) == written
    assert "".join(details.target) == found.text


def test_protected_spans_and_texts_without_letters_stay_as_they_are_written(translator, text):
    span = "{n1}"
    written = f"{text[:2]}\u00ad{text[2:]} \u200b{span}"
    (segmented,) = translator.segment([written], Request(SearchOptions(split="never")))
    (segment,) = segmented.segments
    assert segment.protected.spans == [span]
    assert segment.protected.between == [f"{text} ", ""]
    assert [written[slice(*found)] for found in segmented.spans or []] == [span]
    assert translated(translator, "１２\u00a0€", "\u200b", "10\u202f000") == ["１２\u00a0€", "\u200b", "10\u202f000"]


def test_terms_and_memories_know_their_sources_in_any_spelling(translator):
    decomposed = unicodedata.normalize("NFD", "Mädchen")
    assert [match.term.target for match in Glossary({"Mä\u00addchen": "girl"}).find("Mädchen")] == ["girl"]
    assert [match.term.target for match in Glossary({decomposed: "girl"}).find("Mädchen")] == ["girl"]
    memory = TranslationMemory([(f"Ein {decomposed}.", "A\u00a0girl.")])
    found = memory.find("Ein\u00a0Mädchen.")
    assert found is not None
    assert (found.target, found.similarity) == ("A\u00a0girl.", 1.0)


def test_a_new_model_reads_by_the_rule_and_an_old_one_what_it_has_learned(translator):
    pair = LanguagePair("de", "en", characters="normalized")
    assert TextSegmenter(translator.tokenizers, pair, 100).characters.learned == frozenset()
    learned = translator.segmenter.characters.learned
    assert translator.languages.characters == "as_written"
    assert learned.issuperset(translator.tokenizers.src.vocabulary[-1].replace("▁", " "))


def test_forced_scores_are_of_the_text_as_it_is_read(translator, text):
    (plain,) = translator.score([text], ["x"])
    (other,) = translator.score([text.replace(" ", "\u00a0")], ["\ufeffx"])
    assert other == plain


def test_a_decomposed_text_has_the_flags_and_features_of_the_composed_one(translator):
    texts = [unicodedata.normalize(form, "élève Élodie à côté eins zwei") for form in ("NFC", "NFD")]
    composed, decomposed = translator.translate(texts)
    assert composed.without_spans == decomposed.without_spans
    assert (composed.text, composed.features, composed.flags) == (
        decomposed.text,
        decomposed.features,
        decomposed.flags,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda word: "\u00ad".join(word),
        lambda word: "\u200b".join(word),
        lambda word: f"{word[0]}\u2060{word[1:]}\ufeff",
        lambda word: "".join(chr(ord(c) + 0xFEE0) for c in word),
        lambda word: "".join(chr(ord(c) - ord("a") + 0x1D41A) for c in word),
    ],
    ids=["soft hyphens", "zero-width spaces", "joiners and marks", "full width", "bold letters of formulas"],
)
@pytest.mark.parametrize("space", [" ", "\u00a0", "\u3000"])
def test_what_is_flagged_is_the_text_as_the_model_reads_it(translator, change, space):
    statistics = UNKNOWN.model_copy(update={"words": ["eins zwei drei vier", "acht"], "usual_octave": 0.5})
    words = ["eins", "zwei", "drei", "vier", "acht"]
    for text in (" ".join(words), "⟪eins⟫ zwei M. drei", "vitamin C vier"):
        written = space.join(change(word) if word in words else word for word in text.split(" "))
        plain, other = (replace(found, statistics=statistics) for found in translator.translate([text, written]))
        assert (other.text, other.flags, other.without_spans) == (plain.text, plain.flags, plain.without_spans)
