"""A draft, such as the translation of a similar text, makes the search faster, and changes nothing."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.translation.request import Request


@pytest.fixture(scope="module")
def translator(letters_run) -> Translator:
    """A model that was trained with protected spans."""
    return Translator.load(letters_run)


@pytest.mark.parametrize("options", [{}, {"split": "always"}, {"beam_size": 2}, {"protect": False}], ids=str)
def test_no_translation_depends_on_a_draft(translator, options):
    request = Request(translator.options.changed(**options))
    texts = ["a b c", "Abc def. Ghi jkl.", "", "a https://a.b/c b", "f"]
    expected = translator.translate_block(texts, request)
    found = [translation.text for translation in expected]
    for drafts in (found, found[::-1], ["Xy zx. Yz xy."] * 5, [""] * 5, [text + "\ud800" for text in texts]):
        segmented = translator.segment(texts, request)
        for text, draft in zip(segmented, drafts, strict=True):
            translator.segmenter.add_draft(text, draft)
        assert translator.translate_segmented(segmented, request) == expected


def test_a_span_of_the_draft_is_the_placeholder_that_the_model_writes(translator):
    (text,) = translator.segment(["a https://a.b/c b"], Request(translator.options))
    translator.segmenter.add_draft(text, "x https://a.b/c y")
    tokens = translator.tokenizers.tgt.tokens(text.segments[0].draft_ids)
    assert text.segments[0].protected.spans == ["https://a.b/c"]
    assert "https" not in "".join(tokens)
