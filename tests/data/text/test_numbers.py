"""Numbers are what they are worth, however a language writes them."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import pytest

from nmt.base.languages import Direction
from nmt.data.text import numbers
from nmt.data.text.numbers import (
    DIGITS,
    has_letters,
    has_words,
    number_differences,
    number_words,
    numbers_in,
    wrong_numbers,
)

DE_EN = Direction("de", "en")


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


@pytest.mark.parametrize("text", ["10 km", "2x", "5 kg", "100 km/h", "20 °C", "4 GB", "3 m²", "10 км", "12"])
def test_units_are_no_words(text):
    assert not has_words(text)


@pytest.mark.parametrize("text", ["10 pm", "5th", "1st", "5 Std.", "3 Mrd", "10 min later", "v 5", "It is 5", "2 Hz."])
def test_abbreviations_and_prepositions_are_words(text):
    assert has_words(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,000 and 1.000.000 and 1 000 and 1’000", ["1000", "1000000", "1000", "1000"]),
        ("1.234,56 or 1,234.56 or 0.125", ["1234.56", "1234.56", "0.125"]),
        ("on 3.4.2024 at 10:30", ["3", "4", "2024", "10", "30"]),
        ("am 3.5. um 7.30 Uhr", ["3", "5", "7.30"]),
        ("3.50 or 12,75", ["3.50", "12.75"]),
        ("Was 10.00. Now 7.50.", ["10.00", "7.50"]),
        ("0,5 -5 (-7) −8 5-10 minus 9", ["0.5", "-5", "-7", "-8", "5", "10", "-9"]),
        ("零下5度", ["-5"]),
        ("–5 or ‑6 or －7, 5–10, Mo–Fr", ["-5", "-6", "-7", "5", "10"]),
        (".5 mg, a .22, ... 5", ["0.5", "0.22", "5"]),
        ("12,34,567 and 1,50,000.50 and १२,३४,५६७", ["1234567", "150000.50", "1234567"]),
        ("1，234，567 and 1\u2009000", ["1234567", "1000"]),
        ("+1 30 123 4567, 5 000 6 000", ["1", "30", "123", "4567", "5000", "6000"]),
        ("1½ or ½ or ¾", ["1.5", "0.5", "0.75"]),
        ("one 7 and 5 more", ["7", "5"]),
        ("٤٢ and ４２ and ४२ and ٣٫٥", ["42", "42", "42", "3.5"]),
        ("007, 1234567", ["007", "1234567"]),
        ("+49 (0)30 1234-56", ["49", "0", "30", "1234", "56"]),
        ("m² x₂ ①", []),
        ("", []),
    ],
)
def test_the_numbers_of_a_text_have_sign_and_decimals(text, numbers):
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("source", "output", "missing", "added"),
    [
        ("12 34 34", "34 56 56", ["12", "34"], ["56", "56"]),
        ("1,000 men, 12 and 12", "12 Männer von 1.000", ["12"], []),
        ("von 1990 bis 2000", "from 2000 to 1990", ["1990", "2000"], []),
        ("am 20.11.2020", "2020年11月20日", ["20", "11"], []),
        ("7.30 Uhr", "7:30", [], []),
        ("2,00 Euro", "2 euros", [], []),
        ("1,80 m", "1.8 m", [], []),
        ("-0,5", "0.5", ["-0.5"], ["0.5"]),
        ("2 of 150", "150 of 2", [], []),
    ],
)
def test_numbers_are_compared_one_by_one_and_in_their_order(source, output, missing, added):
    assert number_differences(numbers_in(source), numbers_in(output)) == (missing, added)


@pytest.mark.parametrize(
    ("source", "output", "wrong"),
    [
        ("Nehmen Sie 0,5 mg.", "Take 5 mg.", ["0.5", "5"]),
        ("Es sind -5 °C.", "It is 5 °C.", ["-5", "5"]),
        ("Es sind -5 °C.", "It is minus 5 °C.", []),
        ("Es sind –5 °C.", "It is 5 °C.", ["-5", "5"]),
        ("Nimm .5 mg.", "Take 5 mg.", ["0.5", "5"]),
        ("2 Hunde und 5 Kinder", "2 dogs", ["5"]),
        ("2 Hunde und 5 Kinder", "2 dogs and five children", []),
        ("2 Hunde und 5 Kinder", "5 dogs and 2 children", ["2", "5"]),
        ("2 Hunde", "3 dogs", ["2", "3"]),
        ("2 Hunde", "two dogs", []),
        ("2 Hunde", "both dogs", []),
        ("im 2. Stock", "on the second floor", []),
        ("zwei Hunde", "2 dogs", []),
        ("zwölf Hunde", "12 dogs", []),
        ("12 Hunde", "twelve dogs", []),
        ("12 Hunde", "dogs", ["12"]),
        ("Hunde", "2 dogs", []),
        ("1.000 Hunde, 0,5 l", "1,000 dogs, 0.5 l", []),
    ],
)
def test_wrong_numbers_are_those_that_the_other_side_has_neither_as_number_nor_as_word(source, output, wrong):
    assert wrong_numbers(source, output, DE_EN, {DIGITS}) == wrong


def test_a_missing_digit_is_wrong_if_the_model_learned_to_keep_digits():
    assert wrong_numbers("2 Hunde", "dogs", DE_EN, {DIGITS}) == []
    assert wrong_numbers("2 Hunde", "dogs", DE_EN) == ["2"]
    assert wrong_numbers("2 Hunde", "two dogs", DE_EN) == []


@pytest.mark.parametrize(
    ("source", "output", "wrong"),
    [
        ("It costs $5.", "很贵。", ["5"]),
        ("It costs 5 €.", "很贵。", ["5"]),
        ("It is 5°C.", "很冷。", ["5"]),
        ("He has 5% of it.", "他有一些。", ["5"]),
        ("I want 5 kg of tea.", "我要茶。", ["5"]),
        ("It costs $5.", "五美元。", []),
        ("5 cats cost a lot.", "猫很贵。", []),
        ("Version 1.5 % of 25", "25", ["1.5"]),
    ],
)
def test_a_digit_that_measures_something_is_never_missing(source, output, wrong):
    assert wrong_numbers(source, output, Direction("en", "zh"), {DIGITS}) == wrong


@pytest.mark.parametrize(
    "source",
    [
        *("Er wohnt in der Hauptstr. 5.", "Zimmer 5 ist frei.", "Am Gleis 5 steht ein Zug.", "Nr. 5 läuft."),
        *("See page 5, please.", "I am at gate 5.", "He lives at 5 Main Street.", "(see chapter 5)", "Part 5"),
        *("Квартира 5 свободна.", "第5章很长。", "他住在5号。"),
        *("siehe Abb. 5a", "um 5pm im Park", "at 5 pm"),
    ],
)
def test_a_digit_that_is_a_name_is_missing_unless_the_output_has_it_as_a_word(source):
    assert wrong_numbers(source, "A man sleeps.", DE_EN, {DIGITS}) == ["5"]
    assert wrong_numbers(source, "A man sleeps in five.", DE_EN, {DIGITS}) == []


@pytest.mark.parametrize(
    ("source", "missing"), [("Nr. 4.2.1 gilt.", "421"), ("Es steht 3:2.", "32"), ("24/7 offen", "7"), ("7-8 Uhr", "78")]
)
def test_digits_that_are_parts_of_something_are_missing(source, missing):
    found = wrong_numbers(source, "24 dogs sleep.", DE_EN, {DIGITS})
    assert set(missing) <= set("".join(found))
    assert wrong_numbers(source, source, DE_EN, {DIGITS}) == []


@pytest.mark.parametrize("source", ["5 Hunde", "Es sind 5 Hunde.", "the 5 dogs", "im 5. Stock", "有5只狗。"])
def test_a_digit_that_counts_may_be_missing(source):
    assert wrong_numbers(source, "A dog sleeps.", DE_EN, {DIGITS}) == []


def test_words_count_in_languages_without_spaces_and_with_endings():
    assert wrong_numbers("2 dogs and 3 cats", "两只狗和3只猫", Direction("en", "zh-Hans")) == []
    assert wrong_numbers("2 dogs and 3 cats", "3只猫", Direction("en", "zh")) == ["2"]
    assert wrong_numbers("2 dogs", "с двумя собаками", Direction("en", "ru")) == []


def test_in_a_language_without_known_words_a_digit_is_missing_only_by_what_the_model_learned():
    assert number_words("wo") == {}
    assert wrong_numbers("2 chiens et 5 chats", "2 xaj", Direction("fr", "wo"), {DIGITS}) == []
    assert wrong_numbers("2 chiens et 5 chats", "2 xaj", Direction("fr", "wo")) == ["5"]
    assert wrong_numbers("2 chiens", "3 xaj", Direction("fr", "wo"), {DIGITS}) == ["2", "3"]


def test_each_language_has_thirteen_words_under_each_of_its_codes():
    lines = (Path(numbers.__file__).parent / "number_words.txt").read_text(encoding="utf-8").splitlines()[1:]
    for codes, *words in map(str.split, lines):
        assert len(words) == 13, codes
        assert all(number_words(code)["5"] == words[5].split("/") for code in codes.split("/")), codes
        assert normalize("NFC", "".join(words)) == "".join(words), codes


@pytest.mark.parametrize(
    ("code", "output"),
    [
        *(("no", "tre menn"), ("nob_Latn", "tre menn"), ("bn", "তিনজন মানুষ"), ("ben_Beng", "তিনজন মানুষ")),
        *(("ta", "மூன்று பேர்"), ("sw", "wanaume watatu"), ("swh_Latn", "wanaume watatu"), ("bs", "tri čovjeka")),
        *(("ur", "تین آدمی"), ("ka", "სამი კაცი"), ("zho_Hans", "三个人"), ("cmn", "三个人"), ("in", "tiga orang")),
        *(("my", "လူသုံးယောက်"), ("km", "បុរសបីនាក់"), ("yo", "ọkùnrin mẹ́ta"), ("az", "üç kişi"), ("cy", "tri dyn")),
    ],
)
def test_a_digit_may_be_a_word_in_a_language_by_any_of_its_codes(code, output):
    direction = Direction("en", code)
    assert wrong_numbers("The 3 men are here.", output, direction) == []
    assert wrong_numbers("gate 4 is open", output, direction) == ["4"]
