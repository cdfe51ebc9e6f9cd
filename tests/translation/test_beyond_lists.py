"""What happens to what no list of nmt has: it is read from the text, kept as it is, refused, or flagged.

| list | where | what is not in it | tests |
|---|---|---|---|
| languages, their scripts and names | base/languages.txt | langcodes; else unknown | test_languages |
| languages in several scripts | base/languages.py | compared with the people whom langcodes counts | test_languages |
| letters of scripts | data/check/scripts.py | are letters of an unknown script | test_scripts |
| scripts without spaces | base/languages.py | the text tells, if the script is unknown | test_languages |
| languages with a dotted capital I | base/languages.py | a text that has ı tells | here |
| regions of Chinese | base/languages.py | no form is expected | here |
| tokenizers of BLEU | base/languages.py | the script of the references tells | test_languages |
| patterns of spans, symbols, brackets | data/text/spans.py | every symbol and pair | test_spans |
| letters and marks that are folded | data/text/characters.py | stays as it is | here |
| words for numbers and for a minus | data/text/numbers.py | digits are compared; a sign is reported | here |
| units | data/text/numbers.py | are words, and translated | here |
| keyboards | data/text/augment.py | only letters of the text | here |
| abbreviations | translation/sentences.py | a sentence may end there; nothing is lost | here |
| marks of prose | translation/protect.py | any other is compared with the output | test_placeholders |
| brackets around a text | data/text/characters.py | is a span, or goes to the model | here |
| marks of the items of a list | translation/sentences.py | the list is one sentence; a lost number is reported | here |
| words of consonants alone | translation/sentences.py | of other letters: a sentence may end there | here |
| months after a number in a list | translation/sentences.py | an item may begin there; nothing is lost | here |
| marks that end a sentence | translation/sentences.py | the text stays whole, or is cut at a word | here |
"""

from __future__ import annotations

import random
import unicodedata

import pytest

from nmt.base.languages import Direction, chinese_form, uppercase
from nmt.data.text.augment import Typist
from nmt.data.text.characters import AS_READ, AS_WRITTEN, edges
from nmt.data.text.numbers import DIGITS, has_words, numbers_in, wrong_numbers
from nmt.data.text.spans import find_spans
from nmt.translation.sentences import sentence_starts
from nmt.translation.split import TextSplitter
from tests.quick import examples

UNKNOWN = ("qaa", "xx", "unbekannt", "tlh", "digits")


@pytest.mark.parametrize("code", [*UNKNOWN, "crh", "gag", "tt-Latn"])
def test_a_text_with_a_dotless_i_has_a_dotted_capital_whatever_its_language(code):
    assert uppercase("ılık içki", code) == "ILIK İÇKİ"
    assert uppercase("tilki", "tr") == "TİLKİ"
    assert uppercase("tilki", "en") == "TILKI"


@pytest.mark.parametrize("code", ["zh", "zh-MY", "zh-US", "zh-XX", *UNKNOWN])
def test_no_form_of_chinese_is_expected_of_a_region_that_has_none(code):
    assert chinese_form(code) is None


def test_reading_deletes_only_what_nobody_sees():
    """Of every character of Unicode: it stays, is composed, or becomes a letter, a space, a hyphen or an apostrophe."""
    every = examples(16, 1)  # ideographs, syllables and characters for private use, by day
    for code in range(0x110000):
        character = chr(code)
        if code > 0x3400 and code % every and unicodedata.category(character) in ("Lo", "Co"):
            continue
        if unicodedata.category(character) in ("Cf", "Cs", "Cn", "Cc", "Zs", "Zl", "Zp"):
            continue
        is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
        if is_selector or code in (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0):  # a joiner, and fillers
            continue
        for rule in (AS_WRITTEN,) if code == 0x640 else (AS_READ, AS_WRITTEN):  # a stretched line in Arabic
            read = rule(f"x{character}x")
            assert len(read) >= 3 or unicodedata.combining(character), ascii(character)
            plain = unicodedata.normalize("NFC", f"x{character}x")
            assert read == plain or read == unicodedata.normalize("NFKC", f"x{character}x") or read in ("x-x", "x'x")


@pytest.mark.parametrize("mark", "ªʰⒶ🄰①²½㎏℃Ⅳ…‼々〇ー、。：！？「」《》")
def test_a_character_that_only_resembles_letters_is_not_folded(mark):
    assert AS_READ(f"a{mark}b") == f"a{mark}b"


@pytest.mark.parametrize("zero", [c for c in map(chr, range(0x20000)) if unicodedata.decimal(c, None) == 0])
def test_digits_of_every_script_are_numbers(zero):
    digits = "".join(chr(ord(zero) + digit) for digit in (1, 2, 0))
    assert numbers_in(f"x {digits} y") == ["120"]
    assert wrong_numbers(f"x {digits} y", "x y", Direction("qaa", "qab"), {DIGITS}) == ["120"]


@pytest.mark.parametrize("word", ["eksi", "miinus", "mínus", "לא", "음", "qwx"])
@pytest.mark.parametrize("code", ["tr", "fi", "ko", *UNKNOWN])
def test_a_minus_in_words_that_nmt_does_not_know_is_reported(word, code):
    assert wrong_numbers(f"{word} 15 x", "-15 y", Direction(code, "en"), {DIGITS})


@pytest.mark.parametrize("unit", ["Gigawattstunden", "Liter", "Std.", "oz.", "parsec", "キロ", "公里", "лет", "कि.मी."])
def test_a_unit_that_no_rule_knows_is_a_word_that_is_translated(unit):
    assert has_words(f"5 {unit}")


@pytest.mark.parametrize(
    "text", ["ეს არის კარგი დღე დღეს აქ", "ይህ ጥሩ ቀን ነው ዛሬ እዚህ", "இது ஒரு நல்ல நாள் இன்று", "今日はとても良い日です"]
)
@pytest.mark.parametrize("code", UNKNOWN)
def test_typing_mistakes_of_an_unknown_language_have_only_the_letters_of_the_text(text, code):
    for seed in range(20):
        typed = Typist(code, 0.5).add_typos(text, [], random.Random(seed))
        assert {*typed} <= {*text}


@pytest.mark.parametrize("code", [*UNKNOWN, "de", "zh", "my"])
@pytest.mark.parametrize(
    "text",
    [
        "Abkrzg. Müller kam. Qwxz. Smith auch.",
        "Dies ist Abk.5 und Xyz.7b. Ende",
        "a꧉ b꧉ c꩝ d᭟ e᪩ f⸮ g⁇ h၊ i⳹ j𐩖 k",
        "ein Satz⁘ noch einer ⁙ und so ⸰ weiter",
        "x" * 300 + " " + "ꯃ꯭ " * 50,
    ],
)
def test_abbreviations_and_marks_that_nmt_does_not_know_lose_nothing(text, code):
    lead, parts = TextSplitter(text, [], code, 1).split(20, lambda start, end: end - start)
    assert lead + "".join(text[part.start : part.end] + part.space for part in parts) == text
    assert all(part.end - part.start <= 20 for part in parts)
    assert [*sentence_starts(text, code)] == sorted({*sentence_starts(text, code)})


@pytest.mark.parametrize("pair", ["⟨⟩", "⦃⦄", "❨❩", "⸨⸩", "〖〗", "⟦⟧"])
def test_brackets_that_no_rule_puts_around_a_text_are_spans_or_stay_around_it(pair):
    text = f"{pair[0]}Ein Hund läuft.{pair[1]}"
    kept = [text[span.start : span.end] for span in find_spans(text)]
    assert edges(text) in (("", ""), (*pair,))
    assert kept == [*pair]


@pytest.mark.parametrize("month", ["Sierpnia", "Tammikuuta", "Ağustos", "Января", "Mawrth"])
@pytest.mark.parametrize("code", [*UNKNOWN, "pl", "fi", "tr", "ru"])
def test_a_month_that_no_rule_knows_loses_nothing(month, code):
    text = f"Am 1. {month} und am 2. {month} war er da. Am 3. {month} nicht."
    lead, parts = TextSplitter(text, [], code, 1).split(40, lambda start, end: end - start)
    assert lead + "".join(text[part.start : part.end] + part.space for part in parts) == text


@pytest.mark.parametrize(
    "marks", ["l) m) n)", "21. 22. 23.", "α) β) γ)", "xi. xii. xiii.", "1: 2: 3:", "אׄ. בׄ. גׄ.", "一) 二) 三)"]
)
@pytest.mark.parametrize("code", [*UNKNOWN, "en", "de"])
def test_a_list_with_marks_that_no_rule_orders_loses_nothing(marks, code):
    text = " ".join(f"{mark} tea" for mark in marks.split())
    lead, parts = TextSplitter(text, [], code, 1).split(100, lambda start, end: end - start)
    assert lead + "".join(text[part.start : part.end] + part.space for part in parts) == text
    assert wrong_numbers(f"{text} 2", "tea", Direction(code, "zh"), {DIGITS}) != []


@pytest.mark.parametrize("text", ["A bɔ dugu kɔ. Musa nana.", "Ọ gbọ́. Wọ́n lọ.", "Ƙxʼ tsʼxʔ. Naro", "وو. Asa"])
@pytest.mark.parametrize("code", UNKNOWN)
def test_a_word_of_letters_that_are_no_known_consonants_may_end_a_sentence(text, code):
    assert sentence_starts(text, code) == [text.index(". ") + 2]
