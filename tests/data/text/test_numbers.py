"""Numbers are compared by their digits, whatever separates them; letters are those of any script."""

from __future__ import annotations

import pytest

from nmt.data.text.numbers import has_letters, number_differences, numbers_in


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
