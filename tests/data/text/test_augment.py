"""Changed pairs are still translations of each other, and hold what must not be changed letter by letter."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from nmt.base.languages import Direction
from nmt.config.data import AUGMENT_KINDS, AugmentConfig
from nmt.data.text.augment import CopyMaker, PairChanger, TextPair, Typist, neighbors
from nmt.data.text.spans import Span, find_spans

DE_EN, EN_ZH, TR_EN = Direction("de", "en"), Direction("en", "zh"), Direction("tr", "en")
PAIR = TextPair("Die Straße ist naß.", "The street's wet.")
SYMBOLS = ("<2de>", "<web>", "⟦1⟧", "⟦2⟧", "kWh")

TEXT = "Please send the signed document to info@example.com before the next meeting {name}."


def change(kind, pair, direction=DE_EN, seed=1):
    return PairChanger(direction, SYMBOLS, 0.3).change(kind, TextPair(*pair), random.Random(seed))


@pytest.mark.parametrize(
    ("kind", "direction", "pair", "changed"),
    [
        ("upper", DE_EN, PAIR, ("DIE STRASSE IST NASS.", "THE STREET'S WET.")),
        ("upper", EN_ZH, ("See you", "再见OK"), ("SEE YOU", "再见OK")),
        ("upper", Direction("zh", "en"), ("再见,OK", "Bye"), ("再见,OK", "Bye")),
        ("upper", TR_EN, ("iyi ışık", "good light"), ("İYİ IŞIK", "GOOD LIGHT")),
        ("title", DE_EN, PAIR, ("Die Straße Ist Naß.", "The Street's Wet.")),
        ("title", DE_EN, ("das iPhone", "the iPhone"), ("Das iPhone", "The iPhone")),
    ],
)
def test_a_change_does_what_it_says(kind, direction, pair, changed):
    assert change(kind, pair, direction) == changed


@pytest.mark.parametrize("kind", ["typos", "noise"])
def test_mistakes_are_made_in_the_source_alone(kind):
    changed = [change(kind, PAIR, seed=seed) for seed in range(50)]
    assert {pair.tgt for pair in changed} == {PAIR.tgt}
    assert len({pair.src for pair in changed}) > 20


@pytest.mark.parametrize("kind", AUGMENT_KINDS)
def test_tags_stay_in_front_and_no_span_is_changed(kind):
    spans = ("https://example.com/a?b=c", "⟦1⟧", "{name}", "<b>", "me@example.com", "kWh")
    src = "<2de> <web> Click on ⟦1⟧ at https://example.com/a?b=c for {name} and me@example.com now 5 kWh <b> please!"
    tgt = "Jetzt ⟦1⟧ bei https://example.com/a?b=c für {name} und me@example.com 5 kWh <b> bitte!"
    for seed in range(60):
        changed = change(kind, (src, tgt), Direction("en", "de"), seed)
        assert changed != (src, tgt)
        assert changed.src.startswith("<2de> <web> ")
        assert changed.src.count("<2de>") == changed.src.count("<web>") == 1
        assert all(span in text for span in spans for text in changed)


@pytest.mark.parametrize("kind", AUGMENT_KINDS)
def test_no_change_leaves_a_side_empty(kind):
    for pair in (("a", "b"), ("你", "you"), ("?", "!"), ("⟦1⟧", "⟦1⟧")):
        for seed in range(20):
            assert all(text.strip() for text in change(kind, pair, seed=seed))


def test_copies_for_the_tokenizer_come_in_the_shares_of_the_configuration():
    copies = CopyMaker(AugmentConfig(upper=0.2, title=0.1), [PairChanger(DE_EN, (), 0.1)], seed=3)
    made = [copy for number in range(4000) if (copy := copies.copy_of(number, 0, PAIR))]
    upper = sum(copy.src.isupper() for copy in made)
    assert abs(upper - 800) < 100
    assert abs(len(made) - upper - 400) < 80
    off = CopyMaker(AugmentConfig(), [PairChanger(DE_EN, (), 0.1)], seed=3)
    assert not any(off.copy_of(number, 0, PAIR) for number in range(100))


def test_an_unknown_kind_is_a_bug_of_the_caller():
    with pytest.raises(ValueError, match="no kind of change: lower"):
        change("lower", PAIR)


@pytest.mark.parametrize("kind", ["typos", "noise"])
def test_long_texts_do_not_take_the_square_of_their_length(kind):
    for text in (" " * 100_000 + "a", "{name} word " * 5000, "." * 100_000):
        assert all(map(str.strip, change(kind, (text, text))))


def distance(one: str, two: str) -> int:
    """Edits from `one` to `two`; exchanging two neighbors is one edit (Damerau 1964)."""
    rows = [list(range(len(two) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and (a, one[i - 2]) == (two[j - 2], b):
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


@pytest.mark.parametrize("language", ["en", "de", "ru"])
def test_a_typo_is_one_edit_in_a_word(language):
    text = {"ru": "Собака бежит по траве"}.get(language, "The dogs are running over the grass")
    typist = Typist(language, 1e-9)  # so that one word is changed
    changed = {typist.add_typos(text, [], random.Random(seed)) for seed in range(300)}
    assert len(changed) > 60
    assert all(distance(text, other) == 1 for other in changed - {text})
    assert all(sum(a != b for a, b in zip(text.split(), other.split(), strict=True)) <= 1 for other in changed)


def test_about_the_given_share_of_words_has_a_typo():
    text = " ".join(["elephant"] * 1000)
    words = Typist("en", 0.2).add_typos(text, [], random.Random(1)).split()
    assert 150 < sum(word != "elephant" for word in words) < 250


@pytest.mark.parametrize("change", ["add_typos", "add_noise"])
def test_protected_spans_are_never_touched(change):
    typist, spans = Typist("en", 0.9), find_spans(TEXT)
    assert len(spans) == 2
    for seed in range(200):
        changed = getattr(typist, change)(TEXT, spans, random.Random(seed))
        assert "info@example.com" in changed
        assert "{name}" in changed
        assert changed != TEXT


def test_text_without_spaces_loses_or_swaps_characters():
    text = "我明天去北京看朋友。"
    typist = Typist("zh", 1e-9)
    for seed in range(200):
        changed = typist.add_typos(text, [], random.Random(seed))
        assert not Counter(changed) - Counter(text)
        assert len(text) - len(changed) in (0, 1)
        assert changed.endswith("。")


def test_noise_swaps_repeats_and_drops_words_and_adds_spaces_and_punctuation():
    text = "one of the biggest dogs"
    seen = {Typist("en", 1e-9).add_noise(text, [], random.Random(seed)) for seed in range(400)}
    swapped, repeated, dropped = "of one the biggest dogs", "one of of the biggest dogs", "one the biggest dogs"
    assert {swapped, repeated, dropped, "one of biggest dogs", "one  of the biggest dogs"} <= seen
    assert any("," in other for other in seen)
    assert text not in seen


def test_noise_leaves_out_no_word_that_the_translation_needs():
    for text in ("Tom reads three old books today", "我明天去北京看朋友。"):
        letters = Counter(filter(str.isalpha, text)) - Counter("old")
        for seed in range(300):
            language = "en" if text.isascii() else "zh"
            assert not letters - Counter(Typist(language, 0.3).add_noise(text, [], random.Random(seed)))


def test_text_without_words_stays():
    typist = Typist("en", 0.5)
    for text in ("", "...", " "):
        assert typist.add_typos(text, [], random.Random(1)) == text
    assert typist.add_noise("<b>", [Span(0, 3)], random.Random(1)) == "<b>"


def test_neighbors_are_those_of_the_keyboard():
    assert neighbors("en")["g"] == "fh"
    assert "z" in neighbors("de-AT")["t"]
    assert "y" in neighbors("en")["t"]
    assert neighbors("fr")["a"] == "z"
