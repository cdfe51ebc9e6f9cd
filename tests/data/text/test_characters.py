"""One spelling for characters that look alike."""

from __future__ import annotations

import unicodedata

import pytest

from nmt.data.text.characters import AS_READ, AS_WRITTEN, CharacterRule, edges
from nmt.data.text.spans import Span, find_spans

PLAIN = "Ein Mädchen läuft über grünes Gras, und fünf Männer schaffen es."


@pytest.mark.parametrize(
    "text",
    [
        unicodedata.normalize("NFD", PLAIN),
        PLAIN.replace("aff", "aﬀ"),
        PLAIN.replace(" ", "\u00a0"),
        PLAIN.replace(" ", "\u202f"),
        PLAIN.replace(" ", "\u2009"),
        PLAIN.replace(" ", "\u205f"),
        PLAIN.replace(" ", "\u3000"),
        *(PLAIN.replace(" ", space) for space in "\u1680\v\f\x1c\x1f"),
        *(
            PLAIN.replace("ä", f"ä{mark}")
            for mark in "\0\x01\b\x7f\x80\u115f\u1160\u17b4\u0640\U0001bca0\U0001d173\U000e0001\U000e0041"
            "\u00ad\u180e\u3164\uffa0\u200b\u200c\u200d\u2060\u2063\ufeff\u200e\u202a\u2066\u034f\ufe0f"
        ),
        f"\ufeff\u200e{PLAIN}\u200f",
        "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalnum() else c for c in PLAIN),
        PLAIN.replace("Ein", "𝓔𝓲𝓷").replace("es", "eſ"),
    ],
    ids=ascii,
)
def test_what_looks_like_plain_text_is_read_as_plain_text(text):
    assert AS_READ(text) == PLAIN
    assert AS_READ.read(text, []).text == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian
        "क्\u200dष क्\u200cष",  # Hindi
        "ក\u200bខ",  # Khmer
        "ไทย\u200bไทย",
        "ᠨᠠᠭᠤᠷ\u180eᠠ",  # Mongolian
        "👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 🏴\U000e0067\U000e007f",
        "我来自中国，你呢？（是）《书》「好」！：；、。…ー",
        "½ mc² H₂O Ⅳ ① ㎏ ™ ”—…",
        "a\r\nb",
    ],
)
def test_what_a_script_needs_and_what_means_something_else_stays(text):
    assert AS_READ(text) == AS_READ.read(text, []).text == text
    assert AS_WRITTEN(text) == text


@pytest.mark.parametrize("apostrophe", "’‘´＇")
def test_an_apostrophe_within_a_word_is_read_as_one_of_ascii(apostrophe):
    written = "aujourd’hui l’été don’t O’Brien’s 1990’s".replace("’", apostrophe)
    plain = "aujourd'hui l'été don't O'Brien's 1990's"
    for text in (written, unicodedata.normalize("NFD", written)):
        assert AS_READ(text) == AS_READ.read(text, []).text == plain
        assert AS_READ.read(f"{text} {{x’y}}", [Span(len(text) + 1, len(text) + 6)]).text == f"{plain} {{x’y}}"
    assert AS_WRITTEN(written) == written
    learned = CharacterRule(AS_READ.pattern, frozenset(apostrophe))
    assert learned(written) == learned.read(written + " ﬁ", []).text.removesuffix(" fi") == written


@pytest.mark.parametrize(
    "text", ["‘so’ he said", "the dogs’ tails", "rock ’n’ roll", "1’000 francs", "«’t»", "Hawaiʻi ʼa"]
)
def test_quotation_marks_and_apostrophes_at_the_end_of_words_stay(text):
    assert AS_READ(text) == AS_READ.read(text + " ﬁ", []).text.removesuffix(" fi") == text


def test_half_width_katakana_and_arabic_forms_are_letters():
    assert AS_READ("ｶﾞｷﾞ") == AS_READ.read("ｶﾞｷﾞ", []).text == "ガギ"
    assert AS_READ("\ufefb") == "لا"


def test_a_translation_keeps_full_width_and_the_spaces_of_its_typography():
    written = "«\u00a0Ah\u202f!\u00a0» 10\u202f000\u00a0€, ＪＲ １２。"
    assert AS_WRITTEN(written) == written
    assert AS_WRITTEN("un\u00a0ﬁlm\u00ad a\u0300") == "un film à"


def test_a_model_reads_letters_in_full_width_as_it_has_learned_them():
    rule = CharacterRule(AS_READ.pattern, frozenset("１２ abcäü"))
    assert rule("１２３") == "１２3"
    assert rule("a\u0308\u00ada\u00a0b") == "äa b"


def test_a_model_that_has_learned_only_decomposed_text_reads_it_so():
    rule = CharacterRule(AS_READ.pattern, frozenset("aou \u0308"))
    assert rule("a\u0308 o\u0308") == "a\u0308 o\u0308"
    assert rule("a\u0308é") == "äé"  # é is unknown, so its text is not what the model has learned


def test_protected_spans_stay_as_they_are_and_places_lead_back():
    text = unicodedata.normalize("NFD", "Ä \u00ad{nä} über\u200b http://x.de/ä ﬁx")
    spans = find_spans(text)
    read = AS_READ.read(text, spans)
    assert [read.text[slice(*span)] for span in read.spans] == [text[slice(*span)] for span in spans]
    assert read.text.startswith("Ä {n")
    assert read.text.endswith(" fix")
    assert len(read.places) == len(read.text) + 1
    assert list(read.places) == sorted(read.places)
    at = read.text.index("über")
    assert text[read.places[at] : read.places[at + 4]] == "u\u0308ber\u200b"
    assert AS_READ.read("１２\u00a0%", [Span(0, 2)]).text == "１２\u00a0%"  # without letters, there is nothing to read


def test_reading_takes_linear_time_and_changes_nothing_twice():
    hostile = "e" + "\u0301" * 20_000 + "\u200b" * 20_000 + "ｶﾞ" * 5_000
    once = AS_READ.read(hostile, []).text
    assert AS_READ(once) == once
    for text in (PLAIN, "𝓔\u00ad１\u3000ﬁ\u2011", "a\u200cب\u200cc"):
        assert AS_READ(AS_READ(text)) == AS_READ(text)
        assert AS_WRITTEN(AS_WRITTEN(text)) == AS_WRITTEN(text)


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("♪ Ein Hund ♪", ("♪ ", " ♪")),
        ("(seufzt)", ("(", ")")),
        ("♪ (singt) ♪", ("♪ (", ") ♪")),
        ("• → Ein Mann.", ("• → ", "")),
        ("Ein Mann 😀👍🏽", ("", " 😀👍🏽")),
        ("👨\u200d👩\u200d👧 Familie", ("👨\u200d👩\u200d👧 ", "")),
        ("【新】", ("【", "】")),
        ("Ein Mann (alt)", ("", "")),
        ("(a) oder (b)", ("", "")),
        ("„Ja“, sagt er.", ("", "")),
        ("⟦1⟧ Hunde", ("", "")),
        ("♪ ♪", ("", "")),
        ("", ("", "")),
    ],
)
def test_symbols_and_brackets_are_around_the_words_of_a_text(text, around):
    assert edges(text) == around
