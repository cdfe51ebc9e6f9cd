"""Texts side by side, the words that differ marked."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluation.differences import Span, find_differences


def test_words_that_the_other_text_does_not_have_are_marked():
    first, second = find_differences("A dog runs fast.", "A brown dog runs.")
    assert [span.text for span in first if span.differs] == [" fast"]
    assert [span.text for span in second if span.differs] == [" brown"]


def test_chinese_differs_by_characters():
    assert find_differences("他爱茶。", "他喜欢茶。") == (
        [Span("他", False), Span("爱", True), Span("茶。", False)],
        [Span("他", False), Span("喜欢", True), Span("茶。", False)],
    )


def test_equal_and_empty_texts():
    assert find_differences("a b", "a b") == ([Span("a b", False)], [Span("a b", False)])
    assert find_differences("", "a") == ([], [Span("a", True)])


@settings(max_examples=50)
@given(st.text("ab 我\n."), st.text("ab 我\n."))
def test_spans_joined_are_the_texts_and_shared_spans_are_alike(first, second):
    spans = find_differences(first, second)
    assert ["".join(span.text for span in side) for side in spans] == [first, second]
    shared = ["".join(span.text for span in side if not span.differs) for side in spans]
    assert shared[0] == shared[1]
