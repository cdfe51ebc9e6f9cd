"""Words, their alignment, and how sure the model is of them."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.apps.documents.details import explain
from nmt.base.languages import Direction
from nmt.translation import Glossary
from nmt.translation.segments import alignment
from tests.words import WORDS


@pytest.fixture(scope="module")
def letters(letters_run):
    return Translator.load(letters_run, device="cpu", precision="fp32")


def details_of(translator, text):
    direction = Direction("de", "en")
    (translation,) = translator.translate([text])
    return explain(translator, text, direction, translation), translation


def test_words_joined_are_the_texts_and_links_follow_the_attention(letters):
    found, translation = details_of(letters, " 12 345  67 ")
    assert "".join(found.source) == " 12 345  67 "
    assert "".join(found.target) == translation.text
    assert [word.strip() for word in found.source] == ["12", "345", "67"]
    segment = translation.segments[0]
    pairs = alignment(letters.cross_attention(segment, layer=-2), len(segment.tgt_ids))
    assert 0 < len(found.links) <= len(pairs)
    assert all(0 <= i < 3 and 0 <= j < len(found.target) for i, j in found.links)


def test_confidence_is_the_probability_of_the_least_probable_token_of_a_word(letters):
    found, translation = details_of(letters, "12 34")
    assert len(found.confidence) == len(found.target)
    assert all(0 <= share <= 1 for share in found.confidence)
    segment = translation.segments[0]
    (scores,) = letters.engine.score([segment.src_ids], [segment.tgt_ids])
    assert min(found.confidence) == pytest.approx(pytest.importorskip("math").exp(min(scores[:-1])), abs=1e-3)


def test_protected_spans_are_words_as_they_are_written(letters):
    found, translation = details_of(letters, "12 {name} 34")
    if translation.protected_translated_around:
        assert found is None
    else:
        assert "".join(found.source) == "12 {name} 34"
        assert "".join(found.target) == translation.text


def test_what_tokens_do_not_spell_has_no_details(letters):
    found, _ = details_of(letters, "\u20ac 5 \U0001f600")
    assert found is None or "".join(found.source) == "\u20ac 5 \U0001f600"


def test_annotated_terms_are_words_as_they_stand_in_the_text(words_run):
    text = f"{WORDS[0]} {WORDS[1]} {WORDS[2]}."
    glossary = Glossary(dict.fromkeys(WORDS[:3], "moon"))
    with Translator.load(words_run, device="cpu", precision="fp32") as translator:
        (translation,) = translator.translate([text], prefixes=[WORDS[0][::-1]], glossary=glossary)
        found = explain(translator, text, Direction("de", "en"), translation)
    assert found is not None
    assert [word.strip() for word in found.source] == [WORDS[0], WORDS[1], f"{WORDS[2]}."]
