"""Each rule on pairs that break it and on pairs that only look so."""

from __future__ import annotations

import pytest

from nmt.config.filters import Filters
from nmt.data.check.checker import Checker
from nmt.data.check.profile import Expectations, LengthModel, Profile, SideWords
from nmt.data.check.rules import RULES

WIDE = Profile(lengths=LengthModel(1.0, 100.0))  # any ratio of lengths is usual
GERMAN = ["der hund läuft über die straße und ein mann sieht zu"] * 5
ENGLISH = ["the dog runs across the street and a man is watching"] * 5


def rules(src: str, tgt: str, languages: str = "de-en", **expected: object) -> set[str]:
    src_lang, tgt_lang = languages.split("-", 1)
    checker = Checker(Expectations(src_lang, tgt_lang, **{"profile": WIDE, **expected}))
    return checker.check([src], [tgt]).rules[0]


SOUND = [
    ("Ein Hund läuft.", "A dog runs.", "de-en"),
    ("New York City", "New York City", "de-en"),
    ("42", "42", "de-en"),
    ("Frau Dr. Anna-Maria Lübke", "Frau Dr. Anna-Maria Lübke", "de-en"),
    ("Tom bought Mary some juice.", "Tom帮Mary买了点果汁。", "en-zh"),
    ("I use Twitter.", "我用Twitter。", "en-zh"),
    ("“Non”, dit-il : « L'ÉTÉ »…", "“No”, he said: «SUMMER»…", "fr-en"),
    ("NÃO À VIOLÊNCIA", "NO TO VIOLENCE", "pt-en"),
    ("Das kostet 1.000,50 €.", "It costs €1,000.50.", "de-en"),
    ("Die Stadt hat 100 000 Einwohner.", "The city has 100,000 inhabitants.", "de-en"),
    ("Zwei Hunde", "2 dogs", "de-en"),
    ("Source", "Source", "en-fr"),
    ("Text", "Text", "de-en"),
    ("Deutsch", "German", "de-en"),
    ("Quelltext", "source text", "de-en"),
    ("I was born on October 10th, 1972.", "我在一九七二年十月十日出生。", "en-zh"),
    ("Er ist zwanzig Jahre alt.", "He is 20 years old.", "de-en"),
    ("नमस्ते \u200dदुनिया", "Hello world", "hi-en"),
    ("Kosten: 100 % der Summe", "Costs: 100% of the sum", "de-en"),
    ("#1 in den Charts", "#1 in the charts", "de-en"),
    ("Der β-Faktor ist 3 µm.", "The β factor is 3 µm.", "de-en"),
    ("Где мой дом?", "Where is my house?", "ru-en"),
    ("Где мой дом?", "Where is my house?", "tyv-en"),
    ("Где мой дом?", "Where is my house?", "qaa-en"),  # of an unknown script
    ("རྫོང་ཁ་ཡིན།", "It is Dzongkha.", "dzo_Tibt-en"),
    ("Wo ist er?“", "Where is he?”", "de-en"),
]


@pytest.mark.parametrize(("src", "tgt", "languages"), SOUND)
def test_a_sound_pair_breaks_no_rule(src, tgt, languages):
    assert rules(src, tgt, languages) == set()


BROKEN = [
    ("empty", "Ein Hund.", "", "de-en"),
    ("too_short", "…", "A dog.", "de-en"),
    ("untranslated", "Ein Hund läuft über die Straße.", "Ein Hund läuft über die Straße.", "de-en"),
    ("untranslated", "Ein Hund läuft über die Straße.", "Ein Hund läuft über die STRASSE!", "de-en"),
    ("untranslated", "我不知道他在哪里。", "我不知道他在哪里。", "zh-en"),
    ("sides_swapped", "我不知道。", "I do not know.", "en-zh"),
    ("wrong_script", "I do not know.", "I have no idea.", "en-zh"),
    ("wrong_script", "I do not know.", "I have no idea.", "dzo-en"),
    ("wrong_script", "Where is it?", "這個國家沒有問題。", "en-zh-Hans"),
    ("wrong_script", "Where is it?", "这个国家没有问题。", "en-zh-TW"),
    ("mixed_scripts", "Ein gutеr Hund.", "A good dog.", "de-en"),  # a Cyrillic е
    ("mojibake", "Ein schÃ¶ner Hund.", "A nice dog.", "de-en"),
    ("mojibake", "Ein Hund.", "The dogâ€™s tail.", "de-en"),
    ("mojibake", "ï»¿Ein Hund.", "A dog.", "de-en"),
    ("mojibake", "Ein sch\ufffdner Hund.", "A nice dog.", "de-en"),
    ("mojibake", "Где?", "Ð“Ð´Ðµ?", "ru-ru"),
    ("control_characters", "Ein\x07 Hund.", "A dog.", "de-en"),
    ("control_characters", "Ein Hund.", "A dog\ue000.", "de-en"),
    ("control_characters", "Ein Hund.", "\ufeffA dog.", "de-en"),
    ("markup", "Ein <b>Hund</b>.", "A <b>dog</b>.", "de-en"),
    ("markup_mismatch", "Ein <b>Hund</b>.", "A dog.", "de-en"),
    ("number_mismatch", "Es war 1989.", "It was 1998.", "de-en"),
    ("number_mismatch", "Es war einmal.", "It was 1998.", "de-en"),
    ("span_mismatch", "Hallo {name}!", "Hello {user}!", "de-en"),
    ("span_mismatch", "Siehe https://example.org/a.", "See there.", "de-en"),
    ("punctuation_mismatch", "Wo ist er?", "He is there.", "de-en"),
    ("spreadsheet", "#REF!", "A dog.", "de-en"),
    ("spreadsheet", "Ein Hund.", "=SUM(A1:A9)", "de-en"),
    ("header_row", "German", "English", "de-en"),
    ("header_row", "Source text", "Target text", "de-en"),
]


@pytest.mark.parametrize(("name", "src", "tgt", "languages"), BROKEN)
def test_a_broken_pair_breaks_its_rule(name, src, tgt, languages):
    assert name in rules(src, tgt, languages)


def test_every_rule_is_tested_here_or_beside():
    beside = {"too_long", "length_ratio", "duplicate", "near_duplicate", "repeated_source", "other_side"}
    beside |= {"wrong_language", "shifted", "overlap", "near_overlap", "near_twin"}
    assert {name for name, *_ in BROKEN} | beside == set(RULES)


def test_a_threshold_of_the_configuration_moves_a_rule():
    assert "too_long" not in rules("a" * 101, "b")
    assert "too_long" in rules("a" * 101, "b", filters=Filters(too_long=100))
    assert "too_short" in rules("abc", "b", filters=Filters(too_short=2))


def test_the_usual_ratio_of_the_corpus_decides_on_lengths():
    sparse = Profile(lengths=LengthModel.from_lengths([30, 45, 60, 90] * 9, [10, 16, 19, 30] * 9))
    assert "length_ratio" not in rules("a" * 60, "b" * 20, profile=sparse)
    assert "length_ratio" in rules("a" * 60, "b" * 60, profile=sparse)


def test_the_words_of_the_corpus_tell_which_side_a_sentence_belongs_to():
    words = SideWords.from_words([text.split() for text in GERMAN], [text.split() for text in ENGLISH])
    profile = Profile(lengths=WIDE.lengths, side_words=words)
    src, tgt = "Der Hund sieht die Straße und ein Mann läuft.", "A man is watching the dog and runs across the street."
    assert rules(src, tgt, profile=profile) == set()
    assert rules(tgt, src, profile=profile) == {"sides_swapped"}
    assert rules("Ein Hund läuft.", "Der Mann sieht über die Straße.", profile=profile) == {"other_side"}


def test_a_source_of_the_held_out_sets_is_found_exactly_and_nearly():
    held_out = {"held_out": frozenset({"Ein Hund."}), "held_out_folded": frozenset({"einhund"})}
    assert rules("Ein Hund.", "One dog.", **held_out) == {"overlap", "near_twin"}
    assert rules("ein hund", "One dog.", **held_out) == {"near_overlap", "near_twin"}
    assert rules("Dein Hund?", "Your dog?", **held_out) == {"near_twin"}
    assert rules("ein Huhn", "One dog.", **held_out) == set()


def test_a_text_in_a_third_language_is_found_and_a_name_is_not():
    pytest.importorskip("py3langid", reason="needs the extra langid")
    text = "Un homme marche dans la rue avec son chien noir."
    assert "wrong_language" in rules("Ein Mann geht mit seinem Hund.", text, identify_languages=True)
    assert rules("Anna Schmidt", "Anna Schmidt", identify_languages=True) == set()
    assert rules("Ein Mann geht mit seinem Hund spazieren.", "A man walks his dog.", identify_languages=True) == set()
