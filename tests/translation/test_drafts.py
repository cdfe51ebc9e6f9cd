"""Drafts: the translation of an earlier version of a text makes its search faster, and changes nothing."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.base.errors import DataError
from nmt.config import SearchOptions
from nmt.translation.drafts import Drafts


@pytest.fixture(scope="module")
def translator(letters_run) -> Translator:
    """A model that was trained with protected spans."""
    return Translator.load(letters_run)


@pytest.mark.parametrize("options", [{}, {"split": "always"}, {"beam_size": 2}, {"protect": False}], ids=str)
def test_no_translation_depends_on_a_draft(translator, options):
    options = translator.options.changed(**options) if options else None
    texts = ["a b c", "Abc def. Ghi jkl.", "", "a https://a.b/c b", "f"]
    expected = translator.translate(texts, options)
    found = [translation.text for translation in expected]
    for drafts in (found, found[::-1], ["Xy zx. Yz xy."] * 5, [""] * 5, [text + "\ud800" for text in texts]):
        assert translator.translate(texts, options, drafts=drafts) == expected


def test_the_segments_of_a_text_get_their_parts_of_the_draft(translator):
    options = SearchOptions(split="always")
    (text,) = translator.segment(
        ["The dog runs. The cat sleeps. They eat."], options, drafts=["A dog runs. A cat sleeps."]
    )
    decoded = [translator.tokenizers.tgt.decode(list(segment.draft_ids)) for segment in text.segments]
    assert decoded == ["A dog runs.", "A cat sleeps.", ""]


def test_a_span_of_the_draft_is_the_placeholder_that_the_model_writes(translator):
    (text,) = translator.segment(["a https://a.b/c b"], drafts=["x https://a.b/c y"])
    tokens = translator.tokenizers.tgt.tokens(text.segments[0].draft_ids)
    assert text.segments[0].protected.spans == ["https://a.b/c"]
    assert "https" not in "".join(tokens)


def test_a_line_is_found_again_and_a_changed_one_is_expected_in_its_place():
    drafts = Drafts(["a", "b", "c", "d", "b"], ["A", "B", "C", "D", "B2"])
    assert drafts.of(["new", "b", "changed"]) == ["A", "B", "C"]
    assert drafts.of(["d", "b", "e"]) == ["D", "B2", ""]
    blank = Drafts(["a", "", "b", "", "c", "", "d"], ["A", "", "B", "", "C", "", "D"])
    assert blank.of(["a", "", "b", "", "changed", "", "d"]) == ["A", "", "B", "", "C", "", "D"]
    assert Drafts(["a"], ["A"]).of(["a", "b", "c"]) == ["A", "", ""]


def test_files_of_different_lengths_are_refused(tmp_path):
    (tmp_path / "old.src").write_text("a\nb\n")
    (tmp_path / "old.tgt").write_text("A\n")
    with pytest.raises(DataError, match=r"old.tgt:? ?.*1 lines, but old.src has 2"):
        Drafts.read(tmp_path / "old.src", tmp_path / "old.tgt")
