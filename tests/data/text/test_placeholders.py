"""Placeholders of a training pair stand for the same on both sides, and each once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.base.languages import Direction
from nmt.data.read.pairs import SentencePair
from nmt.data.text.placeholders import copy_with_placeholders, insert_placeholders
from nmt.data.text.spans import ANY_PLACEHOLDER, PLACEHOLDERS

ENGLISH_GERMAN = Direction("en", "de")
PAIR = SentencePair(
    "On 12 May Anna went to Paris, and all was well.", "Am 12. Mai fuhr Anna nach Paris, und alles war gut.", 3
)


def copied(pair: SentencePair, seed: int = 1, languages=("en", "de")) -> SentencePair | None:
    return copy_with_placeholders(pair, Direction(*languages), share=1.0, seed=seed)


def test_spans_on_both_sides_are_numbered_in_the_order_of_the_source():
    pair = SentencePair("Open {file} at http://a.de with %s", "Mit %s http://a.de auf {file}", 1)
    assert insert_placeholders(pair)[:3] == ("Open ⟦1⟧ at ⟦2⟧ with ⟦3⟧", "Mit ⟦3⟧ ⟦2⟧ auf ⟦1⟧", 1)


def test_a_span_on_one_side_only_stays_and_repeated_ones_go_in_order():
    pair = SentencePair("<b>a</b> {x} {x} {y}", "{x} <i>b</i> {x} {x}", 1)
    assert insert_placeholders(pair)[:3] == ("<b>a</b> ⟦1⟧ ⟦2⟧ {y}", "⟦1⟧ <i>b</i> ⟦2⟧ {x}", 1)


def test_spans_past_the_last_placeholder_stay():
    text = " ".join(f"{{n{i}}}" for i in range(10))
    assert insert_placeholders(SentencePair(text, text, 1)).tgt == " ".join([*PLACEHOLDERS, "{n8}", "{n9}"])


def test_a_copy_is_a_function_of_pair_line_and_seed():
    assert copied(PAIR) == copied(PAIR)
    assert len({copied(PAIR, seed=seed) for seed in range(40)}) > 20
    other_line = SentencePair(PAIR.src, PAIR.tgt, 4)
    assert copied(other_line) != copied(PAIR)


def test_the_share_of_copies_is_as_asked():
    pairs = [SentencePair(f"a {i} b", f"c {i} d", i) for i in range(2000)]
    made = sum(copy_with_placeholders(p, ENGLISH_GERMAN, share=0.25, seed=1) is not None for p in pairs)
    assert made == pytest.approx(500, abs=60)
    assert all(copy_with_placeholders(p, ENGLISH_GERMAN, share=0.0, seed=1) is None for p in pairs)


def test_a_pair_that_has_placeholders_is_not_copied():
    assert all(copied(SentencePair("⟦1⟧ a b", "⟦1⟧ c", 1), seed=seed) is None for seed in range(20))


def test_a_shared_number_or_name_is_replaced_on_both_sides():
    replaced = [pair for seed in range(200) if (pair := copied(PAIR, seed=seed))]
    assert any("Paris" not in pair.src and "Paris" not in pair.tgt for pair in replaced)
    assert all(("Paris" in pair.src) == ("Paris" in pair.tgt) for pair in replaced)


def test_all_placeholders_are_met_in_a_corpus():
    met = Counter(
        symbol
        for line in range(400)
        if (pair := copied(SentencePair(PAIR.src, PAIR.tgt, line)))
        for symbol in ANY_PLACEHOLDER.findall(pair.src)
    )
    assert set(met) == set(PLACEHOLDERS)
    assert met[PLACEHOLDERS[-1]] > 5


texts = st.text(alphabet="ab 12.。，字é", min_size=1, max_size=30).map(str.strip).filter(bool)


codes = st.sampled_from(["de", "zh", "qaa"])


@given(texts, texts, st.integers(0, 1000), codes, codes)
def test_each_placeholder_stands_once_on_both_sides_numbered_from_one(src, tgt, seed, src_code, tgt_code):
    pair = copied(SentencePair(src, tgt, 1), seed, (src_code, tgt_code))
    if pair is not None:
        used = ANY_PLACEHOLDER.findall(pair.src)
        assert used == list(PLACEHOLDERS[: len(used)])
        assert sorted(ANY_PLACEHOLDER.findall(pair.tgt)) == used


@pytest.mark.parametrize("languages", [("zh", "ja"), ("qaa", "qab")])  # the text tells of unknown languages
def test_without_spaces_none_are_added(languages):
    pair = SentencePair("我住在北京。", "東京です。", 1)
    for seed in range(30):
        made = copied(pair, seed, languages)
        assert made is None or (ANY_PLACEHOLDER.sub("", made.src), ANY_PLACEHOLDER.sub("", made.tgt)) == pair[:2]
