"""What is found is what a translation must keep, no more; in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.text.spans import find_spans, replace_spans


def found(text: str, not_these=()) -> list[str]:
    return [text[span.start : span.end] for span in find_spans(text, not_these)]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://a.org/b?c=d#e, or (http://x.de/y_(z)).", ["https://a.org/b?c=d#e", "http://x.de/y_(z)"]),
        ("访问https://a.org/路径。", ["https://a.org/"]),
        ("www.example.com and www. alone", ["www.example.com"]),
        ("Write to a.b+c@mail.example.org.", ["a.b+c@mail.example.org"]),
        ("Hello {name}, {0} of {{ total }} for ${cost}!", ["{name}", "{0}", "{{ total }}", "${cost}"]),
        ("%1$s has %d of %5.2f %(kind)s and %s.", ["%1$s", "%d", "%5.2f", "%(kind)s", "%s"]),
        ("50%de remise, 100 % sure, 5%", []),
        ("<b>bold</b> <br/> <a href=\"x\" id='y'>link</a>", ["<b>", "</b>", "<br/>", "<a href=\"x\" id='y'>", "</a>"]),
        ("a < b and c > d, 1<2", []),
        ("Tom &amp; Anna &#39; R&D;", ["&amp;", "&#39;"]),
        ("</s> <pad> ⟦1⟧", ["</s>", "<pad>", "⟦1⟧"]),
        ("alone: ftp://a.org", ["ftp://a.org"]),
        ("alone: www.a.org", ["www.a.org"]),
        ("alone: a@b.org", ["a@b.org"]),
        ("alone: <br>", ["<br>"]),
        ("alone: &lt;", ["&lt;"]),
        ("alone: {a}", ["{a}"]),
        ("alone: %d", ["%d"]),
        ("alone: ⟦12⟧", ["⟦12⟧"]),
    ],
)
def test_what_is_to_be_kept_is_found(text, spans):
    assert found(text) == spans


def test_symbols_of_the_model_are_no_spans():
    assert found("<de> <b>x", not_these=("<de>",)) == ["<b>"]


@given(st.text(alphabet=" .,:/@%{}<>&;$()[]=\"'abwhtp0⟦⟧字\n", max_size=80) | st.text())
def test_spans_ascend_and_putting_them_back_gives_the_text(text):
    spans = find_spans(text)
    ends = [0, *(span.end for span in spans)]
    assert all(end <= span.start < span.end for end, span in zip(ends, spans, strict=False))
    assert replace_spans(text, spans, [text[span.start : span.end] for span in spans]) == text


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a@", "http://", "<a ", "<a b=", "{", "${", "%", "%1", "&a", "www.", "⟦", "a@a."]
)
def test_the_time_is_linear_in_the_text(unit):
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    find_spans(text)
    assert time.process_time() - start < 5.0
