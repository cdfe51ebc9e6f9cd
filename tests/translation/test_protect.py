"""Spans are masked and put back; what does not come back exactly once is told."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.base.languages import Direction
from nmt.data.text.numbers import wrong_numbers
from nmt.data.text.spans import ANY_PLACEHOLDER, find_spans
from nmt.translation.protect import Protected, lost_marks, lost_spans, marks_left_out, without_parts

TEXT = "See <b>http://a.org</b>, {name}."
MASKED = Protected.from_spans(TEXT, find_spans(TEXT))


def test_spans_are_numbered_in_their_order():
    assert MASKED.source == "See ⟦1⟧⟦2⟧⟦3⟧, ⟦4⟧."
    assert MASKED.spans == ["<b>", "http://a.org", "</b>", "{name}"]
    assert Protected.from_spans("⟦2⟧ x", find_spans("⟦2⟧ x")) == (["", " x"], ["⟦2⟧"], True)


def test_they_come_back_in_any_order():
    assert MASKED.restore("⟦4⟧: ⟦1⟧⟦2⟧⟦3⟧!") == ("{name}: <b>http://a.org</b>!", [])


def test_what_is_missing_or_twice_is_told_and_strangers_go():
    assert MASKED.restore("⟦4⟧ ⟦1⟧ ⟦8⟧ ⟦2⟧ ⟦2⟧ x") == ("{name} <b> http://a.org x", ["http://a.org", "</b>"])
    assert Protected.from_spans("a", []).restore("b ⟦1⟧ c") == ("b c", [])


def test_a_text_of_spans_alone_needs_no_translation():
    assert Protected.from_spans("<b> {x}", find_spans("<b> {x}")).is_only_spans()
    assert not MASKED.is_only_spans()
    assert not Protected.from_spans("", []).is_only_spans()


def test_spans_past_the_last_placeholder_stay_as_they_are():
    text = " ".join(f"{{n{i}}}" for i in range(10))
    assert Protected.from_spans(text, find_spans(text)).source.endswith("⟦8⟧ {n8} {n9}")


def test_a_model_that_reads_spans_as_they_are_may_have_any_number_of_them():
    text = " ".join(f"a {{n{i}}}" for i in range(10))
    protected = Protected.from_spans(text, find_spans(text), masks=False)
    assert protected.source == text
    assert protected.join(["b"] * 11) == text.replace("a", "b") + "b"


def test_a_placeholder_that_is_a_symbol_of_the_user_is_none_of_a_span():
    text = "{a} ⟦5⟧ x"
    protected = Protected.from_spans(text, find_spans(text, {"⟦5⟧"}))
    assert protected.restore("⟦1⟧ ⟦5⟧ y") == ("{a} ⟦5⟧ y", [])


def test_placeholders_that_somebody_wrote_stay_as_often_as_they_were_written():
    text = " ".join(["a ⟦1⟧"] * 10)
    protected = Protected.from_spans(text, find_spans(text), masks=False)
    assert protected.restore(text) == (text, [])
    assert protected.restore(f"{text} ⟦1⟧ ⟦2⟧")[0] == text
    assert protected.join(["b"] * 10 + [""]) == text.replace("a", "b")
    assert len(Protected.from_spans(text, find_spans(text)).pieces()) == 9


@given(st.text(alphabet="ab {}<>/%s⟦12⟧@.c", max_size=60))
def test_a_masked_text_restored_is_the_text(text):
    masked = Protected.from_spans(text, find_spans(text))
    if not ANY_PLACEHOLDER.search(text):
        assert masked.restore(masked.source) == (text, [])
    assert len(masked.between) == len(masked.spans) + 1


def test_spans_are_kept_from_running_into_their_neighbors():
    masked = Protected.from_spans("http://a.org %d", find_spans("http://a.org %d"))
    assert masked.restore("⟦1⟧⟦2⟧") == ("http://a.org %d", [])
    assert masked.restore("x⟦1⟧word, ⟦2⟧") == ("x http://a.org word, %d", [])
    assert masked.restore("⟦1⟧, ⟦2⟧。") == ("http://a.org, %d。", [])


@pytest.mark.parametrize(
    ("source", "core", "translation", "joined"),
    [
        ("I am from China™.", "I am from China.", "我来自中国。", "我来自中国™。"),
        ("Do you drink ☕?", "Do you drink?", "你喝吗？", "你喝吗 ☕？"),
        ("I see {x}!", "I see!", "Ich sehe", "Ich sehe {x}!"),
        ("♪ ™.", "", "", "♪ ™."),
    ],
)
def test_the_mark_that_ends_a_text_behind_a_span_is_that_of_the_translation(source, core, translation, joined):
    protected = Protected.from_spans(source, find_spans(source))
    pieces = protected.pieces()
    assert pieces[-2].core == core
    assert protected.join([*("" for _ in pieces[:-2]), translation, ""]) == joined


@pytest.mark.parametrize("marks", ["-", "- ", "."])
def test_a_long_row_of_marks_between_words_is_divided_in_no_time(marks):
    text = f"a {marks * 100_000} b"
    started = time.process_time()
    assert Protected([text], []).pieces() == [("", text, "")]
    assert time.process_time() - started < 8


def calls_of(work):
    """Return how many functions of Python and C `work` calls."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += "call" in event

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("lost", "source", "whole"),
    [
        (["x_y", "Don", "t", "x", "y", "x_y.z"], "x_y.z Don't", ["Don", "t", "x_y.z"]),
        (["x", "x_y"], "x_y and x", ["x", "x_y"]),  # it stands alone, too
        (["%s", "%s", "a%sb"], "a%sb", ["a%sb"]),
        (["a-b", "b-c"], "a-b-c", ["a-b"]),
        (["not", "here"], "other", ["not", "here"]),
    ],
)
def test_what_is_within_something_lost_is_not_named_again(lost, source, whole):
    assert without_parts(lost, source) == whole


def test_words_are_lost_if_the_output_has_them_less_often_but_not_those_that_targets_lack():
    unknown = ["sudo", "sudo", "npm"]
    assert lost_marks("sudo npm sudo", "sudo npm", unknown=unknown) == ["sudo"]
    assert lost_marks("sudo npm sudo", "sudo", unknown=unknown) == ["sudo", "npm"]
    assert lost_marks("sudo npm R&D", "", left_out={"npm", "R&D"}, unknown=unknown) == ["sudo"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    "form", ["<a{0}>x</a{0}>", "{{n{0}}}", "http://a.org/{0}", "%s", "a{0}@b.org", "5 $", "(x{0})", "{0}"]
)
def test_thousands_of_spans_and_marks_are_compared_in_linear_time(form, kept):
    def compare(number):
        text = " y ".join(form.format(each) for each in range(1000, 1000 + number))
        output = text if kept else "y"
        spans = [text[span.start : span.end] for span in find_spans(text)]
        lost_spans(spans, output)
        wrong_numbers(text, output, Direction("de", "en"))
        marks_left_out(text, output)

    compare(10)  # compiles patterns
    assert calls_of(lambda: compare(800)) < 5 * calls_of(lambda: compare(200))
