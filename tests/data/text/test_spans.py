"""What is found is what a translation must keep, no more; in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.text.spans import find_spans, has_letters, number_differences, numbers_in, replace_spans


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


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "3.4.2024",
        "€ 1.000,00",
        "2 + 2 = 4",
        "🎉🎉",
        "?!",
        "+49 (0)30 123-45",
        "10:30",
        "½",
        "№ 5",
        "٤٢",
        "%",
        "①",
        "",
    ],
)
def test_a_text_of_digits_and_signs_has_no_letters(text):
    assert not has_letters(text)


@pytest.mark.parametrize("text", ["4 kg", "B12", "二十", "四", "x = 2", "é", "ก", "42nd"])
def test_letters_of_any_script_are_letters(text):
    assert has_letters(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,000 and 1.000.000 and 1 000", ["1000", "1000000", "1000"]),
        ("on 3.4.2024 at 10:30", ["2024", "10", "30"]),
        ("3.50 or 12,75", ["50", "12", "75"]),
        ("one 7 and 5 more", []),
        ("٤٢ and ４２", ["42", "42"]),
        ("007, 1234567", ["007", "1234567"]),
        ("1,0000", ["0000"]),
        ("", []),
    ],
)
def test_the_numbers_of_a_text_are_its_groups_of_two_digits_and_more(text, numbers):
    assert numbers_in(text) == numbers


def test_missing_and_new_numbers_are_listed_once_each():
    assert number_differences(numbers_in("12 34 34"), numbers_in("34 56 56")) == ["12", "56"]
    assert number_differences(numbers_in("1,000 men, 12 and 12"), numbers_in("12 Männer von 1.000")) == []
